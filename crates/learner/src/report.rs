//! Reports of training.

use serde::{Deserialize, Serialize};

use crate::loss::Tally;

/// The report of one call of [`crate::Learner::step`]. Means are over the tokens of all its updates.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StepReport {
    /// Mean over updates of the loss that was minimised, divergence and entropy terms included.
    pub loss: f64,
    /// Divergence from the policy that drew the samples, nats per token. With a [`flopsmith_config::Correction`] the divergence,
    /// the ratios and the clipping are relative to the policy that the step began with.
    pub kl: f64,
    /// The same divergence over the tokens of the last update only, which shows the effect of all updates before it.
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
    /// Mean of |ln ratio| to the policy that drew the samples, before any weight changed: the difference between the
    /// arithmetic of sampler and learner, plus staleness.
    pub sampler_gap: f64,
    /// Number of different completions that were left out because they were too far from the policy the step began
    /// with.
    pub left_out: u64,
    /// Step size of the last update.
    pub learning_rate: f64,
    /// Number of updates of the weights.
    pub updates: u64,
    /// Number of completion tokens trained on, counted once for each pass.
    pub tokens: u64,
    /// Number of positions computed for these tokens, prompts included and padding left out.
    pub positions: u64,
    /// Duration of the step, seconds.
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

/// The progress that [`crate::sft()`] reports after each update.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SftProgress {
    /// Updates done.
    pub step: u64,
    /// Updates planned.
    pub steps: u64,
    /// Mean loss of the tokens that this update trained on, nats per token.
    pub loss: f64,
    /// Mean loss of the validation examples, if they were evaluated after this update.
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

/// The result of [`crate::sft()`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SftReport {
    /// Updates done, skipped ones included.
    pub steps: u64,
    /// Updates that were skipped because their loss or gradient was not finite.
    pub skipped: u64,
    /// Mean loss of the first update, nats per token.
    pub first_loss: f64,
    /// Mean loss of the last update.
    pub last_loss: f64,
    /// Mean loss of the validation examples at the end, if there are any.
    pub val_loss: Option<f64>,
    /// exp of `val_loss`.
    pub perplexity: Option<f64>,
    /// Positions trained, prompts included.
    pub positions: u64,
    /// Tokens trained on.
    pub tokens: u64,
    /// Positions trained per second.
    pub tokens_per_s: f64,
    /// Seconds in all.
    pub seconds: f64,
    /// True if the progress callback ended the training early.
    pub stopped: bool,
}
