//! Blocks for a cache: two loops along one dimension, of which the outer one visits blocks.

use std::collections::BTreeSet;

use flopsmith_protocol::Technique;

use super::super::Detected;
use super::super::facts::{Loop, LoopId, Meaning, Origin, Place, Write};
use super::super::poly::Poly;
use super::super::shapes::Movement;
use super::roles::Nest;

/// The first writes within two loops show what the loops move.
const MOST_WITHIN: usize = 24;

/// A pair of loops is searched at so many writes only, because a long program repeats its loops.
const MOST_WRITES: usize = 400;

pub(super) fn note(nest: &Nest<'_>, found: &mut Detected) {
    for at in works(nest) {
        if let Some((outer, inner)) = pairs(nest, at).first() {
            let (outer, inner) = (&nest.facts.loops[*outer], &nest.facts.loops[*inner]);
            found.note(
                Technique::CacheBlocking,
                outer.line,
                format!(
                    "this loop visits blocks, and the loop in line {} visits the elements of a block",
                    inner.line
                ),
            );
            return;
        }
    }
}

/// The writes that compute. A copy into the program's own memory says nothing about the order of the work.
fn works(nest: &Nest<'_>) -> impl Iterator<Item = usize> {
    let writes = nest.facts.writes.iter().enumerate();
    let works = writes.filter(|(_, w)| {
        !w.block && (!w.reads.is_empty() || w.updates || nest.is_memory(&w.target))
    });
    works
        .take(MOST_WRITES)
        .filter(|(_, w)| !w.copies || nest.facts.origin(&w.target) != Origin::Local)
        .map(|(at, _)| at)
}

/// All loops over blocks. The rest of a block may be so short that its own loop is no loop over data.
pub(super) fn outer_loops<'n>(nest: &'n Nest<'_>) -> &'n BTreeSet<LoopId> {
    nest.over_blocks.get_or_init(|| {
        let pairs = works(nest).flat_map(|at| pairs(nest, at));
        pairs.map(|(outer, _)| outer).collect()
    })
}

/// The loops over blocks around a write, each with the loop inside the block.
pub(super) fn pairs(nest: &Nest<'_>, at: usize) -> Vec<(LoopId, LoopId)> {
    if let Some(known) = nest.blocks.borrow().get(&at) {
        return known.clone();
    }
    let found = pairs_of(nest, at);
    nest.blocks.borrow_mut().insert(at, found.clone());
    found
}

fn pairs_of(nest: &Nest<'_>, at: usize) -> Vec<(LoopId, LoopId)> {
    let stack = &nest.write(at).stack;
    let mut found = Vec::new();
    for (depth, outer) in stack.iter().enumerate() {
        for inner in &stack[depth + 1..] {
            let small = nest.facts.loops[*inner].is_short();
            if !small && is_block_of(nest, at, *outer, *inner) {
                found.push((*outer, *inner));
            }
        }
    }
    found
}

/// The distance in elements from one block to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advance {
    Elements(i64),
    /// A size that the text does not show, and that is the same for all blocks.
    Unknown,
}

/// True if `outer` visits blocks of one dimension and `inner` visits the elements of a block.
fn is_block_of(nest: &Nest<'_>, at: usize, outer: LoopId, inner: LoopId) -> bool {
    let facts = nest.facts;
    let (block, walk) = (&facts.loops[outer], &facts.loops[inner]);
    if block.geometric || walk.geometric {
        return false;
    }
    // The size of a cache block is not that of a level of a butterfly or of a merge.
    let varies = |poly: &Poly| poly.symbols().any(|s| facts.is_loop(s));
    if block.pace.as_ref().is_some_and(varies) {
        return false;
    }
    let write = nest.write(at);
    let mut places = write.reads.iter().chain(std::iter::once(&write.target));
    if walk.start.contains(block.symbol) {
        // A loop over sweeps has parts, but no dimension.
        let moves = |place: &Place| {
            let first = nest.counted_from_starts(place, &write.stack);
            let place = first.as_ref().unwrap_or(place);
            !nest.movement(place, walk.symbol).is_none()
        };
        return places.any(moves) && starts_in_block(nest, outer, inner);
    }
    places.any(|place| {
        moves_by_blocks(nest, place, block, walk)
            .is_some_and(|advance| is_within(nest, block, walk, advance))
    })
}

/// For a loop that begins where its block begins: true if it also ends with the block.
fn starts_in_block(nest: &Nest<'_>, outer: LoopId, inner: LoopId) -> bool {
    let (block, walk) = (&nest.facts.loops[outer], &nest.facts.loops[inner]);
    let Some(factor) = walk.start.factor_of(block.symbol) else {
        return false;
    };
    let Some(step) = block.step else {
        return is_within(nest, block, walk, Advance::Unknown);
    };
    // A start such as `t * (n / threads)` shares out the work.
    let Some(factor) = factor.as_constant() else {
        return false;
    };
    let advance = factor.saturating_mul(step).saturating_abs();
    if advance <= 1 {
        return false;
    }
    // A loop over the elements of one row of a flat array begins at a multiple of the row's length. A skewed loop begins
    // elsewhere for each iteration of another loop, and its elements stay where they are.
    let within = |write: &&Write| write.stack.contains(&outer) && write.stack.contains(&inner);
    let writes = nest.facts.writes.iter().filter(within).take(MOST_WITHIN);
    let mut places = writes.flat_map(|w| w.reads.iter().chain(std::iter::once(&w.target)));
    // The rest of a sum that an unrolled loop leaves begins and ends at the loop's own element.
    let rest = walk.extent.is_some_and(|extent| extent < advance);
    let stays = places.any(|place| {
        nest.facts.origin(place).argument().is_some()
            && (stays(nest, place, block, step, walk)
                || (rest && visits_elements(nest, place, block, walk)))
    });
    !stays && is_within(nest, block, walk, Advance::Elements(advance))
}

/// True if the outer loop itself chooses an element that the inner one does not move.
fn visits_elements(nest: &Nest<'_>, place: &Place, block: &Loop, walk: &Loop) -> bool {
    !nest.movement(place, block.symbol).is_none() && nest.movement(place, walk.symbol).is_none()
}

/// True if a loop moves a place along dimensions along which the first places of blocks move by one element at most.
fn stays(nest: &Nest<'_>, place: &Place, block: &Loop, step: i64, walk: &Loop) -> bool {
    let Place::Element(array, index) = place else {
        return false;
    };
    let shifted = index
        .iter()
        .map(|p| p.shifted(walk.symbol, &walk.start))
        .collect::<Option<Vec<_>>>();
    let Some(shifted) = shifted else {
        return false;
    };
    let by_block = nest.movement(&Place::Element(*array, shifted), block.symbol);
    let by_walk = nest.movement(place, walk.symbol);
    let known = |m: &Movement| m.along.iter().all(|(_, steps)| *steps != 0);
    !by_walk.is_none()
        && known(&by_walk)
        && known(&by_block)
        && by_walk.along.iter().all(|(dim, short)| {
            let long = by_block.along(*dim).unwrap_or(0).saturating_mul(step);
            long.saturating_abs() / short.saturating_abs().max(1) <= 1
        })
}

/// The distance between blocks, if both loops move a place along one dimension and the outer one moves further.
fn moves_by_blocks(nest: &Nest<'_>, place: &Place, block: &Loop, walk: &Loop) -> Option<Advance> {
    let Place::Element(array, index) = place else {
        return None;
    };
    let known = &nest.facts.arrays[*array];
    // The subscript of a flat buffer does not show where one of its rows ends.
    if known.origin == Origin::Local && index.len() < 2 {
        return None;
    }
    let far = nest.movement(place, block.symbol);
    let near = nest.movement(place, walk.symbol);
    let unsure = far.along.iter().chain(&near.along).any(|(_, n)| *n == 0);
    if unsure {
        return by_cofactors(index, block, walk);
    }
    near.along.iter().find_map(|(dim, short)| {
        let long = far.along(*dim)?;
        advance(block, long, *short)
    })
}

fn advance(block: &Loop, long: i64, short: i64) -> Option<Advance> {
    let Some(step) = block.step else {
        return Some(Advance::Unknown);
    };
    let distance = long.saturating_mul(step).saturating_abs();
    let elements = distance / short.saturating_abs().max(1);
    (elements > 1).then_some(Advance::Elements(elements))
}

/// The distance between blocks in a place whose dimensions are not known.
fn by_cofactors(index: &[Poly], block: &Loop, walk: &Loop) -> Option<Advance> {
    index.iter().find_map(|poly| {
        poly.cofactors(block.symbol).find_map(|cofactor| {
            let long = poly.coefficient(block.symbol, &cofactor);
            let short = poly.coefficient(walk.symbol, &cofactor);
            if long == 0 || short == 0 {
                return None;
            }
            advance(block, long, short)
        })
    })
}

/// True if the loop within a block ends where the block ends, as far as the text shows it.
fn is_within(nest: &Nest<'_>, block: &Loop, walk: &Loop, advance: Advance) -> bool {
    if let (Some(extent), Advance::Elements(size)) = (walk.extent, advance) {
        // A block may overlap its neighbours by a few elements.
        return extent.saturating_abs() <= size.saturating_mul(2);
    }
    let Some(limit) = &walk.limit else {
        return true;
    };
    if limit.contains(block.symbol) || Some(limit) == block.pace.as_ref() {
        return true;
    }
    // The bound may be computed in a way that the walk does not follow. A bound of arguments alone is the end of the
    // whole dimension.
    limit
        .symbols()
        .any(|s| nest.facts.meanings[s as usize] == Meaning::Unknown)
        || limit.as_constant().is_some()
}
