//! Leases for roles of which a run may have only one instance.
//!
//! A second archive or learner may run on another node. The second one waits and takes over when the first one is gone.
//! The first one may only seem to be gone: a process can be stopped for minutes and then continue as if nothing had
//! happened. Therefore one record in a bucket of the bus decides. The record names the holder and the state to continue
//! from. A process writes the record only at the revision that the process knows. A new holder writes the record when
//! it takes over; from then on the bus refuses every write of the previous holder. The previous holder's state is then
//! void, and so is everything that it would publish on the basis of that state.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use flopsmith_bus::{Bus, Kv};
pub use flopsmith_coordination::lease::Terms;
use flopsmith_coordination::lease::{self, Claim, Held, Refused, Waiting};
use flopsmith_protocol::{Digest, RunId};
use flopsmith_store::{Checkpoint, Checkpoints, Saved};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::Error;
use crate::node::Context;

/// The bucket of the leases of all roles that a run has once, and of the states from which their holders go on.
pub const BUCKET: &str = "fs_leases";

/// Limit of one try of a write. It is short because the answer may be lost with the connection.
const WRITE_TRY: Duration = Duration::from_secs(1);
/// Limit of all tries of a write together.
const WRITE_LIMIT: Duration = Duration::from_secs(5);
/// Pause between two tries.
const WRITE_PAUSE: Duration = Duration::from_millis(50);

/// The state to continue from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The checkpoint's name among those of the role.
    pub checkpoint: String,
    /// Digest of the checkpoint's manifest: another process that may write to the store cannot replace it.
    pub manifest: Digest,
}

impl From<Saved> for Head {
    fn from(saved: Saved) -> Self {
        Self {
            checkpoint: saved.name,
            manifest: saved.manifest,
        }
    }
}

type Record = lease::Record<String, Head>;

/// A lease that this process holds. If it is dropped without [`RoleLease::leave`], another process can take the lease
/// after [`Terms::patience`].
pub struct RoleLease {
    shared: Arc<Shared>,
    lost: CancellationToken,
    _renewing: DropGuard,
    term: u64,
    private: bool,
}

struct Shared {
    kv: Kv,
    key: String,
    held: Mutex<Held<String, Head>>,
    /// The bus's error for the last failed write; a successful write clears it.
    refused: std::sync::Mutex<Option<String>>,
}

impl RoleLease {
    /// Takes the lease of `role` in the context's run for this process; see [`RoleLease::take`].
    pub async fn of(
        context: &Context,
        role: &str,
        stop: &CancellationToken,
    ) -> Result<Option<Self>, Error> {
        let host = &context.host;
        let (run, terms) = (&context.run, Terms::default());
        Self::take(&host.bus, run, role, &host.instance, terms, stop).await
    }

    /// The checkpoint to continue from: the last one that was committed. If that one is damaged or is not the one that
    /// was saved, the newest usable one before it is taken.
    ///
    /// # Errors
    /// The defect of the last committed checkpoint, if no committed one can be used. Any other error of the store is
    /// returned at once.
    pub async fn latest(
        &self,
        checkpoints: &Checkpoints,
        run: &RunId,
    ) -> Result<Option<Checkpoint>, Error> {
        let (head, earlier) = {
            let held = self.shared.held.lock().await;
            let record = held.record();
            (record.head.clone(), record.earlier.clone())
        };
        let Some(head) = head else {
            // The lease names no state, so no checkpoint in the store was committed. On a private server a checkpoint
            // can only be this run's.
            return match self.private {
                true => Ok(checkpoints.latest(run).await?),
                false => Ok(None),
            };
        };
        let mut wrong = None;
        for state in std::iter::once(&head).chain(&earlier) {
            let error = match checkpoints.named(run, &state.checkpoint).await {
                Ok(found) if state.manifest == found.manifest => return Ok(Some(found)),
                Ok(found) => Error::Strange {
                    place: found.place(),
                },
                Err(error) if error.is_loss() => error.into(),
                Err(error) => return Err(error.into()),
            };
            tracing::error!(
                checkpoint = state.checkpoint,
                error = crate::supervisor::words(&error),
                "this state is unusable; using an older one"
            );
            wrong.get_or_insert(error);
        }
        // Every way through the loop without a result has left an error.
        wrong.map_or(Ok(None), Err)
    }

    /// Takes the lease of `role` in a run as `holder`, as soon as no other process holds it. None when `stop` comes
    /// first.
    ///
    /// A private server has no other nodes, so the previous holder is gone and the lease is free.
    pub async fn take(
        bus: &Bus,
        run: &RunId,
        role: &str,
        holder: &str,
        terms: Terms,
        stop: &CancellationToken,
    ) -> Result<Option<Self>, Error> {
        let kv = bus.kv(BUCKET).await?;
        let key = key(run, role);
        let private = bus.is_private();
        let began = Instant::now();
        let mut claim = Waiting::default();
        let mut waiting = false;
        loop {
            let (record, revision) = read(&kv, &key).await?;
            let holder_before = record.holder.clone();
            let me = holder.to_owned();
            match claim.read(&record, revision, &me, began.elapsed(), private, &terms) {
                Claim::Wait => {}
                Claim::Take { record, silent } => {
                    let Some(revision) = write(&kv, &key, &record, revision).await? else {
                        continue;
                    };
                    if silent {
                        tracing::warn!(
                            role,
                            before = holder_before,
                            "the previous holder gave no sign of life; taking over"
                        );
                    }
                    return Ok(Some(Self::held(
                        kv,
                        key,
                        Held::new(record, revision),
                        terms,
                        private,
                    )));
                }
            }
            if !waiting {
                waiting = true;
                tracing::info!(
                    role,
                    holder = holder_before,
                    "another process holds this lease; waiting as a standby"
                );
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(None),
                () = tokio::time::sleep(terms.look()) => {}
            }
        }
    }

    fn held(kv: Kv, key: String, held: Held<String, Head>, terms: Terms, private: bool) -> Self {
        let term = held.record().term;
        let shared = Arc::new(Shared {
            kv,
            key,
            held: Mutex::new(held),
            refused: std::sync::Mutex::new(None),
        });
        let lost = CancellationToken::new();
        let ended = CancellationToken::new();
        let renewing = renew(Arc::clone(&shared), terms, private, lost.clone());
        let stop = ended.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends with the lease, whose guard it watches"
        )]
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = renewing => {}
            }
        });
        Self {
            shared,
            lost,
            _renewing: ended.drop_guard(),
            term,
            private,
        }
    }

    /// Number of times the lease has changed hands, this time included. No other holder has the same number.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Waits until another process holds the lease or may hold it. If the bus said why it refused the signs of life,
    /// the error contains that reason.
    pub async fn lost(&self) -> Error {
        self.lost.cancelled().await;
        self.shared.lost()
    }

    /// The state to continue from; none in a run that begins.
    pub async fn head(&self) -> Option<Head> {
        self.shared.held.lock().await.record().head.clone()
    }

    /// Makes a saved state the one to continue from. Messages that rest on this state may be published only afterwards.
    ///
    /// # Errors
    /// [`Error::Replaced`] when another process has taken over: this state is void.
    pub async fn commit(&self, head: Head) -> Result<(), Error> {
        self.change(|record| record.committed(head.clone(), false))
            .await
    }

    /// Commits the last state, after which nothing is left to do: see [`RoleLease::is_over`].
    ///
    /// # Errors
    /// [`Error::Replaced`] when another process has taken over.
    pub async fn conclude(&self, head: Head) -> Result<(), Error> {
        self.change(|record| record.committed(head.clone(), true))
            .await
    }

    /// True if nothing is left to do in the lease of `role` in a run.
    pub async fn is_over(bus: &Bus, run: &RunId, role: &str) -> Result<bool, Error> {
        let kv = bus.kv(BUCKET).await?;
        Ok(read(&kv, &key(run, role)).await?.0.over)
    }

    async fn change(&self, change: impl Fn(Record) -> Record) -> Result<(), Error> {
        if self.lost.is_cancelled() {
            return Err(self.shared.lost());
        }
        let done = self.shared.write(change).await;
        if matches!(done, Err(Error::Replaced)) {
            self.lost.cancel();
        }
        done
    }

    /// Releases the lease, so that another process can take it at once.
    pub async fn leave(self) -> Result<(), Error> {
        match self.shared.write(Record::left).await {
            // Another process holds the lease already.
            Err(Error::Replaced) => Ok(()),
            other => other,
        }
    }
}

impl Shared {
    /// Why this process no longer holds the lease.
    fn lost(&self) -> Error {
        let refused = self.refused.lock();
        match refused.unwrap_or_else(PoisonError::into_inner).clone() {
            Some(words) => Error::Unheard(words),
            None => Error::Replaced,
        }
    }

    /// Keeps the error of a write; none after a successful write.
    fn note(&self, failure: Option<&Error>) {
        let words = failure.map(|error| crate::supervisor::words(error));
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = words;
    }

    /// Changes the record. A write whose answer was lost may have arrived or may still arrive. Therefore the write is
    /// tried again within [`WRITE_LIMIT`], and a record with this process's own holder and term counts as its own
    /// write.
    async fn write(&self, change: impl Fn(Record) -> Record) -> Result<(), Error> {
        let mut held = self.held.lock().await;
        let started = Instant::now();
        loop {
            let record = change(held.record().clone());
            let tried = write(&self.kv, &self.key, &record, held.revision());
            let failure = match tokio::time::timeout(WRITE_TRY, tried).await {
                Ok(Ok(Some(revision))) => {
                    self.note(None);
                    held.written(record, revision);
                    return Ok(());
                }
                // Either another process has written, or an earlier write of this process arrived late.
                Ok(Ok(None)) => {
                    let found = tokio::time::timeout(WRITE_TRY, read(&self.kv, &self.key)).await;
                    match found {
                        Ok(Ok((found, at))) => match held.refused(&record, found, at) {
                            Refused::Replaced => {
                                self.note(None);
                                return Err(Error::Replaced);
                            }
                            Refused::Stored => return Ok(()),
                            Refused::Again => continue,
                            Refused::Lagging => None,
                        },
                        Ok(Err(error)) => Some(error),
                        Err(_) => None,
                    }
                }
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            // A timeout after an error of the bus does not replace that error.
            if failure.is_some() {
                self.note(failure.as_ref());
            }
            if started.elapsed() >= WRITE_LIMIT {
                return Err(failure.unwrap_or(Error::Silent("the lease's record")));
            }
            tokio::time::sleep(WRITE_PAUSE).await;
        }
    }
}

/// Writes signs of life until the bus has accepted none for [`Terms::give_up`], or until another process has taken
/// over. On a `private` server no other process can take over, so this never gives up: the broker comes back, or the
/// run ends because it does not.
async fn renew(shared: Arc<Shared>, terms: Terms, private: bool, lost: CancellationToken) {
    let began = Instant::now();
    let mut confirmed = Duration::ZERO;
    // Taking the lease was the first sign of life.
    let mut tick = interval_at(began + terms.beat, terms.beat);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let left = match private {
            true => Some(terms.give_up),
            false => lease::left(confirmed, began.elapsed(), &terms),
        };
        let Some(left) = left else {
            let why = crate::supervisor::words(&shared.lost());
            tracing::warn!(
                lease = shared.key,
                why,
                "no sign of life arrived for too long"
            );
            lost.cancel();
            return;
        };
        let sign = tokio::time::timeout(left, shared.write(Record::renewed)).await;
        match sign {
            Ok(Ok(())) => confirmed = began.elapsed(),
            Ok(Err(Error::Replaced)) => {
                tracing::warn!(lease = shared.key, "another process has taken over");
                lost.cancel();
                return;
            }
            // The broker is away; it may come back before `give_up` is over.
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

fn key(run: &RunId, role: &str) -> String {
    format!("{}.{role}", run.as_str().replace('.', "_"))
}

async fn read(kv: &Kv, key: &str) -> Result<(Record, u64), Error> {
    match kv.get(key).await? {
        None => Ok((Record::default(), 0)),
        Some(found) => {
            let record = serde_json::from_slice(&found.value).map_err(|e| Error::Saved {
                role: "lease",
                detail: e.to_string(),
            })?;
            Ok((record, found.revision))
        }
    }
}

/// The revision of the written record; none if another process wrote first.
async fn write(kv: &Kv, key: &str, record: &Record, revision: u64) -> Result<Option<u64>, Error> {
    let bytes = serde_json::to_vec(record).map_err(|e| Error::Saved {
        role: "lease",
        detail: e.to_string(),
    })?;
    Ok(kv.replace(key, bytes, revision).await?)
}
