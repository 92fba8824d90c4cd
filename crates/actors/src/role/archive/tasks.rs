//! Plans a step's tasks and publishes them.

use std::time::Instant;

use flopsmith_archive::Sqd;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{GroupId, PolicyVersion, ProblemId, Purpose, Sampling, Task, TaskId};
use tracing::Instrument;

use super::{Archive, Saved, Working};
use crate::dynamic_sampling::Refill;
use crate::error::Error;
use crate::trace::task_span;
use flopsmith_config::GeneratorKind;

/// Tasks of a step that are drawn together, by their numbers.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// The first round is 0.
    number: u32,
    from: u32,
    /// One more than the last number.
    to: u32,
}

/// The problem of each task, by its place among a run's problems: the tasks of a run take turns, step after step, so
/// that every problem gets its share even if a step has fewer tasks than there are problems.
fn turns(problems: usize, first: u64, tasks: std::ops::Range<u32>) -> Vec<usize> {
    let of =
        |number: u32| (first.wrapping_add(u64::from(number)) % problems.max(1) as u64) as usize;
    tasks.map(of).collect()
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
        // A further round has other prompts than the rounds without a spread.
        let another = u64::from(round.number).wrapping_mul(0xa076_1d64_78bd_642f);
        let plan = |sqd: &Sqd, count: usize, turn: u64| match evaluation {
            true => sqd.evaluation(count),
            false => {
                let of_problem = turn.wrapping_mul(0xe703_7ed1_a0b4_28db);
                let seed = seed.wrapping_add(another).wrapping_add(of_problem);
                sqd.plan(step, count, seed)
            }
        };
        let problems: Vec<&ProblemId> = self.context.problems().map(|of| &of.problem.id).collect();
        let first_turn = step.wrapping_mul(u64::from(self.tasks_of(purpose)));
        let turns = turns(problems.len(), first_turn, round.from..round.to);
        // The plans of each problem, in the order of its tasks.
        let mut plans: Vec<_> = (0u64..)
            .zip(&problems)
            .map(|(turn, problem)| {
                let count = turns.iter().filter(|of| **of == turn as usize).count();
                let sqd = work.saved.sqd.get(*problem);
                let plans = sqd.map(|sqd| plan(sqd, count, turn));
                plans.unwrap_or_default().into_iter()
            })
            .collect();
        let generator = &settings.generator;
        turns
            .into_iter()
            .zip(round.from..)
            .filter_map(|(turn, number)| {
                let plan = plans.get_mut(turn)?.next()?;
                let id = TaskId::of(&self.context.run, step, number);
                Some(Task {
                    group: GroupId::of(&id),
                    id,
                    run: self.context.run.clone(),
                    step,
                    tasks_in_step: round.to,
                    group_size: settings.group_size,
                    explorers: if evaluation { 0 } else { settings.explorers() },
                    problem: problems[turn].clone(),
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
                })
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

#[cfg(test)]
mod tests {
    use super::turns;
    use proptest::prelude::*;

    proptest! {
        /// Over a number of steps every problem has as many tasks as every other one, give or take one.
        #[test]
        fn problems_take_turns(problems in 1usize..9, tasks in 1u32..9, steps in 1u64..30) {
            let mut counts = vec![0u64; problems];
            for step in 0..steps {
                for turn in turns(problems, step * u64::from(tasks), 0..tasks) {
                    counts[turn] += 1;
                }
            }
            let (least, most) = (counts.iter().min(), counts.iter().max());
            prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1));
        }
    }
}
