//! Numbers by chance, for seeds that a request leaves open and for the ids of answers.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A number that no client can guess.
pub fn number() -> u64 {
    // Each state has keys of its own, which begin with a random number of the system.
    RandomState::new().build_hasher().finish()
}
