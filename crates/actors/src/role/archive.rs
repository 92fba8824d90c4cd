//! Archive: outcomes and dead letters → tasks, elites, stage changes. The only writer of a run's course.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use flopsmith_archive::{Effect, Sqd};
use flopsmith_bus::DeadLetter;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    Candidate, CandidateId, CandidateRef, InfrastructureCause, Outcome, Purpose, StageChanged,
    Task, Verdict, subjects,
};
use flopsmith_store::Checkpoints;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Role;
use crate::course::{Course, Job};
use crate::dead::{Work, unreadable};
use crate::error::Error;
use crate::host::Decided;
use crate::node::Context;
use crate::office::{Head, Office};
use crate::steps::Steps;
use crate::trace::candidate_span;

mod restart;
mod tasks;

/// How long the end of a run waits for elites that are measured again.
const LAST_MEASUREMENTS: Duration = Duration::from_secs(25);

/// Everything the archive role knows; saved at every step's end.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Saved {
    sqd: Sqd,
    course: Course,
    tasks: Vec<Task>,
    /// Outcomes up to here are in `sqd`.
    sequence: u64,
    elapsed: f64,
}

/// Decides what is tried next and keeps the elites.
pub struct Archive {
    context: Arc<Context>,
    job: Job,
    /// Told when the run is over.
    finished: CancellationToken,
    /// Told the seconds that the budget is judged by.
    elapsed: watch::Sender<f64>,
}

impl Archive {
    /// The archive of the context's run.
    pub fn new(context: Arc<Context>, job: Job, finished: CancellationToken) -> Self {
        Self {
            context,
            job,
            finished,
            elapsed: watch::Sender::new(0.0),
        }
    }

    /// Tells what it counts of the run's time: over all sittings, without what came of a step that was broken off and without
    /// what is measured before the roles begin.
    #[must_use]
    pub fn telling(self, elapsed: watch::Sender<f64>) -> Self {
        Self { elapsed, ..self }
    }
}

struct Working {
    saved: Saved,
    steps: Steps,
    /// Held by the only archive of the run.
    office: Office,
    checkpoints: Checkpoints,
    /// Candidates whose measurement is being repeated.
    repeated: BTreeSet<CandidateId>,
    /// Measurements to repeat when all programs of the step have been decided: rewards are waited for, elites are not.
    held: Vec<Candidate>,
    started: Instant,
    before: f64,
    step_started: Instant,
    last_news: News,
}

/// When something was last heard.
#[derive(Clone, Copy)]
struct News {
    at: Instant,
    /// How long this node had been idle until then.
    idle: Duration,
}

impl Working {
    fn elapsed(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }
}

#[async_trait]
impl Role for Archive {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let context = Arc::clone(&self.context);
        let Some(office) = Office::of(&context, "archive", &stop).await? else {
            return Ok(());
        };
        let mut work = self.restore(office).await?;
        self.elapsed.send_replace(work.elapsed());
        let mut log = context
            .host
            .bus
            .log::<Outcome>(&subjects::outcome(&context.run), work.saved.sequence)
            .await?;
        let mut dead = context.host.bus.dead_letters(0).await?;
        let mut clock = tokio::time::interval(Duration::from_millis(500));
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                error = work.office.lost() => return Err(error),
                next = log.next() => {
                    let (sequence, outcome) = next?;
                    let span = log.continue_trace(candidate_span!("archive", &outcome.candidate));
                    span.record("verdict", outcome.verdict.kind());
                    self.on_outcome(&mut work, sequence, &outcome).instrument(span).await?;
                    self.end_step(&mut work).await?;
                }
                // Only who has heard all outcomes knows which are missing.
                letter = dead.next(), if log.pending() == 0 => {
                    let letter = letter?;
                    self.on_dead_letter(&work, &letter).await?;
                }
                _ = clock.tick() => {
                    self.elapsed.send_replace(work.elapsed());
                    self.on_clock(&mut work).await?;
                }
            }
        }
        work.office.leave().await
    }
}

impl Archive {
    async fn on_outcome(
        &self,
        work: &mut Working,
        sequence: u64,
        outcome: &Outcome,
    ) -> Result<(), Error> {
        work.last_news = self.news();
        work.saved.sequence = work.saved.sequence.max(sequence);
        let new = work.steps.note(&outcome.candidate);
        let certified = outcome.candidate.purpose == Purpose::Certify;
        if certified {
            work.repeated.remove(&outcome.candidate.id);
        }
        if new || certified {
            let effects = work.saved.sqd.on_outcome(outcome);
            self.perform(work, effects, Some(outcome)).await?;
        }
        Ok(())
    }

    /// Ends the current step once its last outcome is here, and begins the next.
    async fn end_step(&self, work: &mut Working) -> Result<(), Error> {
        if let Some((step, purpose)) = work.saved.course.current()
            && work.steps.seen(step) > 0
            && work.steps.complete(step)
        {
            work.steps.close(step);
            let effects = match purpose {
                Purpose::EvaluateStart | Purpose::EvaluateEnd => {
                    work.saved.sqd.on_evaluation_end(step);
                    Vec::new()
                }
                _ => work.saved.sqd.on_step_end(step),
            };
            self.perform(work, effects, None).await?;
            for again in std::mem::take(&mut work.held) {
                self.measure_again(work, again).await?;
            }
            let seconds = work.step_started.elapsed().as_secs_f64();
            self.next_step(work, seconds).await?;
        }
        Ok(())
    }

    async fn perform(
        &self,
        work: &mut Working,
        effects: Vec<Effect>,
        outcome: Option<&Outcome>,
    ) -> Result<(), Error> {
        for effect in effects {
            match effect {
                Effect::Remeasure {
                    candidate,
                    repetition,
                } => {
                    let Some(outcome) = outcome.filter(|o| {
                        o.candidate.id == candidate
                            || o.candidate.remeasures.as_ref() == Some(&candidate)
                    }) else {
                        continue;
                    };
                    let id = candidate.remeasured(repetition);
                    let again = Candidate {
                        candidate: CandidateRef {
                            id,
                            purpose: Purpose::Certify,
                            remeasures: Some(candidate),
                            ..outcome.candidate.clone()
                        },
                        source: outcome.source.clone(),
                    };
                    let in_a_step = outcome.candidate.purpose != Purpose::Certify
                        && work.saved.course.current().is_some();
                    if in_a_step {
                        work.held.push(again);
                    } else {
                        self.measure_again(work, again).await?;
                    }
                }
                Effect::StageChanged {
                    step,
                    from,
                    to,
                    reason,
                } => {
                    let changed = StageChanged {
                        run: self.context.run.clone(),
                        problem: self.context.problem.id.clone(),
                        step,
                        from,
                        to,
                        reason,
                    };
                    self.context
                        .host
                        .bus
                        .publish(&subjects::stage(&self.context.run), &changed)
                        .await?;
                }
                Effect::EliteAccepted {
                    candidate,
                    techniques,
                    gflops,
                } => {
                    tracing::info!(%candidate, %techniques, gflops, "elite");
                }
            }
        }
        Ok(())
    }

    async fn measure_again(&self, work: &mut Working, again: Candidate) -> Result<(), Error> {
        work.repeated.insert(again.candidate.id.clone());
        let compile = Queue::compile(&again.candidate.machine_class).of(&again.candidate.run);
        self.context.host.bus.publish(&compile, &again).await?;
        Ok(())
    }

    async fn on_clock(&self, work: &mut Working) -> Result<(), Error> {
        if work.saved.course.finished() {
            // On a farm they may stand behind the work of others.
            let waited = work.last_news.at.elapsed() > LAST_MEASUREMENTS
                && self.left_elsewhere().await? == 0;
            if (work.repeated.is_empty() || waited) && !self.finished.is_cancelled() {
                let bytes = rmp_serde::to_vec_named(&work.saved).map_err(|e| Error::Saved {
                    role: "archive",
                    detail: e.to_string(),
                })?;
                let meta =
                    serde_json::json!({ "elapsed_seconds": work.elapsed(), "finished": true });
                let checkpoint = work
                    .checkpoints
                    .save(
                        &self.context.run,
                        u64::MAX,
                        vec![("archive.msgpack".to_owned(), bytes)],
                        meta,
                    )
                    .await?;
                work.office.conclude(Head { checkpoint }).await?;
                self.finished.cancel();
            }
            return Ok(());
        }
        // A role that has a core is at work on what is missed, however long it takes.
        let idle = self
            .context
            .host
            .cores
            .idle()
            .saturating_sub(work.last_news.idle);
        if idle.as_secs_f64() > self.context.settings.lost_after_seconds {
            let left = self.left_elsewhere().await?;
            if left > 0 {
                tracing::warn!(
                    left,
                    "work of this run waits in the queues: is there a worker of its machine class?"
                );
                work.last_news = self.news();
                return Ok(());
            }
            self.give_up_lost(work).await?;
        }
        Ok(())
    }

    /// Messages that other nodes have or may take. On a bus of its own a run has none: what its roles have not taken by then, they never will.
    async fn left_elsewhere(&self) -> Result<u64, Error> {
        if self.context.host.bus.is_private() {
            return Ok(0);
        }
        Ok(self.context.host.bus.queued(&self.context.run).await?)
    }

    fn news(&self) -> News {
        News {
            at: Instant::now(),
            idle: self.context.host.cores.idle(),
        }
    }

    /// Work that left its queue undone gets an outcome at once: the infrastructure's fault, never a reward.
    async fn on_dead_letter(&self, work: &Working, letter: &DeadLetter) -> Result<(), Error> {
        let run = &self.context.run;
        let (cause, samples) = match Work::of(letter) {
            Some(dead) if dead.run() == run => (dead.cause(), dead.samples()),
            Some(_) => return Ok(()),
            None => (
                InfrastructureCause::Bus,
                unreadable(letter, run, &work.saved.tasks),
            ),
        };
        for lost in samples {
            let candidate = &lost.candidate;
            let awaited = match candidate.purpose {
                Purpose::Certify => work.repeated.contains(&candidate.id),
                _ => !work.steps.knows(candidate),
            };
            if !awaited {
                continue;
            }
            tracing::warn!(candidate = %candidate.id, reason = letter.reason, "its work is among the dead letters; it is counted as lost");
            let verdict = Verdict::Infrastructure {
                cause,
                detail: format!(
                    "nobody could work it off in {}: {}",
                    letter.subject, letter.reason
                ),
            };
            let decided = Decided {
                candidate,
                source: &lost.source,
                techniques: lost.techniques,
                vector_bits: lost.vector_bits,
                verdict,
                stage_seconds: lost.stage_seconds,
                object: None,
                key: lost.key.as_ref(),
            };
            self.context.host.publish_outcome(decided).await?;
        }
        Ok(())
    }

    /// Work that nobody has any more gets an outcome: the cluster's fault, never a reward.
    async fn give_up_lost(&self, work: &mut Working) -> Result<(), Error> {
        work.last_news = self.news();
        for task in work.saved.tasks.clone() {
            for sample in 0..task.group_size {
                let candidate = super::generator::candidate_ref(&task, sample, None);
                if work.steps.knows(&candidate) {
                    continue;
                }
                tracing::warn!(candidate = %candidate.id, "no outcome came; it is counted as lost");
                let verdict = Verdict::Infrastructure {
                    cause: InfrastructureCause::Bus,
                    detail: format!(
                        "no outcome within {} s in which no role of this node was at work",
                        self.context.settings.lost_after_seconds
                    ),
                };
                let decided = Decided {
                    candidate: &candidate,
                    source: "",
                    techniques: None,
                    vector_bits: None,
                    verdict,
                    stage_seconds: [0.0; 3],
                    object: None,
                    key: None,
                };
                self.context.host.publish_outcome(decided).await?;
            }
        }
        Ok(())
    }
}
