//! Elements that are computed on their own, and interactions of all with all.

use flopsmith_protocol::Technique;

use super::super::ast::{E, Kernel, S, Ty, add, at, min, n, range, real, run, set, stride, v};
use super::rows::{call, over};
use super::{directed, labels, unrolled};

pub fn all() -> Vec<Kernel> {
    [black_scholes(), nbody()].concat()
}

fn black_scholes() -> Vec<Kernel> {
    let mut found = Vec::new();
    let price = |i: E, c: usize| -> Vec<S> {
        let name = |x: &str| format!("{x}{c}");
        let of = |array: &str| at(array, [i.clone()]);
        let under = |d: E| {
            over(
                call("erfc", n(0) - over(d, E::R("1.4142135623730951"))),
                E::R("2.0"),
            )
        };
        vec![
            real(&name("dev"), Some(E::R("0.3") * call("sqrt", of("years")))),
            real(
                &name("done"),
                Some(over(
                    call("log", over(of("spot"), of("strike"))) + E::R("0.065") * of("years"),
                    v(name("dev")),
                )),
            ),
            real(
                &name("due"),
                Some(of("strike") * call("exp", E::R("-0.02") * of("years"))),
            ),
            set(
                of("call"),
                of("spot") * under(v(name("done")))
                    - v(name("due")) * under(v(name("done")) - v(name("dev"))),
            ),
            set(of("put"), of("call") - of("spot") + v(name("due"))),
        ]
    };
    let mut push = |about: String, body: Vec<S>, labels| {
        found.push(Kernel {
            kind: "rows",
            problem: "black_scholes",
            about,
            body,
            labels,
        });
    };
    push(
        "plain".into(),
        vec![run("i", v("n"), price(v("i"), 0))],
        labels([]),
    );
    for (text, technique) in [
        ("omp simd", Technique::Simd),
        ("omp parallel for", Technique::Openmp),
        ("GCC unroll 2", Technique::Unroll),
    ] {
        push(
            text.into(),
            directed(text, vec![run("i", v("n"), price(v("i"), 0))]),
            labels([(true, technique)]),
        );
    }
    for factor in [2, 4] {
        push(
            format!("unroll {factor}"),
            unrolled("i", n(0), v("n"), factor, &price),
            labels([(true, Technique::Unroll)]),
        );
    }
    for size in [64, 1024] {
        push(
            format!("blocks {size}"),
            vec![
                S::Const("BLOCK".into(), size),
                stride(
                    "ii",
                    n(0),
                    v("n"),
                    v("BLOCK"),
                    vec![range(
                        "i",
                        v("ii"),
                        min(v("ii") + v("BLOCK"), v("n")),
                        price(v("i"), 0),
                    )],
                ),
            ],
            labels([(true, Technique::CacheBlocking)]),
        );
        // Intermediate results of a block pass through buffers; they are no copies of arguments.
        let buffer = |name: &str| at(name, [v("k")]);
        let of = |array: &str| at(array, [v("ii") + v("k")]);
        push(
            format!("stages {size}"),
            vec![
                S::Const("BLOCK".into(), size),
                S::Array(Ty::Double, "root".into(), vec![n(size)], false),
                S::Array(Ty::Double, "due".into(), vec![n(size)], false),
                stride(
                    "ii",
                    n(0),
                    v("n"),
                    v("BLOCK"),
                    vec![
                        super::int("count", Some(min(v("BLOCK"), v("n") - v("ii")))),
                        run(
                            "k",
                            v("count"),
                            vec![set(buffer("root"), E::R("0.3") * call("sqrt", of("years")))],
                        ),
                        run(
                            "k",
                            v("count"),
                            vec![set(
                                buffer("due"),
                                of("strike") * call("exp", E::R("-0.02") * of("years")),
                            )],
                        ),
                        run(
                            "k",
                            v("count"),
                            vec![
                                set(of("call"), of("spot") * buffer("root") - buffer("due")),
                                set(of("put"), of("call") - of("spot") + buffer("due")),
                            ],
                        ),
                    ],
                ),
            ],
            labels([(true, Technique::CacheBlocking), (true, Technique::Fission)]),
        );
    }
    found
}

fn nbody() -> Vec<Kernel> {
    let mut found = Vec::new();
    let axes = ["x", "y", "z"];
    // The pull of body `j` on body `i`, with the sums of copy `c`.
    let pull = |i: E, j: E, own: &str, c: usize| -> Vec<S> {
        let name = |x: &str| format!("{x}{own}{c}");
        let mut all: Vec<S> = axes
            .iter()
            .map(|a| {
                real(
                    &name(&format!("d{a}")),
                    Some(at(*a, [j.clone()]) - at(*a, [i.clone()])),
                )
            })
            .collect();
        let squares = axes
            .iter()
            .map(|a| v(name(&format!("d{a}"))) * v(name(&format!("d{a}"))))
            .reduce(|a, b| a + b)
            .expect("three axes");
        all.push(real(&name("square"), Some(squares + E::R("0.01"))));
        all.push(real(
            &name("pull"),
            Some(over(
                at("mass", [j.clone()]),
                v(name("square")) * call("sqrt", v(name("square"))),
            )),
        ));
        all
    };
    let sum = |a: &str, of: &str| format!("s{a}{of}");
    let zero = |of: &str| {
        axes.iter()
            .map(|a| real(&sum(a, of), Some(E::R("0.0"))))
            .collect::<Vec<_>>()
    };
    let store = |i: E, of: &str| {
        axes.iter()
            .map(|a| set(at(format!("a{a}"), [i.clone()]), v(sum(a, of))))
            .collect::<Vec<_>>()
    };
    let update = |i: E, j: E, of: &str, c: usize| {
        let mut all = pull(i, j, of, c);
        all.extend(axes.iter().map(|a| {
            add(
                v(sum(a, of)),
                v(format!("pull{of}{c}")) * v(format!("d{a}{of}{c}")),
            )
        }));
        all
    };
    let mut push = |about: String, body: Vec<S>, labels| {
        found.push(Kernel {
            kind: "rows",
            problem: "nbody",
            about,
            body,
            labels,
        });
    };
    let whole = |inner: Vec<S>| {
        let mut row = zero("p");
        row.extend(inner);
        row.extend(store(v("i"), "p"));
        vec![run("i", v("n"), row)]
    };
    let plain = || vec![run("j", v("n"), update(v("i"), v("j"), "p", 0))];
    push("plain".into(), whole(plain()), labels([]));
    push(
        "simd".into(),
        whole(directed("omp simd", plain())),
        labels([(true, Technique::Simd)]),
    );
    push(
        "parallel".into(),
        directed("omp parallel for", whole(plain())),
        labels([(true, Technique::Openmp)]),
    );
    for factor in [2, 4] {
        let inner = unrolled("j", n(0), v("n"), factor, &|j, c| update(v("i"), j, "p", c));
        push(
            format!("unroll {factor}"),
            whole(inner),
            labels([(true, Technique::Unroll)]),
        );
        // Several bodies at a time.
        let names: Vec<String> = (0..factor).map(|c| format!("q{c}")).collect();
        let mut row: Vec<S> = names.iter().flat_map(|of| zero(of)).collect();
        let each = names
            .iter()
            .enumerate()
            .flat_map(|(c, of)| update(v("i") + n(c as i64), v("j"), of, 0));
        row.push(run("j", v("n"), each.collect()));
        row.extend(
            names
                .iter()
                .enumerate()
                .flat_map(|(c, of)| store(v("i") + n(c as i64), of)),
        );
        push(
            format!("bodies {factor}"),
            vec![stride("i", n(0), v("n"), n(factor), row)],
            labels([(true, Technique::RegisterBlocking)]),
        );
    }
    for size in [64, 512] {
        // The sums are in memory, and the pulling bodies come in blocks.
        let mut inner = pull(v("i"), v("j"), "p", 0);
        inner.extend(axes.iter().map(|a| {
            add(
                at(format!("a{a}"), [v("i")]),
                v("pullp0") * v(format!("d{a}p0")),
            )
        }));
        let start: Vec<S> = axes
            .iter()
            .map(|a| set(at(format!("a{a}"), [v("i0")]), E::R("0.0")))
            .collect();
        let block = range(
            "j",
            v("jj"),
            min(v("jj") + v("BLOCK"), v("n")),
            inner.clone(),
        );
        push(
            format!("blocks {size}"),
            vec![
                S::Const("BLOCK".into(), size),
                run("i0", v("n"), start.clone()),
                stride(
                    "jj",
                    n(0),
                    v("n"),
                    v("BLOCK"),
                    vec![run("i", v("n"), vec![block])],
                ),
            ],
            labels([(true, Technique::CacheBlocking)]),
        );
        if size == 64 {
            push(
                "turned".into(),
                vec![
                    run("i0", v("n"), start),
                    run("j", v("n"), vec![run("i", v("n"), inner)]),
                ],
                labels([(true, Technique::LoopReorder)]),
            );
        }
    }
    found
}
