//! A model small enough to differentiate in a moment, for several test files.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_config::GrpoConfig;
use flopsmith_learner::GrpoSample;
use flopsmith_policy::{Config, Device, Kind, Model};
use tch::Tensor;

pub const VOCABULARY: u32 = 40;

pub fn model(kind: Kind) -> Model {
    let mut config = Config::new(i64::from(VOCABULARY), 32, 48, 2, 4, 2);
    config.max_position_embeddings = 64;
    // Large enough that different tokens have clearly different probabilities.
    config.initializer_range = 0.2;
    Model::random(config, 3, Device::Cpu, kind).unwrap()
}

/// Samples of different lengths with the model's own log-probabilities plus `noise`.
pub fn samples(model: &Model, count: usize, noise: f32, temperature: f32) -> Vec<GrpoSample> {
    (0..count)
        .map(|row| {
            let id = |i: usize| (row * 31 + i * 17 + i * i * row) as u32 % VOCABULARY;
            let prompt: Vec<u32> = (0..3 + row % 3).map(id).collect();
            let tokens: Vec<u32> = (10..14 + row * 5 % 17).map(id).collect();
            let old_logprobs = logprobs(model, &prompt, &tokens, temperature)
                .iter()
                .enumerate()
                .map(|(t, lp)| lp + noise * ((t * 7 + row * 3) as f32).sin())
                .collect();
            GrpoSample {
                prompt,
                tokens,
                old_logprobs,
                advantage: ((row * 5 + 2) as f32).sin() * 1.5,
                temperature,
            }
        })
        .collect()
}

/// Log-probabilities of `tokens` after `prompt`, from the scores of the whole vocabulary.
pub fn logprobs(model: &Model, prompt: &[u32], tokens: &[u32], temperature: f32) -> Vec<f32> {
    let all: Vec<u32> = prompt.iter().chain(tokens).copied().collect();
    let scores = model.logits_all(&all).unwrap();
    tokens
        .iter()
        .enumerate()
        .map(|(t, id)| {
            let cooled: Vec<f64> = scores[prompt.len() + t - 1]
                .iter()
                .map(|x| f64::from(*x) / f64::from(temperature))
                .collect();
            let sum = cooled.iter().map(|x| x.exp()).sum::<f64>();
            (cooled[*id as usize] - sum.ln()) as f32
        })
        .collect()
}

pub fn weights(model: &Model) -> Vec<f64> {
    Vec::try_from(&model.base().flat().to_kind(Kind::Double)).unwrap()
}

/// The state from which a training would continue, in a comparable form: an adapter's file has its settings in any
/// order.
pub fn comparable(
    model: &Model,
    files: Vec<(String, Vec<u8>)>,
) -> (Vec<f64>, Vec<(String, Vec<u8>)>) {
    let trained = Vec::try_from(&model.trained().flat().to_kind(Kind::Double)).unwrap();
    let weights = ["model.safetensors", "adapter.safetensors"];
    let others = files
        .into_iter()
        .filter(|(name, _)| !weights.contains(&name.as_str()));
    (trained, others.collect())
}

/// Settings whose first moment after one update is a tenth of the gradient.
pub fn plain() -> GrpoConfig {
    GrpoConfig {
        learning_rate: 1e-3,
        max_grad_norm: 0.0,
        ..GrpoConfig::default()
    }
}

/// Name → first moments, from a saved state.
pub fn first_moments(files: &[(String, Vec<u8>)]) -> Vec<(String, Tensor)> {
    let (_, bytes) = files
        .iter()
        .find(|(n, _)| n == "optimizer.safetensors")
        .unwrap();
    let file = safetensors::SafeTensors::deserialize(bytes).unwrap();
    file.tensors()
        .into_iter()
        .filter_map(|(name, view)| {
            let name = name.strip_prefix("exp_avg.")?.to_owned();
            let shape: Vec<i64> = view.shape().iter().map(|n| *n as i64).collect();
            let kind = match view.dtype() {
                safetensors::Dtype::F64 => Kind::Double,
                _ => Kind::Float,
            };
            Some((name, Tensor::from_data_size(view.data(), &shape, kind)))
        })
        .collect()
}
