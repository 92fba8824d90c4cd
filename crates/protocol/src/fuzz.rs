//! Processes one input of the fuzzer `message` (`fuzz/`). The short runs among the tests call the same, lest one of the
//! two be forgotten when the other is changed; nothing else does.

use crate::{
    Candidate, Compiled, MachineFacts, Message, Outcome, PolicyPublished, Rollout, RunSpec,
    StageChanged, Task, Verified, decode, encode,
};

/// Reads bytes as one kind of message; true if they are one. A message that can be read can be written and read again,
/// and all else is an error that has words.
fn read<M: Message>(bytes: &[u8]) -> bool {
    match decode::<M>(bytes) {
        Ok(message) => {
            let again = encode(&message).expect("it was read, so it can be written");
            assert!(
                decode::<M>(&again).is_ok(),
                "a {} is written so that it cannot be read",
                M::KIND
            );
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Reads bytes as every kind of message: of how many kinds they are.
///
/// # Panics
/// Where the codec breaks what it promises: that is a find.
pub fn fuzz_one(bytes: &[u8]) -> usize {
    let kinds: [fn(&[u8]) -> bool; 10] = [
        read::<Task>,
        read::<Candidate>,
        read::<Rollout>,
        read::<Compiled>,
        read::<Verified>,
        read::<Outcome>,
        read::<PolicyPublished>,
        read::<MachineFacts>,
        read::<StageChanged>,
        read::<RunSpec>,
    ];
    kinds.iter().filter(|read| read(bytes)).count()
}
