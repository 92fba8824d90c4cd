//! Settings of PPO.

use schemars::JsonSchema;

use crate::kl_control::KlControl;
use crate::range::{OutOfRange, at_least, bad, positive};
use crate::rates::Schedule;
use crate::training::{Training as _, settings};

settings! {
    /// Settings of PPO.
    #[derive(JsonSchema)]
    pub struct PpoConfig {
        /// Step size of AdamW after the warm-up. Default 1.41e-5 (Nichols et al., for billions of weights). A step of
        /// N answers makes `epochs` × N / `batch` updates, so larger batches permit larger step sizes.
        pub learning_rate: f64 = 1.41e-5,
        /// Updates over which the step size grows linearly from 0. Default 0.
        pub warmup: u64 = 0,
        /// Schedule after the warm-up, by the share of steps that is done (`Ppo::set_progress` of the learner). Default
        /// `constant`.
        pub schedule: Schedule = Schedule::Constant,
        /// Passes over the answers of a step. Default 4.
        pub epochs: u32 = 4,
        /// Answers of one update. Default 4.
        pub batch: usize = 4,
        /// Weight of the divergence from the reference in the reward.
        pub kl: KlControl = KlControl::default(),
        /// γ of the generalized advantage estimate. Default 1.
        pub discount: f64 = 1.0,
        /// λ of the generalized advantage estimate. Default 0.95.
        pub lambda: f64 = 0.95,
        /// If true, the advantages of a step are shifted and scaled to mean 0 and variance 1. Default true.
        pub whiten: bool = true,
        /// Distance of the ratio's clip bounds from 1. Default 0.2.
        pub clip: f64 = 0.2,
        /// Largest change of a value in a step; beyond it the value is not trained further. Default 0.2.
        pub value_clip: f64 = 0.2,
        /// Weight of the value loss. Default 0.1.
        pub value_weight: f64 = 0.1,
        /// Largest number of updates in a row that may be skipped because their loss or gradient is not finite. Default 3.
        pub most_skipped: u32 = 3,
    }
}

impl PpoConfig {
    /// Checks the ranges of the settings.
    pub fn check(&self) -> Result<(), OutOfRange> {
        self.shared().check()?;
        at_least("learning_rate", self.learning_rate, 0.0)?;
        at_least("value_weight", self.value_weight, 0.0)?;
        for (field, value) in [
            ("discount", self.discount),
            ("lambda", self.lambda),
            ("clip", self.clip),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(bad(field, value, "between 0 and 1"));
            }
        }
        let positive_number = |field, value: f64| {
            if value > 0.0 && value.is_finite() {
                Ok(())
            } else {
                Err(bad(field, value, "a positive number"))
            }
        };
        positive_number("value_clip", self.value_clip)?;
        match self.kl {
            KlControl::Fixed { weight } => at_least("kl.weight", weight, 0.0)?,
            KlControl::Adaptive {
                start,
                target,
                horizon,
            } => {
                positive_number("kl.start", start)?;
                positive_number("kl.target", target)?;
                positive_number("kl.horizon", horizon)?;
            }
        }
        positive("epochs", u64::from(self.epochs))?;
        positive("batch", self.batch as u64)?;
        Ok(())
    }
}
