//! The first phases of translation: joins lines, removes comments, separates directives.

/// A line as the preprocessor sees it: continuation lines are joined, and each comment is a space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The line of the file on which this line begins, from 1.
    pub number: u32,
    /// The line's text.
    pub text: String,
    /// True if a raw string (`R"(`, a GNU C extension) begins here. Its end does not follow the rules of plain strings.
    pub raw_string: bool,
    /// The kind of a quotation mark that follows a number.
    pub quote: Option<Quote>,
}

/// A `'` directly after a number. Some standards read it as a digit separator, others as the beginning of a literal,
/// which then hides the text after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quote {
    /// `1'000`, which C++ and later standards of C read as 1000. The mark is not in the line's text.
    Separator,
    /// A mark that compilers read differently.
    Unclear,
}

/// The token to which the last characters outside of literals belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Nothing,
    Dot,
    Word,
    /// A preprocessing number: `1.5e-3f`, `0x1p+4`, `1..x`.
    Number,
}

impl Within {
    /// The state after one more character `c`; `last` is the character before it.
    fn after(self, c: char, last: Option<char>) -> Self {
        let letter = c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '\\') || !c.is_ascii();
        let exponent = matches!(last, Some('e' | 'E' | 'p' | 'P'));
        match self {
            Within::Number if letter || c == '.' || (matches!(c, '+' | '-') && exponent) => {
                Within::Number
            }
            Within::Word if letter => Within::Word,
            _ if c.is_ascii_digit() => Within::Number,
            _ if letter => Within::Word,
            _ if c == '.' => Within::Dot,
            _ => Within::Nothing,
        }
    }
}

impl Line {
    /// The text after `#` (or its digraph `%:`) if this line is a directive.
    pub fn directive(&self) -> Option<&str> {
        let text = self.text.trim_start();
        text.strip_prefix('#')
            .or_else(|| text.strip_prefix("%:"))
            .map(str::trim_start)
    }
}

/// Splits a source into logical lines.
pub fn lines(source: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let fresh = |number: u32| Line {
        number,
        text: String::new(),
        raw_string: false,
        quote: None,
    };
    let mut line = fresh(1);
    let mut within = Within::Nothing;
    let mut number = 1;
    let mut rest = Splicer {
        text: source,
        number: &mut number,
    };
    while let Some(c) = rest.next() {
        if c == '\'' && within == Within::Number {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let between = rest.peek().is_some_and(plain) && line.text.ends_with(plain);
            let found = if between {
                Quote::Separator
            } else {
                Quote::Unclear
            };
            line.quote = line.quote.max(Some(found));
            if between {
                continue;
            }
        }
        let last = line.text.chars().next_back();
        let next = within.after(c, last);
        // Compilers differ in the letters of other alphabets, and in the letters written as codes, that continue a
        // number.
        let odd = matches!(c, '$' | '\\') || !c.is_ascii();
        if next == Within::Number && odd {
            line.quote = Some(Quote::Unclear);
        }
        within = next;
        match c {
            '\n' => lines.push(std::mem::replace(&mut line, fresh(*rest.number))),
            '/' if rest.peek() == Some('*') => {
                rest.next();
                let mut last = ' ';
                while let Some(c) = rest.next() {
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
                line.text.push(' ');
            }
            '/' if rest.peek() == Some('/') => {
                while rest.peek().is_some_and(|c| c != '\n') {
                    rest.next();
                }
                line.text.push(' ');
            }
            '"' | '\'' => {
                line.raw_string |= c == '"' && ends_with_raw_prefix(&line.text);
                line.text.push(c);
                while let Some(inner) = rest.peek() {
                    if inner == '\n' {
                        break;
                    }
                    rest.next();
                    line.text.push(inner);
                    if inner == c {
                        break;
                    }
                    if inner == '\\'
                        && let Some(escaped) = rest.peek()
                        && escaped != '\n'
                    {
                        rest.next();
                        line.text.push(escaped);
                    }
                }
            }
            '\r' | '\x0b' | '\x0c' => line.text.push(' '),
            c => line.text.push(c),
        }
    }
    lines.push(line);
    lines
}

/// True if a quotation mark after this text begins a raw string.
fn ends_with_raw_prefix(text: &str) -> bool {
    let word = text
        .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))
        .map_or(text, |at| {
            text[at..].trim_start_matches(|c: char| !c.is_alphanumeric())
        });
    matches!(word, "R" | "LR" | "uR" | "UR" | "u8R")
}

/// The characters of a source, with continuation lines joined.
struct Splicer<'a, 'n> {
    text: &'a str,
    number: &'n mut u32,
}

impl Splicer<'_, '_> {
    /// Skips a backslash, blanks and a line end: compilers join lines even with blanks between.
    fn splice(&mut self) {
        while let Some(after) = self.text.strip_prefix('\\') {
            let end = after.trim_start_matches([' ', '\t', '\r', '\x0b', '\x0c']);
            let Some(next) = end.strip_prefix('\n') else {
                return;
            };
            self.text = next;
            *self.number += 1;
        }
    }

    fn peek(&mut self) -> Option<char> {
        self.splice();
        self.text.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.text = &self.text[c.len_utf8()..];
        if c == '\n' {
            *self.number += 1;
        }
        Some(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<(u32, String)> {
        lines(source)
            .into_iter()
            .map(|l| (l.number, l.text))
            .collect()
    }

    #[test]
    fn comments_and_continuations_go() {
        let source = "a/*x\ny*/b\n#def\\\nine X \"/*no*/\" // t\\\nt\nc";
        let expected =
            [(1, "a b"), (3, "#define X \"/*no*/\"  "), (6, "c")].map(|(n, t)| (n, t.to_owned()));
        assert_eq!(texts(source), expected);
    }

    #[test]
    fn raw_strings_are_noticed_where_they_begin() {
        for (source, begins) in [
            ("x = R\"(/*)\";", true),
            ("x = u8R\"(\"", true),
            ("(LR\"(\"", true),
            ("R\"(\"", true),
            ("R\\\n\"(\"", true),
            ("x = \"R\";", false),
            ("VAR\"x\"", false),
            ("/* R\" */ int x;", false),
            ("'R' \"x\"", false),
        ] {
            let found = lines(source).iter().any(|l| l.raw_string);
            assert_eq!(found, begins, "{source}");
        }
    }

    #[test]
    fn marks_between_digits_are_taken_out_and_others_noticed() {
        let unclear = Some(Quote::Unclear);
        for (source, text, quote) in [
            ("x = 1'000'000;", "x = 1000000;", Some(Quote::Separator)),
            ("0x1'f + '0'", "0x1f + '0'", Some(Quote::Separator)),
            ("1'0; /* ' */ y", "10;   y", Some(Quote::Separator)),
            ("1\\\n'0 \"'\"", "10 \"'\"", Some(Quote::Separator)),
            ("1.5e-3'0", "1.5e-30", Some(Quote::Separator)),
            (".5'0", ".50", Some(Quote::Separator)),
            ("x1'a'", "x1'a'", None),
            ("L'a' u8'b' '\\'' 1 + '0'", "L'a' u8'b' '\\'' 1 + '0'", None),
            ("a+'0'-'1'", "a+'0'-'1'", None),
            ("e+'0'", "e+'0'", None),
            ("/* 1'0 */ \"1'0\"", "  \"1'0\"", None),
            ("1' '", "1' '", unclear),
            ("1'\"'", "1'\"'", unclear),
            ("1e+'0'", "1e+'0'", unclear),
            ("1.'0'", "1.'0'", unclear),
            ("1$'0'", "1$0'", unclear),
            ("1\u{e9}'0'", "1\u{e9}'0'", unclear),
            ("1\\'0'", "1\\'0'", unclear),
        ] {
            let found = &lines(source)[0];
            assert_eq!(found.quote, quote, "{source}");
            if quote != unclear {
                assert_eq!(found.text, text, "{source}");
            }
        }
    }

    #[test]
    fn directives_hide_behind_comments_and_digraphs() {
        for source in [
            "/* a\n*/ # include <x>",
            " %: include <x>",
            "\\\n#include <x>",
            "\\  \n#include <x>",
        ] {
            let found = lines(source);
            let directive = found.iter().find_map(Line::directive).map(str::to_owned);
            assert_eq!(directive.as_deref(), Some("include <x>"), "{source}");
        }
        assert_eq!(lines("x # include <y>")[0].directive(), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_split_without_panic(source in "[ -~\\n\\\\\"'/*#]{0,80}") {
            let found = lines(&source);
            proptest::prop_assert!(found.windows(2).all(|w| w[0].number < w[1].number));
        }
    }
}
