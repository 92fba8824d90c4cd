//! Templates of programs, by kind of loop nest.

mod again;
mod butterfly;
mod elements;
mod fused;
mod graph;
mod product;
mod rows;
mod scan;
mod sort;
mod sparse;
mod specs;
mod split;
mod stencil;
mod substitution;
mod tiles;
mod transpose;
mod triangular;

use flopsmith_protocol::{Technique, TechniqueSet};

use super::ast::{E, Kernel, S, Step, int, n, range, stride, v};

/// All programs, before they are spelled.
pub fn all() -> Vec<Kernel> {
    [
        product::all(),
        triangular::all(),
        stencil::all(),
        transpose::all(),
        scan::all(),
        rows::all(),
        elements::all(),
        graph::all(),
        sort::all(),
        sparse::all(),
        butterfly::all(),
        // Last, so that the programs before them keep their spellings.
        split::all(),
        again::all(),
        fused::all(),
    ]
    .concat()
}

pub fn labels(list: impl IntoIterator<Item = (bool, Technique)>) -> TechniqueSet {
    let used = list.into_iter().filter(|(used, _)| *used);
    used.map(|(_, technique)| technique).collect()
}

/// A loop with `factor` copies of its body, and a loop over the rest.
pub fn unrolled(
    name: &str,
    from: E,
    to: E,
    factor: i64,
    body: &dyn Fn(E, usize) -> Vec<S>,
) -> Vec<S> {
    if factor <= 1 {
        return vec![range(name, from, to, body(v(name), 0))];
    }
    let end = format!("last{name}");
    let copies = (0..factor).flat_map(|d| body(v(name) + n(d), d as usize));
    let length = to.clone() - from.clone();
    vec![
        int(&end, Some(from.clone() + div(length, factor) * n(factor))),
        stride(name, from, v(&end), n(factor), copies.collect()),
        range(name, v(&end), to, body(v(name), 0)),
    ]
}

pub fn div(a: E, by: i64) -> E {
    super::ast::bin("/", a, n(by))
}

/// The same loop with a directive before it.
pub fn directed(text: &str, s: Vec<S>) -> Vec<S> {
    let mut found = vec![S::Pragma(text.into())];
    found.extend(s);
    found
}

/// Loops around a body, outermost first.
pub fn nest(loops: Vec<(String, E, E, Step)>, body: Vec<S>) -> Vec<S> {
    loops
        .into_iter()
        .rev()
        .fold(body, |body, (name, from, to, step)| {
            vec![S::For(name, from, to, step, body)]
        })
}
