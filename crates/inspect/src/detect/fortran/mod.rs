//! Rewrites a Fortran program as C, so that the walk can follow its loops.
//!
//! The text in C has the loops, assignments and calls of the program, with subscripts that say where an element lies in
//! memory: the first subscript of Fortran is the contiguous one. Nothing compiles the text, so declarations are kept
//! short and the values of real constants are left out. Statements that are not understood are left out, and the
//! detection is then unsure.

mod assign;
mod expressions;
mod print;
mod procedures;
mod sections;
mod statements;
mod symbols;

use flopsmith_problem::{Language, Problem};

use crate::scan::Statement;
use crate::scan::fortran::tokens::{closing, outside, text};
use crate::scan::token::tokens;

/// The program in C.
#[derive(Debug, Default)]
pub(super) struct AsC {
    pub text: String,
    /// For each line of the text, the line of the Fortran program.
    pub lines: Vec<u32>,
    /// True if parts of the program are left out.
    pub unsure: bool,
    /// A procedure that calls itself or a text beyond the limit, with the line.
    pub hidden: Option<(u32, String)>,
}

/// A longer text is cut off.
const LONGEST: usize = 2 << 20;

impl AsC {
    fn push(&mut self, line: u32, text: &str) {
        if self.text.len() + text.len() > LONGEST {
            self.hidden.get_or_insert((line, super::CUT.into()));
            return;
        }
        self.text.push_str(text);
        self.text.push('\n');
        self.lines.push(line);
    }
}

/// Rewrites a program.
pub(super) fn as_c(statements: &[Statement], problem: &Problem) -> AsC {
    let mut out = AsC::default();
    procedures::write(statements, problem, &mut out);
    let calls = super::hidden::find(&tokens(&out.text), Language::Fortran);
    let calls = calls.map(|hidden| {
        let row = out.text[..hidden.at]
            .bytes()
            .filter(|b| *b == b'\n')
            .count();
        (out.lines.get(row).copied().unwrap_or(1), hidden.what)
    });
    out.hidden = calls.or(out.hidden);
    out
}

#[cfg(test)]
mod tests;
