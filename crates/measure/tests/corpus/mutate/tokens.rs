//! Cuts C text into pieces, as finely as renaming needs it.

/// The kind of a piece of C text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Word,
    /// A line of the preprocessor with its continuation lines, without its line feed.
    Directive,
    /// Literals, comments, blanks, punctuation.
    Other,
}

/// The pieces of a source in order; joined, they are the source.
pub fn pieces(source: &str) -> Vec<(Kind, &str)> {
    let mut found = Vec::new();
    let mut rest = source;
    let mut at_line_start = true;
    while !rest.is_empty() {
        let (kind, length) = first(rest, at_line_start);
        let (piece, behind) = rest.split_at(length);
        at_line_start = match piece.trim_end_matches([' ', '\t']) {
            "" => at_line_start,
            text => text.ends_with('\n'),
        };
        found.push((kind, piece));
        rest = behind;
    }
    found
}

fn first(rest: &str, at_line_start: bool) -> (Kind, usize) {
    let mut letters = rest.chars();
    let letter = letters.next().unwrap_or(' ');
    let second = letters.next();
    let until = |end: &str, from: usize| {
        rest[from..]
            .find(end)
            .map_or(rest.len(), |at| from + at + end.len())
    };
    match (letter, second) {
        ('#', _) | ('%', Some(':')) if at_line_start => (Kind::Directive, line(rest)),
        ('/', Some('/')) => (Kind::Other, line(rest)),
        ('/', Some('*')) => (Kind::Other, until("*/", 2)),
        ('"' | '\'', _) => (Kind::Other, literal(rest, letter)),
        _ if letter.is_alphabetic() || letter == '_' => {
            let word = |c: char| !(c.is_alphanumeric() || c == '_' || c == '$');
            (Kind::Word, rest.find(word).unwrap_or(rest.len()))
        }
        _ if letter.is_ascii_digit() => (Kind::Other, number(rest)),
        _ => (Kind::Other, letter.len_utf8()),
    }
}

/// Up to the end of the first line, with its continuation lines.
fn line(rest: &str) -> usize {
    let mut from = 0;
    while let Some(at) = rest[from..].find('\n') {
        let end = from + at;
        if !rest[..end]
            .trim_end_matches([' ', '\t', '\r'])
            .ends_with('\\')
        {
            return end;
        }
        from = end + 1;
    }
    rest.len()
}

/// A number with the marks that C++ permits between its digits.
fn number(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let goes_on = |at: &usize| match bytes[*at] {
        b'.' | b'_' => true,
        b'\'' => bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric),
        letter => letter.is_ascii_alphanumeric(),
    };
    (0..bytes.len())
        .find(|at| !goes_on(at))
        .unwrap_or(bytes.len())
}

fn literal(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[test]
fn pieces_are_the_whole_text() {
    let source =
        "#define A \\\n b\nint x = 'c'; // d\nchar *s = \"e\\\"f\"; /* g */ double y2 = 1e3;";
    let cut = pieces(source);
    assert_eq!(cut.iter().map(|p| p.1).collect::<String>(), source);
    let words: Vec<&str> = cut
        .iter()
        .filter(|p| p.0 == Kind::Word)
        .map(|p| p.1)
        .collect();
    assert_eq!(words, ["int", "x", "char", "s", "double", "y2"]);
    assert_eq!(cut[0], (Kind::Directive, "#define A \\\n b"));
}

#[test]
fn pieces_end_where_the_compiler_ends_them() {
    for (source, expected) in [
        ("// a \\\n b\nc", "// a \\\n b|\n|c"),
        ("#define A \\\r\n b\r\nc", "#define A \\\r\n b\r|\n|c"),
        ("%:define A\n%:", "%:define A|\n|%:"),
        ("1'000+'0'", "1'000|+|'0'"),
        ("größe=β", "größe|=|β"),
    ] {
        let cut: Vec<&str> = pieces(source).iter().map(|p| p.1).collect();
        assert_eq!(cut.join("|"), expected);
    }
}
