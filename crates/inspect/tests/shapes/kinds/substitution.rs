//! Triangular systems with several right-hand sides.

use super::super::ast::{E, S, Ty, at, bin, min, n, range, real, run, set, stride, v};
use super::triangular::{Extra, Form, over, simd, sub};
use super::unrolled;

/// Forward substitution.
pub(super) fn dtrsm(form: Form, extra: Extra, pragma: bool) -> Option<Vec<S>> {
    let l = |a: E, b: E| at("L", [a, b]);
    let x = |a: E, b: E| at("X", [a, b]);
    let finish = set(x(v("i"), v("j")), over(v("sum"), l(v("i"), v("i"))));
    let dot = |inner: Vec<S>| {
        let mut all = vec![real("sum", Some(at("B", [v("i"), v("j")])))];
        all.extend(inner);
        all.push(finish.clone());
        all
    };
    let around = |body: Vec<S>| match form {
        Form::Dot => run("i", v("n"), vec![run("j", v("m"), body)]),
        _ => run("j", v("m"), vec![run("i", v("n"), body)]),
    };
    let term = |k: E| sub(v("sum"), l(v("i"), k.clone()) * x(k, v("j")));
    Some(match (form, extra) {
        (Form::Dot | Form::Turned, Extra::No) => {
            let loops = vec![range("k", n(0), v("i"), vec![term(v("k"))])];
            vec![around(dot(simd(pragma, loops)))]
        }
        (Form::Dot | Form::Turned, Extra::Unroll(factor)) if !pragma => {
            vec![around(dot(unrolled("k", n(0), v("i"), factor, &|k, _| {
                vec![term(k)]
            })))]
        }
        (Form::Dot, Extra::Tile) if !pragma => {
            // Four columns of a row at a time.
            let sums = |c: i64| v(format!("sum{c}"));
            let mut tile: Vec<S> = (0..4)
                .map(|c| real(&format!("sum{c}"), Some(at("B", [v("i"), v("j") + n(c)]))))
                .collect();
            let updates =
                (0..4).map(|c| sub(sums(c), l(v("i"), v("k")) * x(v("k"), v("j") + n(c))));
            tile.push(range("k", n(0), v("i"), updates.collect()));
            tile.extend(
                (0..4).map(|c| set(x(v("i"), v("j") + n(c)), over(sums(c), l(v("i"), v("i"))))),
            );
            vec![run(
                "i",
                v("n"),
                vec![stride("j", n(0), v("m"), n(4), tile)],
            )]
        }
        (Form::Dot, Extra::Blocked) if !pragma => {
            let body = dot(vec![range("k", n(0), v("i"), vec![term(v("k"))])]);
            let block = range("j", v("jj"), min(v("jj") + v("NB"), v("m")), body);
            vec![
                S::Const("NB".into(), 32),
                stride(
                    "jj",
                    n(0),
                    v("m"),
                    v("NB"),
                    vec![run("i", v("n"), vec![block])],
                ),
            ]
        }
        (Form::Dot, Extra::Pack) if !pragma => {
            let read = sub(v("sum"), at("row", [v("k")]) * x(v("k"), v("j")));
            let body = dot(vec![range("k", n(0), v("i"), vec![read])]);
            vec![
                S::Array(Ty::Element, "row".into(), vec![v("n")], false),
                run(
                    "i",
                    v("n"),
                    vec![
                        range(
                            "k0",
                            n(0),
                            v("i"),
                            vec![set(at("row", [v("k0")]), l(v("i"), v("k0")))],
                        ),
                        run("j", v("m"), body),
                    ],
                ),
            ]
        }
        (Form::Outer, Extra::No) => {
            let inner = vec![run(
                "j",
                v("m"),
                vec![sub(
                    x(v("i"), v("j")),
                    l(v("i"), v("k")) * x(v("k"), v("j")),
                )],
            )];
            vec![run(
                "i",
                v("n"),
                vec![
                    run(
                        "j0",
                        v("m"),
                        vec![set(x(v("i"), v("j0")), at("B", [v("i"), v("j0")]))],
                    ),
                    range("k", n(0), v("i"), simd(pragma, inner)),
                    run(
                        "j1",
                        v("m"),
                        vec![S::Set(x(v("i"), v("j1")), "/=", l(v("i"), v("i")))],
                    ),
                ],
            )]
        }
        (Form::Outer, Extra::Unroll(factor)) if !pragma => {
            let inner = unrolled("j", n(0), v("m"), factor, &|j, _| {
                vec![sub(x(v("i"), j.clone()), l(v("i"), v("k")) * x(v("k"), j))]
            });
            vec![run(
                "i",
                v("n"),
                vec![
                    run(
                        "j0",
                        v("m"),
                        vec![set(x(v("i"), v("j0")), at("B", [v("i"), v("j0")]))],
                    ),
                    range("k", n(0), v("i"), inner),
                    run(
                        "j1",
                        v("m"),
                        vec![S::Set(x(v("i"), v("j1")), "/=", l(v("i"), v("i")))],
                    ),
                ],
            )]
        }
        (Form::Outer, Extra::Rank4) if !pragma => {
            let four = (0..4)
                .map(|d| l(v("i"), v("k") + n(d)) * x(v("k") + n(d), v("j")))
                .reduce(|a, b| a + b)
                .expect("four terms");
            vec![run(
                "i",
                v("n"),
                vec![
                    run(
                        "j0",
                        v("m"),
                        vec![set(x(v("i"), v("j0")), at("B", [v("i"), v("j0")]))],
                    ),
                    stride(
                        "k",
                        n(0),
                        v("i") - n(3),
                        n(4),
                        vec![run("j", v("m"), vec![sub(x(v("i"), v("j")), four)])],
                    ),
                    range(
                        "k2",
                        v("i") - bin("%", v("i"), n(4)),
                        v("i"),
                        vec![run(
                            "j2",
                            v("m"),
                            vec![sub(
                                x(v("i"), v("j2")),
                                l(v("i"), v("k2")) * x(v("k2"), v("j2")),
                            )],
                        )],
                    ),
                    run(
                        "j1",
                        v("m"),
                        vec![S::Set(x(v("i"), v("j1")), "/=", l(v("i"), v("i")))],
                    ),
                ],
            )]
        }
        _ => return None,
    })
}
