//! How often a piece of work failed in the hands of this process.
//!
//! The server counts how often it gave a message out, and that is something else: whoever is interrupted or killed
//! has it given out again and did not fail at it. A run may be stopped and resumed any number of times.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Counts = HashMap<(String, u64), u32>;

/// Failures by queue and place in its stream. Shared by all workers of a bus, so that it outlives a role that is started anew.
#[derive(Debug, Default, Clone)]
pub(crate) struct Failures(Arc<Mutex<Counts>>);

impl Failures {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Failures so far.
    pub(crate) fn of(&self, queue: &str, sequence: u64) -> u32 {
        let key = (queue.to_owned(), sequence);
        self.counts().get(&key).copied().unwrap_or(0)
    }

    /// One more.
    pub(crate) fn add(&self, queue: &str, sequence: u64) {
        let key = (queue.to_owned(), sequence);
        *self.counts().entry(key).or_default() += 1;
    }

    /// It left its queue.
    pub(crate) fn forget(&self, queue: &str, sequence: u64) {
        self.counts().remove(&(queue.to_owned(), sequence));
    }
}
