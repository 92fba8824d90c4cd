//! Unrolling by hand: copies of a statement for several iterations of a loop.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_protocol::Technique;

use super::super::Detected;
use super::super::facts::{LoopId, Meaning, Origin, Place, TILE, Write};
use super::super::poly::{Poly, Symbol};
use super::registers::persists;
use super::roles::{Nest, Role};

/// Each statement is compared with so many earlier ones of the same loops, so that no source makes the judgement long.
const MOST_COMPARED: usize = 24;

/// Larger programs are judged by their first updates.
const MOST_UPDATES: usize = 1000;

/// So many copies in constant distances are iterations of a loop that is no longer there.
const WITHOUT_LOOP: usize = 3;

/// A buffer of at most so many elements may be kept in registers.
const REGISTERS: i64 = 64;

/// A loop with longer steps visits blocks: four vectors of the widest kind are so many elements.
const LONGEST: i64 = 64;

pub(super) fn note(nest: &Nest<'_>, found: &mut Detected) {
    let kept = kept(nest);
    let mut earlier: BTreeMap<&[LoopId], Vec<usize>> = BTreeMap::new();
    for at in 0..nest.facts.writes.len() {
        if !is_statement(nest, at) {
            continue;
        }
        let write = nest.write(at);
        let others = earlier.entry(&write.stack).or_default();
        let looped = others
            .iter()
            .rev()
            .take(MOST_COMPARED)
            .find_map(|other| unrolled_loop(nest, *other, at))
            .or_else(|| unrolled_within(nest, at))
            // The rest of a sum is added to the registers of a tile in a loop of its own.
            .filter(|id| {
                let chooses = matches!(nest.role(at, *id), Some(Role::Out(_)));
                !(chooses && kept.contains(&write.target))
            });
        if let Some(id) = looped {
            let what = format!(
                "the loop in line {} is unrolled by hand",
                nest.facts.loops[id].line
            );
            found.note(Technique::Unroll, write.line, what);
            return;
        }
        if let Some(first) = without_loop(nest, others, at) {
            let what = format!("copies of the statement in line {first} replace a loop");
            found.note(Technique::Unroll, write.line, what);
            return;
        }
        others.push(at);
    }
}

/// The accumulators that keep their values over a loop of their sum.
fn kept<'f>(nest: &Nest<'f>) -> BTreeSet<&'f Place> {
    let writes = nest.facts.writes.iter().enumerate();
    let local = writes.filter(|(_, w)| w.updates && nest.facts.origin(&w.target) == Origin::Local);
    local
        .take(MOST_UPDATES)
        .filter(|(at, _)| persists(nest, *at))
        .map(|(_, w)| &w.target)
        .collect()
}

/// True for a write that is part of the work. Loads into variables and stores of finished results belong to the tile
/// of registers that they serve. Memory may also be filled with numbers.
fn is_statement(nest: &Nest<'_>, at: usize) -> bool {
    let write = nest.write(at);
    if fills(nest, write) {
        return true;
    }
    let own = |array: &usize| matches!(&write.target, Place::Element(other, _) if other == array);
    let mut elements = write.reads.iter().filter_map(|read| match read {
        Place::Element(array, _) => Some(array),
        Place::Scalar(_) => None,
    });
    // A finished result may be added to the element in which it ends.
    let works = if write.accs.is_empty() || write.updates {
        elements.next().is_some()
    } else {
        elements.any(|array| !own(array))
    };
    if !works || write.block {
        return false;
    }
    let Place::Element(id, _) = &write.target else {
        // A variable of a single iteration is part of a value.
        let declared = nest.facts.declared(&write.target);
        let lasts = write.stack.iter().any(|id| !declared.contains(id));
        return write.updates || (write.carries && lasts);
    };
    let array = &nest.facts.arrays[*id];
    let registers = array.elements().is_some_and(|e| e <= REGISTERS);
    let accumulators = array.accumulates && !nest.is_memory(&write.target);
    let loads = array.origin == Origin::Local && !write.updates && (accumulators || registers);
    !loads
}

/// True if a write fills memory with a value that no element enters, except the old one.
fn fills(nest: &Nest<'_>, write: &Write) -> bool {
    let element = |read: &Place| matches!(read, Place::Element(..));
    write.accs.is_empty()
        && !write.block
        && !write.reads.iter().any(element)
        && nest.is_memory(&write.target)
}

/// The innermost loop over data around a write.
pub(super) fn innermost(nest: &Nest<'_>, at: usize) -> Option<LoopId> {
    let stack = &nest.write(at).stack;
    stack
        .iter()
        .rev()
        .find(|id| !nest.is_tile(at, **id))
        .copied()
}

/// The loop of which two statements are different iterations.
fn unrolled_loop(nest: &Nest<'_>, first: usize, second: usize) -> Option<LoopId> {
    let (a, b) = (nest.write(first), nest.write(second));
    if !nest.spend(a.reads.len() + 1) {
        return None;
    }
    let inner = innermost(nest, second)?;
    // Parts of one record are filled without an unrolled loop.
    let whole = !fills(nest, b);
    if whole && steps_far(nest, b, inner) && is_iteration(nest, a, b, inner) {
        return Some(inner);
    }
    // Copies for several rows (unroll and jam) belong to an outer loop, and write to memory. Operands that are packed
    // belong to the tile that they serve.
    let packs = b.copies && nest.facts.origin(&b.target) == Origin::Local;
    if packs || !nest.is_memory(&b.target) {
        return None;
    }
    b.stack.iter().copied().find(|id| {
        let step = nest.facts.loops[*id].step.map(i64::saturating_abs);
        step.is_some_and(|s| (2..=LONGEST).contains(&s)) && is_iteration(nest, a, b, *id)
    })
}

/// True if one iteration of the loop moves an argument by more than one element.
fn steps_far(nest: &Nest<'_>, write: &Write, id: LoopId) -> bool {
    let round = &nest.facts.loops[id];
    let Some(step) = round.step else {
        return false;
    };
    let places = write.reads.iter().chain(std::iter::once(&write.target));
    let far = |place: &Place| {
        nest.facts.origin(place).argument().is_some() && {
            let movement = nest.movement(place, round.symbol);
            movement.along.iter().any(|(_, n)| n.saturating_abs() > 1)
        }
    };
    step.saturating_abs() > 1 || places.into_iter().any(far)
}

/// True if the second statement is the first one in another iteration of the loop, less than one step away.
pub(super) fn is_iteration(nest: &Nest<'_>, a: &Write, b: &Write, id: LoopId) -> bool {
    let round = &nest.facts.loops[id];
    let (Some(step), Some(pairs)) = (round.step, pairs(a, b)) else {
        return false;
    };
    let mut shift = Shift {
        nest,
        symbol: round.symbol,
        step,
        share: None,
    };
    let reads = pairs.into_iter().all(|(x, y)| shift.covers(x, y, false));
    // Stores of finished results are copies only if they compute with other elements.
    let stores = !a.accs.is_empty() && !a.updates;
    reads
        && !(stores && shift.share.is_none())
        && shift.covers_targets(a, b)
        && shift.share.is_some()
}

/// The distance between two copies of a statement, as a share of one step of a loop.
struct Shift<'n, 'f> {
    nest: &'n Nest<'f>,
    symbol: Symbol,
    step: i64,
    share: Option<(i64, i64)>,
}

impl Shift<'_, '_> {
    fn covers_targets(&mut self, a: &Write, b: &Write) -> bool {
        match (&a.target, &b.target) {
            (Place::Scalar(_), Place::Scalar(_)) => true,
            (Place::Element(x, _), Place::Element(y, _)) => {
                let own = |id: &usize| self.nest.facts.arrays[*id].origin == Origin::Local;
                let updates = a.updates && b.updates;
                if x == y {
                    self.covers(&a.target, &b.target, updates)
                } else {
                    // Tables of counts or sums that are added up later.
                    (own(x) && own(y)) || (updates && (own(x) || own(y)))
                }
            }
            _ => false,
        }
    }

    /// True if the second place is the first one, moved by the common share of a step. Several accumulators of one sum
    /// may lie at any places.
    fn covers(&mut self, from: &Place, to: &Place, accumulators: bool) -> bool {
        let (Place::Element(_, from), Place::Element(_, to)) = (from, to) else {
            return true;
        };
        from.len() == to.len()
            && from
                .iter()
                .zip(to)
                .all(|(from, to)| self.covers_subscript(from, to, accumulators))
    }

    fn covers_subscript(&mut self, from: &Poly, to: &Poly, accumulators: bool) -> bool {
        let apart = to.minus(from);
        // The walk does not know how far places are apart that depend on values of arrays.
        let meanings = &self.nest.facts.meanings;
        let unknown = apart
            .symbols()
            .any(|s| meanings[s as usize] == Meaning::Unknown);
        let Some(factor) = from.factor_of(self.symbol) else {
            return false;
        };
        let stride = factor.times(&Poly::constant(self.step));
        if stride.is_zero() {
            return apart.is_zero() || unknown || accumulators;
        }
        let Some((n, d)) = apart.ratio(&stride) else {
            return unknown;
        };
        if n.unsigned_abs() >= d.unsigned_abs() {
            return false;
        }
        let same = |(m, e): (i64, i64)| n.checked_mul(e) == m.checked_mul(d);
        if !self.share.is_none_or(same) {
            return false;
        }
        self.share = Some((n, d));
        true
    }
}

/// The elements that two statements read, in order, if they read the same arrays.
fn pairs<'w>(a: &'w Write, b: &'w Write) -> Option<Vec<(&'w Place, &'w Place)>> {
    let elements = |write: &'w Write| -> Vec<&'w Place> {
        let all = write.reads.iter();
        all.filter(|r| matches!(r, Place::Element(..))).collect()
    };
    let (x, y) = (elements(a), elements(b));
    if x.len() != y.len() {
        return None;
    }
    let alike = |(p, q): (&&Place, &&Place)| match (p, q) {
        (Place::Element(x, _), Place::Element(y, _)) => x == y,
        _ => false,
    };
    if !x.iter().zip(&y).all(alike) {
        return None;
    }
    Some(x.into_iter().zip(y).collect())
}

/// The loop of which one statement of a sum takes several terms.
fn unrolled_within(nest: &Nest<'_>, at: usize) -> Option<LoopId> {
    let write = nest.write(at);
    if !write.updates {
        return None;
    }
    let inner = innermost(nest, at)?;
    if steps_far(nest, write, inner) && takes_terms(nest, write, inner) {
        return Some(inner);
    }
    // Several terms of an outer loop are added to the output.
    if !nest.facts.is_output(&write.target) {
        return None;
    }
    write.stack.iter().copied().find(|id| {
        let step = nest.facts.loops[*id].step.map(i64::saturating_abs);
        step.is_some_and(|s| (2..=TILE).contains(&s)) && takes_terms(nest, write, *id)
    })
}

/// True if each element that the loop moves has a copy in another iteration of the same step.
fn takes_terms(nest: &Nest<'_>, write: &Write, id: LoopId) -> bool {
    let round = &nest.facts.loops[id];
    let Some(step) = round.step else {
        return false;
    };
    // An exchange of two elements changes them in place.
    if let Place::Element(_, index) = &write.target
        && index.iter().any(|p| p.contains(round.symbol))
    {
        return false;
    }
    let moved: Vec<(usize, &[Poly])> = write
        .reads
        .iter()
        .filter_map(|read| match read {
            Place::Element(array, index) => Some((*array, index.as_slice())),
            Place::Scalar(_) => None,
        })
        .filter(|(_, index)| index.iter().any(|p| p.contains(round.symbol)))
        .collect();
    let is_copy = |(array, index): &(usize, &[Poly]), (other, from): &(usize, &[Poly])| {
        array == other
            && index != from
            && index.len() == from.len()
            && index.iter().zip(*from).all(|(p, q)| {
                let apart = p.minus(q);
                let stride = q.factor_of(round.symbol).unwrap_or_default();
                let share = apart.ratio(&stride.times(&Poly::constant(step)));
                apart.is_zero() || share.is_some_and(|(n, d)| n.unsigned_abs() < d.unsigned_abs())
            })
    };
    moved.len() >= 2
        && nest.spend(moved.len() * moved.len())
        && moved
            .iter()
            .all(|one| moved.iter().any(|other| is_copy(one, other)))
}

/// The line of the first of several copies of a statement in constant distances along a dimension without a loop.
fn without_loop(nest: &Nest<'_>, others: &[usize], at: usize) -> Option<u32> {
    let last = nest.write(at);
    let mut chain = vec![last];
    let mut distances: Option<Vec<i64>> = None;
    for other in others.iter().rev().take(MOST_COMPARED) {
        let earlier = nest.write(*other);
        let Some(next) = chain.last().filter(|w| nest.spend(w.reads.len() + 1)) else {
            break;
        };
        let Some(found) = fixed_distances(nest, earlier, next) else {
            continue;
        };
        if found.iter().all(|d| *d == 0) {
            continue;
        }
        match &distances {
            None => distances = Some(found),
            Some(known) if *known == found => {}
            Some(_) => continue,
        }
        chain.push(earlier);
        if chain.len() >= WITHOUT_LOOP {
            return Some(earlier.line);
        }
    }
    None
}

/// The constant distances between the elements of two copies of a statement. None if all of them lie along dimensions
/// that a loop moves along, as in a tile of registers.
fn fixed_distances(nest: &Nest<'_>, a: &Write, b: &Write) -> Option<Vec<i64>> {
    let mut all = pairs(a, b)?;
    let reads = all.len();
    if let (Place::Element(x, _), Place::Element(y, _)) = (&a.target, &b.target) {
        if x != y {
            return None;
        }
        all.push((&a.target, &b.target));
    }
    let mut distances = Vec::with_capacity(all.len());
    let mut free = false;
    for (number, (p, q)) in all.into_iter().enumerate() {
        let (Place::Element(_, from), Place::Element(_, to)) = (p, q) else {
            return None;
        };
        if from.len() != to.len() {
            return None;
        }
        for (from, to) in from.iter().zip(to) {
            let distance = to.minus(from).as_constant()?;
            // Results of the same elements are no copies of a statement.
            free |= number < reads && distance != 0 && is_free(nest, a, p, from);
            distances.push(distance);
        }
    }
    free.then_some(distances)
}

/// True if no loop moves the subscript along its innermost dimension. The elements of a small local array are free only
/// where the statement changes that array, because others are operands in registers.
fn is_free(nest: &Nest<'_>, write: &Write, place: &Place, subscript: &Poly) -> bool {
    let Some(argument) = nest.facts.origin(place).argument() else {
        let same = |x: &Place, y: &Place| match (x, y) {
            (Place::Element(x, _), Place::Element(y, _)) => x == y,
            _ => false,
        };
        let reads_target = write.reads.iter().any(|read| same(read, &write.target));
        let in_place = same(place, &write.target) && reads_target;
        return in_place && !subscript.symbols().any(|s| nest.facts.is_loop(s));
    };
    let last = nest.shapes.rank(argument).saturating_sub(1);
    write.stack.iter().all(|id| {
        let symbol = nest.facts.loops[*id].symbol;
        let movement = nest.movement(place, symbol);
        movement
            .along
            .iter()
            .all(|(dim, n)| *dim != last && *n != 0)
    })
}
