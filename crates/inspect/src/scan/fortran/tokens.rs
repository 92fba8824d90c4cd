//! Tokens of a statement, and the parentheses among them.

use super::Token;

/// The text of a token; empty behind the last one.
pub(crate) fn text(tokens: &[Token], at: usize) -> &str {
    tokens.get(at).map_or("", |t| t.text.as_str())
}

/// The change of depth at a token.
pub(crate) fn step(token: &Token) -> i32 {
    match token.text.as_str() {
        "(" | "[" => 1,
        ")" | "]" => -1,
        _ => 0,
    }
}

/// The index of the token that closes the parenthesis at `open`.
pub(crate) fn closing(tokens: &[Token], open: usize) -> Option<usize> {
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
pub(crate) fn outside(tokens: &[Token]) -> impl Iterator<Item = usize> {
    let mut depth = 0;
    tokens.iter().enumerate().filter_map(move |(at, token)| {
        depth += step(token);
        (depth == 0 && step(token) == 0).then_some(at)
    })
}
