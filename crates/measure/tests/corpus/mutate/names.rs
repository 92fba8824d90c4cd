//! Renames the names of a program, and pastes names together.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_problem::Language;

use super::tokens::{Kind, pieces};

/// The name that a source has to keep, since the harness calls the entry by it.
pub(super) struct Kept<'e> {
    pub entry: &'e str,
    pub language: Language,
}

/// Renames every name that the program defines itself.
pub(super) fn renamed(source: &str, kept: &Kept) -> String {
    let cut = pieces(source);
    let foreign = match kept.language {
        Language::Cxx => members(&cut),
        _ => BTreeSet::new(),
    };
    let mut names = BTreeMap::new();
    for (at, (_, word)) in cut.iter().enumerate() {
        if defined_here(&cut, at) && *word != kept.entry && !foreign.contains(word) {
            let next = names.len();
            names.entry(*word).or_insert(format!("q{next}z"));
        }
    }
    cut.iter()
        .map(|(kind, piece)| match names.get(piece) {
            Some(name) if *kind == Kind::Word => name.clone(),
            _ if *kind == Kind::Directive => in_directive(piece, &names),
            _ => (*piece).to_owned(),
        })
        .collect()
}

/// A directive without its sign, which stands before it.
pub(super) fn without_sign(directive: &str) -> (&str, &str) {
    directive.split_at(if directive.starts_with('#') { 1 } else { 2 })
}

/// The name of a directive, `define` or `include`.
pub(super) fn directive_name(directive: &str) -> &str {
    let rest = without_sign(directive).1.trim_start();
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    rest.split(|c: char| !letter(c)).next().unwrap_or_default()
}

fn in_directive(directive: &str, names: &BTreeMap<&str, String>) -> String {
    const OF_MACROS: [&str; 7] = ["define", "undef", "if", "ifdef", "ifndef", "elif", "pragma"];
    let name = directive_name(directive);
    if !OF_MACROS.contains(&name) {
        return directive.to_owned();
    }
    // After its sign a directive is C like other text. A pragma names variables in brackets.
    let (sign, rest) = without_sign(directive);
    let mut depth = usize::from(name != "pragma");
    let mut text = String::from(sign);
    for (_, piece) in pieces(rest) {
        match piece {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        let other = names.get(piece).filter(|_| depth > 0);
        text.push_str(other.map_or(piece, String::as_str));
    }
    text
}

/// Words after `.`, `->` and `::`. In C++ they may be members of the library's classes, which keep their names.
fn members<'s>(cut: &[(Kind, &'s str)]) -> BTreeSet<&'s str> {
    let solid: Vec<(Kind, &str)> = cut
        .iter()
        .copied()
        .filter(|(_, piece)| !piece.trim().is_empty())
        .collect();
    solid
        .windows(3)
        .filter(|w| w[2].0 == Kind::Word)
        .filter(|w| w[1].1 == "." || matches!((w[0].1, w[1].1), ("-", ">") | (":", ":")))
        .map(|w| w[2].1)
        .collect()
}

/// True if the piece at `at` is the name in a declaration: the word of a type before it, and `=`, `;`, `,`, `[`, `(` or
/// `)` after it.
fn defined_here(cut: &[(Kind, &str)], at: usize) -> bool {
    const TYPES: [&str; 13] = [
        "int", "long", "double", "float", "char", "unsigned", "size_t", "void", "uint64_t",
        "int64_t", "uint32_t", "const", "restrict",
    ];
    const WORDS: [&str; 10] = [
        "const", "restrict", "volatile", "static", "unsigned", "long", "int", "char", "double",
        "operator",
    ];
    if cut[at].0 != Kind::Word {
        return false;
    }
    let before = cut[..at]
        .iter()
        .rev()
        .find(|p| !p.1.trim().is_empty() && p.1 != "*");
    let behind = cut[at + 1..].iter().find(|p| !p.1.trim().is_empty());
    let word = cut[at].1;
    before.is_some_and(|p| TYPES.contains(&p.1))
        && behind.is_some_and(|p| ["=", ";", ",", "[", "(", ")"].contains(&p.1))
        && !TYPES.contains(&word)
        && !WORDS.contains(&word)
        && !from_outside(cut, at)
}

/// A declaration of a foreign function, such as `extern int putenv(char *);` or `int system(const char *);`, keeps its
/// name.
fn from_outside(cut: &[(Kind, &str)], at: usize) -> bool {
    let line: String = cut[..at]
        .iter()
        .rev()
        .take_while(|p| p.1 != ";" && p.1 != "}" && p.0 != Kind::Directive && !p.1.contains('\n'))
        .map(|p| p.1)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    let inside = line.starts_with(' ') || line.contains('(') || line.contains("static");
    let ends_in_body = cut[at..]
        .iter()
        .map(|p| p.1)
        .find(|p| *p == ";" || *p == "{" || *p == "=")
        .is_some_and(|p| p != ";");
    line.contains("extern") || !(inside || ends_in_body)
}

/// The functions that the program defines itself.
pub(super) fn own_functions<'s>(cut: &[(Kind, &'s str)]) -> BTreeSet<&'s str> {
    let called = |at: usize| cut.get(at + 1).is_some_and(|p| p.1 == "(");
    (0..cut.len())
        .filter(|at| called(*at) && defined_here(cut, *at))
        .map(|at| cut[at].1)
        .collect()
}

/// Macros that the source defines.
fn macros<'s>(cut: &[(Kind, &'s str)]) -> BTreeSet<&'s str> {
    cut.iter()
        .filter(|(kind, piece)| *kind == Kind::Directive && directive_name(piece) == "define")
        .filter_map(|(_, piece)| {
            let mut words = pieces(without_sign(piece).1)
                .into_iter()
                .filter(|p| p.0 == Kind::Word);
            words.nth(1).map(|(_, name)| name)
        })
        .collect()
}

/// Pastes every name of a called function, except those of the language, together from two halves. The scan refuses
/// pasting only in conditions, so directives stay unchanged.
pub(super) fn pasted(source: &str, entry: &str) -> String {
    const LANGUAGE: [&str; 10] = [
        "if",
        "for",
        "while",
        "switch",
        "return",
        "sizeof",
        "not",
        "__attribute__",
        "__asm__",
        "asm",
    ];
    let cut = pieces(source);
    let macros = macros(&cut);
    let mut found = false;
    let text: String = cut
        .iter()
        .enumerate()
        .map(|(at, (kind, word))| {
            let called = cut.get(at + 1).is_some_and(|p| p.1 == "(");
            let name = *kind == Kind::Word && called && word.len() > 2 && word.is_ascii();
            let operator = LANGUAGE.contains(word)
                || *word == entry
                || word.starts_with("_Pragma")
                || word.starts_with("__builtin_va");
            if !name
                || operator
                || word
                    .chars()
                    .all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit())
            {
                return (*word).to_owned();
            }
            let half = word.len() / 2;
            // The second half must be a token itself, and neither half may be a macro, which would be replaced before
            // the pasting.
            let (first, second) = word.split_at(half);
            if macros.contains(first) || macros.contains(second) {
                return (*word).to_owned();
            }
            found = true;
            format!("PASTED({first}, {second})")
        })
        .collect();
    if !found {
        return source.to_owned();
    }
    // The header's lines stay first; the macro comes after the last comment line at the top.
    let (head, rest) = text.split_at(head(&text));
    format!("{head}#define PASTED_(a, b) a##b\n#define PASTED(a, b) PASTED_(a, b)\n{rest}")
}

/// The end of the comment lines at the top.
pub(super) fn head(text: &str) -> usize {
    text.split_inclusive('\n')
        .take_while(|line| line.trim_start_matches('\u{feff}').starts_with("//"))
        .map(str::len)
        .sum()
}
