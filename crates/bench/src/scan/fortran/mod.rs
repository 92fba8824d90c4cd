//! The look at a source in Fortran.
//!
//! A list of statements that may stand in a kernel is shorter than one of those
//! that may not, so whatever is not known is refused. What passes may still name
//! functions of the library (`matmul`, say): those the object audit refuses by
//! their symbols. Lines are joined and literals found as gfortran does it; where
//! that depends on an option, or on columns that are easily mistaken, the source
//! is refused instead.

mod lines;
mod statements;
mod words;

use flopsmith_problem::{Language, Problem};

use super::Pragma;
use super::raw::check_text;
use crate::failure::Failure;

/// A word, number, literal or sign of a statement, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    kind: super::token::Kind,
    text: String,
}

/// A statement without comments, continued lines joined.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Statement {
    /// Where it begins in the source, from 1.
    line: u32,
    tokens: Vec<Token>,
}

/// Refuses what is not permitted; gives the directives, which tell of techniques.
pub(crate) fn check(
    source: &str,
    problem: &Problem,
    language: Language,
) -> Result<Vec<Pragma>, Failure> {
    check_text(source, problem)?;
    let found = lines::split(source, language)?;
    statements::check(&found.statements)?;
    statements::check_directives(&found.directives)?;
    Ok(found.directives)
}
