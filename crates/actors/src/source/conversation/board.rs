//! Results for conversations.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flopsmith_protocol::{CandidateId, Outcome, Verdict};
use tokio::sync::Notify;

/// The verdicts that have arrived.
#[derive(Default)]
pub(super) struct Board {
    verdicts: Mutex<HashMap<CandidateId, Verdict>>,
    changed: Notify,
}

impl Board {
    /// Puts up the verdict of an outcome.
    pub(super) fn put(&self, outcome: Outcome) {
        locked(&self.verdicts).insert(outcome.candidate.id, outcome.verdict);
        self.changed.notify_waiters();
    }

    /// The verdict of a candidate, once it is there.
    pub(super) async fn verdict(&self, candidate: &CandidateId) -> Verdict {
        loop {
            // Before the look at the board: a change after it wakes this task.
            let changed = self.changed.notified();
            let found = locked(&self.verdicts).get(candidate).cloned();
            if let Some(verdict) = found {
                return verdict;
            }
            changed.await;
        }
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
