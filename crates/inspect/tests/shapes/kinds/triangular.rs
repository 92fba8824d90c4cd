//! Triangular loop nests: Cholesky and LU factorization, and triangular systems.

use flopsmith_protocol::Technique;

use super::super::ast::{
    E, Kernel, S, Ty, at, bin, choose, min, n, range, real, run, set, stride, v,
};
use super::{labels, unrolled};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// As the reference: one sum for each element.
    Dot,
    /// One sum for each element, with the outer two loops exchanged.
    Turned,
    /// One column is eliminated from the rest of the matrix.
    Outer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extra {
    No,
    Unroll(i64),
    /// Four columns are eliminated at once.
    Rank4,
    /// The trailing matrix is updated in blocks.
    Blocked,
    /// Columns are eliminated in panels.
    Panels,
    /// A tile of the trailing matrix is summed in variables.
    Tile,
    /// A row is copied before it is used.
    Pack,
}

pub(super) fn sub(target: E, value: E) -> S {
    S::Set(target, "-=", value)
}

pub(super) fn over(a: E, b: E) -> E {
    bin("/", a, b)
}

pub fn all() -> Vec<Kernel> {
    let mut found = Vec::new();
    let extras = [
        Extra::No,
        Extra::Unroll(2),
        Extra::Unroll(4),
        Extra::Rank4,
        Extra::Blocked,
        Extra::Panels,
        Extra::Tile,
        Extra::Pack,
    ];
    for problem in ["cholesky", "lu", "dtrsm"] {
        for form in [Form::Dot, Form::Turned, Form::Outer] {
            for extra in extras {
                for pragma in [false, true] {
                    if let Some(body) = body(problem, form, extra, pragma) {
                        found.push(Kernel {
                            kind: "triangular",
                            problem,
                            about: format!("{form:?} {extra:?} {pragma}"),
                            body,
                            labels: labels([
                                (form != Form::Dot, Technique::LoopReorder),
                                (
                                    matches!(extra, Extra::Unroll(_) | Extra::Rank4),
                                    Technique::Unroll,
                                ),
                                (
                                    matches!(extra, Extra::Blocked | Extra::Panels),
                                    Technique::CacheBlocking,
                                ),
                                (extra == Extra::Tile, Technique::RegisterBlocking),
                                (extra == Extra::Pack, Technique::Packing),
                                (pragma, Technique::Simd),
                            ]),
                        });
                    }
                }
            }
        }
    }
    found
}

pub(super) fn simd(pragma: bool, loops: Vec<S>) -> Vec<S> {
    if pragma {
        super::directed("omp simd", loops)
    } else {
        loops
    }
}

fn body(problem: &str, form: Form, extra: Extra, pragma: bool) -> Option<Vec<S>> {
    match (problem, form) {
        ("dtrsm", _) => super::substitution::dtrsm(form, extra, pragma),
        (_, Form::Outer) => outer(problem, extra, pragma),
        (_, Form::Dot | Form::Turned) => dots(problem, form, extra, pragma),
    }
}

/// One sum for each element of a factorization.
fn dots(problem: &str, form: Form, extra: Extra, pragma: bool) -> Option<Vec<S>> {
    let cholesky = problem == "cholesky";
    let name = if cholesky { "L" } else { "LU" };
    let m = |a: E, b: E| at(name, [a, b]);
    let term = move |k: E| {
        if cholesky {
            m(v("i"), k.clone()) * m(v("j"), k)
        } else {
            m(v("i"), k.clone()) * m(k, v("j"))
        }
    };
    let end = if cholesky {
        v("j")
    } else {
        min(v("i"), v("j"))
    };
    let mut inner = vec![real("sum", Some(at("A", [v("i"), v("j")])))];
    match extra {
        Extra::No => {
            inner.extend(simd(
                pragma,
                vec![range("k", n(0), end, vec![sub(v("sum"), term(v("k")))])],
            ));
        }
        Extra::Unroll(factor) if !pragma => {
            inner.extend(unrolled("k", n(0), end, factor, &|k, _| {
                vec![sub(v("sum"), term(k))]
            }))
        }
        Extra::Panels if !pragma => {
            let block = vec![range(
                "k",
                v("kk"),
                min(v("kk") + v("NB"), end.clone()),
                vec![sub(v("sum"), term(v("k")))],
            )];
            inner.push(stride("kk", n(0), end, v("NB"), block));
        }
        Extra::Pack if !pragma && cholesky => {
            // The row of the pivot is copied once for each column.
            if form != Form::Dot {
                return None;
            }
            let read = m(v("i"), v("k")) * at("row", [v("k")]);
            inner.push(range("k", n(0), end, vec![sub(v("sum"), read)]));
        }
        _ => return None,
    }
    let diagonal = m(v("j"), v("j"));
    if cholesky {
        inner.push(S::If(
            bin("==", v("i"), v("j")),
            vec![set(m(v("i"), v("j")), E::Call("sqrt", vec![v("sum")]))],
            vec![set(m(v("i"), v("j")), over(v("sum"), diagonal))],
        ));
    } else {
        inner.push(set(
            m(v("i"), v("j")),
            choose(bin(">", v("i"), v("j")), over(v("sum"), diagonal), v("sum")),
        ));
    }
    let mut out = Vec::new();
    if extra == Extra::Panels {
        out.push(S::Const("NB".into(), 32));
    }
    if cholesky {
        let mut column = Vec::new();
        if extra == Extra::Pack {
            out.push(S::Array(Ty::Element, "row".into(), vec![v("n")], false));
            column.push(range(
                "k0",
                n(0),
                v("j"),
                vec![set(at("row", [v("k0")]), m(v("j"), v("k0")))],
            ));
        }
        match form {
            Form::Dot => {
                column.insert(
                    0,
                    range(
                        "i0",
                        n(0),
                        v("j"),
                        vec![set(m(v("i0"), v("j")), E::R("0.0"))],
                    ),
                );
                column.push(range("i", v("j"), v("n"), inner));
                out.push(run("j", v("n"), column));
            }
            _ => {
                let row = vec![
                    range("j", n(0), v("i") + n(1), inner),
                    range(
                        "j0",
                        v("i") + n(1),
                        v("n"),
                        vec![set(m(v("i"), v("j0")), E::R("0.0"))],
                    ),
                ];
                out.push(run("i", v("n"), row));
            }
        }
    } else {
        out.push(match form {
            Form::Dot => run("i", v("n"), vec![run("j", v("n"), inner)]),
            _ => run("j", v("n"), vec![run("i", v("n"), inner)]),
        });
    }
    Some(out)
}

/// A column is eliminated from the rest of the matrix.
fn outer(problem: &str, extra: Extra, pragma: bool) -> Option<Vec<S>> {
    let cholesky = problem == "cholesky";
    let name = if cholesky { "L" } else { "LU" };
    let m = |a: E, b: E| at(name, [a, b]);
    let last = |i: E| if cholesky { i + n(1) } else { v("n") };
    let copied = if cholesky { v("i0") + n(1) } else { v("n") };
    let mut out = vec![run(
        "i0",
        v("n"),
        vec![range(
            "j0",
            n(0),
            copied,
            vec![set(m(v("i0"), v("j0")), at("A", [v("i0"), v("j0")]))],
        )],
    )];
    let second = |j: E, k: E| if cholesky { m(j, k) } else { m(k, j) };
    let pivot = |k: E| -> Vec<S> {
        let mut found = Vec::new();
        if cholesky {
            found.push(set(
                m(k.clone(), k.clone()),
                E::Call("sqrt", vec![m(k.clone(), k.clone())]),
            ));
        }
        found.push(range(
            "i2",
            k.clone() + n(1),
            v("n"),
            vec![set(
                m(v("i2"), k.clone()),
                over(m(v("i2"), k.clone()), m(k.clone(), k)),
            )],
        ));
        found
    };
    let update = |j: E, k: E| sub(m(v("i"), j.clone()), m(v("i"), k.clone()) * second(j, k));
    match extra {
        Extra::No => {
            let inner = range(
                "j",
                v("k") + n(1),
                last(v("i")),
                vec![update(v("j"), v("k"))],
            );
            let mut step = pivot(v("k"));
            step.push(range("i", v("k") + n(1), v("n"), simd(pragma, vec![inner])));
            out.push(run("k", v("n"), step));
        }
        Extra::Unroll(factor) if !pragma => {
            let inner = unrolled("j", v("k") + n(1), last(v("i")), factor, &|j, _| {
                vec![update(j, v("k"))]
            });
            let mut step = pivot(v("k"));
            step.push(range("i", v("k") + n(1), v("n"), inner));
            out.push(run("k", v("n"), step));
        }
        Extra::Rank4 if !pragma => {
            // The panel's own columns first.
            let own = vec![
                range("k2", v("k"), v("k") + n(4), {
                    let mut step = pivot(v("k2"));
                    step.push(range(
                        "i",
                        v("k2") + n(1),
                        v("n"),
                        vec![range(
                            "j",
                            v("k2") + n(1),
                            v("k") + n(4),
                            vec![update(v("j"), v("k2"))],
                        )],
                    ));
                    step
                }),
                range(
                    "i",
                    v("k") + n(4),
                    v("n"),
                    vec![range(
                        "j",
                        v("k") + n(4),
                        last(v("i")),
                        vec![sub(
                            m(v("i"), v("j")),
                            (0..4)
                                .map(|d| m(v("i"), v("k") + n(d)) * second(v("j"), v("k") + n(d)))
                                .reduce(|a, b| a + b)
                                .expect("four terms"),
                        )],
                    )],
                ),
            ];
            out.push(stride("k", n(0), v("n"), n(4), own));
        }
        Extra::Blocked if !pragma => {
            out.insert(0, S::Const("NB".into(), 64));
            let inner = range(
                "j",
                v("jj"),
                min(v("jj") + v("NB"), last(v("i"))),
                vec![update(v("j"), v("k"))],
            );
            let mut step = pivot(v("k"));
            step.push(stride(
                "jj",
                v("k") + n(1),
                v("n"),
                v("NB"),
                vec![range("i", v("k") + n(1), v("n"), vec![inner])],
            ));
            out.push(run("k", v("n"), step));
        }
        Extra::Panels => {
            out.insert(0, S::Const("NB".into(), 32));
            let end = min(v("kk") + v("NB"), v("n"));
            let inside = range("k", v("kk"), end.clone(), {
                let mut step = pivot(v("k"));
                step.push(range(
                    "i",
                    v("k") + n(1),
                    v("n"),
                    vec![range(
                        "j",
                        v("k") + n(1),
                        min(v("kk") + v("NB"), last(v("i"))),
                        vec![update(v("j"), v("k"))],
                    )],
                ));
                step
            });
            let trailing = range(
                "i",
                v("kk") + v("NB"),
                v("n"),
                vec![range("j", v("kk") + v("NB"), last(v("i")), {
                    let mut sum = vec![real("sum", Some(m(v("i"), v("j"))))];
                    sum.extend(simd(
                        pragma,
                        vec![range(
                            "k1",
                            v("kk"),
                            end,
                            vec![sub(v("sum"), m(v("i"), v("k1")) * second(v("j"), v("k1")))],
                        )],
                    ));
                    sum.push(set(m(v("i"), v("j")), v("sum")));
                    sum
                })],
            );
            out.push(stride("kk", n(0), v("n"), v("NB"), vec![inside, trailing]));
        }
        Extra::Pack if !pragma => {
            out.insert(0, S::Array(Ty::Element, "row".into(), vec![v("n")], false));
            let mut step = pivot(v("k"));
            step.push(range(
                "j3",
                v("k") + n(1),
                v("n"),
                vec![set(at("row", [v("j3")]), second(v("j3"), v("k")))],
            ));
            step.push(range(
                "i",
                v("k") + n(1),
                v("n"),
                vec![range(
                    "j",
                    v("k") + n(1),
                    last(v("i")),
                    vec![sub(
                        m(v("i"), v("j")),
                        m(v("i"), v("k")) * at("row", [v("j")]),
                    )],
                )],
            ));
            out.push(run("k", v("n"), step));
        }
        _ => return None,
    }
    if cholesky {
        out.push(run(
            "i1",
            v("n"),
            vec![range(
                "j1",
                v("i1") + n(1),
                v("n"),
                vec![set(m(v("i1"), v("j1")), E::R("0.0"))],
            )],
        ));
    }
    Some(out)
}
