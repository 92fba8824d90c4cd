//! Plans a step's tasks and publishes them.

use std::time::Instant;

use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{GroupId, PolicyVersion, Purpose, Sampling, Task, TaskId};
use tracing::Instrument;

use super::{Archive, Saved, Working};
use crate::dynamic_sampling::Refill;
use crate::error::Error;
use crate::settings::GeneratorKind;
use crate::trace::task_span;

/// Tasks of a step that are drawn together, by their numbers.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// The first round is 0.
    number: u32,
    from: u32,
    /// One more than the last number.
    to: u32,
}

impl Archive {
    /// Plans the next step, saves the state, then publishes the tasks: every published task was saved before.
    pub(super) async fn next_step(&self, work: &mut Working, seconds: f64) -> Result<(), Error> {
        let elapsed = work.elapsed();
        let next = work.saved.course.advance(elapsed, seconds, self.budget());
        work.saved.tasks = match next {
            Some((step, purpose)) => {
                let round = Round {
                    number: 0,
                    from: 0,
                    to: self.tasks_of(purpose),
                };
                self.plan(work, step, purpose, round)
            }
            None => Vec::new(),
        };
        work.saved.elapsed = elapsed;
        work.step_started = Instant::now();
        work.begun = work.saved.sequence;
        self.save(work, next.map(|n| n.0), 0).await?;
        for task in &work.saved.tasks {
            self.publish_task(task).await?;
        }
        work.last_news = self.news();
        Ok(())
    }

    /// Draws tasks in place of those whose groups have rewards that are all equal ([`crate::dynamic_sampling`]), once a
    /// round of a step is decided. True while the step goes on because of that.
    pub(super) async fn draws_again(
        &self,
        work: &mut Working,
        step: u64,
        purpose: Purpose,
    ) -> Result<bool, Error> {
        let settings = &self.context.settings;
        if purpose != Purpose::Train || settings.advantage.dynamic_sampling == 0 {
            return Ok(false);
        }
        if work.peak_gflops.is_none() {
            work.peak_gflops = self.context.machine_peak().await?;
        }
        let refill = Refill {
            settings,
            peak_gflops: work.peak_gflops,
            bests: &work.saved.bests,
        };
        let asked = refill.asked(work.arrived.values());
        if asked.settled {
            return Ok(false);
        }
        let given = u32::try_from(work.saved.tasks.len()).unwrap_or(u32::MAX);
        if asked.tasks > given {
            let round = Round {
                number: asked.round,
                from: given,
                to: asked.tasks,
            };
            let more = self.plan(work, step, purpose, round);
            tracing::info!(
                step,
                tasks = more.len(),
                "groups without a spread are drawn again"
            );
            work.saved.tasks.extend(more.iter().cloned());
            self.save(work, Some(step), asked.round).await?;
            for task in &more {
                self.publish_task(task).await?;
            }
            work.last_news = self.news();
        }
        Ok(true)
    }

    /// Saves the state and makes it the one to continue from. Outcomes of the current step are not in it; an archive
    /// that continues from it reads them again.
    async fn save(&self, work: &mut Working, step: Option<u64>, round: u32) -> Result<(), Error> {
        let saved = Saved {
            sequence: work.begun,
            ..work.saved.clone()
        };
        let bytes = rmp_serde::to_vec_named(&saved).map_err(|e| Error::Saved {
            role: "archive",
            detail: e.to_string(),
        })?;
        // Each round has a state of its own: replacing another round's state would remove that state before the new one
        // is committed.
        let rounds = u64::from(self.context.settings.advantage.dynamic_sampling) + 1;
        let number = step.map_or(u64::MAX, |step| step * rounds + u64::from(round));
        let meta = serde_json::json!({
            "elapsed_seconds": work.saved.elapsed, "finished": step.is_none(),
        });
        let checkpoint = work
            .checkpoints
            .save(
                &self.context.run,
                number,
                vec![("archive.msgpack".to_owned(), bytes)],
                meta,
            )
            .await?;
        work.lease.commit(checkpoint.into()).await?;
        work.checkpoints.keep(&self.context.run, 3).await?;
        Ok(())
    }

    /// Number of tasks with which a step begins.
    fn tasks_of(&self, purpose: Purpose) -> u32 {
        match purpose {
            Purpose::EvaluateStart | Purpose::EvaluateEnd => self.context.settings.evaluate_tasks,
            _ => self.context.settings.tasks,
        }
    }

    fn plan(&self, work: &Working, step: u64, purpose: Purpose, round: Round) -> Vec<Task> {
        let settings = &self.context.settings;
        let evaluation = matches!(purpose, Purpose::EvaluateStart | Purpose::EvaluateEnd);
        let count = round.to - round.from;
        // All tasks of a step rest on the same outcomes, whenever they are drawn.
        let heard = match work.saved.tasks.first() {
            Some(first) if round.number > 0 => first.heard,
            _ => work.saved.heard,
        };
        // The two evaluations have other seeds than training has; every run of a seed has the same ones.
        let seed = settings
            .seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(step);
        let plans = if evaluation {
            work.saved.sqd.evaluation(count as usize)
        } else {
            // A further round has other prompts than the rounds without a spread.
            let another = u64::from(round.number).wrapping_mul(0xa076_1d64_78bd_642f);
            let seed = seed.wrapping_add(another);
            work.saved.sqd.plan(step, count as usize, seed)
        };
        let generator = &settings.generator;
        plans
            .into_iter()
            .zip(round.from..)
            .map(|(plan, number)| {
                let id = TaskId::of(&self.context.run, step, number);
                Task {
                    group: GroupId::of(&id),
                    id,
                    run: self.context.run.clone(),
                    step,
                    tasks_in_step: round.to,
                    group_size: settings.group_size,
                    explorers: if evaluation { 0 } else { settings.explorers() },
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
                    machine_class: self.context.host.machine_class.clone(),
                    min_policy: self.needed_policy(work.saved.course.trained(), purpose),
                    heard,
                }
            })
            .collect()
    }

    /// The oldest policy that may answer a step's tasks after `trained` steps. Both evaluations measure the current
    /// policy.
    fn needed_policy(&self, trained: u64, purpose: Purpose) -> PolicyVersion {
        let ahead = match purpose {
            Purpose::Train => u64::from(self.context.settings.generator.steps_ahead),
            _ => 0,
        };
        PolicyVersion(trained.saturating_sub(ahead))
    }

    pub(super) async fn publish_task(&self, task: &Task) -> Result<(), Error> {
        let policy = match self.context.settings.generator.kind {
            GeneratorKind::Policy => "policy",
            GeneratorKind::Schedule => "schedule",
        };
        // The trace begins here: all later work on the task continues it.
        let span = task_span!("task", task);
        let subject = Queue::generate(policy).of(&task.run);
        let published = self.context.host.bus.publish(&subject, task);
        Ok(published.instrument(span).await?)
    }
}
