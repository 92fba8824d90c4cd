//! Identity of two sources as program texts: comments and layout do not count.

use flopsmith_protocol::Digest;

/// The digest of the normalised text of a source. A module of PyTorch keeps its text: in Python layout has a meaning, and `//`
/// divides.
pub fn source_digest(source: &str) -> Digest {
    match imports_torch(source) {
        true => Digest::of(source.as_bytes()),
        false => Digest::of(normalise(source).as_bytes()),
    }
}

/// True for a module of PyTorch. No compiler of another language accepts such a line.
fn imports_torch(source: &str) -> bool {
    let mut lines = source.lines();
    lines.any(|line| line.starts_with("import torch") || line.starts_with("from torch"))
}

/// A C source without comments and without white space that separates nothing.
///
/// Sources that differ only in layout have the same normal form. Names and the order of statements stay, so a program
/// with renamed identifiers is another one.
pub fn normalise(source: &str) -> String {
    let bare = strip_comments(&source.replace("\r\n", "\n").replace("\\\n", ""));
    let mut out = String::with_capacity(bare.len());
    for line in bare.lines().map(str::trim).filter(|l| !l.is_empty()) {
        if line.starts_with('#') {
            // A directive ends with its line, and `#define f (x)` is not `#define f(x)`.
            if !out.is_empty() && !out.ends_with('\n') {
                out.push('\n');
            }
            collapse(line, &mut out);
            out.push('\n');
        } else {
            if !out.ends_with('\n') && !out.is_empty() {
                join(' ', &mut out);
            }
            squeeze(line, &mut out);
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Each comment becomes one space, as in the language; literals stay as they are.
fn strip_comments(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut chars = source.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '/' if chars.peek() == Some(&'/') => {
                while chars.peek().is_some_and(|c| *c != '\n') {
                    chars.next();
                }
                out.push(' ');
            }
            '/' if chars.peek() == Some(&'*') => {
                chars.next();
                let mut before = ' ';
                for c in chars.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
                out.push(' ');
            }
            '"' | '\'' => {
                out.push(c);
                literal(c, &mut chars, |c| out.push(c));
            }
            _ => out.push(c),
        }
    }
    out
}

/// Copies the rest of a string or character literal; an unclosed one ends with its line.
fn literal(
    quote: char,
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    mut emit: impl FnMut(char),
) {
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        emit(c);
        if c == quote {
            return;
        }
        if c == '\\'
            && let Some(escaped) = chars.next_if(|c| *c != '\n')
        {
            emit(escaped);
        }
    }
}

/// White space runs become one space.
fn collapse(line: &str, out: &mut String) {
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            if !out.ends_with(' ') {
                out.push(' ');
            }
            continue;
        }
        out.push(c);
        if c == '"' || c == '\'' {
            literal(c, &mut chars, |c| out.push(c));
        }
    }
}

/// Removes white space between characters that stay separate tokens without it.
fn squeeze(line: &str, out: &mut String) {
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            join(' ', out);
            continue;
        }
        if let Some(before) = out.strip_suffix(' ')
            && !before
                .chars()
                .next_back()
                .is_some_and(|b| would_merge(b, c))
        {
            out.pop();
        }
        out.push(c);
        if c == '"' || c == '\'' {
            literal(c, &mut chars, |c| out.push(c));
        }
    }
}

/// Adds a separator unless one is there.
fn join(separator: char, out: &mut String) {
    if !out.ends_with(separator) && !out.ends_with('\n') {
        out.push(separator);
    }
}

/// True if two characters could become one token when nothing stands between them.
fn would_merge(a: char, b: char) -> bool {
    // A dot belongs to numbers, and a quote to a prefix such as `L`.
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '"' | '\'');
    (word(a) && word(b))
        || matches!(
            (a, b),
            ('+', '+' | '=')
                | ('-', '-' | '=' | '>')
                | ('/', '/' | '*' | '=')
                | ('*' | '^' | '=' | '!', '=')
                | ('%', '=' | '>' | ':')
                | ('&', '&' | '=')
                | ('|', '|' | '=')
                | ('<', '<' | '=' | ':' | '%')
                | ('>', '>' | '=')
                | (':', '>' | ':')
                | ('#', '#')
        )
}
