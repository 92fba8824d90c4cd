//! The permitted statements of a kernel.

use std::collections::BTreeSet;

use flopsmith_problem::FORTRAN_MODULES;
use flopsmith_protocol::{CandidateFault, Failure};

use super::tokens::{closing, step, text};
use super::words::{
    BEYOND, CALLED, DECLARATIONS, ENDS, FUNCTIONS, HEADS, HINTS, PLAIN, PREFIXES, REFUSED, WORDS,
};
use super::{Statement, Token};
use crate::scan::token::Kind;
use crate::scan::{Pragma, refused};

/// Checks all statements of a source.
pub(super) fn check(statements: &[Statement]) -> Result<(), Failure> {
    let own = Own::of(statements);
    statements
        .iter()
        .try_for_each(|s| own.check(s.line, &s.tokens))
}

/// Refuses directives that do more than distribute work or give a hint.
pub(super) fn check_directives(directives: &[Pragma]) -> Result<(), Failure> {
    for directive in directives {
        let second = directive.words.get(1).map_or("", String::as_str);
        let good = if directive.starts_with(&["omp"]) {
            !directive.words.iter().any(|w| BEYOND.contains(&w.as_str()))
        } else {
            HINTS.contains(&second)
        };
        if !good {
            let what = format!(
                "the directive `{}` is not permitted",
                directive.words.join(" ")
            );
            return Err(refused(
                CandidateFault::ForbiddenConstruct,
                directive.line,
                what,
            ));
        }
    }
    Ok(())
}

/// The names and features that the source defines.
#[derive(Default)]
struct Own<'s> {
    subroutines: BTreeSet<&'s str>,
    modules: BTreeSet<&'s str>,
    /// True if the source has pointers, or derived types, which may contain pointers.
    pointers: bool,
}

impl<'s> Own<'s> {
    fn of(statements: &'s [Statement]) -> Self {
        let mut own = Own::default();
        for statement in statements {
            let words: Vec<&str> = statement.tokens.iter().map(|t| t.text.as_str()).collect();
            let follows = |word: &str| {
                let at = words.iter().position(|w| *w == word)?;
                words.get(at + 1).copied()
            };
            if words.first() != Some(&"end") {
                own.subroutines.extend(follows("subroutine"));
                if words.first() == Some(&"module") {
                    own.modules.extend(words.get(1).copied());
                }
            }
            own.pointers |= words.contains(&"pointer")
                || words.contains(&"class")
                || (words.first() == Some(&"type") && words.get(1) != Some(&"("));
        }
        own
    }

    fn check(&self, line: u32, tokens: &[Token]) -> Result<(), Failure> {
        let tokens = without_label(tokens);
        self.words(line, tokens)?;
        if tokens.is_empty() || is_assignment(tokens) {
            return Ok(());
        }
        self.statement(line, tokens)
    }

    /// Checks for words that are refused at any place.
    fn words(&self, line: u32, tokens: &[Token]) -> Result<(), Failure> {
        for (at, token) in tokens
            .iter()
            .enumerate()
            .filter(|(_, t)| t.kind == Kind::Word)
        {
            let word = token.text.as_str();
            let called = text(tokens, at + 1) == "(";
            let exact = WORDS.iter().find(|(w, _)| *w == word);
            let begins = || PREFIXES.iter().find(|(begin, _)| word.starts_with(begin));
            let function = || FUNCTIONS.iter().find(|(w, _)| called && *w == word);
            if let Some((_, what)) = exact.or_else(begins).or_else(function) {
                return construct(line, format!("{what}: `{word}` is not permitted"));
            }
            if word == "transfer" && called && self.pointers {
                return construct(
                    line,
                    "`transfer` is not permitted in a source with pointers or derived types: it can turn a number into a pointer".into(),
                );
            }
        }
        Ok(())
    }

    fn statement(&self, line: u32, tokens: &[Token]) -> Result<(), Failure> {
        let first = text(tokens, 0);
        let second = text(tokens, 1);
        match first {
            "if" | "where" | "forall" | "elsewhere" => {
                let rest = match closing(tokens, 1) {
                    Some(end) => &tokens[end + 1..],
                    None if first == "elsewhere" => return Ok(()),
                    None => return unknown(line, first),
                };
                // A block, or the labels of an arithmetic `if`.
                let is_block = rest.is_empty()
                    || text(rest, 0) == "then"
                    || rest.iter().all(|t| t.kind == Kind::Number || t.text == ",");
                // None of these statements may be the governed statement, so the recursion goes only one level deep.
                let inner = text(without_label(rest), 0);
                if is_block {
                    Ok(())
                } else if matches!(inner, "if" | "where" | "forall" | "elsewhere") {
                    unknown(line, inner)
                } else {
                    self.check(line, rest)
                }
            }
            "end" => {
                if tokens.len() == 1 || ENDS.contains(&second) {
                    Ok(())
                } else {
                    construct(line, format!("`end {second}` is not permitted"))
                }
            }
            "block" => match second {
                "" => Ok(()),
                _ => unknown(line, "block data"),
            },
            "call" => {
                let own = self.subroutines.contains(second)
                    || CALLED.contains(&second)
                    || text(tokens, 2) == "%";
                if own {
                    return Ok(());
                }
                Err(refused(
                    CandidateFault::ForbiddenSymbol,
                    line,
                    format!(
                        "the subroutine `{second}` is not one of the source's own subroutines; a kernel may call only these"
                    ),
                ))
            }
            "use" => {
                // `use, intrinsic :: name`. The colon after `only` is a single one.
                let mut places = 1..tokens.len();
                let colons = |at: &usize| text(tokens, *at) == ":" && text(tokens, at + 1) == ":";
                let name = places
                    .find(colons)
                    .map_or(second, |at| text(tokens, at + 2));
                if FORTRAN_MODULES.contains(&name) || self.modules.contains(name) {
                    return Ok(());
                }
                Err(refused(
                    CandidateFault::ForbiddenInclude,
                    line,
                    format!(
                        "the module `{name}` may not be used; permitted are {} and modules of the source",
                        FORTRAN_MODULES.join(", ")
                    ),
                ))
            }
            "include" => Err(refused(
                CandidateFault::ForbiddenInclude,
                line,
                "`include` is not permitted",
            )),
            "module" if !matches!(second, "procedure" | "subroutine" | "function") => Ok(()),
            word if HEADS.contains(&word) => Ok(()),
            word if DECLARATIONS.contains(&word) => {
                let is_head = tokens.iter().any(|t| t.text == "function");
                if !is_head && tokens.iter().any(|t| t.text == "bind") {
                    return construct(
                        line,
                        "data shared with other languages (`bind`) is not permitted".into(),
                    );
                }
                Ok(())
            }
            word if PLAIN.contains(&word) => Ok(()),
            word => match REFUSED.iter().find(|(words, _)| words.contains(&word)) {
                Some((_, why)) => construct(line, format!("`{word}`: {why}")),
                None => unknown(line, word),
            },
        }
    }
}

fn construct(line: u32, what: String) -> Result<(), Failure> {
    Err(refused(CandidateFault::ForbiddenConstruct, line, what))
}

fn unknown(line: u32, word: &str) -> Result<(), Failure> {
    construct(
        line,
        format!("a statement that begins with `{word}` is not permitted here"),
    )
}

/// A statement without its label or its construct's name (`outer: do …`).
fn without_label(tokens: &[Token]) -> &[Token] {
    let tokens = match tokens.first() {
        Some(t) if t.kind == Kind::Number => &tokens[1..],
        _ => tokens,
    };
    match tokens {
        [name, colon, rest @ ..]
            if name.kind == Kind::Word && colon.text == ":" && text(rest, 0) != ":" =>
        {
            rest
        }
        _ => tokens,
    }
}

/// True for `name = …`, `name(…) = …`, `a%b(i) => …`. Fortran has no reserved words, so this check comes first.
fn is_assignment(tokens: &[Token]) -> bool {
    let mut at = 0;
    loop {
        if tokens.get(at).is_none_or(|t| t.kind != Kind::Word) {
            return false;
        }
        at += 1;
        // Subscripts of an element, and a substring of an element.
        while text(tokens, at) == "(" {
            match closing(tokens, at) {
                Some(end) => at = end + 1,
                None => return false,
            }
        }
        match text(tokens, at) {
            "%" => at += 1,
            "=" => break,
            _ => return false,
        }
    }
    // Excludes `do i = 1, n` written as one word, and a comparison.
    let mut depth = 0;
    text(tokens, at + 1) != "="
        && tokens[at..].iter().all(|t| {
            depth += step(t);
            depth > 0 || t.text != ","
        })
}

#[cfg(test)]
mod tests;
