//! What is looked at in a candidate's source before a compiler sees it: it is fit to be compiled, or its author's fault that it is not.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use flopsmith_bench::{Failure, look};
use flopsmith_problem::Problem;
use libfuzzer_sys::fuzz_target;

static PROBLEM: LazyLock<Problem> = LazyLock::new(|| {
    let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../problems");
    Problem::load(&problems.join("dgemm")).expect("dgemm is a problem")
});

fuzz_target!(|bytes: &[u8]| {
    // Sources are text by the time they come here.
    let source = String::from_utf8_lossy(bytes);
    match look(&source, &PROBLEM) {
        Ok(_) | Err(Failure::Candidate { .. }) => {}
        Err(other) => panic!("{other}"),
    }
});
