//! A definition's `problem.toml`: it is a problem, or an error that has words.
#![no_main]

use flopsmith_problem::fuzz::fuzz_one;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzz_one(bytes);
});
