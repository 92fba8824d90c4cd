//! Computes advantages of a step's samples from their verdicts. Pure.

use std::collections::BTreeMap;

use flopsmith_protocol::{CandidateRef, Outcome, ProblemId, Rollout, StepMetrics, TechniqueSet};
use flopsmith_reward::advantage::is_flat;
use flopsmith_reward::{Context, group_advantages, sharing};
use serde::{Deserialize, Serialize};

use crate::best_answers::BestAnswers;
use crate::ledger::Groups;
use crate::peaks::Peaks;
use crate::returns::{by_turn, conversations, returns};
use crate::stream::is_fresh;
use flopsmith_config::{Algorithm, Settings, Turns};

/// A sample to train on.
#[derive(Debug, Clone, PartialEq)]
pub struct Advantaged {
    /// The sampled tokens.
    pub rollout: Rollout,
    /// Its advantage; with PPO, which computes advantages of its own, the score of the answer.
    pub advantage: f64,
}

/// The best verified speed of each stage of each problem so far, GFLOPS. Part of the learner's state: rewards may be
/// relative to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StageBests(BTreeMap<ProblemId, BTreeMap<u32, f64>>);

impl StageBests {
    /// The key that [`StageBests::saved`] reads.
    pub const KEY: &str = "stage_best_gflops";

    /// The bests in a checkpoint's description; empty if the checkpoint was saved before bests were kept.
    pub fn saved(meta: &serde_json::Value) -> Result<Self, serde_json::Error> {
        match meta.get(Self::KEY) {
            Some(bests) => Self::deserialize(bests),
            None => Ok(Self::default()),
        }
    }

    /// The best of the problem and the stage that this candidate belongs to.
    pub fn get(&self, candidate: &CandidateRef) -> Option<f64> {
        let stages = self.0.get(&candidate.problem)?;
        stages.get(&candidate.stage).copied()
    }

    /// Notes the programs of a step that was trained.
    pub fn learn<'a>(&mut self, outcomes: impl Iterator<Item = &'a Outcome>) {
        for outcome in outcomes.filter(|outcome| !outcome.candidate.exploration) {
            if let Some(measurement) = outcome.verdict.measurement() {
                self.note(&outcome.candidate, measurement.known_gflops());
            }
        }
    }

    fn note(&mut self, candidate: &CandidateRef, gflops: f64) {
        if gflops.is_finite() {
            let stages = self.0.entry(candidate.problem.clone()).or_default();
            let best = stages.entry(candidate.stage).or_insert(gflops);
            *best = best.max(gflops);
        }
    }
}

/// The rewards of a step's samples, in their order.
#[derive(Debug, Clone)]
pub struct Rewards {
    /// The reward of each sample with its standard error; no reward if the outcome says nothing about the sample.
    pub raw: Vec<(Option<f64>, f64)>,
    /// The rewards that count in the samples' groups: none of explorations.
    own: Vec<Option<f64>>,
    /// The same, shared among equal programs, with their standard errors.
    shared: Vec<(Option<f64>, f64)>,
    /// True for each sample that is verified and measured.
    measured: Vec<bool>,
    /// True for each sample that makes a request in place of writing a program.
    asked: Vec<bool>,
}

impl Rewards {
    /// The rewards of these outcomes. `best` is the best speed of a sample's stage before the step.
    pub fn of<'a>(
        samples: impl Iterator<Item = &'a Outcome>,
        settings: &Settings,
        peaks: &Peaks,
        best: impl Fn(&Outcome) -> Option<f64>,
    ) -> Self {
        let (mut raw, mut own) = (Vec::new(), Vec::new());
        let (mut measured, mut asked) = (Vec::new(), Vec::new());
        // The prompt and the program, its reward in its group, and the standard error of the reward.
        let mut shared = Vec::new();
        for outcome in samples {
            let candidate = &outcome.candidate;
            let context = Context {
                peak_gflops: peaks.get(&candidate.problem),
                stage_best_gflops: best(outcome),
            };
            let reward = settings.reward.reward(&outcome.verdict, &context);
            let error = settings.reward.reward_se(&outcome.verdict, &context);
            let error = error.unwrap_or(0.0);
            // Programs that differ in white space only are one program.
            let program: String = outcome.source.split_whitespace().collect();
            let key = (candidate.problem.clone(), candidate.permitted, program);
            let in_group = reward.filter(|_| !candidate.exploration);
            raw.push((reward, error));
            own.push(in_group);
            shared.push((key, in_group, error));
            measured.push(outcome.verdict.measurement().is_some());
            asked.push(outcome.asked().is_some());
        }
        sharing::share(&mut shared, settings.advantage.sharing);
        let shared = shared.into_iter().map(|(_, reward, error)| (reward, error));
        Self {
            raw,
            own,
            shared: shared.collect(),
            measured,
            asked,
        }
    }

    /// The same with the returns of the turns in place of their rewards.
    fn returned(self, conversations: &[Vec<usize>], turns: &Turns) -> Self {
        let own: Vec<(Option<f64>, f64)> = self.own.iter().map(|reward| (*reward, 0.0)).collect();
        let own = returns(conversations, turns, &own, &self.asked);
        Self {
            own: own.into_iter().map(|(reward, _)| reward).collect(),
            shared: returns(conversations, turns, &self.shared, &self.asked),
            ..self
        }
    }

    /// The advantage of each sample. `compared` has the places of the samples that are compared with each other, group by
    /// group; a sample in none of them has no advantage. With PPO, which computes advantages of its own, these are scores.
    pub fn advantages(&self, compared: &[Vec<usize>], settings: &Settings) -> Vec<Option<f64>> {
        let of_groups = compared.iter().map(|places| {
            // Judged by the reward of each program alone: an equal program in another group makes no difference within a
            // group.
            let own: Vec<Option<f64>> = places.iter().map(|at| self.own[*at]).collect();
            let left_out = settings.advantage.leaves_out_flat_groups() && is_flat(&own);
            let of_group = places.iter().map(|at| {
                let (reward, error) = self.shared[*at];
                (reward.filter(|_| !left_out), error)
            });
            of_group.unzip()
        });
        let rewards: Vec<(Vec<Option<f64>>, Vec<f64>)> = of_groups.collect();
        let found: Vec<Vec<Option<f64>>> = match settings.algorithm() {
            Algorithm::Ppo(_) => rewards.into_iter().map(|(rewards, _)| rewards).collect(),
            Algorithm::Grpo(_) => {
                let (scale, kind) = (settings.advantage.scale, settings.advantage.kind);
                group_advantages(&rewards, scale, kind)
            }
        };
        let mut advantages = vec![None; self.raw.len()];
        for (at, advantage) in compared.iter().flatten().zip(found.into_iter().flatten()) {
            advantages[*at] = match self.measured[*at] {
                true => advantage.map(|advantage| advantage + settings.advantage.imitation),
                false => advantage,
            };
        }
        advantages
    }
}

/// The step's samples with their advantages. Samples whose outcome says nothing about them leave their group, and so do
/// samples without tokens; both are counted as dropped.
///
/// `peaks` are the machine's, the same for the whole run. `bests` and `best_answers` are passed as they
/// were before this step, and are updated with it, but not by fresh nests, which occur once. Best answers that the
/// step falls short of are added, without log-probabilities.
pub fn with_advantages(
    groups: Groups,
    settings: &Settings,
    peaks: impl Into<Peaks>,
    bests: &mut StageBests,
    best_answers: &mut BestAnswers,
) -> (Vec<Advantaged>, StepMetrics) {
    let peaks = peaks.into();
    let mut metrics = StepMetrics::default();
    // The samples of the first round carry the number of tasks in that round.
    let first = groups.iter().flatten();
    let first = first.map(|s| s.outcome.candidate.tasks_in_step).min();
    let again = groups.len().saturating_sub(first.unwrap_or(0) as usize);
    metrics.resampled_groups = match settings.advantage.dynamic_sampling {
        0 => 0,
        _ => u32::try_from(again).unwrap_or(u32::MAX),
    };
    let outcomes = || groups.iter().flatten().map(|sample| &sample.outcome);
    let best = |outcome: &Outcome| bests.get(&outcome.candidate);
    let rewards = Rewards::of(outcomes(), settings, &peaks, best);
    for (outcome, (reward, _)) in outcomes().zip(&rewards.raw) {
        let is_asked = outcome.asked().is_some();
        if reward.is_none() && !is_asked && !outcome.candidate.exploration {
            metrics.dropped += 1;
        }
    }
    let imitated = imitated(
        &groups,
        &rewards.own,
        settings.advantage.self_imitation,
        best_answers,
    );
    let all_rewards: Vec<f64> = rewards.own.iter().filter_map(|reward| *reward).collect();
    metrics.mean_reward = all_rewards.iter().sum::<f64>() / all_rewards.len().max(1) as f64;

    let turns = &settings.turns;
    let conversations = conversations(&groups, turns.most);
    let compared = by_turn(&groups, &conversations);
    let rewards = match turns.most {
        0 | 1 => rewards,
        _ => rewards.returned(&conversations, turns),
    };
    let flat = compared.iter().filter(|places| {
        let valid = places.iter().filter_map(|at| rewards.shared[*at].0);
        let valid: Vec<f64> = valid.collect();
        valid.windows(2).all(|w| (w[0] - w[1]).abs() < 1e-12)
    });
    metrics.flat_groups = flat.count() as f64 / compared.len().max(1) as f64;
    let advantages = rewards.advantages(&compared, settings);
    let left_out = match settings.algorithm() {
        Algorithm::Ppo(_) => false,
        Algorithm::Grpo(learner) => learner.leaves_out_flat_samples(),
    };
    let mut advantaged = Vec::new();
    let samples = groups.into_iter().flatten().zip(rewards.raw);
    for ((sample, (reward, error)), advantage) in samples.zip(advantages) {
        let candidate = &sample.outcome.candidate;
        let measured = sample.outcome.verdict.measurement();
        // Kept for nests that never occur again, they would only make every checkpoint larger.
        let kept = !is_fresh(settings, &candidate.problem);
        if let Some(m) = measured.filter(|_| kept) {
            if !candidate.exploration {
                bests.note(candidate, m.known_gflops());
            }
            if let (Some(reward), Some(rollout)) = (reward, &sample.rollout) {
                let techniques = sample.outcome.techniques;
                best_answers.note(techniques, (reward, error), rollout);
            }
        }
        let Some(advantage) = advantage else {
            continue;
        };
        let Some(rollout) = sample.rollout else {
            metrics.dropped += 1;
            continue;
        };
        metrics.samples += 1;
        if advantage.abs() >= 1e-9 || !left_out {
            advantaged.push(Advantaged { rollout, advantage });
        }
    }
    advantaged.extend(imitated);
    (advantaged, metrics)
}

/// An imitated answer counts at most this many standard deviations above the mean.
const FARTHEST: f64 = 3.0;

/// A prompt of a step.
struct Asked {
    problem: ProblemId,
    permitted: TechniqueSet,
    groups: f64,
    /// The rewards of its own answers.
    rewards: Vec<f64>,
    /// Its tokens, if an answer has them.
    tokens: Option<Vec<u32>>,
}

impl Asked {
    fn of(candidate: &CandidateRef) -> Self {
        Self {
            problem: candidate.problem.clone(),
            permitted: candidate.permitted,
            groups: 0.0,
            rewards: Vec::new(),
            tokens: None,
        }
    }
}

/// Best answers to prompts of this step that the step's own answers fall short of. The advantage of each is `strength`
/// times the one it would have in one of the prompt's groups, times the number of these groups.
fn imitated(
    groups: &Groups,
    raw: &[Option<f64>],
    strength: f64,
    best_answers: &BestAnswers,
) -> Vec<Advantaged> {
    if strength <= 0.0 {
        return Vec::new();
    }
    let mut prompts: BTreeMap<(ProblemId, u32), Asked> = BTreeMap::new();
    let mut at = raw.iter();
    for group in groups {
        let Some(first) = group.first() else { continue };
        let candidate = &first.outcome.candidate;
        let prompt = prompts
            .entry((candidate.problem.clone(), candidate.permitted.bits()))
            .or_insert_with(|| Asked::of(candidate));
        prompt.groups += 1.0;
        let rewards = at.by_ref().take(group.len());
        prompt.rewards.extend(rewards.filter_map(|reward| *reward));
        let tokens = group.iter().filter_map(|s| s.rollout.as_ref());
        for Rollout { prompt_tokens, .. } in tokens {
            // The shortest prompt shows no program.
            let shorter = |old: &Vec<u32>| prompt_tokens.len() < old.len();
            if prompt.tokens.as_ref().is_none_or(shorter) {
                prompt.tokens = Some(prompt_tokens.clone());
            }
        }
    }
    let mut found = Vec::new();
    for Asked {
        problem,
        permitted,
        groups: count,
        rewards,
        tokens,
    } in prompts.into_values()
    {
        let n = rewards.len().max(1) as f64;
        let best = rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let Some((rollout, worth)) = best_answers.missed(&problem, permitted, best) else {
            continue;
        };
        let mean = rewards.iter().sum::<f64>() / n;
        let deviation = (rewards.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / n).sqrt();
        let above = ((worth - mean) / (deviation + 1e-6)).clamp(0.0, FARTHEST);
        // The answer may belong to a prompt that permits less.
        let other_prompt = rollout.candidate.permitted != permitted;
        let prompt_tokens = match tokens {
            Some(tokens) if other_prompt => tokens,
            None if other_prompt => continue,
            _ => rollout.prompt_tokens.clone(),
        };
        found.push(Advantaged {
            rollout: Rollout {
                prompt_tokens,
                ..rollout.clone()
            },
            advantage: strength * above * count,
        });
    }
    found
}

#[cfg(test)]
mod tests;
