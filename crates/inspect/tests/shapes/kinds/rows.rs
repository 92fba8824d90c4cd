//! Rows that are normalized.

use flopsmith_protocol::Technique;

use super::super::ast::{E, Kernel, S, Ty, add, at, bin, min, n, range, real, run, set, stride, v};
use super::{directed, labels, unrolled};

pub fn all() -> Vec<Kernel> {
    [layernorm(), softmax()].concat()
}

pub(super) fn call(name: &'static str, argument: E) -> E {
    E::Call(name, vec![argument])
}

pub(super) fn over(a: E, b: E) -> E {
    bin("/", a, b)
}

/// Options that both kinds of rows have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Plain,
    Unroll(i64),
    /// Unrolled with several sums.
    Partial(i64),
    Blocks,
    Simd,
    Parallel,
    /// The row is copied first.
    Pack,
    /// All rows, column by column.
    Columns,
    /// Four rows at once.
    Rows(i64),
}

const WAYS: [Way; 11] = [
    Way::Plain,
    Way::Unroll(2),
    Way::Unroll(4),
    Way::Partial(4),
    Way::Blocks,
    Way::Simd,
    Way::Parallel,
    Way::Pack,
    Way::Columns,
    Way::Rows(2),
    Way::Rows(4),
];

fn way_labels(way: Way) -> flopsmith_protocol::TechniqueSet {
    labels([
        (
            matches!(way, Way::Unroll(_) | Way::Partial(_)),
            Technique::Unroll,
        ),
        (matches!(way, Way::Partial(_)), Technique::PartialSums),
        (way == Way::Blocks, Technique::CacheBlocking),
        (way == Way::Simd, Technique::Simd),
        (way == Way::Parallel, Technique::Openmp),
        (way == Way::Pack, Technique::Packing),
        (way == Way::Columns, Technique::LoopReorder),
        (matches!(way, Way::Rows(_)), Technique::RegisterBlocking),
    ])
}

/// A loop over a row in one of the ways. `update` gets the place, and the number of the copy.
fn along(way: Way, update: &dyn Fn(E, usize) -> Vec<S>) -> Vec<S> {
    match way {
        Way::Unroll(factor) | Way::Partial(factor) => unrolled("j", n(0), v("n"), factor, update),
        Way::Simd => directed("omp simd", vec![run("j", v("n"), update(v("j"), 0))]),
        Way::Blocks => vec![stride(
            "jj",
            n(0),
            v("n"),
            v("BLOCK"),
            vec![range(
                "j",
                v("jj"),
                min(v("jj") + v("BLOCK"), v("n")),
                update(v("j"), 0),
            )],
        )],
        _ => vec![run("j", v("n"), update(v("j"), 0))],
    }
}

/// The variables of a sum, and the statement that adds up the partial ones.
fn partial(way: Way, name: &str, start: E) -> (Vec<S>, Vec<S>) {
    let Way::Partial(factor) = way else {
        return (vec![real(name, Some(start))], vec![]);
    };
    let parts: Vec<String> = (0..factor).map(|c| format!("{name}{c}")).collect();
    let declared = parts.iter().map(|p| real(p, Some(start.clone()))).collect();
    let total = parts.iter().map(v).reduce(|a, b| a + b).expect("parts");
    (declared, vec![real(name, Some(total))])
}

fn part(way: Way, name: &str, copy: usize) -> E {
    match way {
        Way::Partial(_) => v(format!("{name}{copy}")),
        _ => v(name),
    }
}

fn wrap(way: Way, row: Vec<S>) -> Vec<S> {
    let mut body = Vec::new();
    if way == Way::Blocks {
        body.push(S::Const("BLOCK".into(), 128));
    }
    let loops = vec![run("i", v("m"), row)];
    body.extend(if way == Way::Parallel {
        directed("omp parallel for", loops)
    } else {
        loops
    });
    body
}

fn layernorm() -> Vec<Kernel> {
    let mut found = Vec::new();
    for way in WAYS {
        let scale = |x: E, mean: E, spread: E, j: E| {
            over(x - mean, call("sqrt", spread + E::R("0.00001"))) * at("gamma", [j.clone()])
                + at("beta", [j])
        };
        let body = match way {
            Way::Columns => {
                let sums = |name: &str| S::Array(Ty::Double, name.into(), vec![v("m")], false);
                let zero = |name: &str| set(at(name, [v("i0")]), E::R("0.0"));
                let x = || at("in", [v("i"), v("j")]);
                let mean = || over(at("mean", [v("i")]), v("n"));
                let columns = |body: S| run("j", v("n"), vec![run("i", v("m"), vec![body])]);
                vec![
                    sums("mean"),
                    sums("spread"),
                    run("i0", v("m"), vec![zero("mean"), zero("spread")]),
                    columns(add(at("mean", [v("i")]), x())),
                    columns(add(at("spread", [v("i")]), (x() - mean()) * (x() - mean()))),
                    columns(set(
                        at("out", [v("i"), v("j")]),
                        scale(x(), mean(), over(at("spread", [v("i")]), v("n")), v("j")),
                    )),
                ]
            }
            Way::Rows(count) => {
                let rows = || (0..count).map(|r| (format!("{r}"), v("i") + n(r)));
                let mut row = Vec::new();
                for (r, _) in rows() {
                    row.push(real(&format!("mean{r}"), Some(E::R("0.0"))));
                    row.push(real(&format!("spread{r}"), Some(E::R("0.0"))));
                }
                let each =
                    |f: &dyn Fn(String, E) -> S| rows().map(|(r, i)| f(r, i)).collect::<Vec<_>>();
                let x = |i: E| at("in", [i, v("j")]);
                row.push(run(
                    "j",
                    v("n"),
                    each(&|r, i| add(v(format!("mean{r}")), x(i))),
                ));
                row.extend(each(&|r, _| S::Set(v(format!("mean{r}")), "/=", v("n"))));
                row.push(run(
                    "j",
                    v("n"),
                    each(&|r, i| {
                        let away = x(i) - v(format!("mean{r}"));
                        add(v(format!("spread{r}")), away.clone() * away)
                    }),
                ));
                for (r, i) in rows() {
                    row.push(run(
                        "j",
                        v("n"),
                        vec![set(
                            at("out", [i.clone(), v("j")]),
                            scale(
                                x(i),
                                v(format!("mean{r}")),
                                over(v(format!("spread{r}")), v("n")),
                                v("j"),
                            ),
                        )],
                    ));
                }
                vec![stride("i", n(0), v("m"), n(count), row)]
            }
            _ => {
                let packed = way == Way::Pack;
                let x = |j: E| {
                    if packed {
                        at("row", [j])
                    } else {
                        at("in", [v("i"), j])
                    }
                };
                let mut row = Vec::new();
                if packed {
                    row.push(run(
                        "k",
                        v("n"),
                        vec![set(at("row", [v("k")]), at("in", [v("i"), v("k")]))],
                    ));
                }
                let (start, end) = partial(way, "mean", E::R("0.0"));
                row.extend(start);
                row.extend(along(way, &|j, c| vec![add(part(way, "mean", c), x(j))]));
                row.extend(end);
                row.push(S::Set(v("mean"), "/=", v("n")));
                let (start, end) = partial(way, "spread", E::R("0.0"));
                row.extend(start);
                row.extend(along(way, &|j, c| {
                    let away = x(j) - v("mean");
                    vec![add(part(way, "spread", c), away.clone() * away)]
                }));
                row.extend(end);
                row.push(S::Set(v("spread"), "/=", v("n")));
                row.extend(along(way, &|j, _| {
                    vec![set(
                        at("out", [v("i"), j.clone()]),
                        scale(x(j.clone()), v("mean"), v("spread"), j),
                    )]
                }));
                let mut body = Vec::new();
                if packed {
                    body.push(S::Array(Ty::Element, "row".into(), vec![v("n")], false));
                }
                body.extend(wrap(way, row));
                body
            }
        };
        found.push(Kernel {
            kind: "rows",
            problem: "layernorm",
            about: format!("{way:?}"),
            body,
            labels: way_labels(way),
        });
    }
    found
}

fn softmax() -> Vec<Kernel> {
    let mut found = Vec::new();
    for way in WAYS {
        // The exponentials may be kept, or computed twice.
        for kept in [false, true] {
            let greater = |most: E, x: E| {
                S::If(
                    bin(">", x.clone(), most.clone()),
                    vec![set(most, x)],
                    vec![],
                )
            };
            let body = match way {
                Way::Columns | Way::Rows(_) if kept => continue,
                Way::Columns => {
                    let each = |name: &str| S::Array(Ty::Double, name.into(), vec![v("m")], false);
                    let x = || at("in", [v("i"), v("j")]);
                    let most = || at("most", [v("i")]);
                    let columns = |body: S| run("j", v("n"), vec![run("i", v("m"), vec![body])]);
                    vec![
                        each("most"),
                        each("total"),
                        run(
                            "i0",
                            v("m"),
                            vec![
                                set(at("most", [v("i0")]), at("in", [v("i0"), n(0)])),
                                set(at("total", [v("i0")]), E::R("0.0")),
                            ],
                        ),
                        columns(greater(most(), x())),
                        columns(add(at("total", [v("i")]), call("exp", x() - most()))),
                        columns(set(
                            at("out", [v("i"), v("j")]),
                            over(call("exp", x() - most()), at("total", [v("i")])),
                        )),
                    ]
                }
                Way::Rows(count) => {
                    let rows = || (0..count).map(|r| (format!("{r}"), v("i") + n(r)));
                    let x = |i: E| at("in", [i, v("j")]);
                    let mut row = Vec::new();
                    for (r, i) in rows() {
                        row.push(real(&format!("most{r}"), Some(at("in", [i, n(0)]))));
                        row.push(real(&format!("total{r}"), Some(E::R("0.0"))));
                    }
                    let each = |f: &dyn Fn(String, E) -> S| {
                        rows().map(|(r, i)| f(r, i)).collect::<Vec<_>>()
                    };
                    row.push(run(
                        "j",
                        v("n"),
                        each(&|r, i| greater(v(format!("most{r}")), x(i))),
                    ));
                    row.push(run(
                        "j",
                        v("n"),
                        each(&|r, i| {
                            add(
                                v(format!("total{r}")),
                                call("exp", x(i) - v(format!("most{r}"))),
                            )
                        }),
                    ));
                    for (r, i) in rows() {
                        row.push(run(
                            "j",
                            v("n"),
                            vec![set(
                                at("out", [i.clone(), v("j")]),
                                over(
                                    call("exp", x(i) - v(format!("most{r}"))),
                                    v(format!("total{r}")),
                                ),
                            )],
                        ));
                    }
                    vec![stride("i", n(0), v("m"), n(count), row)]
                }
                _ => {
                    let packed = way == Way::Pack;
                    let x = |j: E| {
                        if packed {
                            at("row", [j])
                        } else {
                            at("in", [v("i"), j])
                        }
                    };
                    let out = |j: E| at("out", [v("i"), j]);
                    let mut row = Vec::new();
                    if packed {
                        row.push(run(
                            "k",
                            v("n"),
                            vec![set(at("row", [v("k")]), at("in", [v("i"), v("k")]))],
                        ));
                    }
                    row.push(real("most", Some(x(n(0)))));
                    row.push(range(
                        "j0",
                        n(1),
                        v("n"),
                        vec![greater(v("most"), x(v("j0")))],
                    ));
                    let (start, end) = partial(way, "total", E::R("0.0"));
                    row.extend(start);
                    row.extend(along(way, &|j, c| {
                        let e = call("exp", x(j.clone()) - v("most"));
                        if kept {
                            vec![set(out(j.clone()), e), add(part(way, "total", c), out(j))]
                        } else {
                            vec![add(part(way, "total", c), e)]
                        }
                    }));
                    row.extend(end);
                    row.extend(along(way, &|j, _| {
                        let top = if kept {
                            out(j.clone())
                        } else {
                            call("exp", x(j.clone()) - v("most"))
                        };
                        vec![set(out(j), over(top, v("total")))]
                    }));
                    let mut body = Vec::new();
                    if packed {
                        body.push(S::Array(Ty::Element, "row".into(), vec![v("n")], false));
                    }
                    body.extend(wrap(way, row));
                    body
                }
            };
            found.push(Kernel {
                kind: "rows",
                problem: "softmax",
                about: format!("{way:?} {kept}"),
                body,
                labels: way_labels(way),
            });
        }
    }
    found
}
