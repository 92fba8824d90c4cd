//! Checks a candidate's source for constructs that no plain kernel needs, before any compiler reads it.
//!
//! C and C++ sources are checked twice. The first check reads the raw lines, for directives that reach other files or
//! change line numbers. The second check reads the user's own text after preprocessing, by tokens and not by a grammar,
//! because text that a grammar cannot parse may still compile. The scan refuses constructs that the object would not
//! show. The object audit refuses those that it shows (libraries, constructors, machine code). Fortran has its own
//! check (`fortran`).

mod cleanup;
mod constructs;
mod cxx;
pub(crate) mod fortran;
mod library;
pub mod look;
mod plain;
mod pragmas;
mod preprocessed;
mod raw;
mod simple;
mod text;
pub mod token;

use flopsmith_problem::Language;
use flopsmith_protocol::{CandidateFault, Failure};

pub use constructs::check as check_constructs;
pub use fortran::{Looked, check as check_fortran, doubtful_kind};
pub(crate) use fortran::{Statement, Token};
pub use library::check as check_library;
pub use plain::plain;
pub use pragmas::{Pragma, split as split_pragmas};
pub use preprocessed::{Preprocessed, check_length, split as split_preprocessed};
pub use raw::{Raw, check as check_raw, check_included};
pub use simple::preprocess as preprocess_simple;
pub(crate) use text::lines as source_lines;

/// The candidate's own text after preprocessing: without comments, without directives except pragmas, and without text
/// from headers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserText {
    /// The text.
    pub text: String,
    /// For each line of `text`, the line of the source that it comes from.
    pub lines: Vec<u32>,
}

impl UserText {
    fn push(&mut self, line: u32, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
        self.lines.push(line);
    }

    /// The text without digit separators, which would look like the beginnings of literals.
    pub fn without_separators(&self) -> UserText {
        let mut plain = UserText::default();
        for (row, line) in self.text.lines().enumerate() {
            let text = text::lines(line).into_iter().next().map(|l| l.text);
            plain.push(self.source_line(row), &text.unwrap_or_default());
        }
        plain
    }

    /// The text with the digraphs `<%`, `%>`, `<:` and `:>` replaced by braces and brackets. Every token keeps its
    /// place. The later checks search for braces and must not miss a digraph.
    pub fn with_braces(&self, language: Language) -> UserText {
        let mut plain = self.clone();
        let is_cxx = language == Language::Cxx;
        let all = token::tokens(&self.text);
        let mut done = 0;
        for (at, first) in all.iter().enumerate() {
            // The compiler reads `%>` here even where a longer sign would match, such as the `>=` of `%>=`.
            let begins_with =
                |sign: &str| plain.text[first.at + first.text.len()..].starts_with(sign);
            let sign = match first.text {
                _ if first.at < done => continue,
                "<" if begins_with("%") => "{ ",
                "%" if begins_with(">") => " }",
                "<" if begins_with(":") && !(is_cxx && cxx::is_scope(&all, at)) => "[ ",
                // In C++, `::` is one sign.
                ":" if is_cxx && begins_with(":") => {
                    done = first.at + 2;
                    continue;
                }
                ":" if begins_with(">") => " ]",
                _ => continue,
            };
            done = first.at + 2;
            plain.text.replace_range(first.at..done, sign);
        }
        plain
    }

    /// The source line of line `row` (from 0) of the text.
    pub fn source_line(&self, row: usize) -> u32 {
        self.lines
            .get(row)
            .or(self.lines.last())
            .copied()
            .unwrap_or(1)
    }

    /// The source line of the byte at `offset`.
    pub fn line_at(&self, offset: usize) -> u32 {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        self.source_line(before.iter().filter(|b| **b == b'\n').count())
    }
}

fn refused(fault: CandidateFault, line: u32, what: impl std::fmt::Display) -> Failure {
    Failure::candidate(fault, format!("line {line}: {what}"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn with_braces(text: &str) -> UserText {
        in_language(text, Language::C)
    }

    fn in_language(text: &str, language: Language) -> UserText {
        let user = UserText {
            text: text.to_owned(),
            lines: vec![1],
        };
        user.with_braces(language)
    }

    #[test]
    fn braces_are_found_in_their_other_spelling() {
        for (text, plain) in [
            ("f() <% g(\"<%\"); %>", "f() {  g(\"<%\");  }"),
            ("<%<%%>%>", "{ {  } }"),
            ("<%>", "{ >"),
            // The compiler reads the longest sign at each place: first `%>`, then the rest.
            ("(int)<%1%>=5", "(int){ 1 }=5"),
            ("X<T<%1%>>", "X<T{ 1 }>"),
            ("T<%%>>>1", "T{  }>>1"),
            ("T<%%>>=1", "T{  }>=1"),
            ("<%=a", "{ =a"),
            ("a%=b>c", "a%=b>c"),
            ("operator<<%>", "operator<< }"),
            ("a < %b", "a < %b"),
            ("a<b%c>d", "a<b%c>d"),
            ("'\u{e9}' <%%>", "'\u{e9}' {  }"),
            ("a<:3:>", "a[ 3 ]"),
            ("a<:b<:1:>:>=c", "a[ b[ 1 ] ]=c"),
            ("a<::>", "a[  ]"),
            ("x ? y :z", "x ? y :z"),
            ("a<<:", "a<<:"),
        ] {
            assert_eq!(with_braces(text).text, plain, "{text}");
        }
        for (text, plain) in [
            ("a<:3:>", "a[ 3 ]"),
            ("array<::T, 2>", "array<::T, 2>"),
            ("a<:::b:>", "a[ ::b ]"),
            ("a<::>", "a[  ]"),
            ("f<T::>", "f<T::>"),
        ] {
            assert_eq!(in_language(text, Language::Cxx).text, plain, "{text}");
        }
    }

    #[test]
    fn attributes_in_brackets_are_the_standards_and_permitted_ones_of_gnu() {
        for language in [Language::C, Language::Cxx] {
            let found =
                |text: &str| check_constructs(&in_language(text, language), "dgemm", language);
            for text in [
                "[[nodiscard]] static int f([[maybe_unused]] int n) { return 0; }",
                "switch (n) { case 1: n++; [[fallthrough]]; default: n--; }",
                "[[gnu::always_inline]] static inline int f(int n) { return n; }",
                "<:<:maybe_unused:>:> int a<:3:>;",
            ] {
                found(text).unwrap();
            }
            for text in [
                "[[gnu::constructor]] static void f(void) {}",
                "[[__gnu__::__section__(\"x\")]] int x;",
                "[[nodiscard, gnu::ifunc(\"r\")]] int f(void);",
                "[ [gnu::no_sanitize_address]] void f(void);",
                "[[clang::no_sanitize(\"all\")]] void f(void);",
                "<:<:gnu::constructor:>:> static void f(void) <% %>",
                "[<:gnu::target(\"avx2\"):>] void f(void);",
                "[[nodiscard",
            ] {
                found(text).unwrap_err();
            }
        }
    }

    #[test]
    fn a_helper_is_the_programs_own_in_any_spelling() {
        let text = "static void clone(int n) <% (void)n; %> void dgemm(int n) <% clone(n); %>";
        check_constructs(&with_braces(text), "dgemm", Language::C).unwrap();
        let foreign = "static void other(void) <% %> void dgemm(int n) <% clone(n); %>";
        check_constructs(&with_braces(foreign), "dgemm", Language::C).unwrap_err();
    }
}
