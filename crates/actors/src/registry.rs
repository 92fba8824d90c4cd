//! Registry of runs on the bus. A node finds the specification of a run here when the node meets work of it.

use std::time::Duration;

use flopsmith_bus::{Bus, Change, Error as BusError, Kv, Watch, refusals};
use flopsmith_protocol::{MachineClass, ProblemId, RunId, RunSpec, decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::error::Error;

/// The bucket of [`RunSpec`]s.
pub(crate) const RUNS: &str = "fs_runs";
/// The bucket of values that all machines of a class share in a run.
pub(crate) const CLASSES: &str = "fs_classes";

/// Withdrawing a run is tried for this long, with a pause of [`AGAIN`] between tries.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(500);

/// The run registry on one bus. Cheap to clone.
#[derive(Clone)]
pub struct RunRegistry {
    runs: Kv,
    classes: Kv,
    outcome_cache: Kv,
}

impl RunRegistry {
    /// The run registry on `bus`.
    pub async fn open(bus: &Bus) -> Result<Self, Error> {
        Ok(Self {
            runs: bus.kv(RUNS).await?,
            classes: bus.kv(CLASSES).await?,
            outcome_cache: bus.kv(crate::outcome_cache::BUCKET).await?,
        })
    }

    /// Publishes a run's specification to all nodes. A later session overwrites the specification of an earlier one.
    pub async fn announce(&self, spec: &RunSpec) -> Result<(), Error> {
        let bytes = encode(spec).map_err(|e| Error::Settings(e.to_string()))?;
        self.runs.put(&key(&spec.run), bytes).await?;
        Ok(())
    }

    /// True if a run of this name is on the bus.
    pub async fn is_known(&self, run: &RunId) -> Result<bool, Error> {
        Ok(self.runs.get(&key(run)).await?.is_some())
    }

    /// A run's specification; none if it was never published, or if the run is over.
    ///
    /// # Errors
    /// [`Error::Saved`] if the specification cannot be read, for example because another version wrote it.
    pub async fn find(&self, run: &RunId) -> Result<Option<RunSpec>, Error> {
        let Some(found) = self.runs.get(&key(run)).await? else {
            return Ok(None);
        };
        let spec = decode(&found.value).map_err(|e| Error::Saved {
            role: "run",
            detail: e.to_string(),
        })?;
        Ok(Some(spec))
    }

    /// All runs, and then each run that begins, changes or ends.
    pub async fn watch(&self) -> Result<RunWatch, Error> {
        Ok(RunWatch(self.runs.watch().await?))
    }

    /// Publishes the specification of a run that begins.
    ///
    /// # Errors
    /// [`Error::Settings`] if there is a run of that name on the bus.
    pub async fn announce_new(&self, spec: &RunSpec) -> Result<(), Error> {
        let bytes = encode(spec).map_err(|e| Error::Settings(e.to_string()))?;
        match self.runs.create(&key(&spec.run), bytes).await {
            Ok(_) => Ok(()),
            Err(BusError::Conflict { .. }) => Err(Error::Settings(format!(
                "another run on this bus has the name {}: start this run again, and it gets another name",
                spec.run
            ))),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends a run: nodes forget it, and the cached outcomes of its programs are removed. Can be repeated.
    pub async fn withdraw(&self, run: &RunId) -> Result<(), Error> {
        self.runs.delete(&key(run)).await?;
        self.classes.remove_all(&key(run)).await?;
        Ok(self.outcome_cache.remove_all(&key(run)).await?)
    }

    /// The same, but waits for a bus whose disk is full or that is away for a while.
    ///
    /// # Errors
    /// The bus's last error, after a minute; a refusal of the bus, at once.
    pub async fn withdraw_patiently(bus: &Bus, run: &RunId) -> Result<(), Error> {
        let began = Instant::now();
        let mut refused = refusals();
        refused.mark_unchanged();
        loop {
            let withdrawn = async { Self::open(bus).await?.withdraw(run).await };
            match withdrawn.await {
                Err(error)
                    if began.elapsed() < PATIENCE && !refused.has_changed().unwrap_or(false) =>
                {
                    tracing::warn!(%run, error = %crate::supervisor::words(&error), "a run that is over cannot be withdrawn yet");
                    tokio::time::sleep(AGAIN).await;
                }
                done => return done,
            }
        }
    }

    /// The value that all machines of a class use for a problem of a run: the stored one, or else `ours`, which is then
    /// stored for the others.
    ///
    /// Machines of a class measure slightly different speeds of a run's reference. Programs are compared across these
    /// machines, so all machines use the first one's value.
    ///
    /// # Errors
    /// [`Error::Saved`] if the stored value cannot be read.
    pub async fn in_common<T: Serialize + DeserializeOwned>(
        &self,
        run: &RunId,
        problem: &ProblemId,
        class: &MachineClass,
        ours: T,
    ) -> Result<T, Error> {
        let bytes = serde_json::to_vec(&ours).map_err(damaged)?;
        loop {
            if let Some(found) = self.common(run, problem, class).await? {
                return Ok(found);
            }
            let key = class_key(run, problem, class);
            match self.classes.create(&key, bytes.clone()).await {
                Ok(_) => return Ok(ours),
                Err(BusError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The stored value that all machines of a class use for a problem of a run; none before the first of them has one.
    ///
    /// # Errors
    /// [`Error::Saved`] if the stored value cannot be read.
    pub async fn common<T: DeserializeOwned>(
        &self,
        run: &RunId,
        problem: &ProblemId,
        class: &MachineClass,
    ) -> Result<Option<T>, Error> {
        let found = self.classes.get(&class_key(run, problem, class)).await?;
        let read = found.map(|found| serde_json::from_slice(&found.value));
        read.transpose().map_err(damaged)
    }
}

fn class_key(run: &RunId, problem: &ProblemId, class: &MachineClass) -> String {
    let parts = [class.as_str(), problem.as_str()].map(|part| part.replace('.', "_"));
    format!("{}.{}", key(run), parts.join("."))
}

/// A value of a machine class that is no JSON of its type.
fn damaged(error: serde_json::Error) -> Error {
    Error::Saved {
        role: "machine class",
        detail: error.to_string(),
    }
}

/// A change of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunChange {
    /// The run continues; this is its specification.
    Told(Box<RunSpec>),
    /// The run of this key is over. Keys are names without dots.
    Over(String),
}

/// Reports runs as they begin, change and end.
pub struct RunWatch(Watch);

impl RunWatch {
    /// The next change. A specification that another version wrote may be unreadable and is then skipped. Cancelling
    /// the call loses nothing.
    ///
    /// # Errors
    /// After an error no further change is reported; a new watch begins again with all runs that are there.
    pub async fn next(&mut self) -> Result<RunChange, Error> {
        loop {
            match self.0.next().await? {
                Change::Gone(key) => return Ok(RunChange::Over(key)),
                Change::Put(key, entry) => match decode(&entry.value) {
                    Ok(spec) => return Ok(RunChange::Told(Box::new(spec))),
                    Err(error) => {
                        tracing::warn!(key, %error, "an entry of the run registry cannot be read");
                    }
                },
            }
        }
    }
}

/// A run's name as a key.
pub fn key(run: &RunId) -> String {
    run.as_str().replace('.', "_")
}
