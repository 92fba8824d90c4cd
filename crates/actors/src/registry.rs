//! RunRegistry of runs on the bus: how a node learns what a run is when it meets work of it.

use std::time::Duration;

use flopsmith_bus::{Bus, Change, Error as BusError, Kv, Watch, refusals};
use flopsmith_protocol::{MachineClass, RunId, RunSpec, decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::error::Error;

/// The bucket of [`RunSpec`]s.
pub(crate) const RUNS: &str = "fs_runs";
/// The bucket of what the machines of a class have in common in a run.
pub(crate) const CLASSES: &str = "fs_classes";

/// For so long it is tried to withdraw a run, each time after a moment.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(500);

/// The run registry on one bus. Cheap to clone.
#[derive(Clone)]
pub struct RunRegistry {
    runs: Kv,
    classes: Kv,
    results: Kv,
}

impl RunRegistry {
    /// The run registry on `bus`.
    pub async fn open(bus: &Bus) -> Result<Self, Error> {
        Ok(Self {
            runs: bus.kv(RUNS).await?,
            classes: bus.kv(CLASSES).await?,
            results: bus.kv(crate::outcome_cache::BUCKET).await?,
        })
    }

    /// Tells all nodes what a run is. A later sitting writes over what an earlier one told.
    pub async fn announce(&self, spec: &RunSpec) -> Result<(), Error> {
        let bytes = encode(spec).map_err(|e| Error::Settings(e.to_string()))?;
        self.runs.put(&key(&spec.run), bytes).await?;
        Ok(())
    }

    /// Does a run of this name go on on the bus?
    pub async fn is_known(&self, run: &RunId) -> Result<bool, Error> {
        Ok(self.runs.get(&key(run)).await?.is_some())
    }

    /// What a run is; none where nobody has told, or it is over.
    ///
    /// # Errors
    /// [`Error::Saved`] where what was told cannot be read, as when another version told it.
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

    /// All runs, and then each that comes, changes or ends.
    pub async fn watch(&self) -> Result<RunWatch, Error> {
        Ok(RunWatch(self.runs.watch().await?))
    }

    /// Tells all nodes of a run that begins.
    ///
    /// # Errors
    /// [`Error::Settings`] where there is a run of that name on the bus.
    pub async fn announce_new(&self, spec: &RunSpec) -> Result<(), Error> {
        let bytes = encode(spec).map_err(|e| Error::Settings(e.to_string()))?;
        match self.runs.create(&key(&spec.run), bytes).await {
            Ok(_) => Ok(()),
            Err(BusError::Conflict { .. }) => Err(Error::Settings(format!(
                "another run on this bus is called {}: start it again, and it gets another name",
                spec.run
            ))),
            Err(error) => Err(error.into()),
        }
    }

    /// The run is over: nodes forget it, and what is known of its programs goes. Can be done again.
    pub async fn withdraw(&self, run: &RunId) -> Result<(), Error> {
        self.runs.delete(&key(run)).await?;
        self.classes.remove_all(&key(run)).await?;
        Ok(self.results.remove_all(&key(run)).await?)
    }

    /// The same where a bus whose disk is full, or that is away for a while, is waited for.
    ///
    /// # Errors
    /// What the bus said last, after a minute; what it refuses, at once.
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

    /// What all machines of a class go by in a run: what is there, or else `ours`, which is what the others find from now on.
    ///
    /// Machines of a class measure slightly different speeds of a run's reference. Programs are compared across them, so
    /// all go by the first one's.
    ///
    /// # Errors
    /// [`Error::Saved`] where what is there cannot be read.
    pub async fn in_common<T: Serialize + DeserializeOwned>(
        &self,
        run: &RunId,
        class: &MachineClass,
        ours: T,
    ) -> Result<T, Error> {
        let damaged = |detail: String| Error::Saved {
            role: "machine class",
            detail,
        };
        let key = format!("{}.{}", key(run), class.as_str().replace('.', "_"));
        let bytes = serde_json::to_vec(&ours).map_err(|e| damaged(e.to_string()))?;
        loop {
            if let Some(found) = self.classes.get(&key).await? {
                return serde_json::from_slice(&found.value).map_err(|e| damaged(e.to_string()));
            }
            match self.classes.create(&key, bytes.clone()).await {
                Ok(_) => return Ok(ours),
                Err(BusError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// What becomes of runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunChange {
    /// It goes on, and this is what it is.
    Told(Box<RunSpec>),
    /// The run of this key is over. Keys are names without dots.
    Over(String),
}

/// Hears of runs as they come, change and end.
pub struct RunWatch(Watch);

impl RunWatch {
    /// The next change. What another version told is passed over. Cancelling it loses nothing.
    ///
    /// # Errors
    /// After one no more is told; another watch begins anew with all runs that are there.
    pub async fn next(&mut self) -> Result<RunChange, Error> {
        loop {
            match self.0.next().await? {
                Change::Gone(key) => return Ok(RunChange::Over(key)),
                Change::Put(key, entry) => match decode(&entry.value) {
                    Ok(spec) => return Ok(RunChange::Told(Box::new(spec))),
                    Err(error) => {
                        tracing::warn!(key, %error, "what was told of a run cannot be read");
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
