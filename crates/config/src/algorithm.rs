//! The algorithms of runs.

use crate::grpo::GrpoConfig;
use crate::ppo::PpoConfig;
use crate::settings::Settings;

/// The algorithm by which a run trains its policy, with the settings of the algorithm.
#[derive(Debug, Clone, Copy)]
pub enum Algorithm<'a> {
    /// A policy gradient with advantages relative to a group, by one of its losses.
    Grpo(&'a GrpoConfig),
    /// PPO with a value head.
    Ppo(&'a PpoConfig),
}

impl Algorithm<'_> {
    /// Its name in titles.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Grpo(_) => "GRPO",
            Algorithm::Ppo(_) => "PPO",
        }
    }
}

impl Settings {
    /// The algorithm that the settings choose.
    pub fn algorithm(&self) -> Algorithm<'_> {
        match &self.ppo {
            Some(ppo) => Algorithm::Ppo(ppo),
            None => Algorithm::Grpo(&self.learner),
        }
    }
}
