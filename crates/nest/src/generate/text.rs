//! C text of loops, bounds, subscripts and values.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Error, Fact, Tree};
use crate::affine::{Affine, Bound, Range, Var};
use crate::leaf;
use crate::poly::Poly;
use crate::program::{Access, Expr, Operation, Origin, Program, Statement};
use crate::schedule::Group;

/// Functions that programs may define. A local array of such a name would hide the function.
const FUNCTIONS: [&str; 4] = ["least", "most", "ceiling", "floored"];

/// A loop over a dimension of a group.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// The dimension.
    pub dimension: usize,
    /// The size of its steps, if it is a loop over tiles.
    pub tile: Option<i64>,
    /// Its number among all loops of the program.
    pub number: usize,
}

/// A C program in the making.
#[derive(Debug, Clone, Default)]
pub struct Code {
    lines: String,
    depth: usize,
    /// Vector types and functions that the program uses, in the order of their definition.
    definitions: Vec<String>,
    headers: BTreeSet<&'static str>,
    /// Names of the arrays in the program.
    arrays: Vec<String>,
    next: usize,
    facts: Vec<Fact>,
    /// The loops around the present place, the outermost first.
    rounds: Vec<Round>,
    /// Number of loops so far.
    loops: usize,
    /// For each leaf that was not taken yet, its statement and its loops.
    walks: Vec<(usize, Vec<Round>)>,
    /// True if the present statement computes numbers with fractions.
    floats: bool,
}

impl Code {
    /// An empty program.
    pub fn new(program: &Program) -> Self {
        let mut names: Vec<String> = Vec::new();
        for (n, array) in program.arrays.iter().enumerate() {
            let taken = names.contains(&array.name)
                || program.names.contains(&array.name)
                || FUNCTIONS.contains(&array.name.as_str());
            let name = match (taken, array.origin) {
                (true, Origin::Scratch) => format!("{}_{n}", array.name),
                _ => array.name.clone(),
            };
            names.push(name);
        }
        Self {
            arrays: names,
            depth: 1,
            ..Self::default()
        }
    }

    /// The next number for names that must differ.
    pub fn number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    /// The next name of this kind that no array, loop or argument has.
    pub fn name(&mut self, program: &Program, kind: &str) -> String {
        let between = |c: char| !(c.is_alphanumeric() || c == '_');
        loop {
            let name = format!("{kind}{}", self.number());
            let mut arguments = program.prototype.split(between);
            let taken = self.arrays.contains(&name)
                || program.names.contains(&name)
                || arguments.any(|word| word == name);
            if !taken {
                return name;
            }
        }
    }

    /// Notes how a leaf is written.
    pub fn note(&mut self, fact: Fact) {
        self.facts.push(fact);
    }

    /// Notes the loops of a leaf: those around it, and its own by their dimensions.
    pub fn walk(&mut self, statement: usize, own: impl Iterator<Item = usize>) {
        let mut all = self.rounds.clone();
        for dimension in own {
            all.push(self.round(dimension, None));
        }
        self.walks.push((statement, all));
    }

    fn round(&mut self, dimension: usize, tile: Option<i64>) -> Round {
        self.loops += 1;
        Round {
            dimension,
            tile,
            number: self.loops,
        }
    }

    /// Takes the loops of the leaves since the last call.
    pub fn walks(&mut self) -> Vec<(usize, Vec<Round>)> {
        std::mem::take(&mut self.walks)
    }

    /// How the leaves were written.
    pub fn facts(&self) -> Vec<Fact> {
        self.facts.clone()
    }

    /// Adds a line.
    pub fn line(&mut self, text: impl AsRef<str>) {
        for _ in 0..self.depth {
            self.lines.push_str("    ");
        }
        self.lines.push_str(text.as_ref());
        self.lines.push('\n');
    }

    /// Adds a pragma, which begins in the first column.
    pub fn pragma(&mut self, text: &str) {
        let _ = writeln!(self.lines, "#pragma {text}");
    }

    /// Adds a line that opens a block.
    pub fn open(&mut self, text: impl AsRef<str>) {
        self.line(format!("{} {{", text.as_ref()).trim_start());
        self.depth += 1;
    }

    /// Ends a block and opens the next one.
    pub fn reopen(&mut self, text: &str) {
        self.depth -= 1;
        self.line(format!("}} {text} {{"));
        self.depth += 1;
    }

    /// Ends a block.
    pub fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    /// Adds a definition before the function, unless it is there.
    pub fn define(&mut self, definition: impl Into<String>) {
        let definition = definition.into();
        if !self.definitions.contains(&definition) {
            self.definitions.push(definition);
        }
    }

    /// Needs a header.
    pub fn include(&mut self, header: &'static str) {
        self.headers.insert(header);
    }

    /// The whole text.
    pub fn finish(mut self, program: &Program) -> String {
        let mut text = String::new();
        let scratch: Vec<usize> = (0..program.arrays.len())
            .filter(|n| program.arrays[*n].origin == Origin::Scratch && is_used(program, *n))
            .collect();
        let mut begin = String::new();
        let mut end = String::new();
        for n in scratch {
            let array = &program.arrays[n];
            let name = &self.arrays[n];
            match array.count() {
                Some(count) if !array.extents.is_empty() => {
                    self.headers.insert("stdlib.h");
                    let count = poly(program, &count);
                    let _ = writeln!(
                        begin,
                        "    {0} *restrict {name} = aligned_alloc(64, (sizeof(*{name}) * ({count}) + 63) / 64 * 64 + 64);\n    if (!{name})\n        abort();",
                        array.c_type
                    );
                    let _ = writeln!(end, "    free({name});");
                }
                _ => {
                    let _ = writeln!(begin, "    {} {name} = 0;", array.c_type);
                }
            }
        }
        for header in &self.headers {
            let _ = writeln!(text, "#include <{header}>");
        }
        for definition in &self.definitions {
            let _ = writeln!(text, "{definition}");
        }
        let _ = write!(
            text,
            "\n{}\n{{\n{begin}{}{end}}}\n",
            program.prototype, self.lines
        );
        text
    }

    /// Writes loops and leaves.
    pub fn tree(&mut self, program: &Program, tree: &Tree, group: &Group) -> Result<(), Error> {
        match tree {
            Tree::Leaf(nest) => leaf::write(self, program, nest, &group.leaf),
            Tree::If {
                any,
                then,
                otherwise,
            } => {
                let all = |constraints: &Vec<Affine>| {
                    let each = constraints
                        .iter()
                        .map(|c| format!("{} >= 0", affine(program, c)));
                    each.collect::<Vec<_>>().join(" && ")
                };
                let parts: Vec<String> = any.iter().map(all).collect();
                let condition = match parts.as_slice() {
                    [only] => only.clone(),
                    several => several
                        .iter()
                        .map(|p| format!("({p})"))
                        .collect::<Vec<_>>()
                        .join(" || "),
                };
                self.open(format!("if ({condition})"));
                for inner in then {
                    self.tree(program, inner, group)?;
                }
                if !otherwise.is_empty() {
                    self.reopen("else");
                    for inner in otherwise {
                        self.tree(program, inner, group)?;
                    }
                }
                self.close();
                Ok(())
            }
            Tree::Loop {
                var,
                ranges,
                dimension,
                tile,
                parallel,
                body,
            } => {
                if *parallel {
                    self.pragma("omp parallel for schedule(dynamic)");
                }
                let (low, high) = self.limits(program, ranges)?;
                let name = program.name(*var).to_owned();
                self.open(format!(
                    "for (long {name} = {low}; {name} <= {high}; {name}++)"
                ));
                let round = self.round(*dimension, *tile);
                self.rounds.push(round);
                for inner in body {
                    self.tree(program, inner, group)?;
                }
                self.rounds.pop();
                self.close();
                Ok(())
            }
        }
    }

    /// The first and the last value of a loop over the union of ranges.
    fn limits(&mut self, program: &Program, ranges: &[Range]) -> Result<(String, String), Error> {
        let mut sides = Vec::new();
        for range in ranges {
            sides.push((self.low(program, range)?, self.high(program, range)?));
        }
        let mut low: Vec<String> = sides.iter().map(|s| s.0.clone()).collect();
        let mut high: Vec<String> = sides.into_iter().map(|s| s.1).collect();
        for side in [&mut low, &mut high] {
            side.sort();
            side.dedup();
        }
        Ok((self.extreme("least", &low), self.extreme("most", &high)))
    }

    /// The first value of a range.
    pub fn low(&mut self, program: &Program, range: &Range) -> Result<String, Error> {
        let bounds = self.bounds(program, &range.lower, "ceiling")?;
        Ok(self.extreme("most", &bounds))
    }

    /// The last value of a range.
    pub fn high(&mut self, program: &Program, range: &Range) -> Result<String, Error> {
        let bounds = self.bounds(program, &range.upper, "floored")?;
        Ok(self.extreme("least", &bounds))
    }

    fn bounds(
        &mut self,
        program: &Program,
        bounds: &[Bound],
        rounding: &str,
    ) -> Result<Vec<String>, Error> {
        if bounds.is_empty() {
            return Err(Error::Endless);
        }
        let mut texts = Vec::new();
        for bound in bounds {
            let value = affine(program, &bound.value);
            texts.push(match bound.divisor {
                1 => value,
                divisor => {
                    self.define(match rounding {
                        "ceiling" => "static inline long ceiling(long a, long b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }",
                        _ => "static inline long floored(long a, long b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }",
                    });
                    format!("{rounding}({value}, {divisor})")
                }
            });
        }
        Ok(texts)
    }

    /// The least or the greatest of several values.
    pub fn extreme(&mut self, which: &str, texts: &[String]) -> String {
        let mut rest = texts.iter();
        let first = rest.next().cloned().unwrap_or_else(|| "0".to_owned());
        rest.fold(first, |nested, text| {
            self.define(match which {
                "least" => "static inline long least(long a, long b) { return a < b ? a : b; }",
                _ => "static inline long most(long a, long b) { return a > b ? a : b; }",
            });
            format!("{which}({nested}, {text})")
        })
    }

    /// An element.
    pub fn access(&self, program: &Program, access: &Access) -> String {
        let name = &self.arrays[access.array];
        match self.index(program, access) {
            Some(index) => format!("{name}[{index}]"),
            None => name.clone(),
        }
    }

    /// The address of an element, for prefetching.
    pub fn address(&self, program: &Program, access: &Access) -> String {
        format!("&{}", self.access(program, access))
    }

    /// The linear index; none for numbers that are no arrays.
    pub fn index(&self, program: &Program, access: &Access) -> Option<String> {
        let array = &program.arrays[access.array];
        if access.subscripts.is_empty() {
            return None;
        }
        let mut parts = Vec::new();
        for (subscript, stride) in access.subscripts.iter().zip(&array.strides) {
            if subscript.is_constant() && subscript.constant == 0 {
                continue;
            }
            let text = affine(program, subscript);
            parts.push(match stride.as_constant() {
                Some(1) => text,
                _ => format!("{} * {}", product(&text), product(&poly(program, stride))),
            });
        }
        if parts.is_empty() {
            parts.push("0".to_owned());
        }
        Some(parts.join(" + "))
    }

    /// A value computed in the type of a statement's target.
    pub fn value(&mut self, program: &Program, value: &Expr, single: bool) -> String {
        match value {
            Expr::Index(index) if self.floats => {
                let kind = if single { "float" } else { "double" };
                format!("({kind})({})", affine(program, index))
            }
            Expr::Number(text) => number(text, single),
            Expr::Scalar(name) if single => format!("(float){name}"),
            Expr::Scalar(name) => name.clone(),
            Expr::Index(index) => format!("({})", affine(program, index)),
            Expr::Read(access) => self.access(program, access),
            Expr::Negative(a) => format!("-{}", atom(&self.value(program, a, single))),
            Expr::Binary(operation, a, b) => {
                let (a, b) = (
                    self.value(program, a, single),
                    self.value(program, b, single),
                );
                self.combined(program, *operation, &a, &b)
            }
            Expr::Call(name, all) => {
                self.include("math.h");
                let values: Vec<String> =
                    all.iter().map(|e| self.value(program, e, single)).collect();
                let base = name.trim_end_matches('f');
                let base = if base == "er" { "erf" } else { base };
                format!(
                    "{base}{}({})",
                    if single { "f" } else { "" },
                    values.join(", ")
                )
            }
            Expr::Select(how, all) => {
                let [a, b, yes, no] = all.each_ref().map(|e| self.value(program, e, single));
                format!("({a} {} {b} ? {yes} : {no})", how.text())
            }
        }
    }

    /// Two values combined.
    pub fn combined(
        &mut self,
        program: &Program,
        operation: Operation,
        a: &str,
        b: &str,
    ) -> String {
        let _ = program;
        match operation {
            Operation::Add => format!("({a} + {b})"),
            Operation::Sub => format!("({a} - {b})"),
            Operation::Mul => format!("{a} * {b}"),
            Operation::Div => format!("{} / {}", atom(a), atom(b)),
            Operation::Min => format!("({b} < {a} ? {b} : {a})"),
            Operation::Max => format!("({b} > {a} ? {b} : {a})"),
        }
    }

    /// Begins a statement: integers in its values become numbers of its target's type.
    pub fn computes(&mut self, program: &Program, statement: &Statement) {
        self.floats = program.arrays[statement.target.array].floats;
    }

    /// A statement as an assignment.
    pub fn assignment(&mut self, program: &Program, statement: &Statement) -> String {
        let single = program.arrays[statement.target.array].c_type == "float";
        let target = self.access(program, &statement.target);
        self.computes(program, statement);
        let value = self.value(program, &statement.value, single);
        let value = bare(&value);
        match statement.update {
            None => format!("{target} = {value};"),
            Some(Operation::Add) => format!("{target} += {value};"),
            Some(Operation::Sub) => format!("{target} -= {value};"),
            Some(Operation::Mul) => format!("{target} *= {value};"),
            Some(Operation::Div) => format!("{target} /= {value};"),
            Some(extreme) => {
                let combined = self.combined(program, extreme, &target, &atom(value));
                format!("{target} = {};", bare(&combined))
            }
        }
    }
}

/// True if a statement reads or writes the array.
pub fn is_used(program: &Program, array: usize) -> bool {
    program
        .statements
        .iter()
        .any(|s| s.target.array == array || s.reads().iter().any(|a| a.array == array))
}

/// A number in the source's spelling; in single precision numbers with a fraction get the suffix of that type.
fn number(text: &str, single: bool) -> String {
    let fraction = text.contains(['.', 'e', 'E']) && !text.starts_with("0x");
    if single && fraction && !text.ends_with(['f', 'F']) {
        format!("{text}f")
    } else {
        text.to_owned()
    }
}

/// The text in parentheses, unless it is a single operand.
pub fn atom(text: &str) -> String {
    let simple = text
        .chars()
        .all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    let closed = (text.starts_with('(') && closes_last(text)) || is_element(text);
    if simple || closed {
        text.to_owned()
    } else {
        format!("({text})")
    }
}

/// True for `name[…]` and `name(…)`.
fn is_element(text: &str) -> bool {
    match text.find(['[', '(']) {
        Some(at) if at > 0 => {
            text[..at].chars().all(|c| c.is_alphanumeric() || c == '_') && closes_last(&text[at..])
        }
        _ => false,
    }
}

/// True if the bracket that opens the text closes at its end.
fn closes_last(text: &str) -> bool {
    let mut depth = 0i32;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + c.len_utf8() == text.len();
        }
    }
    false
}

/// The text without parentheses around the whole.
fn bare(text: &str) -> &str {
    if text.starts_with('(') && closes_last(text) {
        &text[1..text.len() - 1]
    } else {
        text
    }
}

/// A factor of a product.
fn product(text: &str) -> String {
    if text.contains([' ', '-']) && !(text.starts_with('(') && closes_last(text)) {
        format!("({text})")
    } else {
        text.to_owned()
    }
}

/// An affine expression.
pub fn affine(program: &Program, affine: &Affine) -> String {
    let mut text = String::new();
    // Iterators first, as people write subscripts.
    let mut terms: Vec<(Var, i64)> = affine.terms().collect();
    terms.sort_by_key(|(var, factor)| (program.is_parameter(*var), *factor < 0));
    for (var, factor) in terms {
        text.push_str(sign(&text, factor));
        let name = program.name(var);
        let _ = match factor.unsigned_abs() {
            1 => write!(text, "{name}"),
            size => write!(text, "{size} * {name}"),
        };
    }
    if affine.constant != 0 || text.is_empty() {
        text.push_str(sign(&text, affine.constant));
        text.push_str(&affine.constant.unsigned_abs().to_string());
    }
    text
}

/// The sign of a term behind the terms of a text.
fn sign(text: &str, factor: i64) -> &'static str {
    match (text.is_empty(), factor < 0) {
        (true, false) => "",
        (true, true) => "-",
        (false, false) => " + ",
        (false, true) => " - ",
    }
}

/// A polynomial.
pub fn poly(program: &Program, poly: &Poly) -> String {
    let mut text = String::new();
    for (vars, factor) in poly.terms() {
        text.push_str(sign(&text, factor));
        let mut factors: Vec<String> = vars.iter().map(|v| program.name(*v).to_owned()).collect();
        if factor.unsigned_abs() != 1 || factors.is_empty() {
            factors.insert(0, factor.unsigned_abs().to_string());
        }
        // The product of two ints may be too large for an int.
        if factors.len() > 1 {
            factors[0] = format!("(long){}", factors[0]);
        }
        text.push_str(&factors.join(" * "));
    }
    if text.is_empty() {
        "0".to_owned()
    } else {
        text
    }
}
