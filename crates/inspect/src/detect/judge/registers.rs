//! Register blocking: several elements of a result are kept in local accumulators across a loop.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_protocol::Technique;

use super::super::Detected;
use super::super::facts::{ArrayId, LoopId, Place};
use super::super::poly::Poly;
use super::roles::{Nest, Role};

/// A store of results: its array and subscripts.
type End = (ArrayId, Vec<Poly>);

/// Larger programs are judged by their first writes.
const MOST_WRITES: usize = 1000;

pub(super) fn note(nest: &Nest<'_>, found: &mut Detected) {
    let facts = nest.facts;
    // For each accumulator that persists over a loop of its sum, the places at which its results end.
    let mut ends: BTreeMap<Place, BTreeSet<End>> = BTreeMap::new();
    let mut lines: BTreeMap<Place, u32> = BTreeMap::new();
    let updates = facts.writes.iter().enumerate().filter(|(_, w)| w.updates);
    for (at, update) in updates.take(MOST_WRITES) {
        if facts.origin(&update.target).argument().is_some() || !persists(nest, at) {
            continue;
        }
        if let Place::Element(array, _) = &update.target
            && is_tile_of_array(nest, at)
        {
            note_registers(found, update.line, &facts.arrays[*array].name);
            return;
        }
        for flow in flows(nest, &update.target) {
            let Place::Element(array, index) = &nest.write(flow).target else {
                continue;
            };
            for acc in &nest.write(flow).accs {
                if same_variable(acc, &update.target) {
                    let of = ends.entry(acc.clone()).or_default();
                    of.insert((*array, index.clone()));
                    lines.entry(acc.clone()).or_insert(update.line);
                }
            }
        }
    }
    // Several accumulators of one element are a split sum; accumulators of several elements of one array are a tile.
    for (at, (a, first)) in ends.iter().enumerate() {
        let apart = |b: &BTreeSet<End>| {
            let array = |end: &End| b.iter().any(|other| other.0 == end.0);
            first.is_disjoint(b) && first.iter().any(array)
        };
        if ends.values().skip(at + 1).any(apart) {
            let line = lines.get(a).copied().unwrap_or(0);
            note_registers(found, line, "these variables");
            return;
        }
    }
}

/// True if the target keeps its value over a loop of its sum.
fn persists(nest: &Nest<'_>, at: usize) -> bool {
    let write = nest.write(at);
    let declared = nest.facts.declared(&write.target);
    write
        .stack
        .iter()
        .any(|id| carries(nest, at, *id) && !declared.contains(id))
}

/// True if a loop repeats the update of one element.
fn carries(nest: &Nest<'_>, at: usize, id: LoopId) -> bool {
    let repeats = matches!(
        nest.role(at, id),
        Some(Role::Sum(_) | Role::Level | Role::Repeat)
    );
    repeats && !nest.is_tile(at, id)
}

/// The stores of values that contain the accumulator.
fn flows(nest: &Nest<'_>, target: &Place) -> Vec<usize> {
    let facts = nest.facts;
    let takes = |at: &usize| {
        let write = nest.write(*at);
        let stored = matches!(write.target, Place::Element(..));
        stored && (facts.is_output(&write.target) || !write.accs.is_empty())
    };
    nest.readers(target).filter(takes).collect()
}

/// True if the update runs over several elements of a local array whose elements end in several elements of the result.
fn is_tile_of_array(nest: &Nest<'_>, at: usize) -> bool {
    let facts = nest.facts;
    let update = nest.write(at);
    let Place::Element(array, index) = &update.target else {
        return false;
    };
    let several = |symbol| {
        let loops = &mut facts.loops.iter();
        loops
            .find(|l| l.symbol == symbol)
            .map(|l| l.rounds().map(|r| r >= 2))
    };
    let tiled = index.iter().flat_map(Poly::symbols).any(|symbol| {
        let around = |id: &LoopId| facts.loops[*id].symbol == symbol;
        update.stack.iter().any(around) && several(symbol) == Some(Some(true))
    });
    let spread = flows(nest, &update.target).into_iter().any(|flow| {
        let flow = nest.write(flow);
        let Place::Element(_, end) = &flow.target else {
            return false;
        };
        flow.accs.iter().any(|acc| match acc {
            Place::Element(other, index) if other == array => {
                index.iter().flat_map(Poly::symbols).any(|symbol| {
                    end.iter().any(|p| p.contains(symbol))
                        && several(symbol).is_none_or(|known| known.unwrap_or(true))
                })
            }
            _ => false,
        })
    });
    tiled && spread
}

fn same_variable(a: &Place, b: &Place) -> bool {
    match (a, b) {
        (Place::Element(x, _), Place::Element(y, _)) => x == y,
        (a, b) => a == b,
    }
}

fn note_registers(found: &mut Detected, line: u32, name: &str) {
    found.note(
        Technique::RegisterBlocking,
        line,
        format!("several elements of the result are kept in {name} across a loop"),
    );
}
