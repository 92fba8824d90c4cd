//! Losses, gradients and updates against the values of TRL and torch (tools/parity/make_losses.py).
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use flopsmith_config::{Correction, Loss};
use flopsmith_learner::AdamW;
use flopsmith_learner::adamw::Constants;
use flopsmith_learner::loss::{Sequence, Terms, differentiate, token_weights};
use flopsmith_policy::{Device, Kind, Model, Plan, Slopes, Tensor};
use flopsmith_reward::advantage::{AdvantageKind, Scale, group_advantages};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A folder of fixtures: the repository's, or one that `make parity` has written.
fn folder(anew: &str, committed: &str) -> PathBuf {
    match std::env::var_os("FLOPSMITH_PARITY") {
        Some(root) => Path::new(&root).join(anew),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join(committed),
    }
}

fn read<T: DeserializeOwned>(name: &str) -> T {
    let path = folder("losses", "tests/fixtures").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[derive(Deserialize)]
struct Case {
    loss: Loss,
    clip_low: f64,
    clip_high: f64,
    kl_beta: f64,
    ratio_limit: Option<f64>,
    correction: Correction,
    cap: f64,
    drawn: Vec<Vec<f32>>,
    longest: usize,
    step_tokens: usize,
    now: Vec<Vec<f64>>,
    old: Vec<Vec<f32>>,
    reference: Vec<Vec<f32>>,
    advantages: Vec<f64>,
    value: f64,
    gradient: Vec<Vec<f64>>,
}

#[test]
fn losses_and_their_gradients_are_those_of_trl() {
    let cases: Vec<Case> = read("losses.json");
    assert_eq!(cases.len(), 20);
    for case in cases {
        let terms = Terms {
            loss: case.loss,
            clip_low: case.clip_low,
            clip_high: case.clip_high,
            kl_beta: case.kl_beta,
            ratio_limit: case.ratio_limit,
        };
        let lengths: Vec<usize> = case.now.iter().map(Vec::len).collect();
        let weights = token_weights(case.loss, &lengths, case.step_tokens, case.longest);
        let mut value = 0.0;
        for (row, weight) in weights.into_iter().enumerate() {
            let (now, drawn) = (&case.old[row], &case.drawn[row]);
            let factors =
                flopsmith_learner::correction::weights(case.correction, case.cap, now, drawn);
            let sequence = Sequence {
                logprobs: &case.now[row],
                old: &case.old[row],
                reference: (case.kl_beta > 0.0).then(|| &case.reference[row][..]),
                advantage: case.advantages[row],
                weight,
                factors: Some(&factors),
            };
            let mut slopes = vec![0.0; lengths[row]];
            value += differentiate(&terms, &sequence, &mut slopes).loss;
            for (ours, theirs) in slopes.iter().zip(&case.gradient[row]) {
                let off = (ours - theirs).abs();
                assert!(
                    off <= 1e-9 + 1e-5 * theirs.abs(),
                    "{terms:?}: {ours} and {theirs}"
                );
            }
        }
        let off = (value - case.value).abs();
        assert!(
            off <= 1e-5 * case.value.abs(),
            "{terms:?}: {value} and {}",
            case.value
        );
    }
}

#[derive(Deserialize)]
struct Advantages {
    rewards: Vec<Vec<f64>>,
    mean_std: HashMap<Scale, Vec<Vec<f64>>>,
    leave_one_out: HashMap<Scale, Vec<Vec<f64>>>,
}

#[test]
fn advantages_are_those_that_torch_computes() {
    let wanted: Advantages = read("advantages.json");
    let groups: Vec<(Vec<Option<f64>>, [f64; 0])> = wanted
        .rewards
        .iter()
        .map(|group| (group.iter().copied().map(Some).collect(), []))
        .collect();
    let kinds = [
        (AdvantageKind::MeanStd, wanted.mean_std),
        (AdvantageKind::LeaveOneOut, wanted.leave_one_out),
    ];
    for (kind, by_scale) in kinds {
        assert_eq!(by_scale.len(), 3);
        for (scale, theirs) in by_scale {
            let ours = group_advantages(&groups, scale, kind);
            for (ours, theirs) in ours.iter().flatten().zip(theirs.iter().flatten()) {
                let off = (ours.unwrap() - theirs).abs();
                assert!(off < 1e-9, "{kind:?} {scale:?}: {ours:?} and {theirs}");
            }
        }
    }
}

#[derive(Deserialize)]
struct Updates {
    model: String,
    ids: Vec<Vec<i64>>,
    rate: f64,
    betas: [f64; 2],
    eps: f64,
    weight_decay: f64,
    longest: f64,
    losses: Vec<f64>,
    norms: Vec<f64>,
}

#[test]
fn twenty_updates_are_those_of_torch() {
    let wanted: Updates = read("updates.json");
    let models = folder("models", "../policy/tests/fixtures");
    let mut model = Model::load(&models.join(&wanted.model), Device::Cpu, Kind::Float).unwrap();
    model.set_trainable(true);
    let constants = Constants {
        betas: wanted.betas,
        eps: wanted.eps,
        weight_decay: wanted.weight_decay,
    };
    let mut optimizer = AdamW::new(&model, constants).unwrap();
    let length = wanted.ids[0].len();
    let ids = Tensor::from_slice(&wanted.ids.concat()).view([-1, length as i64]);
    let ranges = vec![1..length; wanted.ids.len()];
    assert_eq!(wanted.losses.len(), 20);
    for (step, (loss, norm)) in wanted.losses.iter().zip(&wanted.norms).enumerate() {
        let pass = model.pass(&ids, &ranges, &[1.0], Plan::LOGPROBS).unwrap();
        let logprobs = &pass.scores().logprobs;
        let count = logprobs.len() as f64;
        let ours = -logprobs.iter().sum::<f64>() / count;
        let slopes = Slopes {
            logprobs: vec![-1.0 / count; logprobs.len()],
            ..Slopes::default()
        };
        let gradient = model.trained().flat().zeros_like();
        let mut views = model.trained().views_of(&gradient).unwrap();
        pass.back(&slopes, &mut views).unwrap();
        let (found, scale) = AdamW::clip(&gradient, wanted.longest).unwrap();
        optimizer
            .step(&model, &gradient, wanted.rate, scale)
            .unwrap();
        // Each following update amplifies rounding differences.
        assert!(
            (ours - loss).abs() < 1e-5 * loss * (step + 1) as f64,
            "step {step}: {ours} and {loss}"
        );
        assert!(
            (found - norm).abs() < 1e-4 * norm * (step + 1) as f64,
            "step {step}: {found} and {norm}"
        );
    }
}
