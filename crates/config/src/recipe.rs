//! Recipes: the files that `sft`, `reward-model`, `dpa` and `rlpf` train by. Relative paths are looked up beside the
//! recipe first.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::dtype::Dtype;
use crate::pairs::{DpaConfig, RewardModelConfig};
use crate::ppo::PpoConfig;
use crate::read::{Usage, usage};
use crate::settings::Settings;
use crate::sft::SftConfig;

/// Supervised fine-tuning on a file of examples.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Examples {
    /// Folder of the model to begin with.
    pub model: PathBuf,
    /// File of examples.
    pub examples: PathBuf,
    /// File of examples that the training evaluates and never trains on.
    #[serde(default)]
    pub validation: Option<PathBuf>,
    /// If true, prompts are messages to a chat model.
    #[serde(default)]
    pub chat: bool,
    /// Number format of the weights during training; that of the device if there is none.
    #[serde(default)]
    pub dtype: Option<Dtype>,
    /// Device of the training.
    #[serde(default, skip_serializing_if = "Device::is_auto")]
    pub device: Device,
    /// Updates between two checkpoints; 0 writes one only when interrupted. Default 100.
    #[serde(default = "hundred")]
    pub checkpoint_every: u64,
    /// The training.
    #[serde(default)]
    pub sft: SftConfig,
}

/// A reward model or direct performance alignment by a file of pairs of a fast and a slow program.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pairs {
    /// Folder of the model to begin with.
    pub model: PathBuf,
    /// File of pairs.
    pub pairs: PathBuf,
    /// File of pairs that the training evaluates and never trains on.
    #[serde(default)]
    pub validation: Option<PathBuf>,
    /// If true, prompts are messages to a chat model.
    #[serde(default)]
    pub chat: bool,
    /// Number format of the weights during training; that of the device if there is none.
    #[serde(default)]
    pub dtype: Option<Dtype>,
    /// Device of the training.
    #[serde(default, skip_serializing_if = "Device::is_auto")]
    pub device: Device,
    /// Updates between two checkpoints; 0 writes one only when interrupted. Default 100.
    #[serde(default = "hundred")]
    pub checkpoint_every: u64,
    /// The training of a reward model.
    #[serde(default)]
    pub reward_model: Option<RewardModelConfig>,
    /// The training of an aligned policy.
    #[serde(default)]
    pub dpa: Option<DpaConfig>,
}

/// Returns of the turns of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Returns {
    /// Each turn has its own score and a share of the scores after it.
    #[default]
    Discounted,
    /// All turns have the same return: a share of the first turn's score, and the rest of the best turn's.
    FirstAndBest,
}

/// PPO by performance feedback on a file of exercises.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rlpf {
    /// Folder of the policy to begin with.
    pub model: PathBuf,
    /// File of exercises.
    pub exercises: PathBuf,
    /// File of exercises that the policy answers before and after the training, and is never trained on. A file without a
    /// line is as good as none.
    #[serde(default)]
    pub validation: Option<PathBuf>,
    /// Folder of the reward model for exercises without tests.
    #[serde(default)]
    pub reward_model: Option<PathBuf>,
    /// If true, prompts are messages to a chat model.
    #[serde(default)]
    pub chat: bool,
    /// Number format of the weights during training; that of the device if there is none.
    #[serde(default)]
    pub dtype: Option<Dtype>,
    /// Device of the training.
    #[serde(default, skip_serializing_if = "Device::is_auto")]
    pub device: Device,
    /// Seed of exercises, samples and updates. Default 0.
    #[serde(default)]
    pub seed: u64,
    /// Steps.
    pub steps: u64,
    /// Exercises of a step. Default 4.
    #[serde(default = "four")]
    pub prompts: usize,
    /// Answers to each exercise. Default 4.
    #[serde(default = "four")]
    pub samples: usize,
    /// Largest number of answers in a conversation: the result of each answer but the last is told to the policy, which
    /// answers again. Default 1.
    #[serde(default = "single")]
    pub turns: usize,
    /// Share of a turn's score that is added to the turn before it.
    #[serde(default = "usual_discount")]
    pub discount: f64,
    /// Returns of the turns of a conversation.
    #[serde(default)]
    pub returns: Returns,
    /// Weight of the first turn with `returns = "first_and_best"`.
    #[serde(default = "usual_first")]
    pub first: f64,
    /// Softmax temperature. Default 1.
    #[serde(default = "one")]
    pub temperature: f32,
    /// Longest answer, tokens. Default 320.
    #[serde(default = "longest")]
    pub max_tokens: u32,
    /// End the training after this many steps in a row in which programs were judged and none was correct, and report
    /// the most frequent reasons of refusal. A policy that writes no correct program learns nothing from further steps.
    /// 0 never ends it. Default 20, as for a run.
    #[serde(default = "usual_fruitless_steps_limit")]
    pub fruitless_steps_limit: u32,
    /// Steps between two checkpoints; 0 writes one only when interrupted. Default 10.
    #[serde(default = "ten")]
    pub checkpoint_every: u64,
    /// The training.
    #[serde(default)]
    pub ppo: PpoConfig,
}

impl Rlpf {
    /// Checks the ranges of the settings that are not the training's own.
    pub fn check(&self) -> Result<(), Usage> {
        for (name, value) in [
            ("steps", self.steps),
            ("prompts", self.prompts as u64),
            ("samples", self.samples as u64),
            ("turns", self.turns as u64),
            ("max_tokens", u64::from(self.max_tokens)),
        ] {
            if value == 0 {
                return Err(usage(format!("`{name}` is 0; it must be 1 or more")));
            }
        }
        for (name, share) in [("discount", self.discount), ("first", self.first)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(usage(format!(
                    "`{name}` is {share}; it must be between 0 and 1"
                )));
            }
        }
        if !(self.temperature >= 1e-3 && self.temperature.is_finite()) {
            return Err(usage(format!(
                "`temperature` is {}; it must be 0.001 or more, so that there is something to learn from",
                self.temperature
            )));
        }
        Ok(())
    }
}

pub(crate) fn four() -> usize {
    4
}

pub(crate) fn single() -> usize {
    1
}

pub(crate) fn usual_first() -> f64 {
    flopsmith_reward::turns::FIRST
}

pub(crate) fn usual_discount() -> f64 {
    flopsmith_reward::turns::DISCOUNT
}

pub(crate) fn usual_fruitless_steps_limit() -> u32 {
    Settings::default().fruitless_steps_limit
}

pub(crate) fn one() -> f32 {
    1.0
}

pub(crate) fn longest() -> u32 {
    320
}

pub(crate) fn ten() -> u64 {
    10
}

fn hundred() -> u64 {
    100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reinforcement_gives_up_as_a_run_does() {
        let limit = |more: &str| {
            let text = format!("model = \"m\"\nexercises = \"e\"\nsteps = 1\n{more}");
            let recipe: Rlpf = crate::read(&text, "r.toml").expect("a recipe");
            recipe.fruitless_steps_limit
        };
        assert_eq!(limit(""), Settings::default().fruitless_steps_limit);
        assert_eq!(limit("fruitless_steps_limit = 0\n"), 0);
    }
}
