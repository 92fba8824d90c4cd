//! Skewing: the part of a grid that a sweep runs over depends on the number of the sweep.

use flopsmith_protocol::Technique;

use super::super::Detected;
use super::super::facts::LoopId;
use super::blocks;
use super::order::{Order, work};
use super::roles::{Nest, Role};

/// The part that a sweep runs over shrinks or grows by so many elements at most; the parts of blocks move further.
const WIDEST: i64 = 4;

pub(super) fn note(nest: &Nest<'_>, reference: &Order, found: &mut Detected) {
    // Without sweeps there is nothing to skew.
    if !reference.repeats() {
        return;
    }
    for at in work(nest) {
        let stack = &nest.write(at).stack;
        for time in stack {
            let skewed = |space: &&LoopId| **space != *time && is_skewed(nest, at, *time, **space);
            let Some(space) = stack.iter().find(skewed) else {
                continue;
            };
            let (time, space) = (&nest.facts.loops[*time], &nest.facts.loops[*space]);
            found.note(
                Technique::Skewing,
                space.line,
                format!(
                    "the elements of this loop depend on the sweep that the loop in line {} counts",
                    time.line
                ),
            );
            return;
        }
    }
}

/// True if the bounds or the places of a loop over elements move with a loop over sweeps.
fn is_skewed(nest: &Nest<'_>, at: usize, time: LoopId, space: LoopId) -> bool {
    let facts = nest.facts;
    let write = nest.write(at);
    let (sweeps, elements) = (&facts.loops[time], &facts.loops[space]);
    let pairs = blocks::pairs(nest, at);
    if !matches!(nest.role(at, space), Some(Role::Out(_)))
        || pairs.contains(&(time, space))
        || pairs.contains(&(space, time))
    {
        return false;
    }
    // A loop that begins later in each sweep may visit the same elements in each of them.
    let first = nest.counted_from_starts(&write.target, &write.stack);
    let place = first.as_ref().unwrap_or(&write.target);
    let (near, far) = (
        nest.movement(place, elements.symbol),
        nest.movement(place, sweeps.symbol),
    );
    // A loop over elements moves along a dimension of its own.
    let own = |dim: usize| {
        let others = write.stack.iter().filter(|id| **id != time);
        let mut moved = others.map(|id| nest.movement(place, facts.loops[*id].symbol));
        !moved.any(|m| m.along(dim).is_some())
    };
    if near.along.len() != 1 || far.dims().any(own) {
        return false;
    }
    if !far.is_none() {
        // `i - t`: each sweep moves back along the dimension that the elements move along.
        let turns = |dim: usize, steps: i64| {
            far.along(dim).is_some_and(|back| {
                back.signum() == -steps.signum() || back.saturating_abs() == steps.saturating_abs()
            })
        };
        return sweeps.step.is_some_and(|s| s.saturating_abs() == 1)
            && near.along.iter().any(|(dim, steps)| turns(*dim, *steps));
    }
    let limit = elements.limit.as_ref();
    let moved = limit.and_then(|l| l.factor_of(sweeps.symbol)?.as_constant());
    let shrinks = moved.is_some_and(|m| (1..=WIDEST).contains(&m.saturating_abs()));
    !elements.start.contains(sweeps.symbol) && shrinks
}
