//! Values that the reference keeps in an array: kept, computed once in another way, or computed again for each result.

use flopsmith_protocol::Technique;

use super::super::ast::{E, Kernel, S, Ty, add, at, bin, min, n, range, real, run, set, stride, v};
use super::rows::{call, over};
use super::{directed, labels, unrolled};

pub fn all() -> Vec<Kernel> {
    [covariance(), correlation(), products()].concat()
}

fn kernel(problem: &'static str, about: &str, body: Vec<S>, used: &[Technique]) -> Kernel {
    Kernel {
        kind: "again",
        problem,
        about: about.into(),
        body,
        labels: labels(used.iter().map(|technique| (true, *technique))),
    }
}

fn data(row: E, column: &str) -> E {
    at("data", [row, v(column)])
}

/// An element without the mean of its column.
fn centred(row: E, column: &str) -> E {
    data(row, column) - at("mean", [v(column)])
}

fn means() -> S {
    let mean = || at("mean", [v("j")]);
    run(
        "j",
        v("m"),
        vec![
            set(mean(), E::R("0.0")),
            run("i", v("n"), vec![add(mean(), data(v("i"), "j"))]),
            S::Set(mean(), "/=", v("n")),
        ],
    )
}

/// The sum of one pair of columns, what becomes of it, and its two places in a result.
fn pair(result: &str, sum: Vec<S>, value: Option<E>) -> Vec<S> {
    let mut all = vec![real("total", Some(E::R("0.0")))];
    all.extend(sum);
    all.extend(value.map(|value| set(v("total"), value)));
    all.push(set(at(result, [v("i"), v("j")]), v("total")));
    all.push(set(at(result, [v("j"), v("i")]), v("total")));
    all
}

fn covariance() -> Vec<Kernel> {
    use Technique::{CacheBlocking, Openmp, Recomputation, Simd, Unroll};
    let mean_of = || over(v("total"), v("n") - n(1));
    let term = |k: E, _: usize| vec![add(v("total"), centred(k.clone(), "i") * centred(k, "j"))];
    let sum = || run("k", v("n"), term(v("k"), 0));
    let each = |from: E, body: Vec<S>| vec![run("i", v("m"), vec![range("j", from, v("m"), body)])];
    let cov = |sum: Vec<S>| pair("cov", sum, Some(mean_of()));
    let of = |about, rest: Vec<S>, used: &[Technique]| {
        let body = [vec![means()], rest].concat();
        kernel("polybench_covariance", about, body, used)
    };
    let array = |name: &str, dims: Vec<E>| S::Array(Ty::Double, name.into(), dims, false);
    let kept = |column: &str| at("kept", [v("k"), v(column)]);
    let keep = || {
        let row = vec![set(at("kept", [v("i"), v("j")]), centred(v("i"), "j"))];
        run("i", v("n"), vec![run("j", v("m"), row)])
    };
    let product = |k: E, _: usize| {
        let kept = |column: &str| at("kept", [k.clone(), v(column)]);
        vec![add(v("total"), kept("i") * kept("j"))]
    };
    let block = stride(
        "jj",
        n(0),
        v("m"),
        v("BLOCK"),
        vec![run(
            "i",
            v("m"),
            vec![range(
                "j",
                v("jj"),
                min(v("jj") + v("BLOCK"), v("m")),
                cov(vec![sum()]),
            )],
        )],
    );
    // One factor is computed once for a column, the other one again for each pair.
    let half = run(
        "i",
        v("m"),
        vec![
            run(
                "k0",
                v("n"),
                vec![set(at("left", [v("k0")]), centred(v("k0"), "i"))],
            ),
            run(
                "j",
                v("m"),
                cov(vec![run(
                    "k",
                    v("n"),
                    vec![add(v("total"), at("left", [v("k")]) * centred(v("k"), "j"))],
                )]),
            ),
        ],
    );
    let other = over(
        v("total") - v("n") * at("mean", [v("i")]) * at("mean", [v("j")]),
        v("n") - n(1),
    );
    // Means and centred columns in one loop.
    let fused = run(
        "j",
        v("m"),
        vec![
            set(at("mean", [v("j")]), E::R("0.0")),
            run(
                "i",
                v("n"),
                vec![add(at("mean", [v("j")]), data(v("i"), "j"))],
            ),
            S::Set(at("mean", [v("j")]), "/=", v("n")),
            run(
                "i",
                v("n"),
                vec![set(at("kept", [v("i"), v("j")]), centred(v("i"), "j"))],
            ),
        ],
    );
    let whole = || array("kept", vec![v("n"), v("m")]);
    let of_kept = || {
        cov(vec![run(
            "k",
            v("n"),
            vec![add(v("total"), kept("i") * kept("j"))],
        )])
    };
    vec![
        of("again", each(v("i"), cov(vec![sum()])), &[Recomputation]),
        of(
            "again, all pairs",
            each(n(0), cov(vec![sum()])),
            &[Recomputation],
        ),
        of(
            "again, unrolled",
            each(v("i"), cov(unrolled("k", n(0), v("n"), 4, &term))),
            &[Recomputation, Unroll],
        ),
        of(
            "again, threads",
            directed("omp parallel for", each(v("i"), cov(vec![sum()]))),
            &[Recomputation, Openmp],
        ),
        of(
            "again, vectors",
            each(v("i"), cov(directed("omp simd", vec![sum()]))),
            &[Recomputation, Simd],
        ),
        of(
            "again, blocks",
            vec![S::Const("BLOCK".into(), 64), block],
            &[Recomputation, CacheBlocking],
        ),
        of(
            "one factor again",
            vec![array("left", vec![v("n")]), half],
            &[Recomputation],
        ),
        of(
            "kept",
            [vec![whole(), keep()], each(v("i"), of_kept())].concat(),
            &[],
        ),
        of(
            "kept, unrolled",
            [
                vec![whole(), keep()],
                each(v("i"), cov(unrolled("k", n(0), v("n"), 2, &product))),
            ]
            .concat(),
            &[Unroll],
        ),
        of(
            "another formula",
            each(
                v("i"),
                pair(
                    "cov",
                    vec![run(
                        "k",
                        v("n"),
                        vec![add(v("total"), data(v("k"), "i") * data(v("k"), "j"))],
                    )],
                    Some(other),
                ),
            ),
            &[],
        ),
        kernel(
            "polybench_covariance",
            "kept, fused with the means",
            [vec![whole(), fused], each(v("i"), of_kept())].concat(),
            &[Technique::Fusion],
        ),
    ]
}

fn correlation() -> Vec<Kernel> {
    use Technique::{Recomputation, Simd, Unroll};
    let deviation = |column: &str| at("stddev", [v(column)]);
    let squares = run(
        "j",
        v("m"),
        vec![
            set(deviation("j"), E::R("0.0")),
            run(
                "i",
                v("n"),
                vec![add(
                    deviation("j"),
                    centred(v("i"), "j") * centred(v("i"), "j"),
                )],
            ),
            set(deviation("j"), call("sqrt", over(deviation("j"), v("n")))),
            S::If(
                bin("<=", deviation("j"), E::R("0.1")),
                vec![set(deviation("j"), E::R("1.0"))],
                vec![],
            ),
        ],
    );
    let scaled = |row: E, column: &str| over(centred(row, column), v("root") * deviation(column));
    let term = |k: E, _: usize| vec![add(v("total"), scaled(k.clone(), "i") * scaled(k, "j"))];
    let sum = || run("k", v("n"), term(v("k"), 0));
    let each = |sum: Vec<S>| {
        let columns = range("j", v("i") + n(1), v("m"), pair("corr", sum, None));
        let diagonal = set(at("corr", [v("i"), v("i")]), E::R("1.0"));
        run("i", v("m"), vec![diagonal, columns])
    };
    let of = |about, rest: Vec<S>, used: &[Technique]| {
        let root = real("root", Some(call("sqrt", v("n") * E::R("1.0"))));
        let body = [vec![means(), squares.clone(), root], rest].concat();
        kernel("polybench_correlation", about, body, used)
    };
    let kept = |row: &str, column: &str| at("kept", [v(row), v(column)]);
    let keep = run(
        "i",
        v("n"),
        vec![run(
            "j",
            v("m"),
            vec![set(kept("i", "j"), scaled(v("i"), "j"))],
        )],
    );
    let of_kept = run(
        "k",
        v("n"),
        vec![add(v("total"), kept("k", "i") * kept("k", "j"))],
    );
    vec![
        of("again", vec![each(vec![sum()])], &[Recomputation]),
        of(
            "again, unrolled",
            vec![each(unrolled("k", n(0), v("n"), 2, &term))],
            &[Recomputation, Unroll],
        ),
        of(
            "again, vectors",
            vec![each(directed("omp simd", vec![sum()]))],
            &[Recomputation, Simd],
        ),
        of(
            "kept",
            vec![
                S::Array(Ty::Double, "kept".into(), vec![v("n"), v("m")], false),
                keep,
                each(vec![of_kept]),
            ],
            &[],
        ),
    ]
}

/// Three products: `EE` and `FF` are intermediate ones.
fn products() -> Vec<Kernel> {
    let sum_of = |name: &str, index: &str, to: &str, left: E, right: E| -> Vec<S> {
        vec![
            real(name, Some(E::R("0.0"))),
            run(index, v(to), vec![add(v(name), left * right)]),
        ]
    };
    // Elements of the intermediate products at (i, j) and (j, l).
    let first = |name: &str| {
        sum_of(
            name,
            "k",
            "nk",
            at("A", [v("i"), v("k")]),
            at("B", [v("k"), v("j")]),
        )
    };
    let second = |name: &str| {
        sum_of(
            name,
            "q",
            "nm",
            at("C", [v("j"), v("q")]),
            at("D", [v("q"), v("l")]),
        )
    };
    let array = |name: &str, dims: [&str; 2]| {
        let dims = dims.map(v).into();
        S::Array(Ty::Double, name.into(), dims, false)
    };
    let store = |mut sum: Vec<S>, target: E, value: &str| {
        sum.push(set(target, v(value)));
        sum
    };
    let left = || at("EE", [v("i"), v("j")]);
    let right = || at("FF", [v("j"), v("l")]);
    let fill_left = || {
        let row = run("j", v("nj"), store(first("x1"), left(), "x1"));
        run("i", v("ni"), vec![row])
    };
    let fill_right = || {
        let row = run("l", v("nl"), store(second("x2"), right(), "x2"));
        run("j", v("nj"), vec![row])
    };
    // The last product, with statements before each of its terms.
    let last = |before: Vec<S>, a: E, b: E| {
        let mut term = before;
        term.push(add(v("total"), a * b));
        let body = vec![
            real("total", Some(E::R("0.0"))),
            run("j", v("nj"), term),
            set(at("G", [v("i"), v("l")]), v("total")),
        ];
        run("i", v("ni"), vec![run("l", v("nl"), body)])
    };
    let of = |about, body, used: &[Technique]| kernel("polybench_3mm", about, body, used);
    vec![
        of(
            "kept",
            vec![
                array("EE", ["ni", "nj"]),
                array("FF", ["nj", "nl"]),
                fill_left(),
                fill_right(),
                last(vec![], left(), right()),
            ],
            &[],
        ),
        of(
            "the right factor again",
            vec![
                array("EE", ["ni", "nj"]),
                fill_left(),
                last(second("x2"), left(), v("x2")),
            ],
            // The reference runs over the columns of `FF` within its rows.
            &[
                Technique::Fusion,
                Technique::LoopReorder,
                Technique::Recomputation,
            ],
        ),
        of(
            "the left factor again",
            vec![
                array("FF", ["nj", "nl"]),
                fill_right(),
                last(first("x1"), v("x1"), right()),
            ],
            &[Technique::Fusion, Technique::Recomputation],
        ),
        of(
            "both factors again",
            vec![last([first("x1"), second("x2")].concat(), v("x1"), v("x2"))],
            &[
                Technique::Fusion,
                Technique::LoopReorder,
                Technique::Recomputation,
            ],
        ),
    ]
}
