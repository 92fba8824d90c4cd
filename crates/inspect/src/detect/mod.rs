//! Detects the techniques of a source.
//!
//! Words and pragmas show vectors, threads, prefetching and unrolling. A walk through the syntax tree shows the loop
//! nest. The walk is a heuristic over arbitrary programs: it covers the code that people and models write, and does not
//! resist code that is written to deceive it. A wrong result puts a program into the wrong cell of the archive and has
//! no effect on safety.

mod call;
mod cxx;
mod declare;
mod eval;
mod facts;
mod hidden;
mod judge;
mod names;
mod normal;
mod poly;
mod record;
mod walk;
mod wrap;

use std::collections::BTreeMap;

use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause, Technique, TechniqueSet};

use crate::scan::token::{Kind, Token, tokens};
use crate::scan::{Pragma, UserText};

/// A technique, with the place and the text that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The technique.
    pub technique: Technique,
    /// Line of the source; 0 if the source does not show the technique.
    pub line: u32,
    /// A description of the text that shows the technique.
    pub what: String,
}

/// All findings in a source; each technique occurs once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Detected {
    /// The techniques, in the order in which they were seen.
    pub seen: Vec<Seen>,
    /// A warning that the walk did not understand part of the program, so techniques may be missing.
    pub unsure: Option<&'static str>,
    /// A loop that the walk did not follow, with its line. The loop may use any technique of loops.
    pub hidden: Option<(u32, String)>,
}

impl Detected {
    /// Notes a technique, unless it was noted before.
    pub fn note(&mut self, technique: Technique, line: u32, what: impl Into<String>) {
        if self.seen.iter().all(|s| s.technique != technique) {
            self.seen.push(Seen {
                technique,
                line,
                what: what.into(),
            });
        }
    }

    /// The techniques.
    pub fn techniques(&self) -> TechniqueSet {
        self.seen.iter().map(|s| s.technique).collect()
    }
}

/// Detects techniques in a preprocessed source without its pragmas, and in the `pragmas`.
pub fn detect(
    user: &UserText,
    pragmas: &[Pragma],
    problem: &Problem,
    language: Language,
) -> Result<Detected, Failure> {
    let mut found = Detected::default();
    let all = tokens(&user.text);
    in_words(user, &all, &mut found);
    in_pragmas(pragmas, &mut found);

    let mut plain = without_attributes(&user.text, &all);
    let is_cxx = language == Language::Cxx;
    if is_cxx {
        plain = cxx::as_c(&plain);
    }
    let mut parser = tree_sitter::Parser::new();
    let tree = parser
        .set_language(&tree_sitter_c::LANGUAGE.into())
        .ok()
        .and_then(|()| parser.parse(&plain, None));
    let Some(tree) = tree else {
        return Err(Failure::infrastructure(
            InfrastructureCause::Compiler,
            "the parser cannot load the C grammar",
        ));
    };
    let lines = |row: usize| user.source_line(row);
    let facts = walk::facts(
        tree.root_node(),
        &plain,
        &lines,
        vector_types(&all),
        problem,
    );
    let jumps = hidden::find(&all, is_cxx).map(|h| (user.line_at(h.at), h.what));
    let wraps = facts.wraps.clone().map(|(line, name)| {
        let what = format!(
            "a loop sets `{name}` back where another variable moves: a loop that combines several loops"
        );
        (line, what)
    });
    found.hidden = jumps.or(wraps);
    if found.hidden.is_some() {
        found.unsure = Some(
            "the analysis follows only separate loops that are written as `for`, `while` or `do`: it may miss techniques of the loop nest",
        );
    }
    if is_cxx && (facts.too_deep || tree.root_node().has_error()) {
        found.unsure = Some(
            "the analysis reads loops as C, and parts of this program are not C: it may miss techniques of the loop nest",
        );
    }
    // The C grammar may parse another language into a deeper nesting than the program has.
    if facts.too_deep && !is_cxx {
        return Err(Failure::candidate(
            CandidateFault::ForbiddenConstruct,
            "the source nests deeper than 200 levels",
        ));
    }
    judge::judge(&facts, &mut found);
    Ok(found)
}

/// Detects the techniques that directives of a Fortran program show. Its loops are not analysed; the object audit
/// detects OpenMP and vectors in the compiled code.
pub fn in_fortran(directives: &[Pragma], jump: Option<(u32, String)>) -> Detected {
    let mut found = Detected {
        hidden: jump,
        ..Detected::default()
    };
    let in_c = |word: &String| match word.as_str() {
        "do" => "for".to_owned(),
        word => word.to_owned(),
    };
    let as_in_c = directives.iter().map(|directive| Pragma {
        line: directive.line,
        words: directive.words.iter().map(in_c).collect(),
    });
    in_pragmas(&as_in_c.collect::<Vec<_>>(), &mut found);
    found.unsure = Some(
        "the analysis reads only the directives of a Fortran program: techniques of the loop nest are unknown",
    );
    found
}

fn in_words(user: &UserText, all: &[Token<'_>], found: &mut Detected) {
    for token in all.iter().filter(|t| t.kind == Kind::Word) {
        let word = token.text;
        if let Some(technique) = names::technique_of(word) {
            found.note(technique, user.line_at(token.at), format!("`{word}`"));
        }
    }
}

fn in_pragmas(pragmas: &[Pragma], found: &mut Detected) {
    const SHARING: [&str; 10] = [
        "parallel",
        "for",
        "sections",
        "section",
        "task",
        "taskloop",
        "single",
        "teams",
        "distribute",
        "loop",
    ];
    for pragma in pragmas {
        let text = || format!("`#pragma {}`", pragma.words.join(" "));
        let has = |word: &str| pragma.words.iter().any(|w| w == word);
        if pragma.starts_with(&["omp"]) {
            // Words inside an option's parentheses are not directives.
            let directive: Vec<&str> = pragma.words[1..]
                .iter()
                .map(String::as_str)
                .take_while(|w| *w != "(")
                .collect();
            if directive.iter().any(|w| SHARING.contains(w)) {
                found.note(Technique::Openmp, pragma.line, text());
            }
            if directive.contains(&"simd") {
                found.note(Technique::Simd, pragma.line, text());
            }
        }
        let by = |at: usize| {
            pragma
                .words
                .iter()
                .skip(at)
                .find_map(|w| w.parse::<u64>().ok())
        };
        // Directives that make the compiler change the loop nest.
        let changes = [
            ("tile", Technique::CacheBlocking),
            ("interchange", Technique::LoopReorder),
            ("reverse", Technique::LoopReorder),
        ];
        let options_aside = pragma.words.iter().take_while(|w| *w != "(");
        let asks = pragma.starts_with(&["omp"]) || pragma.starts_with(&["clang", "loop"]);
        for word in options_aside.filter(|_| asks) {
            if let Some((_, technique)) = changes.iter().find(|(name, _)| name == word) {
                found.note(*technique, pragma.line, text());
            }
        }
        let unrolls = if pragma.starts_with(&["GCC", "unroll"]) {
            by(2).unwrap_or(2) > 1
        } else if pragma.starts_with(&["unroll"]) {
            by(1).unwrap_or(2) > 1
        } else {
            has("unroll")
                || has("unroll_count")
                || has("unroll_and_jam")
                || pragma.starts_with(&["omp", "unroll"])
        };
        if unrolls {
            found.note(Technique::Unroll, pragma.line, text());
        }
    }
}

/// The vector types that a program defines, with their sizes in bytes.
fn vector_types(all: &[Token<'_>]) -> BTreeMap<String, i64> {
    let mut sizes = BTreeMap::new();
    let mut rest = all;
    while let Some(start) = rest.iter().position(|t| t.text == "typedef") {
        rest = &rest[start + 1..];
        let end = rest
            .iter()
            .position(|t| t.text == ";")
            .unwrap_or(rest.len());
        let definition = &rest[..end];
        let mut name = "";
        let mut bytes = None;
        let (mut depth, mut attribute) = (0, false);
        for (at, token) in definition.iter().enumerate() {
            match token.text {
                "(" => depth += 1,
                ")" => {
                    depth -= 1;
                    attribute &= depth > 0;
                }
                "__attribute__" | "__attribute" => attribute = true,
                "vector_size" | "__vector_size__" => {
                    let inside = definition[at + 1..].iter().take_while(|t| t.text != ")");
                    let product = inside.filter_map(|t| t.text.parse::<i64>().ok());
                    bytes = product.fold(None, |p: Option<i64>, n| {
                        Some(p.unwrap_or(1).saturating_mul(n))
                    });
                }
                word if depth == 0 && !attribute && token.kind == Kind::Word => name = word,
                _ => {}
            }
        }
        if let Some(bytes) = bytes {
            sizes.insert(name.to_owned(), bytes);
        }
        rest = &rest[end.min(rest.len())..];
    }
    sizes
}

/// The text with attributes and GNU keywords blanked, because the grammar does not know all of them.
fn without_attributes(text: &str, all: &[Token<'_>]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut blank = |from: usize, to: usize| {
        for byte in &mut bytes[from..to] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    };
    let mut at = 0;
    while let Some(token) = all.get(at) {
        match token.text {
            "__attribute__" | "__attribute" | "_Alignas" | "alignas" | "__typeof__" => {
                let mut depth = 0;
                let mut end = at + 1;
                while let Some(inner) = all.get(end) {
                    match inner.text {
                        "(" => depth += 1,
                        ")" => depth -= 1,
                        _ => {}
                    }
                    end += 1;
                    if depth <= 0 {
                        break;
                    }
                }
                // `typeof` stands for a type. It is kept as an unknown type, because the grammar needs one here.
                if token.text != "__typeof__" {
                    let last = &all[end - 1];
                    blank(token.at, last.at + last.text.len());
                    at = end;
                    continue;
                }
            }
            "__restrict" | "__restrict__" | "restrict" | "__extension__" | "__inline"
            | "__inline__" | "__const" | "__volatile__" | "_Noreturn" => {
                blank(token.at, token.at + token.text.len())
            }
            _ => {}
        }
        at += 1;
    }
    // Only whole tokens were blanked, so no character was cut.
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_generator::schedule::Space;
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    fn problem() -> Problem {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
        Problem::load(&root).unwrap()
    }

    #[test]
    fn directives_of_fortran_tell_of_techniques() {
        let directive = |text: &str| Pragma {
            line: 1,
            words: text.split(' ').map(str::to_owned).collect(),
        };
        let of = |texts: &[&str]| {
            let directives: Vec<Pragma> = texts.iter().map(|t| directive(t)).collect();
            in_fortran(&directives, None).techniques().to_string()
        };
        assert_eq!(of(&["omp parallel do", "omp end parallel do"]), "openmp");
        assert_eq!(of(&["omp do"]), "openmp");
        assert_eq!(of(&["omp simd", "GCC unroll 4"]), "unroll+simd");
        assert_eq!(of(&["GCC ivdep"]), "{}");
        assert!(in_fortran(&[], None).unsure.is_some());
    }

    #[test]
    fn what_nests_without_end_does_not_end_the_stack() {
        let nested = |open: &str, inside: &str, close: &str| {
            let levels = 10_000;
            format!("{}{inside}{}", open.repeat(levels), close.repeat(levels))
        };
        for text in [
            nested("extern \"C\" {\n", "int x;\n", "}\n"),
            format!("void dgemm({}) {{}}\n", nested("int a(", "int b", ")")),
            format!("void dgemm(int n) {{\n{}}}\n", nested("{\n", "n;\n", "}\n")),
            format!("void dgemm(int n) {{ n = {}; }}\n", nested("(", "1", ")")),
        ] {
            let user = UserText {
                lines: vec![1; text.lines().count()],
                text,
            };
            let found = detect(&user, &[], &problem(), Language::C);
            assert!(
                matches!(found, Ok(_) | Err(Failure::Candidate { .. })),
                "{found:?}"
            );
        }
    }

    proptest! {
        /// Programs as a half-trained model writes them, with missing, repeated and misplaced pieces.
        #[test]
        fn broken_programs_are_looked_at_without_panic(
            seed: u64,
            cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..3), 1..6),
        ) {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let program = Space::dgemm().sample(&mut rng, TechniqueSet::all()).render();
            let mut words: Vec<&str> = tokens(&program).iter().map(|t| t.text).collect();
            for (from, to, what) in &cuts {
                let (a, b) = (from.index(words.len()), to.index(words.len()));
                match what {
                    0 => words.swap(a, b),
                    1 => { words.remove(a); }
                    _ => words.insert(b, words[a]),
                }
            }
            let text = words.join(" ");
            let user = UserText { lines: vec![1; text.lines().count()], text };
            let found = detect(&user, &[], &problem(), Language::C);
            prop_assert!(found.is_ok());
            let found = detect(&user, &[], &problem(), Language::Cxx);
            prop_assert!(found.is_ok());
        }
    }
}
