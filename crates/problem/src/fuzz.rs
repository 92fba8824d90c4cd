//! Processes one input of the fuzzer `problem` (`fuzz/`). The short runs among the tests call the same, lest one of the
//! two be forgotten when the other is changed; nothing else does.

use std::path::Path;

use flopsmith_protocol::ProblemId;

use crate::error::Error;
use crate::load::{Sources, parse};
use crate::prompt::{full, one_line};
use crate::{Problem, check};

/// A program that is not looked into.
const PROGRAM: &str = "void f(void) {}\n";

/// Reads bytes as a `problem.toml`; true if they are a problem. Its findings and prompts have words then, and so has the error
/// otherwise. No file is read.
///
/// # Panics
/// Where that is not so, or where reading panics: that is a find.
pub fn fuzz_one(bytes: &[u8]) -> bool {
    // Reading the file would have failed.
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    match read(text) {
        Ok(problem) => {
            assert!(check(&problem).iter().all(|f| !f.to_string().is_empty()));
            assert!(!one_line(&problem, problem.techniques).is_empty());
            assert!(!full(&problem, problem.techniques, None).is_empty());
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

fn read(text: &str) -> Result<Problem, Error> {
    let folder = Path::new("fuzzed");
    let sources = Sources {
        reference: PROGRAM.into(),
        baseline: None,
        magnitude: Some(PROGRAM.into()),
    };
    let id = ProblemId::new("fuzzed").expect("it is a name");
    parse(text, id, folder, sources).map_err(|mistakes| Error::Wrong {
        path: folder.join("problem.toml"),
        mistakes,
    })
}
