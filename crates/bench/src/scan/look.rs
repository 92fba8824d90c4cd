//! Everything that is looked at in a source before a compiler sees it, in one call and without a process: for fuzzing.

use std::collections::BTreeSet;

use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::TechniqueSet;

use super::UserText;
use super::text::{self, Line};
use crate::detect;
use crate::failure::Failure;

/// Scans `source` and detects its techniques. Where the real preprocessor would be asked, the text is taken as it stands.
///
/// A preprocessor can make nearly any text of a source, so the later looks are taken whatever the earlier ones say.
///
/// # Errors
/// What the first look refuses it for.
pub fn look(source: &str, problem: &Problem) -> Result<TechniqueSet, Failure> {
    look_in(source, problem, Language::C)
}

/// The same for a source in another language.
///
/// # Errors
/// What the first look refuses it for.
pub fn look_in(
    source: &str,
    problem: &Problem,
    language: Language,
) -> Result<TechniqueSet, Failure> {
    let raw = super::check_raw(source, problem, language);
    let preprocessed = super::split_preprocessed(source, "kernel.c", "entry.h");
    let included = super::check_included(&preprocessed, problem, language);
    let lines = text::lines(source);
    let macros: BTreeSet<String> = ["__LINE__", "linux", "_Pragma"].map(str::to_owned).into();
    let user = super::preprocess_simple(&lines, &macros)
        .unwrap_or_else(|| as_it_stands(&lines))
        .without_separators();
    let (user, pragmas, known) = match super::split_pragmas(&user) {
        Ok((rest, pragmas)) => (rest, pragmas, Ok(())),
        Err(failure) => (user, Vec::new(), Err(failure)),
    };
    let user = user.with_braces();
    let constructs = super::check_constructs(&user, &problem.entry.name, language);
    let found = detect::detect(&user, &pragmas, problem, language);
    raw?;
    included?;
    known?;
    constructs?;
    Ok(found?.techniques())
}

/// The lines without directives other than pragmas.
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
    use std::path::Path;
    use std::sync::LazyLock;

    use flopsmith_protocol::CandidateFault;
    use flopsmith_test_support::mutate::{Edit, lexemes, mutated};
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::fuzz::fuzz_one;

    static PROBLEM: LazyLock<Problem> = LazyLock::new(|| {
        let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        Problem::load(&problems.join("dgemm")).unwrap()
    });

    /// Every program of the tests: attacks, honest ones, and those that are refused for one thing each.
    static SOURCES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let mut files = Vec::new();
        for folder in [
            "corpus/attacks",
            "corpus/honest",
            "compile/honest",
            "compile/refused",
            "problems",
        ] {
            let entries = fs::read_dir(tests.join(folder)).unwrap();
            files.extend(entries.map(|entry| entry.unwrap().path()));
        }
        files.retain(|file| {
            file.extension()
                .is_some_and(|e| e == "c" || e == "cpp" || e == "f90")
        });
        files.sort();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        files.iter().map(|f| text(fs::read(f).unwrap())).collect()
    });

    fn source(index: &Index) -> &'static str {
        index.get::<String>(&SOURCES)
    }

    fn edits() -> impl Strategy<Value = Vec<Edit>> {
        prop::collection::vec(any::<Edit>(), 1..6)
    }

    #[test]
    fn every_program_is_looked_at() {
        assert!(SOURCES.len() > 300, "{} programs", SOURCES.len());
        for source in SOURCES.iter() {
            fuzz_one(source.as_bytes(), &PROBLEM);
        }
    }

    #[test]
    fn every_program_is_looked_at_as_cxx_and_as_fortran() {
        for source in SOURCES.iter() {
            for found in [
                look_in(source, &PROBLEM, Language::Cxx).map(|_| ()),
                crate::scan::check_fortran(source, &PROBLEM, Language::Fortran).map(|_| ()),
                crate::scan::check_fortran(source, &PROBLEM, Language::Fortran77).map(|_| ()),
            ] {
                let fine = matches!(found, Ok(()) | Err(Failure::Candidate { .. }));
                assert!(fine, "{found:?}");
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
        let found = look(&source, &problem);
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
            one in any::<Index>(), other in any::<Index>(), noise in prop::collection::vec(any::<u8>(), 0..64), edits in edits()
        ) {
            let donor = [source(&other).as_bytes(), noise.as_slice()].concat();
            let bytes = mutated(source(&one).as_bytes(), &donor, &edits);
            fuzz_one(&bytes, &PROBLEM);
        }

        #[test]
        fn programs_broken_by_words_are_judged(one in any::<Index>(), other in any::<Index>(), edits in edits()) {
            let words = mutated(&lexemes(source(&one)), &lexemes(source(&other)), &edits);
            fuzz_one(words.concat().as_bytes(), &PROBLEM);
            let as_cxx = look_in(&words.concat(), &PROBLEM, Language::Cxx);
            let fine = matches!(as_cxx, Ok(_) | Err(Failure::Candidate { .. }));
            prop_assert!(fine);
        }
    }
}
