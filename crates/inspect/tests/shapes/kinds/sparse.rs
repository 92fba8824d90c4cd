//! Places that depend on values: histograms and sparse matrices.

use flopsmith_protocol::Technique;

use super::super::ast::{E, Kernel, S, Ty, add, at, min, n, range, real, run, set, stride, v};
use super::{directed, labels, unrolled};

pub fn all() -> Vec<Kernel> {
    let mut found = histogram();
    found.extend(spmv());
    found
}

fn histogram() -> Vec<Kernel> {
    let mut found = Vec::new();
    let key = |i: E| at("key", [i]);
    let count = |k: E| at("count", [k]);
    let clear = || run("k0", v("bins"), vec![set(count(v("k0")), n(0))]);
    let one = |i: E| add(count(key(i)), n(1));
    let mut push = |about: String, body: Vec<S>, labels| {
        let mut whole = vec![clear()];
        whole.extend(body);
        found.push(Kernel {
            kind: "sparse",
            problem: "histogram",
            about,
            body: whole,
            labels,
        });
    };
    push(
        "plain".into(),
        vec![run("i", v("n"), vec![one(v("i"))])],
        labels([]),
    );
    let named = |i: E| {
        vec![
            S::Let(Ty::Element, "which".into(), Some(key(i))),
            add(count(v("which")), n(1)),
        ]
    };
    push(
        "named".into(),
        vec![run("i", v("n"), named(v("i")))],
        labels([]),
    );
    push(
        "pragma".into(),
        directed("GCC unroll 4", vec![run("i", v("n"), vec![one(v("i"))])]),
        labels([(true, Technique::Unroll)]),
    );
    push(
        "prefetch".into(),
        vec![run(
            "i",
            v("n"),
            vec![S::Prefetch(key(v("i") + n(64))), one(v("i"))],
        )],
        labels([(true, Technique::Prefetch)]),
    );
    for factor in [2, 4, 8] {
        push(
            format!("unroll {factor}"),
            unrolled("i", n(0), v("n"), factor, &|i, _| vec![one(i)]),
            labels([(true, Technique::Unroll)]),
        );
        // A table of counts for each copy.
        let table = |c: E, k: E| at("own", [c, k]);
        let mut body = vec![
            S::Array(Ty::Element, "own".into(), vec![n(factor), v("bins")], false),
            run(
                "c",
                n(factor),
                vec![run(
                    "k1",
                    v("bins"),
                    vec![set(table(v("c"), v("k1")), n(0))],
                )],
            ),
        ];
        body.extend(unrolled("i", n(0), v("n"), factor, &|i, c| {
            vec![add(table(n(c as i64), key(i)), n(1))]
        }));
        body.push(run(
            "k2",
            v("bins"),
            vec![run(
                "c",
                n(factor),
                vec![add(count(v("k2")), table(v("c"), v("k2")))],
            )],
        ));
        push(
            format!("tables {factor}"),
            body,
            labels([(true, Technique::Unroll), (true, Technique::PartialSums)]),
        );
    }
    for size in [256, 4096] {
        for factor in [1, 4] {
            let end = min(v("ii") + v("BLOCK"), v("n"));
            let inner = unrolled("i", v("ii"), end, factor, &|i, _| vec![one(i)]);
            push(
                format!("blocks {size} unroll {factor}"),
                vec![
                    S::Const("BLOCK".into(), size),
                    stride("ii", n(0), v("n"), v("BLOCK"), inner),
                ],
                labels([
                    (true, Technique::CacheBlocking),
                    (factor > 1, Technique::Unroll),
                ]),
            );
        }
    }
    // One table for all keys of a part, which is added up in the end.
    push(
        "local table".into(),
        vec![
            S::Array(Ty::Element, "own".into(), vec![v("bins")], false),
            run("k1", v("bins"), vec![set(at("own", [v("k1")]), n(0))]),
            run("i", v("n"), vec![add(at("own", [key(v("i"))]), n(1))]),
            run(
                "k2",
                v("bins"),
                vec![set(count(v("k2")), at("own", [v("k2")]))],
            ),
        ],
        labels([]),
    );
    found
}

fn spmv() -> Vec<Kernel> {
    let mut found = Vec::new();
    let term = |k: E| at("value", [k.clone()]) * at("x", [at("column", [k])]);
    let (from, to) = (|i: E| at("start", [i]), |i: E| at("start", [i + n(1)]));
    let mut push = |about: String, body: Vec<S>, labels| {
        found.push(Kernel {
            kind: "sparse",
            problem: "spmv",
            about,
            body,
            labels,
        });
    };
    let row = |inner: Vec<S>| {
        let mut all = vec![real("sum", Some(E::R("0.0")))];
        all.extend(inner);
        all.push(set(at("y", [v("i")]), v("sum")));
        all
    };
    let plain = || {
        vec![range(
            "k",
            from(v("i")),
            to(v("i")),
            vec![add(v("sum"), term(v("k")))],
        )]
    };
    push(
        "plain".into(),
        vec![run("i", v("n"), row(plain()))],
        labels([]),
    );
    for (text, technique, inner) in [
        ("omp simd reduction(+:sum)", Technique::Simd, true),
        ("omp parallel for", Technique::Openmp, false),
        ("GCC unroll 4", Technique::Unroll, true),
    ] {
        let body = if inner {
            vec![run("i", v("n"), row(directed(text, plain())))]
        } else {
            directed(text, vec![run("i", v("n"), row(plain()))])
        };
        push(text.into(), body, labels([(true, technique)]));
    }
    // The row's bounds in variables.
    let mut bounded = vec![
        super::int("first", Some(from(v("i")))),
        super::int("last", Some(to(v("i")))),
    ];
    bounded.extend(row(vec![range(
        "k",
        v("first"),
        v("last"),
        vec![add(v("sum"), term(v("k")))],
    )]));
    push("bounds".into(), vec![run("i", v("n"), bounded)], labels([]));
    for factor in [2, 4] {
        let mut bounded = vec![
            super::int("first", Some(from(v("i")))),
            super::int("last", Some(to(v("i")))),
        ];
        bounded.extend(row(unrolled(
            "k",
            v("first"),
            v("last"),
            factor,
            &|k, _| vec![add(v("sum"), term(k))],
        )));
        push(
            format!("unroll {factor}"),
            vec![run("i", v("n"), bounded)],
            labels([(true, Technique::Unroll)]),
        );
        let sums: Vec<String> = (0..factor).map(|c| format!("sum{c}")).collect();
        let mut all: Vec<S> = sums.iter().map(|s| real(s, Some(E::R("0.0")))).collect();
        all.push(super::int("first", Some(from(v("i")))));
        all.push(super::int("last", Some(to(v("i")))));
        all.extend(unrolled("k", v("first"), v("last"), factor, &|k, c| {
            vec![add(v(&sums[c]), term(k))]
        }));
        let total = sums.iter().map(v).reduce(|a, b| a + b).expect("sums");
        all.push(set(at("y", [v("i")]), total));
        push(
            format!("partial {factor}"),
            vec![run("i", v("n"), all)],
            labels([(true, Technique::Unroll), (true, Technique::PartialSums)]),
        );
    }
    for size in [64, 512] {
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
                        row(plain()),
                    )],
                ),
            ],
            labels([(true, Technique::CacheBlocking)]),
        );
    }
    push(
        "prefetch".into(),
        vec![run(
            "i",
            v("n"),
            row(vec![range(
                "k",
                from(v("i")),
                to(v("i")),
                vec![
                    S::Prefetch(at("value", [v("k") + n(32)])),
                    add(v("sum"), term(v("k"))),
                ],
            )]),
        )],
        labels([(true, Technique::Prefetch)]),
    );
    found
}
