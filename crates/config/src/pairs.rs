//! Settings of training on pairs: reward models and direct performance alignment.

use crate::range::{OutOfRange, at_least, bad, positive};
use crate::rates::{Schedule, rate};
use crate::training::{Training as _, settings};

settings! {
    /// Settings of a reward model's training.
    pub struct RewardModelConfig {
        /// Largest step size. Default 1.41e-5 (Nichols et al., for billions of weights); a model of a few million needs
        /// 1e-4 or more.
        pub learning_rate: f64 = 1.41e-5,
        /// Updates over which the step size grows linearly from 0. Default 0.
        pub warmup: u64 = 0,
        /// Schedule after the warm-up. Default `constant`.
        pub schedule: Schedule = Schedule::Constant,
        /// Passes over the pairs. Default 1. Not used if `steps` is given.
        pub epochs: u32 = 1,
        /// Number of updates, with as many passes over the pairs as needed. Default: as many as `epochs` gives.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub steps: Option<u64> = None,
        /// Pairs of one update. Default 64.
        pub batch: usize = 64,
        /// λ: largest margin of a pair. Default 3.
        pub margin_cap: f64 = 3.0,
        /// Largest number of updates in a row that may be skipped because their loss or gradient is not finite. Default 3.
        pub most_skipped: u32 = 3,
        /// Seed of the pairs' order, of a fresh head and of a fresh adapter. Default 0.
        pub seed: u64 = 0,
    }
}

settings! {
    /// Settings of direct performance alignment.
    pub struct DpaConfig {
        /// β: weight of a log-ratio to the reference. Default 0.6.
        pub beta: f64 = 0.6,
        /// Largest step size. Default 1e-7 (Nichols et al., for billions of weights); a model of a few million needs 1e-5
        /// or more.
        pub learning_rate: f64 = 1e-7,
        /// As in [`RewardModelConfig::warmup`].
        pub warmup: u64 = 0,
        /// As in [`RewardModelConfig::schedule`].
        pub schedule: Schedule = Schedule::Constant,
        /// As in [`RewardModelConfig::epochs`].
        pub epochs: u32 = 1,
        /// As in [`RewardModelConfig::steps`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub steps: Option<u64> = None,
        /// Pairs of one update. Default 4.
        pub batch: usize = 4,
        /// As in [`RewardModelConfig::margin_cap`].
        pub margin_cap: f64 = 3.0,
        /// As in [`RewardModelConfig::most_skipped`].
        pub most_skipped: u32 = 3,
        /// Seed of the pairs' order and of a fresh adapter. Default 0.
        pub seed: u64 = 0,
    }
}

impl RewardModelConfig {
    /// Checks the ranges of the settings.
    pub fn check(&self) -> Result<(), OutOfRange> {
        self.shared().check()?;
        at_least("learning_rate", self.learning_rate, 0.0)?;
        at_least("margin_cap", self.margin_cap, 0.0)?;
        positive("epochs", u64::from(self.epochs))?;
        if let Some(steps) = self.steps {
            positive("steps", steps)?;
        }
        positive("batch", self.batch as u64)?;
        Ok(())
    }

    /// Step size of update `step` (from 0) of `steps`.
    pub fn rate(&self, step: u64, steps: u64) -> f64 {
        rate(self.learning_rate, self.warmup, self.schedule, step, steps)
    }
}

impl DpaConfig {
    /// Checks the ranges of the settings.
    pub fn check(&self) -> Result<(), OutOfRange> {
        if !(self.beta > 0.0 && self.beta.is_finite()) {
            return Err(bad("beta", self.beta, "a positive number"));
        }
        self.fit().check()
    }

    /// The settings that it shares with a reward model's training.
    pub fn fit(&self) -> RewardModelConfig {
        RewardModelConfig {
            learning_rate: self.learning_rate,
            warmup: self.warmup,
            schedule: self.schedule,
            epochs: self.epochs,
            steps: self.steps,
            batch: self.batch,
            margin_cap: self.margin_cap,
            micro_batch_tokens: self.micro_batch_tokens,
            max_grad_norm: self.max_grad_norm,
            weight_decay: self.weight_decay,
            betas: self.betas,
            eps: self.eps,
            most_skipped: self.most_skipped,
            seed: self.seed,
            lora: self.lora.clone(),
            full: self.full,
            activation_checkpointing: self.activation_checkpointing,
            workers: self.workers,
        }
    }
}
