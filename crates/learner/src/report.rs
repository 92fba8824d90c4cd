//! Reports of training.

use serde::{Deserialize, Serialize};

use crate::loss::Tally;

/// What one call of [`crate::Learner::step`] did. Means are over the tokens of all its updates.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StepReport {
    /// Mean over updates of the loss that was minimised, divergence and entropy terms included.
    pub loss: f64,
    /// Divergence from the policy that drew the samples, nats per token. With a [`crate::Correction`] this, the ratios and what is clipped
    /// are relative to the policy that the step began with.
    pub kl: f64,
    /// The same over the tokens of the last update only, which shows what all updates before it did.
    #[serde(default)]
    pub kl_at_end: f64,
    /// Divergence from the frozen reference, nats per token; 0 without one.
    pub reference_kl: f64,
    /// Entropy of the policy before the step, nats per token.
    pub entropy: f64,
    /// Share of tokens whose ratio was clipped.
    pub clip_share: f64,
    /// Mean over updates of the gradient's norm before clipping.
    pub grad_norm: f64,
    /// Mean ratio of the policy to the one that drew the samples.
    pub ratio_mean: f64,
    /// Mean of |ln ratio|.
    pub mean_abs_logratio: f64,
    /// Mean of |ln ratio| to the policy that drew the samples, before any weight changed: what sampler and trainer disagree by, plus staleness.
    pub sampler_gap: f64,
    /// Different completions that taught nothing, being too far from the policy the step began with.
    #[serde(default)]
    pub left_out: u64,
    /// Step size of the last update.
    pub learning_rate: f64,
    /// Updates of the weights.
    pub updates: u64,
    /// Completion tokens trained on, counted once for each pass.
    pub tokens: u64,
    /// Positions computed for that, prompts included and padding left out.
    pub positions: u64,
    /// Seconds it took.
    pub seconds: f64,
}

impl StepReport {
    /// Turns sums into means.
    pub(crate) fn fill(&mut self, sums: &Tally) {
        let tokens = sums.tokens.max(1) as f64;
        // Samples that were not drawn for this step, such as imitated ones, have no ratio.
        let compared = sums.compared.max(1) as f64;
        let updates = self.updates.max(1) as f64;
        self.loss = sums.loss / updates;
        self.kl = sums.kl / compared;
        self.reference_kl = sums.reference_kl / tokens;
        self.entropy = sums.entropy / sums.entropy_tokens.max(1) as f64;
        self.clip_share = sums.clipped as f64 / compared;
        self.ratio_mean = sums.ratio / compared;
        self.mean_abs_logratio = sums.abs_logratio / compared;
        self.grad_norm /= updates;
        self.tokens = sums.tokens;
    }
}

/// What [`crate::sft()`] says after each update.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SftProgress {
    /// Updates done.
    pub step: u64,
    /// Updates planned.
    pub steps: u64,
    /// Mean loss of this update's taught tokens, nats per token.
    pub loss: f64,
    /// Mean loss of the validation examples, where they were looked at after this update.
    pub val_loss: Option<f64>,
    /// Gradient norm before clipping.
    pub grad_norm: f64,
    /// Step size of this update.
    pub learning_rate: f64,
    /// Positions trained per second since the beginning, prompts included, padding and validation left out.
    pub tokens_per_s: f64,
    /// Seconds since the beginning, validation included.
    pub seconds: f64,
}

/// What [`crate::sft()`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SftReport {
    /// Updates done, skipped ones included.
    pub steps: u64,
    /// Updates that were skipped, because their loss or gradient was not finite.
    #[serde(default)]
    pub skipped: u64,
    /// Mean loss of the first update, nats per token.
    pub first_loss: f64,
    /// Mean loss of the last update.
    pub last_loss: f64,
    /// Mean loss of the validation examples at the end, where there are any.
    pub val_loss: Option<f64>,
    /// exp of `val_loss`.
    pub perplexity: Option<f64>,
    /// Positions trained, prompts included.
    pub positions: u64,
    /// Tokens taught.
    pub tokens: u64,
    /// Positions trained per second.
    pub tokens_per_s: f64,
    /// Seconds in all.
    pub seconds: f64,
    /// Did the progress callback end it early?
    pub stopped: bool,
}
