//! Stencils in two dimensions with sweeps, and in three dimensions.

use flopsmith_protocol::Technique;

use super::super::ast::{
    E, Kernel, S, Ty, at, bin, choose, max, min, n, range, run, set, stride, v,
};
use super::{directed, labels, unrolled};

pub fn all() -> Vec<Kernel> {
    [two(), skewed(), three()].concat()
}

/// The new value of a cell.
fn cell(from: &str, i: E, j: E) -> E {
    let u = |a: E, b: E| at(from, [a, b]);
    let sides = u(i.clone() - n(1), j.clone())
        + u(i.clone() + n(1), j.clone())
        + u(i.clone(), j.clone() - n(1))
        + u(i.clone(), j.clone() + n(1));
    E::R("0.5") * u(i, j) + E::R("0.125") * sides
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Plain,
    Unroll(i64),
    Jam(i64),
    Block,
    Strip,
    Simd,
    Parallel,
    Prefetch,
}

const WAYS: [Way; 9] = [
    Way::Plain,
    Way::Unroll(2),
    Way::Unroll(4),
    Way::Jam(2),
    Way::Block,
    Way::Strip,
    Way::Simd,
    Way::Parallel,
    Way::Prefetch,
];

fn way_labels(way: Way, turned: bool) -> flopsmith_protocol::TechniqueSet {
    labels([
        (turned, Technique::LoopReorder),
        (
            matches!(way, Way::Unroll(_) | Way::Jam(_)),
            Technique::Unroll,
        ),
        (
            matches!(way, Way::Block | Way::Strip),
            Technique::CacheBlocking,
        ),
        (way == Way::Simd, Technique::Simd),
        (way == Way::Parallel, Technique::Openmp),
        (way == Way::Prefetch, Technique::Prefetch),
    ])
}

/// Loops over the inner cells of a grid, in one of the ways.
fn sweep(way: Way, turned: bool, one: &dyn Fn(E, E) -> Vec<S>) -> Vec<S> {
    let (first, second) = if turned { ("j", "i") } else { ("i", "j") };
    let end = |x: &str| {
        if x == "i" {
            v("h") - n(1)
        } else {
            v("w") - n(1)
        }
    };
    let body = |a: E, b: E| {
        if turned { one(b, a) } else { one(a, b) }
    };
    let plain = || range(second, n(1), end(second), body(v(first), v(second)));
    match way {
        Way::Plain => vec![range(first, n(1), end(first), vec![plain()])],
        Way::Simd => vec![range(
            first,
            n(1),
            end(first),
            directed("omp simd", vec![plain()]),
        )],
        Way::Parallel => directed(
            "omp parallel for",
            vec![range(first, n(1), end(first), vec![plain()])],
        ),
        Way::Unroll(factor) => vec![range(
            first,
            n(1),
            end(first),
            unrolled(second, n(1), end(second), factor, &|p, _| body(v(first), p)),
        )],
        Way::Jam(factor) => {
            let both = (0..factor).flat_map(|d| body(v(first) + n(d), v(second)));
            let inner = range(second, n(1), end(second), both.collect());
            vec![stride(first, n(1), end(first), n(factor), vec![inner])]
        }
        Way::Strip | Way::Block => {
            let block = |x: &str| v(format!("{x}{x}"));
            let inner = range(
                second,
                block(second),
                min(block(second) + v("TB"), end(second)),
                body(v(first), v(second)),
            );
            let (from, to) = if way == Way::Block {
                (block(first), min(block(first) + v("TB"), end(first)))
            } else {
                (n(1), end(first))
            };
            let within = range(first, from, to, vec![inner]);
            let strips = stride(
                &format!("{second}{second}"),
                n(1),
                end(second),
                v("TB"),
                vec![within],
            );
            if way == Way::Strip {
                vec![strips]
            } else {
                vec![stride(
                    &format!("{first}{first}"),
                    n(1),
                    end(first),
                    v("TB"),
                    vec![strips],
                )]
            }
        }
        Way::Prefetch => {
            let mut statements = body(v(first), v(second));
            let ahead = at("in", [v("i") + n(2), v("j")]);
            statements.insert(0, S::Prefetch(ahead));
            vec![range(
                first,
                n(1),
                end(first),
                vec![range(second, n(1), end(second), statements)],
            )]
        }
    }
}

fn two() -> Vec<Kernel> {
    let mut found = Vec::new();
    let whole = |target: &str, source: &str, a: &str, b: &str| {
        run(
            a,
            v("h"),
            vec![run(
                b,
                v("w"),
                vec![set(at(target, [v(a), v(b)]), at(source, [v(a), v(b)]))],
            )],
        )
    };
    for turned in [false, true] {
        for way in WAYS {
            let blocked = matches!(way, Way::Block | Way::Strip);
            // Each sweep reads a copy of the grid.
            let one = |i: E, j: E| vec![set(at("out", [i.clone(), j.clone()]), cell("old", i, j))];
            let mut body = Vec::new();
            if blocked {
                body.push(S::Const("TB".into(), 32));
            }
            body.push(S::Array(
                Ty::Element,
                "old".into(),
                vec![v("h"), v("w")],
                false,
            ));
            body.push(whole("out", "in", "i0", "j0"));
            let mut steps = vec![whole("old", "out", "i1", "j1")];
            steps.extend(sweep(way, turned, &one));
            body.push(run("t", v("sweeps"), steps));
            found.push(Kernel {
                kind: "stencil",
                problem: "stencil2d",
                about: format!("copies {way:?} {turned}"),
                body,
                labels: way_labels(way, turned),
            });
            // Sweeps go to and fro between two grids.
            let mut body = Vec::new();
            if blocked {
                body.push(S::Const("TB".into(), 64));
            }
            body.push(S::Array(
                Ty::Element,
                "scratch".into(),
                vec![v("h"), v("w")],
                false,
            ));
            body.push(whole("out", "in", "i0", "j0"));
            body.push(whole("scratch", "in", "i1", "j1"));
            let there = |i: E, j: E| {
                vec![set(
                    at("scratch", [i.clone(), j.clone()]),
                    cell("out", i, j),
                )]
            };
            let back = |i: E, j: E| {
                vec![set(
                    at("out", [i.clone(), j.clone()]),
                    cell("scratch", i, j),
                )]
            };
            let mut steps = sweep(way, turned, &there);
            steps.extend(sweep(way, turned, &back));
            body.push(stride("t", n(0), v("sweeps") - n(1), n(2), steps));
            found.push(Kernel {
                kind: "stencil",
                problem: "stencil2d",
                about: format!("two grids {way:?} {turned}"),
                body,
                labels: way_labels(way, turned),
            });
        }
    }
    found
}

/// Sweeps that run over moving parts of the grid.
fn skewed() -> Vec<Kernel> {
    let mut found = Vec::new();
    // Two grids, of which a sweep reads one and writes the other.
    let grid = |t: E, i: E, j: E| at("grid", [bin("%", t, n(2)), i, j]);
    let new = |i: E, j: E| {
        let u = |a: E, b: E| grid(v("t"), a, b);
        let sides = u(i.clone() - n(1), j.clone())
            + u(i.clone() + n(1), j.clone())
            + u(i.clone(), j.clone() - n(1))
            + u(i.clone(), j.clone() + n(1));
        set(
            grid(v("t") + n(1), i.clone(), j.clone()),
            E::R("0.5") * u(i, j) + E::R("0.125") * sides,
        )
    };
    let fill = || {
        run(
            "i0",
            v("h"),
            vec![run(
                "j0",
                v("w"),
                vec![
                    set(grid(n(0), v("i0"), v("j0")), at("in", [v("i0"), v("j0")])),
                    set(grid(n(1), v("i0"), v("j0")), at("in", [v("i0"), v("j0")])),
                ],
            )],
        )
    };
    let take = || {
        run(
            "i1",
            v("h"),
            vec![run(
                "j1",
                v("w"),
                vec![set(
                    at("out", [v("i1"), v("j1")]),
                    grid(v("sweeps"), v("i1"), v("j1")),
                )],
            )],
        )
    };
    let mut push = |about: String, constants: Vec<S>, steps: Vec<S>, labels| {
        let mut body = constants;
        body.push(S::Array(
            Ty::Element,
            "grid".into(),
            vec![n(2), v("h"), v("w")],
            false,
        ));
        body.push(fill());
        body.extend(steps);
        body.push(take());
        found.push(Kernel {
            kind: "stencil",
            problem: "stencil2d",
            about,
            body,
            labels,
        });
    };
    let columns = |one: Vec<S>| range("j", n(1), v("w") - n(1), one);
    push(
        "parity".into(),
        vec![],
        vec![run(
            "t",
            v("sweeps"),
            vec![range(
                "i",
                n(1),
                v("h") - n(1),
                vec![columns(vec![new(v("i"), v("j"))])],
            )],
        )],
        labels([]),
    );
    for size in [32, 48, 64] {
        for simd in [false, true] {
            let (low, high) = (v("ii") - v("t"), v("ii") + v("TB") - v("t"));
            let inner = vec![columns(vec![new(v("i"), v("j"))])];
            let inner = if simd {
                directed("omp simd", inner)
            } else {
                inner
            };
            let part = range("i", max(n(1), low), min(v("h") - n(1), high), inner);
            push(
                format!("moving rows {size} {simd}"),
                vec![S::Const("TB".into(), size)],
                vec![stride(
                    "ii",
                    n(1),
                    v("h") + v("sweeps"),
                    v("TB"),
                    vec![run("t", v("sweeps"), vec![part])],
                )],
                labels([
                    (true, Technique::Skewing),
                    (true, Technique::CacheBlocking),
                    (simd, Technique::Simd),
                ]),
            );
        }
        let (low, high) = (v("jj") - v("t"), v("jj") + v("TB") - v("t"));
        let part = range(
            "i",
            n(1),
            v("h") - n(1),
            vec![range(
                "j",
                max(n(1), low),
                min(v("w") - n(1), high),
                vec![new(v("i"), v("j"))],
            )],
        );
        push(
            format!("moving columns {size}"),
            vec![S::Const("TB".into(), size)],
            vec![stride(
                "jj",
                n(1),
                v("w") + v("sweeps"),
                v("TB"),
                vec![run("t", v("sweeps"), vec![part])],
            )],
            labels([(true, Technique::Skewing), (true, Technique::CacheBlocking)]),
        );
    }
    // A front that takes one row of each sweep.
    for step in [1, 2] {
        let row = v("front") - n(step) * v("t");
        let inside = bin(
            "&&",
            bin(">=", v("i"), n(1)),
            bin("<", v("i"), v("h") - n(1)),
        );
        push(
            format!("front {step}"),
            vec![],
            vec![run(
                "front",
                v("h") + n(step) * v("sweeps"),
                vec![run(
                    "t",
                    v("sweeps"),
                    vec![
                        super::int("i", Some(row)),
                        S::If(inside, vec![columns(vec![new(v("i"), v("j"))])], vec![]),
                    ],
                )],
            )],
            labels([(true, Technique::Skewing)]),
        );
    }
    found
}

fn three() -> Vec<Kernel> {
    let mut found = Vec::new();
    let u = |z: E, y: E, x: E| at("in", [z, y, x]);
    let value = |z: E, y: E, x: E| {
        let sides = u(z.clone(), y.clone(), x.clone() - n(1))
            + u(z.clone(), y.clone(), x.clone() + n(1))
            + u(z.clone(), y.clone() - n(1), x.clone())
            + u(z.clone(), y.clone() + n(1), x.clone())
            + u(z.clone() - n(1), y.clone(), x.clone())
            + u(z.clone() + n(1), y.clone(), x.clone());
        E::R("0.25") * u(z, y, x) + E::R("0.125") * sides
    };
    let extent = |x: &str| {
        v(match x {
            "z" => "d",
            "y" => "h",
            _ => "w",
        })
    };
    let out = |z: E, y: E, x: E| at("out", [z, y, x]);
    let edge =
        |x: &str, extent: E| bin("||", bin("==", v(x), n(0)), bin("==", v(x), extent - n(1)));
    let any_edge = || {
        bin(
            "||",
            bin("||", edge("z", v("d")), edge("y", v("h"))),
            edge("x", v("w")),
        )
    };
    for order in [
        ["z", "y", "x"],
        ["z", "x", "y"],
        ["y", "z", "x"],
        ["x", "y", "z"],
    ] {
        let turned = order != ["z", "y", "x"];
        for with_edges in [true, false] {
            for way in [
                Way::Plain,
                Way::Unroll(2),
                Way::Unroll(4),
                Way::Block,
                Way::Simd,
                Way::Parallel,
            ] {
                let one = |d: E| -> Vec<S> {
                    let place = |x: &str| if x == order[2] { d.clone() } else { v(x) };
                    let (z, y, x) = (place("z"), place("y"), place("x"));
                    let new = value(z.clone(), y.clone(), x.clone());
                    if with_edges {
                        let condition = any_edge().with(order[2], &d);
                        vec![set(
                            out(z.clone(), y.clone(), x.clone()),
                            choose(condition, u(z, y, x), new),
                        )]
                    } else {
                        vec![set(out(z, y, x), new)]
                    }
                };
                let bounds = |x: &str| {
                    if with_edges {
                        (n(0), extent(x))
                    } else {
                        (n(1), extent(x) - n(1))
                    }
                };
                let (from, to) = bounds(order[2]);
                let mut body = Vec::new();
                if !with_edges {
                    body.push(run(
                        "z0",
                        v("d"),
                        vec![run(
                            "y0",
                            v("h"),
                            vec![run(
                                "x0",
                                v("w"),
                                vec![set(
                                    out(v("z0"), v("y0"), v("x0")),
                                    u(v("z0"), v("y0"), v("x0")),
                                )],
                            )],
                        )],
                    ));
                }
                let inner = match way {
                    Way::Unroll(factor) => unrolled(order[2], from, to, factor, &|d, _| one(d)),
                    Way::Block => {
                        body.insert(0, S::Const("TB".into(), 32));
                        let name = format!("{0}{0}", order[2]);
                        vec![range(
                            order[2],
                            v(&name),
                            min(v(&name) + v("TB"), to),
                            one(v(order[2])),
                        )]
                    }
                    Way::Simd => directed(
                        "omp simd",
                        vec![range(order[2], from, to, one(v(order[2])))],
                    ),
                    _ => vec![range(order[2], from, to, one(v(order[2])))],
                };
                let mut whole = inner;
                for x in [order[1], order[0]] {
                    let (from, to) = bounds(x);
                    whole = vec![range(x, from, to, whole)];
                }
                if way == Way::Block {
                    let (from, to) = bounds(order[2]);
                    let name = format!("{0}{0}", order[2]);
                    whole = vec![stride(&name, from, to, v("TB"), whole)];
                }
                if way == Way::Parallel {
                    whole = directed("omp parallel for", whole);
                }
                body.extend(whole);
                found.push(Kernel {
                    kind: "stencil",
                    problem: "stencil3d",
                    about: format!("{order:?} {way:?} edges {with_edges}"),
                    body,
                    // An expression chooses the values at the edges, or the edges have loops of their own.
                    labels: way_labels(way, turned).with(Technique::BranchRemoval),
                });
            }
        }
    }
    found
}
