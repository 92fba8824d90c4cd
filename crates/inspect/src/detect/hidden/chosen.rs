//! Variables that choose the function that sets them. A loop around such a call runs through states, each of which may
//! be a loop of its own.

use super::{Function, Hidden, opening, text};
use crate::scan::token::{Kind, Token};

/// The first variable that is set by a call of a function which the variable itself chooses: `s = table[s](n)` or
/// `p = p(n)`.
pub(super) fn find(all: &[Token<'_>], functions: &[Function<'_>]) -> Option<Hidden> {
    (1..all.len())
        .filter(|at| text(all, *at) == "=")
        .find_map(|at| {
            let name = set(all, at)?;
            let function = functions.iter().any(|f| f.name == text(all, name));
            let chooses =
                |place| by_subscript(all, name, at, place) || !function && itself(all, name, place);
            value(all, at).find(|place| chooses(*place))?;
            let word = text(all, name);
            Some(Hidden {
                at: all[at].at,
                what: format!(
                    "`{word}` chooses the function that sets it: a loop that runs through states"
                ),
            })
        })
}

/// The place of the name of the variable that the `=` at this place sets.
fn set(all: &[Token<'_>], at: usize) -> Option<usize> {
    let mut name = at - 1;
    while text(all, name) == "]" {
        name = bracket(all, name)?.checked_sub(1)?;
    }
    (all[name].kind == Kind::Word).then_some(name)
}

/// The places of the value that the `=` at this place assigns.
fn value(all: &[Token<'_>], at: usize) -> impl Iterator<Item = usize> {
    let mut depth = 0i32;
    (at + 1..all.len()).take_while(move |place| {
        match text(all, *place) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            ";" | "," if depth == 0 => return false,
            _ => {}
        }
        depth >= 0
    })
}

/// True if a subscript that ends here, behind the `=` at `at`, contains the name, and the element is called.
fn by_subscript(all: &[Token<'_>], name: usize, at: usize, end: usize) -> bool {
    if text(all, end) != "]" || !is_called(all, end) {
        return false;
    }
    let mut from = end;
    // Of several subscripts, any may contain the name.
    while text(all, from) == "]" {
        let Some(open) = bracket(all, from).filter(|open| *open > at + 1) else {
            break;
        };
        from = open - 1;
    }
    // The captures of a lambda follow no name.
    all[from].kind == Kind::Word && (from + 1..end).any(|place| text(all, place) == text(all, name))
}

/// True if the named variable is called here.
fn itself(all: &[Token<'_>], name: usize, place: usize) -> bool {
    if text(all, place) != text(all, name) || !is_called(all, place) {
        return false;
    }
    // A member has a name that other functions may have: only that of the same object is the same. A name behind `::`
    // is that of another function.
    match (before(all, name, 1), before(all, place, 1)) {
        (_, ":") => false,
        ("." | "->", "." | "->") => before(all, name, 2) == before(all, place, 2),
        ("." | "->", _) | (_, "." | "->") => false,
        _ => true,
    }
}

/// True if the function whose expression ends here is called: `f(…)`, `(f)(…)` or `(*f)(…)`.
fn is_called(all: &[Token<'_>], end: usize) -> bool {
    // The parenthesis of `g(f)(…)` follows a name.
    let encloses = |open: usize| open > 0 && all[open - 1].kind != Kind::Word;
    match text(all, end + 1) {
        "(" => true,
        ")" => text(all, end + 2) == "(" && opening(all, end + 1).is_some_and(encloses),
        _ => false,
    }
}

/// The opening bracket that the one at `close` closes.
fn bracket(all: &[Token<'_>], close: usize) -> Option<usize> {
    let mut depth = 0i32;
    (0..=close).rev().find(|at| {
        match text(all, *at) {
            "]" => depth += 1,
            "[" => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

fn before<'t>(all: &[Token<'t>], at: usize, by: usize) -> &'t str {
    at.checked_sub(by).map_or("", |place| text(all, place))
}
