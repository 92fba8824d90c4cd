//! Rows that are normalized, elements that are computed on their own, and interactions of all with all.

use flopsmith_protocol::Technique;

use super::super::ast::{E, Kernel, S, Ty, add, at, bin, min, n, range, real, run, set, stride, v};
use super::{directed, labels, unrolled};

pub fn all() -> Vec<Kernel> {
    [layernorm(), softmax(), black_scholes(), nbody()].concat()
}

fn call(name: &'static str, argument: E) -> E {
    E::Call(name, vec![argument])
}

fn over(a: E, b: E) -> E {
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
            labels([(true, Technique::CacheBlocking)]),
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
