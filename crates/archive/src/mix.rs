//! Which problems the tasks of a step are for, in a run over many.
//!
//! Uniform turns need no state. By learning progress, problems on which the policy changes get more tasks than those that
//! it has mastered or cannot do yet. The measure is the distance between a fast and a slow moving average of a problem's
//! score, in either direction (bidirectional learning progress: Kanitscheider et al., 2021, after Oudeyer et al., 2007,
//! and Matiisen et al., 2017): a problem that is being forgotten deserves tasks as much as one that is being learned.
//! Deviations from Kanitscheider et al.: the score is that of [`score`] and not a success rate, because a policy goes on
//! learning where all its programs are correct; it is not reweighted; and each problem keeps a floor, so that none is
//! forgotten unseen.

use std::collections::BTreeMap;

use flopsmith_protocol::{Measurement, ProblemId, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::draw::Draw;

/// How the tasks of a training step are divided among the problems of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mix {
    /// The problems take turns.
    #[default]
    Uniform,
    /// Problems whose scores change get more tasks.
    LearningProgress,
}

/// Share of a new mean in the fast average, and of the fast average in the slow one.
const FAST: f64 = 0.3;
const SLOW: f64 = 0.1;
/// Share of the tasks that are divided evenly, whatever the progress.
const FLOOR: f64 = 0.25;
/// A sum of distances below this is no progress, but rounding.
const NOTHING: f64 = 1e-9;

/// The score of a sample between 0 and 1; none if its outcome says nothing about it. A program that is refused scores 0,
/// one that is S times as fast as the plain reference S / (1 + S): the logistic function of ln S. So scores of different
/// problems have one scale, and twice the speed counts at any speed. A ratio that did not converge counts by its lower end.
pub fn score(verdict: &Verdict) -> Option<f64> {
    if !verdict.counts() {
        return None;
    }
    let known = verdict.measurement().map(Measurement::known_ratio);
    let ratio = known.map_or(0.0, |ratio| ratio.max(0.0));
    Some(if ratio.is_finite() {
        ratio / (1.0 + ratio)
    } else {
        1.0
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Averages {
    fast: f64,
    slow: f64,
}

/// The learning progress of the problems of a run. The whole state is serde; MessagePack keeps every bit of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LearningProgress(BTreeMap<ProblemId, Averages>);

impl LearningProgress {
    /// Notes the mean score of a problem's samples in a step. A mean that is no number from 0 to 1 changes nothing.
    pub fn note(&mut self, problem: &ProblemId, mean: f64) {
        if !(0.0..=1.0).contains(&mean) {
            return;
        }
        match self.0.get_mut(problem) {
            Some(of) => {
                of.fast += FAST * (mean - of.fast);
                of.slow += SLOW * (of.fast - of.slow);
            }
            None => {
                let first = Averages {
                    fast: mean,
                    slow: mean,
                };
                self.0.insert(problem.clone(), first);
            }
        }
    }

    /// The distance of the averages; none for a problem without a score yet.
    pub fn of(&self, problem: &ProblemId) -> Option<f64> {
        self.0.get(problem).map(|of| (of.fast - of.slow).abs())
    }

    /// The shares of these problems in the tasks of a step: positive, with the sum 1. A problem without a score yet counts
    /// as the one with the greatest progress. Without any progress the shares are equal.
    pub fn shares(&self, problems: &[&ProblemId]) -> Vec<f64> {
        let known: Vec<Option<f64>> = problems.iter().map(|problem| self.of(problem)).collect();
        let greatest = known.iter().flatten().copied().fold(0.0, f64::max);
        let distances: Vec<f64> = known.iter().map(|of| of.unwrap_or(greatest)).collect();
        let sum: f64 = distances.iter().sum();
        let even = 1.0 / problems.len().max(1) as f64;
        distances
            .into_iter()
            .map(|distance| match sum > NOTHING {
                true => FLOOR * even + (1.0 - FLOOR) * distance / sum,
                false => even,
            })
            .collect()
    }
}

/// The problem of each of `tasks` tasks, by its place in `shares`, in ascending order: systematic sampling (Kitagawa,
/// 1996), by which a problem with the share p gets p · `tasks` tasks, rounded down or up. Depends on nothing but its
/// arguments.
pub fn apportion(shares: &[f64], tasks: usize, seed: u64, step: u64) -> Vec<usize> {
    let total: f64 = shares.iter().sum();
    let Some(last) = shares.iter().rposition(|share| *share > 0.0) else {
        return Vec::new();
    };
    let offset = Draw::new(seed, step).unit();
    let (mut at, mut passed) = (0, 0.0);
    (0..tasks)
        .map(|task| {
            let place = (task as f64 + offset) / tasks as f64 * total;
            while at < last && passed + shares[at] <= place {
                passed += shares[at];
                at += 1;
            }
            at
        })
        .collect()
}
