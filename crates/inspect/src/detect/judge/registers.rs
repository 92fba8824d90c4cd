//! Register blocking: several elements of a result are kept in local accumulators across a loop.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_protocol::Technique;

use super::super::Detected;
use super::super::facts::{ArrayId, LoopId, Meaning, Place};
use super::super::poly::{Poly, Symbol};
use super::roles::{Nest, Role};

/// A store of results: its array and subscripts.
type End = (ArrayId, Vec<Poly>);

/// Loops with more iterations do not choose among registers.
const MOST_ROUNDS: i64 = 64;

/// Larger arrays are not kept in registers.
const MOST_ELEMENTS: i64 = 256;

/// More accumulators are not compared.
const MOST_ACCUMULATORS: usize = 128;

/// Larger programs are judged by their first writes.
const MOST_WRITES: usize = 1000;

pub(super) fn note(nest: &Nest<'_>, found: &mut Detected) {
    let facts = nest.facts;
    let mut kept: BTreeMap<Place, Kept> = BTreeMap::new();
    let alike = loops_alike(nest);
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
        let across = carriers(nest, at);
        for flow in flows(nest, &update.target) {
            let Place::Element(array, index) = &nest.write(flow).target else {
                continue;
            };
            let ends = nest.facts.is_output(&nest.write(flow).target)
                || spreads(nest, flow)
                || is_operand(nest, flow);
            if !ends {
                continue;
            }
            for acc in &nest.write(flow).accs {
                if same_variable(acc, &update.target)
                    && is_register(nest, acc)
                    && kept.len() < MOST_ACCUMULATORS
                {
                    let of = kept.entry(acc.clone()).or_default();
                    let index = index.iter().map(|p| p.renamed(&alike)).collect();
                    of.ends.insert((*array, index));
                    of.across.extend(&across);
                    of.line.get_or_insert(update.line);
                }
            }
        }
    }
    for (at, first) in kept.values().enumerate() {
        if kept
            .values()
            .skip(at + 1)
            .any(|other| first.is_beside(other))
        {
            note_registers(found, first.line.unwrap_or(0), "these variables");
            return;
        }
    }
}

/// An accumulator that keeps its value over loops of its sum.
#[derive(Default)]
struct Kept {
    ends: BTreeSet<End>,
    /// The loops that the value is kept across.
    across: BTreeSet<LoopId>,
    line: Option<u32>,
}

impl Kept {
    /// True if two accumulators are kept across one loop for several elements of one array. Accumulators of one element
    /// are a split sum.
    fn is_beside(&self, other: &Kept) -> bool {
        let array = |end: &End| other.ends.iter().any(|o| o.0 == end.0);
        !self.across.is_disjoint(&other.across)
            && self.ends.is_disjoint(&other.ends)
            && self.ends.iter().any(array)
    }
}

/// For each loop, the symbol of the first loop with the same bounds at the same depth. Two loops over one row write to
/// the same elements.
fn loops_alike(nest: &Nest<'_>) -> BTreeMap<Symbol, Symbol> {
    let mut first = BTreeMap::new();
    let mut alike = BTreeMap::new();
    for round in nest.facts.loops.iter().take(MOST_WRITES) {
        let same = |p: &Poly| p.renamed(&alike);
        let bounds = (
            round.depth,
            same(&round.start),
            round.limit.as_ref().map(same),
            round.pace.as_ref().map(same),
        );
        let symbol = *first.entry(bounds).or_insert(round.symbol);
        alike.insert(round.symbol, symbol);
    }
    alike
}

/// True if the target keeps its value over a loop of its sum.
pub(super) fn persists(nest: &Nest<'_>, at: usize) -> bool {
    !carriers(nest, at).is_empty()
}

/// The loops of a sum over which the target keeps its value.
fn carriers(nest: &Nest<'_>, at: usize) -> Vec<LoopId> {
    let write = nest.write(at);
    let declared = nest.facts.declared(&write.target);
    let kept = |id: &LoopId| carries(nest, at, *id) && !declared.contains(id);
    write.stack.iter().copied().filter(kept).collect()
}

/// True if a loop repeats the update of one element.
fn carries(nest: &Nest<'_>, at: usize, id: LoopId) -> bool {
    let repeats = matches!(
        nest.role(at, id),
        Some(Role::Sum(_) | Role::Level | Role::Repeat)
    );
    // A variable is kept across a short loop as well; the elements of a local array take turns in it.
    let variable = matches!(nest.write(at).target, Place::Scalar(_));
    repeats && (variable || !nest.is_tile(at, id))
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
    let around = |symbol: Symbol| {
        let mut stack = update.stack.iter();
        stack.find(|id| facts.loops[**id].symbol == symbol)
    };
    if has_long_rows(nest, &update.target) {
        return false;
    }
    // Registers have no addresses: only loops with few iterations, which a compiler unrolls, choose among them.
    let symbols: Vec<Symbol> = index.iter().flat_map(Poly::symbols).collect();
    let rounds = |symbol: &Symbol| around(*symbol).and_then(|id| facts.loops[*id].rounds());
    let few = symbols
        .iter()
        .filter(|s| facts.is_loop(**s))
        .all(|s| rounds(s).is_some_and(|r| r <= MOST_ROUNDS));
    let small = facts.arrays[*array]
        .elements()
        .is_none_or(|e| e <= MOST_ELEMENTS);
    // The elements are updated in turn within each iteration of the loop that they are kept across.
    let kept = update
        .stack
        .iter()
        .position(|id| carries(nest, at, *id) && !facts.arrays[*array].declared.contains(id));
    let within = |symbol: &Symbol| {
        let of = |id: &LoopId| facts.loops[*id].symbol == *symbol;
        update.stack.iter().position(of) > kept
    };
    let tiled = symbols
        .iter()
        .any(|s| rounds(s).is_some_and(|r| r >= 2) && within(s));
    few && small
        && tiled
        && flows(nest, &update.target)
            .into_iter()
            .any(|flow| is_spread(nest, flow, *array))
}

/// True if a store writes several elements of the array to several places.
fn is_spread(nest: &Nest<'_>, flow: usize, array: ArrayId) -> bool {
    let facts = nest.facts;
    let flow = nest.write(flow);
    let Place::Element(_, end) = &flow.target else {
        return false;
    };
    flow.reads.iter().chain(&flow.accs).any(|read| {
        let Place::Element(other, index) = read else {
            return false;
        };
        // The subscripts may be quotients of the loop's variable, which have no polynomial.
        let unknown = |s: &Symbol| facts.meanings[*s as usize] == Meaning::Unknown;
        let quotient = index.iter().flat_map(Poly::symbols).any(|s| unknown(&s));
        *other == array
            && flow.stack.iter().any(|id| {
                let round = &facts.loops[*id];
                let chooses = |p: &Poly| p.contains(round.symbol);
                let several = round.rounds().is_none_or(|r| r >= 2);
                several && end.iter().any(chooses) && (quotient || index.iter().any(chooses))
            })
    })
}

/// True if the elements of a local array, into which a store writes a result, end in several places of an output.
fn spreads(nest: &Nest<'_>, flow: usize) -> bool {
    let target = &nest.write(flow).target;
    let Place::Element(array, _) = target else {
        return false;
    };
    nest.readers(target).any(|reader| {
        nest.facts.is_output(&nest.write(reader).target) && is_spread(nest, reader, *array)
    })
}

/// True if a store writes the result of a loop to memory of the program in which it is an operand: another statement
/// combines it with an element of an argument. Parts of one sum are only added up.
fn is_operand(nest: &Nest<'_>, flow: usize) -> bool {
    let write = nest.write(flow);
    let Place::Element(_, index) = &write.target else {
        return false;
    };
    let argument = |read: &Place| nest.facts.origin(read).argument().is_some();
    let combines = |reader: usize| {
        let reader = nest.write(reader);
        !reader.copies && reader.reads.iter().any(argument)
    };
    let moves = |id: &LoopId| {
        let symbol = nest.facts.loops[*id].symbol;
        index.iter().any(|p| p.contains(symbol))
    };
    nest.is_memory(&write.target)
        && write.stack.iter().any(moves)
        && nest.readers(&write.target).any(combines)
}

/// True for an element of an array whose rows are as long as an argument says. Such an array is no set of registers.
pub(super) fn has_long_rows(nest: &Nest<'_>, place: &Place) -> bool {
    let Place::Element(_, index) = place else {
        return false;
    };
    let mut symbols = index.iter().flat_map(Poly::symbols);
    symbols.any(|s| matches!(nest.facts.meanings[s as usize], Meaning::Argument(_)))
}

/// False for an element of an array that a loop over data walks along.
fn is_register(nest: &Nest<'_>, place: &Place) -> bool {
    let facts = nest.facts;
    let Place::Element(array, index) = place else {
        return true;
    };
    let small = facts.arrays[*array].elements();
    let mut symbols = index.iter().flat_map(Poly::symbols);
    small.is_none_or(|e| e <= MOST_ELEMENTS)
        && !has_long_rows(nest, place)
        && symbols.all(|symbol| {
            let round = facts.loops.iter().find(|l| l.symbol == symbol);
            round.is_none_or(|l| l.rounds().is_some_and(|r| r <= MOST_ROUNDS))
        })
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
