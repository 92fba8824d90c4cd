//! Transposition.

use flopsmith_protocol::Technique;

use super::super::ast::{E, Kernel, S, Step, Ty, at, min, n, range, run, set, stride, v};
use super::{directed, labels, unrolled};

pub fn all() -> Vec<Kernel> {
    let mut found = Vec::new();
    let move_one = |i: E, j: E| set(at("B", [j.clone(), i.clone()]), at("A", [i, j]));
    let mut push = |about: String, body: Vec<S>, labels| {
        found.push(Kernel {
            kind: "transpose",
            problem: "transpose",
            about,
            body,
            labels,
        });
    };
    for turned in [false, true] {
        let reorder = (turned, Technique::LoopReorder);
        let loops = |outer: Vec<S>| outer;
        let (first, second, rows, columns) = if turned {
            ("j", "i", v("n"), v("m"))
        } else {
            ("i", "j", v("m"), v("n"))
        };
        let one = || move_one(v("i"), v("j"));
        for pragma in ["", "omp parallel for", "GCC unroll 4"] {
            let inner = vec![run(second, columns.clone(), vec![one()])];
            let body = match pragma {
                "" => vec![run(first, rows.clone(), inner)],
                "omp parallel for" => directed(pragma, vec![run(first, rows.clone(), inner)]),
                _ => vec![run(first, rows.clone(), directed(pragma, inner))],
            };
            push(
                format!("{turned} {pragma}"),
                loops(body),
                labels([
                    reorder,
                    (pragma == "omp parallel for", Technique::Openmp),
                    (pragma == "GCC unroll 4", Technique::Unroll),
                ]),
            );
        }
        for factor in [2, 4] {
            let inner = unrolled(second, n(0), columns.clone(), factor, &|place, _| {
                vec![one().with(second, &place)]
            });
            push(
                format!("{turned} unroll {factor}"),
                vec![run(first, rows.clone(), inner)],
                labels([reorder, (true, Technique::Unroll)]),
            );
            // Two rows in one iteration of the outer loop.
            let both = (0..factor).map(|d| one().with(first, &(v(first) + n(d))));
            let inner = run(second, columns.clone(), both.collect());
            push(
                format!("{turned} jam {factor}"),
                vec![stride(first, n(0), rows.clone(), n(factor), vec![inner])],
                labels([reorder, (true, Technique::Unroll)]),
            );
        }
        for size in [32, 64] {
            let block = |unroll: i64| {
                let name = |x: &str| v(format!("{x}{x}"));
                let to = |x: &str, extent: &E| min(name(x) + v("TB"), extent.clone());
                let inner = unrolled(
                    second,
                    name(second),
                    to(second, &columns),
                    unroll,
                    &|p, _| vec![one().with(second, &p)],
                );
                let within = range(first, name(first), to(first, &rows), inner);
                vec![
                    S::Const("TB".into(), size),
                    stride(
                        &format!("{first}{first}"),
                        n(0),
                        rows.clone(),
                        v("TB"),
                        vec![stride(
                            &format!("{second}{second}"),
                            n(0),
                            columns.clone(),
                            v("TB"),
                            vec![within],
                        )],
                    ),
                ]
            };
            push(
                format!("{turned} block {size}"),
                block(1),
                labels([reorder, (true, Technique::CacheBlocking)]),
            );
            push(
                format!("{turned} block {size} unroll"),
                block(4),
                labels([
                    reorder,
                    (true, Technique::CacheBlocking),
                    (true, Technique::Unroll),
                ]),
            );
            // One dimension only.
            let name = format!("{second}{second}");
            let inner = range(
                second,
                v(&name),
                min(v(&name) + v("TB"), columns.clone()),
                vec![one()],
            );
            push(
                format!("{turned} strip {size}"),
                vec![
                    S::Const("TB".into(), size),
                    stride(
                        &name,
                        n(0),
                        columns.clone(),
                        v("TB"),
                        vec![run(first, rows.clone(), vec![inner])],
                    ),
                ],
                labels([reorder, (true, Technique::CacheBlocking)]),
            );
        }
    }
    // Loops that run backwards run in the same order.
    let down = |name: &str, extent: E, body: Vec<S>| {
        S::For(name.into(), extent - n(1), n(0), Step::Down, body)
    };
    push(
        "backwards".into(),
        vec![down(
            "i",
            v("m"),
            vec![down("j", v("n"), vec![move_one(v("i"), v("j"))])],
        )],
        labels([]),
    );
    push(
        "backwards and turned".into(),
        vec![down(
            "j",
            v("n"),
            vec![run("i", v("m"), vec![move_one(v("i"), v("j"))])],
        )],
        labels([(true, Technique::LoopReorder)]),
    );
    // Tiles of a few elements, which are registers and no blocks.
    for size in [4, 8] {
        let inner = run(
            "r",
            n(size),
            vec![run(
                "s",
                n(size),
                vec![move_one(v("i") + v("r"), v("j") + v("s"))],
            )],
        );
        push(
            format!("small tile {size}"),
            vec![stride(
                "i",
                n(0),
                v("m"),
                n(size),
                vec![stride("j", n(0), v("n"), n(size), vec![inner])],
            )],
            labels([]),
        );
        let copies = (0..size).flat_map(|r| {
            (0..size).map(move |s| {
                set(
                    at("B", [v("j") + n(s), v("i") + n(r)]),
                    at("A", [v("i") + n(r), v("j") + n(s)]),
                )
            })
        });
        push(
            format!("written tile {size}"),
            vec![stride(
                "i",
                n(0),
                v("m"),
                n(size),
                vec![stride("j", n(0), v("n"), n(size), copies.collect())],
            )],
            labels([(true, Technique::Unroll)]),
        );
    }
    // A block passes through a buffer.
    for size in [32, 64] {
        let buffer = |a: E, b: E| at("buffer", [a, b]);
        let (rows, columns) = (
            min(v("TB"), v("m") - v("ii")),
            min(v("TB"), v("n") - v("jj")),
        );
        let load = run(
            "r",
            rows.clone(),
            vec![run(
                "s",
                columns.clone(),
                vec![set(
                    buffer(v("r"), v("s")),
                    at("A", [v("ii") + v("r"), v("jj") + v("s")]),
                )],
            )],
        );
        let store = run(
            "s",
            columns,
            vec![run(
                "r",
                rows,
                vec![set(
                    at("B", [v("jj") + v("s"), v("ii") + v("r")]),
                    buffer(v("r"), v("s")),
                )],
            )],
        );
        push(
            format!("buffer {size}"),
            vec![
                S::Const("TB".into(), size),
                S::Array(Ty::Element, "buffer".into(), vec![n(size), n(size)], false),
                stride(
                    "ii",
                    n(0),
                    v("m"),
                    v("TB"),
                    vec![stride("jj", n(0), v("n"), v("TB"), vec![load, store])],
                ),
            ],
            labels([
                (true, Technique::CacheBlocking),
                (true, Technique::Packing),
                (true, Technique::LoopReorder),
            ]),
        );
    }
    // A column is gathered in a buffer.
    push(
        "column buffer".into(),
        vec![
            S::Array(Ty::Element, "column".into(), vec![v("m")], false),
            run(
                "j",
                v("n"),
                vec![
                    run(
                        "i",
                        v("m"),
                        vec![set(at("column", [v("i")]), at("A", [v("i"), v("j")]))],
                    ),
                    run(
                        "i",
                        v("m"),
                        vec![set(at("B", [v("j"), v("i")]), at("column", [v("i")]))],
                    ),
                ],
            ),
        ],
        labels([(true, Technique::LoopReorder), (true, Technique::Packing)]),
    );
    found
}
