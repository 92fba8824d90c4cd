//! Complete training steps, read from the logs of outcomes and rollouts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flopsmith_bus::{LogReader, TraceContext};
use flopsmith_protocol::{Outcome, Purpose, Rollout, subjects};

use crate::advantages::StageBests;
use crate::error::Error;
use crate::ledger::{Groups, Ledger};
use crate::node::Context;
use crate::peaks::Peaks;
use crate::rounds::Rounds;
use crate::stream::is_fresh;

/// All data of a training step.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The step.
    pub step: u64,
    /// Its samples.
    pub groups: Groups,
    /// Trace contexts of its outcomes, for the links of the step's span.
    pub traces: Vec<TraceContext>,
}

/// Reads both logs.
pub struct Batches {
    context: Arc<Context>,
    /// The best speeds of the stages before the next step.
    bests: StageBests,
    /// Known once a timer has published it.
    peaks: Peaks,
    ledger: Ledger,
    traces: BTreeMap<u64, Vec<TraceContext>>,
    outcomes: LogReader<Outcome>,
    rollouts: LogReader<Rollout>,
    silence: Duration,
}

impl Batches {
    /// The steps of the context's run from `first` on. `silence` is the longest wait for a missing rollout, usually
    /// [`flopsmith_coordination::limits::ROLLOUT`].
    pub async fn open(
        context: &Arc<Context>,
        first: u64,
        silence: Duration,
    ) -> Result<Self, Error> {
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
            context: Arc::clone(context),
            bests: StageBests::default(),
            peaks: Peaks::default(),
            ledger: Ledger::starting_at(first),
            traces: BTreeMap::new(),
            outcomes,
            rollouts,
            silence,
        })
    }

    /// The same reader after earlier training; `bests` are the best speeds of the trained steps.
    #[must_use]
    pub fn behind(self, bests: StageBests) -> Self {
        Self { bests, ..self }
    }

    /// The first step whose outcomes are all here, and which no further round follows.
    async fn complete(&mut self) -> Result<Option<u64>, Error> {
        let settings = &self.context.settings;
        let step = self.ledger.complete();
        if settings.rounds() == 0 {
            return Ok(step);
        }
        let Some(step) = step else { return Ok(None) };
        if !self.peaks.cover(self.ledger.outcomes(step)) {
            self.peaks = self.context.machine_peaks().await?;
        }
        let rounds = Rounds {
            settings,
            peaks: &self.peaks,
            bests: &self.bests,
        };
        let asked = rounds.asked(self.ledger.outcomes(step));
        Ok(asked.settled.then_some(step))
    }

    /// The next step, once all its outcomes and all rollouts that belong to them have been read. Cancelling the call
    /// loses nothing.
    ///
    /// # Errors
    /// [`Error::Learner`] if a rollout that must exist does not arrive.
    pub async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            let Some(step) = self.complete().await? else {
                tokio::select! {
                    biased;
                    next = self.rollouts.next() => self.read(next?.1),
                    next = self.outcomes.next() => {
                        let (_, outcome) = next?;
                        let step = outcome.candidate.step;
                        if outcome.candidate.purpose == Purpose::Train && self.ledger.outcome(outcome) {
                            let trace = self.outcomes.trace().clone();
                            self.traces.entry(step).or_default().push(trace);
                        }
                    }
                }
                continue;
            };
            if self.ledger.awaited(step).next().is_none() {
                let groups = self.ledger.take(step);
                let outcomes = groups.iter().flatten().map(|sample| &sample.outcome);
                let settings = &self.context.settings;
                let kept = outcomes.filter(|o| !is_fresh(settings, &o.candidate.problem));
                self.bests.learn(kept);
                return Ok(Batch {
                    step,
                    groups,
                    traces: self.traces.remove(&step).unwrap_or_default(),
                });
            }
            match tokio::time::timeout(self.silence, self.rollouts.next()).await {
                Ok(next) => self.read(next?.1),
                Err(_) => return Err(self.missed(step)),
            }
        }
    }

    fn read(&mut self, rollout: Rollout) {
        if rollout.candidate.purpose == Purpose::Train {
            self.ledger.rollout(rollout);
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
