//! Preprocesses a simple source without starting a process.
//!
//! Many kernels include no header and define at most a few constants. Their preprocessing is a substitution of words,
//! which needs no compiler; for every ten candidates, that saves a tenth of a second of process time. Every source that
//! is not obviously simple is left to the real preprocessor.

use std::collections::{BTreeMap, BTreeSet};

use super::UserText;
use super::preprocessed::LONGEST;
use super::text::Line;
use super::token::{Kind, tokens};

/// The preprocessed text; none if the source needs the real preprocessor. `macros` are the compiler's predefined
/// macros.
pub fn preprocess(lines: &[Line], macros: &BTreeSet<String>) -> Option<UserText> {
    let mut defined: BTreeMap<&str, &str> = BTreeMap::new();
    // The words of all replacements.
    let mut used: BTreeSet<&str> = BTreeSet::new();
    let mut user = UserText::default();
    // To the compiler, a letter and its code (`\u00e9`) are the same name.
    let plain = |line: &Line| {
        line.text.is_ascii() && !line.text.contains("\\u") && !line.text.contains("\\U")
    };
    if !lines.iter().all(plain) {
        return None;
    }
    for line in lines {
        let Some(directive) = line.directive() else {
            user.push(line.number, &substitute(&line.text, &defined, macros)?);
            if user.text.len() > LONGEST {
                return None;
            }
            continue;
        };
        if let Some(rest) = directive.strip_prefix("define") {
            let (name, value) = definition(rest)?;
            let again = defined.contains_key(name) || macros.contains(name);
            let words = tokens(value);
            let plain = words.iter().all(|t| {
                whole(t.kind, t.text)
                    && !t.text.contains('#')
                    && !defined.contains_key(t.text)
                    && !macros.contains(t.text)
                    && t.text != name
            });
            if again || !plain {
                return None;
            }
            defined.insert(name, value);
            // A replacement must not contain the name of a macro that is defined later.
            used.extend(words.iter().map(|t| t.text));
            if used.contains(name) {
                return None;
            }
        } else if let Some(rest) = directive.strip_prefix("pragma") {
            let words = tokens(rest);
            if words
                .iter()
                .any(|t| defined.contains_key(t.text) || macros.contains(t.text))
            {
                return None;
            }
            user.push(line.number, &format!("#pragma {}", rest.trim()));
        } else if !directive.trim().is_empty() {
            return None;
        }
    }
    Some(user)
}

/// Name and value of an object-like macro.
fn definition(rest: &str) -> Option<(&str, &str)> {
    if !rest.starts_with([' ', '\t']) {
        return None;
    }
    let rest = rest.trim();
    let name = tokens(rest).first().filter(|t| t.kind == Kind::Word)?.text;
    let value = &rest[name.len()..];
    // Any other character than a blank begins a parameter list or is not standard C.
    (value.is_empty() || value.starts_with([' ', '\t'])).then(|| (name, value.trim()))
}

/// True if a literal is closed. An open literal changes the reading of the rest of the line.
fn whole(kind: Kind, text: &str) -> bool {
    kind != Kind::Text
        || (text.len() > 1
            && text.ends_with(['"', '\''])
            && text.as_bytes()[0] == text.as_bytes()[text.len() - 1])
}

fn substitute(
    text: &str,
    defined: &BTreeMap<&str, &str>,
    macros: &BTreeSet<String>,
) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut last = 0;
    for token in tokens(text) {
        if !whole(token.kind, token.text) || token.text.starts_with('\\') {
            return None;
        }
        // The real preprocessor has limits of its own.
        if out.len() > LONGEST {
            return None;
        }
        out.push_str(&text[last..token.at]);
        last = token.at + token.text.len();
        match (token.kind, defined.get(token.text)) {
            (Kind::Word, Some(value)) => {
                // Blanks keep the value apart from the tokens beside it.
                out.push(' ');
                out.push_str(value);
                out.push(' ');
            }
            (Kind::Word, None) if macros.contains(token.text) => return None,
            _ => out.push_str(token.text),
        }
    }
    out.push_str(&text[last..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;

    fn run(source: &str) -> Option<String> {
        let macros = [
            "linux".to_owned(),
            "__LINE__".to_owned(),
            "_Pragma".to_owned(),
        ]
        .into();
        preprocess(&text::lines(source), &macros).map(|u| u.text)
    }

    #[test]
    fn constants_are_substituted() {
        assert_eq!(
            run("#define W 4\nint x=W;").as_deref(),
            Some("int x= 4 ;\n")
        );
        assert_eq!(
            run("#define M -1\nint x=-M;").as_deref(),
            Some("int x=- -1 ;\n")
        );
        assert_eq!(
            run("\"W\"\n#pragma GCC unroll 2\n").as_deref(),
            Some("\"W\"\n#pragma GCC unroll 2\n\n")
        );
    }

    #[test]
    fn complex_macros_are_left_alone() {
        for source in [
            "#define F(x) x",
            "#define F F",
            "#define A B\n#define B 1",
            "#define B 1\n#define A B",
            "#define W 4\n#pragma GCC unroll W",
            "int linux;",
            "#include <math.h>",
            "#ifdef X\n#endif",
            "_Pragma(\"omp simd\")",
            "#define H #",
            "#define W 4\n#define W 5",
            "char c='",
            "#undef W",
            "#define \\u00e9 4\nint x;",
            "int é;",
        ] {
            assert_eq!(run(source), None, "{source}");
        }
        // A text that grows beyond all bounds, in one line and in many.
        let long = format!("#define W {}\n", "w".repeat(10_000));
        for (words, lines) in [(1000, 1), (1, 1000)] {
            let line = "W ".repeat(words) + "\n";
            assert_eq!(run(&format!("{long}{}", line.repeat(lines))), None);
        }
        assert!(run(&format!("{long}W W W\n")).is_some());
    }
}
