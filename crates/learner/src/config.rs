//! Settings of the training loops. Every field has a default, unknown fields are refused.

use flopsmith_policy::Dtype;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::correction::Correction;
use crate::error::{Error, Result};
use crate::trainer::Shared as _;

/// The policy-gradient losses; [`crate::loss`] has the formulas.
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
}

/// Declares the settings of a training: its own, each with its default, and those that all trainings share.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty = $default:expr,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
            /// Positions (rows × longest row) that one worker holds activations for at once. Default 2048: more costs
            /// memory and gains nothing on a CPU.
            pub micro_batch_tokens: usize,
            /// Scale gradients longer than this down to it; 0 for no limit. Default 1.
            pub max_grad_norm: f64,
            /// Decay of matrices, relative to the step size. Default 0.
            pub weight_decay: f64,
            /// Decay rates of the two moments. Default 0.9 and 0.999.
            pub betas: [f64; 2],
            /// Added to the root of the second moment. Default 1e-8.
            pub eps: f64,
            /// Train a low-rank adapter of this shape instead of the weights. Generators receive only the adapter, and
            /// a frozen reference costs no memory. Default: none.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub lora: Option<flopsmith_policy::LoraConfig>,
            /// Keep only the inputs of each block and compute the block again in the backward pass: less memory, a
            /// third more work. Default false.
            pub activation_checkpointing: bool,
            /// Number of threads that compute gradients of different rows at once. Default: one for each core for small
            /// models; one in all, which uses all cores, for large models.
            pub workers: Option<usize>,
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $default,)*
                    micro_batch_tokens: 2048,
                    max_grad_norm: 1.0,
                    weight_decay: 0.0,
                    betas: [0.9, 0.999],
                    eps: 1e-8,
                    lora: None,
                    activation_checkpointing: false,
                    workers: None,
                }
            }
        }

        impl $crate::trainer::Shared for $name {
            fn shared(&self) -> $crate::trainer::Settings<'_> {
                $crate::trainer::Settings {
                    constants: $crate::adamw::Constants {
                        betas: self.betas,
                        eps: self.eps,
                        weight_decay: self.weight_decay,
                    },
                    max_grad_norm: self.max_grad_norm,
                    micro_batch_tokens: self.micro_batch_tokens,
                    activation_checkpointing: self.activation_checkpointing,
                    workers: self.workers,
                    lora: self.lora.as_ref(),
                }
            }
        }
    };
}
pub(crate) use settings;

settings! {
    /// Settings of [`crate::Learner`].
    #[derive(JsonSchema)]
    pub struct GrpoConfig {
        /// Step size of AdamW after the warm-up. Default 1e-6, which suits models of billions of weights; a model of a few
        /// million needs 1e-4 or more.
        pub learning_rate: f64 = 1e-6,
        /// Updates over which the step size grows linearly from 0. Default 0.
        pub warmup_steps: u64 = 0,
        /// Share of the step size that is left when the run's budget is spent, see [`crate::Learner::set_progress`].
        /// Default 1: the step size does not fall.
        pub final_rate: f64 = 1.0,
        /// Curve by which the step size falls to `final_rate`: `linear` or `cosine`. Default `linear`.
        pub schedule: Fall = Fall::Linear,
        /// Factor by which the logits grow towards the end of the run's budget, in small parts after the steps of its last
        /// third; see [`crate::sharpen`]. Default 1: the logits do not grow.
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
        /// Target of the divergence of a step from the policy that drew the samples, nats per token; see [`crate::pace`].
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
        /// Default `float32`.
        pub dtype: Dtype = Dtype::default(),
        /// Number of processor cores for the learner. Default: all, or half of them if the same process samples meanwhile
        /// (`generator.steps_ahead`).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cores: Option<usize> = None,
    }
}

impl GrpoConfig {
    /// The clip bounds' distances in force.
    pub fn clip(&self) -> (f64, f64) {
        let (low, high) = self.loss.usual_clip();
        (self.clip_low.unwrap_or(low), self.clip_high.unwrap_or(high))
    }

    /// Checks the ranges of all settings.
    pub fn check(&self) -> Result<()> {
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
            if self.loss == Loss::Cispo {
                return Err(bad(
                    "ratio_limit",
                    limit,
                    "left out with `cispo`, whose weights have a bound of their own",
                ));
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
                    "left out where a step has one update only: what an update does shows in the next one; set `minibatches = 2`",
                ));
            }
        }
        if let Some(n) = self.max_completion_tokens {
            positive("max_completion_tokens", n as u64)?;
        }
        Ok(())
    }
}

/// Curves by which a step size falls with the share of the budget that is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fall {
    /// In proportion to the share.
    #[default]
    Linear,
    /// Along half a cosine wave (Loshchilov & Hutter, 2017): slowly at first and at the end.
    Cosine,
}

impl Fall {
    /// Factor of the step size at `progress` (0 to 1) on the way from 1 to `last`.
    pub fn factor(self, progress: f64, last: f64) -> f64 {
        let left = match self {
            Fall::Linear => 1.0 - progress,
            Fall::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
        };
        last + (1.0 - last) * left
    }
}

/// Schedules of the step size of [`crate::sft()`] after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// The step size stays.
    Constant,
    /// The step size falls to a tenth along half a cosine wave.
    #[default]
    Cosine,
}

/// Tokens that [`crate::sft()`] trains on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Labels {
    /// The tokens of the answer.
    #[default]
    Answer,
    /// All tokens but the first.
    All,
}

settings! {
    /// Settings of [`crate::sft()`].
    pub struct SftConfig {
        /// Largest step size. Default 1.41e-5 (Nichols et al., for billions of weights); a model of a few million needs
        /// 1e-3.
        pub learning_rate: f64 = 1.41e-5,
        /// Updates over which the step size grows linearly from 0. Default 0.
        pub warmup: u64 = 0,
        /// Schedule after the warm-up. Default `cosine`.
        pub schedule: Schedule = Schedule::default(),
        /// Passes over the examples. Default 1. Not used if `steps` is given.
        pub epochs: u32 = 1,
        /// Number of updates, with as many passes over the examples as needed. Default: as many as `epochs` gives.
        pub steps: Option<u64> = None,
        /// Tokens of one update, prompts included. Examples are added while they fit, at least one. Default 16384.
        pub batch_tokens: usize = 16_384,
        /// Tokens to train on. Default `answer`.
        pub labels: Labels = Labels::default(),
        /// Largest number of updates in a row that may be skipped because their loss or gradient is not finite. Default 3.
        pub most_skipped: u32 = 3,
        /// Number of updates between two evaluations of the validation examples; 0 evaluates only at the end. Default 0.
        pub validate_every: u64 = 0,
        /// Seed of the examples' order. Default 0.
        pub seed: u64 = 0,
    }
}

impl SftConfig {
    /// Checks the ranges of all settings.
    pub fn check(&self) -> Result<()> {
        self.shared().check()?;
        at_least("learning_rate", self.learning_rate, 0.0)?;
        positive("epochs", u64::from(self.epochs))?;
        positive("batch_tokens", self.batch_tokens as u64)?;
        Ok(())
    }

    /// Step size of update `step` (from 0) of `steps`.
    pub fn rate(&self, step: u64, steps: u64) -> f64 {
        rate(self.learning_rate, self.warmup, self.schedule, step, steps)
    }
}

/// Step size of update `step` (from 0) of `steps`: a linear warm-up, then the schedule.
pub(crate) fn rate(largest: f64, warmup: u64, schedule: Schedule, step: u64, steps: u64) -> f64 {
    if step < warmup {
        return largest * warm(step, warmup);
    }
    match schedule {
        Schedule::Constant => largest,
        Schedule::Cosine => {
            let length = steps.saturating_sub(warmup).max(1);
            let done = ((step - warmup) as f64 / length as f64).min(1.0);
            largest * schedule.factor(done)
        }
    }
}

impl Schedule {
    /// Factor of the step size after the share `done` (0 to 1) of the updates that follow the warm-up.
    pub(crate) fn factor(self, done: f64) -> f64 {
        match self {
            Schedule::Constant => 1.0,
            Schedule::Cosine => Fall::Cosine.factor(done, 0.1),
        }
    }
}

/// Share of the step size in update `step` (from 0) of a linear warm-up. The first update is not lost: its share is
/// 1 / `warmup`.
pub(crate) fn warm(step: u64, warmup: u64) -> f64 {
    if step >= warmup {
        1.0
    } else {
        (step + 1) as f64 / warmup as f64
    }
}

pub(crate) fn at_least(field: &'static str, value: f64, least: f64) -> Result<()> {
    if value >= least && value.is_finite() {
        Ok(())
    } else {
        Err(bad(field, value, "0 or more"))
    }
}

pub(crate) fn positive(field: &'static str, value: u64) -> Result<()> {
    if value > 0 {
        Ok(())
    } else {
        Err(Error::Setting {
            field,
            reason: "is 0; it must be 1 or more".into(),
        })
    }
}

pub(crate) fn bad(field: &'static str, value: f64, wanted: &str) -> Error {
    Error::Setting {
        field,
        reason: format!("is {value}; it must be {wanted}"),
    }
}
