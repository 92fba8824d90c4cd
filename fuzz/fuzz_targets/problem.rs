//! A definition's `problem.toml`: it is a problem, or an error that has words.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use flopsmith_problem::prompt::{Style, render};
use flopsmith_problem::{Problem, check};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

/// One folder for all inputs; only `problem.toml` changes. Its name is the problem's.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let named = tempfile::Builder::new().prefix("fuzzed-").tempdir();
    let folder = named.expect("a folder");
    for program in ["reference.c", "magnitude.c"] {
        fs::write(folder.path().join(program), "void f(void) {}\n").expect("a program");
    }
    folder
});

fuzz_target!(|bytes: &[u8]| {
    fs::write(FOLDER.path().join("problem.toml"), bytes).expect("a definition");
    match Problem::load(FOLDER.path()) {
        Ok(problem) => {
            assert!(check(&problem).iter().all(|f| !f.to_string().is_empty()));
            for style in [Style::Compact, Style::Full] {
                assert!(!render(&problem, problem.techniques, None, style).is_empty());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
