//! Reductions and scans of one dimension.

use flopsmith_protocol::Technique;

use super::super::ast::{
    E, Kernel, S, Step, Ty, add, at, min, n, range, real, run, set, stride, v,
};
use super::{directed, labels, unrolled};

pub fn all() -> Vec<Kernel> {
    let mut found = dots();
    found.extend(sums());
    found
}

fn dots() -> Vec<Kernel> {
    let mut found = Vec::new();
    let term = |i: E| at("x", [i.clone()]) * at("y", [i]);
    let result = || at("result", [n(0)]);
    let mut push = |about: String, body: Vec<S>, labels| {
        found.push(Kernel {
            kind: "scan",
            problem: "dot",
            about,
            body,
            labels,
        });
    };
    let whole = |start: Vec<S>, loops: Vec<S>, total: E| {
        let mut body = start;
        body.extend(loops);
        body.push(set(result(), total));
        body
    };
    let zero = |name: &str| real(name, Some(E::R("0.0")));
    let plain = |to: E| vec![run("i", to, vec![add(v("sum"), term(v("i")))])];
    push(
        "plain".into(),
        whole(vec![zero("sum")], plain(v("n")), v("sum")),
        labels([]),
    );
    let down = S::For(
        "i".into(),
        v("n") - n(1),
        n(0),
        Step::Down,
        vec![add(v("sum"), term(v("i")))],
    );
    push(
        "backwards".into(),
        whole(vec![zero("sum")], vec![down], v("sum")),
        labels([]),
    );
    for (text, technique) in [
        ("omp simd reduction(+:sum)", Technique::Simd),
        ("omp parallel for reduction(+:sum)", Technique::Openmp),
        ("GCC unroll 8", Technique::Unroll),
    ] {
        let loops = directed(text, plain(v("n")));
        push(
            text.into(),
            whole(vec![zero("sum")], loops, v("sum")),
            labels([(true, technique)]),
        );
    }
    for factor in [2, 4, 8] {
        let loops = unrolled("i", n(0), v("n"), factor, &|i, _| {
            vec![add(v("sum"), term(i))]
        });
        push(
            format!("unroll {factor}"),
            whole(vec![zero("sum")], loops, v("sum")),
            labels([(true, Technique::Unroll)]),
        );
        let sums: Vec<String> = (0..factor).map(|c| format!("sum{c}")).collect();
        let loops = unrolled("i", n(0), v("n"), factor, &|i, c| {
            vec![add(v(&sums[c]), term(i))]
        });
        let total = sums.iter().map(v).reduce(|a, b| a + b).expect("sums");
        push(
            format!("partial sums {factor}"),
            whole(sums.iter().map(|s| zero(s)).collect(), loops, total),
            labels([(true, Technique::Unroll), (true, Technique::PartialSums)]),
        );
        let terms = (0..factor)
            .map(|d| term(v("i") + n(d)))
            .reduce(|a, b| a + b)
            .expect("terms");
        let end = v("n") - super::super::ast::bin("%", v("n"), n(factor));
        let loops = vec![
            super::int("whole", Some(end)),
            stride("i", n(0), v("whole"), n(factor), vec![add(v("sum"), terms)]),
            range("i", v("whole"), v("n"), vec![add(v("sum"), term(v("i")))]),
        ];
        push(
            format!("terms {factor}"),
            whole(vec![zero("sum")], loops, v("sum")),
            labels([(true, Technique::Unroll)]),
        );
        // A strip of partial sums in a small array is no copy of a statement.
        let lanes = n(factor);
        let strip = vec![
            S::Array(Ty::Double, "lane".into(), vec![lanes.clone()], false),
            run(
                "l",
                lanes.clone(),
                vec![set(at("lane", [v("l")]), E::R("0.0"))],
            ),
            stride(
                "i",
                n(0),
                v("n") - n(factor - 1),
                lanes.clone(),
                vec![run(
                    "l",
                    lanes.clone(),
                    vec![add(at("lane", [v("l")]), term(v("i") + v("l")))],
                )],
            ),
            zero("sum"),
            run("l", lanes, vec![add(v("sum"), at("lane", [v("l")]))]),
        ];
        push(
            format!("strip {factor}"),
            whole(strip, vec![], v("sum")),
            labels([(true, Technique::PartialSums)]),
        );
    }
    for size in [256, 4096] {
        for factor in [1, 4] {
            let end = min(v("ii") + v("BLOCK"), v("n"));
            let inner = unrolled("i", v("ii"), end, factor, &|i, _| {
                vec![add(v("part"), term(i))]
            });
            let mut body = vec![zero("part")];
            body.extend(inner);
            body.push(add(v("sum"), v("part")));
            let loops = vec![
                S::Const("BLOCK".into(), size),
                stride("ii", n(0), v("n"), v("BLOCK"), body),
            ];
            push(
                format!("blocks {size} unroll {factor}"),
                whole(vec![zero("sum")], loops, v("sum")),
                labels([
                    (true, Technique::CacheBlocking),
                    (factor > 1, Technique::Unroll),
                ]),
            );
        }
    }
    let ahead = vec![
        S::Prefetch(at("x", [v("i") + n(64)])),
        add(v("sum"), term(v("i"))),
    ];
    push(
        "prefetch".into(),
        whole(vec![zero("sum")], vec![run("i", v("n"), ahead)], v("sum")),
        labels([(true, Technique::Prefetch)]),
    );
    found
}

fn sums() -> Vec<Kernel> {
    let mut found = Vec::new();
    let source = |i: E| at("in", [i]);
    let target = |i: E| at("out", [i]);
    let sum = |name: &str| S::Let(Ty::Element, name.into(), Some(n(0)));
    let step = |i: E| vec![add(v("sum"), source(i.clone())), set(target(i), v("sum"))];
    let mut push = |about: String, body: Vec<S>, labels| {
        found.push(Kernel {
            kind: "scan",
            problem: "prefix_sum",
            about,
            body,
            labels,
        });
    };
    push(
        "plain".into(),
        vec![sum("sum"), run("i", v("n"), step(v("i")))],
        labels([]),
    );
    push(
        "in memory".into(),
        vec![
            set(target(n(0)), source(n(0))),
            range(
                "i",
                n(1),
                v("n"),
                vec![set(target(v("i")), target(v("i") - n(1)) + source(v("i")))],
            ),
        ],
        labels([]),
    );
    for factor in [2, 4, 8] {
        let mut body = vec![sum("sum")];
        body.extend(unrolled("i", n(0), v("n"), factor, &|i, _| step(i)));
        push(
            format!("unroll {factor}"),
            body,
            labels([(true, Technique::Unroll)]),
        );
        // In memory, each element from the one before it.
        let one = |i: E| vec![set(target(i.clone()), target(i.clone() - n(1)) + source(i))];
        let mut body = vec![set(target(n(0)), source(n(0)))];
        body.extend(unrolled("i", n(1), v("n"), factor, &|i, _| one(i)));
        push(
            format!("in memory unroll {factor}"),
            body,
            labels([(true, Technique::Unroll)]),
        );
    }
    for size in [128, 1024] {
        for factor in [1, 4] {
            // The sum of a block first, and then the elements.
            let end = min(v("ii") + v("BLOCK"), v("n"));
            let inner = unrolled("i", v("ii"), end.clone(), factor, &|i, _| step(i));
            let body = vec![
                S::Const("BLOCK".into(), size),
                sum("sum"),
                stride("ii", n(0), v("n"), v("BLOCK"), inner),
            ];
            push(
                format!("blocks {size} unroll {factor}"),
                body,
                labels([
                    (true, Technique::CacheBlocking),
                    (factor > 1, Technique::Unroll),
                ]),
            );
        }
        // Sums within blocks, then the offsets of the blocks.
        let end = min(v("ii") + v("BLOCK"), v("n"));
        let body = vec![
            S::Const("BLOCK".into(), size),
            sum("before"),
            stride(
                "ii",
                n(0),
                v("n"),
                v("BLOCK"),
                vec![
                    sum("sum"),
                    range("i", v("ii"), end.clone(), step(v("i"))),
                    range("k", v("ii"), end, vec![add(target(v("k")), v("before"))]),
                    add(v("before"), v("sum")),
                ],
            ),
        ];
        push(
            format!("two passes {size}"),
            body,
            labels([(true, Technique::CacheBlocking)]),
        );
    }
    let unrolled = "GCC unroll 4";
    let mut body = vec![sum("sum")];
    body.extend(directed(unrolled, vec![run("i", v("n"), step(v("i")))]));
    push(unrolled.into(), body, labels([(true, Technique::Unroll)]));
    found
}
