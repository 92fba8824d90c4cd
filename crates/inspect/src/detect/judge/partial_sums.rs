//! Partial sums: several accumulators take turns in the terms of one result, and are added up behind the loop.

use std::collections::BTreeMap;

use flopsmith_protocol::Technique;

use super::super::Detected;
use super::super::facts::{LoopId, Origin, Place};
use super::registers::{has_long_rows, persists};
use super::roles::{Nest, Role};
use super::unroll::{innermost, is_iteration};

/// Larger programs are judged by their first updates.
const MOST_UPDATES: usize = 400;

/// Each update is compared with so many earlier ones of the same loops.
const MOST_COMPARED: usize = 16;

/// An array of at most so many elements may hold the parts of one sum.
const MOST_ELEMENTS: i64 = 256;

pub(super) fn note(nest: &Nest<'_>, found: &mut Detected) {
    let mut earlier: BTreeMap<&[LoopId], Vec<usize>> = BTreeMap::new();
    let updates = nest
        .facts
        .writes
        .iter()
        .enumerate()
        .filter(|(_, w)| w.updates);
    for (at, update) in updates.take(MOST_UPDATES) {
        if nest.facts.origin(&update.target) != Origin::Local || !persists(nest, at) {
            continue;
        }
        let others = earlier.entry(&update.stack).or_default();
        let split = is_strip(nest, at)
            || others
                .iter()
                .rev()
                .take(MOST_COMPARED)
                .any(|other| take_turns(nest, *other, at));
        if split {
            found.note(
                Technique::PartialSums,
                update.line,
                "several accumulators take the terms of one result",
            );
            return;
        }
        others.push(at);
    }
}

/// True if a short loop runs over the elements of a local array, each of which takes a part of the terms.
fn is_strip(nest: &Nest<'_>, at: usize) -> bool {
    let update = nest.write(at);
    let Place::Element(array, index) = &update.target else {
        return false;
    };
    // A longer array holds results of their own.
    let size = nest.facts.arrays[*array].elements();
    if size.is_some_and(|e| e > MOST_ELEMENTS) || has_long_rows(nest, &update.target) {
        return false;
    }
    update.stack.iter().any(|id| {
        let round = &nest.facts.loops[*id];
        let moves = |place: &Place| {
            nest.facts.origin(place).argument().is_some()
                && !nest.movement(place, round.symbol).is_none()
        };
        // The rest of a loop over results is short as well, and begins where the loop has ended.
        round.is_short()
            && round.start.as_constant().is_some()
            && round.rounds().is_some_and(|r| r >= 2)
            && index.iter().any(|p| p.contains(round.symbol))
            && matches!(nest.role(at, *id), Some(Role::Sum(_)))
            && update.reads.iter().any(moves)
    })
}

/// True if two updates are iterations of one loop, and their results meet.
fn take_turns(nest: &Nest<'_>, first: usize, second: usize) -> bool {
    let (a, b) = (nest.write(first), nest.write(second));
    if a.target == b.target || !nest.spend(a.reads.len() + 1) {
        return false;
    }
    let Some(inner) = innermost(nest, second) else {
        return false;
    };
    let has = |accs: &std::collections::BTreeSet<Place>, place: &Place| match place {
        Place::Scalar(_) => accs.contains(place),
        Place::Element(array, _) => accs
            .iter()
            .any(|acc| matches!(acc, Place::Element(other, _) if other == array)),
    };
    let meet = |at: usize| {
        let write = nest.write(at);
        has(&write.accs, &b.target) && (has(&write.accs, &a.target) || write.target == a.target)
    };
    is_iteration(nest, a, b, inner) && nest.readers(&b.target).any(meet)
}
