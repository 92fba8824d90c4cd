//! What is done with one input of the fuzzer `source` (`fuzz/`). The short runs among the tests call the same, lest one of
//! the two be forgotten when the other is changed; nothing else does.

use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::Failure;

use crate::scan::check_fortran;
use crate::scan::look::look;

/// Looks at bytes as a candidate's source, in the language that the first of them says: it is fit to be compiled, or its
/// author's fault that it is not.
///
/// # Panics
/// Where it is anybody else's fault, or where the scan panics: that is a find.
pub fn fuzz_one(bytes: &[u8], problem: &Problem) {
    if let Some((first, source)) = bytes.split_first() {
        fuzz_in(language(*first), source, problem);
    }
}

/// The same with all bytes as a source in a known language.
///
/// # Panics
/// As [`fuzz_one`].
pub fn fuzz_in(language: Language, bytes: &[u8], problem: &Problem) {
    // Sources are text by the time they come here.
    let source = String::from_utf8_lossy(bytes);
    let found = if language.is_fortran() {
        check_fortran(&source, problem, language).map(|_| ())
    } else {
        look(&source, problem, language).map(|_| ())
    };
    assert!(
        matches!(found, Ok(()) | Err(Failure::Candidate { .. })),
        "{}: {found:?}",
        language.name()
    );
}

/// The language that the first byte of an input says; `fuzz/seeds.sh` writes it as a digit.
fn language(first: u8) -> Language {
    Language::ALL[usize::from(first) % Language::ALL.len()]
}

#[test]
fn seeds_say_their_language_by_a_digit() {
    let said = [b'0', b'1', b'2', b'3'].map(language);
    assert_eq!(said, Language::ALL);
}
