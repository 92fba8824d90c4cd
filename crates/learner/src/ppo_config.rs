//! Settings of PPO.

use flopsmith_policy::LoraConfig;
use serde::{Deserialize, Serialize};

use crate::adamw::Constants;
use crate::config::{Schedule, adapter, at_least, bad, optimizer, positive};
use crate::error::Result;
use crate::kl_control::KlControl;

/// Settings of [`crate::Ppo`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PpoConfig {
    /// Step size of AdamW after the warm-up. Default 1.41e-5 (Nichols et al., for billions of weights); a model of a
    /// few million needs 1e-4 or more.
    pub learning_rate: f64,
    /// Updates over which the step size grows linearly from 0. Default 0.
    pub warmup: u64,
    /// Schedule after the warm-up, by the share of steps that is done ([`crate::Ppo::set_progress`]). Default
    /// `constant`.
    pub schedule: Schedule,
    /// Passes over the answers of a step. Default 4.
    pub epochs: u32,
    /// Answers of one update. Default 4.
    pub batch: usize,
    /// Weight of the divergence from the reference in the reward.
    pub kl: KlControl,
    /// γ of [`crate::gae`]. Default 1.
    pub discount: f64,
    /// λ of [`crate::gae`]. Default 0.95.
    pub lambda: f64,
    /// If true, the advantages of a step are shifted and scaled to mean 0 and variance 1. Default true.
    pub whiten: bool,
    /// Distance of the ratio's clip bounds from 1. Default 0.2.
    pub clip: f64,
    /// Largest change of a value in a step; beyond it the value is not trained further. Default 0.2.
    pub value_clip: f64,
    /// Weight of the value loss. Default 0.1.
    pub value_weight: f64,
    /// Positions (rows × longest row) that one worker holds activations for at once. Default 2048.
    pub micro_batch_tokens: usize,
    /// Scale gradients longer than this down to it; 0 for no limit. Default 1.
    pub max_grad_norm: f64,
    /// Decay of matrices, relative to the step size. Default 0.
    pub weight_decay: f64,
    /// Decay rates of the two moments. Default 0.9 and 0.999.
    pub betas: [f64; 2],
    /// Added to the root of the second moment. Default 1e-8.
    pub eps: f64,
    /// Largest number of updates in a row that may be skipped because their loss or gradient is not finite. Default 3.
    pub most_skipped: u32,
    /// Train an adapter, as in [`crate::GrpoConfig::lora`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraConfig>,
    /// Use less memory for more work, as in [`crate::GrpoConfig::activation_checkpointing`]. Default false.
    pub activation_checkpointing: bool,
    /// Number of threads, as in [`crate::GrpoConfig::workers`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
}

impl Default for PpoConfig {
    fn default() -> Self {
        Self {
            learning_rate: 1.41e-5,
            warmup: 0,
            schedule: Schedule::Constant,
            epochs: 4,
            batch: 4,
            kl: KlControl::default(),
            discount: 1.0,
            lambda: 0.95,
            whiten: true,
            clip: 0.2,
            value_clip: 0.2,
            value_weight: 0.1,
            micro_batch_tokens: 2048,
            max_grad_norm: 1.0,
            weight_decay: 0.0,
            betas: [0.9, 0.999],
            eps: 1e-8,
            most_skipped: 3,
            lora: None,
            activation_checkpointing: false,
            workers: None,
        }
    }
}

impl PpoConfig {
    /// Checks the ranges of the settings.
    pub fn check(&self) -> Result<()> {
        at_least("learning_rate", self.learning_rate, 0.0)?;
        at_least("max_grad_norm", self.max_grad_norm, 0.0)?;
        at_least("weight_decay", self.weight_decay, 0.0)?;
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
        adapter(self.lora.as_ref())?;
        optimizer(self.betas, self.eps)?;
        positive("epochs", u64::from(self.epochs))?;
        positive("batch", self.batch as u64)?;
        positive("micro_batch_tokens", self.micro_batch_tokens as u64)?;
        if let Some(n) = self.workers {
            positive("workers", n as u64)?;
        }
        Ok(())
    }

    pub(crate) fn constants(&self) -> Constants {
        Constants {
            betas: self.betas,
            eps: self.eps,
            weight_decay: self.weight_decay,
        }
    }
}
