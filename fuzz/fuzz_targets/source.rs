//! The checks of a candidate's source, in the language that the first byte says, before a compiler sees it: the source
//! is fit to be compiled, or the candidate is at fault.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use flopsmith_inspect::fuzz::fuzz_one;
use flopsmith_problem::Problem;
use libfuzzer_sys::fuzz_target;

static PROBLEM: LazyLock<Problem> = LazyLock::new(|| {
    let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../problems");
    Problem::load(&problems.join("dgemm")).expect("dgemm is a problem")
});

fuzz_target!(|bytes: &[u8]| {
    fuzz_one(bytes, &PROBLEM);
});
