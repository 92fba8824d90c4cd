//! Splits lines into statements: handles comments, continuation, literals and directives.

use flopsmith_problem::Language;
use flopsmith_protocol::{CandidateFault, Failure};

use super::{Statement, Token};
use crate::scan::token::Kind;
use crate::scan::{Pragma, refused};

/// Largest number of columns of a line in free form, and of one in fixed form.
const FREE: usize = 132;
const FIXED: usize = 72;

/// The contents of a source.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub statements: Vec<Statement>,
    /// Directives of OpenMP (`omp` and its words) and of the compiler (`GCC` and its words).
    pub directives: Vec<Pragma>,
}

/// Splits a source into statements and directives.
pub(super) fn split(source: &str, language: Language) -> Result<Found, Failure> {
    let mut reader = Reader {
        fixed: language == Language::Fortran77,
        found: Found::default(),
        tokens: Vec::new(),
        label: None,
        began: 1,
        continues: false,
        directive_continues: false,
    };
    for (number, line) in (1..).zip(source.lines()) {
        reader.line(number, line.trim_end_matches(['\r', ' ']))?;
    }
    reader.end_statement();
    Ok(reader.found)
}

struct Reader {
    fixed: bool,
    found: Found,
    /// Tokens of the statement that is being read.
    tokens: Vec<Token>,
    /// The label of that statement, in fixed form.
    label: Option<String>,
    began: u32,
    /// True if the previous line ended with `&`.
    continues: bool,
    directive_continues: bool,
}

fn construct(line: u32, what: &str) -> Failure {
    refused(CandidateFault::ForbiddenConstruct, line, what)
}

impl Reader {
    fn line(&mut self, number: u32, line: &str) -> Result<(), Failure> {
        let text = line.trim_start_matches([' ', '\t', '\x0c']);
        if text.is_empty() {
            return Ok(());
        }
        if line.starts_with('#') {
            let what = "a line that begins with `#` is not permitted: there is no preprocessor";
            return Err(refused(CandidateFault::ForbiddenInclude, number, what));
        }
        let indent = line.len() - text.len();
        let comment = if self.fixed {
            // In the sixth column, even `!` is a continuation mark.
            line.starts_with(['c', 'C', '*', '!']) || (text.starts_with('!') && indent != 5)
        } else {
            text.starts_with('!')
        };
        if comment {
            return self.comment(number, line, text);
        }
        self.directive_continues = false;
        self.code(number, line)
    }

    /// Reads a line that is a comment, a directive, or code that is compiled only with OpenMP.
    fn comment(&mut self, number: u32, line: &str, text: &str) -> Result<(), Failure> {
        let rest = &text[1..];
        let lower = rest.to_ascii_lowercase();
        if let Some(words) = lower.strip_prefix("$omp") {
            self.directive(number, "omp", words);
            return Ok(());
        }
        if let Some(words) = lower.strip_prefix("gcc$") {
            self.directive(number, "GCC", words);
            return Ok(());
        }
        self.directive_continues = false;
        // `!$ x = 1` is code if OpenMP is enabled, and the problem decides that. Lines for OpenACC (`!$acc`) are never
        // code.
        if rest.starts_with('$') && !lower.starts_with("$acc") {
            let at = line.len() - text.len();
            let code = format!("{}  {}", &line[..at], &rest[1..]);
            return self.code(number, &code);
        }
        Ok(())
    }

    fn directive(&mut self, number: u32, kind: &str, words: &str) {
        let words = words.split('!').next().unwrap_or_default();
        let goes_on = words.trim_end().ends_with('&');
        let continues = self.is_continued(words) || self.directive_continues;
        let words = words.replace('&', " ");
        let words = crate::scan::token::tokens(&words)
            .into_iter()
            .map(|t| t.text.to_owned());
        match self.found.directives.last_mut().filter(|_| continues) {
            Some(last) => last.words.extend(words),
            None => self.found.directives.push(Pragma {
                line: number,
                words: std::iter::once(kind.to_owned()).chain(words).collect(),
            }),
        }
        self.directive_continues = goes_on && !self.fixed;
    }

    /// True if a directive continues the previous one: in fixed form by a mark in the sixth column, in free form by
    /// `&`.
    fn is_continued(&self, words: &str) -> bool {
        if self.fixed {
            words.starts_with(|c: char| c != ' ' && c != '0')
        } else {
            words.starts_with('&')
        }
    }

    fn code(&mut self, number: u32, line: &str) -> Result<(), Failure> {
        if self.fixed {
            return self.fixed_code(number, line);
        }
        let mut text = line.trim_start();
        let mut joined = false;
        if self.continues {
            if let Some(rest) = text.strip_prefix('&') {
                // The parts before the continuation mark and after it form one word.
                joined = true;
                text = rest;
            }
            if is_last(text) {
                return Err(construct(number, "a line with nothing to continue"));
            }
        } else {
            self.end_statement();
            self.began = number;
        }
        let indent = line.len() - text.len();
        if indent + self.read(number, text, joined)? > FREE {
            return Err(construct(
                number,
                "the line has more than 132 columns; continue it by `&`",
            ));
        }
        Ok(())
    }

    fn fixed_code(&mut self, number: u32, line: &str) -> Result<(), Failure> {
        if line.contains('\t') || !line.is_ascii() {
            return Err(construct(
                number,
                "a line of fixed form with tabs or non-ASCII letters is not permitted: its columns are ambiguous",
            ));
        }
        let line = &line[..line.len().min(FIXED)];
        let head = &line[..line.len().min(6)];
        if head.find('!').is_some_and(|at| at < 5) {
            return Ok(());
        }
        let goes_on = head.len() == 6 && !head.ends_with([' ', '0']);
        if !goes_on {
            self.end_statement();
            self.began = number;
            let label = head[..head.len().min(5)].trim();
            if !label.chars().all(|c| c.is_ascii_digit() || c == ' ') {
                return Err(construct(
                    number,
                    "the first five columns of a line in fixed form may contain only a label",
                ));
            }
            let digits = label.replace(' ', "");
            self.label = Some(digits).filter(|digits| !digits.is_empty());
        }
        let text = line.get(6..).unwrap_or_default();
        self.read(number, text, goes_on)?;
        Ok(())
    }

    fn end_statement(&mut self) {
        let tokens = std::mem::take(&mut self.tokens);
        let label = self.label.take();
        if !tokens.is_empty() {
            self.found.statements.push(Statement {
                line: self.began,
                label,
                tokens,
            });
        }
        self.continues = false;
    }

    /// Reads the tokens of a line. `joined` is true if the line continues in the middle of a word. Returns the number
    /// of columns that were read.
    fn read(&mut self, number: u32, text: &str, joined: bool) -> Result<usize, Failure> {
        self.continues = false;
        let bytes = text.as_bytes();
        let mut at = 0;
        let mut glue = joined;
        while at < bytes.len() {
            let c = bytes[at];
            let (kind, end) = match c {
                b'!' => break,
                b' ' | b'\t' | b'\x0c' => {
                    at += 1;
                    glue = false;
                    continue;
                }
                b'&' if !self.fixed && is_last(&text[at + 1..]) => {
                    self.continues = true;
                    break;
                }
                b';' => {
                    self.end_statement();
                    self.began = number;
                    at += 1;
                    glue = false;
                    continue;
                }
                b'\'' | b'"' => (Kind::Text, literal(number, bytes, at)?),
                c if c.is_ascii_alphabetic() || c == b'_' || c == b'$' => {
                    (Kind::Word, run(bytes, at, is_letter))
                }
                c if c.is_ascii_digit() => {
                    hollerith(number, text, at, self.fixed)?;
                    (Kind::Number, run(bytes, at, |c| c.is_ascii_digit()))
                }
                c if c.is_ascii() => (Kind::Sign, at + 1),
                _ => {
                    return Err(construct(
                        number,
                        "non-ASCII letters are permitted only in comments and character strings",
                    ));
                }
            };
            let word = text[at..end].to_ascii_lowercase();
            match self.tokens.last_mut() {
                // The second part of a word that a continuation split.
                Some(last)
                    if glue
                        && last.kind == Kind::Word
                        && matches!(kind, Kind::Word | Kind::Number) =>
                {
                    last.text.push_str(&word);
                }
                _ => self.tokens.push(Token { kind, text: word }),
            }
            glue = false;
            at = end;
        }
        Ok(at)
    }
}

/// True if only a comment, or nothing, follows a continuation mark.
fn is_last(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.is_empty() || rest.starts_with('!')
}

fn is_letter(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c == b'$'
}

fn run(bytes: &[u8], from: usize, belongs: fn(u8) -> bool) -> usize {
    bytes[from..]
        .iter()
        .position(|c| !belongs(*c))
        .map_or(bytes.len(), |n| from + n)
}

/// The end of a literal. A literal must end on its line, because its continuation would depend on marks that may be
/// part of it.
fn literal(number: u32, bytes: &[u8], from: usize) -> Result<usize, Failure> {
    let quote = bytes[from];
    // A doubled quotation mark is read as the end of one literal and the beginning of another, with the same result.
    match bytes[from + 1..].iter().position(|c| *c == quote) {
        Some(n) => Ok(from + n + 2),
        None => Err(construct(
            number,
            "a character string must end on the line on which it begins",
        )),
    }
}

/// Refuses texts of the form `5Hhello`, in which a quotation mark begins no literal.
fn hollerith(number: u32, text: &str, from: usize, fixed: bool) -> Result<(), Failure> {
    let digits = text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let behind = &text[from + digits..];
    let rest = if fixed { behind.trim_start() } else { behind };
    let Some(held) = rest.strip_prefix(['h', 'H']) else {
        return Ok(());
    };
    let count: usize = text[from..from + digits].parse().unwrap_or(usize::MAX);
    let adjoins = rest.len() == behind.len();
    if adjoins || held.len() < count || held.chars().take(count).any(|c| "'\"!;".contains(c)) {
        let what = "Hollerith constants such as `5Hhello` are not permitted";
        return Err(construct(number, what));
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(source: &str, language: Language) -> Vec<String> {
        let found = split(source, language).unwrap();
        found
            .statements
            .iter()
            .map(|s| {
                let texts: Vec<&str> = s.tokens.iter().map(|t| t.text.as_str()).collect();
                format!("{}: {}", s.line, texts.join(" "))
            })
            .collect()
    }

    #[test]
    fn lines_of_free_form_become_statements() {
        for (source, statements) in [
            (
                "X = 1 ! c\n\n y=2;Z = x1",
                &["1: x = 1", "3: y = 2", "3: z = x1"][..],
            ),
            ("call &\n ! c\n  & f(a, &\n b)", &["1: call f ( a , b )"]),
            ("ca&\n&ll f", &["1: call f"]),
            (
                "s = 'a!b;c&' // \"it's\"",
                &["1: s = 'a!b;c&' / / \"it's\""],
            ),
            ("s = 'a''b'", &["1: s = 'a' 'b'"]),
            ("!$ call f\n!$omp parallel\n!dir$ x", &["1: call f"]),
            ("x = 1.5d-3_dp", &["1: x = 1 . 5 d - 3 _dp"]),
        ] {
            assert_eq!(words(source, Language::Fortran), statements, "{source}");
        }
    }

    #[test]
    fn lines_of_fixed_form_become_statements() {
        let source = "C comment\n      X = 1\n     & + 2\n  10  CONTINUE\n*     y\n      y = 3 ! c\nc$    call f\n";
        assert_eq!(
            words(source, Language::Fortran77),
            ["2: x = 1 + 2", "4: continue", "6: y = 3", "7: call f"]
        );
        // Text behind column 72 is not code, so it cannot end a comment or a literal.
        let long = format!("      x = 1{}'\n      y = 2", " ".repeat(61));
        assert_eq!(words(&long, Language::Fortran77), ["1: x = 1", "2: y = 2"]);
        assert_eq!(
            words("      CALL SYS\n     !TEM(1)", Language::Fortran77),
            ["1: call system ( 1 )"]
        );
    }

    #[test]
    fn directives_are_joined() {
        let found = split(
            "!$OMP parallel do &\n!$omp& private(x)\n!GCC$ unroll 4\n! $omp no\nx = 1 !$omp no\n",
            Language::Fortran,
        )
        .unwrap();
        let texts: Vec<String> = found.directives.iter().map(|d| d.words.join(" ")).collect();
        assert_eq!(texts, ["omp parallel do private ( x )", "GCC unroll 4"]);
        let found = split("c$omp parallel do\nc$omp+private(x)\n", Language::Fortran77).unwrap();
        assert_eq!(found.directives.len(), 1);
    }

    #[test]
    fn ambiguous_lines_are_refused() {
        for (source, language) in [
            ("s = 'a&\n&b'", Language::Fortran),
            ("s = \"a", Language::Fortran),
            ("x = 1H'; call f; y = 1H'", Language::Fortran),
            ("      x = 1 H'; call f; y = 1H'", Language::Fortran77),
            ("\tx = 1", Language::Fortran77),
            ("ca   x = 1\nxy    z", Language::Fortran77),
            ("# 1 \"x\"", Language::Fortran),
            ("#include \"x\"", Language::Fortran),
            ("x = \u{e9}", Language::Fortran),
        ] {
            assert!(split(source, language).is_err(), "{source}");
        }
        let long = format!("x = {}1", "1 + ".repeat(40));
        assert!(split(&long, Language::Fortran).is_err());
        let comment = format!("x = 1 ! {}", "long ".repeat(40));
        assert!(split(&comment, Language::Fortran).is_ok());
    }

    proptest! {
        #[test]
        fn any_text_is_split_without_panic(source in "[ -~\\n\u{e9}]{0,80}", fixed: bool) {
            let language = if fixed { Language::Fortran77 } else { Language::Fortran };
            let _ = split(&source, language);
        }
    }
}
