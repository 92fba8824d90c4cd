//! The text of a program with parameters: one `#define` for each parameter, then the user's own text.

use flopsmith_problem::{ArgKind, Element, Language, Problem};

use super::expression::Value;
use super::file::{File, Parameter};
use super::{Result, wrong};

/// A user's program with parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    source: String,
    /// For each parameter, the line that defines its macro for each of its values.
    lines: Vec<Vec<String>>,
}

/// Checks that a program can be one for a problem, as far as its text shows.
///
/// # Errors
/// A program in a language without a preprocessor, without the problem's entry function, or that is too long.
pub fn check_source(source: &str, problem: &Problem) -> Result<()> {
    let entry = problem.entry.name.as_str();
    let words = words(source);
    let called = words
        .iter()
        .any(|word| word.text == entry && word.before_bracket && word.place == Place::Code);
    if !called {
        return wrong(format!(
            "it defines no function `{entry}`, which problem {} asks for; name a program for this problem, or the problem of this program",
            problem.id
        ));
    }
    if source.len() > problem.max_source_bytes {
        return wrong(format!(
            "it has {} bytes, and problem {} permits {}; shorten it, or permit more with `--max-source BYTES`",
            source.len(),
            problem.id,
            problem.max_source_bytes
        ));
    }
    Ok(())
}

/// Checks that a program's entry function takes what the problem passes, as far as its text shows: a compiler would say so
/// only once the run is made.
///
/// # Errors
/// Another number of parameters, or numbers of another kind.
pub fn check_signature(source: &str, problem: &Problem) -> Result<()> {
    let entry = &problem.entry;
    let words = words(source);
    let own = words
        .iter()
        .filter(|word| word.text == entry.name && word.before_bracket && word.place == Place::Code);
    let lists: Vec<Vec<&str>> = own.filter_map(|word| defined(source, word.end)).collect();
    // A program may define it more than once, each time for other conditions.
    match lists.first() {
        Some(first) if !lists.iter().any(|list| takes(list, problem)) => wrong(format!(
            "it defines `{}({})`, and problem {} calls `{}`; give it these parameters in this order, or name the problem of this program",
            entry.name,
            first.join(", "),
            problem.id,
            entry.prototype.trim_end_matches(';')
        )),
        _ => Ok(()),
    }
}

/// The parameters of the function whose name ends at `from`; none if it is not defined there, or if more than C stands among
/// them.
fn defined(source: &str, from: usize) -> Option<Vec<&str>> {
    let open = from + source[from..].find('(')?;
    let (mut depth, mut begin, mut all) = (0, open + 1, Vec::new());
    for (at, c) in source[open..].char_indices() {
        let at = open + at;
        match c {
            '(' | '[' => depth += 1,
            ',' if depth == 1 => {
                all.push(source[begin..at].trim());
                begin = at + 1;
            }
            // A comment, a directive or a template.
            '/' | '#' | '<' => return None,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            all.push(source[begin..at].trim());
            let behind = source[at + 1..].trim_start();
            return behind.starts_with('{').then_some(all);
        }
    }
    None
}

/// False if these parameters cannot be those of the problem's entry.
fn takes(parameters: &[&str], problem: &Problem) -> bool {
    let args = &problem.entry.args;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let parameters: &[&str] = match parameters {
        ["" | "void"] => &[],
        // A macro may stand for several.
        all if all.iter().any(|p| p.chars().all(plain)) => return true,
        all => all,
    };
    let fits = |(parameter, kind): (&&str, &ArgKind)| {
        let has = |word: &str| parameter.split(|c: char| !plain(c)).any(|w| w == word);
        match kind {
            ArgKind::Int { .. } => !has("double") && !has("float"),
            ArgKind::Scalar { element, .. } | ArgKind::Array { element, .. } => match element {
                Element::F64 => !has("float"),
                Element::F32 => !has("double"),
                _ => true,
            },
        }
    };
    let kinds = args.iter().map(|arg| &arg.kind);
    parameters.len() == args.len() && parameters.iter().zip(kinds).all(fits)
}

impl Program {
    /// The program whose text is `source`, with the parameters of `file`.
    ///
    /// # Errors
    /// A problem whose language has no preprocessor, a program of another kernel, one that does not use each parameter or defines one
    /// itself, and one that is too long.
    pub fn new(source: &str, file: &File, problem: &Problem) -> Result<Self> {
        if !matches!(problem.language, Language::C | Language::Cxx) {
            return wrong(format!(
                "parameters are macros, and programs for problem {} are in {}, which has none; choose a problem in C or C++",
                problem.id,
                problem.language.name()
            ));
        }
        let entry = &problem.entry.name;
        if let Some(kernel) = file.kernel.as_ref().filter(|kernel| *kernel != entry) {
            return wrong(format!(
                "the parameters are for the kernel `{kernel}` (`KernelSpecification.KernelName`), and the entry function of problem {} is `{entry}`",
                problem.id
            ));
        }
        check_source(source, problem)?;
        let words = words(source);
        for parameter in &file.parameters {
            uses(&words, &parameter.name)?;
        }
        let lines: Vec<Vec<String>> = file.parameters.iter().map(definitions).collect();
        let longest = |of: &Vec<String>| of.iter().map(String::len).max().unwrap_or(0);
        let length = source.len() + lines.iter().map(longest).sum::<usize>();
        if length > problem.max_source_bytes {
            return wrong(format!(
                "it has up to {length} bytes with the definitions of its parameters, and problem {} permits {}; shorten it, or permit more with `--max-source BYTES`",
                problem.id, problem.max_source_bytes
            ));
        }
        Ok(Self {
            source: source.to_owned(),
            lines,
        })
    }

    /// The whole text of a configuration: for each parameter, the place of its value.
    pub fn write(&self, configuration: &[u16]) -> String {
        let mut text = String::new();
        for (lines, place) in self.lines.iter().zip(configuration) {
            if let Some(line) = lines.get(usize::from(*place)) {
                text.push_str(line);
            }
        }
        text + &self.source
    }

    /// The configuration of a whole text; none for a text that is no program of these parameters.
    pub fn read(&self, text: &str) -> Option<Vec<u16>> {
        let mut rest = text;
        let mut configuration = Vec::with_capacity(self.lines.len());
        for lines in &self.lines {
            let end = rest.find('\n')? + 1;
            let place = lines.iter().position(|line| *line == rest[..end])?;
            configuration.push(u16::try_from(place).ok()?);
            rest = &rest[end..];
        }
        (rest == self.source).then_some(configuration)
    }
}

/// The lines that define the macro of a parameter, one for each value.
fn definitions(parameter: &Parameter) -> Vec<String> {
    let line = |value: &Value| format!("#define {} {}\n", parameter.name, replacement(value));
    parameter.values.iter().map(line).collect()
}

/// A value as C writes it. A negative number has brackets, so that `1-VALUE` is no decrement.
fn replacement(value: &Value) -> String {
    match value {
        Value::Int(n) if *n < 0 => format!("({n})"),
        Value::Float(x) if *x < 0.0 => format!("({x:?})"),
        Value::Float(x) => format!("{x:?}"),
        Value::Bool(holds) => u8::from(*holds).to_string(),
        Value::Text(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Checks that the program uses a parameter, and takes its value from outside.
fn uses(words: &[Word<'_>], name: &str) -> Result<()> {
    let (mut guarded, mut used) = (false, false);
    for word in words.iter().filter(|word| word.text == name) {
        match word.place {
            Place::Code | Place::Condition => used = true,
            Place::Guard => guarded = true,
            Place::Defined if guarded => {}
            Place::Defined => {
                return wrong(format!(
                    "it defines `{name}` itself, which is a parameter; put `#ifndef {name}` before that definition and `#endif` behind it, or remove it"
                ));
            }
        }
    }
    match used {
        true => Ok(()),
        false => wrong(format!(
            "it does not use the parameter `{name}`; use it as a macro, or remove it from the parameters"
        )),
    }
}

/// A word of a source, outside of comments and texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Word<'a> {
    text: &'a str,
    place: Place,
    /// The place behind it in the source.
    end: usize,
    /// A bracket follows.
    before_bracket: bool,
}

/// The place of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The program's text, the replacement of a macro, or a pragma.
    Code,
    /// The condition of a directive.
    Condition,
    /// A question whether the word is a macro.
    Guard,
    /// The name of a macro that is defined or removed here.
    Defined,
}

/// The words of a source. Comments and texts have none.
fn words(source: &str) -> Vec<Word<'_>> {
    let bytes = source.as_bytes();
    let is_word = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c >= 0x80;
    let mut found: Vec<Word<'_>> = Vec::new();
    let mut directive: Option<Vec<&str>> = None;
    // Only blanks precede on this line.
    let mut at_start = true;
    let mut at = 0;
    while at < bytes.len() {
        let next = bytes.get(at + 1).copied();
        match bytes[at] {
            b'\n' => {
                directive = None;
                at_start = true;
                at += 1;
            }
            b'\\' if next == Some(b'\n') => at += 2,
            b'\\' if next == Some(b'\r') && bytes.get(at + 2) == Some(&b'\n') => at += 3,
            b'/' if next == Some(b'/') => at = end_of_line(bytes, at),
            b'/' if next == Some(b'*') => {
                let end = source[at + 2..].find("*/");
                at = end.map_or(bytes.len(), |end| at + 2 + end + 2);
            }
            quote @ (b'"' | b'\'') => {
                at = end_of_text(bytes, at, quote);
                at_start = false;
            }
            b'#' if at_start => {
                directive = Some(Vec::new());
                at_start = false;
                at += 1;
            }
            c if is_word(c) => {
                let length = bytes[at..].iter().take_while(|c| is_word(**c)).count();
                let text = &source[at..at + length];
                at += length;
                at_start = false;
                // A number is no word.
                if c.is_ascii_digit() {
                    continue;
                }
                let place = match &mut directive {
                    None => Place::Code,
                    Some(before) => {
                        let place = place(before);
                        before.push(text);
                        match place {
                            Some(place) => place,
                            None => continue,
                        }
                    }
                };
                let rest = source[at..].trim_start();
                found.push(Word {
                    text,
                    place,
                    end: at,
                    before_bracket: rest.starts_with('('),
                });
            }
            c => {
                at_start &= c.is_ascii_whitespace();
                at += 1;
            }
        }
    }
    found
}

/// The place of the word that follows these words of a directive; none for the directive's own name.
fn place(before: &[&str]) -> Option<Place> {
    Some(match (*before.first()?, before.len()) {
        ("define" | "undef", 1) => Place::Defined,
        ("ifdef" | "ifndef" | "elifdef" | "elifndef", _) => Place::Guard,
        ("if" | "elif", _) if before.last() == Some(&"defined") => Place::Guard,
        ("if" | "elif", _) => Place::Condition,
        _ => Place::Code,
    })
}

fn end_of_line(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() && (bytes[at] != b'\n' || bytes[at - 1] == b'\\') {
        at += 1;
    }
    at
}

/// The place behind a text or a letter in quotes; one that does not end has the rest of its line.
fn end_of_text(bytes: &[u8], from: usize, quote: u8) -> usize {
    let mut at = from + 1;
    while at < bytes.len() && bytes[at] != b'\n' {
        if bytes[at] == quote {
            return at + 1;
        }
        at += 1 + usize::from(bytes[at] == b'\\');
    }
    at.min(bytes.len())
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::shipped;

    use super::super::read;
    use super::*;

    fn problem() -> Problem {
        Problem::load(&shipped::at("dgemm")).expect("a shipped problem is sound")
    }

    fn file() -> File {
        let text = r#"{"ConfigurationSpace": {"TuningParameters": [
            {"Name": "TILE", "Type": "int", "Values": "[8, -16]"},
            {"Name": "KIND", "Type": "string", "Values": "['float', 'long double']"},
            {"Name": "FAST", "Type": "bool", "Values": "[False, True]"},
            {"Name": "SHARE", "Type": "float", "Values": "[0.5, -1]"}]}}"#;
        read(text).expect("it is sound")
    }

    const SOURCE: &str = "#ifndef TILE\n#define TILE 4 /* KIND */\n#endif\n#if FAST\n#endif\n\
                          void dgemm(int n) { KIND a[TILE]; a[0] = SHARE; }\n";

    #[test]
    fn a_configuration_is_written_before_the_program_and_read_again() {
        let program = Program::new(SOURCE, &file(), &problem()).expect("it fits");
        let text = program.write(&[1, 1, 1, 1]);
        let head =
            "#define TILE (-16)\n#define KIND long double\n#define FAST 1\n#define SHARE (-1.0)\n";
        assert_eq!(text, format!("{head}{SOURCE}"));
        for configuration in [[0, 0, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]] {
            let text = program.write(&configuration);
            assert_eq!(program.read(&text).as_deref(), Some(&configuration[..]));
        }
        for other in [SOURCE, "", &text.replace("16", "15"), &format!("{text} ")] {
            assert_eq!(program.read(other), None);
        }
    }

    #[test]
    fn a_program_that_does_not_fit_its_parameters_is_refused() {
        let refused = |source: &str, part: &str| {
            let error = Program::new(source, &file(), &problem()).expect_err(part);
            assert!(error.to_string().contains(part), "{part}: {error}");
        };
        refused(
            &SOURCE.replace("a[TILE]", "a[8]"),
            "does not use the parameter `TILE`",
        );
        refused(
            &SOURCE.replace("= SHARE", "= 1; // SHARE"),
            "does not use the parameter `SHARE`",
        );
        refused(
            &SOURCE.replace("= SHARE", "= \"SHARE\""),
            "does not use the parameter `SHARE`",
        );
        refused(&SOURCE.replace("#ifndef TILE", "#if 1"), "`#ifndef TILE`");
        refused(
            &SOURCE.replace("dgemm", "dsyrk"),
            "no function `dgemm`, which problem dgemm",
        );
        refused(&format!("{SOURCE}/*{}*/", "x".repeat(20_000)), "bytes");
        let long = format!("{SOURCE}/*{}*/", "x".repeat(130_000));
        let permitting = |bytes: usize| Problem {
            max_source_bytes: bytes,
            ..problem()
        };
        check_source(&long, &permitting(long.len())).expect("it is as long as permitted");
        let error = Program::new(&long, &file(), &permitting(long.len())).expect_err("no room");
        let part = "with the definitions of its parameters";
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.to_string().contains("--max-source"), "{error}");
        Program::new(&long, &file(), &permitting(200_000)).expect("it is permitted");
        let other = File {
            kernel: Some("gemm".into()),
            ..file()
        };
        let error = Program::new(SOURCE, &other, &problem()).expect_err("another kernel");
        assert!(error.to_string().contains("kernel `gemm`"), "{error}");
        let fortran = Problem {
            language: Language::Fortran,
            ..problem()
        };
        let error = Program::new(SOURCE, &file(), &fortran).expect_err("no macros");
        assert!(error.to_string().contains("Fortran"), "{error}");
    }

    #[test]
    fn an_entry_with_other_parameters_is_refused_before_a_compiler_sees_it() {
        let entry = "void dgemm(int n, const double *A, const double *B, double *C)";
        let told = |source: &str| check_signature(source, &problem()).map_err(|e| e.to_string());
        for fitting in [
            format!("{entry} {{}}"),
            format!(
                "{entry};\nstatic void own(int n) {{ dgemm(n, 0, 0, 0); }}\n{entry}\n{{ own(n); }}"
            ),
            "typedef double real;\nvoid dgemm(int n, real *A, real *B, real C[n][n]) {}".into(),
            "#define ALL int n, double *A, double *B, double *C\nvoid dgemm(ALL) {}".into(),
            "void dgemm(int n, /* in, in, out */ double *A, double *B, double *C) {}".into(),
            format!("#if 0\nvoid dgemm(int n) {{}}\n#else\n{entry} {{}}\n#endif"),
        ] {
            assert_eq!(told(&fitting), Ok(()), "{fitting}");
        }
        for other in [
            "void dgemm(int n)",
            "void dgemm(void)",
            "void dgemm()",
            "void dgemm(int n, int m, const double *A, const double *B, double *C)",
            "void dgemm(int n, const float *A, const float *B, float *C)",
            "void dgemm(const double *A, const double *B, double *C, int n)",
            "void dgemm(double n, const double *A, const double *B, double *C)",
        ] {
            let why = told(&format!("{other}\n{{\n}}\n")).expect_err(other);
            assert!(why.contains(&other["void ".len()..]), "{why}");
            assert!(
                why.contains(&format!("problem dgemm calls `{entry}`")),
                "{why}"
            );
        }
    }

    #[test]
    fn words_are_found_outside_of_comments_and_texts() {
        let text = "int a\\\nb; /* c */ // d \\\n e\n\"f\\\"g\" 'h' 0x1i #j\n # pragma GCC unroll k\n#define l m\n#if defined(n) && o\n";
        let all: Vec<(&str, Place)> = words(text).iter().map(|w| (w.text, w.place)).collect();
        use Place::{Code, Condition, Defined, Guard};
        let expected = [
            ("int", Code),
            ("a", Code),
            ("b", Code),
            ("j", Code),
            ("GCC", Code),
            ("unroll", Code),
            ("k", Code),
            ("l", Defined),
            ("m", Code),
            ("defined", Condition),
            ("n", Guard),
            ("o", Condition),
        ];
        assert_eq!(all, expected);
    }
}
