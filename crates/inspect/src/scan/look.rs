//! All checks of a C or C++ source before compilation, in one call and without starting a process. The fuzzer uses this
//! function.

use std::collections::BTreeSet;

use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::Failure;

use super::UserText;
use super::text::{self, Line};
use crate::detect::{self, Detected};

/// Scans `source` and detects its techniques. Where the compile stage would run the real preprocessor, this function
/// uses the text unchanged.
///
/// A preprocessor can produce nearly any text from a source, so all later checks run even if an earlier one refuses the
/// source.
///
/// # Errors
/// The first failure in the order of the checks.
pub fn look(source: &str, problem: &Problem, language: Language) -> Result<Detected, Failure> {
    let source = &*super::plain(source);
    let raw = super::check_raw(source, problem, language);
    let preprocessed = super::split_preprocessed(source, "kernel.c", "entry.h");
    let included = super::check_included(&preprocessed, problem, language);
    let lines = text::lines(source);
    let macros: BTreeSet<String> = ["__LINE__", "linux", "_Pragma"].map(str::to_owned).into();
    let user = super::preprocess_simple(&lines, &macros)
        .unwrap_or_else(|| as_it_stands(&lines))
        .without_separators();
    let length = super::check_length(&user, problem);
    let (user, pragmas, known) = match super::split_pragmas(&user) {
        Ok((rest, pragmas)) => (rest, pragmas, Ok(())),
        Err(failure) => (user, Vec::new(), Err(failure)),
    };
    let user = user.with_braces(language);
    let constructs = super::check_constructs(&user, &problem.entry.name, language);
    let library = super::check_library(&user, problem);
    let found = detect::detect(&user, &pragmas, problem, language);
    raw?;
    included?;
    length?;
    known?;
    constructs?;
    library?;
    found
}

/// The lines without directives, except pragmas.
fn as_it_stands(lines: &[Line]) -> UserText {
    let mut user = UserText::default();
    for line in lines {
        match line.directive() {
            Some(directive) if directive.starts_with("pragma") => {
                user.push(line.number, &format!("#{directive}"));
            }
            Some(_) => user.push(line.number, ""),
            None => user.push(line.number, &line.text),
        }
    }
    user
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::LazyLock;

    use flopsmith_protocol::CandidateFault;
    use flopsmith_test_support::mutate::{Edit, lexemes, mutated};
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::fuzz::fuzz_in;

    static PROBLEM: LazyLock<Problem> = LazyLock::new(|| {
        let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        Problem::load(&problems.join("dgemm")).unwrap()
    });

    /// All programs of the tests, each with its language: attacks, honest programs, and programs that are refused for a
    /// single reason.
    static SOURCES: LazyLock<Vec<(Language, String)>> = LazyLock::new(|| {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files: Vec<PathBuf> = Vec::new();
        for folder in [
            "measure/tests/corpus/attacks",
            "measure/tests/corpus/honest",
            "compile/tests/compile/honest",
            "compile/tests/compile/refused",
            "measure/tests/problems",
        ] {
            let entries = fs::read_dir(crates.join(folder)).unwrap();
            files.extend(entries.map(|entry| entry.unwrap().path()));
        }
        files.sort();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        files
            .iter()
            .filter_map(|file| Some((Language::of_file(file)?, text(fs::read(file).unwrap()))))
            .collect()
    });

    /// The programs in one language.
    fn in_language(language: Language) -> Vec<&'static str> {
        SOURCES
            .iter()
            .filter(|(other, _)| *other == language)
            .map(|(_, source)| source.as_str())
            .collect()
    }

    /// A program in any language; most are in C.
    fn any_source(index: &Index) -> &'static str {
        &index.get::<(Language, String)>(&SOURCES).1
    }

    /// A program and its language. All languages are equally likely.
    fn source() -> impl Strategy<Value = (Language, &'static str)> {
        (0..Language::ALL.len(), any::<Index>()).prop_map(|(number, index)| {
            let language = Language::ALL[number];
            let source = *index.get::<&'static str>(&in_language(language));
            (language, source)
        })
    }

    fn edits() -> impl Strategy<Value = Vec<Edit>> {
        prop::collection::vec(any::<Edit>(), 1..6)
    }

    #[test]
    fn every_program_is_looked_at_in_every_language() {
        assert!(SOURCES.len() > 300, "{} programs", SOURCES.len());
        for language in Language::ALL {
            let programs = in_language(language).len();
            assert!(programs > 0, "nothing is in {}", language.name());
            for (_, source) in SOURCES.iter() {
                fuzz_in(language, source.as_bytes(), &PROBLEM);
            }
        }
    }

    #[test]
    fn a_long_chain_of_macros_is_followed_once() {
        let chain: String = (0..5000)
            .map(|n| format!("#define A{n} A{}\n", n + 1))
            .collect();
        let source = format!("{chain}#define A5000 x##y\n#if A0\n#endif\n");
        let problem = Problem {
            max_source_bytes: 1 << 20,
            ..PROBLEM.clone()
        };
        let found = look(&source, &problem, Language::C);
        let fault = CandidateFault::ForbiddenInclude;
        assert!(
            matches!(&found, Err(Failure::Candidate { fault: f, .. }) if *f == fault),
            "{found:?}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn programs_broken_by_bytes_are_judged(
            one in source(), other in any::<Index>(), noise in prop::collection::vec(any::<u8>(), 0..64), edits in edits()
        ) {
            let (language, source) = one;
            let donor = [any_source(&other).as_bytes(), noise.as_slice()].concat();
            let bytes = mutated(source.as_bytes(), &donor, &edits);
            fuzz_in(language, &bytes, &PROBLEM);
        }

        #[test]
        fn programs_broken_by_words_are_judged(one in source(), other in any::<Index>(), edits in edits()) {
            let (language, source) = one;
            let words = mutated(&lexemes(source), &lexemes(any_source(&other)), &edits);
            fuzz_in(language, words.concat().as_bytes(), &PROBLEM);
            // A text in one form of Fortran may also be read as the other form; the same holds for C and C++.
            let sibling = match language {
                Language::C => Language::Cxx,
                Language::Cxx => Language::C,
                Language::Fortran => Language::Fortran77,
                Language::Fortran77 => Language::Fortran,
                Language::Python => Language::Python,
            };
            fuzz_in(sibling, words.concat().as_bytes(), &PROBLEM);
        }
    }
}
