//! Packing: elements of an argument are copied into a buffer, and the work reads the buffer.

use flopsmith_protocol::Technique;

use super::super::Detected;
use super::super::facts::{Array, ArrayId, LoopId, Origin, Place, Write};
use super::super::poly::Symbol;
use super::roles::Nest;

/// A buffer of at most so many elements may be kept in registers.
const REGISTERS: i64 = 64;

/// A larger array that holds sums is no set of accumulators.
const ACCUMULATORS: i64 = 256;

pub(super) fn note(nest: &Nest<'_>, found: &mut Detected) {
    if let Some((at, id)) = copies(nest).next() {
        found.note(
            Technique::Packing,
            nest.write(at).line,
            format!(
                "elements of an argument are copied into `{}`, which the work reads",
                nest.facts.arrays[id].name
            ),
        );
    }
}

/// The copies of elements of arguments that the work reads, each with the array that it fills.
pub(super) fn copies<'n>(nest: &'n Nest<'_>) -> impl Iterator<Item = (usize, ArrayId)> + 'n {
    let facts = nest.facts;
    facts
        .writes
        .iter()
        .enumerate()
        .filter_map(move |(at, fill)| {
            let Place::Element(id, _) = &fill.target else {
                return None;
            };
            let array = &facts.arrays[*id];
            // Results in memory of the program that move on are no operands of the problem.
            let argument = |read: &Place| facts.origin(read).argument().is_some();
            let copied = fill.copies && fill.accs.is_empty() && fill.reads.iter().any(argument);
            let accumulators =
                array.elements().is_none_or(|e| e <= ACCUMULATORS) && collects(nest, *id);
            if array.origin != Origin::Local || accumulators || !copied {
                return None;
            }
            let packs = workers(nest, at, *id).next().is_some();
            let is_used = packs && !is_working_copy(nest, fill, *id) && !is_snapshot(nest, at, *id);
            is_used.then_some((at, *id))
        })
}

/// The writes that work with the elements of a buffer that a copy fills. An element that is kept for the next iteration is
/// read before its place is filled again.
pub(super) fn workers<'n>(
    nest: &'n Nest<'_>,
    at: usize,
    id: ArrayId,
) -> impl Iterator<Item = usize> + 'n {
    let fill = nest.write(at);
    let readers = nest.readers(&fill.target);
    readers.filter(move |reader| *reader > at && reads_packed(nest, fill, id, *reader))
}

/// True if sums of other arrays' elements are collected in the array. Elements that are exchanged are none.
fn collects(nest: &Nest<'_>, id: ArrayId) -> bool {
    let facts = nest.facts;
    let other = |place: &Place| match place {
        Place::Element(array, _) => *array != id,
        Place::Scalar(scalar) => facts.scalars[*scalar].accumulates,
    };
    let adds = |write: &Write| {
        let here = matches!(&write.target, Place::Element(array, _) if *array == id);
        here && (write.updates || !write.accs.is_empty())
            && write.reads.iter().chain(&write.accs).any(other)
    };
    facts.arrays[id].accumulates && facts.writes.iter().any(adds)
}

/// True if a write uses the elements of a buffer, and the buffer is no set of registers.
fn reads_packed(nest: &Nest<'_>, fill: &Write, id: ArrayId, reader: usize) -> bool {
    let facts = nest.facts;
    let write = nest.write(reader);
    let passes = write.copies && facts.origin(&write.target) == Origin::Local;
    let reads = |place: &Place| matches!(place, Place::Element(other, _) if *other == id);
    // Elements that go back to where they come from are moved and not packed.
    let returns = facts.origin(&write.target).argument();
    let returns = returns.is_some_and(|to| write.copies && fill.sources.contains(&to));
    if passes || returns || write.block || !write.reads.iter().any(reads) {
        return false;
    }
    // A few elements that no loop over data chooses are registers.
    let few = facts.arrays[id].elements().is_some_and(|e| e <= REGISTERS);
    let chosen = |loop_id: &LoopId| {
        let symbol = facts.loops[*loop_id].symbol;
        let moves = |place: &Place| match place {
            Place::Element(other, index) => {
                *other == id && index.iter().any(|p| p.contains(symbol))
            }
            Place::Scalar(_) => false,
        };
        !nest.is_tile(reader, *loop_id) && write.reads.iter().any(moves)
    };
    !few || write.stack.iter().any(chosen)
}

/// True if the program copies elements in their order and then computes in the copy.
fn is_working_copy(nest: &Nest<'_>, fill: &Write, id: ArrayId) -> bool {
    let local = |place: &Place| match place {
        Place::Element(other, _) => nest.facts.arrays[*other].origin == Origin::Local,
        Place::Scalar(_) => false,
    };
    let computes = |write: &Write| {
        let here = matches!(&write.target, Place::Element(other, _) if *other == id);
        let computed = !write.copies && !write.sources.is_empty();
        // Results come back from another array of the program, or are moved within this one.
        let moved = write.copies && write.reads.iter().any(local);
        here && (computed || write.carries || moved)
    };
    nest.facts.writes.iter().any(computes) && !turns(nest, fill)
}

fn reads_own(write: &Write, id: ArrayId) -> bool {
    write
        .reads
        .iter()
        .any(|read| matches!(read, Place::Element(other, _) if *other == id))
}

/// True if the copy is that of a whole output in its order, which a program needs to change the output in place.
fn is_snapshot(nest: &Nest<'_>, at: usize, id: ArrayId) -> bool {
    let facts = nest.facts;
    let fill = nest.write(at);
    let sources = fill.reads.iter().filter_map(|read| match read {
        Place::Element(array, _) => match facts.arrays[*array].origin {
            Origin::Output(argument) => Some((argument, read)),
            _ => None,
        },
        Place::Scalar(_) => None,
    });
    let around: Vec<LoopId> = nest
        .readers(&fill.target)
        .filter(|reader| reads_own(nest.write(*reader), id))
        .flat_map(|reader| nest.write(reader).stack.clone())
        .collect();
    for (argument, read) in sources {
        let first = nest.counted_from_starts(read, &fill.stack);
        let read = first.as_ref().unwrap_or(read);
        let moves = |id: &&LoopId| !nest.movement(read, facts.loops[**id].symbol).is_none();
        let moving: Vec<&LoopId> = fill.stack.iter().filter(moves).collect();
        // A loop around the readers copies a part of the output for each of its iterations.
        if moving.iter().any(|id| around.contains(*id)) {
            continue;
        }
        let by_loop = |dim: usize| {
            let mut all = moving.iter();
            all.any(|id| {
                nest.movement(read, facts.loops[**id].symbol)
                    .along(dim)
                    .is_some()
            })
        };
        let rank = nest.shapes.rank(argument);
        // A call copies along the last dimension, or everything.
        let covered = if fill.block {
            moving.is_empty() || (0..rank.saturating_sub(1)).all(by_loop)
        } else {
            (0..rank).all(by_loop)
        };
        if covered && !turns(nest, fill) {
            return true;
        }
    }
    false
}

/// True if the copy changes the order of the elements.
pub(super) fn turns(nest: &Nest<'_>, fill: &Write) -> bool {
    if fill.block {
        return false;
    }
    let facts = nest.facts;
    let Some(read) = fill
        .reads
        .iter()
        .find(|read| facts.origin(read).argument().is_some())
    else {
        return false;
    };
    // Loops that move both places, each with its distances in the argument and in the buffer.
    let moving: Vec<(Distance, Distance)> = fill
        .stack
        .iter()
        .filter_map(|id| {
            let symbol = facts.loops[*id].symbol;
            let from = distance(nest, read, symbol)?;
            let to = distance(nest, &fill.target, symbol)?;
            Some((from, to))
        })
        .collect();
    moving.iter().any(|(a_from, a_to)| {
        moving
            .iter()
            .any(|(b_from, b_to)| a_from > b_from && a_to < b_to)
    })
}

/// How far a loop moves a place: less for an inner dimension.
type Distance = (i64, i64);

fn distance(nest: &Nest<'_>, place: &Place, symbol: Symbol) -> Option<Distance> {
    let Place::Element(array, index) = place else {
        return None;
    };
    let known: &Array = &nest.facts.arrays[*array];
    if known.origin == Origin::Local && index.len() == 1 {
        let factor = index[0].factor_of(symbol)?;
        return match factor.as_constant() {
            Some(0) => None,
            Some(elements) => Some((0, elements.saturating_abs())),
            None => Some((1, 0)),
        };
    }
    let movement = nest.movement(place, symbol);
    let (dim, steps) = movement.along.first()?;
    // A flat pointer into an array of rows moves along the last subscript, from row to row by a formula.
    if known.origin == Origin::Local && *steps == 0 {
        return Some((1, 0));
    }
    Some((-i64::try_from(*dim).ok()?, steps.saturating_abs()))
}
