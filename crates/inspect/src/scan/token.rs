//! C tokens.

use std::collections::BTreeMap;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A name or keyword.
    Word,
    /// A number as the preprocessor sees it.
    Number,
    /// String and character literals.
    Text,
    /// One sign of punctuation.
    Sign,
}

/// A token and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// The token's kind.
    pub kind: Kind,
    /// The token's text.
    pub text: &'a str,
    /// Offset of the token's first byte.
    pub at: usize,
}

/// The tokens of `text`, which must contain no comments and no continuation lines.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut found = Vec::with_capacity(text.len() / 3);
    let mut at = 0;
    while at < bytes.len() {
        let c = bytes[at];
        let (kind, end) = match c {
            b' ' | b'\t' | b'\n' | b'\r' | b'\x0b' | b'\x0c' => {
                at += 1;
                continue;
            }
            _ if is_word_start(c) => (Kind::Word, run(bytes, at, is_word)),
            b'0'..=b'9' => (Kind::Number, number(bytes, at)),
            b'.' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                (Kind::Number, number(bytes, at))
            }
            b'"' | b'\'' => (Kind::Text, literal(bytes, at)),
            _ => (Kind::Sign, sign(bytes, at)),
        };
        found.push(Token {
            kind,
            text: &text[at..end],
            at,
        });
        at = end;
    }
    found
}

/// Letters, `_`, `$`, anything beyond ASCII, and the backslash of `\u`, so that an identifier stays one token.
fn is_word_start(c: u8) -> bool {
    c.is_ascii_alphabetic() || matches!(c, b'_' | b'$' | b'\\') || c >= 0x80
}

fn is_word(c: u8) -> bool {
    is_word_start(c) || c.is_ascii_digit()
}

fn run(bytes: &[u8], from: usize, belongs: fn(u8) -> bool) -> usize {
    bytes[from..]
        .iter()
        .position(|c| !belongs(*c))
        .map_or(bytes.len(), |n| from + n)
}

/// The end of a preprocessing number: letters, digits, points, and a sign after an exponent's letter.
fn number(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while let Some(c) = bytes.get(at) {
        let exponent = matches!(bytes[at - 1], b'e' | b'E' | b'p' | b'P');
        if is_word(*c) || *c == b'.' || (matches!(c, b'+' | b'-') && exponent) {
            at += 1;
        } else {
            break;
        }
    }
    at
}

fn literal(bytes: &[u8], from: usize) -> usize {
    let quote = bytes[from];
    let mut at = from + 1;
    while let Some(c) = bytes.get(at) {
        match *c {
            b'\n' => return at,
            b'\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    // A backslash may stand before the end of the text or before a character of several bytes.
    bytes.len()
}

/// The end of a sign. Signs of several characters are kept whole only where their parts would be mistaken for other
/// signs.
fn sign(bytes: &[u8], at: usize) -> usize {
    const LONG: [&[u8]; 22] = [
        b"<<=", b">>=", b"...", b"->", b"++", b"--", b"<<", b">>", b"<=", b">=", b"==", b"!=",
        b"&&", b"||", b"*=", b"/=", b"%=", b"+=", b"-=", b"&=", b"^=", b"|=",
    ];
    let rest = &bytes[at..];
    LONG.iter()
        .find(|s| rest.starts_with(s))
        .map_or(at + 1, |s| at + s.len())
}

/// Brackets within so many others are refused. Programmers nest a tenth of them, and clang takes no more by default.
pub const DEEPEST: usize = 256;

/// The offset of the first bracket that lies within [`DEEPEST`] others. A bracket without a partner counts as an open one.
pub fn too_deep(all: &[Token<'_>]) -> Option<usize> {
    let mut depth = 0usize;
    all.iter().find_map(|token| {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth > DEEPEST).then_some(token.at)
    })
}

/// Maps the index of each opening sign to that of its closing sign.
pub fn partners(all: &[Token<'_>], open: &str, close: &str) -> BTreeMap<usize, usize> {
    let mut stack = Vec::new();
    let mut found = BTreeMap::new();
    for (at, token) in all.iter().enumerate() {
        if token.text == open {
            stack.push(at);
        } else if token.text == close
            && let Some(start) = stack.pop()
        {
            found.insert(start, at);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_counted_as_they_nest() {
        let nested = |levels: usize| {
            let open = "([{".repeat(levels / 3) + &"(".repeat(levels % 3);
            let close = ")".repeat(levels % 3) + &"}])".repeat(levels / 3);
            format!("{open}{close}")
        };
        for text in [
            nested(DEEPEST),
            nested(DEEPEST).repeat(20),
            "){".repeat(2000),
            "\"((\"".repeat(2000),
        ] {
            assert_eq!(too_deep(&tokens(&text)), None, "{text:.40}");
        }
        for text in [nested(DEEPEST + 1), "x ({".repeat(2000)] {
            let found =
                too_deep(&tokens(&text)).map(|at| text[..at].matches(['(', '[', '{']).count());
            assert_eq!(found, Some(DEEPEST), "{text:.40}");
        }
        let all = tokens("( ) ) ( ( )");
        let pairs: Vec<_> = partners(&all, "(", ")").into_iter().collect();
        assert_eq!(pairs, [(0, 1), (4, 5)]);
    }

    #[test]
    fn tokens_stay_whole() {
        let texts: Vec<_> = tokens("x+=1.5e-3*a[i]->b\"q\\\"r\";__asm__ 'c'")
            .iter()
            .map(|t| t.text)
            .collect();
        let expected = [
            "x",
            "+=",
            "1.5e-3",
            "*",
            "a",
            "[",
            "i",
            "]",
            "->",
            "b",
            "\"q\\\"r\"",
            ";",
            "__asm__",
            "'c'",
        ];
        assert_eq!(texts, expected);
    }

    proptest::proptest! {
        #[test]
        fn tokens_cover_everything_but_blanks(text in "\\PC{0,60}") {
            let mut last = 0;
            for token in tokens(&text) {
                proptest::prop_assert!(text[last..token.at].trim().is_empty());
                last = token.at + token.text.len();
            }
            proptest::prop_assert!(text[last..].trim().is_empty());
        }
    }
}
