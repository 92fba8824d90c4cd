//! Loops that run statements of several loops of the reference, and loops that stay apart.

use flopsmith_protocol::Technique;

use super::super::ast::{E, Kernel, S, add, at, real, run, set, v};
use super::{directed, labels};

/// Products of a matrix and of its transpose with a vector each, one after the other in the reference.
pub fn all() -> Vec<Kernel> {
    use Technique::{Fusion, LoopReorder, Openmp, Simd};
    let of = |about: &str, body: Vec<S>, used: &[Technique]| Kernel {
        kind: "fused",
        problem: "polybench_mvt",
        about: about.into(),
        body,
        labels: labels(used.iter().map(|technique| (true, *technique))),
    };
    let element = |i: &str, j: &str| at("A", [v(i), v(j)]);
    let along = || add(at("x1", [v("i")]), element("i", "j") * at("y1", [v("j")]));
    let down = || add(at("x2", [v("i")]), element("j", "i") * at("y2", [v("j")]));
    // The same sums with the rows of the matrix outside.
    let down_by_rows = || add(at("x2", [v("j")]), element("i", "j") * at("y2", [v("i")]));
    let columns = |body: Vec<S>| run("j", v("n"), body);
    let rows = |body: Vec<S>| run("i", v("n"), body);
    let sums = || {
        let sum = |name: &str, factor: E| columns(vec![add(v(name), factor)]);
        vec![
            real("total1", Some(at("x1", [v("i")]))),
            real("total2", Some(at("x2", [v("i")]))),
            sum("total1", element("i", "j") * at("y1", [v("j")])),
            sum("total2", element("j", "i") * at("y2", [v("j")])),
            set(at("x1", [v("i")]), v("total1")),
            set(at("x2", [v("i")]), v("total2")),
        ]
    };
    vec![
        of(
            "apart",
            vec![
                rows(vec![columns(vec![along()])]),
                rows(vec![columns(vec![down()])]),
            ],
            &[],
        ),
        of(
            "apart, the other way",
            vec![
                rows(vec![columns(vec![down()])]),
                rows(vec![columns(vec![along()])]),
            ],
            &[],
        ),
        of(
            "apart, by rows",
            vec![
                rows(vec![columns(vec![along()])]),
                rows(vec![columns(vec![down_by_rows()])]),
            ],
            &[LoopReorder],
        ),
        of(
            "apart, threads",
            [
                directed("omp parallel for", vec![rows(vec![columns(vec![along()])])]),
                directed("omp parallel for", vec![rows(vec![columns(vec![down()])])]),
            ]
            .concat(),
            &[Openmp],
        ),
        of(
            "rows together",
            vec![rows(vec![columns(vec![along()]), columns(vec![down()])])],
            &[Fusion],
        ),
        of("rows together, sums", vec![rows(sums())], &[Fusion]),
        of(
            "rows together, threads",
            directed("omp parallel for", vec![rows(sums())]),
            &[Fusion, Openmp],
        ),
        of(
            "one loop",
            vec![rows(vec![columns(vec![along(), down()])])],
            &[Fusion],
        ),
        of(
            "one pass",
            vec![rows(vec![columns(vec![along(), down_by_rows()])])],
            &[Fusion, LoopReorder],
        ),
        of(
            "one pass, vectors",
            vec![rows(
                [
                    vec![columns(vec![along()])],
                    directed("omp simd", vec![columns(vec![down_by_rows()])]),
                ]
                .concat(),
            )],
            &[Fusion, LoopReorder, Simd],
        ),
    ]
}
