//! Recorder: the logs of a run → files of the run's folder, and the live view.
//!
//! `outcomes.jsonl` holds each outcome once, however often it was delivered; `metrics.jsonl` holds one line per step;
//! `answers.jsonl` holds the newest answers of the run's own model. All are rebuilt from the logs, so a recorder that was
//! killed continues where it stopped. The recorder leaves after all other roles; before it leaves, everything that is in
//! the logs is in the files.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use flopsmith_bus::{DeadLetters, LogReader};
use flopsmith_protocol::{MachineFacts, Outcome, PolicyPublished, Rollout, StageChanged, subjects};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Role;
use crate::error::Error;
use crate::node::Context;
use crate::skipped;

mod answers;
mod book;
mod folder;

use answers::AnswerFile;
#[cfg(feature = "torch")]
pub use answers::detokenize;
pub use answers::{Detokenize, Texts};
pub use book::{Progress, Refused, SoFar, StepLine, step_lines};
use folder::Files;
pub use folder::{DeadLine, note_machine};

/// Writes trained weights, as the learner published them, into a folder that does not exist yet.
pub type Keep = Arc<dyn Fn(&Path, &[u8]) -> std::io::Result<()> + Send + Sync>;

/// Writes the run's files.
pub struct Recorder {
    context: Arc<Context>,
    progress: watch::Sender<Progress>,
    keep: Option<Keep>,
    detokenize: Option<Detokenize>,
}

impl Recorder {
    /// A recorder of the context's run.
    pub fn new(context: Arc<Context>, progress: watch::Sender<Progress>) -> Self {
        Self {
            context,
            progress,
            keep: None,
            detokenize: None,
        }
    }

    /// Writes the models that `learner.checkpoint_every` asks for by `keep`.
    #[must_use]
    pub fn keeping(self, keep: Keep) -> Self {
        Self {
            keep: Some(keep),
            ..self
        }
    }

    /// Writes the answers of the run's own model by `detokenize`. Without it they stay in the log of rollouts alone.
    #[must_use]
    pub fn detokenizing(self, detokenize: Option<Detokenize>) -> Self {
        Self { detokenize, ..self }
    }

    /// Writes the model of a version into the run's folder, if the settings ask for it.
    async fn keep_model(&self, published: &PolicyPublished) {
        let every = self.context.settings.learner.checkpoint_every;
        let version = published.version.0;
        let is_due = every > 0 && version > 0 && version.is_multiple_of(every);
        let Some(keep) = self.keep.clone().filter(|_| is_due) else {
            return;
        };
        let target = self.context.folder.join(files::CHECKPOINTS);
        let target = target.join(format!("version-{version:06}"));
        if target.exists() {
            return;
        }
        let written = match self.context.host.store.get(&published.weights).await {
            Ok(bytes) => tokio::task::spawn_blocking(move || keep(&target, &bytes))
                .await
                .map_err(|_| "the thread that writes it died".to_owned())
                .and_then(|written| written.map_err(|error| error.to_string())),
            Err(error) => Err(crate::supervisor::words(&error)),
        };
        // The run does not depend on this model.
        if let Err(error) = written {
            tracing::warn!(version, error, "a model is not in the run's folder");
        }
    }
}

/// Names of the files of a run.
pub mod files {
    /// Every outcome, one JSON object a line.
    pub const OUTCOMES: &str = "outcomes.jsonl";
    /// Every step, one JSON object a line.
    pub const METRICS: &str = "metrics.jsonl";
    /// The learner's metrics of each step.
    pub const TRAINING: &str = "training.jsonl";
    /// Stage changes.
    pub const STAGES: &str = "stages.jsonl";
    /// Work that no node could do, with the reason, one JSON object a line.
    pub const DEAD: &str = "dead_letters.jsonl";
    /// The requests to the run's endpoint: what each reserved, and how it ended.
    pub const REQUESTS: &str = "requests.jsonl";
    /// The answers of the run's endpoint or of its own model, with their prompts.
    pub const ANSWERS: &str = "answers.jsonl";
    /// The samples of the latest steps of a training through an endpoint, with their tokens.
    pub const DRAWS: &str = "draws.jsonl";
    /// The folder of the adapters that the endpoint of a training loads.
    pub const ADAPTERS: &str = "adapters";
    /// The attempts of an agent: what each could build on, and how it differs from that.
    pub const ATTEMPTS: &str = "attempts.jsonl";
    /// The last attestation of the timing machine.
    pub const MACHINE: &str = "machine.json";
    /// Every attestation of a timing machine, one JSON object a line: a measurement names its attestation by the
    /// digest.
    pub const MACHINES: &str = "machines.jsonl";
    /// The folder of earlier models (`learner.checkpoint_every`).
    pub const CHECKPOINTS: &str = "checkpoints";
}

/// The place in each log from which to read on.
#[derive(Default)]
struct Places {
    outcomes: u64,
    versions: u64,
    changes: u64,
    machines: u64,
    dead: u64,
    /// None if answers are not written.
    rollouts: Option<u64>,
}

/// The logs that a recorder writes to files.
struct Logs {
    outcomes: LogReader<Outcome>,
    versions: LogReader<PolicyPublished>,
    changes: LogReader<StageChanged>,
    machines: LogReader<MachineFacts>,
    dead: DeadLetters,
    rollouts: Option<LogReader<Rollout>>,
}

impl Logs {
    async fn open(context: &Context, from: &Places) -> Result<Self, Error> {
        let (bus, run) = (&context.host.bus, &context.run);
        let rollouts = match from.rollouts {
            Some(place) => Some(bus.log(&subjects::rollout(run), place).await?),
            None => None,
        };
        Ok(Self {
            rollouts,
            outcomes: bus.log(&subjects::outcome(run), from.outcomes).await?,
            versions: bus.log(&subjects::policy(run), from.versions).await?,
            changes: bus.log(&subjects::stage(run), from.changes).await?,
            machines: bus.log(&subjects::machine(run), from.machines).await?,
            dead: bus.dead_letters(from.dead).await?,
        })
    }

    /// The next rollout; never one if answers are not written.
    async fn next_rollout(
        rollouts: &mut Option<LogReader<Rollout>>,
    ) -> Result<(u64, Rollout), Error> {
        match rollouts {
            Some(rollouts) => Ok(rollouts.next().await?),
            None => std::future::pending().await,
        }
    }

    /// Writes down everything but rollouts that was there when the logs were opened.
    async fn replay(
        &mut self,
        recorder: &Recorder,
        files: &mut Files,
        places: &mut Places,
    ) -> Result<(), Error> {
        for (sequence, outcome) in self.outcomes.replay().await? {
            files.outcome(&outcome)?;
            places.outcomes = sequence + 1;
        }
        for (sequence, published) in self.versions.replay().await? {
            files.version(&published)?;
            keep_skipped(&recorder.context, &published).await?;
            recorder.keep_model(&published).await;
            places.versions = sequence + 1;
        }
        for (sequence, change) in self.changes.replay().await? {
            files.change(&change)?;
            places.changes = sequence + 1;
        }
        for (sequence, facts) in self.machines.replay().await? {
            files.machine(facts)?;
            places.machines = sequence + 1;
        }
        while self.dead.pending() > 0 {
            let letter = self.dead.next().await?;
            files.dead_letter(&letter)?;
            places.dead = letter.sequence + 1;
        }
        Ok(())
    }
}

/// Writes the batch of an update that was left out into the run's folder, whichever node the learner is on.
async fn keep_skipped(context: &Context, published: &PolicyPublished) -> Result<(), Error> {
    let metrics = published.metrics.as_ref();
    let Some(batch) = metrics.and_then(|m| m.skipped_batch.as_ref()) else {
        return Ok(());
    };
    if skipped::file(&context.folder, published.step).exists() {
        return Ok(());
    }
    match context.host.store.get(batch).await {
        Ok(bytes) => skipped::write(&context.folder, published.step, &bytes),
        // The run does not depend on this file.
        Err(error) => {
            let (step, error) = (published.step, crate::supervisor::words(&error));
            tracing::warn!(
                step,
                error,
                "the batch of a skipped update is not in the run's folder"
            );
            Ok(())
        }
    }
}

#[async_trait]
impl Role for Recorder {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let context = Arc::clone(&self.context);
        let draws_again = context.settings.rounds() > 0;
        let mut files = Files::open(&context.folder, context.run.clone(), draws_again)?;
        let detokenize = self.detokenize.clone();
        let mut answers = detokenize
            .map(|detokenize| AnswerFile::open(&context.folder, detokenize, answers::MOST))
            .transpose()?;
        let mut places = Places {
            rollouts: answers.as_ref().map(AnswerFile::next),
            ..Places::default()
        };
        let mut logs = Logs::open(&context, &places).await?;
        logs.replay(self, &mut files, &mut places).await?;
        self.progress.send_replace(files.progress());
        loop {
            tokio::select! {
                biased;
                next = logs.outcomes.next() => {
                    let (sequence, outcome) = next?;
                    files.outcome(&outcome)?;
                    places.outcomes = sequence + 1;
                    self.progress.send_replace(files.progress());
                }
                next = logs.versions.next() => {
                    let (sequence, published) = next?;
                    files.version(&published)?;
                    keep_skipped(&context, &published).await?;
                    self.keep_model(&published).await;
                    places.versions = sequence + 1;
                }
                next = logs.changes.next() => {
                    let (sequence, change) = next?;
                    files.change(&change)?;
                    places.changes = sequence + 1;
                }
                next = logs.machines.next() => {
                    let (sequence, facts) = next?;
                    files.machine(facts)?;
                    places.machines = sequence + 1;
                    self.progress.send_replace(files.progress());
                }
                letter = logs.dead.next() => {
                    let letter = letter?;
                    files.dead_letter(&letter)?;
                    places.dead = letter.sequence + 1;
                }
                () = stop.cancelled() => break,
                // Behind the stop: rollouts that are left are read at the end, after all other logs.
                next = Logs::next_rollout(&mut logs.rollouts) => {
                    let (sequence, rollout) = next?;
                    if let Some(answers) = &mut answers {
                        answers.note(sequence, &rollout)?;
                        places.rollouts = Some(answers.next());
                    }
                }
            }
        }
        // No other role is left. The last messages of the other roles are in the logs, even if they were not delivered
        // here yet. Only logs that are opened now count these messages as there.
        let mut rest = Logs::open(&context, &places).await?;
        rest.replay(self, &mut files, &mut places).await?;
        self.progress.send_replace(files.progress());
        // One by one: those of a long run may not fit into memory together.
        if let (Some(rollouts), Some(answers)) = (&mut rest.rollouts, &mut answers) {
            while let Some((sequence, rollout)) = rollouts.stored().await? {
                answers.note(sequence, &rollout)?;
            }
        }
        Ok(())
    }

    fn leaves_last(&self) -> bool {
        true
    }
}
