//! Archive: outcomes and dead letters → tasks, elites, stage changes. The only writer of a run's course.
//!
//! Outcomes arrive in an order that depends on machines and their failures. They count when the step ends, in the order
//! of their ids, together with the second measurements that were asked for at the end of the step before. So the next
//! tasks of a run depend on the outcomes of its programs and not on when these arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use flopsmith_archive::mix::LearningProgress;
use flopsmith_archive::{Effect, Sqd};
use flopsmith_bus::{DeadLetter, LogEntry};
use flopsmith_config::Job;
use flopsmith_coordination::steps::Steps;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    Candidate, CandidateId, CandidateRef, InfrastructureCause, Outcome, ProblemId, Purpose,
    StageChanged, Task, Verdict, subjects,
};
use flopsmith_store::Checkpoints;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Role;
use crate::advantages::StageBests;
use crate::course::{Budget, Course};
use crate::dead::{Work, unreadable};
use crate::error::Error;
use crate::host::Decided;
use crate::ledger::note;
use crate::node::Context;
use crate::peaks::Peaks;
use crate::role_lease::RoleLease;
use crate::stream::is_fresh;
use crate::trace::candidate_span;

mod restart;
mod tasks;
mod telling;

/// By this name the server distinguishes an outcome of this archive from one that a node may have published in an
/// unreadable form.
const GIVEN_UP: &str = "given-up";

/// How long the end of a run waits for second measurements of elites.
const LAST_MEASUREMENTS: Duration = Duration::from_secs(25);

/// Everything the archive role knows; saved at every step's end.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Saved {
    /// The stages of each problem.
    sqd: BTreeMap<ProblemId, Sqd>,
    course: Course,
    tasks: Vec<Task>,
    /// Outcomes up to here are in `sqd`.
    sequence: u64,
    /// The last of them that was new, on which the tasks depend.
    outcomes_seen: u64,
    elapsed: f64,
    /// The best speeds of the stages before the current step, as the learner knows them: rewards may be relative to them.
    bests: StageBests,
    /// The learning progress of each problem, if it divides the tasks of a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    progress: Option<LearningProgress>,
}

/// Decides the next tasks and keeps the elites.
pub struct Archive {
    context: Arc<Context>,
    job: Job,
    /// Cancelled when the run is over.
    finished: CancellationToken,
    /// Receives the seconds by which the budget is judged.
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

    /// Reports the archive's count of the run's time to `elapsed`: over all sessions, without the time of a step
    /// that was broken off and without the time of measurements before the roles begin. The last report does not count the
    /// step that a stop breaks off.
    #[must_use]
    pub fn telling(self, elapsed: watch::Sender<f64>) -> Self {
        Self { elapsed, ..self }
    }
}

struct Working {
    saved: Saved,
    steps: Steps<CandidateId>,
    /// Held by the only archive of the run.
    lease: RoleLease,
    checkpoints: Checkpoints,
    /// Outcomes of the current step.
    arrived: BTreeMap<CandidateId, Outcome>,
    /// Candidates whose measurement is being repeated.
    repeated: BTreeMap<CandidateId, Candidate>,
    /// Outcomes of these repetitions.
    measured_again: BTreeMap<CandidateId, Outcome>,
    /// Measurements to repeat when all programs of the step have been decided: the learner waits for rewards, not for
    /// elites.
    held: Vec<Candidate>,
    started: Instant,
    before: f64,
    step_started: Instant,
    last_news: News,
    /// Judged programs of the current step, and the correct ones among them.
    tally: Tally,
    /// Outcomes from this place in the log on belong to the current step and are not in the saved state.
    begun: u64,
    /// Known once timers have published them.
    peaks: Peaks,
    /// The documents that the policy may read, by name.
    documents: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    judged: u64,
    correct: u64,
}

/// The time of the last sign of progress.
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
        let Some(lease) = RoleLease::of(&context, "archive", &stop).await? else {
            return Ok(());
        };
        let mut work = self.restore(lease).await?;
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
                error = work.lease.lost() => return Err(error),
                next = log.entry() => {
                    let (sequence, outcome) = match next? {
                        LogEntry::Message(sequence, outcome) => (sequence, outcome),
                        LogEntry::Unreadable(entry) => {
                            // The outcome counts as lost once its dead letter is read, below.
                            if let Err(error) = context.host.bus.dead_letter_entry(&entry).await {
                                tracing::warn!(sequence = entry.sequence, %error, "an outcome that cannot be read could not be kept as a dead letter");
                            }
                            continue;
                        }
                    };
                    let span = log.continue_trace(candidate_span!("archive", &outcome.candidate));
                    span.record("verdict", outcome.verdict.kind());
                    span.in_scope(|| self.on_outcome(&mut work, sequence, outcome));
                    self.end_step(&mut work).await?;
                }
                // Only after reading all outcomes does the archive know which are missing.
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
        // A later session goes on from here.
        self.elapsed.send_replace(work.saved.elapsed);
        work.lease.leave().await
    }
}

impl Archive {
    /// Notes an outcome, which counts at the step's end.
    fn on_outcome(&self, work: &mut Working, sequence: u64, outcome: Outcome) {
        work.last_news = self.news();
        work.saved.sequence = work.saved.sequence.max(sequence);
        let id = outcome.candidate.id.clone();
        if note(&mut work.steps, &outcome.candidate) {
            if outcome.verdict.counts() {
                work.tally.judged += 1;
                work.tally.correct += u64::from(outcome.verdict.measurement().is_some());
            }
            work.arrived.insert(id, outcome);
        } else if work.repeated.remove(&id).is_some() {
            work.measured_again.insert(id, outcome);
        } else {
            return;
        }
        work.saved.outcomes_seen = work.saved.outcomes_seen.max(sequence);
    }

    /// Counts the outcomes that have arrived: second measurements first, because they were asked for earlier.
    async fn count(&self, work: &mut Working) -> Result<(), Error> {
        let again = std::mem::take(&mut work.measured_again);
        let arrived = std::mem::take(&mut work.arrived);
        for outcome in again.into_values().chain(arrived.into_values()) {
            let problem = &outcome.candidate.problem;
            let Some(sqd) = work.saved.sqd.get_mut(problem) else {
                tracing::warn!(candidate = %outcome.candidate.id, %problem, "the run does not have the problem of this outcome");
                continue;
            };
            let effects = sqd.on_outcome(&outcome);
            self.perform(work, problem, effects, Some(&outcome)).await?;
        }
        Ok(())
    }

    /// Ends the current step once its last outcome is here, and begins the next.
    async fn end_step(&self, work: &mut Working) -> Result<(), Error> {
        // Second measurements were asked for before the step began, so they hardly delay its end.
        if let Some((step, purpose)) = work.saved.course.current()
            && work.steps.seen(step) > 0
            && work.steps.complete(step)
            && !self.draws_again(work, step, purpose).await?
            && work.repeated.is_empty()
        {
            work.steps.close(step);
            // A fresh nest occurs in one step only, so nothing is relative to its best speed or follows its scores.
            let settings = &self.context.settings;
            let kept = |problem: &ProblemId| !is_fresh(settings, problem);
            if purpose == Purpose::Train {
                let outcomes = work.arrived.values();
                let outcomes = outcomes.filter(|outcome| kept(&outcome.candidate.problem));
                work.saved.bests.learn(outcomes);
            }
            if let Some(progress) = &mut work.saved.progress {
                let means = tasks::mean_scores(work.arrived.values()).into_iter();
                for (problem, mean) in means.filter(|(problem, _)| kept(problem)) {
                    progress.note(problem, mean);
                }
            }
            self.count(work).await?;
            let done = work.saved.course.trained() + 1;
            let spent = self.budget().spent(work.elapsed(), done);
            let asked: BTreeSet<&ProblemId> =
                work.saved.tasks.iter().map(|task| &task.problem).collect();
            let mut effects = Vec::new();
            for (problem, sqd) in &mut work.saved.sqd {
                match purpose {
                    Purpose::EvaluateStart | Purpose::EvaluateEnd => sqd.on_evaluation_end(step),
                    // The curriculum of a problem counts the steps that have tasks of it.
                    _ if !asked.contains(problem) => sqd.on_evaluation_end(step),
                    _ => {
                        sqd.on_spent(spent);
                        effects.push((problem.clone(), sqd.on_step_end(step)));
                    }
                }
            }
            for (problem, effects) in effects {
                self.perform(work, &problem, effects, None).await?;
            }
            let tally = std::mem::take(&mut work.tally);
            work.saved.course.judged(tally.judged, tally.correct);
            let archives = work.saved.sqd.values().map(Sqd::archive);
            self.context
                .host
                .metrics
                .step_ended(step, tally.correct, tally.judged, archives);
            self.ask_held(work).await?;
            let seconds = work.step_started.elapsed().as_secs_f64();
            self.next_step(work, seconds).await?;
        }
        Ok(())
    }

    /// The limits of the run.
    fn budget(&self) -> Budget {
        let settings = &self.context.settings;
        Budget {
            seconds: settings.budget_seconds,
            steps: settings.max_steps,
            fruitless: u64::from(settings.fruitless_steps_limit),
            exhausted: self.context.asked().exhausted,
        }
    }

    async fn perform(
        &self,
        work: &mut Working,
        problem: &ProblemId,
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
                    work.held.push(Candidate {
                        candidate: CandidateRef {
                            id,
                            purpose: Purpose::Certify,
                            remeasures: Some(candidate),
                            ..outcome.candidate.clone()
                        },
                        source: outcome.source.clone(),
                        answer: None,
                    });
                }
                Effect::StageChanged {
                    step,
                    from,
                    to,
                    reason,
                } => {
                    let changed = StageChanged {
                        run: self.context.run.clone(),
                        problem: problem.clone(),
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

    /// Asks for the held repetitions.
    async fn ask_held(&self, work: &mut Working) -> Result<(), Error> {
        for again in std::mem::take(&mut work.held) {
            self.measure_again(work, again).await?;
        }
        Ok(())
    }

    async fn measure_again(&self, work: &mut Working, again: Candidate) -> Result<(), Error> {
        let compile = Queue::compile(&again.candidate.machine_class).of(&again.candidate.run);
        self.context.host.bus.publish(&compile, &again).await?;
        work.repeated.insert(again.candidate.id.clone(), again);
        Ok(())
    }

    async fn on_clock(&self, work: &mut Working) -> Result<(), Error> {
        if work.saved.course.finished() {
            if work.repeated.is_empty() {
                self.count(work).await?;
                self.ask_held(work).await?;
            }
            // On a bus that nodes share, repetitions may wait behind the work of other runs.
            let waited =
                work.last_news.at.elapsed() > LAST_MEASUREMENTS && self.queued_work().await? == 0;
            if (work.repeated.is_empty() || waited) && !self.finished.is_cancelled() {
                self.count(work).await?;
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
                work.lease.conclude(checkpoint.into()).await?;
                self.finished.cancel();
            }
            return Ok(());
        }
        // Only idle time counts: a role that holds a core may be working on a missing outcome, however long that takes.
        let idle = self
            .context
            .host
            .cores
            .idle()
            .saturating_sub(work.last_news.idle);
        if idle.as_secs_f64() > self.context.settings.lost_after_seconds {
            let left = self.queued_work().await?;
            if left > 0 {
                tracing::warn!(
                    left,
                    "work of this run waits in the queues; check that workers of its machine class run"
                );
                work.last_news = self.news();
                return Ok(());
            }
            self.give_up_lost(work).await?;
        }
        Ok(())
    }

    /// Messages that other nodes hold or may take. On a private bus there are no other nodes: its roles will never take
    /// a message that they have not taken by then.
    async fn queued_work(&self) -> Result<u64, Error> {
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

    /// Publishes an outcome at once for work that left its queue undone: the infrastructure's fault, never a reward.
    async fn on_dead_letter(&self, work: &Working, letter: &DeadLetter) -> Result<(), Error> {
        let run = &self.context.run;
        let (cause, samples) = match Work::of(letter) {
            // A process with the right to take work off one run's queue must not declare another run's work dead.
            Some(dead) if dead.run() == run && subjects::is_work_of(&letter.subject, run) => {
                (dead.cause(), dead.samples())
            }
            Some(_) => return Ok(()),
            None => (
                InfrastructureCause::Bus,
                unreadable(letter, run, &work.saved.tasks),
            ),
        };
        for lost in samples {
            let candidate = &lost.candidate;
            let awaited = match candidate.purpose {
                Purpose::Certify => work.repeated.contains_key(&candidate.id),
                _ => !work.steps.knows(candidate.step, &candidate.id),
            };
            if !awaited {
                continue;
            }
            tracing::warn!(candidate = %candidate.id, reason = letter.reason, "its work is among the dead letters; it is counted as lost");
            let verdict = Verdict::Infrastructure {
                cause,
                detail: format!(
                    "no worker could process it in {}: {}",
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
            self.context
                .host
                .publish_outcome_as(decided, Some(GIVEN_UP))
                .await?;
        }
        Ok(())
    }

    /// Publishes an outcome for work that no process has any more: the cluster's fault, never a reward.
    async fn give_up_lost(&self, work: &mut Working) -> Result<(), Error> {
        work.last_news = self.news();
        for task in &work.saved.tasks {
            for sample in 0..task.group_size {
                let candidate = task.candidate(sample, None);
                if !work.steps.knows(candidate.step, &candidate.id) {
                    self.give_up(&candidate, "").await?;
                }
            }
        }
        for again in work.repeated.values() {
            self.give_up(&again.candidate, &again.source).await?;
        }
        Ok(())
    }

    async fn give_up(&self, candidate: &CandidateRef, source: &str) -> Result<(), Error> {
        tracing::warn!(candidate = %candidate.id, "no outcome came; it is counted as lost");
        let verdict = Verdict::Infrastructure {
            cause: InfrastructureCause::Bus,
            detail: format!(
                "no outcome within {} s in which no role of this node was at work",
                self.context.settings.lost_after_seconds
            ),
        };
        let decided = Decided {
            candidate,
            source,
            techniques: None,
            vector_bits: None,
            verdict,
            stage_seconds: [0.0; 3],
            object: None,
            key: None,
        };
        self.context
            .host
            .publish_outcome_as(decided, Some(GIVEN_UP))
            .await?;
        Ok(())
    }
}
