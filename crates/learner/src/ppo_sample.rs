//! The samples and the report of PPO.

use flopsmith_policy::Model;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::learner::check_ids;

/// An answer and its score.
#[derive(Debug, Clone, PartialEq)]
pub struct PpoSample {
    /// The prompt's token ids, at least one.
    pub prompt: Vec<u32>,
    /// The sampled token ids including the end token, at least one.
    pub tokens: Vec<u32>,
    /// Log-probability of each sampled token under the distribution it was drawn from.
    pub old_logprobs: Vec<f32>,
    /// The score of the whole answer.
    pub score: f64,
    /// Softmax temperature the tokens were drawn at.
    pub temperature: f32,
}

/// The report of a PPO step.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct PpoReport {
    /// Mean score of the answers.
    pub score: f64,
    /// Mean over answers of the sum of their tokens' rewards: the score less the cost of the divergence.
    pub reward: f64,
    /// Mean divergence of the answers from the reference, nats per answer: the sum over tokens of ln π − ln π_ref,
    /// which may be negative.
    pub kl: f64,
    /// Weight of the divergence in this step.
    pub kl_weight: f64,
    /// Mean entropy of the policy before the step at the answers' temperatures, nats per token.
    pub entropy: f64,
    /// Mean over updates of the policy loss.
    pub policy_loss: f64,
    /// Mean over updates of the value loss, times its weight.
    pub value_loss: f64,
    /// Share of the returns' variance that the values explained before the step: 1 for perfect predictions, 0 or less
    /// for useless ones.
    pub explained: f64,
    /// Divergence from the policy that wrote the answers, nats per token, mean over all updates.
    pub approx_kl: f64,
    /// Share of tokens whose ratio was clipped.
    pub clip_share: f64,
    /// Share of tokens whose value was clipped.
    pub value_clip_share: f64,
    /// Mean over updates of the gradient's norm before clipping.
    pub grad_norm: f64,
    /// Step size of the last update.
    pub learning_rate: f64,
    /// Number of updates of the weights.
    pub updates: u64,
    /// Number of updates that were skipped in this step because their loss or gradient was not finite.
    pub skipped: u64,
    /// Number of answers.
    pub answers: u64,
    /// Number of tokens of the answers.
    pub tokens: u64,
    /// Duration of the step, seconds.
    pub seconds: f64,
}

/// Checks that the samples are valid for this model.
pub(crate) fn check(model: &Model, samples: &[PpoSample]) -> Result<()> {
    for (i, s) in samples.iter().enumerate() {
        if s.prompt.is_empty() || s.tokens.is_empty() {
            return Err(Error::Input(format!(
                "sample {i} has an empty prompt or completion"
            )));
        }
        if s.tokens.len() != s.old_logprobs.len() {
            return Err(Error::Input(format!(
                "sample {i} has {} tokens and {} log-probabilities",
                s.tokens.len(),
                s.old_logprobs.len()
            )));
        }
        if !s.score.is_finite() || s.old_logprobs.iter().any(|lp| !lp.is_finite()) {
            return Err(Error::Input(format!(
                "sample {i} has a score or a log-probability that is not finite"
            )));
        }
        if !(s.temperature > 0.0 && s.temperature.is_finite()) {
            return Err(Error::Input(format!(
                "sample {i} has temperature {}, not a positive number",
                s.temperature
            )));
        }
        check_ids(model, "sample", i, &s.prompt, &s.tokens)?;
    }
    Ok(())
}
