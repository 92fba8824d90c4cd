//! The products: their loops, arrays and copies of operands.

use super::super::ast::{E, S, Ty, at, n, run, set, v};

/// A loop of a register tile, with its size.
pub type TileLoop = (&'static str, i64);

pub struct Spec {
    pub problem: &'static str,
    /// Loops in the order of the reference: name, extent, and whether the loop is over the terms of a sum.
    pub loops: Vec<(&'static str, E, bool)>,
    pub target: E,
    pub factors: (E, E),
    /// Loops of a register tile, with its sizes.
    pub tile: Option<(TileLoop, TileLoop)>,
}

pub fn specs() -> Vec<Spec> {
    let gemm = |problem| Spec {
        problem,
        loops: vec![
            ("i", v("n"), false),
            ("j", v("n"), false),
            ("k", v("n"), true),
        ],
        target: at("C", [v("i"), v("j")]),
        factors: (at("A", [v("i"), v("k")]), at("B", [v("k"), v("j")])),
        tile: Some((("i", 4), ("j", 2))),
    };
    vec![
        gemm("dgemm"),
        gemm("sgemm"),
        Spec {
            problem: "batched_dgemm",
            loops: vec![
                ("b0", v("batch"), false),
                ("i", v("n"), false),
                ("j", v("n"), false),
                ("k", v("n"), true),
            ],
            target: at("C", [v("b0"), v("i"), v("j")]),
            factors: (
                at("A", [v("b0"), v("i"), v("k")]),
                at("B", [v("b0"), v("k"), v("j")]),
            ),
            tile: Some((("i", 2), ("j", 2))),
        },
        Spec {
            problem: "dsyrk",
            loops: vec![
                ("i", v("n"), false),
                ("j", v("n"), false),
                ("l", v("k"), true),
            ],
            target: at("C", [v("i"), v("j")]),
            factors: (at("A", [v("i"), v("l")]), at("A", [v("j"), v("l")])),
            tile: Some((("i", 2), ("j", 4))),
        },
        Spec {
            problem: "dgemv",
            loops: vec![("i", v("m"), false), ("j", v("n"), true)],
            target: at("y", [v("i")]),
            factors: (at("A", [v("i"), v("j")]), at("x", [v("j")])),
            tile: Some((("i", 4), ("", 1))),
        },
        Spec {
            problem: "conv2d",
            loops: vec![
                ("i", v("h"), false),
                ("j", v("w"), false),
                ("p", v("k"), true),
                ("q", v("k"), true),
            ],
            target: at("out", [v("i"), v("j")]),
            factors: (
                at("weight", [v("p"), v("q")]),
                at("in", [v("i") + v("p"), v("j") + v("q")]),
            ),
            tile: Some((("i", 1), ("j", 8))),
        },
    ]
}

/// The second factor, read from a copy, and the statements that make the copy, with the loop that they stand in.
pub fn packed(spec: &Spec) -> (E, Vec<S>, usize) {
    let buffer = |subscripts: Vec<E>| at("packed", subscripts);
    let array = |dims: Vec<E>| S::Array(Ty::Element, "packed".into(), dims, false);
    match spec.problem {
        "dgemm" | "sgemm" => (
            buffer(vec![v("j"), v("k")]),
            vec![
                array(vec![v("n"), v("n")]),
                run(
                    "j1",
                    v("n"),
                    vec![run(
                        "k1",
                        v("n"),
                        vec![set(
                            buffer(vec![v("j1"), v("k1")]),
                            at("B", [v("k1"), v("j1")]),
                        )],
                    )],
                ),
            ],
            0,
        ),
        "batched_dgemm" => (
            buffer(vec![v("j"), v("k")]),
            vec![
                array(vec![n(32), n(32)]),
                run(
                    "k1",
                    v("n"),
                    vec![run(
                        "j1",
                        v("n"),
                        vec![set(
                            buffer(vec![v("j1"), v("k1")]),
                            at("B", [v("b0"), v("k1"), v("j1")]),
                        )],
                    )],
                ),
            ],
            1,
        ),
        "dsyrk" => (
            buffer(vec![v("l"), v("j")]),
            vec![
                array(vec![v("k"), v("n")]),
                run(
                    "j1",
                    v("n"),
                    vec![run(
                        "l1",
                        v("k"),
                        vec![set(
                            buffer(vec![v("l1"), v("j1")]),
                            at("A", [v("j1"), v("l1")]),
                        )],
                    )],
                ),
            ],
            0,
        ),
        "dgemv" => (
            buffer(vec![v("j")]),
            vec![
                array(vec![v("n")]),
                run(
                    "j1",
                    v("n"),
                    vec![set(buffer(vec![v("j1")]), at("x", [v("j1")]))],
                ),
            ],
            0,
        ),
        _ => (
            buffer(vec![v("p"), v("j") + v("q")]),
            vec![
                array(vec![v("k"), v("w") + v("k") - n(1)]),
                run(
                    "p1",
                    v("k"),
                    vec![run(
                        "j1",
                        v("w") + v("k") - n(1),
                        vec![set(
                            buffer(vec![v("p1"), v("j1")]),
                            at("in", [v("i") + v("p1"), v("j1")]),
                        )],
                    )],
                ),
            ],
            1,
        ),
    }
}
