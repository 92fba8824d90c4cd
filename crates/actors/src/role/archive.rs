//! Archive: outcomes → tasks, elites, stage changes. The only writer of a run's course.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use flopsmith_archive::{Effect, Pending, Sqd};
use flopsmith_protocol::{
    Candidate, CandidateId, CandidateRef, GroupId, InfrastructureCause, Outcome, PolicyVersion,
    Purpose, Rollout, Sampling, StageChanged, Task, TaskId, Verdict, subjects,
};
use flopsmith_store::Checkpoints;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Role;
use crate::course::{Budget, Course, Job};
use crate::error::Error;
use crate::node::{Context, Decided};
use crate::settings::GeneratorKind;
use crate::steps::Steps;
use crate::trace::{candidate_span, task_span};

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
}

impl Archive {
    /// The archive of the context's run.
    pub fn new(context: Arc<Context>, job: Job, finished: CancellationToken) -> Self {
        Self {
            context,
            job,
            finished,
        }
    }
}

struct Working {
    saved: Saved,
    steps: Steps,
    checkpoints: Checkpoints,
    /// Candidates whose measurement is being repeated.
    repeated: BTreeSet<CandidateId>,
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
        let mut work = self.restore().await?;
        let mut log = context
            .bus
            .log::<Outcome>(&subjects::outcome(&context.run), work.saved.sequence)
            .await?;
        let mut clock = tokio::time::interval(Duration::from_millis(500));
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                next = log.next() => {
                    let (sequence, outcome) = next?;
                    let span = log.continue_trace(candidate_span!("archive", &outcome.candidate));
                    span.record("verdict", outcome.verdict.kind());
                    self.on_outcome(&mut work, sequence, &outcome).instrument(span).await?;
                    self.end_step(&mut work).await?;
                }
                _ = clock.tick() => self.on_clock(&mut work).await?,
            }
        }
        Ok(())
    }
}

impl Archive {
    async fn restore(&self) -> Result<Working, Error> {
        let checkpoints = Checkpoints::new(self.context.store.clone(), "archive");
        let run = &self.context.run;
        let now = Instant::now();
        let last_news = self.news();
        let mut work = match checkpoints.latest(run).await? {
            Some(checkpoint) => {
                let bytes = checkpoint.file("archive.msgpack").await?;
                let saved: Saved = rmp_serde::from_slice(&bytes).map_err(|e| Error::Saved {
                    role: "archive",
                    detail: e.to_string(),
                })?;
                let first = saved.course.current().map_or(u64::MAX, |c| c.0);
                let before = saved.elapsed;
                Working {
                    saved,
                    steps: Steps::starting_at(first),
                    checkpoints,
                    repeated: BTreeSet::new(),
                    started: now,
                    before,
                    step_started: now,
                    last_news,
                }
            }
            None => Working {
                saved: Saved {
                    sqd: self.new_sqd()?,
                    course: Course::new(self.job),
                    tasks: Vec::new(),
                    sequence: 0,
                    elapsed: 0.0,
                },
                steps: Steps::starting_at(0),
                checkpoints,
                repeated: BTreeSet::new(),
                started: now,
                before: 0.0,
                step_started: now,
                last_news,
            },
        };
        if work.saved.tasks.is_empty() && !work.saved.course.finished() {
            self.next_step(&mut work, 0.0).await?;
        } else {
            self.publish_unanswered(&work).await?;
            self.ask_again(&mut work).await?;
        }
        work.last_news = self.news();
        Ok(work)
    }

    fn new_sqd(&self) -> Result<Sqd, Error> {
        let context = &self.context;
        Sqd::new(
            context.settings.sqd.clone(),
            context.run.clone(),
            context.problem.id.clone(),
            context.machine_class.clone(),
        )
        .map_err(|e| Error::Settings(format!("[sqd]: {e}")))
    }

    /// After a restart: elites whose second measurement was asked for and never came. Asking twice counts once.
    async fn ask_again(&self, work: &mut Working) -> Result<(), Error> {
        let pending: Vec<Pending> = work.saved.sqd.pending().cloned().collect();
        for waiting in pending {
            let id = waiting.candidate.id.remeasured(waiting.repetition);
            let again = Candidate {
                candidate: CandidateRef {
                    id: id.clone(),
                    purpose: Purpose::Certify,
                    remeasures: Some(waiting.candidate.id.clone()),
                    ..waiting.candidate
                },
                source: waiting.elite.source.clone(),
            };
            work.repeated.insert(id);
            self.context
                .bus
                .publish(&subjects::compile("cpu"), &again)
                .await?;
        }
        Ok(())
    }

    /// After a restart: tasks nobody has answered yet go out again. Answering one twice counts once.
    async fn publish_unanswered(&self, work: &Working) -> Result<(), Error> {
        let mut answered = BTreeSet::new();
        let run = &self.context.run;
        let mut outcomes = self
            .context
            .bus
            .log::<Outcome>(&subjects::outcome(run), 0)
            .await?;
        for (_, outcome) in outcomes.replay().await? {
            answered.insert(outcome.candidate.task);
        }
        let mut rollouts = self
            .context
            .bus
            .log::<Rollout>(&subjects::rollout(run), 0)
            .await?;
        for (_, rollout) in rollouts.replay().await? {
            answered.insert(rollout.candidate.task);
        }
        for task in work
            .saved
            .tasks
            .iter()
            .filter(|t| !answered.contains(&t.id))
        {
            self.publish_task(task).await?;
        }
        Ok(())
    }

    async fn publish_task(&self, task: &Task) -> Result<(), Error> {
        let policy = match self.context.settings.generator.kind {
            GeneratorKind::Policy => "policy",
            GeneratorKind::Schedule => "schedule",
        };
        // The beginning of a trace: all that comes of the task continues it.
        let span = task_span!("task", task);
        let subject = subjects::generate(policy);
        let published = self.context.bus.publish(&subject, task);
        Ok(published.instrument(span).await?)
    }

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
        if let Some((step, _)) = work.saved.course.current()
            && work.steps.seen(step) > 0
            && work.steps.complete(step)
        {
            work.steps.close(step);
            let effects = work.saved.sqd.on_step_end(step);
            self.perform(work, effects, None).await?;
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
                    work.repeated.insert(id.clone());
                    let again = Candidate {
                        candidate: CandidateRef {
                            id,
                            purpose: Purpose::Certify,
                            remeasures: Some(candidate),
                            ..outcome.candidate.clone()
                        },
                        source: outcome.source.clone(),
                    };
                    self.context
                        .bus
                        .publish(&subjects::compile("cpu"), &again)
                        .await?;
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

    /// Plans the next step, saves everything, then lets the tasks go: a task that was published is always a task that was saved.
    async fn next_step(&self, work: &mut Working, seconds: f64) -> Result<(), Error> {
        let settings = &self.context.settings;
        let budget = Budget {
            seconds: settings.budget_seconds,
            steps: settings.max_steps,
        };
        let elapsed = work.elapsed();
        let next = work.saved.course.advance(elapsed, seconds, budget);
        work.saved.tasks = match next {
            Some((step, purpose)) => self.plan(work, step, purpose),
            None => Vec::new(),
        };
        work.saved.elapsed = elapsed;
        work.step_started = Instant::now();
        let bytes = rmp_serde::to_vec_named(&work.saved).map_err(|e| Error::Saved {
            role: "archive",
            detail: e.to_string(),
        })?;
        let number = next.map_or(u64::MAX, |n| n.0);
        let meta = serde_json::json!({ "elapsed_seconds": elapsed, "finished": next.is_none() });
        work.checkpoints
            .save(
                &self.context.run,
                number,
                vec![("archive.msgpack".to_owned(), bytes)],
                meta,
            )
            .await?;
        work.checkpoints.keep(&self.context.run, 3).await?;
        for task in &work.saved.tasks {
            self.publish_task(task).await?;
        }
        work.last_news = self.news();
        Ok(())
    }

    fn plan(&self, work: &mut Working, step: u64, purpose: Purpose) -> Vec<Task> {
        let settings = &self.context.settings;
        let evaluation = matches!(purpose, Purpose::EvaluateStart | Purpose::EvaluateEnd);
        let count = if evaluation {
            settings.evaluate_tasks
        } else {
            settings.tasks
        };
        // The two evaluations have other seeds than training, and the same in every run of a seed.
        let seed = settings
            .seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(step);
        let plans = if evaluation {
            work.saved.sqd.evaluation(count as usize)
        } else {
            work.saved.sqd.plan(step, count as usize, seed)
        };
        let generator = &settings.generator;
        plans
            .into_iter()
            .zip(0u32..)
            .map(|(plan, number)| {
                let id = TaskId::of(&self.context.run, step, number);
                Task {
                    group: GroupId::of(&id),
                    id,
                    run: self.context.run.clone(),
                    step,
                    tasks_in_step: count,
                    group_size: settings.group_size,
                    problem: self.context.problem.id.clone(),
                    stage: plan.stage,
                    permitted: plan.permitted,
                    elite: plan.elite,
                    purpose,
                    sampling: Sampling {
                        temperature: generator.temperature,
                        top_p: match purpose {
                            Purpose::EvaluateStart | Purpose::EvaluateEnd => {
                                generator.evaluation_top_p
                            }
                            _ => generator.top_p,
                        },
                        top_k: generator.top_k,
                        max_tokens: generator.max_tokens,
                    },
                    seed: seed
                        .wrapping_mul(0x2545_f491_4f6c_dd1d)
                        .wrapping_add(u64::from(number)),
                    machine_class: self.context.machine_class.clone(),
                    min_policy: PolicyVersion(work.saved.course.trained()),
                }
            })
            .collect()
    }

    async fn on_clock(&self, work: &mut Working) -> Result<(), Error> {
        if work.saved.course.finished() {
            let waited = work.last_news.at.elapsed() > LAST_MEASUREMENTS;
            if (work.repeated.is_empty() || waited) && !self.finished.is_cancelled() {
                let bytes = rmp_serde::to_vec_named(&work.saved).map_err(|e| Error::Saved {
                    role: "archive",
                    detail: e.to_string(),
                })?;
                let meta =
                    serde_json::json!({ "elapsed_seconds": work.elapsed(), "finished": true });
                work.checkpoints
                    .save(
                        &self.context.run,
                        u64::MAX,
                        vec![("archive.msgpack".to_owned(), bytes)],
                        meta,
                    )
                    .await?;
                self.finished.cancel();
            }
            return Ok(());
        }
        // A role that has a core is at work on what is missed, however long it takes.
        let idle = self
            .context
            .cores
            .idle()
            .saturating_sub(work.last_news.idle);
        if idle.as_secs_f64() > self.context.settings.lost_after_seconds {
            self.give_up_lost(work).await?;
        }
        Ok(())
    }

    fn news(&self) -> News {
        News {
            at: Instant::now(),
            idle: self.context.cores.idle(),
        }
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
                };
                self.context.publish_outcome(decided).await?;
            }
        }
        Ok(())
    }
}
