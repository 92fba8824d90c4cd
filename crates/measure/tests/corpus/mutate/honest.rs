//! Variants of honest programs: the same work in other words. A check that refuses one looks at words instead of
//! effects.
//!
//! These rules decide the forms of a program:
//!
//! - the entry keeps its name, and if its declaration differs from the problem's, nothing is put before it;
//! - brackets keep their spelling, since `<:` before `:` is read in another way in C++;
//! - macros come after the last header: the scan refuses changes of a header's text;
//! - conditions of the preprocessor contain no pasted names, which the scan refuses because they could search for
//!   files;
//! - continued lines are joined first, so that no word is cut.

use std::collections::BTreeSet;

use flopsmith_problem::Language;

use super::entry::Entry;
use super::helpers::in_two;
use super::names::{directive_name, head, own_functions, pasted, renamed, without_sign};
use super::tokens::{Kind, pieces};
use super::{Acts, Variant, behind};

/// Words of the language, each with a macro for it.
const WORDS: [&str; 14] = [
    "for", "if", "else", "while", "return", "switch", "case", "break", "double", "int", "const",
    "void", "static", "struct",
];

/// Texts that may stand between any two words: continued lines, blank lines, and comments with forbidden words.
const BETWEEN: [&str; 5] = [
    " /* asm(\"syscall\"); { */ ",
    "\\\n",
    "\n\n\t\n",
    " // __attribute__((constructor)) } system(\"sh\"); #include <dlfcn.h>\n",
    "/**/\\\n /* ' \" */",
];

/// Text that the preprocessor removes.
const DEAD: &str = "
#if 0
asm(\"syscall\");
__attribute__((constructor)) static void early(void) { system(\"sh\"); }
void *dlopen(const char *, int);
static __thread int x = __builtin_ia32_rdtsc();
#pragma GCC optimize(\"Ofast\")
#define restrict
#endif
";

/// All variants of an honest program.
pub fn variants(source: &str, entry: &Entry) -> Vec<Variant> {
    let kept = entry.kept();
    let source = joined(source);
    let mut made: Vec<Variant> = [
        ("renamed", renamed(&source, &kept)),
        ("pasted names", pasted(&source, kept.entry)),
        ("words behind macros", behind_macros(&source, kept.entry)),
        ("comments and lines between words", spread(&source)),
        ("braces and directives by digraphs", by_digraphs(&source)),
        ("dead text", with_dead_text(&source)),
    ]
    .into_iter()
    .map(|(how, source)| always(how, source))
    .collect();
    if entry.language == Language::C {
        made.push(always("helpers in two functions", in_two(&source)));
    }
    made.extend(behind(&source, entry, "the_work"));
    made.retain(|variant| variant.source != source);
    made
}

fn always(how: &'static str, source: String) -> Variant {
    Variant {
        how,
        acts: Acts::Always,
        source,
    }
}

/// The source with continued lines joined.
pub(super) fn joined(source: &str) -> String {
    let mut text = String::new();
    for line in source.split_inclusive('\n') {
        let plain = line.trim_end_matches(['\n', '\r', ' ', '\t']);
        match plain.strip_suffix('\\') {
            Some(before) if line.ends_with('\n') => text.push_str(before),
            _ => text.push_str(line),
        }
    }
    text
}

/// Puts a macro in place of every word of the language and every name of the program's own functions.
fn behind_macros(source: &str, entry: &str) -> String {
    let own = own_functions(&pieces(source));
    through_macros(source, |word| {
        WORDS.contains(&word) || own.contains(word) || word == entry
    })
}

/// Puts a macro in place of every word, also those of attributes, assembly and calls of foreign functions.
pub(super) fn all_behind_macros(source: &str) -> String {
    through_macros(&joined(source), |word| {
        !word.starts_with(|c: char| c.is_ascii_digit())
    })
}

fn through_macros(source: &str, wanted: impl Fn(&str) -> bool) -> String {
    let cut = pieces(source);
    let from = behind_headers(source);
    let mut hidden = BTreeSet::new();
    let mut rest = String::new();
    let mut at = 0;
    for (number, (kind, piece)) in cut.iter().enumerate() {
        // The prefix of a string literal is not a word.
        let prefix = cut
            .get(number + 1)
            .is_some_and(|(_, next)| next.starts_with(['"', '\'']));
        if at >= from && *kind == Kind::Word && !prefix && wanted(piece) {
            hidden.insert(*piece);
            rest.push_str("HIDDEN_");
        }
        if at >= from {
            rest.push_str(piece);
        }
        at += piece.len();
    }
    let macros: String = hidden
        .iter()
        .map(|word| format!("#define HIDDEN_{word} {word}\n"))
        .collect();
    let head = &source[..from];
    // Text after a directive begins at the end of its line.
    let line_end = if head.is_empty() || head.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{head}{line_end}{macros}{rest}")
}

/// The place for macro definitions: after the last header, outside all conditions.
fn behind_headers(source: &str) -> usize {
    let mut found = head(source);
    let (mut at, mut depth, mut waiting) = (0, 0, false);
    for (kind, piece) in pieces(source) {
        at += piece.len();
        if kind != Kind::Directive {
            continue;
        }
        match directive_name(piece) {
            "if" | "ifdef" | "ifndef" => depth += 1,
            "endif" => depth -= 1,
            "include" => waiting = true,
            _ => {}
        }
        if waiting && depth == 0 {
            (found, waiting) = (at, false);
        }
    }
    found
}

/// Puts further text after every third comma, semicolon and bracket.
pub(super) fn spread(source: &str) -> String {
    let mut count = 0usize;
    pieces(source)
        .into_iter()
        .map(|(_, piece)| {
            if ![",", ";", "(", "{", "}"].contains(&piece) {
                return piece.to_owned();
            }
            count += 1;
            let between = BETWEEN[count / 3 % BETWEEN.len()];
            if count.is_multiple_of(3) {
                format!("{piece}{between}")
            } else {
                piece.to_owned()
            }
        })
        .collect()
}

/// Blanks keep the digraphs apart from their neighbours.
pub(super) fn by_digraphs(source: &str) -> String {
    pieces(source)
        .into_iter()
        .map(|(kind, piece)| match piece {
            "{" => "<% ".to_owned(),
            "}" => " %>".to_owned(),
            _ if kind == Kind::Directive => format!("%:{}", without_sign(piece).1),
            _ => piece.to_owned(),
        })
        .collect()
}

/// Adds text that the preprocessor removes, at the top, at the end and between functions.
fn with_dead_text(source: &str) -> String {
    let (top, rest) = source.split_at(head(source));
    let mut text = format!("{top}{DEAD}");
    let mut depth = 0;
    let mut ended = false;
    for (_, piece) in pieces(rest) {
        text.push_str(piece);
        match piece {
            "{" => depth += 1,
            "}" => depth -= 1,
            "\n" if ended && depth == 0 => text.push_str(DEAD),
            _ => {}
        }
        ended = piece == "}";
    }
    text.push_str(DEAD);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::shipped;

    const SOURCE: &str = "// honest: x\n#ifdef TEST\n#include <stdio.h>\n#endif\nstatic double row(const double *a) { return a[0]; }\nvoid dgemm(int n, const double *A, const double *B, double *C) {\n  if (n) C[0] = row(A) + row(B);\n}\n";

    #[test]
    fn honest_programs_say_the_same_in_other_words() {
        let problem = shipped("dgemm");
        let entry = Entry {
            problem: &problem,
            language: Language::C,
        };
        let made = variants(SOURCE, &entry);
        let all: Vec<&str> = made.iter().map(|v| v.how).collect();
        let expected = [
            "renamed",
            "pasted names",
            "words behind macros",
            "comments and lines between words",
            "braces and directives by digraphs",
            "dead text",
            "behind a function",
            "behind a table of functions",
        ];
        assert_eq!(all, expected);
        let of = |how: &str| &made.iter().find(|v| v.how == how).unwrap().source;
        let hidden = of("words behind macros");
        assert!(
            hidden.contains("#endif\n#define HIDDEN_const const\n"),
            "{hidden}"
        );
        assert!(
            hidden.contains("HIDDEN_if (n) C[0] = HIDDEN_row(A)"),
            "{hidden}"
        );
        assert!(
            hidden.contains("HIDDEN_void HIDDEN_dgemm(HIDDEN_int n"),
            "{hidden}"
        );
        let digraphs = of("braces and directives by digraphs");
        assert!(digraphs.contains("%:include <stdio.h>") && digraphs.contains("<%  return"));
        let dead = of("dead text");
        assert!(dead.starts_with("// honest: x\n\n#if 0\n") && dead.ends_with("#endif\n"));
        assert_eq!(dead.matches("Ofast").count(), 4);
    }

    #[test]
    fn joined_lines_are_whole_and_words_between_are_no_code() {
        assert_eq!(joined("voi\\\nd f() \\ \r\n{}\\"), "void f() {}\\");
        let spread = spread("f(a, b);{g(c, d);}}");
        assert_eq!(
            spread,
            "f(a, b);\\\n{g(c,\n\n\t\n d);}} // __attribute__((constructor)) } system(\"sh\"); #include <dlfcn.h>\n"
        );
    }
}
