//! The sums of a tile in registers.

use super::*;

impl Tile<'_> {
    /// A tile of `rows` rows and `columns` columns.
    pub(super) fn block(
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

    pub(super) fn summed(
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
                crate::leaf::prefetch(
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
    pub(super) fn split(&self) -> (Expr, Option<Expr>) {
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

    pub(super) fn pragma(&self, code: &mut Code) {
        if self.unroll > 1 {
            code.pragma(&format!("GCC unroll {}", self.unroll));
        }
    }

    /// Iterations of the outermost reduction that not all elements of a tile have.
    pub(super) fn leftovers(
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

    /// The sum of a vector's lanes.
    pub(super) fn total(&self, name: &str) -> String {
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
