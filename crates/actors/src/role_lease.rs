//! Roles of which a run may have one only.
//!
//! Of archive and learner a second one may run on another node: it waits, and takes over when the first is gone. The first
//! may only seem to be gone; a process can be stopped for minutes and go on as if nothing had been. So what counts is one
//! record in a bucket of the bus, which names the holder and the state to go on from, and which is only ever written at the
//! revision that the writer knows. Whoever takes over writes it, and from then on nothing the one before writes is accepted:
//! its state is no longer anybody's, and what it would publish next rests on that state.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use flopsmith_bus::{Bus, Kv};
use flopsmith_protocol::{Digest, RunId};
use flopsmith_store::{Checkpoint, Checkpoints, Saved};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::Error;
use crate::node::Context;

pub(crate) const BUCKET: &str = "fs_offices";

/// One try of a write. Its answer may be lost with the connection, so it is not waited for long.
const WRITE_TRY: Duration = Duration::from_secs(1);
/// All tries of a write together.
const WRITE_LIMIT: Duration = Duration::from_secs(5);
/// Between two tries.
const WRITE_PAUSE: Duration = Duration::from_millis(50);

/// How holders and those who wait reckon with time, each by a clock of its own.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The holder gives a sign of life this often.
    pub beat: Duration,
    /// A holder whose signs did not arrive for so long does nothing more.
    pub give_up: Duration,
    /// Who has seen no sign of the holder for so long takes over.
    pub patience: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            beat: Duration::from_secs(2),
            give_up: Duration::from_secs(6),
            patience: Duration::from_secs(10),
        }
    }
}

/// The state to go on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The checkpoint's name among those of the role.
    pub checkpoint: String,
    /// Digest of the checkpoint's manifest: whoever else may write to the store puts nothing in its place. None in records of before.
    #[serde(default)]
    pub manifest: Option<Digest>,
}

impl From<Saved> for Head {
    fn from(saved: Saved) -> Self {
        Self {
            checkpoint: saved.name,
            manifest: Some(saved.manifest),
        }
    }
}

/// States before the last one that are still known, should that be damaged: as many as roles keep.
const EARLIER: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// Empty when nobody holds it.
    holder: String,
    /// Grows with every change of hands.
    term: u64,
    /// Grows with every sign of life.
    beat: u64,
    head: Option<Head>,
    /// Those before it, the newest first.
    #[serde(default)]
    earlier: Vec<Head>,
    /// Nothing is left to do in it.
    #[serde(default)]
    over: bool,
}

/// A lease that is held. Dropped without [`RoleLease::leave`], it is somebody else's after a while.
pub struct RoleLease {
    shared: Arc<Shared>,
    lost: CancellationToken,
    _renewing: DropGuard,
    term: u64,
    private: bool,
}

impl Record {
    fn goes_on_from(&mut self, head: &Head) {
        if let Some(before) = self.head.replace(head.clone()) {
            self.earlier.insert(0, before);
            self.earlier.truncate(EARLIER);
        }
    }
}

struct Shared {
    kv: Kv,
    key: String,
    /// What was written last, and its revision.
    written: Mutex<(Record, u64)>,
    /// What the bus said of the last write, where that failed.
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

    /// The checkpoint to go on from: the one that was made so last, and where it is damaged, or is not what was saved, the one before.
    ///
    /// # Errors
    /// What is wrong with the last one, where none of those that were made so can be used.
    pub async fn latest(
        &self,
        checkpoints: &Checkpoints,
        run: &RunId,
    ) -> Result<Option<Checkpoint>, Error> {
        let (head, earlier) = {
            let written = self.shared.written.lock().await;
            (written.0.head.clone(), written.0.earlier.clone())
        };
        let Some(head) = head else {
            // What lies there was never made the state to go on from; on a server of the run's own it can only be the run's.
            return match self.private {
                true => Ok(checkpoints.latest(run).await?),
                false => Ok(None),
            };
        };
        let mut wrong = None;
        for state in std::iter::once(&head).chain(&earlier) {
            let error = match checkpoints.named(run, &state.checkpoint).await {
                Ok(found)
                    if state
                        .manifest
                        .as_ref()
                        .is_none_or(|known| *known == found.manifest) =>
                {
                    return Ok(Some(found));
                }
                Ok(found) => Error::Strange {
                    place: found.place(),
                },
                Err(error) if error.is_loss() => error.into(),
                Err(error) => return Err(error.into()),
            };
            tracing::error!(
                checkpoint = state.checkpoint,
                error = crate::supervisor::words(&error),
                "this state is not used; an older one is"
            );
            wrong.get_or_insert(error);
        }
        match wrong {
            Some(error) if head.manifest.is_some() => Err(error),
            // It is not known which others are the run's.
            _ => Ok(checkpoints.latest(run).await?),
        }
    }

    /// Takes the lease of `role` in a run as `holder`, as soon as nobody else has it. None when `stop` comes first.
    ///
    /// On a private server, which has no other nodes, whoever held it is gone.
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
        let mut seen: Option<(u64, Instant)> = None;
        let mut waiting = false;
        loop {
            let (record, revision) = read(&kv, &key).await?;
            let silent = match seen {
                Some((last, since)) if last == revision => since.elapsed() >= terms.patience,
                _ => {
                    seen = Some((revision, Instant::now()));
                    false
                }
            };
            let free = record.holder.is_empty() || record.holder == holder || bus.is_private();
            if free || silent {
                let ours = Record {
                    holder: holder.to_owned(),
                    term: record.term + 1,
                    beat: 0,
                    head: record.head,
                    earlier: record.earlier,
                    over: record.over,
                };
                if let Some(revision) = write(&kv, &key, &ours, revision).await? {
                    if silent && !free {
                        tracing::warn!(
                            role,
                            before = record.holder,
                            "nothing was heard of the one before: taking over"
                        );
                    }
                    let private = bus.is_private();
                    return Ok(Some(Self::held(kv, key, (ours, revision), terms, private)));
                }
                continue;
            }
            if !waiting {
                waiting = true;
                tracing::info!(
                    role,
                    holder = record.holder,
                    "somebody else does this; waiting in case it is needed"
                );
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(None),
                () = tokio::time::sleep(terms.beat / 2) => {}
            }
        }
    }

    fn held(
        kv: Kv,
        key: String,
        (record, revision): (Record, u64),
        terms: Terms,
        private: bool,
    ) -> Self {
        let term = record.term;
        let shared = Arc::new(Shared {
            kv,
            key,
            written: Mutex::new((record, revision)),
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

    /// How often it has changed hands, this time included: a number that no other holder has.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Waits until it is known that somebody else has it, or may have. Where the bus said why it took no sign of life, the error does.
    pub async fn lost(&self) -> Error {
        self.lost.cancelled().await;
        self.shared.lost()
    }

    /// The state to go on from; none in a run that begins.
    pub async fn head(&self) -> Option<Head> {
        self.shared.written.lock().await.0.head.clone()
    }

    /// Makes a state that was saved the one to go on from. What rests on it may be published afterwards, not before.
    ///
    /// # Errors
    /// [`Error::Replaced`] when somebody else has taken over: this state is nobody's.
    pub async fn commit(&self, head: Head) -> Result<(), Error> {
        self.change(|record| record.goes_on_from(&head)).await
    }

    /// The same for the last state, after which nothing is left to do: see [`RoleLease::is_over`].
    ///
    /// # Errors
    /// [`Error::Replaced`] when somebody else has taken over.
    pub async fn conclude(&self, head: Head) -> Result<(), Error> {
        let last = |record: &mut Record| {
            record.goes_on_from(&head);
            record.over = true;
        };
        self.change(last).await
    }

    /// Is nothing left to do in the lease of `role` in a run?
    pub async fn is_over(bus: &Bus, run: &RunId, role: &str) -> Result<bool, Error> {
        let kv = bus.kv(BUCKET).await?;
        Ok(read(&kv, &key(run, role)).await?.0.over)
    }

    async fn change(&self, change: impl Fn(&mut Record)) -> Result<(), Error> {
        if self.lost.is_cancelled() {
            return Err(self.shared.lost());
        }
        let done = self.shared.write(change).await;
        if matches!(done, Err(Error::Replaced)) {
            self.lost.cancel();
        }
        done
    }

    /// Lets somebody else have it at once.
    pub async fn leave(self) -> Result<(), Error> {
        match self.shared.write(|record| record.holder.clear()).await {
            // Then it is somebody else's already.
            Err(Error::Replaced) => Ok(()),
            other => other,
        }
    }
}

impl Shared {
    /// Why it is held no more.
    fn lost(&self) -> Error {
        let refused = self.refused.lock();
        match refused.unwrap_or_else(PoisonError::into_inner).clone() {
            Some(words) => Error::Unheard(words),
            None => Error::Replaced,
        }
    }

    /// Keeps what the bus said of a write.
    fn note(&self, failure: Option<&Error>) {
        let words = failure.map(|error| crate::supervisor::words(error));
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = words;
    }

    /// Changes the record. A write whose answer was lost may have arrived, or arrive yet: it is tried again within
    /// [`WRITE_LIMIT`], and what of ours is found then is no stranger's.
    async fn write(&self, change: impl Fn(&mut Record)) -> Result<(), Error> {
        let mut written = self.written.lock().await;
        let started = Instant::now();
        loop {
            let (mut record, revision) = written.clone();
            change(&mut record);
            let tried = write(&self.kv, &self.key, &record, revision);
            let failure = match tokio::time::timeout(WRITE_TRY, tried).await {
                Ok(Ok(Some(revision))) => {
                    self.note(None);
                    *written = (record, revision);
                    return Ok(());
                }
                // Not always somebody else: an earlier write of ours may have come late.
                Ok(Ok(None)) => {
                    let found = tokio::time::timeout(WRITE_TRY, read(&self.kv, &self.key)).await;
                    match found {
                        Ok(Ok((found, at))) if at > revision => {
                            // Nobody else has this term, and who has it has had it for one term only.
                            if found.holder != written.0.holder || found.term != written.0.term {
                                self.note(None);
                                return Err(Error::Replaced);
                            }
                            // What was to stand there does: its answer was lost, or comes too late.
                            let done = found == record;
                            *written = (found, at);
                            if done {
                                return Ok(());
                            }
                            continue;
                        }
                        // A copy that lags behind the one that refused.
                        Ok(Ok(_)) => None,
                        Ok(Err(error)) => Some(error),
                        Err(_) => None,
                    }
                }
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            // Silence after a word says nothing new.
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

/// Gives signs of life until nobody takes them any more. On a `private` server, where nobody else could take over, that is
/// never: its broker comes back, or the run ends for that.
async fn renew(shared: Arc<Shared>, terms: Terms, private: bool, lost: CancellationToken) {
    let mut heard = Instant::now();
    // Taking it was the first sign.
    let mut tick = interval_at(heard + terms.beat, terms.beat);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let left = match private {
            true => terms.give_up,
            false => terms.give_up.saturating_sub(heard.elapsed()),
        };
        // What stood still for longer than that may have been replaced meanwhile, whatever its next sign says.
        if left.is_zero() {
            let why = crate::supervisor::words(&shared.lost());
            tracing::warn!(
                lease = shared.key,
                why,
                "no sign of life arrived for too long"
            );
            lost.cancel();
            return;
        }
        let sign = tokio::time::timeout(left, shared.write(|record| record.beat += 1)).await;
        match sign {
            Ok(Ok(())) => heard = Instant::now(),
            Ok(Err(Error::Replaced)) => {
                tracing::warn!(lease = shared.key, "somebody else has taken over");
                lost.cancel();
                return;
            }
            // A broker that is away comes back, or it does not in time.
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

fn key(run: &RunId, role: &str) -> String {
    format!("{}.{role}", run.as_str().replace('.', "_"))
}

async fn read(kv: &Kv, key: &str) -> Result<(Record, u64), Error> {
    match kv.get(key).await? {
        None => Ok((
            Record {
                holder: String::new(),
                term: 0,
                beat: 0,
                head: None,
                earlier: Vec::new(),
                over: false,
            },
            0,
        )),
        Some(found) => {
            let record = serde_json::from_slice(&found.value).map_err(|e| Error::Saved {
                role: "lease",
                detail: e.to_string(),
            })?;
            Ok((record, found.revision))
        }
    }
}

/// The revision of what was written; none where somebody else wrote first.
async fn write(kv: &Kv, key: &str, record: &Record, revision: u64) -> Result<Option<u64>, Error> {
    let bytes = serde_json::to_vec(record).map_err(|e| Error::Saved {
        role: "lease",
        detail: e.to_string(),
    })?;
    Ok(kv.replace(key, bytes, revision).await?)
}
