//! Settings of GRPO and its relatives.

use flopsmith_reward::Scale;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::correction::Correction;
use crate::device::Device;
use crate::dtype::Dtype;
use crate::range::{OutOfRange, at_least, bad, positive};
use crate::rates::Fall;
use crate::training::{Training as _, settings};

/// The policy-gradient losses; the formulas are in `loss` of the learner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Clipped ratio, mean over sequences of the mean over tokens (Shao et al., 2024).
    #[default]
    Grpo,
    /// Clipped ratio, mean over the tokens of the minibatch.
    Bnpo,
    /// Clipped ratio, sum over tokens divided by sequences × longest completion (Liu et al., 2025). Meant for
    /// advantages that are not divided by their spread.
    DrGrpo,
    /// Clipped ratio with a larger upper bound, mean over the tokens of the whole step (Yu et al., 2025).
    Dapo,
    /// Clipped ratio of whole sequences, reduced as `grpo` (Zheng et al., 2025).
    Gspo,
    /// Clipped importance weights as constant factors of the log-probabilities, reduced as `dapo` (MiniMax, 2025).
    Cispo,
}

/// Every question about a loss beside its formula is a method here with an arm for each loss, so that the compiler asks
/// all of them about a new one.
impl Loss {
    /// Usual distances of the clip bounds from 1, below and above. For `cispo` the second is the largest weight itself.
    pub fn usual_clip(self) -> (f64, f64) {
        match self {
            Loss::Grpo | Loss::Bnpo | Loss::DrGrpo => (0.2, 0.2),
            Loss::Dapo => (0.2, 0.28),
            Loss::Gspo => (3e-4, 4e-4),
            Loss::Cispo => (0.0, 5.0),
        }
    }

    /// True if all tokens of a sequence have one ratio, the geometric mean of their own.
    pub fn has_ratio_of_sequence(self) -> bool {
        match self {
            Loss::Gspo => true,
            Loss::Grpo | Loss::Bnpo | Loss::DrGrpo | Loss::Dapo | Loss::Cispo => false,
        }
    }

    /// The divisor of advantages that belongs to the loss, if one does: Dr. GRPO consists of its loss and of advantages
    /// that are divided by nothing.
    pub fn usual_scale(self) -> Option<Scale> {
        match self {
            Loss::DrGrpo => Some(Scale::None),
            Loss::Grpo | Loss::Bnpo | Loss::Dapo | Loss::Gspo | Loss::Cispo => None,
        }
    }

    /// True if samples without an advantage may leave the batch. Dapo (Yu et al., 2025) fills its batches with groups
    /// that have one. The other losses divide by all sequences or tokens.
    fn leaves_out_flat_samples(self) -> bool {
        match self {
            Loss::Dapo => true,
            Loss::Grpo | Loss::Bnpo | Loss::DrGrpo | Loss::Gspo | Loss::Cispo => false,
        }
    }

    /// Why weights in half precision need a correction, if they do.
    fn need_of_correction(self) -> Option<&'static str> {
        match self {
            Loss::Gspo => {
                Some("the rounding of half precision moves ratios further than `gspo` clips them")
            }
            Loss::Grpo | Loss::Bnpo | Loss::DrGrpo | Loss::Dapo | Loss::Cispo => None,
        }
    }

    /// The advice about `ratio_limit`, if the loss does not read that setting.
    fn refusal_of_ratio_limit(self) -> Option<&'static str> {
        match self {
            Loss::Cispo => Some("left out with `cispo`, whose weights have a bound of their own"),
            Loss::Grpo | Loss::Bnpo | Loss::DrGrpo | Loss::Dapo | Loss::Gspo => None,
        }
    }
}

settings! {
    /// Settings of the learner.
    #[derive(JsonSchema)]
    pub struct GrpoConfig {
        /// Step size of AdamW after the warm-up. Default 1e-6, which suits models of billions of weights; a model of a few
        /// million needs 1e-4 or more.
        pub learning_rate: f64 = 1e-6,
        /// Updates over which the step size grows linearly from 0. Default 0.
        pub warmup_steps: u64 = 0,
        /// Share of the step size that is left when the run's budget is spent, which the learner is told (`Learner::set_progress`).
        /// Default 1: the step size does not fall.
        pub final_rate: f64 = 1.0,
        /// Curve by which the step size falls to `final_rate`: `linear` or `cosine`. Default `linear`.
        pub schedule: Fall = Fall::Linear,
        /// Factor by which the logits grow towards the end of the run's budget, in small parts after the steps of its last
        /// third; see `sharpen` of the learner. Default 1: the logits do not grow.
        pub sharpen: f64 = 1.0,
        /// Distance of the lower clip bound from 1. Default: the loss's own, see [`Loss::usual_clip`].
        pub clip_low: Option<f64> = None,
        /// Distance of the upper clip bound from 1; for `cispo` the largest weight. Default: the loss's own.
        pub clip_high: Option<f64> = None,
        /// Bound of the ratio if the advantage is negative; must be above 1 + `clip_high`: two-sided clipping. Default:
        /// none.
        pub ratio_limit: Option<f64> = None,
        /// Correction for samples that were not drawn from the policy the step begins with: other arithmetic drew them, or
        /// an earlier version did. Any value but `none` costs one more forward pass over the step. Default `auto`:
        /// `token_truncate` if the weights are in half precision, else `none`.
        pub correction: Correction = Correction::Auto,
        /// Largest weight that `correction` gives. Default 3.
        pub correction_cap: f64 = 3.0,
        /// Leave out of training completions whose tokens have a mean |ln ratio| to the policy the step begins with above
        /// this number. Costs the same pass. Default: none are left out.
        pub max_gap: Option<f64> = None,
        /// Weight of the k3 divergence from the frozen starting policy; with 0 the learner keeps no copy of that policy.
        /// Default 0.
        pub kl_beta: f64 = 0.0,
        /// Target of the divergence of a step from the policy that drew the samples, nats per token; see `pace` of the learner.
        /// The step size then follows from the target, and `learning_rate` is only its start. Default: none, so the step
        /// size is as set.
        pub target_kl: Option<f64> = None,
        /// Passes over the samples of a step. Default 1.
        pub epochs: u32 = 1,
        /// Updates of the weights in each pass. Default 1.
        pub minibatches: u32 = 1,
        /// The loss. Default `grpo`.
        pub loss: Loss = Loss::default(),
        /// Longest possible completion for `dr_grpo`, tokens. Default: the longest of the step.
        pub max_completion_tokens: Option<usize> = None,
        /// Weight of the entropy that is added to the objective. Default 0.
        pub entropy_bonus: f64 = 0.0,
        /// Number format of the weights during training: `float32`, `bfloat16` (half the memory for weights and
        /// activations; masters and moments stay in single precision), or `auto`. `auto` means bfloat16 if the folder's
        /// weights are bfloat16 and the device computes in it. The caller that loads the model applies this setting.
        /// Default: `float32` on a CPU, `bfloat16` on a GPU.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub dtype: Option<Dtype> = None,
        /// Device of the training: `auto` (the first GPU if libtorch can use one, else the CPU), `cpu`, `cuda` or
        /// `cuda:N`. Where a named GPU cannot be used, the run does not start. Default `auto`.
        #[serde(skip_serializing_if = "Device::is_auto")]
        pub device: Device = Device::Auto,
        /// Training steps between two models that stay in the run's folder, as `checkpoints/version-000010` beside the newest
        /// one: an adapter's folder, or all weights if all are trained. A run needs none of them to be resumed. Default
        /// 0: no model stays but the newest.
        #[serde(skip_serializing_if = "is_zero")]
        pub checkpoint_every: u64 = 0,
        /// Number of processor cores for the learner. Default: all, or half of them if the same process samples meanwhile
        /// (`generator.steps_ahead`).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cores: Option<usize> = None,
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl GrpoConfig {
    /// The clip bounds' distances in force.
    pub fn clip(&self) -> (f64, f64) {
        let (low, high) = self.loss.usual_clip();
        (self.clip_low.unwrap_or(low), self.clip_high.unwrap_or(high))
    }

    /// True if samples without an advantage leave the batch. Terms for divergence and entropy push every token, so with
    /// such a term none leave it.
    pub fn leaves_out_flat_samples(&self) -> bool {
        self.loss.leaves_out_flat_samples() && self.kl_beta == 0.0 && self.entropy_bonus == 0.0
    }

    /// Checks the loss for weights in half precision, or with `half` false for weights in single precision.
    ///
    /// # Errors
    /// If the loss needs a correction of the weights' rounding, and `correction` is `none`.
    pub fn check_for_weights(&self, half: bool) -> Result<(), OutOfRange> {
        let uncorrected = half && self.correction.for_weights(half) == Correction::None;
        match self.loss.need_of_correction() {
            Some(need) if uncorrected => Err(OutOfRange {
                field: "correction",
                reason: format!("is `none`: {need}; leave it out, or train in single precision"),
            }),
            _ => Ok(()),
        }
    }

    /// Checks the ranges of all settings.
    pub fn check(&self) -> Result<(), OutOfRange> {
        let (low, high) = self.clip();
        self.shared().check()?;
        at_least("learning_rate", self.learning_rate, 0.0)?;
        if !(0.0..=1.0).contains(&self.final_rate) {
            return Err(bad("final_rate", self.final_rate, "between 0 and 1"));
        }
        if !(self.sharpen >= 1.0 && self.sharpen.is_finite()) {
            return Err(bad("sharpen", self.sharpen, "1 or more"));
        }
        at_least("clip_low", low, 0.0)?;
        at_least("clip_high", high, 0.0)?;
        at_least("kl_beta", self.kl_beta, 0.0)?;
        if let Some(limit) = self.ratio_limit {
            if let Some(advice) = self.loss.refusal_of_ratio_limit() {
                return Err(bad("ratio_limit", limit, advice));
            }
            if !(limit > 1.0 + high && limit.is_finite()) {
                return Err(bad("ratio_limit", limit, "above 1 + `clip_high`"));
            }
        }
        let cap = self.correction_cap;
        if !(cap > 0.0 && cap.is_finite()) {
            return Err(bad("correction_cap", cap, "a positive number"));
        }
        if let Some(gap) = self.max_gap
            && !(gap > 0.0 && gap.is_finite())
        {
            return Err(bad("max_gap", gap, "a positive number"));
        }
        if !self.entropy_bonus.is_finite() {
            return Err(bad("entropy_bonus", self.entropy_bonus, "a finite number"));
        }
        if low > 1.0 {
            return Err(bad("clip_low", low, "between 0 and 1"));
        }
        if self.lora.is_some() && self.sharpen > 1.0 {
            return Err(bad(
                "sharpen",
                self.sharpen,
                "1 where `lora` is set: it changes a weight that an adapter does not have",
            ));
        }
        positive("epochs", u64::from(self.epochs))?;
        positive("minibatches", u64::from(self.minibatches))?;
        if let Some(target) = self.target_kl {
            if !(target > 0.0 && target.is_finite()) {
                return Err(bad("target_kl", target, "a positive number"));
            }
            if self.epochs.saturating_mul(self.minibatches) < 2 {
                return Err(bad(
                    "target_kl",
                    target,
                    "left out where a step has one update only: the effect of an update shows in the next one; set `minibatches = 2`",
                ));
            }
        }
        if let Some(n) = self.max_completion_tokens {
            positive("max_completion_tokens", n as u64)?;
        }
        Ok(())
    }
}
