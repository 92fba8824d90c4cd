//! Function templates: their integer parameters become parameters of the function.
//!
//! `template <int N> void f(double *a)` and the call `f<4>(x)` become `void f(int N, double *a)` and `f(4, x)`.

use std::collections::{BTreeMap, BTreeSet};

use super::Edits;
use crate::scan::token::{Kind, Token, tokens};

/// A parameter of a template that stands for an integer; none for one that stands for a type.
#[derive(Debug, Clone, Default)]
struct Parameter {
    integer: Option<String>,
    default: Option<String>,
}

/// Types of parameters that are not types themselves.
const INTEGERS: [&str; 8] = [
    "int",
    "unsigned",
    "long",
    "short",
    "size_t",
    "bool",
    "auto",
    "ptrdiff_t",
];

/// The text with the integer parameters of function templates moved into parentheses; none if it becomes too large.
pub(super) fn with_parameters(text: &str) -> Option<String> {
    let all = tokens(text);
    let partners = partners(&all);
    let mut edits = Edits::default();
    let mut known: BTreeMap<&str, Vec<Parameter>> = BTreeMap::new();
    let mut definitions = BTreeSet::new();
    for at in 0..all.len() {
        if all[at].text != "template" || word(&all, at + 1) != "<" {
            continue;
        }
        let Some(end) = angle(&all, at + 1) else {
            continue;
        };
        let Some(open) = head(&all, &partners, end + 1) else {
            continue;
        };
        let parameters = parameters(text, &all, at + 2, end);
        let names = parameters.iter().filter_map(|p| p.integer.as_ref());
        let list: Vec<String> = names.map(|name| format!("int {name}")).collect();
        insert(&mut edits, &all, open, &list);
        known.insert(all[open - 1].text, parameters);
        definitions.insert(open - 1);
    }
    for at in 0..all.len() {
        let Some(parameters) = known.get(all[at].text) else {
            continue;
        };
        if definitions.contains(&at) {
            continue;
        }
        let (open, given) = match word(&all, at + 1) {
            "<" => {
                let Some(end) = angle(&all, at + 1) else {
                    continue;
                };
                let (from, to) = (&all[at + 1], &all[end]);
                let end_of = to.at + to.text.len();
                let lines = text[from.at..end_of].matches('\n').count();
                edits.replace(from.at, end_of, &"\n".repeat(lines));
                (end + 1, arguments(text, &all, at + 2, end))
            }
            _ => (at + 1, Vec::new()),
        };
        if word(&all, open) != "(" {
            continue;
        }
        let values: Vec<String> = parameters
            .iter()
            .enumerate()
            .filter(|(_, p)| p.integer.is_some())
            .map(|(place, p)| {
                let value = given.get(place).cloned().or(p.default.clone());
                // A value that the compiler deduces is not known here.
                value.unwrap_or_else(|| p.integer.clone().unwrap_or_default())
            })
            .collect();
        insert(&mut edits, &all, open, &values);
    }
    edits.apply(text)
}

fn word<'t>(all: &[Token<'t>], at: usize) -> &'t str {
    all.get(at).map_or("", |t| t.text)
}

/// Inserts a list behind an opening parenthesis.
fn insert(edits: &mut Edits, all: &[Token<'_>], open: usize, list: &[String]) {
    let Some(token) = all.get(open).filter(|_| !list.is_empty()) else {
        return;
    };
    let comma = if word(all, open + 1) == ")" { "" } else { ", " };
    let end = token.at + token.text.len();
    edits.replace(end, end, &format!("{}{comma}", list.join(", ")));
}

/// Arguments of a template, and the head of a function, have at most so many tokens, and the name and the value of an
/// argument so many bytes.
const LONGEST: usize = 400;

/// Parameters of a template that are followed.
const MOST_PARAMETERS: usize = 16;

/// The `>` that closes the `<` at a token; none if the statement ends before.
pub(super) fn angle(all: &[Token<'_>], open: usize) -> Option<usize> {
    let (mut depth, mut inner) = (0i32, 0i32);
    for (at, token) in all.iter().enumerate().skip(open).take(LONGEST) {
        match token.text {
            "(" | "[" => inner += 1,
            ")" | "]" => inner -= 1,
            "<" if inner == 0 => depth += 1,
            ">" if inner == 0 => depth -= 1,
            ">>" if inner == 0 => depth -= 2,
            ";" | "{" | "}" => return None,
            _ => {}
        }
        if depth <= 0 {
            return Some(at);
        }
    }
    None
}

/// The parenthesis that opens the parameters of the function whose declaration begins at a token; none for a class.
fn head(all: &[Token<'_>], partners: &[Option<usize>], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(token) = all.get(at).filter(|_| at < from + LONGEST) {
        match token.text {
            "(" => {
                let name = all.get(at.checked_sub(1)?)?;
                if matches!(
                    name.text,
                    "__attribute__" | "alignas" | "decltype" | "noexcept"
                ) {
                    at = partners[at]?;
                } else {
                    return (name.kind == Kind::Word && at > from).then_some(at);
                }
            }
            "<" => at = angle(all, at)?,
            "class" | "struct" | "union" | "using" | "template" | ";" | "{" | "}" | "=" => {
                return None;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// For each opening parenthesis, bracket or brace, the token that closes it.
pub(super) fn partners(all: &[Token<'_>]) -> Vec<Option<usize>> {
    let mut found = vec![None; all.len()];
    let mut open = Vec::new();
    for (at, token) in all.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => open.push(at),
            ")" | "]" | "}" => {
                if let Some(begin) = open.pop() {
                    found[begin] = Some(at);
                }
            }
            _ => {}
        }
    }
    found
}

/// The texts between commas from one token to before another.
fn arguments(text: &str, all: &[Token<'_>], from: usize, to: usize) -> Vec<String> {
    let mut found = Vec::new();
    let (mut depth, mut begin) = (0i32, from);
    for at in from..=to.min(all.len().saturating_sub(1)) {
        match all[at].text {
            "(" | "[" | "{" | "<" if at < to => depth += 1,
            ")" | "]" | "}" | ">" if at < to => depth -= 1,
            _ => {}
        }
        if at == to || (depth == 0 && all[at].text == ",") {
            let (first, last) = (all.get(begin), at.checked_sub(1).and_then(|l| all.get(l)));
            if let (Some(first), Some(last)) = (first, last)
                && begin < at
            {
                let one = &text[first.at..last.at + last.text.len()];
                found.push(one.replace('\n', " "));
            }
            begin = at + 1;
        }
    }
    found
}

fn parameters(text: &str, all: &[Token<'_>], from: usize, to: usize) -> Vec<Parameter> {
    let list = arguments(text, all, from, to);
    list.iter()
        .take(MOST_PARAMETERS)
        .map(|one| {
            let (declared, default) = match one.split_once('=') {
                Some((declared, default)) => (declared, Some(default.trim().to_owned())),
                None => (one.as_str(), None),
            };
            let words: Vec<&str> = tokens(declared)
                .iter()
                .filter(|t| t.kind == Kind::Word)
                .map(|t| t.text)
                .collect();
            let is_integer = words
                .iter()
                .any(|w| INTEGERS.contains(w) || (w.contains("int") && w.ends_with("_t")));
            let short = |text: &str| text.len() <= LONGEST;
            let name = words.last().filter(|_| words.len() > 1 && is_integer);
            Parameter {
                integer: name
                    .filter(|name| short(name))
                    .map(|name| (*name).to_owned()),
                default: default.filter(|default| short(default)),
            }
        })
        .collect()
}
