//! What is done with one input of the fuzzer `source` (`fuzz/`). The short runs among the tests call the same, lest one of
//! the two be forgotten when the other is changed; nothing else does.

use flopsmith_problem::Problem;

use crate::failure::Failure;
use crate::scan::look::look;

/// Looks at bytes as a candidate's source: it is fit to be compiled, or its author's fault that it is not.
///
/// # Panics
/// Where it is anybody else's fault, or where the scan panics: that is a find.
pub fn fuzz_one(bytes: &[u8], problem: &Problem) {
    // Sources are text by the time they come here.
    let source = String::from_utf8_lossy(bytes);
    let found = look(&source, problem);
    assert!(
        matches!(found, Ok(_) | Err(Failure::Candidate { .. })),
        "{found:?}"
    );
}
