//! Register tiles: several rows and several vectors of the target are computed at once, with their sums in registers.
//!
//! Vectors lie along an output dimension (each lane is an element of its own), or along the innermost reduction (lanes are parts of one
//! sum). Where the ranges of inner loops depend on row or column, as in triangles, the tile takes the part that all its elements have in
//! common, and scalar loops take the rest.

use std::collections::BTreeMap;

use super::{Loop, Nest, fits_vectors};
use crate::affine::{Affine, Bound, Range, Var};
use crate::generate::{Code, Error, Fact, atom};
use crate::program::{Access, Expr, Operation, Program, Statement};
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

/// The factors of a product.
fn flatten<'e>(value: &'e Expr, factors: &mut Vec<&'e Expr>) {
    match value {
        Expr::Binary(Operation::Mul, a, b) => {
            flatten(a, factors);
            flatten(b, factors);
        }
        other => factors.push(other),
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

    fn statement(&self) -> &Statement {
        &self.nest.statement
    }

    /// Writes the tile with all its loops.
    pub fn write(&self, code: &mut Code, program: &Program) -> Result<(), Error> {
        let alias = format!(
            "typedef {} {} __attribute__((vector_size({}), aligned({}), may_alias));",
            self.c_type,
            self.vector,
            self.lanes * self.element_bytes(program),
            self.element_bytes(program)
        );
        code.define(alias);
        code.note(self.fact(program));
        for l in &self.around {
            let (low, high) = (code.low(program, &l.range)?, code.high(program, &l.range)?);
            let name = program.name(l.var);
            code.open(format!(
                "for (long {name} = {low}; {name} <= {high}; {name}++)"
            ));
        }
        match &self.rows {
            Some(rows) if self.columns_outside => self.rows_inside(code, program, rows)?,
            Some(rows) => {
                let name = program.name(rows.at.var).to_owned();
                let (low, high) = (
                    code.low(program, &rows.at.range)?,
                    code.high(program, &rows.at.range)?,
                );
                let id = code.number();
                code.open("");
                code.line(format!("long {name} = {low}, last{id} = {high};"));
                code.open(format!(
                    "for (; {name} + {} <= last{id}; {name} += {})",
                    rows.count - 1,
                    rows.count
                ));
                self.columns_of(code, program, rows.count)?;
                code.close();
                code.open(format!("for (; {name} <= last{id}; {name}++)"));
                self.columns_of(code, program, 1)?;
                code.close();
                code.close();
            }
            None => self.columns_of(code, program, 1)?,
        }
        for _ in &self.around {
            code.close();
        }
        Ok(())
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
        let packed = inside.map_or(0, |rows| self.packed(rows).len());
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
            packed: u32::try_from(packed).unwrap_or(u32::MAX),
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

    /// All columns of `rows` rows.
    fn columns_of(&self, code: &mut Code, program: &Program, rows: u32) -> Result<(), Error> {
        let Some(columns) = &self.columns else {
            return self.block(code, program, rows, 1, &Packed::new());
        };
        let row_var: Vec<Var> = self.rows.iter().map(|r| r.at.var).collect();
        let uneven = rows > 1 && depends(&columns.at.range, &row_var);
        let name = program.name(columns.at.var).to_owned();
        let id = code.number();
        let mut lows = Vec::new();
        let mut highs = Vec::new();
        for row in 0..if uneven { rows } else { 1 } {
            let range = self.range_in_row(&columns.at.range, row);
            lows.push(code.low(program, &range)?);
            highs.push(code.high(program, &range)?);
        }
        let (low, high) = (code.extreme("most", &lows), code.extreme("least", &highs));
        code.open("");
        code.line(format!("long first{id} = {low}, last{id} = {high};"));
        if uneven {
            for row in 0..rows {
                let (low, high) = (&lows[row as usize], &highs[row as usize]);
                // Before and after what all rows have in common.
                code.define("static inline long least(long a, long b) { return a < b ? a : b; }");
                code.define("static inline long most(long a, long b) { return a > b ? a : b; }");
                code.open(format!(
                    "for (long {name} = {low}; {name} <= least({high}, first{id} - 1); {name}++)"
                ));
                self.single(code, program, row, 0)?;
                code.close();
                code.open(format!(
                    "for (long {name} = most({low}, most(first{id}, last{id} + 1)); {name} <= {high}; {name}++)"
                ));
                self.single(code, program, row, 0)?;
                code.close();
            }
        }
        code.line(format!("long {name} = first{id};"));
        let width = if self.across { self.lanes } else { 1 };
        let mut counts = vec![columns.count];
        if columns.count > 1 {
            counts.push(1);
        }
        for count in counts {
            let step = count * width;
            code.open(format!(
                "for (; {name} + {} <= last{id}; {name} += {step})",
                step - 1
            ));
            self.block(code, program, rows, count, &Packed::new())?;
            code.close();
        }
        if self.across {
            code.open(format!("for (; {name} <= last{id}; {name}++)"));
            for row in 0..rows {
                self.single(code, program, row, 0)?;
            }
            code.close();
        }
        code.close();
        Ok(())
    }

    /// All rows of some columns, and then of the next ones.
    fn rows_inside(&self, code: &mut Code, program: &Program, rows: &Several) -> Result<(), Error> {
        let Some(columns) = &self.columns else {
            return Ok(());
        };
        let column_var = [columns.at.var];
        let (name, row) = (
            program.name(columns.at.var).to_owned(),
            program.name(rows.at.var).to_owned(),
        );
        let (low, high) = (
            code.low(program, &columns.at.range)?,
            code.high(program, &columns.at.range)?,
        );
        let id = code.number();
        code.open("");
        code.line(format!("long {name} = {low}, last{id} = {high};"));
        let packed = self.packed(rows);
        let widest = columns.count * self.width();
        if let Some(sum) = self.sums.first().filter(|_| !packed.is_empty()) {
            let (low, high) = (
                code.low(program, &sum.range)?,
                code.high(program, &sum.range)?,
            );
            code.line(format!("long from{id} = {low}, to{id} = {high};"));
            code.include("stdlib.h");
            for n in 0..packed.len() {
                code.line(format!(
                    "{0} *pack{id}_{n} = aligned_alloc(64, (sizeof({0}) * (to{id} >= from{id} ? to{id} - from{id} + 1 : 1) * {widest} + 63) / 64 * 64);",
                    self.c_type
                ));
                code.open(format!("if (!pack{id}_{n})"));
                code.line("abort();");
                code.close();
            }
        }
        let mut counts = vec![columns.count];
        if columns.count > 1 {
            counts.push(1);
        }
        for count in counts {
            let step = count * self.width();
            let uneven = step > 1 && depends(&rows.at.range, &column_var);
            code.open(format!(
                "for (; {name} + {} <= last{id}; {name} += {step})",
                step - 1
            ));
            let buffers = self.fill(code, program, &packed, id, count);
            let corners = if uneven { vec![0, step - 1] } else { vec![0] };
            let (mut lows, mut highs) = (Vec::new(), Vec::new());
            for element in corners {
                let range = self.moved(&rows.at.range, 0, element);
                lows.push(code.low(program, &range)?);
                highs.push(code.high(program, &range)?);
            }
            let (low, high) = (code.extreme("most", &lows), code.extreme("least", &highs));
            let inner = code.number();
            code.line(format!("long first{inner} = {low}, last{inner} = {high};"));
            if uneven {
                code.define("static inline long least(long a, long b) { return a < b ? a : b; }");
                code.define("static inline long most(long a, long b) { return a > b ? a : b; }");
                for element in 0..step {
                    let range = self.moved(&rows.at.range, 0, element);
                    let (low, high) = (code.low(program, &range)?, code.high(program, &range)?);
                    code.open(format!(
                        "for (long {row} = {low}; {row} <= least({high}, first{inner} - 1); {row}++)"
                    ));
                    self.single(code, program, 0, element)?;
                    code.close();
                    code.open(format!(
                        "for (long {row} = most({low}, most(first{inner}, last{inner} + 1)); {row} <= {high}; {row}++)"
                    ));
                    self.single(code, program, 0, element)?;
                    code.close();
                }
            }
            code.line(format!("long {row} = first{inner};"));
            code.open(format!(
                "for (; {row} + {} <= last{inner}; {row} += {})",
                rows.count - 1,
                rows.count
            ));
            self.block(code, program, rows.count, count, &buffers)?;
            code.close();
            code.open(format!("for (; {row} <= last{inner}; {row}++)"));
            self.block(code, program, 1, count, &buffers)?;
            code.close();
            code.close();
        }
        if self.across {
            code.open(format!("for (; {name} <= last{id}; {name}++)"));
            let (low, high) = (
                code.low(program, &rows.at.range)?,
                code.high(program, &rows.at.range)?,
            );
            code.open(format!(
                "for (long {row} = {low}; {row} <= {high}; {row}++)"
            ));
            self.single(code, program, 0, 0)?;
            code.close();
            code.close();
        }
        for n in 0..packed.len() {
            code.line(format!("free(pack{id}_{n});"));
        }
        code.close();
        Ok(())
    }

    /// The accesses that a buffer may hold: they move with columns and one sum, and not with rows.
    fn packed(&self, rows: &Several) -> Vec<Access> {
        let (Some(columns), [sum]) = (&self.columns, self.sums.as_slice()) else {
            return Vec::new();
        };
        let tiled = [rows.at.var, columns.at.var];
        if !self.pack || !self.across || depends(&sum.range, &tiled) {
            return Vec::new();
        }
        let mut found: Vec<Access> = Vec::new();
        for access in self.statement().value.reads() {
            let moves = |var: Var| motion(access, var) != Motion::Still;
            let fits = moves(columns.at.var) && moves(sum.var) && !moves(rows.at.var);
            if fits && !found.contains(access) {
                found.push(access.clone());
            }
        }
        found
    }

    /// Fills the buffers for `count` vectors, and says where each vector is.
    fn fill(
        &self,
        code: &mut Code,
        program: &Program,
        packed: &[Access],
        id: usize,
        count: u32,
    ) -> Packed {
        let mut places = Packed::new();
        let Some(sum) = self.sums.first().filter(|_| !packed.is_empty()) else {
            return places;
        };
        let step = count * self.width();
        let name = program.name(sum.var).to_owned();
        for (n, access) in packed.iter().enumerate() {
            let far = self
                .columns
                .as_ref()
                .is_some_and(|c| motion(access, c.at.var) == Motion::Far);
            // Rows of the source one after the other where columns are far apart.
            if !far {
                code.open(format!(
                    "for (long {name} = from{id}; {name} <= to{id}; {name}++)"
                ));
            }
            for element in 0..step {
                let moved = access.replaced(&self.at(0, element));
                let source = code.access(program, &moved);
                let copy =
                    format!("pack{id}_{n}[({name} - from{id}) * {step} + {element}] = {source};");
                if far {
                    code.open(format!(
                        "for (long {name} = from{id}; {name} <= to{id}; {name}++)"
                    ));
                    code.line(copy);
                    code.close();
                } else {
                    code.line(copy);
                }
            }
            if !far {
                code.close();
            }
            for column in 0..count {
                let moved = access.replaced(&self.at(0, column * self.width()));
                let place = format!(
                    "*({} *)&pack{id}_{n}[({name} - from{id}) * {step} + {}]",
                    self.vector,
                    column * self.lanes
                );
                places.insert(moved, place);
            }
        }
        places
    }

    /// One element, without vectors.
    fn single(
        &self,
        code: &mut Code,
        program: &Program,
        row: u32,
        element: u32,
    ) -> Result<(), Error> {
        let statement = self.statement().replaced(&self.at(row, element));
        for l in &self.sums {
            let range = self.moved(&l.range, row, element);
            self.open(code, program, l.var, &range)?;
        }
        let text = code.assignment(program, &statement);
        code.line(text);
        for _ in &self.sums {
            code.close();
        }
        Ok(())
    }

    fn open(
        &self,
        code: &mut Code,
        program: &Program,
        var: Var,
        range: &Range,
    ) -> Result<(), Error> {
        let (low, high) = (code.low(program, range)?, code.high(program, range)?);
        let name = program.name(var);
        code.open(format!(
            "for (long {name} = {low}; {name} <= {high}; {name}++)"
        ));
        Ok(())
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

    /// A tile of `rows` rows and `columns` columns.
    fn block(
        &self,
        code: &mut Code,
        program: &Program,
        rows: u32,
        columns: u32,
        packed: &Packed,
    ) -> Result<(), Error> {
        let statement = self.statement();
        if self.sums.is_empty() {
            // Nothing is summed: values are computed, then stored.
            let mut stores = Vec::new();
            for row in 0..rows {
                for column in 0..columns {
                    let moved = statement.replaced(&self.at(row, column * self.width()));
                    let value = self.vector_value(code, program, &moved.value, &BTreeMap::new())?;
                    let id = code.number();
                    code.line(format!(
                        "{} value{id} = {};",
                        self.vector,
                        self.as_vector(&value)
                    ));
                    stores.push((moved.target, format!("value{id}")));
                }
            }
            for (target, value) in stores {
                let text = self.stored(code, program, statement.update, &target, &value);
                code.line(text);
            }
            return Ok(());
        }
        self.summed(code, program, rows, columns, packed)
    }

    fn summed(
        &self,
        code: &mut Code,
        program: &Program,
        rows: u32,
        columns: u32,
        packed: &Packed,
    ) -> Result<(), Error> {
        let (summand, factor) = self.split();
        let statement = &Statement {
            value: summand,
            ..self.statement().clone()
        };
        let update = statement.update.unwrap_or(Operation::Add);
        let id = code.number();
        let sum = |row: u32, column: u32| format!("sum{id}_{row}_{column}");
        for row in 0..rows {
            let mut texts = Vec::new();
            for column in 0..columns {
                let start = match update {
                    Operation::Mul => format!("({}){{0}} + 1", self.vector),
                    _ => format!("({}){{0}}", self.vector),
                };
                texts.push(format!("{} = {start}", sum(row, column)));
            }
            code.line(format!("{} {};", self.vector, texts.join(", ")));
        }
        // The part of the outermost reduction that all elements have in common.
        let outer = &self.sums[0];
        let inner: Vec<Var> = self
            .rows
            .iter()
            .map(|r| r.at.var)
            .chain(self.columns.iter().map(|c| c.at.var))
            .collect();
        let uneven = (rows > 1 || columns * self.width() > 1) && depends(&outer.range, &inner);
        let corners: Vec<(u32, u32)> = if uneven {
            let last = columns * self.width() - 1;
            let mut all = vec![(0, 0), (rows - 1, 0), (0, last), (rows - 1, last)];
            all.sort_unstable();
            all.dedup();
            all
        } else {
            vec![(0, 0)]
        };
        let (mut lows, mut highs) = (Vec::new(), Vec::new());
        for (row, element) in &corners {
            let range = self.moved(&outer.range, *row, *element);
            lows.push(code.low(program, &range)?);
            highs.push(code.high(program, &range)?);
        }
        for side in [&mut lows, &mut highs] {
            side.dedup();
        }
        let (low, high) = (code.extreme("most", &lows), code.extreme("least", &highs));
        code.line(format!("long begin{id} = {low}, end{id} = {high};"));
        let count = self.sums.len();
        for (n, l) in self.sums.iter().enumerate() {
            let name = program.name(l.var).to_owned();
            let innermost = n + 1 == count;
            let (low, high) = if n == 0 {
                (format!("begin{id}"), format!("end{id}"))
            } else {
                (code.low(program, &l.range)?, code.high(program, &l.range)?)
            };
            if innermost && !self.across {
                code.line(format!("long {name} = {low}, stop{id} = {high};"));
                self.pragma(code);
                code.open(format!(
                    "for (; {name} + {} <= stop{id}; {name} += {})",
                    self.lanes - 1,
                    self.lanes
                ));
            } else {
                if innermost {
                    self.pragma(code);
                }
                code.open(format!(
                    "for (long {name} = {low}; {name} <= {high}; {name}++)"
                ));
            }
            if innermost && self.prefetch > 0 {
                super::prefetch(
                    code,
                    program,
                    statement,
                    l.var,
                    self.prefetch * if self.across { 1 } else { self.lanes },
                );
            }
        }
        let mut known: BTreeMap<Access, String> = BTreeMap::new();
        for row in 0..rows {
            for column in 0..columns {
                let moved = statement.replaced(&self.at(row, column * self.width()));
                self.loads(code, program, &moved.value, packed, &mut known)?;
            }
        }
        for row in 0..rows {
            for column in 0..columns {
                let moved = statement.replaced(&self.at(row, column * self.width()));
                let value = self.vector_value(code, program, &moved.value, &known)?;
                let name = sum(row, column);
                code.line(match update {
                    Operation::Mul => format!("{name} *= {value};"),
                    _ => format!("{name} += {value};"),
                });
            }
        }
        for (n, l) in self.sums.iter().enumerate().rev() {
            code.close();
            if n + 1 == count && !self.across {
                // The rest of the innermost loop, which fills no vector.
                let name = program.name(l.var).to_owned();
                code.open(format!("for (; {name} <= stop{id}; {name}++)"));
                for row in 0..rows {
                    for column in 0..columns {
                        let moved = statement.replaced(&self.at(row, column));
                        let single = self.c_type == "float";
                        let value = code.value(program, &moved.value, single);
                        code.line(format!("{}[0] += {value};", sum(row, column)));
                    }
                }
                code.close();
            }
        }
        for row in 0..rows {
            for column in 0..columns {
                let moved = statement.replaced(&self.at(row, column * self.width()));
                let name = sum(row, column);
                let at = self.at(row, column * self.width());
                let factor = factor.as_ref().map(|f| f.replaced(&at));
                if self.across {
                    let sum = match &factor {
                        Some(factor) => {
                            let factor =
                                self.vector_value(code, program, factor, &BTreeMap::new())?;
                            format!("{} * {name}", atom(&factor))
                        }
                        None => name,
                    };
                    let text = self.stored(code, program, Some(update), &moved.target, &sum);
                    code.line(text);
                } else {
                    let total = self.total(&name);
                    let sum = match &factor {
                        Some(factor) => {
                            let factor = code.value(program, factor, self.c_type == "float");
                            format!("{} * {}", atom(&factor), atom(&total))
                        }
                        None => total,
                    };
                    let target = code.access(program, &moved.target);
                    let sign = if update == Operation::Sub { "-=" } else { "+=" };
                    code.line(format!("{target} {sign} {sum};"));
                }
            }
        }
        if uneven {
            self.leftovers(code, program, rows, columns * self.width(), id)?;
        }
        Ok(())
    }

    /// The value as a summand and a factor that all summands of an element have in common, if there is one.
    fn split(&self) -> (Expr, Option<Expr>) {
        let statement = self.statement();
        let whole = || (statement.value.clone(), None);
        if !matches!(statement.update, Some(Operation::Add | Operation::Sub)) {
            return whole();
        }
        let mut factors = Vec::new();
        flatten(&statement.value, &mut factors);
        let moves = |e: &Expr| {
            let sums = |v: &Affine| self.sums.iter().any(|l| v.of(l.var) != 0);
            e.reads().iter().any(|a| a.subscripts.iter().any(sums))
        };
        let (inside, common): (Vec<&Expr>, Vec<&Expr>) =
            factors.into_iter().partition(|e| moves(e));
        let product = |all: Vec<&Expr>| {
            let mut all = all.into_iter().cloned();
            let first = all.next()?;
            Some(all.fold(first, |a, b| Expr::binary(Operation::Mul, a, b)))
        };
        match (product(inside), product(common)) {
            (Some(inside), Some(common)) => (inside, Some(common)),
            _ => whole(),
        }
    }

    fn pragma(&self, code: &mut Code) {
        if self.unroll > 1 {
            code.pragma(&format!("GCC unroll {}", self.unroll));
        }
    }

    /// Iterations of the outermost reduction that not all elements of a tile have.
    fn leftovers(
        &self,
        code: &mut Code,
        program: &Program,
        rows: u32,
        elements: u32,
        id: usize,
    ) -> Result<(), Error> {
        let outer = &self.sums[0];
        code.define("static inline long least(long a, long b) { return a < b ? a : b; }");
        code.define("static inline long most(long a, long b) { return a > b ? a : b; }");
        for row in 0..rows {
            for element in 0..elements {
                let range = self.moved(&outer.range, row, element);
                let statement = self.statement().replaced(&self.at(row, element));
                let (low, high) = (code.low(program, &range)?, code.high(program, &range)?);
                let name = program.name(outer.var).to_owned();
                let parts = [
                    (low.clone(), format!("least({high}, begin{id} - 1)")),
                    (
                        format!("most({low}, most(begin{id}, end{id} + 1))"),
                        high.clone(),
                    ),
                ];
                for (low, high) in parts {
                    code.open(format!(
                        "for (long {name} = {low}; {name} <= {high}; {name}++)"
                    ));
                    for l in &self.sums[1..] {
                        let range = self.moved(&l.range, row, element);
                        self.open(code, program, l.var, &range)?;
                    }
                    let text = code.assignment(program, &statement);
                    code.line(text);
                    for _ in &self.sums {
                        code.close();
                    }
                }
            }
        }
        Ok(())
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

    /// The variable along which vectors lie.
    fn along(&self) -> Option<Var> {
        if self.across {
            self.columns.as_ref().map(|c| c.at.var)
        } else {
            self.sums.last().map(|l| l.var)
        }
    }

    /// Loads every element of a value into a name of its own, once for the whole tile.
    fn loads(
        &self,
        code: &mut Code,
        program: &Program,
        value: &Expr,
        packed: &Packed,
        known: &mut BTreeMap<Access, String>,
    ) -> Result<(), Error> {
        for access in value.reads() {
            if known.contains_key(access) {
                continue;
            }
            let id = code.number();
            let name = format!("x{id}");
            let text = match packed.get(access) {
                Some(place) => place.clone(),
                None => self.element(code, program, access),
            };
            let kind = match self.along().map(|v| motion(access, v)) {
                Some(Motion::Still) | None => self.c_type,
                _ => &self.vector,
            };
            code.line(format!("{kind} {name} = {text};"));
            known.insert(access.clone(), name);
        }
        Ok(())
    }

    /// A vector of an access' elements, or the one element for all lanes.
    fn element(&self, code: &mut Code, program: &Program, access: &Access) -> String {
        let Some(along) = self.along() else {
            return code.access(program, access);
        };
        match motion(access, along) {
            Motion::Still => code.access(program, access),
            Motion::Next => self.load(code, program, access),
            Motion::Far => {
                let lanes: Vec<String> = (0..self.lanes)
                    .map(|lane| {
                        let moved = access.replaced(&|v| {
                            (v == along).then(|| Affine::var(v).offset(i64::from(lane)))
                        });
                        code.access(program, &moved)
                    })
                    .collect();
                format!("({}){{{}}}", self.vector, lanes.join(", "))
            }
        }
    }

    /// The vector that begins at an element.
    fn load(&self, code: &Code, program: &Program, access: &Access) -> String {
        format!(
            "*(const {} *){}",
            self.vector,
            code.address(program, access)
        )
    }

    /// A value for all lanes.
    fn vector_value(
        &self,
        code: &mut Code,
        program: &Program,
        value: &Expr,
        known: &BTreeMap<Access, String>,
    ) -> Result<String, Error> {
        let single = self.c_type == "float";
        Ok(match value {
            Expr::Read(access) => match known.get(access) {
                Some(name) => name.clone(),
                None => atom(&self.element(code, program, access)),
            },
            Expr::Negative(a) => format!("-{}", atom(&self.vector_value(code, program, a, known)?)),
            Expr::Binary(operation, a, b) => {
                let a = self.vector_value(code, program, a, known)?;
                let b = self.vector_value(code, program, b, known)?;
                match operation {
                    Operation::Min | Operation::Max => {
                        return Err(Error::Misfit("vectors have no extremes"));
                    }
                    operation => code.combined(program, *operation, &a, &b),
                }
            }
            Expr::Number(_) | Expr::Scalar(_) | Expr::Index(_) => {
                code.value(program, value, single)
            }
            Expr::Call(..) | Expr::Select(..) => {
                return Err(Error::Misfit("vectors call no functions"));
            }
        })
    }

    /// A value as a vector, for all that may be one number for all lanes.
    fn as_vector(&self, value: &str) -> String {
        format!("({}){{0}} + {value}", self.vector)
    }

    /// Stores a vector, combined with the old value of an update.
    fn stored(
        &self,
        code: &Code,
        program: &Program,
        update: Option<Operation>,
        target: &Access,
        value: &str,
    ) -> String {
        let address = code.address(program, target);
        let operator = match update {
            // Extremes are no tiles.
            None | Some(Operation::Min | Operation::Max) => "=",
            Some(Operation::Add) => "+=",
            Some(Operation::Sub) => "-=",
            Some(Operation::Mul) => "*=",
            Some(Operation::Div) => "/=",
        };
        format!("*({} *){address} {operator} {value};", self.vector)
    }

    /// The sum of a vector's lanes.
    fn total(&self, name: &str) -> String {
        let lanes: Vec<String> = (0..self.lanes)
            .map(|lane| format!("{name}[{lane}]"))
            .collect();
        // In pairs: a chain of additions would take as many latencies as lanes.
        let mut level = lanes;
        while level.len() > 1 {
            level = level
                .chunks(2)
                .map(|pair| match pair {
                    [a, b] => format!("({a} + {b})"),
                    rest => rest.join(""),
                })
                .collect();
        }
        level.pop().unwrap_or_default()
    }
}
