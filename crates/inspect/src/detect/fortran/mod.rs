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

use flopsmith_problem::Problem;

use crate::scan::token::tokens;
use crate::scan::{Statement, Token};

/// The program in C.
#[derive(Debug, Default)]
pub(super) struct AsC {
    pub text: String,
    /// For each line of the text, the line of the Fortran program.
    pub lines: Vec<u32>,
    /// True if parts of the program are left out.
    pub unsure: bool,
    /// A procedure that calls itself, with its line.
    pub hidden: Option<(u32, String)>,
}

impl AsC {
    fn push(&mut self, line: u32, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
        self.lines.push(line);
    }
}

/// Rewrites a program.
pub(super) fn as_c(statements: &[Statement], problem: &Problem) -> AsC {
    let mut out = AsC::default();
    procedures::write(statements, problem, &mut out);
    let calls = super::hidden::find(&tokens(&out.text), false);
    out.hidden = calls.map(|hidden| {
        let row = out.text[..hidden.at]
            .bytes()
            .filter(|b| *b == b'\n')
            .count();
        (out.lines.get(row).copied().unwrap_or(1), hidden.what)
    });
    out
}

fn text(tokens: &[Token], at: usize) -> &str {
    tokens.get(at).map_or("", |t| t.text.as_str())
}

fn step(token: &Token) -> i32 {
    match token.text.as_str() {
        "(" | "[" => 1,
        ")" | "]" => -1,
        _ => 0,
    }
}

/// The index of the token that closes the parenthesis at `open`.
fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    if text(tokens, open) != "(" {
        return None;
    }
    let mut depth = 0;
    (open..tokens.len()).find(|at| {
        depth += step(&tokens[*at]);
        depth == 0
    })
}

/// The indices of tokens outside of parentheses.
fn outside(tokens: &[Token]) -> impl Iterator<Item = usize> {
    let mut depth = 0;
    tokens.iter().enumerate().filter_map(move |(at, token)| {
        depth += step(token);
        (depth == 0 && step(token) == 0).then_some(at)
    })
}

#[cfg(test)]
mod tests;
