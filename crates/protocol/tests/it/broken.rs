//! Broken forms of real messages: the codec reads every input from the wire, or refuses it with a typed error.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use flopsmith_protocol::fuzz::fuzz_one;
use flopsmith_test_support::mutate::{Edit, mutated};
use proptest::prelude::*;
use proptest::sample::Index;

/// The golden bytes of every message.
static MESSAGES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = fs::read_dir(golden).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|f| fs::read(f).unwrap()).collect()
});

fn message(index: &Index) -> &'static [u8] {
    index.get::<Vec<u8>>(&MESSAGES)
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    prop::collection::vec(any::<Edit>(), 1..5)
}

/// The heads of maps and arrays, and whole strings and numbers: the tokens of MessagePack.
fn tokens(bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some(head) = rest.first() {
        let length_in = |width: usize| {
            let bytes = rest.iter().skip(1).take(width);
            1 + width + bytes.fold(0usize, |sum, byte| sum * 256 + usize::from(*byte))
        };
        let length = match head {
            0xa0..=0xbf => 1 + usize::from(head & 0x1f),
            0xc4 | 0xd9 => length_in(1),
            0xc5 | 0xda => length_in(2),
            0xc6 | 0xdb => length_in(4),
            0xcc | 0xd0 => 2,
            0xcd | 0xd1 | 0xdc | 0xde => 3,
            0xca | 0xce | 0xd2 | 0xdd | 0xdf => 5,
            0xcb | 0xcf | 0xd3 => 9,
            _ => 1,
        };
        let (one, after) = rest.split_at(length.min(rest.len()));
        found.push(one);
        rest = after;
    }
    found
}

#[test]
fn whole_messages_are_of_one_kind() {
    assert!(MESSAGES.len() > 10, "{} messages", MESSAGES.len());
    for message in MESSAGES.iter() {
        assert_eq!(fuzz_one(message), 1);
        assert_eq!(tokens(message).concat(), *message);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn messages_broken_by_bytes_are_read_or_refused(
        one in any::<Index>(), other in any::<Index>(), noise in prop::collection::vec(any::<u8>(), 0..64), edits in edits()
    ) {
        let donor = [message(&other), noise.as_slice()].concat();
        fuzz_one(&mutated(message(&one), &donor, &edits));
    }

    #[test]
    fn messages_broken_by_values_are_read_or_refused(one in any::<Index>(), other in any::<Index>(), edits in edits()) {
        let values = mutated(&tokens(message(&one)), &tokens(message(&other)), &edits);
        fuzz_one(&values.concat());
    }
}
