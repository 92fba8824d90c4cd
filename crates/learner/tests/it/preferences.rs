//! Losses of pairs and of PPO against the values of TRL and torch (tools/parity/make_preferences.py).
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use flopsmith_config::KlControl;
use flopsmith_learner::gae::{Horizon, advantages, token_rewards, whiten};
use flopsmith_learner::pairwise::{Evidence, Judged, Likelihoods, alignment, rewards};
use flopsmith_learner::ppo_loss::{Answer, Sums, Terms, differentiate};
use serde::Deserialize;

/// The cap of margins that the script clamps with.
const CAP: f64 = 3.0;

#[derive(Deserialize)]
struct Fixtures {
    reward_model: Vec<Rewards>,
    alignment: Vec<Alignment>,
    ppo: Vec<Ppo>,
    adaptive: Adaptive,
}

/// The repository's fixtures, or those that `make parity` has written.
fn fixtures() -> Fixtures {
    let folder = match std::env::var_os("FLOPSMITH_PARITY") {
        Some(root) => Path::new(&root).join("losses"),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"),
    };
    let text = std::fs::read_to_string(folder.join("preferences.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn near(ours: f64, theirs: f64) {
    let off = (ours - theirs).abs();
    assert!(off <= 1e-9 + 1e-5 * theirs.abs(), "{ours} and {theirs}");
}

fn all_near(ours: &[f64], theirs: &[f64]) {
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        near(*ours, *theirs);
    }
}

/// The margin of pair `i`: from its ratio of times, if it has one.
fn margin(ratios: Option<&Vec<f64>>, i: usize) -> f64 {
    match ratios {
        Some(ratios) => Evidence::Timed {
            fast_s: 2e-3,
            slow_s: 2e-3 * ratios[i],
        }
        .margin(CAP),
        None => Evidence::Written.margin(CAP),
    }
}

/// Mean loss and accuracy of pairs.
fn means(judged: &[Judged]) -> (f64, f64) {
    let n = judged.len() as f64;
    let right = judged.iter().filter(|j| j.right).count() as f64;
    (judged.iter().map(|j| j.loss).sum::<f64>() / n, right / n)
}

#[derive(Deserialize)]
struct Rewards {
    ratios: Option<Vec<f64>>,
    rewards: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
    accuracy: f64,
}

#[test]
fn reward_models_have_the_loss_of_trl() {
    let cases = fixtures().reward_model;
    assert_eq!(cases.len(), 3);
    for case in cases {
        let pairs = case.rewards.len() / 2;
        let (fast, slow) = case.rewards.split_at(pairs);
        let judged: Vec<Judged> = (0..pairs)
            .map(|i| rewards(fast[i], slow[i], margin(case.ratios.as_ref(), i)))
            .collect();
        let (loss, accuracy) = means(&judged);
        near(loss, case.value);
        near(accuracy, case.accuracy);
        let slopes = judged
            .iter()
            .map(|j| j.by_fast)
            .chain(judged.iter().map(|j| j.by_slow));
        let slopes: Vec<f64> = slopes.map(|s| s / pairs as f64).collect();
        all_near(&slopes, &case.gradient);
    }
}

#[derive(Deserialize)]
struct Alignment {
    ratios: Option<Vec<f64>>,
    beta: f64,
    logprobs: Vec<Vec<f64>>,
    reference: Vec<Vec<f64>>,
    value: f64,
    gradient: Vec<Vec<f64>>,
    accuracy: f64,
}

#[test]
fn alignment_has_the_loss_of_trl() {
    let cases = fixtures().alignment;
    assert_eq!(cases.len(), 3);
    for case in cases {
        let pairs = case.logprobs.len() / 2;
        let sum = |rows: &[Vec<f64>], i: usize| rows[i].iter().sum::<f64>();
        let judged: Vec<Judged> = (0..pairs)
            .map(|i| {
                let of = Likelihoods {
                    fast: sum(&case.logprobs, i),
                    slow: sum(&case.logprobs, pairs + i),
                    fast_reference: sum(&case.reference, i),
                    slow_reference: sum(&case.reference, pairs + i),
                };
                alignment(&of, case.beta, margin(case.ratios.as_ref(), i))
            })
            .collect();
        let (loss, accuracy) = means(&judged);
        near(loss, case.value);
        near(accuracy, case.accuracy);
        for (i, judged) in judged.iter().enumerate() {
            // Each token's log-probability changes the answer's by the same amount.
            for (row, slope) in [(i, judged.by_fast), (pairs + i, judged.by_slow)] {
                let ours = vec![slope / pairs as f64; case.logprobs[row].len()];
                all_near(&ours, &case.gradient[row]);
            }
        }
    }
}

#[derive(Deserialize)]
struct Ppo {
    discount: f64,
    lam: f64,
    weight: f64,
    clip: f64,
    value_clip: f64,
    value_weight: f64,
    old: Vec<Vec<f32>>,
    reference: Vec<Vec<f32>>,
    old_values: Vec<Vec<f64>>,
    scores: Vec<f64>,
    rewards: Vec<Vec<f64>>,
    returns: Vec<Vec<f64>>,
    whitened: Vec<Vec<f64>>,
    now: Vec<Vec<f64>>,
    values: Vec<Vec<f64>>,
    policy: f64,
    value: f64,
    by_logprob: Vec<Vec<f64>>,
    by_value: Vec<Vec<f64>>,
}

#[test]
fn ppo_has_the_gradient_of_torch_all_the_way_from_the_samples() {
    let cases = fixtures().ppo;
    assert_eq!(cases.len(), 3);
    let (mut clipped, mut values_clipped) = (0, 0);
    for case in cases {
        let horizon = Horizon {
            discount: case.discount,
            lambda: case.lam,
        };
        let answers = case.old.len();
        let mut own = Vec::new();
        let mut returns = Vec::new();
        for i in 0..answers {
            let rewards = token_rewards(
                &case.old[i],
                &case.reference[i],
                case.weight,
                case.scores[i],
            );
            all_near(&rewards, &case.rewards[i]);
            let found = advantages(&rewards, &case.old_values[i], horizon);
            returns.push(
                found
                    .iter()
                    .zip(&case.old_values[i])
                    .map(|(a, v)| a + v)
                    .collect::<Vec<f64>>(),
            );
            all_near(&returns[i], &case.returns[i]);
            own.push(found);
        }
        whiten(&mut own);
        let tokens: usize = own.iter().map(Vec::len).sum();
        let terms = Terms {
            clip: case.clip,
            value_clip: case.value_clip,
            value_weight: case.value_weight,
        };
        let mut sums = Sums::default();
        for i in 0..answers {
            all_near(&own[i], &case.whitened[i]);
            let answer = Answer {
                logprobs: &case.now[i],
                values: &case.values[i],
                old_logprobs: &case.old[i],
                old_values: &case.old_values[i],
                advantages: &own[i],
                returns: &returns[i],
                weight: 1.0 / tokens as f64,
            };
            let n = case.now[i].len();
            let (mut by_logprob, mut by_value) = (vec![0.0; n], vec![0.0; n]);
            sums.add(&differentiate(
                &terms,
                &answer,
                &mut by_logprob,
                &mut by_value,
            ));
            all_near(&by_logprob, &case.by_logprob[i]);
            all_near(&by_value, &case.by_value[i]);
        }
        near(sums.policy, case.policy);
        near(sums.value, case.value);
        clipped += sums.clipped;
        values_clipped += sums.values_clipped;
    }
    // The cases have tokens on both sides of both bounds.
    assert!(clipped > 0 && values_clipped > 0);
}

#[derive(Deserialize)]
struct Adaptive {
    start: f64,
    target: f64,
    horizon: f64,
    batches: Vec<Batch>,
}

#[derive(Deserialize)]
struct Batch {
    divergence: f64,
    answers: usize,
    weight: f64,
}

#[test]
fn the_adaptive_weight_goes_the_way_of_the_formula() {
    let wanted = fixtures().adaptive;
    let control = KlControl::Adaptive {
        start: wanted.start,
        target: wanted.target,
        horizon: wanted.horizon,
    };
    let mut weight = control.start();
    assert_eq!(wanted.batches.len(), 30);
    for batch in wanted.batches {
        weight = control.next(weight, batch.divergence, batch.answers);
        near(weight, batch.weight);
    }
}
