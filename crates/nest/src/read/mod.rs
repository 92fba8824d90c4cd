//! Reads a program of affine loop nests from C.
//!
//! The reader takes the plain C of references: `for` loops with affine bounds, assignments, `if` with affine conditions, local scalars,
//! pointers into arrays, scratch arrays from malloc, memcpy of whole arrays. A comparison of data may choose between two values of one
//! assignment. It refuses everything else and says at which line.

mod arrays;
mod locals;
mod nodes;
mod walk;

use flopsmith_problem::{ArgKind, Problem, Role};

use crate::affine::{Affine, System};
use crate::poly::Poly;
use crate::program::{Array, Origin, Program, c_type};

/// Why a source is no program of affine loop nests.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A construct that is not affine.
    #[error("line {line}: {what}")]
    At {
        /// Line of the source, counted from 1.
        line: usize,
        /// The construct and the reason.
        what: String,
    },
    /// The whole source.
    #[error("{0}")]
    Whole(String),
}

/// The program that the problem's plain reference is.
///
/// # Errors
/// The first construct that is not affine.
pub fn read(problem: &Problem) -> Result<Program, Error> {
    read_source(problem, &problem.reference_source)
}

/// The program that `source`, a function with the problem's prototype, is.
///
/// # Errors
/// The first construct that is not affine.
pub fn read_source(problem: &Problem, source: &str) -> Result<Program, Error> {
    let mut program = begin(problem)?;
    let mut parser = tree_sitter::Parser::new();
    let tree = parser
        .set_language(&tree_sitter_c::LANGUAGE.into())
        .ok()
        .and_then(|()| parser.parse(source, None))
        .ok_or_else(|| Error::Whole("the parser cannot load the C grammar".to_owned()))?;
    let mut walk = walk::Walk::new(&mut program, source, problem)?;
    walk.function(tree.root_node())?;
    let raw = walk.finish();
    arrays::subscripts(&mut program, &raw)?;
    locals::inline(&mut program);
    locals::contract(&mut program);
    locals::sized(&mut program)?;
    if program.statements.is_empty() {
        return Err(Error::Whole("the function assigns nothing".to_owned()));
    }
    Ok(program)
}

/// Parameters and arguments.
fn begin(problem: &Problem) -> Result<Program, Error> {
    let mut program = Program {
        entry: problem.entry.name.clone(),
        prototype: problem
            .entry
            .prototype
            .trim()
            .trim_end_matches(';')
            .trim_end()
            .to_owned(),
        names: Vec::new(),
        parameters: 0,
        context: System::new(),
        arrays: Vec::new(),
        statements: Vec::new(),
    };
    let mut least = Vec::new();
    for argument in &problem.entry.args {
        if let ArgKind::Int { value } = &argument.kind {
            let var = program.fresh(&argument.name);
            let named = value.to_string();
            let hidden = problem
                .verify
                .hidden
                .iter()
                .find(|h| h.param == named.trim());
            let timed = problem.timed.get(named.trim());
            // A parameter that never varies is at least 1, as an extent is.
            let min = hidden.map(|h| h.min).or(timed.map(|_| 1));
            least.push((var, min));
        }
    }
    program.parameters = program.names.len();
    for (var, min) in least {
        if let Some(min) = min {
            program.context.at_least_zero(Affine::var(var).offset(-min));
        }
    }
    for argument in &problem.entry.args {
        let ArgKind::Array {
            element,
            role,
            shape,
            ..
        } = &argument.kind
        else {
            continue;
        };
        let (c_type, floats, bytes) = c_type(*element).ok_or_else(|| {
            Error::Whole(format!(
                "`{}` has elements that the schedule space does not compute with",
                argument.name
            ))
        })?;
        let extents: Vec<Option<Poly>> = shape
            .iter()
            .map(|formula| nodes::formula(&program, problem, &formula.to_string()))
            .collect();
        program.arrays.push(Array {
            name: argument.name.clone(),
            c_type,
            floats,
            bytes,
            strides: arrays::strides(&extents),
            extents: extents
                .iter()
                .map(|e| e.as_ref().and_then(Poly::as_affine))
                .collect(),
            origin: match role {
                Role::Input => Origin::Input,
                _ => Origin::Output,
            },
        });
    }
    Ok(program)
}

#[cfg(test)]
mod tests;
