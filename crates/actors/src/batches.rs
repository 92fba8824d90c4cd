//! Complete training steps, read from the logs of outcomes and rollouts.

use std::time::Duration;

use flopsmith_bus::LogReader;
use flopsmith_protocol::{Outcome, Rollout, subjects};

use crate::error::Error;
use crate::ledger::{Groups, Ledger};
use crate::node::Context;

/// A rollout is published before its candidate, so when an outcome is there the rollout is as well: what does not come
/// for so long never will. Short, so that a learner that fails at it again and again is given up with these words.
pub const SILENCE: Duration = Duration::from_secs(5);

/// Everything there is of a training step.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The step.
    pub step: u64,
    /// Its samples.
    pub groups: Groups,
}

/// Reads both logs.
pub struct Batches {
    ledger: Ledger,
    outcomes: LogReader<Outcome>,
    rollouts: LogReader<Rollout>,
    silence: Duration,
}

impl Batches {
    /// The steps of the context's run from `first` on. `silence` is how long the next rollout may take to be read when one
    /// is missed, usually [`SILENCE`].
    pub async fn open(context: &Context, first: u64, silence: Duration) -> Result<Self, Error> {
        let outcomes = context.bus.log(&subjects::outcome(&context.run), 0).await?;
        let rollouts = context.bus.log(&subjects::rollout(&context.run), 0).await?;
        Ok(Self {
            ledger: Ledger::starting_at(first),
            outcomes,
            rollouts,
            silence,
        })
    }

    /// The next step, once every outcome of it and every rollout that belongs to one has been read. Cancelling it loses nothing.
    ///
    /// # Errors
    /// [`Error::Learner`] when rollouts that must be there do not come.
    pub async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            let Some(step) = self.ledger.complete() else {
                tokio::select! {
                    biased;
                    next = self.rollouts.next() => self.ledger.rollout(next?.1),
                    next = self.outcomes.next() => self.ledger.outcome(next?.1),
                }
                continue;
            };
            if self.ledger.awaited(step).next().is_none() {
                let groups = self.ledger.take(step);
                return Ok(Batch { step, groups });
            }
            match tokio::time::timeout(self.silence, self.rollouts.next()).await {
                Ok(next) => self.ledger.rollout(next?.1),
                Err(_) => return Err(self.missed(step)),
            }
        }
    }

    fn missed(&self, step: u64) -> Error {
        let mut missed = self.ledger.awaited(step);
        let first = missed.next().map_or("none", |id| id.as_str());
        Error::Learner(format!(
            "step {step} has all its outcomes, and the tokens of {} of its samples (the first is {first}) are not in the \
             run's log of rollouts: that log is damaged or belongs to another run",
            1 + missed.count()
        ))
    }
}
