//! Bytes from the wire, read as every kind of message: what can be read can be written and read again, and all else is a typed error.
#![no_main]

use flopsmith_protocol::{
    Candidate, Compiled, MachineFacts, Message, Outcome, PolicyPublished, Rollout, StageChanged,
    Task, Verified, decode, encode,
};
use libfuzzer_sys::fuzz_target;

fn read<M: Message>(bytes: &[u8]) {
    match decode::<M>(bytes) {
        Ok(message) => {
            let again = encode(&message).expect("it was read, so it can be written");
            assert!(decode::<M>(&again).is_ok(), "{}", M::KIND);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fuzz_target!(|bytes: &[u8]| {
    read::<Task>(bytes);
    read::<Candidate>(bytes);
    read::<Rollout>(bytes);
    read::<Compiled>(bytes);
    read::<Verified>(bytes);
    read::<Outcome>(bytes);
    read::<PolicyPublished>(bytes);
    read::<MachineFacts>(bytes);
    read::<StageChanged>(bytes);
});
