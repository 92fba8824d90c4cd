//! What a step's tasks are, and how they go out.

use std::time::Instant;

use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{GroupId, PolicyVersion, Purpose, Sampling, Task, TaskId};
use tracing::Instrument;

use super::{Archive, Working};
use crate::course::Budget;
use crate::error::Error;
use crate::settings::GeneratorKind;
use crate::trace::task_span;

impl Archive {
    /// Plans the next step, saves everything, then lets the tasks go: a task that was published is always a task that was saved.
    pub(super) async fn next_step(&self, work: &mut Working, seconds: f64) -> Result<(), Error> {
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
        let checkpoint = work
            .checkpoints
            .save(
                &self.context.run,
                number,
                vec![("archive.msgpack".to_owned(), bytes)],
                meta,
            )
            .await?;
        work.office.commit(checkpoint.into()).await?;
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
                    min_policy: PolicyVersion(work.saved.course.trained()),
                    heard: work.saved.heard,
                }
            })
            .collect()
    }

    pub(super) async fn publish_task(&self, task: &Task) -> Result<(), Error> {
        let policy = match self.context.settings.generator.kind {
            GeneratorKind::Policy => "policy",
            GeneratorKind::Schedule => "schedule",
        };
        // The beginning of a trace: all that comes of the task continues it.
        let span = task_span!("task", task);
        let subject = Queue::generate(policy).of(&task.run);
        let published = self.context.host.bus.publish(&subject, task);
        Ok(published.instrument(span).await?)
    }
}
