//! C text cut into pieces, as far as rewriting names needs it.

/// What a piece of C text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Word,
    /// A line of the preprocessor with all lines it goes on in, without its line feed.
    Directive,
    /// Literals, comments, blanks, punctuation.
    Other,
}

/// The pieces of a source in their order; together they are the source.
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
        ('#', _) if at_line_start => (Kind::Directive, directive(rest)),
        ('/', Some('/')) => (Kind::Other, rest.find('\n').unwrap_or(rest.len())),
        ('/', Some('*')) => (Kind::Other, until("*/", 2)),
        ('"' | '\'', _) => (Kind::Other, literal(rest, letter)),
        _ if letter.is_ascii_alphabetic() || letter == '_' => {
            let word = |c: char| !(c.is_alphanumeric() || c == '_' || c == '$');
            (Kind::Word, rest.find(word).unwrap_or(rest.len()))
        }
        _ if letter.is_ascii_digit() => {
            let number = |c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_');
            (Kind::Other, rest.find(number).unwrap_or(rest.len()))
        }
        _ => (Kind::Other, letter.len_utf8()),
    }
}

fn directive(rest: &str) -> usize {
    let mut from = 0;
    while let Some(at) = rest[from..].find('\n') {
        if !rest[..from + at].ends_with('\\') {
            return from + at;
        }
        from += at + 1;
    }
    rest.len()
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
