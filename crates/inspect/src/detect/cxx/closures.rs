//! Lambdas: each becomes a function within the function, as GNU C permits.
//!
//! `auto f = [&](int i) { … };` becomes `real f(int i) { … };`. A lambda at any other place becomes a function before
//! its statement, and its name stands at the place.

use std::collections::BTreeMap;

use super::Edits;
use super::templates::partners;
use crate::scan::token::{Kind, Token, tokens};

/// Largest number of lambdas in a program.
const MOST: usize = 64;

/// The text with its lambdas as functions; none if there are too many. The number of lines stays.
pub(super) fn as_functions(text: &str) -> Option<String> {
    let mut text = text.to_owned();
    for number in 0..=MOST {
        let all = tokens(&text);
        let partners = partners(&all);
        // The last one contains no other.
        let mut places = (0..all.len()).rev();
        let Some(lambda) = places.find_map(|at| lambda(&all, &partners, at)) else {
            return Some(text);
        };
        let changed = rewritten(&text, &all, &partners, &lambda, number)?;
        text = changed;
    }
    None
}

/// The tokens of a lambda.
struct Lambda {
    /// The `[` of its captures.
    begin: usize,
    /// The parentheses around its parameters, if it has any.
    parameters: Option<(usize, usize)>,
    /// The braces around its body.
    body: (usize, usize),
}

fn lambda(all: &[Token<'_>], partners: &[Option<usize>], at: usize) -> Option<Lambda> {
    if all[at].text != "[" {
        return None;
    }
    let before = at.checked_sub(1).and_then(|b| all.get(b));
    let begins = before.is_none_or(|b| {
        let operand = b.kind == Kind::Word && !matches!(b.text, "return" | "else" | "do");
        !operand && !matches!(b.text, "]" | ")" | "[") && b.kind != Kind::Text
    });
    if !begins {
        return None;
    }
    let mut next = partners[at]? + 1;
    let mut parameters = None;
    if all.get(next)?.text == "(" {
        let end = partners[next]?;
        parameters = Some((next, end));
        next = end + 1;
    }
    // `mutable`, `noexcept`, attributes and the type of the result.
    let open = (next..all.len().min(next + 24)).find(|p| matches!(all[*p].text, "{" | ";"))?;
    if all[open].text == ";" {
        return None;
    }
    let quiet = |t: &Token<'_>| {
        t.kind == Kind::Word
            || matches!(t.text, "->" | "-" | ">" | "<" | "*" | "&" | ":" | "(" | ")")
    };
    if !all[next..open].iter().all(quiet) {
        return None;
    }
    Some(Lambda {
        begin: at,
        parameters,
        body: (open, partners[open]?),
    })
}

fn rewritten(
    text: &str,
    all: &[Token<'_>],
    partners: &[Option<usize>],
    lambda: &Lambda,
    number: usize,
) -> Option<String> {
    let word = |at: usize| all.get(at).map_or("", |t| t.text);
    let span = |from: usize, to: usize| &text[all[from].at..all[to].at + all[to].text.len()];
    let parameters = match lambda.parameters {
        Some((open, close)) => indices(span(open, close))?,
        None => "()".to_owned(),
    };
    let body = span(lambda.body.0, lambda.body.1);
    let end = all[lambda.body.1].at + all[lambda.body.1].text.len();
    let mut edits = Edits::default();
    let before = |distance: usize| lambda.begin.checked_sub(distance);
    // Line ends before the body keep their number.
    let padding = |from: usize| {
        let removed = text[from..all[lambda.body.0].at].matches('\n').count();
        "\n".repeat(removed.saturating_sub(parameters.matches('\n').count()))
    };
    // `auto name = [`
    if let (Some(equals), Some(name), Some(auto)) = (before(1), before(2), before(3))
        && word(equals) == "="
        && all[name].kind == Kind::Word
        && word(auto) == "auto"
    {
        let from = all[auto].at;
        let head = format!("real {}{parameters} {}", word(name), padding(from));
        edits.replace(from, end, &format!("{head}{body}"));
        return edits.apply(text);
    }
    let name = format!("lambda__{number}");
    let start = all[statement(all, partners, lambda.begin)].at;
    let prefix = &text[start..all[lambda.begin].at];
    let lines = padding(all[lambda.begin].at);
    let function = format!("real {name}{parameters} {lines}{body} ");
    edits.replace(start, end, &format!("{function}{prefix}{name}"));
    edits.apply(text)
}

/// Parameters without a type are taken for subscripts.
fn indices(parameters: &str) -> Option<String> {
    let mut edits = Edits::default();
    for token in tokens(parameters).iter().filter(|t| t.text == "auto") {
        edits.replace(token.at, token.at + token.text.len(), "long");
    }
    edits.apply(parameters)
}

/// The first token of the statement around a token.
fn statement(all: &[Token<'_>], partners: &[Option<usize>], at: usize) -> usize {
    let closed = partners.iter().enumerate();
    let openers: BTreeMap<usize, usize> = closed
        .filter_map(|(open, close)| close.map(|close| (close, open)))
        .collect();
    let mut depth = 0i32;
    let mut place = at;
    while let Some(next) = place.checked_sub(1) {
        place = next;
        match all[place].text {
            ")" | "]" => depth += 1,
            "(" | "[" => depth -= 1,
            // The body of an earlier argument.
            "}" if matches!(all[place + 1].text, "," | ")") => match openers.get(&place) {
                Some(open) => place = *open,
                None => return place + 1,
            },
            ";" | "{" | "}" if depth <= 0 => return place + 1,
            _ => {}
        }
    }
    0
}
