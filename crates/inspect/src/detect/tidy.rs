//! The text of a program in the form that the grammar can parse.

use std::collections::BTreeMap;

use crate::scan::token::{Kind, Token};

/// The size of a vector type has at most so many tokens.
const LONGEST: usize = 40;

/// The vector types that a program defines, with their sizes in bytes.
pub(super) fn vector_types(all: &[Token<'_>]) -> BTreeMap<String, i64> {
    let mut sizes = BTreeMap::new();
    let mut rest = all;
    while let Some(start) = rest.iter().position(|t| t.text == "typedef") {
        rest = &rest[start + 1..];
        let end = rest
            .iter()
            .position(|t| t.text == ";")
            .unwrap_or(rest.len());
        let definition = &rest[..end];
        let mut name = "";
        let mut bytes = None;
        let (mut depth, mut attribute) = (0, false);
        for (at, token) in definition.iter().enumerate() {
            match token.text {
                "(" | "[" => depth += 1,
                ")" | "]" => {
                    depth -= 1;
                    attribute &= depth > 0;
                }
                "__attribute__" | "__attribute" => attribute = true,
                "vector_size" | "__vector_size__" => {
                    let inside = definition[at + 1..].iter().take(LONGEST);
                    let inside = inside.take_while(|t| t.text != ")");
                    let product = inside.filter_map(|t| t.text.parse::<i64>().ok());
                    bytes = product.fold(None, |p: Option<i64>, n| {
                        Some(p.unwrap_or(1).saturating_mul(n))
                    });
                }
                word if depth == 0 && !attribute && token.kind == Kind::Word => name = word,
                _ => {}
            }
        }
        if let Some(bytes) = bytes {
            sizes.insert(name.to_owned(), bytes);
        }
        rest = &rest[end.min(rest.len())..];
    }
    sizes
}

/// The tokens without attributes in brackets, which may stand before a label and between a loop and its body.
pub(super) fn without_brackets<'t>(all: &[Token<'t>]) -> Vec<Token<'t>> {
    let mut found = Vec::with_capacity(all.len());
    let mut at = 0;
    while let Some(token) = all.get(at) {
        at = match end_of_brackets(all, at) {
            Some(end) => end + 1,
            None => {
                found.push(*token);
                at + 1
            }
        };
    }
    found
}

/// The index of the last bracket of the attribute `[[…]]` that begins at `at`. Two opening brackets in a row begin
/// nothing else.
fn end_of_brackets(all: &[Token<'_>], at: usize) -> Option<usize> {
    let sign = |at: usize| all.get(at).map_or("", |t| t.text);
    if sign(at) != "[" || sign(at + 1) != "[" {
        return None;
    }
    let mut depth = 0;
    (at..all.len()).find(|place| {
        match sign(*place) {
            "[" => depth += 1,
            "]" => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

/// The text with attributes and GNU keywords blanked, because the grammar does not know all of them.
pub(super) fn without_attributes(text: &str, all: &[Token<'_>]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut blank = |from: usize, to: usize| {
        for byte in &mut bytes[from..to] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    };
    let mut at = 0;
    while let Some(token) = all.get(at) {
        if let Some(end) = end_of_brackets(all, at) {
            let last = &all[end];
            blank(token.at, last.at + last.text.len());
            at = end + 1;
            continue;
        }
        match token.text {
            "__attribute__" | "__attribute" | "_Alignas" | "alignas" | "__typeof__" => {
                let mut depth = 0;
                let mut end = at + 1;
                while let Some(inner) = all.get(end) {
                    match inner.text {
                        "(" => depth += 1,
                        ")" => depth -= 1,
                        _ => {}
                    }
                    end += 1;
                    if depth <= 0 {
                        break;
                    }
                }
                // `typeof` stands for a type. It is kept as an unknown type, because the grammar needs one here.
                if token.text != "__typeof__" {
                    let last = &all[end - 1];
                    blank(token.at, last.at + last.text.len());
                    at = end;
                    continue;
                }
            }
            "__restrict" | "__restrict__" | "restrict" | "__extension__" | "__inline"
            | "__inline__" | "__const" | "__volatile__" | "_Noreturn" => {
                blank(token.at, token.at + token.text.len())
            }
            _ => {}
        }
        at += 1;
    }
    // Only whole tokens were blanked, so no character was cut.
    String::from_utf8(bytes).unwrap_or_default()
}
