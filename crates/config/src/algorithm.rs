//! The algorithms of runs.

use crate::dtype::Dtype;
use crate::grpo::GrpoConfig;
use crate::lora::LoraConfig;
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

impl<'a> Algorithm<'a> {
    /// Its name in titles.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Grpo(_) => "GRPO",
            Algorithm::Ppo(_) => "PPO",
        }
    }

    /// The shape of the adapter that it trains, if it trains one.
    pub fn lora(self) -> Option<&'a LoraConfig> {
        match self {
            Algorithm::Grpo(learner) => learner.lora.as_ref(),
            Algorithm::Ppo(ppo) => ppo.lora.as_ref(),
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

    /// The settings of training on a GPU, or without one: number format and adapter are as usual there, unless the
    /// settings name them. A model that has an adapter goes on with it. Sharpening changes a weight that an adapter does
    /// not have, so it trains all weights.
    #[must_use]
    pub fn trained_on(&self, gpu: bool, has_adapter: bool) -> Self {
        let mut settings = self.clone();
        settings.learner.dtype.get_or_insert(Dtype::usual(gpu));
        let adapts = gpu && !has_adapter;
        match settings.ppo.take() {
            Some(ppo) => settings.ppo = Some(ppo.on(adapts)),
            None if settings.learner.sharpen > 1.0 => {}
            None => settings.learner = settings.learner.on(adapts),
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_has_defaults_of_its_own_and_named_settings_stay() {
        let settings = Settings::default();
        let cpu = settings.trained_on(false, false);
        assert_eq!(cpu.learner.dtype, Some(Dtype::Float32));
        assert_eq!(cpu.learner.lora, None);
        let gpu = settings.trained_on(true, false);
        assert_eq!(gpu.learner.dtype, Some(Dtype::Bfloat16));
        assert_eq!(gpu.learner.lora, Some(LoraConfig::default()));
        assert!(gpu.learner.check().is_ok());
        let of = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.trained_on(true, false)
        };
        let adapted = settings.trained_on(true, true);
        assert_eq!(adapted.learner.lora, None, "its own shape may be another");
        assert_eq!(adapted.learner.dtype, Some(Dtype::Bfloat16));
        let wide = of(|settings| settings.learner.dtype = Some(Dtype::Float32));
        assert_eq!(wide.learner.dtype, Some(Dtype::Float32));
        assert_eq!(
            of(|settings| settings.learner.full = true).learner.lora,
            None
        );
        let sharp = of(|settings| settings.learner.sharpen = 1.25);
        assert_eq!(sharp.learner.lora, None);
        assert!(sharp.learner.check().is_ok());
        let ppo = of(|settings| settings.ppo = Some(PpoConfig::default()));
        assert_eq!(ppo.learner.lora, None, "PPO has an adapter of its own");
        assert_eq!(ppo.ppo.expect("kept").lora, Some(LoraConfig::default()));
    }
}
