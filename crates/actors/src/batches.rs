//! Complete training steps, read from the logs of outcomes and rollouts.

use std::collections::BTreeMap;
use std::time::Duration;

use flopsmith_bus::{LogReader, TraceContext};
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
    /// Where each of its outcomes was decided, for the links of the step's span.
    pub traces: Vec<TraceContext>,
}

/// Reads both logs.
pub struct Batches {
    ledger: Ledger,
    traces: BTreeMap<u64, Vec<TraceContext>>,
    outcomes: LogReader<Outcome>,
    rollouts: LogReader<Rollout>,
    silence: Duration,
}

impl Batches {
    /// The steps of the context's run from `first` on. `silence` is how long the next rollout may take to be read when one
    /// is missed, usually [`SILENCE`].
    pub async fn open(context: &Context, first: u64, silence: Duration) -> Result<Self, Error> {
        let outcomes = context
            .host
            .bus
            .log(&subjects::outcome(&context.run), 0)
            .await?;
        let rollouts = context
            .host
            .bus
            .log(&subjects::rollout(&context.run), 0)
            .await?;
        Ok(Self {
            ledger: Ledger::starting_at(first),
            traces: BTreeMap::new(),
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
                    next = self.outcomes.next() => {
                        let (_, outcome) = next?;
                        let step = outcome.candidate.step;
                        if self.ledger.outcome(outcome) {
                            let trace = self.outcomes.trace().clone();
                            self.traces.entry(step).or_default().push(trace);
                        }
                    }
                }
                continue;
            };
            if self.ledger.awaited(step).next().is_none() {
                return Ok(Batch {
                    step,
                    groups: self.ledger.take(step),
                    traces: self.traces.remove(&step).unwrap_or_default(),
                });
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
