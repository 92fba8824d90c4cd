//! The look at a source in Fortran.
//!
//! A list of statements that may stand in a kernel is shorter than one of those
//! that may not, so whatever is not known is refused. What passes may still name
//! functions of the library (`matmul`, say): those the object audit refuses by
//! their symbols. Lines are joined and literals found as gfortran does it; where
//! that depends on an option, or on columns that are easily mistaken, the source
//! is refused instead.

mod jumps;
mod lines;
mod signature;
mod statements;
mod words;

use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::Failure;

use super::Pragma;
use super::raw::check_text;

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
    /// The number before it in fixed form. In free form that is its first token.
    label: Option<String>,
    tokens: Vec<Token>,
}

/// What is left of a source that may be compiled.
pub struct Looked {
    /// Directives, which tell of techniques.
    pub directives: Vec<Pragma>,
    /// A jump that makes a loop: its line, and what it is.
    pub jump: Option<(u32, String)>,
}

/// Refuses what is not permitted.
pub fn check(source: &str, problem: &Problem, language: Language) -> Result<Looked, Failure> {
    check_text(source, problem)?;
    let found = lines::split(source, language)?;
    statements::check(&found.statements)?;
    for statement in &found.statements {
        let words = statement.tokens.iter().map(|token| token.text.as_str());
        super::library::check_fortran(statement.line, words, problem)?;
    }
    statements::check_directives(&found.directives)?;
    signature::check(&found.statements, problem, language)?;
    Ok(Looked {
        jump: jumps::back(&found.statements),
        directives: found.directives,
    })
}
