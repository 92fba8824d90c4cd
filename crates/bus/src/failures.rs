//! How often this process failed at a piece of work.
//!
//! This count differs from the server's delivery count. The server gives an interrupted message out again and counts
//! that delivery, although no worker failed. A run may be stopped and resumed any number of times.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Counts = HashMap<(String, u64), u32>;

/// Failures by queue and number in its stream. All workers of a bus share the counts, so that the counts survive the
/// restart of a role.
#[derive(Debug, Default, Clone)]
pub(crate) struct Failures(Arc<Mutex<Counts>>);

impl Failures {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of failures so far.
    pub(crate) fn of(&self, queue: &str, sequence: u64) -> u32 {
        let key = (queue.to_owned(), sequence);
        self.counts().get(&key).copied().unwrap_or(0)
    }

    /// Counts one more failure.
    pub(crate) fn add(&self, queue: &str, sequence: u64) {
        let key = (queue.to_owned(), sequence);
        *self.counts().entry(key).or_default() += 1;
    }

    /// Forgets a message that left its queue.
    pub(crate) fn forget(&self, queue: &str, sequence: u64) {
        self.counts().remove(&(queue.to_owned(), sequence));
    }
}
