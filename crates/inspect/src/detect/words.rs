//! Techniques that words and pragmas of a source show.

use flopsmith_protocol::Technique;

use super::{Detected, names};
use crate::scan::token::{Kind, Token};
use crate::scan::{Pragma, UserText};

/// Notes the techniques that single words show.
pub(super) fn in_words(user: &UserText, all: &[Token<'_>], found: &mut Detected) {
    for token in all.iter().filter(|t| t.kind == Kind::Word) {
        let word = token.text;
        if let Some(technique) = names::technique_of(word)
            && found.seen.iter().all(|seen| seen.technique != technique)
        {
            found.note(technique, user.line_at(token.at), format!("`{word}`"));
        }
    }
}

/// Notes the techniques that pragmas ask the compiler for.
pub(super) fn in_pragmas(pragmas: &[Pragma], found: &mut Detected) {
    const SHARING: [&str; 10] = [
        "parallel",
        "for",
        "sections",
        "section",
        "task",
        "taskloop",
        "single",
        "teams",
        "distribute",
        "loop",
    ];
    for pragma in pragmas {
        let text = || format!("`#pragma {}`", pragma.words.join(" "));
        let has = |word: &str| pragma.words.iter().any(|w| w == word);
        if pragma.starts_with(&["omp"]) {
            // Words inside an option's parentheses are not directives.
            let directive: Vec<&str> = pragma.words[1..]
                .iter()
                .map(String::as_str)
                .take_while(|w| *w != "(")
                .collect();
            if directive.iter().any(|w| SHARING.contains(w)) {
                found.note(Technique::Openmp, pragma.line, text());
            }
            if directive.contains(&"simd") {
                found.note(Technique::Simd, pragma.line, text());
            }
        }
        let by = |at: usize| {
            pragma
                .words
                .iter()
                .skip(at)
                .find_map(|w| w.parse::<u64>().ok())
        };
        // Directives that make the compiler change the loop nest.
        let changes = [
            ("tile", Technique::CacheBlocking),
            ("interchange", Technique::LoopReorder),
            ("reverse", Technique::LoopReorder),
        ];
        let options_aside = pragma.words.iter().take_while(|w| *w != "(");
        let asks = pragma.starts_with(&["omp"]) || pragma.starts_with(&["clang", "loop"]);
        for word in options_aside.filter(|_| asks) {
            if let Some((_, technique)) = changes.iter().find(|(name, _)| name == word) {
                found.note(*technique, pragma.line, text());
            }
        }
        let unrolls = if pragma.starts_with(&["GCC", "unroll"]) {
            by(2).unwrap_or(2) > 1
        } else if pragma.starts_with(&["unroll"]) {
            by(1).unwrap_or(2) > 1
        } else {
            has("unroll")
                || has("unroll_count")
                || has("unroll_and_jam")
                || pragma.starts_with(&["omp", "unroll"])
        };
        if unrolls {
            found.note(Technique::Unroll, pragma.line, text());
        }
    }
}
