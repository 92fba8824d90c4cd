//! Loops whose statements run in several loops, and loops that keep their statements.

use flopsmith_protocol::Technique;

use super::super::ast::{E, Kernel, S, Ty, add, at, min, n, range, real, run, set, stride, v};
use super::rows::{call, over};
use super::{directed, labels, unrolled};

const AXES: [&str; 3] = ["x", "y", "z"];

pub fn all() -> Vec<Kernel> {
    [bicg(), bodies(), prices()].concat()
}

fn kernel(
    problem: &'static str,
    about: &str,
    body: Vec<S>,
    used: impl IntoIterator<Item = Technique>,
) -> Kernel {
    Kernel {
        kind: "split",
        problem,
        about: about.into(),
        body,
        labels: labels(used.into_iter().map(|technique| (true, technique))),
    }
}

/// A product of a matrix with a vector, and one of its transpose, in one loop of the reference.
fn bicg() -> Vec<Kernel> {
    let element = |j: E| at("A", [v("i"), j]);
    let down = |j: E, _: usize| vec![add(at("s", [j.clone()]), at("r", [v("i")]) * element(j))];
    let along = |j: E, _: usize| vec![add(at("q", [v("i")]), element(j.clone()) * at("p", [j]))];
    let both = |j: E, copy: usize| [down(j.clone(), copy), along(j, copy)].concat();
    let zero = || run("j0", v("m"), vec![set(at("s", [v("j0")]), E::R("0.0"))]);
    let start = || set(at("q", [v("i")]), E::R("0.0"));
    let short = |body: Vec<S>| run("j", v("m"), body);
    let of_rows = |body: Vec<S>| run("i", v("n"), body);
    let block = |body: Vec<S>| {
        let end = min(v("jj") + v("BLOCK"), v("m"));
        stride(
            "jj",
            n(0),
            v("m"),
            v("BLOCK"),
            vec![of_rows(vec![range("j", v("jj"), end, body)])],
        )
    };
    let size = || S::Const("BLOCK".into(), 64);
    let first = || of_rows(vec![short(down(v("j"), 0))]);
    let second = || of_rows(vec![start(), short(along(v("j"), 0))]);
    let of = |about, body, used: &[Technique]| {
        kernel("polybench_bicg", about, body, used.iter().copied())
    };
    use Technique::{CacheBlocking, Fission, LoopReorder, Openmp, Simd, Unroll};
    vec![
        of("apart", vec![zero(), first(), second()], &[Fission]),
        of(
            "apart, the other way",
            vec![second(), zero(), first()],
            &[Fission],
        ),
        of(
            "inner loops apart",
            vec![
                zero(),
                of_rows(vec![
                    short(down(v("j"), 0)),
                    start(),
                    short(along(v("j"), 0)),
                ]),
            ],
            &[Fission],
        ),
        of(
            "inner loops apart, a sum",
            vec![
                zero(),
                of_rows(vec![
                    short(down(v("j"), 0)),
                    real("total", Some(E::R("0.0"))),
                    short(vec![add(v("total"), element(v("j")) * at("p", [v("j")]))]),
                    set(at("q", [v("i")]), v("total")),
                ]),
            ],
            &[Fission],
        ),
        of(
            "apart, unrolled",
            vec![
                zero(),
                of_rows(unrolled("j", n(0), v("m"), 4, &down)),
                second(),
            ],
            &[Fission, Unroll],
        ),
        of(
            "apart, threads",
            [
                vec![zero(), first()],
                directed("omp parallel for", vec![second()]),
            ]
            .concat(),
            &[Fission, Openmp],
        ),
        of(
            "apart, vectors",
            vec![
                zero(),
                of_rows(directed("omp simd", vec![short(down(v("j"), 0))])),
                second(),
            ],
            &[Fission, Simd],
        ),
        of(
            "apart, turned",
            vec![
                zero(),
                run("j", v("m"), vec![of_rows(down(v("j"), 0))]),
                second(),
            ],
            &[Fission, LoopReorder],
        ),
        of(
            "apart, blocks",
            vec![
                size(),
                zero(),
                run("i0", v("n"), vec![set(at("q", [v("i0")]), E::R("0.0"))]),
                block(down(v("j"), 0)),
                block(along(v("j"), 0)),
            ],
            &[Fission, CacheBlocking],
        ),
        of(
            "together",
            vec![zero(), of_rows(vec![start(), short(both(v("j"), 0))])],
            &[],
        ),
        of(
            "together, start apart",
            vec![
                zero(),
                run("i0", v("n"), vec![set(at("q", [v("i0")]), E::R("0.0"))]),
                of_rows(vec![short(both(v("j"), 0))]),
            ],
            &[],
        ),
        of(
            "together, unrolled",
            vec![
                zero(),
                of_rows([vec![start()], unrolled("j", n(0), v("m"), 4, &both)].concat()),
            ],
            &[Unroll],
        ),
        of(
            "together, blocks",
            vec![
                size(),
                zero(),
                run("i0", v("n"), vec![set(at("q", [v("i0")]), E::R("0.0"))]),
                block(both(v("j"), 0)),
            ],
            &[CacheBlocking],
        ),
    ]
}

/// The pull of body `j` on body `i`, with names that end in `own`, and the sum along an axis.
fn pull(own: &str, along: &[&str]) -> Vec<S> {
    let name = |x: &str| format!("{x}{own}");
    let mut all: Vec<S> = AXES
        .iter()
        .map(|a| {
            real(
                &name(&format!("d{a}")),
                Some(at(*a, [v("j")]) - at(*a, [v("i")])),
            )
        })
        .collect();
    let squares = AXES
        .iter()
        .map(|a| v(name(&format!("d{a}"))) * v(name(&format!("d{a}"))))
        .reduce(|a, b| a + b)
        .expect("three axes");
    all.push(real(&name("square"), Some(squares + E::R("0.01"))));
    all.push(real(
        &name("pull"),
        Some(over(
            at("mass", [v("j")]),
            v(name("square")) * call("sqrt", v(name("square"))),
        )),
    ));
    all.extend(along.iter().map(|a| {
        add(
            v(format!("s{a}")),
            v(name("pull")) * v(name(&format!("d{a}"))),
        )
    }));
    all
}

fn bodies() -> Vec<Kernel> {
    let zero = |a: &str| real(&format!("s{a}"), Some(E::R("0.0")));
    let store = |a: &str| set(at(format!("a{a}"), [v("i")]), v(format!("s{a}")));
    let sums = |a: &&str| vec![zero(a), run("j", v("n"), pull(a, &[*a])), store(a)];
    let inner: Vec<S> = AXES.iter().flat_map(&sums).collect();
    let outer: Vec<S> = AXES.iter().map(|a| run("i", v("n"), sums(a))).collect();
    // The pulls of a row are kept for the sums.
    let kept = vec![
        S::Array(Ty::Double, "kept".into(), vec![v("n")], false),
        run("i", v("n"), {
            let mut pulls = pull("p", &[]);
            pulls.push(set(at("kept", [v("j")]), v("pullp")));
            let mut row = vec![run("j", v("n"), pulls)];
            for a in AXES {
                row.push(zero(a));
                let distance = at(a, [v("j")]) - at(a, [v("i")]);
                let term = at("kept", [v("j")]) * distance;
                row.push(run("j", v("n"), vec![add(v(format!("s{a}")), term)]));
                row.push(store(a));
            }
            row
        }),
    ];
    let together = run("i", v("n"), {
        let mut row: Vec<S> = AXES.map(zero).into();
        row.push(run("j", v("n"), pull("p", &AXES)));
        row.extend(AXES.map(store));
        row
    });
    let of = |about, body, used: Option<Technique>| kernel("nbody", about, body, used);
    vec![
        of(
            "a loop over bodies for each axis",
            vec![run("i", v("n"), inner)],
            Some(Technique::Fission),
        ),
        of("a nest for each axis", outer, Some(Technique::Fission)),
        of("pulls first", kept, Some(Technique::Fission)),
        of("together", vec![together], None),
    ]
}

fn prices() -> Vec<Kernel> {
    let of = |array: &str| at(array, [v("i")]);
    let under = |d: E| {
        over(
            call("erfc", n(0) - over(d, E::R("1.4142135623730951"))),
            E::R("2.0"),
        )
    };
    let terms = |own: &str| -> Vec<S> {
        let dev = format!("dev{own}");
        let log = call("log", over(of("spot"), of("strike")));
        vec![
            real(&dev, Some(E::R("0.3") * call("sqrt", of("years")))),
            real(
                &format!("done{own}"),
                Some(over(log + E::R("0.065") * of("years"), v(&dev))),
            ),
        ]
    };
    let due = || of("strike") * call("exp", E::R("-0.02") * of("years"));
    let call_of = |own: &str, due: E| {
        let (dev, done) = (v(format!("dev{own}")), v(format!("done{own}")));
        let bought = of("spot") * under(done.clone());
        set(of("call"), bought - due * under(done - dev))
    };
    let put_of = |own: &str, due: E| {
        let (dev, done) = (v(format!("dev{own}")), v(format!("done{own}")));
        let sold = due * under(dev - done.clone());
        set(of("put"), sold - of("spot") * under(n(0) - done))
    };
    let with = |mut all: Vec<S>, more: Vec<S>| {
        all.extend(more);
        all
    };
    let each = |body: Vec<S>| run("i", v("n"), body);
    let stored = || of("due");
    vec![
        kernel(
            "black_scholes",
            "calls and puts apart",
            vec![
                each(with(terms("c"), vec![call_of("c", due())])),
                each(with(terms("p"), vec![put_of("p", due())])),
            ],
            [Technique::Fission],
        ),
        kernel(
            "black_scholes",
            "what is due first",
            vec![
                S::Array(Ty::Double, "due".into(), vec![v("n")], false),
                each(vec![set(of("due"), due())]),
                each(with(
                    terms("c"),
                    vec![call_of("c", stored()), put_of("c", stored())],
                )),
            ],
            [Technique::Fission],
        ),
        kernel(
            "black_scholes",
            "together",
            vec![each(with(
                terms("c"),
                vec![call_of("c", due()), put_of("c", due())],
            ))],
            [],
        ),
    ]
}
