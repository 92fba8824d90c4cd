//! The tokens of a program: enough of C, C++ and Fortran to find numbers, words and brackets outside of comments and texts.

use flopsmith_problem::Language;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or a keyword.
    Word,
    /// A number, with its suffix.
    Number,
    /// A string or a character.
    Text,
    /// Any other character.
    Sign,
}

/// A token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    /// Its kind.
    pub kind: Kind,
    /// Its first byte in the source.
    pub start: usize,
    /// The byte behind it.
    pub end: usize,
    /// Its line, from 0.
    pub line: u32,
    /// The number of the directive that it stands in; 0 in no directive.
    pub directive: u32,
}

/// The tokens of a source. Comments have none.
#[derive(Debug, Clone)]
pub(super) struct Tokens<'a> {
    /// The source.
    pub source: &'a str,
    /// The tokens in their order.
    pub all: Vec<Token>,
    /// For each token that opens a bracket, the token that closes it, and the other way round; `usize::MAX` for all others.
    partner: Vec<usize>,
}

impl<'a> Tokens<'a> {
    /// The tokens of a source in a language of kernels. A module in Python has none.
    pub fn of(source: &'a str, language: Language) -> Self {
        let all = match language {
            Language::C | Language::Cxx => c_family(source.as_bytes()),
            Language::Fortran => fortran(source.as_bytes(), false),
            Language::Fortran77 => fortran(source.as_bytes(), true),
            Language::Python => Vec::new(),
        };
        let mut tokens = Self {
            source,
            all,
            partner: Vec::new(),
        };
        tokens.partner = tokens.partners();
        tokens
    }

    /// The text of a token; empty where there is none.
    pub fn text(&self, at: usize) -> &'a str {
        self.all
            .get(at)
            .map_or("", |token| &self.source[token.start..token.end])
    }

    /// The kind of a token; none where there is none.
    pub fn kind(&self, at: usize) -> Option<Kind> {
        self.all.get(at).map(|token| token.kind)
    }

    /// True if this token is a word.
    pub fn is_word(&self, at: usize) -> bool {
        self.kind(at) == Some(Kind::Word)
    }

    /// The token that closes the bracket which this one opens, or that opens the one which it closes.
    pub fn partner(&self, at: usize) -> Option<usize> {
        let partner = self.partner.get(at).copied();
        partner.filter(|other| *other != usize::MAX)
    }

    /// The tokens of the directive that the token at `at` stands in.
    pub fn directive(&self, at: usize) -> std::ops::Range<usize> {
        let Some(number) = self.all.get(at).map(|token| token.directive) else {
            return at..at;
        };
        let same = |token: &&Token| token.directive == number;
        let before = self.all[..at].iter().rev().take_while(same).count();
        let behind = self.all[at..].iter().take_while(same).count();
        at - before..at + behind
    }

    /// Pairs brackets. Those of a directive pair among themselves.
    fn partners(&self) -> Vec<usize> {
        let mut partner = vec![usize::MAX; self.all.len()];
        let (mut code, mut inner): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut directive = 0;
        for (at, token) in self.all.iter().enumerate() {
            if token.directive != directive {
                directive = token.directive;
                inner.clear();
            }
            let open = match directive {
                0 => &mut code,
                _ => &mut inner,
            };
            let opening = match self.text(at) {
                "(" | "[" | "{" => {
                    open.push(at);
                    continue;
                }
                ")" => "(",
                "]" => "[",
                "}" => "{",
                _ => continue,
            };
            // Branches of a condition may open a bracket twice; a bracket without a partner has none.
            if let Some(last) = open.pop_if(|last| self.text(*last) == opening) {
                partner[last] = at;
                partner[at] = last;
            }
        }
        partner
    }
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c >= 0x80
}

/// The end of the run of bytes from `at` that fulfil a condition.
fn run(bytes: &[u8], at: usize, holds: impl Fn(u8) -> bool) -> usize {
    at + bytes[at..].iter().take_while(|c| holds(**c)).count()
}

/// The place behind the first occurrence of `end` from `at` on, or the end of the source.
fn behind(bytes: &[u8], at: usize, end: &[u8]) -> usize {
    let from = at.min(bytes.len());
    let mut windows = bytes[from..].windows(end.len().max(1));
    windows
        .position(|window| window == end)
        .map_or(bytes.len(), |found| from + found + end.len())
}

/// The end of the line, which a backslash before its end continues.
fn line_end_of_c(bytes: &[u8], mut at: usize) -> usize {
    loop {
        at = run(bytes, at, |c| c != b'\n');
        let before = bytes[..at].strip_suffix(b"\r").unwrap_or(&bytes[..at]);
        if at == bytes.len() || !before.ends_with(b"\\") {
            return at;
        }
        at += 1;
    }
}

/// The end of a string or a character of C, which ends with its line at the latest.
fn text_end_of_c(bytes: &[u8], at: usize) -> usize {
    let quote = bytes[at];
    let mut at = at + 1;
    while at < bytes.len() && bytes[at] != b'\n' {
        match bytes[at] {
            b'\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    at.min(bytes.len())
}

/// The end of a raw string whose prefix ends at `at`, where its quote stands.
fn raw_end(bytes: &[u8], at: usize) -> usize {
    let open = run(bytes, at + 1, |c| c != b'(' && c != b'\n');
    let mut end = vec![b')'];
    end.extend_from_slice(&bytes[at + 1..open]);
    end.push(b'"');
    behind(bytes, open, &end)
}

/// The end of a preprocessing number.
fn number_end_of_c(bytes: &[u8], mut at: usize) -> usize {
    while let Some(c) = bytes.get(at) {
        let next = bytes.get(at + 1).copied().unwrap_or_default();
        at += match c {
            b'e' | b'E' | b'p' | b'P' if matches!(next, b'+' | b'-') => 2,
            b'\'' if next.is_ascii_alphanumeric() => 2,
            c if c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.') => 1,
            _ => break,
        };
    }
    at
}

fn c_family(bytes: &[u8]) -> Vec<Token> {
    let mut found = Vec::new();
    // Only blanks and comments precede on this line.
    let mut at_start = true;
    let (mut directive, mut directives, mut line, mut counted) = (0, 0, 0u32, 0);
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        line += lines(bytes, counted, at);
        counted = at;
        let (kind, end) = match &bytes[at..] {
            [b'\n', ..] => {
                directive = 0;
                at_start = true;
                at += 1;
                continue;
            }
            [b'\\', b'\n', ..] => {
                at += 2;
                continue;
            }
            [b'\\', b'\r', b'\n', ..] => {
                at += 3;
                continue;
            }
            [b'/', b'/', ..] => {
                at = line_end_of_c(bytes, at);
                continue;
            }
            [b'/', b'*', ..] => {
                at = behind(bytes, at + 2, b"*/");
                continue;
            }
            [c, ..] if c.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            [b'"' | b'\'', ..] => (Kind::Text, text_end_of_c(bytes, at)),
            [b'.', b'0'..=b'9', ..] | [b'0'..=b'9', ..] => {
                (Kind::Number, number_end_of_c(bytes, at))
            }
            [c, ..] if is_word(*c) => {
                let end = run(bytes, at, is_word);
                let is_prefix = matches!(&bytes[at..end], b"R" | b"LR" | b"uR" | b"UR" | b"u8R");
                match is_prefix && bytes.get(end) == Some(&b'"') {
                    true => (Kind::Text, raw_end(bytes, end)),
                    false => (Kind::Word, end),
                }
            }
            [b'#', ..] if at_start => {
                directives += 1;
                directive = directives;
                (Kind::Sign, at + 1)
            }
            _ => (Kind::Sign, at + 1),
        };
        at_start = false;
        at = end;
        found.push(Token {
            kind,
            start,
            end,
            line,
            directive,
        });
    }
    found
}

/// Number of lines that end between two places.
fn lines(bytes: &[u8], from: usize, to: usize) -> u32 {
    let ends = bytes[from..to].iter().filter(|c| **c == b'\n').count();
    u32::try_from(ends).unwrap_or(u32::MAX)
}

/// Columns of a fixed form before its statements, and those with its statements.
const MARGIN: usize = 6;
const WIDTH: usize = 72;
/// A comment with these letters is a hint to the compiler.
const HINT: &[u8] = b"!gcc$";

fn fortran(bytes: &[u8], fixed: bool) -> Vec<Token> {
    let mut found = Vec::new();
    let (mut number, mut directives) = (0u32, 0u32);
    let mut from = 0;
    while from < bytes.len() {
        let end = run(bytes, from, |c| c != b'\n');
        let mut width = match fixed {
            true => end.min(from + WIDTH),
            false => end,
        };
        // A character is not cut.
        while width < end && bytes[width] & 0xc0 == 0x80 {
            width -= 1;
        }
        let text = &bytes[from..width];
        let is_hint = |at: usize| {
            text.get(at..at + HINT.len())
                .is_some_and(|head| head.eq_ignore_ascii_case(HINT))
        };
        let margin = &text[..MARGIN.min(text.len())];
        let is_comment = fixed
            && !is_hint(0)
            && (margin.first().is_some_and(|c| b"cC*dD!".contains(c)) || margin.contains(&b'!'));
        let mut at = match fixed {
            _ if is_comment => text.len(),
            true if !is_hint(0) && margin.is_ascii() => margin.len(),
            _ => 0,
        };
        let mut directive = 0;
        while at < text.len() {
            let start = at;
            let (kind, end) = match &text[at..] {
                [b'!', ..] if is_hint(at) => {
                    directives += 1;
                    directive = directives;
                    (Kind::Sign, at + 1)
                }
                [b'!', ..] => break,
                [quote @ (b'"' | b'\''), ..] => {
                    let close = run(text, at + 1, |c| c != *quote);
                    // A doubled quote begins another text at once, which changes nothing here.
                    (Kind::Text, (close + 1).min(text.len()))
                }
                [b'0'..=b'9', ..] => (Kind::Number, number_end_of_fortran(text, at)),
                [c, ..] if is_word(*c) => (Kind::Word, run(text, at, is_word)),
                [c, ..] if c.is_ascii_whitespace() => {
                    at += 1;
                    continue;
                }
                _ => (Kind::Sign, at + 1),
            };
            at = end;
            found.push(Token {
                kind,
                start: from + start,
                end: from + end,
                line: number,
                directive,
            });
        }
        number = number.saturating_add(1);
        from = end + 1;
    }
    found
}

/// The end of a number of Fortran. `1.eq.n` begins with the number 1.
fn number_end_of_fortran(text: &[u8], at: usize) -> usize {
    let mut end = run(text, at, |c| c.is_ascii_digit());
    if text.get(end) == Some(&b'.') {
        let letters = run(text, end + 1, |c| c.is_ascii_alphabetic());
        if letters > end + 1 && text.get(letters) == Some(&b'.') {
            return end;
        }
        end = run(text, end + 1, |c| c.is_ascii_digit());
    }
    if matches!(text.get(end), Some(b'e' | b'E' | b'd' | b'D')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let digits = run(text, (end + 1 + sign).min(text.len()), |c| {
            c.is_ascii_digit()
        });
        if digits > end + 1 + sign {
            end = digits;
        }
    }
    match text.get(end) {
        Some(b'_') => run(text, end, is_word),
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(source: &str, language: Language) -> Vec<&str> {
        let tokens = Tokens::of(source, language);
        (0..tokens.all.len()).map(|at| tokens.text(at)).collect()
    }

    #[test]
    fn comments_have_no_tokens_and_texts_are_one() {
        let source = "a /* 1 // */ 2 // 3 \\\n 4\n\"5 \\\" 6\" '7' R\"x(8)\" 9)x\" 0x1p-3f 1'000;\n#define B \\\n 10\nb";
        let found = texts(source, Language::Cxx);
        let wanted = [
            "a",
            "2",
            "\"5 \\\" 6\"",
            "'7'",
            "R\"x(8)\" 9)x\"",
            "0x1p-3f",
            "1'000",
            ";",
            "#",
            "define",
            "B",
            "10",
            "b",
        ];
        assert_eq!(found, wanted);
        let tokens = Tokens::of(source, Language::Cxx);
        let inside: Vec<&str> = (0..found.len())
            .filter(|at| tokens.all[*at].directive == 1)
            .map(|at| tokens.text(at))
            .collect();
        assert_eq!(inside, ["#", "define", "B", "10"]);
        assert_eq!(tokens.directive(9), 8..12);
    }

    #[test]
    fn fortran_has_comments_hints_texts_and_columns() {
        let source = "do i = 1, n, 8 ! by 9\n!GCC$ unroll 4\nx = 'it''s 5' // \"6\"; y = 1.5d0 + 2_c_int\nif (7.eq.n) z = 3.\n";
        let found = texts(source, Language::Fortran);
        for word in ["8", "4", "1.5d0", "2_c_int", "7", "3."] {
            assert!(found.contains(&word), "{word}: {found:?}");
        }
        for word in ["9", "5", "6"] {
            assert!(!found.contains(&word), "{word}: {found:?}");
        }
        let fixed = "c     a 1\n   10 do 20 i = 1, n, 8\n     2   + 3\n";
        let found = texts(fixed, Language::Fortran77);
        assert_eq!(
            found,
            ["do", "20", "i", "=", "1", ",", "n", ",", "8", "+", "3"]
        );
        assert!(texts("for x in range(8): pass", Language::Python).is_empty());
    }

    #[test]
    fn brackets_pair_and_those_of_a_directive_pair_among_themselves() {
        let source = "f(a[1], {2});\n#define O (\n#if X\n{\n#else\n{\n#endif\n}";
        let tokens = Tokens::of(source, Language::C);
        let place = |text: &str| (0..).find(|at| tokens.text(*at) == text).expect("a token");
        assert_eq!(tokens.partner(place("(")), Some(place(")")));
        assert_eq!(tokens.partner(place("]")), Some(place("[")));
        assert_eq!(tokens.partner(place("f")), None);
        let lone = tokens.all.iter().rposition(|token| token.directive == 1);
        assert_eq!(lone.and_then(|at| tokens.partner(at)), None);
    }

    proptest! {
        #[test]
        fn tokens_follow_each_other_within_any_text(source in "\\PC{0,40}|[a-z0-9 \"'#!/*.()\\\\\n\r\u{e9}R]{0,120}") {
            for language in [Language::C, Language::Cxx, Language::Fortran, Language::Fortran77] {
                let tokens = Tokens::of(&source, language);
                let mut end = 0;
                for (at, token) in tokens.all.iter().enumerate() {
                    prop_assert!(token.start >= end && token.end > token.start);
                    prop_assert!(!tokens.text(at).is_empty());
                    end = token.end;
                }
            }
        }
    }
}
