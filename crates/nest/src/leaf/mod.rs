//! Leaves: nests of one statement, written as plain loops or as register tiles of vectors.

mod tile;

use crate::affine::{Affine, Range, Var};
use crate::generate::{Code, Error, Fact};
use crate::program::{Operation, Program, Statement};
use crate::schedule::{Leaf, Style};

/// A loop of a leaf.
#[derive(Debug, Clone)]
pub struct Loop {
    /// Its variable.
    pub var: Var,
    /// The dimension of the group that it walks along.
    pub dimension: usize,
    /// Its range, by variables of outer loops.
    pub range: Range,
}

/// One statement in its innermost loops.
#[derive(Debug, Clone)]
pub struct Nest {
    /// The number of the statement.
    pub number: usize,
    /// The statement.
    pub statement: Statement,
    /// Its loops, the outermost first.
    pub loops: Vec<Loop>,
    /// True if no iteration depends on another one, updates of one element aside.
    pub free: bool,
}

impl Nest {
    /// True if the target's place depends on the loop.
    pub fn moves_target(&self, var: Var) -> bool {
        self.statement
            .target
            .subscripts
            .iter()
            .any(|s| s.of(var) != 0)
    }

    /// True if iterations of the loop change one element one after the other, in any order.
    pub fn reduces(&self, var: Var) -> bool {
        self.statement.kind().is_some() && !self.moves_target(var)
    }
}

/// Writes a leaf.
///
/// # Errors
/// A range that has no end.
pub fn write(code: &mut Code, program: &Program, nest: &Nest, leaf: &Leaf) -> Result<(), Error> {
    code.computes(program, &nest.statement);
    if leaf.style == Style::Tile
        && nest.free
        && let Some(tile) = tile::Tile::of(program, nest, leaf)
    {
        return tile.write(code, program);
    }
    let simd = leaf.style != Style::Plain && nest.free;
    plain(code, program, nest, leaf, simd)
}

/// Loops in their order, the innermost one for the compiler's vectors.
fn plain(
    code: &mut Code,
    program: &Program,
    nest: &Nest,
    leaf: &Leaf,
    simd: bool,
) -> Result<(), Error> {
    let count = nest.loops.len();
    code.note(plain_fact(nest, leaf, simd));
    code.walk(nest.number, nest.loops.iter().map(|l| l.dimension));
    for (n, l) in nest.loops.iter().enumerate() {
        let innermost = n + 1 == count;
        let reduces = innermost && nest.reduces(l.var);
        let accumulates = reduces && simd;
        if accumulates {
            begin_sum(code, program, &nest.statement);
        }
        let (low, high) = (code.low(program, &l.range)?, code.high(program, &l.range)?);
        if innermost && simd && (nest.moves_target(l.var) || reduces) {
            let clause = reduction(&nest.statement);
            let clause = if reduces { clause } else { String::new() };
            code.pragma(&format!("omp simd{clause}"));
        } else if innermost && leaf.unroll > 1 {
            code.pragma(&format!("GCC unroll {}", leaf.unroll));
        }
        let name = program.name(l.var).to_owned();
        code.open(format!(
            "for (long {name} = {low}; {name} <= {high}; {name}++)"
        ));
        if innermost && leaf.prefetch > 0 {
            prefetch(code, program, &nest.statement, l.var, leaf.prefetch);
        }
    }
    let last = nest.loops.last();
    let accumulates = simd && last.is_some_and(|l| nest.reduces(l.var));
    if accumulates {
        accumulate(code, program, &nest.statement);
    } else {
        let text = code.assignment(program, &nest.statement);
        code.line(text);
    }
    for n in 0..count {
        code.close();
        if n == 0 && accumulates {
            end_sum(code, program, &nest.statement);
        }
    }
    Ok(())
}

fn plain_fact(nest: &Nest, leaf: &Leaf, simd: bool) -> Fact {
    let innermost = nest.loops.last().map(|l| l.var);
    let along = |wanted: tile::Motion| -> u32 {
        let reads = nest.statement.reads();
        let all = reads.into_iter().chain([&nest.statement.target]);
        let count = all
            .filter(|a| innermost.is_some_and(|v| tile::motion(a, v) == wanted))
            .count();
        u32::try_from(count).unwrap_or(u32::MAX)
    };
    Fact {
        depth: u32::try_from(nest.loops.len()).unwrap_or(u32::MAX),
        style: if simd { Style::Simd } else { Style::Plain },
        lanes: 1,
        bytes: 0,
        rows: 1,
        columns: 1,
        across: innermost.is_some_and(|v| nest.moves_target(v)),
        sums: innermost.is_some_and(|v| nest.reduces(v)),
        far: along(tile::Motion::Far),
        next: along(tile::Motion::Next),
        packed: 0,
        operands: 0,
        unroll: leaf.unroll,
        prefetch: leaf.prefetch,
    }
}

/// The clause of an `omp simd` loop that reduces.
fn reduction(statement: &Statement) -> String {
    let operator = match statement.update {
        Some(Operation::Mul) => "*",
        Some(Operation::Min) => "min",
        Some(Operation::Max) => "max",
        _ => "+",
    };
    format!(" reduction({operator}:part)")
}

/// Declares the part of a reduction.
fn begin_sum(code: &mut Code, program: &Program, statement: &Statement) {
    let kind = program.arrays[statement.target.array].c_type;
    let start = match statement.update {
        Some(Operation::Mul) => "1".to_owned(),
        Some(Operation::Min | Operation::Max) => code.access(program, &statement.target),
        _ => "0".to_owned(),
    };
    code.open("");
    code.line(format!("{kind} part = {start};"));
}

fn accumulate(code: &mut Code, program: &Program, statement: &Statement) {
    let single = program.arrays[statement.target.array].c_type == "float";
    let value = code.value(program, &statement.value, single);
    let operation = match statement.update {
        Some(Operation::Sub) | None => Operation::Add,
        Some(other) => other,
    };
    let text = match operation {
        Operation::Add => format!("part += {value};"),
        Operation::Mul => format!("part *= {value};"),
        other => {
            let combined = code.combined(program, other, "part", &crate::generate::atom(&value));
            format!("part = {combined};")
        }
    };
    code.line(text);
}

fn end_sum(code: &mut Code, program: &Program, statement: &Statement) {
    let target = code.access(program, &statement.target);
    code.line(match statement.update {
        Some(Operation::Sub) => format!("{target} -= part;"),
        Some(Operation::Mul) => format!("{target} *= part;"),
        Some(Operation::Min | Operation::Max) => format!("{target} = part;"),
        _ => format!("{target} += part;"),
    });
    code.close();
}

/// Prefetches what the statement reads some iterations later.
fn prefetch(code: &mut Code, program: &Program, statement: &Statement, var: Var, distance: u32) {
    let later = |v: Var| (v == var).then(|| Affine::var(v).offset(i64::from(distance)));
    let mut lines = Vec::new();
    statement.value.accesses(&mut |access| {
        if access.subscripts.iter().any(|s| s.of(var) != 0) {
            let address = code.address(program, &access.replaced(&later));
            let line = format!("__builtin_prefetch({address});");
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    });
    for line in lines {
        code.line(line);
    }
}

/// True if all elements of a value have the type of the target, so that vectors of that type can compute it.
fn one_type(program: &Program, statement: &Statement) -> bool {
    let kind = program.arrays[statement.target.array].c_type;
    statement
        .reads()
        .iter()
        .all(|a| program.arrays[a.array].c_type == kind)
}

/// True if vectors can compute the value.
fn fits_vectors(program: &Program, nest: &Nest) -> bool {
    let value = &nest.statement.value;
    let mut moving = false;
    value.indices(&mut |index| {
        moving |= nest.loops.iter().any(|l| index.of(l.var) != 0);
    });
    one_type(program, &nest.statement) && !value.has_call() && !value.has_select() && !moving
}
