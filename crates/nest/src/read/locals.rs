//! Local numbers: substituted where they are a name for a value, kept in the element that they end in, or given memory.

use super::Error;
use crate::affine::{Affine, System, Var};
use crate::dependence::{Renamed, same_element};
use crate::poly::Poly;
use crate::program::{Access, Expr, Operation, Origin, Program, Statement};

/// Larger values are not repeated.
const MOST_READS: usize = 12;

/// Values do not become deeper than this, because their readers recurse through them.
const DEEPEST: usize = 300;

/// Substitutes local numbers that are assigned once.
pub fn inline(program: &mut Program) {
    for array in scalars(program) {
        let writers = of_target(program, array);
        let [writer] = writers.as_slice() else {
            continue;
        };
        let definition = program.statements[*writer].clone();
        let readers: Vec<usize> = (0..program.statements.len())
            .filter(|n| {
                program.statements[*n]
                    .value
                    .reads()
                    .iter()
                    .any(|a| a.array == array)
            })
            .collect();
        let simple = definition.update.is_none() && definition.value.reads().len() <= MOST_READS;
        let heavy = definition.value.has_call() && readers.len() > 1;
        let sound = readers.iter().all(|reader| {
            let statement = &program.statements[*reader];
            *reader > *writer
                && statement.iterators.starts_with(&definition.iterators)
                && covers(program, &definition, statement)
                && unchanged(program, &definition, *writer, *reader)
        });
        let depth = definition.value.depth();
        let deepest = readers.iter().map(|n| program.statements[*n].value.depth());
        let deep = deepest.max().unwrap_or(0) + depth > DEEPEST;
        if !simple || heavy || !sound || deep || readers.is_empty() {
            continue;
        }
        for reader in readers {
            let value = program.statements[reader].value.changed(&|e| match e {
                Expr::Read(access) if access.array == array => Some(definition.value.clone()),
                _ => None,
            });
            program.statements[reader].value = value;
        }
        program.statements.remove(*writer);
    }
}

/// The arrays that are local numbers.
fn scalars(program: &Program) -> Vec<usize> {
    let all = program.arrays.iter().enumerate();
    all.filter(|(_, array)| array.origin == Origin::Scratch && array.strides.is_empty())
        .map(|(n, _)| n)
        .collect()
}

fn of_target(program: &Program, array: usize) -> Vec<usize> {
    let statements = program.statements.iter().enumerate();
    statements
        .filter(|(_, s)| s.target.array == array)
        .map(|(n, _)| n)
        .collect()
}

/// True if the definition runs in every iteration in which the reader runs.
fn covers(program: &Program, definition: &Statement, reader: &Statement) -> bool {
    let domain = program.domain(reader);
    let constraints = definition.domain.inequalities();
    constraints.iter().all(|c| domain.implies(c))
}

/// True if no statement between the definition and the reader, and not the reader itself in an inner loop, writes to what the definition
/// reads.
fn unchanged(program: &Program, definition: &Statement, writer: usize, reader: usize) -> bool {
    let read: Vec<usize> = definition.value.reads().iter().map(|a| a.array).collect();
    let between = &program.statements[writer + 1..reader];
    let own = &program.statements[reader];
    let inner = own.iterators.len() > definition.iterators.len();
    let changes = |s: &Statement| read.contains(&s.target.array);
    !(between.iter().any(changes) || inner && changes(own))
}

/// Keeps local numbers in the elements that their values end in: `sum` of an element of C becomes that element.
pub fn contract(program: &mut Program) {
    for array in scalars(program) {
        if let Some(plan) = contraction(program, array) {
            perform(program, array, &plan);
        }
    }
}

/// The element in which a local number ends.
struct Contraction {
    /// The number of the statement that stores it.
    last: usize,
    /// The iterators of its declaration.
    iterators: Vec<Var>,
}

fn contraction(program: &Program, array: usize) -> Option<Contraction> {
    let involved: Vec<usize> = (0..program.statements.len())
        .filter(|n| {
            let s = &program.statements[*n];
            s.target.array == array || s.value.reads().iter().any(|a| a.array == array)
        })
        .collect();
    let (first, last) = (*involved.first()?, *involved.last()?);
    let storing = &program.statements[last];
    let beginning = &program.statements[first];
    let reading: Vec<usize> = involved
        .iter()
        .copied()
        .filter(|n| {
            program.statements[*n]
                .value
                .reads()
                .iter()
                .any(|a| a.array == array)
        })
        .collect();
    // One statement stores it, all others only accumulate.
    let plain = reading == [last]
        && storing.target.array != array
        && storing.update.is_none()
        && beginning.target.array == array
        && beginning.update.is_none()
        && storing.iterators == beginning.iterators;
    if !plain || count(&storing.value, array) != 1 {
        return None;
    }
    let others = involved.iter().filter(|n| **n != first && **n != last);
    for n in others {
        program.statements[*n].update?;
    }
    let iterators = storing.iterators.clone();
    // The storing statement must run wherever the number is computed.
    let domain = program.domain(beginning);
    let always = storing
        .domain
        .inequalities()
        .iter()
        .all(|c| domain.implies(c));
    if !always {
        return None;
    }
    // Nobody else may use the element between the first and the last statement, in the same iteration.
    let target = &storing.target;
    for n in first..=last {
        let statement = &program.statements[n];
        if statement.common(storing) < iterators.len() {
            return None;
        }
        let reads = statement.value.reads();
        let uses = reads
            .into_iter()
            .chain((n != last).then_some(&statement.target));
        for access in uses.filter(|a| a.array == target.array) {
            // The first statement may read the old value of the element that it initialises.
            if n == first && access == target {
                continue;
            }
            if meets(program, statement, access, target, &iterators) {
                return None;
            }
        }
    }
    Some(Contraction { last, iterators })
}

/// True if `access`, made by `statement`, may be of the same element as `target` in an iteration with the same outer iterators.
fn meets(
    program: &Program,
    statement: &Statement,
    access: &Access,
    target: &Access,
    iterators: &[Var],
) -> bool {
    let mut system: System = program.domain(statement);
    let renamed = Renamed::default();
    let _ = iterators;
    same_element(&mut system, access, target, &renamed);
    !system.is_empty()
}

fn count(value: &Expr, array: usize) -> usize {
    value.reads().iter().filter(|a| a.array == array).count()
}

fn perform(program: &mut Program, array: usize, plan: &Contraction) {
    let storing = program.statements[plan.last].clone();
    let target = storing.target.clone();
    for statement in &mut program.statements {
        if statement.target.array == array {
            statement.target = target.clone();
        }
    }
    let is_own = |e: &Expr| matches!(e, Expr::Read(a) if a.array == array);
    let last = &mut program.statements[plan.last];
    match storing.value {
        value if is_own(&value) => {
            program.statements.remove(plan.last);
        }
        Expr::Binary(operation, a, b) if is_own(&a) => {
            last.update = Some(operation);
            last.value = *b;
        }
        Expr::Binary(operation @ (Operation::Add | Operation::Mul), a, b) if is_own(&b) => {
            last.update = Some(operation);
            last.value = *a;
        }
        value => {
            last.value = value.changed(&|e| match e {
                Expr::Read(a) if a.array == array => Some(Expr::Read(target.clone())),
                _ => None,
            });
        }
    }
    let _ = &plan.iterators;
}

/// Gives every scratch array a shape: the largest subscripts that the statements use. A local number that is left has an element for each
/// iteration of the loops around its declaration.
///
/// # Errors
/// An array whose size does not follow from the parameters.
pub fn sized(program: &mut Program) -> Result<(), Error> {
    for number in 0..program.arrays.len() {
        let array = &program.arrays[number];
        let known = !array.extents.is_empty() && array.extents.iter().all(Option::is_some);
        if array.origin != Origin::Scratch || known {
            continue;
        }
        let mut uses: Vec<(System, Vec<Affine>)> = Vec::new();
        for statement in &program.statements {
            for access in statement.reads().into_iter().chain([&statement.target]) {
                if access.array == number {
                    uses.push((program.domain(statement), access.subscripts.clone()));
                }
            }
        }
        let Some(dimensions) = uses.first().map(|(_, s)| s.len()) else {
            continue;
        };
        let mut extents = Vec::new();
        for n in 0..dimensions {
            let each: Vec<(&System, &Affine)> = uses.iter().map(|(d, s)| (d, &s[n])).collect();
            let extent = extent(program, &each).ok_or_else(|| {
                Error::Whole(format!(
                    "the number of elements of `{}` does not follow from the parameters",
                    program.arrays[number].name
                ))
            })?;
            extents.push(extent);
        }
        let known: Vec<Option<Poly>> = extents.iter().map(|e| Some(Poly::of(e))).collect();
        let strides = super::arrays::strides(&known);
        let array = &mut program.arrays[number];
        array.strides = strides;
        array.extents = extents.into_iter().map(Some).collect();
    }
    Ok(())
}

/// An upper bound, made of parameters, of all values of a subscript, plus 1.
fn extent(program: &Program, uses: &[(&System, &Affine)]) -> Option<Affine> {
    // A variable that no program has.
    let value: Var = Var::MAX;
    let bounds = |(domain, subscript): &(&System, &Affine)| -> Option<Vec<Affine>> {
        let mut system = (*domain).clone();
        system.equal(&Affine::var(value), subscript);
        let others: Vec<Var> = system
            .vars()
            .into_iter()
            .filter(|v| *v != value && !program.is_parameter(*v))
            .collect();
        let range = system.projected(others)?.range(value);
        let whole = range.upper.into_iter().filter(|b| b.divisor == 1);
        Some(whole.map(|b| b.value).collect())
    };
    // A bound of one use may hold for all.
    for one in uses {
        let found = bounds(one)?.into_iter().find(|bound| {
            uses.iter()
                .all(|(domain, subscript)| domain.implies(&bound.minus(subscript)))
        });
        if let Some(bound) = found {
            return Some(bound.offset(1));
        }
    }
    None
}
