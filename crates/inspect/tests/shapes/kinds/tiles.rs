//! Register tiles of products.

use flopsmith_protocol::Technique;

use super::super::ast::{E, S, Step, Ty, add, at, n, real, run, set, v};
use super::product::{Schedule, Tile};
use super::specs::Spec;
use super::{directed, nest};

/// A register tile: several results in variables or in a small array.
pub(super) fn tiled(
    spec: &Spec,
    schedule: &Schedule,
    first: E,
    second: E,
    copy: Option<(Vec<S>, usize)>,
) -> Vec<S> {
    let ((row, rows), (column, columns)) = spec.tile.expect("a tile");
    let move_to = |e: &E, r: E, c: E| {
        let e = e.with(row, &(v(row) + r));
        if column.is_empty() {
            e
        } else {
            e.with(column, &(v(column) + c))
        }
    };
    let term = first * second;
    let sums: Vec<_> = spec
        .loops
        .iter()
        .filter(|(_, _, sum)| *sum)
        .cloned()
        .collect();
    let heads: Vec<_> = sums
        .iter()
        .map(|(name, extent, _)| (name.to_string(), n(0), extent.clone(), Step::By(n(1))))
        .collect();
    let mut inside = Vec::new();
    let tile = |body: Vec<S>| vec![run("r", n(rows), vec![run("s", n(columns), body)])];
    let cells = move || (0..rows).flat_map(move |r| (0..columns).map(move |c| (r, c)));
    match schedule.tile {
        Tile::Array => {
            let acc = at("acc", [v("r"), v("s")]);
            inside.push(S::Array(
                Ty::Double,
                "acc".into(),
                vec![n(rows), n(columns)],
                false,
            ));
            inside.extend(tile(vec![set(acc.clone(), E::R("0.0"))]));
            let update = tile(vec![add(acc.clone(), move_to(&term, v("r"), v("s")))]);
            inside.extend(summed(schedule, heads, update));
            inside.extend(tile(vec![set(move_to(&spec.target, v("r"), v("s")), acc)]));
        }
        _ => {
            for (r, c) in cells() {
                inside.push(real(&format!("acc{r}{c}"), Some(E::R("0.0"))));
            }
            let updates =
                cells().map(|(r, c)| add(v(format!("acc{r}{c}")), move_to(&term, n(r), n(c))));
            inside.extend(summed(schedule, heads, updates.collect()));
            for (r, c) in cells() {
                inside.push(set(
                    move_to(&spec.target, n(r), n(c)),
                    v(format!("acc{r}{c}")),
                ));
            }
        }
    }
    let mut outer: Vec<_> = spec
        .loops
        .iter()
        .filter(|(_, _, sum)| !sum)
        .map(|(name, extent, _)| {
            let step = match *name {
                name if name == row => rows,
                name if name == column => columns,
                _ => 1,
            };
            (name.to_string(), n(0), extent.clone(), Step::By(n(step)))
        })
        .collect();
    match copy {
        Some((copies, 0)) => copies.into_iter().chain(nest(outer, inside)).collect(),
        Some((copies, _)) => {
            let inner = nest(outer.split_off(1), inside);
            nest(outer, copies.into_iter().chain(inner).collect())
        }
        None => nest(outer, inside),
    }
}

/// The loops over the terms around the updates of a tile.
fn summed(schedule: &Schedule, heads: Vec<(String, E, E, Step)>, update: Vec<S>) -> Vec<S> {
    let loops = nest(heads, update);
    match schedule.pragma {
        Some((text, Technique::Unroll)) => directed(text, loops),
        _ => loops,
    }
}
