//! Processes one input of the fuzzer `message` (`fuzz/`). The short runs among the tests call the same function, so a
//! change reaches both. No other code calls it.

use crate::{
    Candidate, Compiled, MachineFacts, Message, Outcome, PolicyPublished, Rollout, RunSpec,
    StageChanged, Task, Verified, decode, encode,
};

/// Reads bytes as one kind of message; true if they are one. Such a message can be encoded and decoded again. Other
/// bytes give an error with a message.
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

/// Reads bytes as every kind of message, and counts the kinds that they are.
///
/// # Panics
/// If the codec breaks this promise: the fuzzer then has a find.
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
