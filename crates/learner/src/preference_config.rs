//! Settings of training on pairs: reward models and direct performance alignment.

use flopsmith_policy::LoraConfig;
use serde::{Deserialize, Serialize};

use crate::adamw::Constants;
use crate::config::{Schedule, adapter, at_least, optimizer, positive, rate};
use crate::error::Result;

/// Settings of a reward model's training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RewardModelConfig {
    /// Largest step size. Default 1.41e-5 (Nichols et al., for billions of weights); a model of a few million needs
    /// 1e-4 or more.
    pub learning_rate: f64,
    /// Updates over which the step size grows linearly from 0. Default 0.
    pub warmup: u64,
    /// Schedule after the warm-up. Default `constant`.
    pub schedule: Schedule,
    /// Passes over the pairs. Default 1. Not used if `steps` is given.
    pub epochs: u32,
    /// Number of updates, with as many passes over the pairs as needed. Default: as many as `epochs` gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Pairs of one update. Default 64.
    pub batch: usize,
    /// λ: largest margin of a pair. Default 3.
    pub margin_cap: f64,
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
    /// Seed of the pairs' order, of a fresh head and of a fresh adapter. Default 0.
    pub seed: u64,
    /// Train an adapter, as in [`crate::GrpoConfig::lora`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraConfig>,
    /// Use less memory for more work, as in [`crate::GrpoConfig::activation_checkpointing`]. Default false.
    pub activation_checkpointing: bool,
    /// Number of threads, as in [`crate::GrpoConfig::workers`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
}

impl Default for RewardModelConfig {
    fn default() -> Self {
        Self {
            learning_rate: 1.41e-5,
            warmup: 0,
            schedule: Schedule::Constant,
            epochs: 1,
            steps: None,
            batch: 64,
            margin_cap: 3.0,
            micro_batch_tokens: 2048,
            max_grad_norm: 1.0,
            weight_decay: 0.0,
            betas: [0.9, 0.999],
            eps: 1e-8,
            most_skipped: 3,
            seed: 0,
            lora: None,
            activation_checkpointing: false,
            workers: None,
        }
    }
}

/// Settings of direct performance alignment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DpaConfig {
    /// β: weight of a log-ratio to the reference. Default 0.6.
    pub beta: f64,
    /// Largest step size. Default 1e-7 (Nichols et al., for billions of weights); a model of a few million needs 1e-5
    /// or more.
    pub learning_rate: f64,
    /// As in [`RewardModelConfig::warmup`].
    pub warmup: u64,
    /// As in [`RewardModelConfig::schedule`].
    pub schedule: Schedule,
    /// As in [`RewardModelConfig::epochs`].
    pub epochs: u32,
    /// As in [`RewardModelConfig::steps`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Pairs of one update. Default 4.
    pub batch: usize,
    /// As in [`RewardModelConfig::margin_cap`].
    pub margin_cap: f64,
    /// As in [`RewardModelConfig::micro_batch_tokens`].
    pub micro_batch_tokens: usize,
    /// As in [`RewardModelConfig::max_grad_norm`].
    pub max_grad_norm: f64,
    /// As in [`RewardModelConfig::weight_decay`].
    pub weight_decay: f64,
    /// As in [`RewardModelConfig::betas`].
    pub betas: [f64; 2],
    /// As in [`RewardModelConfig::eps`].
    pub eps: f64,
    /// As in [`RewardModelConfig::most_skipped`].
    pub most_skipped: u32,
    /// Seed of the pairs' order and of a fresh adapter. Default 0.
    pub seed: u64,
    /// As in [`RewardModelConfig::lora`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraConfig>,
    /// As in [`RewardModelConfig::activation_checkpointing`].
    pub activation_checkpointing: bool,
    /// As in [`RewardModelConfig::workers`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
}

impl Default for DpaConfig {
    fn default() -> Self {
        let RewardModelConfig {
            warmup,
            schedule,
            epochs,
            steps,
            margin_cap,
            micro_batch_tokens,
            max_grad_norm,
            weight_decay,
            betas,
            eps,
            most_skipped,
            seed,
            lora,
            activation_checkpointing,
            workers,
            ..
        } = RewardModelConfig::default();
        Self {
            beta: 0.6,
            learning_rate: 1e-7,
            warmup,
            schedule,
            epochs,
            steps,
            batch: 4,
            margin_cap,
            micro_batch_tokens,
            max_grad_norm,
            weight_decay,
            betas,
            eps,
            most_skipped,
            seed,
            lora,
            activation_checkpointing,
            workers,
        }
    }
}

impl RewardModelConfig {
    /// Checks the ranges of the settings.
    pub fn check(&self) -> Result<()> {
        at_least("learning_rate", self.learning_rate, 0.0)?;
        at_least("margin_cap", self.margin_cap, 0.0)?;
        at_least("max_grad_norm", self.max_grad_norm, 0.0)?;
        at_least("weight_decay", self.weight_decay, 0.0)?;
        adapter(self.lora.as_ref())?;
        optimizer(self.betas, self.eps)?;
        positive("epochs", u64::from(self.epochs))?;
        if let Some(steps) = self.steps {
            positive("steps", steps)?;
        }
        positive("batch", self.batch as u64)?;
        positive("micro_batch_tokens", self.micro_batch_tokens as u64)?;
        if let Some(n) = self.workers {
            positive("workers", n as u64)?;
        }
        Ok(())
    }

    /// Step size of update `step` (from 0) of `steps`.
    pub fn rate(&self, step: u64, steps: u64) -> f64 {
        rate(self.learning_rate, self.warmup, self.schedule, step, steps)
    }

    pub(crate) fn constants(&self) -> Constants {
        Constants {
            betas: self.betas,
            eps: self.eps,
            weight_decay: self.weight_decay,
        }
    }
}

impl DpaConfig {
    /// Checks the ranges of the settings.
    pub fn check(&self) -> Result<()> {
        if !(self.beta > 0.0 && self.beta.is_finite()) {
            return Err(crate::config::bad("beta", self.beta, "a positive number"));
        }
        self.fit().check()
    }

    /// The settings that it shares with a reward model's training.
    pub(crate) fn fit(&self) -> RewardModelConfig {
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
            activation_checkpointing: self.activation_checkpointing,
            workers: self.workers,
        }
    }
}
