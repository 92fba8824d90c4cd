//! Bytes from the wire, read as every kind of message: a message that can be read can be written and read again, and
//! all else is a typed error.
#![no_main]

use flopsmith_protocol::fuzz::fuzz_one;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzz_one(bytes);
});
