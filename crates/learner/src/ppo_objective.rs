//! A step's answers with their references, and the mean of their losses as an objective.

use std::sync::Arc;

use flopsmith_policy::Plan;

use crate::batch::Row;
use crate::gradient::{Objective, RowScores, RowSlopes};
use crate::loss::Tally;
use crate::ppo_loss::{Answer, Terms, differentiate};

/// The rows of a step and the numbers that they are compared with.
pub(crate) struct Prepared {
    pub rows: Arc<Vec<Row>>,
    pub old_logprobs: Vec<Vec<f32>>,
    pub old_values: Vec<Vec<f64>>,
    pub advantages: Vec<Vec<f64>>,
    pub returns: Vec<Vec<f64>>,
}

/// The losses of [`crate::ppo_loss`] on the given answers.
pub(crate) struct Clipped {
    pub terms: Terms,
    pub prepared: Arc<Prepared>,
    /// 1 / tokens.
    pub weight: f64,
}

impl Objective for Clipped {
    fn wants(&self) -> Plan {
        Plan {
            values: true,
            ..Plan::LOGPROBS
        }
    }

    fn differentiate(
        &self,
        rows: &[usize],
        scores: &[RowScores<'_>],
        slopes: &mut [RowSlopes<'_>],
    ) -> Tally {
        let mut tally = Tally::default();
        for ((row, scores), slopes) in rows.iter().zip(scores).zip(slopes) {
            let answer = Answer {
                logprobs: scores.logprobs,
                values: scores.values,
                old_logprobs: &self.prepared.old_logprobs[*row],
                old_values: &self.prepared.old_values[*row],
                advantages: &self.prepared.advantages[*row],
                returns: &self.prepared.returns[*row],
                weight: self.weight,
            };
            let sums = differentiate(&self.terms, &answer, slopes.logprobs, slopes.values);
            // An overflowing ratio must not count, even if clipping would hide it.
            let policy = if sums.kl.is_finite() {
                sums.policy
            } else {
                f64::NAN
            };
            tally.add(&Tally {
                loss: policy + sums.value,
                value_loss: sums.value,
                kl: sums.kl,
                clipped: sums.clipped,
                values_clipped: sums.values_clipped,
                compared: sums.tokens,
                tokens: sums.tokens,
                ..Tally::default()
            });
        }
        tally
    }
}

/// 1 − variance of the values' errors / variance of the returns; 0 if all returns are equal.
pub(crate) fn explained(returns: &[Vec<f64>], values: &[Vec<f64>]) -> f64 {
    let variance = |numbers: &[f64]| {
        let n = numbers.len().max(1) as f64;
        let mean = numbers.iter().sum::<f64>() / n;
        numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n
    };
    let returns = returns.concat();
    let missed: Vec<f64> = returns
        .iter()
        .zip(values.iter().flatten())
        .map(|(r, v)| r - v)
        .collect();
    match variance(&returns) {
        all if all > 0.0 => 1.0 - variance(&missed) / all,
        _ => 0.0,
    }
}
