//! Real definitions, broken: whatever `problem.toml` says, it is a problem or an error that has words.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::sync::LazyLock;

use flopsmith_problem::fuzz::fuzz_one;
use flopsmith_test_support::mutate::{Edit, lexemes, mutated};
use flopsmith_test_support::shipped;
use proptest::prelude::*;
use proptest::sample::Index;

/// The definitions of the shipped problems.
static DEFINITIONS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let folders = shipped::problems().into_iter();
    folders
        .map(|folder| fs::read_to_string(folder.join("problem.toml")).unwrap())
        .collect()
});

fn definition(index: &Index) -> &'static str {
    index.get::<String>(&DEFINITIONS)
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    prop::collection::vec(any::<Edit>(), 1..6)
}

#[test]
fn whole_definitions_are_problems() {
    for definition in DEFINITIONS.iter() {
        assert!(fuzz_one(definition.as_bytes()), "{definition}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn definitions_broken_by_bytes_are_read_or_refused(
        one in any::<Index>(), other in any::<Index>(), noise in prop::collection::vec(any::<u8>(), 0..64), edits in edits()
    ) {
        let donor = [definition(&other).as_bytes(), noise.as_slice()].concat();
        fuzz_one(&mutated(definition(&one).as_bytes(), &donor, &edits));
    }

    #[test]
    fn definitions_broken_by_words_are_read_or_refused(one in any::<Index>(), other in any::<Index>(), edits in edits()) {
        let words = mutated(&lexemes(definition(&one)), &lexemes(definition(&other)), &edits);
        fuzz_one(words.concat().as_bytes());
    }

    /// One number exchanged: most of these are still definitions.
    #[test]
    fn numbers_may_be_any(one in any::<Index>(), at in any::<Index>(), number in prop_oneof![any::<i64>(), -2i64..3000]) {
        let number = number.to_string();
        let mut words = lexemes(definition(&one));
        let numbers: Vec<usize> = (0..words.len()).filter(|n| words[*n].parse::<i64>().is_ok()).collect();
        words[*at.get(&numbers)] = &number;
        fuzz_one(words.concat().as_bytes());
    }
}
