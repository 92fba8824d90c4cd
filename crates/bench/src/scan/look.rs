//! Everything that is looked at in a source before a compiler sees it, in one call and without a process: for fuzzing.

use std::collections::BTreeSet;

use flopsmith_problem::Problem;
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
    let raw = super::check_raw(source, problem);
    let preprocessed = super::split_preprocessed(source, "kernel.c", "entry.h");
    let included = super::check_included(&preprocessed, problem);
    let lines = text::lines(source);
    let macros: BTreeSet<String> = ["__LINE__", "linux", "_Pragma"].map(str::to_owned).into();
    let user = super::preprocess_simple(&lines, &macros).unwrap_or_else(|| as_it_stands(&lines));
    let (user, pragmas, known) = match super::split_pragmas(&user) {
        Ok((rest, pragmas)) => (rest, pragmas, Ok(())),
        Err(failure) => (user, Vec::new(), Err(failure)),
    };
    let constructs = super::check_constructs(&user, &problem.entry.name);
    let found = detect::detect(&user, &pragmas, problem);
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
        files.retain(|file| file.extension().is_some_and(|e| e == "c"));
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

    /// It is fit to be compiled, or it is its author's fault that it is not.
    fn judged(source: &str) -> Result<(), TestCaseError> {
        match look(source, &PROBLEM) {
            Ok(_) | Err(Failure::Candidate { .. }) => Ok(()),
            Err(other) => Err(TestCaseError::fail(other.to_string())),
        }
    }

    #[test]
    fn every_program_is_looked_at() {
        assert!(SOURCES.len() > 300, "{} programs", SOURCES.len());
        for source in SOURCES.iter() {
            judged(source).unwrap();
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
            judged(&String::from_utf8_lossy(&bytes))?;
        }

        #[test]
        fn programs_broken_by_words_are_judged(one in any::<Index>(), other in any::<Index>(), edits in edits()) {
            let words = mutated(&lexemes(source(&one)), &lexemes(source(&other)), &edits);
            judged(&words.concat())?;
        }
    }
}
