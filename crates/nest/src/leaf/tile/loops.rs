//! The loops around a tile.

use super::*;

impl Tile<'_> {
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
        code.walk(self.nest.number, self.order());
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

    /// All columns of `rows` rows.
    pub(super) fn columns_of(
        &self,
        code: &mut Code,
        program: &Program,
        rows: u32,
    ) -> Result<(), Error> {
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
    pub(super) fn rows_inside(
        &self,
        code: &mut Code,
        program: &Program,
        rows: &Several,
    ) -> Result<(), Error> {
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

    /// One element, without vectors.
    pub(super) fn single(
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

    pub(super) fn open(
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
}
