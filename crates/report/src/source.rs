//! C source with its words marked for colouring, for readers and not for a compiler: any text is accepted.

use crate::text::escape;

const KEYWORDS: &[&str] = &[
    "auto",
    "break",
    "case",
    "const",
    "continue",
    "default",
    "do",
    "else",
    "enum",
    "extern",
    "for",
    "goto",
    "if",
    "inline",
    "register",
    "restrict",
    "return",
    "sizeof",
    "static",
    "struct",
    "switch",
    "typedef",
    "union",
    "volatile",
    "while",
    "_Alignas",
    "_Alignof",
    "_Atomic",
    "_Generic",
    "_Pragma",
    "_Static_assert",
    "__attribute__",
    "__restrict",
    "__restrict__",
];
const TYPES: &[&str] = &[
    "void",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "unsigned",
    "_Bool",
    "bool",
    "size_t",
    "ptrdiff_t",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "intptr_t",
    "uintptr_t",
    "__m128d",
    "__m256d",
    "__m512d",
    "__m128i",
    "__m256i",
    "__m512i",
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    Comment,
    Directive,
    Text,
    Number,
    Keyword,
    Type,
    Call,
}

impl Kind {
    fn class(self) -> Option<&'static str> {
        match self {
            Kind::Plain => None,
            Kind::Comment => Some("c"),
            Kind::Directive => Some("p"),
            Kind::Text => Some("t"),
            Kind::Number => Some("n"),
            Kind::Keyword => Some("k"),
            Kind::Type => Some("y"),
            Kind::Call => Some("f"),
        }
    }
}

/// Source as a `pre` with numbered lines. Each line is a separate element, so that numbers are not copied with the
/// text.
pub fn html(source: &str) -> String {
    let mut out = String::from("<pre class=\"code\" tabindex=\"0\"><code><span class=\"ln\">");
    for (kind, text) in tokens(source) {
        // A token that spans lines is closed and reopened at each line, which keeps the tags nested.
        for (i, part) in text.split('\n').enumerate() {
            if i > 0 {
                out.push_str("</span>\n<span class=\"ln\">");
            }
            match kind.class() {
                Some(class) if !part.is_empty() => {
                    out.push_str(&format!("<span class=\"{class}\">{}</span>", escape(part)));
                }
                _ => out.push_str(&escape(part)),
            }
        }
    }
    out.push_str("</span></code></pre>");
    out
}

/// Splits source into pieces whose concatenation is the source.
fn tokens(source: &str) -> Vec<(Kind, &str)> {
    let mut out = Vec::new();
    let mut rest = source.strip_suffix('\n').unwrap_or(source);
    let mut line_start = true;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = next(rest, first, line_start);
        let (piece, tail) = rest.split_at(length);
        line_start = match piece.rfind('\n') {
            Some(at) => piece[at..].trim().is_empty(),
            None => line_start && piece.trim().is_empty(),
        };
        out.push((kind, piece));
        rest = tail;
    }
    out
}

/// Kind and length in bytes (at least that of `first`) of the first piece of `rest`.
fn next(rest: &str, first: char, line_start: bool) -> (Kind, usize) {
    let until = |end: usize| if end == 0 { first.len_utf8() } else { end };
    let run = |f: &dyn Fn(char) -> bool| until(rest.find(|c| !f(c)).unwrap_or(rest.len()));
    if first.is_whitespace() {
        return (Kind::Plain, run(&|c| c.is_whitespace()));
    }
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if let Some(inside) = rest.strip_prefix("/*") {
        return (
            Kind::Comment,
            inside.find("*/").map_or(rest.len(), |e| e + 4),
        );
    }
    if first == '#' && line_start {
        return (Kind::Directive, directive(rest));
    }
    if first == '"' || first == '\'' {
        return (Kind::Text, quoted(rest, first));
    }
    if first.is_ascii_digit()
        || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
    {
        return (Kind::Number, number(rest));
    }
    if first.is_alphabetic() || first == '_' {
        let length = run(&|c| c.is_alphanumeric() || c == '_');
        let word = &rest[..length];
        let kind = if KEYWORDS.contains(&word) {
            Kind::Keyword
        } else if TYPES.contains(&word) {
            Kind::Type
        } else if rest[length..].trim_start_matches(' ').starts_with('(') {
            Kind::Call
        } else {
            Kind::Plain
        };
        return (kind, length);
    }
    (Kind::Plain, first.len_utf8())
}

/// The end of a directive: its line's, unless the line ends in a backslash.
fn directive(rest: &str) -> usize {
    let mut from = 0;
    while let Some(at) = rest[from..].find('\n') {
        let end = from + at;
        if !rest[..end].ends_with('\\') {
            return end;
        }
        from = end + 1;
    }
    rest.len()
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (i, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return i,
            c if c == quote => return i + 1,
            _ => {}
        }
    }
    rest.len()
}

fn number(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let sign_of_exponent =
            matches!(bytes[i], b'+' | b'-') && i > 0 && matches!(bytes[i - 1] | 32, b'e' | b'p');
        if !(bytes[i].is_ascii_alphanumeric() || bytes[i] == b'.' || sign_of_exponent) {
            break;
        }
        i += 1;
    }
    i
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds(source: &str) -> Vec<(Kind, &str)> {
        tokens(source)
            .into_iter()
            .filter(|(k, _)| *k != Kind::Plain)
            .collect()
    }

    #[test]
    fn words_of_c() {
        assert_eq!(
            kinds("#pragma GCC unroll 2\nfor(int k=0;k<n;k++)f(a,1.5e-3); // done\n"),
            [
                (Kind::Directive, "#pragma GCC unroll 2"),
                (Kind::Keyword, "for"),
                (Kind::Type, "int"),
                (Kind::Number, "0"),
                (Kind::Call, "f"),
                (Kind::Number, "1.5e-3"),
                (Kind::Comment, "// done"),
            ]
        );
        assert_eq!(
            kinds("a # b"),
            [],
            "a hash inside a line begins no directive"
        );
        assert_eq!(
            kinds("#define A \\\n  1\nint"),
            [(Kind::Directive, "#define A \\\n  1"), (Kind::Type, "int")]
        );
        assert_eq!(
            kinds("'\\'' \"a\\\"b\""),
            [(Kind::Text, "'\\''"), (Kind::Text, "\"a\\\"b\"")]
        );
    }

    #[test]
    fn a_comment_over_lines_is_marked_in_each() {
        let page = html("/* a\nb */x");
        assert!(page.contains(
            "<span class=\"ln\"><span class=\"c\">/* a</span></span>\n<span class=\"ln\"><span class=\"c\">b */</span>x</span>"
        ), "{page}");
    }

    proptest! {
        #[test]
        fn the_pieces_are_the_source(source in "[a-z0-9_ .#'\"/*\\\\\n\t(){}<>&;é-]{0,200}") {
            let whole: String = tokens(&source).into_iter().map(|t| t.1).collect();
            prop_assert_eq!(&whole, source.strip_suffix('\n').unwrap_or(&source));
        }

        #[test]
        fn nothing_of_any_text_becomes_a_tag(source in any::<String>()) {
            let page = html(&source);
            let tags: Vec<&str> = page.split('<').skip(1).map(|t| t.split('>').next().unwrap_or_default()).collect();
            for tag in tags {
                let known = tag.starts_with("span class=\"") || ["/span", "/code", "/pre", "code"].contains(&tag)
                    || tag.starts_with("pre class=");
                prop_assert!(known, "{}", tag);
            }
        }
    }
}
