//! Plans a step's tasks and publishes them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use flopsmith_archive::Sqd;
use flopsmith_archive::mix::{apportion, score};
use flopsmith_generator::measured::exercises::{Feedback, follow_up};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    CandidateId, Exchange, GroupId, Outcome, PolicyVersion, ProblemId, Purpose, Sampling, Task,
    TaskId,
};
use tracing::Instrument;

use super::telling::{Telling, requests};
use super::{Archive, Saved, Working};
use crate::error::Error;
use crate::rounds::{Rounds, goes_on};
use crate::stream;
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

/// The problem of each task, by its place among a run's problems: the tasks of a run take turns, step after step, so
/// that every problem gets its share even if a step has fewer tasks than there are problems.
fn turns(problems: usize, first: u64, tasks: std::ops::Range<u32>) -> Vec<usize> {
    let of =
        |number: u32| (first.wrapping_add(u64::from(number)) % problems.max(1) as u64) as usize;
    tasks.map(of).collect()
}

/// The mean score of each problem of a step whose outcomes say anything about it. Exploration samples say little about
/// the policy, and second measurements nothing.
pub(super) fn mean_scores<'a>(
    outcomes: impl Iterator<Item = &'a Outcome>,
) -> BTreeMap<&'a ProblemId, f64> {
    let mut sums: BTreeMap<&ProblemId, (f64, f64)> = BTreeMap::new();
    for outcome in outcomes {
        let candidate = &outcome.candidate;
        if candidate.exploration || candidate.purpose == Purpose::Certify {
            continue;
        }
        if let Some(score) = score(&outcome.verdict) {
            let (sum, count) = sums.entry(&candidate.problem).or_default();
            *sum += score;
            *count += 1.0;
        }
    }
    let means = sums.into_iter();
    means
        .map(|(problem, (sum, count))| (problem, sum / count))
        .collect()
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
                    to: self.size_of(step, purpose).0,
                };
                self.refresh(work, step, purpose, round)?;
                self.plan(work, step, purpose, round)?
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

    /// Publishes the tasks of the next round of a step ([`crate::rounds`]), once a round is decided. True while the step
    /// goes on because of that.
    pub(super) async fn draws_again(
        &self,
        work: &mut Working,
        step: u64,
        purpose: Purpose,
    ) -> Result<bool, Error> {
        let settings = &self.context.settings;
        if purpose != Purpose::Train || settings.rounds() == 0 {
            return Ok(false);
        }
        if !work.peaks.cover(work.arrived.values()) {
            work.peaks = self.context.machine_peaks().await?;
        }
        let rounds = Rounds {
            settings,
            peaks: &work.peaks,
            bests: &work.saved.bests,
        };
        let asked = rounds.asked(work.arrived.values());
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
            let more = match settings.turns.most {
                0 | 1 => {
                    self.refresh(work, step, purpose, round)?;
                    self.plan(work, step, purpose, round)?
                }
                _ => {
                    let telling = self.prompts_of(work).await?;
                    next_turns(work.arrived.values(), &work.saved.tasks, round, &telling)
                }
            };
            tracing::info!(
                step,
                tasks = more.len(),
                round = round.number,
                "the step has another round"
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
        let rounds = u64::from(self.context.settings.rounds()) + 1;
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

    /// Number of tasks with which a step begins, and number of samples of each.
    fn size_of(&self, step: u64, purpose: Purpose) -> (u32, u32) {
        let settings = &self.context.settings;
        match purpose {
            Purpose::EvaluateStart | Purpose::EvaluateEnd => {
                let problems = self.context.problems().count();
                (settings.evaluation_tasks(problems), settings.group_size)
            }
            Purpose::Search => settings.search_step(step),
            _ => (settings.tasks, settings.group_size),
        }
    }

    /// The fresh nests of a round, one for each of its last tasks; none of an evaluation and of a run with named problems
    /// alone.
    fn fresh(&self, step: u64, purpose: Purpose, round: Round) -> Result<Vec<ProblemId>, Error> {
        let settings = &self.context.settings;
        if purpose != Purpose::Train {
            return Ok(Vec::new());
        }
        let fresh = settings.fresh_of(round.to - round.from);
        (round.to - fresh..round.to)
            .map(|number| stream::trained(settings, step, number))
            .collect()
    }

    /// Adds the stages of a round's fresh nests. With the first round it forgets those of earlier steps that wait for no
    /// second measurement: nothing will ask for their problems again.
    fn refresh(
        &self,
        work: &mut Working,
        step: u64,
        purpose: Purpose,
        round: Round,
    ) -> Result<(), Error> {
        let settings = &self.context.settings;
        let stages = &mut work.saved.sqd;
        if settings.has_fresh() && round.number == 0 {
            let context = &self.context;
            stages.retain(|id, sqd| context.of(id).is_some() || sqd.pending().next().is_some());
        }
        for id in self.fresh(step, purpose, round)? {
            let problem = stream::problem(settings, &id)?;
            let begun = self.stages_of(&problem)?;
            stages.entry(id).or_insert(begun);
        }
        Ok(())
    }

    fn plan(
        &self,
        work: &Working,
        step: u64,
        purpose: Purpose,
        round: Round,
    ) -> Result<Vec<Task>, Error> {
        let settings = &self.context.settings;
        let evaluation = matches!(purpose, Purpose::EvaluateStart | Purpose::EvaluateEnd);
        // All tasks of a step rest on the same outcomes, whenever they are drawn.
        let outcomes_seen = match work.saved.tasks.first() {
            Some(first) if round.number > 0 => first.outcomes_seen,
            _ => work.saved.outcomes_seen,
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
        let fresh = self.fresh(step, purpose, round)?;
        // The first tasks of a round are of the run's problems, and each of the others has a nest of its own.
        let named = (round.to - round.from).saturating_sub(fresh.len() as u32);
        let of_run = self.context.problems().map(|of| &of.problem.id);
        let mut problems: Vec<&ProblemId> = of_run.filter(|_| named > 0).collect();
        let (tasks, group_size) = self.size_of(step, purpose);
        let tasks_of_run = match purpose {
            Purpose::Train => tasks - settings.fresh_of(tasks),
            _ => tasks,
        };
        let first_turn = step.wrapping_mul(u64::from(tasks_of_run));
        let mut turns = match &work.saved.progress {
            Some(progress) if !evaluation => {
                // The plan of the first problem begins with the draw of `seed` and `another` alone.
                let seed = seed.wrapping_add(another) ^ 0x8ebc_6af0_9c88_c6e3;
                apportion(&progress.shares(&problems), named as usize, seed, step)
            }
            _ => turns(problems.len(), first_turn, round.from..round.from + named),
        };
        turns.extend(problems.len()..problems.len() + fresh.len());
        problems.extend(&fresh);
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
        let tasks = turns
            .into_iter()
            .zip(round.from..)
            .filter_map(|(turn, number)| {
                let plan = plans.get_mut(turn)?.next()?;
                let id = TaskId::of(&self.context.run, step, number);
                let seed = seed
                    .wrapping_mul(0x2545_f491_4f6c_dd1d)
                    .wrapping_add(u64::from(number));
                let exploration_samples = match evaluation {
                    true => 0,
                    false => settings.exploration_samples(),
                };
                let sqd = work.saved.sqd.get(problems[turn]);
                let parents = sqd.map(|sqd| sqd.parents(plan.permitted, exploration_samples, seed));
                let repairs = plan.repairs.map(|failed| Exchange {
                    result: follow_up(Feedback::of(&failed.verdict)),
                    answer: failed.source,
                    request: None,
                });
                let requests = requests(settings, purpose, sqd, plan.permitted, &work.documents);
                Some(Task {
                    group: GroupId::of(&id),
                    id,
                    run: self.context.run.clone(),
                    step,
                    tasks_in_step: round.to,
                    group_size,
                    exploration_samples,
                    parents: parents.unwrap_or_default(),
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
                    seed,
                    machine_class: self.context.host.machine_class.clone(),
                    min_policy: self.needed_policy(work.saved.course.trained(), purpose),
                    outcomes_seen,
                    history: Vec::from_iter(repairs),
                    follows: None,
                    requests,
                })
            })
            .collect();
        Ok(tasks)
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
        let policy = self.context.settings.generator.kind.name();
        // The trace begins here: all later work on the task continues it.
        let span = task_span!("task", task);
        let subject = Queue::generate(policy).of(&task.run);
        let published = self.context.host.bus.publish(&subject, task);
        Ok(published.instrument(span).await?)
    }
}

/// The tasks of the next turns of a step's conversations: one for each answer that goes on and that none of `tasks`
/// follows yet, in the order of the answers.
fn next_turns<'a>(
    outcomes: impl Iterator<Item = &'a Outcome>,
    tasks: &[Task],
    round: Round,
    telling: &Telling<'_>,
) -> Vec<Task> {
    let followed: BTreeSet<&CandidateId> =
        tasks.iter().filter_map(|t| t.follows.as_ref()).collect();
    let known: BTreeMap<&TaskId, &Task> = tasks.iter().map(|task| (&task.id, task)).collect();
    let mut open: Vec<&Outcome> = outcomes
        .filter(|outcome| goes_on(outcome, telling.prompt))
        .filter(|outcome| !followed.contains(&outcome.candidate.id))
        .collect();
    open.sort_by_key(|outcome| (outcome.candidate.task.group(), outcome.candidate.sample));
    open.into_iter()
        .zip(round.from..round.to)
        .filter_map(|(outcome, number)| {
            let before = *known.get(&outcome.candidate.task)?;
            let id = TaskId::of(&before.run, before.step, number);
            let (said, elite) = telling.told(before, outcome);
            let mut history = before.history.clone();
            history.push(said);
            // The result of a request would be told to nobody after the last turn.
            let requests = before.requests.clone();
            Some(Task {
                group: GroupId::of(&id),
                id,
                tasks_in_step: round.to,
                group_size: 1,
                exploration_samples: 0,
                parents: Vec::new(),
                seed: before
                    .seed
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .wrapping_add(u64::from(outcome.candidate.sample) + 1),
                history,
                elite,
                follows: Some(outcome.candidate.id.clone()),
                requests: requests.filter(|_| round.number < telling.last),
                ..before.clone()
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
