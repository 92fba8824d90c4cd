//! Walsh-Hadamard transforms.

use flopsmith_protocol::Technique;

use super::super::ast::{E, Kernel, S, Step, Ty, at, bin, n, range, real, run, set, stride, v};
use super::{directed, labels, unrolled};

pub fn all() -> Vec<Kernel> {
    let mut found = Vec::new();
    let y = |i: E| at("y", [i]);
    let copy = || run("i0", v("n"), vec![set(y(v("i0")), at("x", [v("i0")]))]);
    let pair = |i: E, h: E, c: usize| -> Vec<S> {
        let (a, b) = (format!("a{c}"), format!("b{c}"));
        vec![
            real(&a, Some(y(i.clone()))),
            real(&b, Some(y(i.clone() + h.clone()))),
            set(y(i.clone()), v(&a) + v(&b)),
            set(y(i + h), v(&a) - v(&b)),
        ]
    };
    let mut push = |about: String, body: Vec<S>, labels| {
        found.push(Kernel {
            kind: "butterfly",
            problem: "walsh_hadamard",
            about,
            body,
            labels,
        });
    };
    let levels = |from: E, to: E, body: Vec<S>| S::For("h".into(), from, to, Step::Times(2), body);
    let bases = |inner: Vec<S>| stride("base", n(0), v("n"), n(2) * v("h"), inner);
    let plain = || {
        vec![range(
            "i",
            v("base"),
            v("base") + v("h"),
            pair(v("i"), v("h"), 0),
        )]
    };
    push(
        "plain".into(),
        vec![copy(), levels(n(1), v("n"), vec![bases(plain())])],
        labels([]),
    );
    // The half's elements are counted from 0.
    let offset = || {
        vec![range(
            "j",
            n(0),
            v("h"),
            pair(v("base") + v("j"), v("h"), 0),
        )]
    };
    push(
        "offsets".into(),
        vec![copy(), levels(n(1), v("n"), vec![bases(offset())])],
        labels([]),
    );
    for (text, technique) in [
        ("omp simd", Technique::Simd),
        ("GCC unroll 4", Technique::Unroll),
    ] {
        push(
            text.into(),
            vec![
                copy(),
                levels(n(1), v("n"), vec![bases(directed(text, plain()))]),
            ],
            labels([(true, technique)]),
        );
    }
    push(
        "parallel".into(),
        vec![
            copy(),
            levels(
                n(1),
                v("n"),
                directed("omp parallel for", vec![bases(plain())]),
            ),
        ],
        labels([(true, Technique::Openmp)]),
    );
    for factor in [2, 4] {
        for counted in [false, true] {
            let inner = if counted {
                unrolled("j", n(0), v("h"), factor, &|j, c| {
                    pair(v("base") + j, v("h"), c)
                })
            } else {
                unrolled("i", v("base"), v("base") + v("h"), factor, &|i, c| {
                    pair(i, v("h"), c)
                })
            };
            push(
                format!("unroll {factor} {counted}"),
                vec![copy(), levels(n(1), v("n"), vec![bases(inner)])],
                labels([(true, Technique::Unroll)]),
            );
        }
    }
    // Two levels at once.
    let four = |i: E, h: E| -> Vec<S> {
        let of = |k: i64| y(i.clone() + n(k) * h.clone());
        let mut all: Vec<S> = ["p", "q", "r", "s"]
            .iter()
            .zip(0..)
            .map(|(name, k)| real(name, Some(of(k))))
            .collect();
        for (k, (signs, _)) in [
            (["+", "+"], 0),
            (["-", "-"], 0),
            (["+", "-"], 0),
            (["-", "+"], 0),
        ]
        .iter()
        .enumerate()
        {
            let value = bin(signs[0], v("p"), v("q"));
            let other = bin(signs[1], v("r"), v("s"));
            let sum = if k < 2 { value + other } else { value - other };
            all.push(set(of(k as i64), sum));
        }
        all
    };
    let radix4 = range("i", v("base"), v("base") + v("h"), four(v("i"), v("h")));
    push(
        "two levels".into(),
        vec![
            copy(),
            S::For(
                "h".into(),
                n(1),
                v("n"),
                Step::Times(4),
                vec![stride("base", n(0), v("n"), n(4) * v("h"), vec![radix4])],
            ),
        ],
        labels([]),
    );
    // The levels within a block first, block by block.
    for size in [256, 1024] {
        let within = stride(
            "base",
            v("chunk"),
            v("chunk") + v("BLOCK"),
            n(2) * v("h"),
            plain(),
        );
        push(
            format!("blocks {size}"),
            vec![
                S::Const("BLOCK".into(), size),
                copy(),
                stride(
                    "chunk",
                    n(0),
                    v("n"),
                    v("BLOCK"),
                    vec![levels(n(1), v("BLOCK"), vec![within])],
                ),
                levels(v("BLOCK"), v("n"), vec![bases(plain())]),
            ],
            labels([(true, Technique::CacheBlocking)]),
        );
    }
    // Levels go to and fro between two arrays.
    let t = |i: E| at("other", [i]);
    let there = range(
        "i",
        v("base"),
        v("base") + v("h"),
        vec![
            set(t(v("i")), y(v("i")) + y(v("i") + v("h"))),
            set(t(v("i") + v("h")), y(v("i")) - y(v("i") + v("h"))),
        ],
    );
    push(
        "two arrays".into(),
        vec![
            S::Array(Ty::Element, "other".into(), vec![v("n")], false),
            copy(),
            levels(
                n(1),
                v("n"),
                vec![
                    bases(vec![there]),
                    run("k", v("n"), vec![set(y(v("k")), t(v("k")))]),
                ],
            ),
        ],
        labels([]),
    );
    found
}
