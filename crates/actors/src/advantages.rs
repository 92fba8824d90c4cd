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
use flopsmith_config::{Algorithm, Settings};

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
    let mut worth = Vec::new();
    let mut raw = Vec::new();
    for sample in groups.iter().flatten() {
        let outcome = &sample.outcome;
        let context = Context {
            peak_gflops: peaks.get(&outcome.candidate.problem),
            stage_best_gflops: bests.get(&outcome.candidate),
        };
        let reward = settings.reward.reward(&outcome.verdict, &context);
        if reward.is_none() && !outcome.candidate.exploration {
            metrics.dropped += 1;
        }
        let error = settings
            .reward
            .reward_se(&outcome.verdict, &context)
            .unwrap_or(0.0);
        // Programs that differ in white space only are one program.
        let program: String = outcome.source.split_whitespace().collect();
        let of_its_group = reward.filter(|_| !outcome.candidate.exploration);
        let prompt = (
            outcome.candidate.problem.clone(),
            outcome.candidate.permitted,
        );
        worth.push(((prompt, program), of_its_group, error));
        raw.push((reward, error));
    }
    let of_groups: Vec<Option<f64>> = worth.iter().map(|(_, reward, _)| *reward).collect();
    let imitated = imitated(
        &groups,
        &of_groups,
        settings.advantage.self_imitation,
        best_answers,
    );
    let all_rewards: Vec<f64> = worth.iter().filter_map(|(_, reward, _)| *reward).collect();
    metrics.mean_reward = all_rewards.iter().sum::<f64>() / all_rewards.len().max(1) as f64;
    sharing::share(&mut worth, settings.advantage.sharing);

    let turns = &settings.turns;
    let conversations = conversations(&groups, turns.most);
    let compared = by_turn(&groups, &conversations);
    let scored = |rewards: Vec<(Option<f64>, f64)>| match turns.most {
        0 | 1 => rewards,
        _ => returns(&conversations, turns, &rewards),
    };
    // Judged by the reward of each program alone: an equal program in another group makes no difference within a group.
    let own: Vec<Option<f64>> = scored(of_groups.into_iter().map(|r| (r, 0.0)).collect())
        .into_iter()
        .map(|(reward, _)| reward)
        .collect();
    let scores = scored(worth.into_iter().map(|(_, r, error)| (r, error)).collect());
    let mut rewards: Vec<(Vec<Option<f64>>, Vec<f64>)> = compared
        .iter()
        .map(|places| places.iter().map(|at| scores[*at]).unzip())
        .collect();
    let flat = rewards.iter().filter(|(rewards, _)| {
        let valid: Vec<f64> = rewards.iter().flatten().copied().collect();
        valid.windows(2).all(|w| (w[0] - w[1]).abs() < 1e-12)
    });
    metrics.flat_groups = flat.count() as f64 / compared.len().max(1) as f64;
    if settings.advantage.leaves_out_flat_groups() {
        for (places, (rewards, _)) in compared.iter().zip(&mut rewards) {
            let own: Vec<Option<f64>> = places.iter().map(|at| own[*at]).collect();
            if is_flat(&own) {
                rewards.fill(None);
            }
        }
    }
    let (found, left_out): (Vec<Vec<Option<f64>>>, bool) = match settings.algorithm() {
        Algorithm::Ppo(_) => {
            let scores = rewards.into_iter().map(|(rewards, _)| rewards);
            (scores.collect(), false)
        }
        Algorithm::Grpo(learner) => {
            let (scale, kind) = (settings.advantage.scale, settings.advantage.kind);
            let advantages = group_advantages(&rewards, scale, kind);
            (advantages, learner.leaves_out_flat_samples())
        }
    };
    let mut advantages: Vec<Option<f64>> = vec![None; raw.len()];
    for (at, advantage) in compared.iter().flatten().zip(found.into_iter().flatten()) {
        advantages[*at] = advantage;
    }
    let mut advantaged = Vec::new();
    let samples = groups.into_iter().flatten().zip(raw);
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
        let Some(mut advantage) = advantage else {
            continue;
        };
        if measured.is_some() {
            advantage += settings.advantage.imitation;
        }
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
