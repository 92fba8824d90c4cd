//! Derives techniques from the facts of a walk.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_protocol::Technique;

use super::Detected;
use super::facts::{Facts, Flow, LoopId, Origin, Place, Statement, TILE, Update};
use super::poly::{Poly, Symbol};

/// The role of a loop in a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// A loop over rows of the output.
    Row,
    /// A loop over columns of the output.
    Column,
    /// A loop over the terms of one sum.
    Reduction,
}

/// Notes all techniques of the loop nest.
pub(super) fn judge(facts: &Facts, found: &mut Detected) {
    let products = products(facts);
    for update in &products {
        let parts = parts(facts, update);
        cache_blocking(facts, update, found);
        reorder(facts, update, &parts, found);
        packing(facts, update, &parts, found);
    }
    register_blocking(facts, &products, found);
    unroll(facts, &products, found);
}

/// The updates that do the problem's work: products of two different inputs, if such products exist.
fn products(facts: &Facts) -> Vec<&Update> {
    let most = facts
        .updates
        .iter()
        .map(|u| u.sources.len())
        .max()
        .unwrap_or(0);
    let wanted = most.min(2);
    facts
        .updates
        .iter()
        .filter(|u| u.sources.len() >= wanted.max(1))
        .collect()
}

/// The stores that move the sums of `update` to the output: their places, with the accumulators in each.
fn destinations<'f>(facts: &'f Facts, update: &Update) -> Vec<&'f Flow> {
    facts
        .flows
        .iter()
        .filter(|flow| match &update.target {
            Place::Scalar(_) => flow.accs.contains(&update.target),
            Place::Element(array, _) => {
                flow.array == *array && facts.is_output(&update.target)
                    || flow
                        .accs
                        .iter()
                        .any(|a| matches!(a, Place::Element(other, _) if other == array))
            }
        })
        .collect()
}

fn flat(index: &[Poly]) -> Poly {
    index.iter().fold(Poly::default(), |sum, p| sum.add(p))
}

/// Row or column, determined by the stride of `symbol` in an output.
fn place_in_output(facts: &Facts, index: &[Poly], symbol: Symbol) -> Option<Part> {
    // For an array with several extents, the order of its subscripts decides.
    if index.len() > 1 {
        let at = index.iter().position(|p| p.contains(symbol))?;
        return Some(if at + 1 == index.len() {
            Part::Column
        } else {
            Part::Row
        });
    }
    let index = index.first()?;
    let mut cofactors = index.cofactors(symbol).peekable();
    cofactors.peek()?;
    let scaled = cofactors.any(|others| others.iter().any(|s| !facts.is_loop(*s)));
    Some(if scaled { Part::Row } else { Part::Column })
}

/// The role of each loop around `update`; none for a loop whose role is unknown.
fn parts(facts: &Facts, update: &Update) -> BTreeMap<LoopId, Option<Part>> {
    let flows = destinations(facts, update);
    let own: &[Poly] = match &update.target {
        Place::Element(_, index) => index,
        Place::Scalar(_) => &[],
    };
    let direct = facts.is_output(&update.target);
    update
        .stack
        .iter()
        .map(|id| {
            let symbol = facts.loops[*id].symbol;
            let part = if direct {
                place_in_output(facts, own, symbol).or(Some(Part::Reduction))
            } else if let Some(dim) = own.iter().position(|p| p.contains(symbol)) {
                flows.iter().find_map(|flow| part_of_dim(facts, flow, dim))
            } else if flows.is_empty() {
                None
            } else {
                let common = |f: &&Flow| f.stack.contains(id);
                let by_flow = flows
                    .iter()
                    .filter(|f| facts.arrays[f.array].origin == Origin::Output);
                by_flow
                    .copied()
                    .filter(common)
                    .find_map(|f| place_in_output(facts, &f.index, symbol))
                    .or(Some(Part::Reduction))
            };
            (*id, part)
        })
        .collect()
}

/// The role, in the output, of the `dim`-th subscript of a local accumulator.
fn part_of_dim(facts: &Facts, flow: &Flow, dim: usize) -> Option<Part> {
    if facts.arrays[flow.array].origin != Origin::Output {
        return None;
    }
    flow.accs.iter().find_map(|acc| {
        let Place::Element(_, index) = acc else {
            return None;
        };
        let symbols = index.get(dim)?.symbols().filter(|s| facts.is_loop(*s));
        symbols
            .filter_map(|s| place_in_output(facts, &flow.index, s))
            .next()
    })
}

/// True if `outer` loops over blocks and `inner` loops within one block.
fn is_block_of(facts: &Facts, update: &Update, outer: LoopId, inner: LoopId) -> bool {
    let (block, walk) = (&facts.loops[outer], &facts.loops[inner]);
    if walk.start.contains(block.symbol) {
        // `for (j = i; …)` with steps of one is a triangular loop, not a block.
        return block.step.is_none_or(|s| s.unsigned_abs() > 1);
    }
    let places = update.reads.iter().chain(std::iter::once(&update.target));
    let mut indices = places.filter_map(|p| match p {
        Place::Element(_, index) => Some(index),
        Place::Scalar(_) => None,
    });
    indices.any(|index| {
        index.iter().any(|poly| {
            poly.cofactors(block.symbol).any(|cofactor| {
                let (a, b) = (
                    poly.coefficient(block.symbol, &cofactor),
                    poly.coefficient(walk.symbol, &cofactor),
                );
                let stride = a.saturating_mul(block.step.unwrap_or(2)).unsigned_abs();
                a != 0 && b != 0 && stride > b.unsigned_abs()
            })
        })
    })
}

/// The block loops of an update, each paired with the loop inside the block.
fn blocks(facts: &Facts, update: &Update) -> Vec<(LoopId, LoopId)> {
    let mut found = Vec::new();
    for (at, outer) in update.stack.iter().enumerate() {
        for inner in &update.stack[at + 1..] {
            let small = facts.loops[*inner].is_tile();
            if !small && is_block_of(facts, update, *outer, *inner) {
                found.push((*outer, *inner));
            }
        }
    }
    found
}

fn cache_blocking(facts: &Facts, update: &Update, found: &mut Detected) {
    if let Some((outer, inner)) = blocks(facts, update).first() {
        let (outer, inner) = (&facts.loops[*outer], &facts.loops[*inner]);
        found.note(
            Technique::CacheBlocking,
            outer.line,
            format!(
                "this loop visits blocks, and the loop in line {} visits the elements of a block",
                inner.line
            ),
        );
    }
}

fn reorder(
    facts: &Facts,
    update: &Update,
    parts: &BTreeMap<LoopId, Option<Part>>,
    found: &mut Detected,
) {
    let blocks: BTreeSet<LoopId> = blocks(facts, update)
        .into_iter()
        .map(|(outer, _)| outer)
        .collect();
    let mut order: Vec<Part> = Vec::new();
    for id in &update.stack {
        if facts.loops[*id].is_tile() || blocks.contains(id) {
            continue;
        }
        if let Some(Some(part)) = parts.get(id)
            && !order.contains(part)
        {
            order.push(*part);
        }
    }
    if order.is_sorted() {
        return;
    }
    let words: Vec<&str> = order
        .iter()
        .map(|p| match p {
            Part::Row => "rows",
            Part::Column => "columns",
            Part::Reduction => "the sum",
        })
        .collect();
    let line = update
        .stack
        .first()
        .map_or(update.line, |id| facts.loops[*id].line);
    found.note(
        Technique::LoopReorder,
        line,
        format!(
            "the loops run over {}, outermost first; the loops of the reference run over rows, columns, the sum",
            words.join(", ")
        ),
    );
}

/// Loops of `update` over the terms of a sum, except tiles.
fn reductions(
    facts: &Facts,
    update: &Update,
    parts: &BTreeMap<LoopId, Option<Part>>,
) -> Vec<LoopId> {
    let is =
        |id: &LoopId| parts.get(id) == Some(&Some(Part::Reduction)) && !facts.loops[*id].is_tile();
    update.stack.iter().copied().filter(is).collect()
}

fn packing(
    facts: &Facts,
    update: &Update,
    parts: &BTreeMap<LoopId, Option<Part>>,
    found: &mut Detected,
) {
    let innermost = reductions(facts, update, parts).last().copied();
    for place in &update.reads {
        let Place::Element(id, _) = place else {
            continue;
        };
        let array = &facts.arrays[*id];
        if array.origin != Origin::Local || array.accumulates {
            continue;
        }
        for fill in facts.fills.iter().filter(|f| f.array == *id) {
            // A few operands that are loaded in each iteration of the sum are registers, not a packed panel.
            let registers = array.elements().is_some_and(|e| e <= 64)
                && innermost.is_some_and(|k| fill.stack.contains(&k));
            if !registers {
                found.note(
                    Technique::Packing,
                    fill.line,
                    format!(
                        "elements of an input are copied into `{}`, which the products read",
                        array.name
                    ),
                );
                return;
            }
        }
    }
}

fn register_blocking(facts: &Facts, products: &[&Update], found: &mut Detected) {
    // Accumulators that persist over a sum, with the output places at which each ends.
    let mut ends: BTreeMap<Place, BTreeSet<(usize, Vec<Poly>)>> = BTreeMap::new();
    for update in products {
        let parts = parts(facts, update);
        let declared = match &update.target {
            Place::Scalar(id) => &facts.scalars[*id].declared,
            Place::Element(id, _) if facts.arrays[*id].origin == Origin::Local => {
                &facts.arrays[*id].declared
            }
            Place::Element(..) => continue,
        };
        if !reductions(facts, update, &parts)
            .iter()
            .any(|k| !declared.contains(k))
        {
            continue;
        }
        let flows = destinations(facts, update);
        if let Place::Element(array, index) = &update.target {
            let tiled = index.iter().flat_map(Poly::symbols).any(|s| {
                update.stack.iter().any(|id| {
                    let l = &facts.loops[*id];
                    l.symbol == s && l.rounds().is_some_and(|r| r >= 2)
                })
            });
            let spread = flows.iter().any(|flow| {
                let stored = flow.accs.iter().filter_map(|a| match a {
                    Place::Element(other, index) if other == array => Some(flat(index)),
                    _ => None,
                });
                let to = flat(&flow.index);
                let mut symbols = stored.flat_map(|p| p.symbols().collect::<Vec<_>>());
                symbols.any(|s| {
                    let rounds = facts
                        .loops
                        .iter()
                        .find(|l| l.symbol == s)
                        .and_then(|l| l.rounds());
                    to.contains(s) && rounds.is_none_or(|r| r >= 2)
                })
            });
            if tiled && spread {
                note_registers(found, update.line, &facts.arrays[*array].name);
                return;
            }
        }
        for flow in flows {
            for acc in flow
                .accs
                .iter()
                .filter(|a| same_variable(a, &update.target))
            {
                ends.entry(acc.clone())
                    .or_default()
                    .insert((flow.array, flow.index.clone()));
            }
        }
    }
    // Several accumulators of one element are a split sum; accumulators of several elements are a tile.
    let places: BTreeSet<_> = ends.values().flatten().collect();
    if ends.len() >= 2
        && places.len() >= 2
        && ends
            .values()
            .any(|a| ends.values().any(|b| a.is_disjoint(b)))
        && let Some(update) = products
            .iter()
            .find(|u| ends.keys().any(|a| same_variable(a, &u.target)))
    {
        note_registers(found, update.line, "these variables");
    }
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
        format!("a tile of the output is accumulated in {name} over the whole sum"),
    );
}

/// Detects manual unrolling: copies of a statement in a loop whose step is above one.
fn unroll(facts: &Facts, products: &[&Update], found: &mut Detected) {
    let is_product = |s: &Statement| {
        products
            .iter()
            .any(|u| u.line == s.line && u.target == s.target)
    };
    let mut copies: BTreeMap<(Option<LoopId>, &str), u32> = BTreeMap::new();
    for statement in &facts.statements {
        // A statement that only initialises accumulators belongs to register blocking.
        if !is_product(statement)
            && !facts.is_output(&statement.target)
            && facts.accumulates(&statement.target)
        {
            continue;
        }
        let innermost = statement
            .stack
            .iter()
            .rev()
            .find(|id| !facts.loops[**id].is_tile())
            .copied();
        let Some(innermost) = innermost else { continue };
        let wide = |id: LoopId| facts.loops[id].step.is_some_and(|s| s.unsigned_abs() > 1);
        // Copies for several rows (unroll and jam) belong to an outer loop over rows.
        let jammed = facts.is_output(&statement.target)
            && is_product(statement)
            && statement.stack.iter().any(|id| {
                facts.loops[*id]
                    .step
                    .is_some_and(|s| (2..=TILE.unsigned_abs()).contains(&s.unsigned_abs()))
            });
        if !wide(innermost) && !jammed {
            continue;
        }
        let repeated = |term: &String| statement.terms.iter().filter(|t| *t == term).count() >= 2;
        let count = copies
            .entry((Some(innermost), statement.text.as_str()))
            .or_default();
        *count += 1;
        if *count >= 2 || statement.terms.iter().any(repeated) {
            found.note(
                Technique::Unroll,
                statement.line,
                format!(
                    "the loop in line {} is unrolled by hand",
                    facts.loops[innermost].line
                ),
            );
            return;
        }
    }
}
