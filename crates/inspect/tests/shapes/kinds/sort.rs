//! Sorting of many short arrays: insertion, exchange, networks and merges.

use flopsmith_protocol::Technique;

use super::super::ast::{
    E, Kernel, S, Step, Ty, add, at, bin, choose, max, min, n, range, run, set, stride, v,
};
use super::{directed, labels, unrolled};

pub fn all() -> Vec<Kernel> {
    let mut found = Vec::new();
    let out = |b: E, i: E| at("out", [b, i]);
    let copy = || {
        run(
            "c",
            n(64),
            vec![set(out(v("b0"), v("c")), at("in", [v("b0"), v("c")]))],
        )
    };
    let mut push = |about: String, body: Vec<S>, labels| {
        found.push(Kernel {
            kind: "sort",
            problem: "sort64",
            about,
            body,
            labels,
        });
    };
    let each = |inner: Vec<S>| run("b0", v("batch"), inner);
    // Insertion, into the output or into a local array.
    let insertion = |place: &dyn Fn(E) -> E, source: &dyn Fn(E) -> E| {
        run(
            "i",
            n(64),
            vec![
                S::Let(Ty::Element, "value".into(), Some(source(v("i")))),
                super::int("spot", Some(v("i"))),
                S::While(
                    bin(
                        "&&",
                        bin(">", v("spot"), n(0)),
                        bin(">", place(max(v("spot"), n(1)) - n(1)), v("value")),
                    ),
                    vec![
                        set(place(v("spot")), place(v("spot") - n(1))),
                        set(v("spot"), v("spot") - n(1)),
                    ],
                ),
                set(place(v("spot")), v("value")),
            ],
        )
    };
    let in_out = |i: E| out(v("b0"), i);
    let input = |i: E| at("in", [v("b0"), i]);
    push(
        "insertion".into(),
        vec![each(vec![insertion(&in_out, &input)])],
        labels([]),
    );
    push(
        "insertion parallel".into(),
        directed(
            "omp parallel for",
            vec![each(vec![insertion(&in_out, &input)])],
        ),
        labels([(true, Technique::Openmp)]),
    );
    let local = |i: E| at("own", [i]);
    let back = || {
        run(
            "c2",
            n(64),
            vec![set(out(v("b0"), v("c2")), local(v("c2")))],
        )
    };
    push(
        "insertion locally".into(),
        vec![each(vec![
            S::Array(Ty::Element, "own".into(), vec![n(64)], false),
            insertion(&local, &input),
            back(),
        ])],
        labels([]),
    );
    // Exchange of neighbours.
    let exchange = |a: E, b: E, c: usize| {
        let (low, high) = (format!("low{c}"), format!("high{c}"));
        vec![
            S::Let(Ty::Element, low.clone(), Some(min(a.clone(), b.clone()))),
            S::Let(Ty::Element, high.clone(), Some(max(a.clone(), b.clone()))),
            set(a, v(low)),
            set(b, v(high)),
        ]
    };
    let odd_even =
        |inner: &dyn Fn(E) -> Vec<S>| run("round", n(64), inner(bin("%", v("round"), n(2))));
    let neighbours = |from: E| {
        vec![stride(
            "i",
            from,
            n(63),
            n(2),
            exchange(in_out(v("i")), in_out(v("i") + n(1)), 0),
        )]
    };
    push(
        "odd and even".into(),
        vec![each(vec![copy(), odd_even(&neighbours)])],
        labels([]),
    );
    for factor in [2, 4] {
        // Several exchanges in one iteration.
        let several = |from: E| {
            let copies = (0..factor).flat_map(|d| {
                exchange(
                    in_out(v("i") + n(2 * d)),
                    in_out(v("i") + n(2 * d + 1)),
                    d as usize,
                )
            });
            let body = copies.collect();
            vec![stride("i", from, n(64 - 2 * factor), n(2 * factor), body)]
        };
        push(
            format!("odd and even unroll {factor}"),
            vec![each(vec![copy(), odd_even(&several)])],
            labels([(true, Technique::Unroll)]),
        );
    }
    // Selection of the least element.
    let selection = vec![range(
        "i",
        n(0),
        n(63),
        vec![
            super::int("least", Some(v("i"))),
            range(
                "j",
                v("i") + n(1),
                n(64),
                vec![S::If(
                    bin("<", in_out(v("j")), in_out(v("least"))),
                    vec![set(v("least"), v("j"))],
                    vec![],
                )],
            ),
            S::Let(Ty::Element, "held".into(), Some(in_out(v("i")))),
            set(in_out(v("i")), in_out(v("least"))),
            set(in_out(v("least")), v("held")),
        ],
    )];
    let mut body = vec![copy()];
    body.extend(selection);
    push("selection".into(), vec![each(body)], labels([]));
    // A bitonic network, for one array or for several side by side.
    let network = |one: &dyn Fn(E, E) -> Vec<S>| {
        S::For(
            "size".into(),
            n(2),
            n(65),
            Step::Times(2),
            vec![
                stride(
                    "base",
                    n(0),
                    n(64),
                    v("size"),
                    vec![run(
                        "i",
                        bin("/", v("size"), n(2)),
                        one(v("base") + v("i"), v("base") + v("size") - n(1) - v("i")),
                    )],
                ),
                S::For(
                    "gap".into(),
                    bin("/", v("size"), n(4)),
                    n(1),
                    Step::Halve,
                    vec![stride(
                        "base",
                        n(0),
                        n(64),
                        n(2) * v("gap"),
                        vec![range(
                            "k",
                            v("base"),
                            v("base") + v("gap"),
                            one(v("k"), v("k") + v("gap")),
                        )],
                    )],
                ),
            ],
        )
    };
    let one = |a: E, b: E| exchange(in_out(a), in_out(b), 0);
    push(
        "network".into(),
        vec![each(vec![copy(), network(&one)])],
        labels([]),
    );
    for lanes in [8, 16] {
        let column = |i: E, l: E| at("columns", [i, l]);
        let many = |a: E, b: E| {
            vec![run(
                "l",
                n(lanes),
                exchange(column(a, v("l")), column(b, v("l")), 0),
            )]
        };
        let which = || min(v("b0") + v("l"), v("batch") - n(1));
        let load = run(
            "l",
            n(lanes),
            vec![run(
                "c",
                n(64),
                vec![set(column(v("c"), v("l")), at("in", [which(), v("c")]))],
            )],
        );
        let store = run(
            "l",
            min(n(lanes), v("batch") - v("b0")),
            vec![run(
                "c",
                n(64),
                vec![set(out(v("b0") + v("l"), v("c")), column(v("c"), v("l")))],
            )],
        );
        for simd in [false, true] {
            let inner = |a: E, b: E| {
                if simd {
                    directed("omp simd", many(a, b))
                } else {
                    many(a, b)
                }
            };
            push(
                format!("columns {lanes} {simd}"),
                vec![
                    S::Array(Ty::Element, "columns".into(), vec![n(64), n(lanes)], false),
                    stride(
                        "b0",
                        n(0),
                        v("batch"),
                        n(lanes),
                        vec![load.clone(), network(&inner), store.clone()],
                    ),
                ],
                labels([(true, Technique::Packing), (simd, Technique::Simd)]),
            );
        }
    }
    // Merges of runs between two arrays.
    let merge = |source: &dyn Fn(E) -> E, target: &dyn Fn(E) -> E| {
        vec![
            super::int("left", Some(v("base"))),
            super::int("right", Some(v("base") + v("size"))),
            range(
                "k",
                v("base"),
                v("base") + n(2) * v("size"),
                vec![S::If(
                    bin(
                        "&&",
                        bin("<", v("left"), v("base") + v("size")),
                        bin(
                            "||",
                            bin(">=", v("right"), v("base") + n(2) * v("size")),
                            bin("<=", source(v("left")), source(min(v("right"), n(63)))),
                        ),
                    ),
                    vec![
                        set(target(v("k")), source(v("left"))),
                        set(v("left"), v("left") + n(1)),
                    ],
                    vec![
                        set(target(v("k")), source(v("right"))),
                        set(v("right"), v("right") + n(1)),
                    ],
                )],
            ),
        ]
    };
    let merges = S::For(
        "size".into(),
        n(1),
        n(64),
        Step::Times(2),
        vec![
            stride(
                "base",
                n(0),
                n(64),
                n(2) * v("size"),
                merge(&in_out, &local),
            ),
            run("c3", n(64), vec![set(in_out(v("c3")), local(v("c3")))]),
        ],
    );
    push(
        "merges".into(),
        vec![
            S::Array(Ty::Element, "own".into(), vec![n(64)], false),
            each(vec![copy(), merges]),
        ],
        labels([]),
    );
    // Counting of the smaller elements gives each its place.
    for factor in [1, 4] {
        let smaller = |j: E| {
            let before = bin(
                "||",
                bin("<", input(j.clone()), v("value")),
                bin(
                    "&&",
                    bin("==", input(j.clone()), v("value")),
                    bin("<", j, v("i")),
                ),
            );
            vec![add(v("rank"), choose(before, n(1), n(0)))]
        };
        let mut row = vec![
            S::Let(Ty::Element, "value".into(), Some(input(v("i")))),
            super::int("rank", Some(n(0))),
        ];
        row.extend(unrolled("j", n(0), n(64), factor, &|j, _| smaller(j)));
        row.push(set(in_out(v("rank")), v("value")));
        push(
            format!("ranks unroll {factor}"),
            vec![each(vec![run("i", n(64), row)])],
            labels([(factor > 1, Technique::Unroll)]),
        );
    }
    for size in [32, 64] {
        push(
            format!("blocks {size}"),
            vec![
                S::Const("BLOCK".into(), size),
                stride(
                    "bb",
                    n(0),
                    v("batch"),
                    v("BLOCK"),
                    vec![range(
                        "b0",
                        v("bb"),
                        min(v("bb") + v("BLOCK"), v("batch")),
                        vec![insertion(&in_out, &input)],
                    )],
                ),
            ],
            labels([(true, Technique::CacheBlocking)]),
        );
    }
    found
}
