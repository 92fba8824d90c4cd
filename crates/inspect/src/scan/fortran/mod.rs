//! The check of a Fortran source.
//!
//! The list of statements that a kernel may contain is shorter than the list of forbidden ones, so every unknown
//! statement is refused. A permitted statement may still name a library function (`matmul`, for example); the object
//! audit refuses such functions by their symbols. The check joins lines and finds literals as gfortran does. Where
//! gfortran's reading depends on an option, or on columns that are easily mistaken, the source is refused.

mod jumps;
mod lines;
mod signature;
mod statements;
pub(crate) mod tokens;
mod words;

use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::Failure;

use super::Pragma;
use super::raw::check_text;
pub use signature::doubtful_kind;

/// A word, number, literal or sign of a statement, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: super::token::Kind,
    pub(crate) text: String,
}

/// A statement without comments; its continued lines are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    /// The line of the source on which the statement begins, from 1.
    pub(crate) line: u32,
    /// The label in fixed form. In free form, the label is the first token.
    pub(crate) label: Option<String>,
    pub(crate) tokens: Vec<Token>,
}

/// The facts about a source that may be compiled.
#[derive(Debug, Clone, Default)]
pub struct Looked {
    /// Directives, which show techniques.
    pub directives: Vec<Pragma>,
    /// A jump that makes a loop: its line, and its description.
    pub jump: Option<(u32, String)>,
    pub(crate) statements: Vec<Statement>,
}

impl Looked {
    /// The statements of a source whether or not they are permitted, for tests of the detection. None if the lines
    /// cannot be read.
    pub(crate) fn unchecked(source: &str, language: Language) -> Option<Self> {
        let found = lines::split(source, language).ok()?;
        Some(Looked {
            jump: jumps::back(&found.statements),
            directives: found.directives,
            statements: found.statements,
        })
    }

    /// The statements, in which the detection follows loops.
    pub(crate) fn statements(&self) -> &[Statement] {
        &self.statements
    }
}

/// Refuses sources with constructs that are not permitted.
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
        statements: found.statements,
    })
}
