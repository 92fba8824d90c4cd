//! Shortest paths between all nodes.

use flopsmith_protocol::Technique;

use super::super::ast::{E, Kernel, S, Ty, at, bin, choose, min, n, range, run, set, stride, v};
use super::{directed, labels, unrolled};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Least {
    If,
    Select,
    Min,
}

pub fn all() -> Vec<Kernel> {
    let mut found = Vec::new();
    let d = |i: E, j: E| at("length", [i, j]);
    let mut push = |about: String, body: Vec<S>, labels| {
        let mut whole = vec![run(
            "i0",
            v("n"),
            vec![run(
                "j0",
                v("n"),
                vec![set(
                    d(v("i0"), v("j0")),
                    choose(
                        bin("==", v("i0"), v("j0")),
                        n(0),
                        at("weight", [v("i0"), v("j0")]),
                    ),
                )],
            )],
        )];
        whole.extend(body);
        found.push(Kernel {
            kind: "graph",
            problem: "floyd_warshall",
            about,
            body: whole,
            labels,
        });
    };
    for least in [Least::If, Least::Select, Least::Min] {
        let labels = |list: &[(bool, Technique)]| {
            let removed = (least != Least::If, Technique::BranchRemoval);
            labels(list.iter().copied().chain([removed]))
        };
        // The path through `k`, from the row that `first` gives.
        let relax = |i: E, j: E, first: E, second: E, copy: usize| -> Vec<S> {
            let through = format!("through{copy}");
            let target = d(i, j);
            let sum = S::Let(Ty::Element, through.clone(), Some(first + second));
            let through = v(through);
            match least {
                Least::If => vec![
                    sum,
                    S::If(
                        bin("<", through.clone(), target.clone()),
                        vec![set(target, through)],
                        vec![],
                    ),
                ],
                Least::Select => vec![
                    sum,
                    set(
                        target.clone(),
                        choose(bin("<", through.clone(), target.clone()), through, target),
                    ),
                ],
                Least::Min => vec![sum, set(target.clone(), min(target, through))],
            }
        };
        let one =
            |i: E, j: E, copy: usize| relax(i.clone(), j.clone(), d(i, v("k")), d(v("k"), j), copy);
        for (first, second) in [("i", "j"), ("j", "i")] {
            let turned = (first == "j", Technique::LoopReorder);
            let nest = |inner: Vec<S>| vec![run("k", v("n"), vec![run(first, v("n"), inner)])];
            let plain = || vec![run(second, v("n"), one(v("i"), v("j"), 0))];
            push(
                format!("{least:?} {first} plain"),
                nest(plain()),
                labels(&[turned]),
            );
            push(
                format!("{least:?} {first} simd"),
                nest(directed("omp simd", plain())),
                labels(&[turned, (true, Technique::Simd)]),
            );
            push(
                format!("{least:?} {first} parallel"),
                vec![run(
                    "k",
                    v("n"),
                    directed("omp parallel for", vec![run(first, v("n"), plain())]),
                )],
                labels(&[turned, (true, Technique::Openmp)]),
            );
            for factor in [2, 4] {
                let inner = unrolled(second, n(0), v("n"), factor, &|place, copy| {
                    let with = |s: S| s.with(second, &place);
                    one(v("i"), v("j"), copy).into_iter().map(with).collect()
                });
                push(
                    format!("{least:?} {first} unroll {factor}"),
                    nest(inner),
                    labels(&[turned, (true, Technique::Unroll)]),
                );
            }
            for size in [32, 48] {
                let name = format!("{second}{second}");
                let inner = range(
                    second,
                    v(&name),
                    min(v(&name) + v("NB"), v("n")),
                    one(v("i"), v("j"), 0),
                );
                push(
                    format!("{least:?} {first} strips {size}"),
                    vec![
                        S::Const("NB".into(), size),
                        run(
                            "k",
                            v("n"),
                            vec![stride(
                                &name,
                                n(0),
                                v("n"),
                                v("NB"),
                                vec![run(first, v("n"), vec![inner])],
                            )],
                        ),
                    ],
                    labels(&[turned, (true, Technique::CacheBlocking)]),
                );
            }
        }
        // A row, and an element of it, are read once.
        let inner = vec![
            S::Let(Ty::Element, "first".into(), Some(d(v("i"), v("k")))),
            run(
                "j",
                v("n"),
                relax(v("i"), v("j"), v("first"), d(v("k"), v("j")), 0),
            ),
        ];
        push(
            format!("{least:?} element of the row"),
            vec![run("k", v("n"), vec![run("i", v("n"), inner)])],
            labels(&[]),
        );
        let packed = vec![
            run(
                "j1",
                v("n"),
                vec![set(at("row", [v("j1")]), d(v("k"), v("j1")))],
            ),
            run(
                "i",
                v("n"),
                vec![run(
                    "j",
                    v("n"),
                    relax(v("i"), v("j"), d(v("i"), v("k")), at("row", [v("j")]), 0),
                )],
            ),
        ];
        push(
            format!("{least:?} packed row"),
            vec![
                S::Array(Ty::Element, "row".into(), vec![v("n")], false),
                run("k", v("n"), packed),
            ],
            labels(&[(true, Technique::Packing)]),
        );
        // Three phases over blocks, each of which runs over the same loops.
        let part = |rows: &str, columns: &str| {
            let end = |block: &str| min(v(block) + v("NB"), v("n"));
            range(
                "k",
                v("kb"),
                end("kb"),
                vec![range(
                    "i",
                    v(rows),
                    end(rows),
                    vec![range("j", v(columns), end(columns), one(v("i"), v("j"), 0))],
                )],
            )
        };
        let blocked = |body: Vec<S>| {
            vec![
                S::Const("NB".into(), 32),
                stride("kb", n(0), v("n"), v("NB"), body),
            ]
        };
        push(
            format!("{least:?} phases"),
            blocked(vec![
                part("kb", "kb"),
                stride("jb", n(0), v("n"), v("NB"), vec![part("kb", "jb")]),
                stride("ib", n(0), v("n"), v("NB"), vec![part("ib", "kb")]),
                stride(
                    "ib",
                    n(0),
                    v("n"),
                    v("NB"),
                    vec![stride("jb", n(0), v("n"), v("NB"), vec![part("ib", "jb")])],
                ),
            ]),
            labels(&[(true, Technique::CacheBlocking)]),
        );
        // In the last phase, the paths through the nodes of a block may be tried together for each pair.
        let end = |block: &str| min(v(block) + v("NB"), v("n"));
        let mut cell = vec![S::Let(Ty::Element, "best".into(), Some(d(v("i"), v("j"))))];
        let through = d(v("i"), v("k")) + d(v("k"), v("j"));
        let lower = match least {
            Least::If => S::If(
                bin("<", through.clone(), v("best")),
                vec![set(v("best"), through)],
                vec![],
            ),
            Least::Select => set(
                v("best"),
                choose(bin("<", through.clone(), v("best")), through, v("best")),
            ),
            Least::Min => set(v("best"), min(v("best"), through)),
        };
        cell.push(range("k", v("kb"), end("kb"), vec![lower]));
        cell.push(set(d(v("i"), v("j")), v("best")));
        push(
            format!("{least:?} last phase by pairs"),
            blocked(vec![
                part("kb", "kb"),
                stride("jb", n(0), v("n"), v("NB"), vec![part("kb", "jb")]),
                stride("ib", n(0), v("n"), v("NB"), vec![part("ib", "kb")]),
                run("i", v("n"), vec![run("j", v("n"), cell)]),
            ]),
            labels(&[
                (true, Technique::CacheBlocking),
                (true, Technique::LoopReorder),
            ]),
        );
        // … or for several pairs in variables.
        let bests: Vec<String> = (0..4).map(|c| format!("best{c}")).collect();
        let place = |c: usize| v("j") + n(c as i64);
        let mut cells: Vec<S> = bests
            .iter()
            .enumerate()
            .map(|(c, best)| S::Let(Ty::Element, best.clone(), Some(d(v("i"), place(c)))))
            .collect();
        let lower = bests.iter().enumerate().map(|(c, best)| {
            let through = d(v("i"), v("k")) + d(v("k"), place(c));
            match least {
                Least::If => S::If(
                    bin("<", through.clone(), v(best)),
                    vec![set(v(best), through)],
                    vec![],
                ),
                Least::Select => set(
                    v(best),
                    choose(bin("<", through.clone(), v(best)), through, v(best)),
                ),
                Least::Min => set(v(best), min(v(best), through)),
            }
        });
        cells.push(range("k", v("kb"), end("kb"), lower.collect()));
        cells.extend(
            bests
                .iter()
                .enumerate()
                .map(|(c, best)| set(d(v("i"), place(c)), v(best))),
        );
        push(
            format!("{least:?} last phase by tiles"),
            blocked(vec![
                part("kb", "kb"),
                stride("jb", n(0), v("n"), v("NB"), vec![part("kb", "jb")]),
                stride("ib", n(0), v("n"), v("NB"), vec![part("ib", "kb")]),
                run(
                    "i",
                    v("n"),
                    vec![stride("j", n(0), v("n") - n(3), n(4), cells)],
                ),
            ]),
            labels(&[
                (true, Technique::CacheBlocking),
                (true, Technique::LoopReorder),
                (true, Technique::RegisterBlocking),
            ]),
        );
    }
    found
}
