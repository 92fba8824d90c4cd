//! The processing of one input of the fuzzer `source` (`fuzz/`). The short runs in the tests call the same function, so
//! the fuzzer and the tests always agree. No other code calls it.

use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::Failure;

use crate::detect::in_fortran;
use crate::scan::look::look;
use crate::scan::{Looked, check_fortran};

/// Scans bytes as a candidate's source, in the language that the first byte selects. The source is either fit for
/// compilation, or refused by the candidate's fault.
///
/// # Panics
/// If the scan reports another fault or panics: the fuzzer has found an error.
pub fn fuzz_one(bytes: &[u8], problem: &Problem) {
    if let Some((first, source)) = bytes.split_first() {
        fuzz_in(language(*first), source, problem);
    }
}

/// Scans all bytes as a source in a known language.
///
/// # Panics
/// As [`fuzz_one`].
pub fn fuzz_in(language: Language, bytes: &[u8], problem: &Problem) {
    // The scan receives sources as text.
    let source = String::from_utf8_lossy(bytes);
    let found = if language.is_fortran() {
        // The detection runs on refused sources as well: a broken source is refused for most of its mistakes.
        let looked = check_fortran(&source, problem, language);
        let unchecked = Looked::unchecked(&source, language).unwrap_or_default();
        let detected = in_fortran(&unchecked, problem);
        looked.map(|_| ()).and(detected.map(|_| ()))
    } else {
        look(&source, problem, language).map(|_| ())
    };
    assert!(
        matches!(found, Ok(()) | Err(Failure::Candidate { .. })),
        "{}: {found:?}",
        language.name()
    );
}

/// The language that the first byte of an input selects; `fuzz/seeds.sh` writes the byte as a digit.
fn language(first: u8) -> Language {
    Language::ALL[usize::from(first) % Language::ALL.len()]
}

#[test]
fn seeds_say_their_language_by_a_digit() {
    let said = [b'0', b'1', b'2', b'3'].map(language);
    assert_eq!(said, Language::ALL);
}
