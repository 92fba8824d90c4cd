//! The entries of all programs, in a bucket of the bus.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flopsmith_bus::{Bus, Kv};
use flopsmith_coordination::duplicates::{FIRST_PAUSE, next_pause};
use flopsmith_protocol::{ArtifactRef, CandidateId, CandidateRef, Digest, Outcome, RunId};
use tokio::sync::{Notify, OnceCell};
use tokio::time::Instant;

use super::{Entry, Lookup};
use crate::error::Error;

/// The NATS bucket of the entries.
pub(crate) const BUCKET: &str = "fs_outcome_cache";

/// The entries of all programs that were tried, shared by all nodes. Cheap to clone.
#[derive(Clone)]
pub struct OutcomeCache(Arc<Inner>);

struct Inner {
    bus: Bus,
    /// Opened on first use, because not every node needs it.
    kv: OnceCell<Kv>,
    /// The waiters of this process by program, so that an outcome that is decided here reaches them at once.
    waiting: Mutex<HashMap<String, Arc<Notify>>>,
}

impl OutcomeCache {
    /// The cache on this bus.
    pub fn new(bus: Bus) -> Self {
        Self(Arc::new(Inner {
            bus,
            kv: OnceCell::new(),
            waiting: Mutex::default(),
        }))
    }

    /// The next action for a candidate whose program has this key. A candidate that waited too long for a duplicate
    /// passes that duplicate as `instead`.
    pub async fn look_up(
        &self,
        key: &Digest,
        candidate: &CandidateRef,
        instead: Option<&CandidateId>,
    ) -> Result<Lookup, Error> {
        let key = name(&candidate.run, key);
        let kv = self.kv().await?;
        loop {
            let (entry, revision) = read(kv, &key).await?;
            let (lookup, after) = entry.look_up(candidate, instead);
            let Some(after) = after else {
                return Ok(lookup);
            };
            if write(kv, &key, &after, revision).await? {
                return Ok(lookup);
            }
        }
    }

    /// Notes the outcome of a program for waiting and later candidates. If this fails, those candidates are evaluated
    /// themselves.
    pub(crate) async fn note(&self, key: &Digest, outcome: &Outcome, object: Option<&ArtifactRef>) {
        let key = name(&outcome.candidate.run, key);
        if let Err(error) = self.try_note(&key, outcome, object).await {
            let error = crate::supervisor::words(&error);
            tracing::warn!(candidate = %outcome.candidate.id, error, "equal programs will not find this outcome");
        }
        if let Some(waiting) = self.waiting().remove(&key) {
            waiting.notify_waiters();
        }
    }

    async fn try_note(
        &self,
        key: &str,
        outcome: &Outcome,
        object: Option<&ArtifactRef>,
    ) -> Result<(), Error> {
        let kv = self.kv().await?;
        loop {
            let (entry, revision) = read(kv, key).await?;
            let Some(after) = entry.decided(outcome, object) else {
                return Ok(());
            };
            if write(kv, key, &after, revision).await? {
                return Ok(());
            }
        }
    }

    /// Waits until no candidate with this program is being evaluated any more, at most until `deadline`. False when the
    /// deadline has passed.
    pub async fn settled(
        &self,
        run: &RunId,
        key: &Digest,
        deadline: Instant,
    ) -> Result<bool, Error> {
        let key = name(run, key);
        let kv = self.kv().await?;
        let mut pause = FIRST_PAUSE;
        loop {
            let here = Waiting::new(self, &key);
            let heard = here.notify.notified();
            tokio::pin!(heard);
            // From here on no outcome that is decided in this process is missed.
            heard.as_mut().enable();
            if read(kv, &key).await?.0.is_settled() {
                return Ok(true);
            }
            let now = Instant::now();
            if now >= deadline {
                return Ok(false);
            }
            let next = deadline.min(now + pause);
            tokio::select! {
                () = heard => {}
                () = tokio::time::sleep_until(next) => {}
            }
            pause = next_pause(pause);
        }
    }

    async fn kv(&self) -> Result<&Kv, Error> {
        let open = || async { Ok(self.0.bus.kv(BUCKET).await?) };
        self.0.kv.get_or_try_init(open).await
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waiter of this process for a program. The last waiter to leave removes the program from the list.
struct Waiting<'a> {
    cache: &'a OutcomeCache,
    key: &'a str,
    notify: Arc<Notify>,
}

impl<'a> Waiting<'a> {
    fn new(cache: &'a OutcomeCache, key: &'a str) -> Self {
        let mut waiting = cache.waiting();
        let notify = Arc::clone(waiting.entry(key.to_owned()).or_default());
        Self { cache, key, notify }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.cache.waiting();
        let ours = |there: &Arc<Notify>| Arc::ptr_eq(there, &self.notify);
        // One reference is the list's, the other one is this waiter's.
        if waiting.get(self.key).is_some_and(ours) && Arc::strong_count(&self.notify) <= 2 {
            waiting.remove(self.key);
        }
    }
}

/// A run's keys begin with its name, so that they can be removed together.
fn name(run: &RunId, key: &Digest) -> String {
    format!("{}.{key}", run.as_str().replace('.', "_"))
}

/// An entry and its revision; a new one has revision 0.
async fn read(kv: &Kv, key: &str) -> Result<(Entry, u64), Error> {
    let Some(found) = kv.get(key).await? else {
        return Ok((Entry::default(), 0));
    };
    // An entry that another version wrote may be unreadable: it is treated as empty and written over.
    let entry = rmp_serde::from_slice(&found.value).unwrap_or_default();
    Ok((entry, found.revision))
}

/// False if another writer was faster.
async fn write(kv: &Kv, key: &str, entry: &Entry, revision: u64) -> Result<bool, Error> {
    let bytes = rmp_serde::to_vec_named(entry).map_err(|e| Error::Saved {
        role: "compiler",
        detail: e.to_string(),
    })?;
    Ok(kv.replace(key, bytes, revision).await?.is_some())
}
