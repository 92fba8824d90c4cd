//! Settings of supervised fine-tuning.

use serde::{Deserialize, Serialize};

use crate::range::{OutOfRange, at_least, bad, positive};
use crate::rates::{Schedule, rate};
use crate::training::{Training as _, settings};

/// Tokens that supervised fine-tuning trains on.
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
    /// Settings of supervised fine-tuning.
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
        /// Share of the first pass in which examples become longer: it begins with short ones alone, and all lengths are
        /// as frequent as in the whole from there on. Default 0.
        pub short_first: f64 = 0.0,
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
    pub fn check(&self) -> Result<(), OutOfRange> {
        self.shared().check()?;
        at_least("learning_rate", self.learning_rate, 0.0)?;
        positive("epochs", u64::from(self.epochs))?;
        positive("batch_tokens", self.batch_tokens as u64)?;
        if !(0.0..=1.0).contains(&self.short_first) {
            return Err(bad("short_first", self.short_first, "between 0 and 1"));
        }
        Ok(())
    }

    /// Step size of update `step` (from 0) of `steps`.
    pub fn rate(&self, step: u64, steps: u64) -> f64 {
        rate(self.learning_rate, self.warmup, self.schedule, step, steps)
    }
}
