//! The training in progress, by the algorithm that the settings name.

use std::path::Path;
use std::time::{Duration, Instant};

use flopsmith_config::{Algorithm, GrpoConfig, Settings};
use flopsmith_learner::{GrpoSample, Learner, Ppo, PpoSample, StepReport};
use flopsmith_policy::{Adapter, Model};
use flopsmith_protocol::PpoMetrics;

use crate::advantages::Advantaged;
use crate::supervisor::words;

/// While a model is being read, progress is logged this often.
const TELLING: Duration = Duration::from_secs(2);

/// A policy in training.
pub(super) enum Stage {
    /// By a policy gradient with advantages relative to a group.
    Grpo(Box<Learner>),
    /// With a value head.
    Ppo(Box<Ppo>),
}

/// The result of a step.
#[derive(Default)]
pub(super) struct Done {
    pub report: StepReport,
    pub ppo: Option<PpoMetrics>,
    /// Why updates were skipped, if any were: their loss or gradient was not finite. The weights are as the updates
    /// before left them.
    pub skipped: Option<String>,
}

/// Why a stage could not be created.
pub(super) struct Unfit {
    pub words: String,
    pub is_out_of_memory: bool,
    /// True if the settings ask for something impossible.
    pub is_of_settings: bool,
}

impl From<flopsmith_policy::Error> for Unfit {
    fn from(error: flopsmith_policy::Error) -> Self {
        Self {
            words: words(&error),
            is_out_of_memory: error.is_out_of_memory(),
            is_of_settings: matches!(error, flopsmith_policy::Error::Device { .. }),
        }
    }
}

impl From<flopsmith_learner::Error> for Unfit {
    fn from(error: flopsmith_learner::Error) -> Self {
        Self {
            words: words(&error),
            is_out_of_memory: error.is_out_of_memory(),
            is_of_settings: matches!(error, flopsmith_learner::Error::Setting { .. }),
        }
    }
}

impl Stage {
    /// The training of the model in `folder` on at most `cores` cores, in the state that `files` hold; a fresh training
    /// if there are none. The device that the settings name decides the defaults.
    pub fn begin(
        folder: &Path,
        settings: &Settings,
        cores: usize,
        files: &[(String, Vec<u8>)],
    ) -> Result<Self, Unfit> {
        let wanted = settings.learner.device.or_gpu(settings.require_gpu);
        let device = flopsmith_policy::device::usable(wanted)?;
        let settings = &settings.trained_on(device.is_cuda(), Adapter::is_in(folder));
        let kind = flopsmith_policy::dtype::kind(settings.learner.dtype, folder, device)?;
        let mut told = Instant::now();
        let model = Model::load_telling(folder, device, kind, |reading| {
            if told.elapsed() > TELLING {
                told = Instant::now();
                let (read, of) = (reading.bytes >> 20, reading.of >> 20);
                tracing::info!("the learner reads its model: {read} of {of} MiB");
            }
        })?;
        let cores = settings.learner.cores.unwrap_or(cores);
        let mut stage = match settings.algorithm() {
            Algorithm::Ppo(ppo) => {
                let ppo = Ppo::new(model, ppo.clone(), Some(cores), settings.seed)?;
                Stage::Ppo(Box::new(ppo))
            }
            Algorithm::Grpo(_) => {
                let config = GrpoConfig {
                    cores: Some(cores),
                    ..grpo(settings)
                };
                Stage::Grpo(Box::new(Learner::new(model, config, settings.seed)?))
            }
        };
        if !files.is_empty() {
            match &mut stage {
                Stage::Grpo(learner) => learner.restore(files)?,
                Stage::Ppo(ppo) => ppo.restore(files)?,
            }
        }
        Ok(stage)
    }

    /// Trains on these samples, which were drawn at `temperature`, when the share `progress` of the budget is spent.
    pub fn step(
        &mut self,
        samples: &[Advantaged],
        temperature: f32,
        progress: f64,
    ) -> flopsmith_learner::Result<Done> {
        if samples.is_empty() {
            return Ok(Done::default());
        }
        match self {
            Stage::Grpo(learner) => {
                let samples: Vec<GrpoSample> = samples
                    .iter()
                    .map(|sample| GrpoSample {
                        prompt: sample.rollout.prompt_tokens.clone(),
                        tokens: sample.rollout.tokens.clone(),
                        old_logprobs: sample.rollout.logprobs.clone(),
                        advantage: sample.advantage as f32,
                        temperature,
                    })
                    .collect();
                learner.set_progress(progress);
                match learner.step(&samples) {
                    // The same samples would give the same gradient for ever, so the run goes on without this update.
                    Err(error @ flopsmith_learner::Error::NotFinite { .. }) => Ok(Done {
                        skipped: Some(words(&error)),
                        ..Done::default()
                    }),
                    done => Ok(Done {
                        report: done?,
                        ..Done::default()
                    }),
                }
            }
            Stage::Ppo(ppo) => {
                let samples: Vec<PpoSample> = samples
                    .iter()
                    .map(|sample| PpoSample {
                        prompt: sample.rollout.prompt_tokens.clone(),
                        tokens: sample.rollout.tokens.clone(),
                        old_logprobs: sample.rollout.logprobs.clone(),
                        score: sample.advantage,
                        temperature,
                    })
                    .collect();
                ppo.set_progress(progress);
                by_ppo(ppo, &samples)
            }
        }
    }

    /// The whole state, as files.
    pub fn state(&self) -> flopsmith_learner::Result<Vec<(String, Vec<u8>)>> {
        match self {
            Stage::Grpo(learner) => learner.state(),
            Stage::Ppo(ppo) => ppo.state(),
        }
    }

    /// The trained weights that a sampler needs.
    pub fn policy(&self) -> flopsmith_policy::Result<Vec<u8>> {
        match self {
            Stage::Grpo(learner) => learner.model.trained_bytes(),
            Stage::Ppo(ppo) => ppo.model.policy_bytes(),
        }
    }

    /// Positions that one worker holds activations for at once.
    pub fn micro_batch_tokens(&self) -> usize {
        match self {
            Stage::Grpo(learner) => learner.config().micro_batch_tokens,
            Stage::Ppo(ppo) => ppo.config().micro_batch_tokens,
        }
    }
}

fn by_ppo(ppo: &mut Ppo, samples: &[PpoSample]) -> flopsmith_learner::Result<Done> {
    let report = match ppo.step(samples) {
        // The run has a limit of its own for steps without an update.
        Err(flopsmith_learner::Error::TooManySkipped { .. }) => Default::default(),
        report => report?,
    };
    let skipped = ppo.take_skipped();
    Ok(Done {
        skipped: skipped.last().map(|update| update.error.clone()),
        ppo: (report.updates > 0).then_some(PpoMetrics {
            divergence: report.kl,
            divergence_weight: report.kl_weight,
            value_loss: report.value_loss,
            explained: report.explained,
        }),
        report: StepReport {
            loss: report.policy_loss + report.value_loss,
            kl: report.approx_kl,
            entropy: report.entropy,
            clip_share: report.clip_share,
            grad_norm: report.grad_norm,
            learning_rate: report.learning_rate,
            tokens: report.tokens,
            updates: report.updates,
            seconds: report.seconds,
            ..StepReport::default()
        },
    })
}

/// The learner's settings. No completion is longer than the generator's limit.
fn grpo(settings: &Settings) -> GrpoConfig {
    let mut config = settings.learner.clone();
    config
        .max_completion_tokens
        .get_or_insert(settings.generator.max_tokens as usize);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_completion_possible_is_no_matter_of_the_step() {
        let mut settings = Settings::default();
        settings.generator.max_tokens = 123;
        let of = |settings: &Settings| grpo(settings).max_completion_tokens;
        assert_eq!(of(&settings), Some(123));
        settings.learner.max_completion_tokens = Some(77);
        assert_eq!(of(&settings), Some(77));
    }
}
