//! Register tiles: several rows and several vectors of the target are computed at once, with their sums in registers.
//!
//! Vectors lie along an output dimension (each lane is an element of its own), or along the innermost reduction (lanes are parts of one
//! sum). Where the ranges of inner loops depend on row or column, as in triangles, the tile takes the part that all its elements have in
//! common, and scalar loops take the rest.

mod loops;
mod packing;
mod sums;
mod vectors;

use std::collections::BTreeMap;

use super::{Loop, Nest, fits_vectors};
use crate::affine::{Affine, Bound, Range, Var};
use crate::generate::{Code, Error, Fact, atom};
use crate::program::{Access, Expr, Operation, Origin, Program, Statement};
use crate::schedule::{Leaf, Style};

/// Most sums of one tile.
const MOST_SUMS: u32 = 40;

/// A loop that a tile computes several iterations of at once.
#[derive(Debug, Clone)]
struct Several {
    at: Loop,
    count: u32,
}

/// A register tile.
pub struct Tile<'a> {
    nest: &'a Nest,
    /// Loops around the tile.
    around: Vec<Loop>,
    rows: Option<Several>,
    /// The loop of the vectors if they lie along an output; else a second loop of which several iterations are computed, if there is one.
    columns: Option<Several>,
    /// True if vectors lie along `columns`.
    across: bool,
    /// Loops that reduce, the outermost first. Without `across` the last is that of the vectors.
    sums: Vec<Loop>,
    lanes: u32,
    /// Name of the vector type.
    vector: String,
    c_type: &'static str,
    /// True if the loop over columns is around that over rows.
    columns_outside: bool,
    pack: bool,
    unroll: u32,
    prefetch: u32,
}

/// Vectors of the elements that a buffer holds, by their accesses.
type Packed = BTreeMap<Access, String>;

/// The way in which an access moves with a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Motion {
    /// Not at all.
    Still,
    /// To the next element.
    Next,
    /// Elsewhere.
    Far,
}

/// The way in which an access moves with the loop over `var`.
pub fn motion(access: &Access, var: Var) -> Motion {
    let Some((last, others)) = access.subscripts.split_last() else {
        return Motion::Still;
    };
    let elsewhere = others.iter().any(|s| s.of(var) != 0);
    match (elsewhere, last.of(var)) {
        (false, 0) => Motion::Still,
        (false, 1) => Motion::Next,
        _ => Motion::Far,
    }
}

/// True if a loop's range depends on one of these variables.
fn depends(range: &Range, vars: &[Var]) -> bool {
    let bounds = range.lower.iter().chain(&range.upper);
    bounds
        .into_iter()
        .any(|b| vars.iter().any(|v| b.value.of(*v) != 0))
}

impl<'a> Tile<'a> {
    /// The tile that a leaf asks for; none if it does not fit the nest.
    pub fn of(program: &Program, nest: &'a Nest, leaf: &Leaf) -> Option<Self> {
        let array = &program.arrays[nest.statement.target.array];
        let lanes = leaf.vector / array.bytes;
        if lanes < 2 || !fits_vectors(program, nest) {
            return None;
        }
        let along = nest.loops.iter().position(|l| l.dimension == leaf.along)?;
        let across = nest.moves_target(nest.loops[along].var);
        let (sums, mut outputs): (Vec<Loop>, Vec<Loop>) = nest
            .loops
            .iter()
            .cloned()
            .partition(|l| nest.reduces(l.var));
        // Loops that neither move the target nor reduce would overwrite one element again and again.
        if outputs.iter().any(|l| !nest.moves_target(l.var)) {
            return None;
        }
        let mut take = |dimension: usize| -> Option<Loop> {
            let at = outputs.iter().position(|l| l.dimension == dimension)?;
            Some(outputs.remove(at))
        };
        let columns = if across {
            let at = take(leaf.along)?;
            Some(Several {
                at,
                count: leaf.columns.1.max(1),
            })
        } else {
            match leaf.columns {
                (dimension, count) if count > 1 => Some(Several {
                    at: take(dimension)?,
                    count,
                }),
                _ => None,
            }
        };
        let rows = match leaf.rows {
            Some((dimension, count)) if count > 1 => Some(Several {
                at: take(dimension)?,
                count,
            }),
            _ => None,
        };
        if across {
            let vectors = columns.as_ref()?;
            (motion(&nest.statement.target, vectors.at.var) == Motion::Next).then_some(())?;
        } else {
            // The vectors' loop must be the innermost that reduces.
            let last = sums.last()?;
            (last.dimension == leaf.along).then_some(())?;
            matches!(nest.statement.update, Some(Operation::Add | Operation::Sub)).then_some(())?;
        }
        let extreme = matches!(nest.statement.update, Some(Operation::Min | Operation::Max));
        if extreme {
            return None;
        }
        let sum_count =
            rows.as_ref().map_or(1, |r| r.count) * columns.as_ref().map_or(1, |c| c.count);
        if sum_count > MOST_SUMS {
            return None;
        }
        let place = |several: &Option<Several>| {
            let var = several.as_ref().map(|s| s.at.var)?;
            nest.loops.iter().position(|l| l.var == var)
        };
        let columns_outside = match (place(&rows), place(&columns)) {
            (Some(rows), Some(columns)) => columns < rows,
            _ => false,
        };
        let tile = Self {
            nest,
            around: outputs,
            rows,
            columns,
            across,
            sums,
            lanes,
            vector: format!("{}{}", array.c_type, lanes),
            c_type: array.c_type,
            columns_outside,
            pack: leaf.pack,
            unroll: leaf.unroll,
            prefetch: leaf.prefetch,
        };
        tile.is_sound().then_some(tile)
    }

    /// The loops can be put in this order, and only the outermost reduction has a range that depends on rows or columns.
    fn is_sound(&self) -> bool {
        let rows = self.rows.as_ref().map(|r| r.at.var);
        let columns = self.columns.as_ref().map(|c| c.at.var);
        let inner: Vec<Var> = rows.into_iter().chain(columns).collect();
        let sums: Vec<Var> = self.sums.iter().map(|l| l.var).collect();
        let tiled: Vec<Var> = inner.iter().copied().chain(sums.iter().copied()).collect();
        let around = self.around.iter().all(|l| !depends(&l.range, &tiled));
        // The outer one of rows and columns depends on no other loop of the tile.
        let (outer, inside) = if self.columns_outside {
            (&self.columns, rows)
        } else {
            (&self.rows, columns)
        };
        let order = outer.as_ref().is_none_or(|o| {
            let others: Vec<Var> = inside.into_iter().chain(sums.iter().copied()).collect();
            !depends(&o.at.range, &others)
        });
        let both = self.rows.iter().chain(&self.columns);
        let columns_first = both.into_iter().all(|s| !depends(&s.at.range, &sums));
        let deeper = self.sums.iter().skip(1).all(|l| !depends(&l.range, &inner));
        let nested = self
            .sums
            .iter()
            .enumerate()
            .all(|(n, l)| !depends(&l.range, &sums[n..]));
        around && order && columns_first && deeper && nested
    }

    /// The dimensions of its loops, the outermost first.
    fn order(&self) -> impl Iterator<Item = usize> {
        let (rows, columns) = (self.rows.as_ref(), self.columns.as_ref());
        let (outer, inner) = match self.columns_outside {
            true => (columns, rows),
            false => (rows, columns),
        };
        let tiled = outer.into_iter().chain(inner).map(|several| &several.at);
        let all = self.around.iter().chain(tiled).chain(&self.sums);
        all.map(|l| l.dimension)
    }

    fn statement(&self) -> &Statement {
        &self.nest.statement
    }

    fn fact(&self, program: &Program) -> Fact {
        let along = |wanted: Motion| -> u32 {
            let reads = self.statement().value.reads();
            let moving = reads
                .into_iter()
                .filter(|a| self.along().is_some_and(|v| motion(a, v) == wanted));
            u32::try_from(moving.count()).unwrap_or(u32::MAX)
        };
        let inside = self.rows.as_ref().filter(|_| self.columns_outside);
        let packed = inside.map_or_else(Vec::new, |rows| self.packed(rows));
        let argument = |access: &&Access| program.arrays[access.array].origin != Origin::Scratch;
        let operands = packed.iter().filter(argument).count();
        Fact {
            depth: u32::try_from(self.nest.loops.len()).unwrap_or(u32::MAX),
            style: Style::Tile,
            lanes: self.lanes,
            bytes: self.lanes * self.element_bytes(program),
            rows: self.rows.as_ref().map_or(1, |r| r.count),
            columns: self.columns.as_ref().map_or(1, |c| c.count),
            across: self.across,
            sums: !self.sums.is_empty(),
            far: along(Motion::Far),
            next: along(Motion::Next),
            packed: u32::try_from(packed.len()).unwrap_or(u32::MAX),
            operands: u32::try_from(operands).unwrap_or(u32::MAX),
            unroll: self.unroll,
            prefetch: self.prefetch,
        }
    }

    fn element_bytes(&self, program: &Program) -> u32 {
        program.arrays[self.statement().target.array].bytes
    }

    /// Replaces the row's variable by that of the n-th row of the tile.
    fn in_row(&self, row: u32) -> impl Fn(Var) -> Option<Affine> + '_ {
        let var = self.rows.as_ref().map(|r| r.at.var);
        move |v| (Some(v) == var && row > 0).then(|| Affine::var(v).offset(i64::from(row)))
    }

    fn range_in_row(&self, range: &Range, row: u32) -> Range {
        let moved = |bounds: &[Bound]| {
            let each = bounds.iter().map(|b| Bound {
                value: b.value.replaced(&self.in_row(row)),
                divisor: b.divisor,
            });
            each.collect()
        };
        Range {
            lower: moved(&range.lower),
            upper: moved(&range.upper),
        }
    }

    /// Moves an expression to an element of the tile: its row, and its column as a number of elements.
    fn at(&self, row: u32, element: u32) -> impl Fn(Var) -> Option<Affine> + '_ {
        let rows = self.rows.as_ref().map(|r| r.at.var);
        let columns = self.columns.as_ref().map(|c| c.at.var);
        move |v| {
            if Some(v) == rows && row > 0 {
                Some(Affine::var(v).offset(i64::from(row)))
            } else if Some(v) == columns && element > 0 {
                Some(Affine::var(v).offset(i64::from(element)))
            } else {
                None
            }
        }
    }

    /// Elements between the first ones of neighbouring columns of a tile.
    fn width(&self) -> u32 {
        if self.across { self.lanes } else { 1 }
    }

    fn moved(&self, range: &Range, row: u32, element: u32) -> Range {
        let moved = |bounds: &[Bound]| {
            let each = bounds.iter().map(|b| Bound {
                value: b.value.replaced(&self.at(row, element)),
                divisor: b.divisor,
            });
            each.collect()
        };
        Range {
            lower: moved(&range.lower),
            upper: moved(&range.upper),
        }
    }
}
