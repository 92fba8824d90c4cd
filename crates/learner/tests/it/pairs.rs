//! Reward models and direct performance alignment on pairs small enough to learn by heart.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_config::{DpaConfig, RewardModelConfig, Schedule};
use flopsmith_learner::{Error, Evidence, PairMetrics, PairTraining, TokenPair};
use flopsmith_policy::{Config, Device, Kind, LoraConfig, Model, Scalar};

use crate::tiny;

/// Fast answers have the token 7 in their middle, slow ones the token 8; lengths differ.
fn pairs(count: u32) -> Vec<TokenPair> {
    (0..count)
        .map(|i| {
            let answer = |mark: u32, more: u32| -> Vec<u32> {
                let filler = (0..3 + (i + more) % 4).map(|n| 10 + (i * 7 + n * 5) % 20);
                filler
                    .clone()
                    .chain([mark])
                    .chain(filler)
                    .chain([38])
                    .collect()
            };
            TokenPair {
                prompt: vec![39, 30 + i % 6],
                fast: answer(7, i % 3),
                slow: answer(8, i % 2),
                evidence: match i % 3 {
                    0 => Evidence::Written,
                    1 => Evidence::Wrong,
                    _ => Evidence::Timed {
                        fast_s: 1e-3,
                        slow_s: 1.4e-3,
                    },
                },
            }
        })
        .collect()
}

fn reward_config() -> RewardModelConfig {
    RewardModelConfig {
        learning_rate: 5e-3,
        epochs: 8,
        batch: 10,
        workers: Some(2),
        seed: 5,
        ..RewardModelConfig::default()
    }
}

fn dpa_config() -> DpaConfig {
    DpaConfig {
        learning_rate: 2e-3,
        epochs: 6,
        batch: 10,
        workers: Some(2),
        seed: 5,
        ..DpaConfig::default()
    }
}

fn reward_model(config: &RewardModelConfig) -> PairTraining {
    let all = pairs(60);
    PairTraining::reward_model(tiny::model(Kind::Float), &all[..50], &all[50..], config).unwrap()
}

fn alignment(config: &DpaConfig) -> PairTraining {
    alignment_in(Kind::Float, config)
}

fn alignment_in(kind: Kind, config: &DpaConfig) -> PairTraining {
    let all = pairs(60);
    PairTraining::alignment(tiny::model(kind), &all[..50], &all[50..], config).unwrap()
}

/// Trains to the end; returns the accuracy before and after.
fn train(training: &mut PairTraining) -> (PairMetrics, PairMetrics) {
    let before = training.judge().unwrap().unwrap();
    while let Some(progress) = training.step().unwrap() {
        assert_eq!(progress.skipped, 0);
    }
    (before, training.judge().unwrap().unwrap())
}

#[test]
fn a_reward_model_tells_pairs_apart_that_it_has_never_seen() {
    let mut training = reward_model(&reward_config());
    let (before, after) = train(&mut training);
    assert_eq!(training.steps_done(), 40);
    assert_eq!((before.pairs, after.pairs), (10, 10));
    assert!(before.accuracy < 1.0 || before.gap < 0.5, "{before:?}");
    assert!(
        after.accuracy == 1.0 && after.loss < 0.3 * before.loss,
        "{before:?} {after:?}"
    );
    assert_eq!(training.model.config().scalar, Scalar::Score);
}

#[test]
fn alignment_makes_the_fast_answers_likelier_than_the_slow_ones() {
    let mut training = alignment(&dpa_config());
    let (before, after) = train(&mut training);
    // The policy is its own reference: no ratio differs from 1, and the loss is that of the margins.
    assert_eq!((before.accuracy, before.gap), (0.0, 0.0));
    let all = pairs(60);
    let held_out = all[50..].iter().map(|p| p.evidence.margin(3.0));
    let wanted = held_out.map(|margin| margin.exp().ln_1p()).sum::<f64>() / 10.0;
    assert!((before.loss - wanted).abs() < 1e-6, "{before:?} {wanted}");
    assert!(
        after.accuracy == 1.0 && after.loss < 0.3 * before.loss,
        "{before:?} {after:?}"
    );
}

#[test]
fn the_first_update_goes_along_the_gradient_of_the_whole_mean() {
    // AdamW's first moment after one update is a tenth of the gradient; the loss's finite difference along a few
    // weights must be equal to that.
    let all = pairs(6);
    let config = DpaConfig {
        learning_rate: 0.0,
        batch: 6,
        max_grad_norm: 0.0,
        workers: Some(1),
        ..DpaConfig::default()
    };
    let make = || PairTraining::alignment(tiny::model(Kind::Double), &all, &all, &config).unwrap();
    let mut training = make();
    training.step().unwrap().unwrap();
    let files = training.state().unwrap();
    let moments = tiny::first_moments(&files);
    let names = [
        "model.embed_tokens.weight",
        "model.layers.1.mlp.down_proj.weight",
    ];
    for name in names {
        let slope = &moments.iter().find(|(n, _)| n == name).unwrap().1 * 10.0;
        for at in [37i64, 290] {
            let slope = slope.view([-1]).double_value(&[at]);
            let moved = |by: f64| {
                let mut training = make();
                // Read before the first update.
                training.judge().unwrap();
                let leaves = training.model.base().leaves();
                let (_, weight) = leaves.iter().find(|(n, _)| n == name).unwrap();
                let _guard = tch::no_grad_guard();
                let mut place = weight.view([-1]).narrow(0, at, 1);
                let _same = place.f_add_scalar_(by).unwrap();
                training.judge().unwrap().unwrap().loss
            };
            let wanted = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!(
                (slope - wanted).abs() < 1e-7 + 1e-5 * wanted.abs(),
                "{name} {at}: {slope} {wanted}"
            );
        }
    }
}

#[test]
fn a_restored_training_goes_on_bit_by_bit() {
    let lora = Some(LoraConfig {
        rank: 4,
        dropout: 0.1,
        ..LoraConfig::default()
    });
    let makers: [&dyn Fn() -> PairTraining; 4] = [
        &|| reward_model(&reward_config()),
        &|| alignment(&dpa_config()),
        &|| alignment_in(Kind::BFloat16, &dpa_config()),
        &|| {
            alignment(&DpaConfig {
                lora: lora.clone(),
                ..dpa_config()
            })
        },
    ];
    for make in makers {
        let mut whole = make();
        let mut first = make();
        for _ in 0..7 {
            whole.step().unwrap();
            first.step().unwrap();
        }
        let files = first.state().unwrap();
        drop(first);
        let mut second = make();
        second.restore(&files).unwrap();
        assert_eq!(second.steps_done(), 7);
        for _ in 0..6 {
            assert_eq!(whole.step().unwrap(), second.step().unwrap());
        }
        let state = |of: &PairTraining| tiny::comparable(&of.model, of.state().unwrap());
        assert!(state(&whole) == state(&second));
        assert_eq!(whole.judge().unwrap(), second.judge().unwrap());
    }
}

#[test]
fn a_training_on_other_pairs_or_with_another_seed_is_not_gone_on_with() {
    let files = reward_model(&reward_config()).state().unwrap();
    let refused = |mut training: PairTraining| {
        let error = training.restore(&files).unwrap_err();
        assert!(
            matches!(
                error,
                Error::State {
                    file: "trainer.json",
                    ..
                }
            ),
            "{error}"
        );
        error.to_string()
    };
    let other = RewardModelConfig {
        seed: 6,
        ..reward_config()
    };
    assert!(refused(reward_model(&other)).contains("another `seed`"));
    let training =
        PairTraining::reward_model(tiny::model(Kind::Float), &pairs(50), &[], &reward_config());
    let words = {
        let mut all = pairs(50);
        all[3].evidence = Evidence::Wrong;
        drop(training);
        let training =
            PairTraining::reward_model(tiny::model(Kind::Float), &all, &[], &reward_config());
        refused(training.unwrap())
    };
    assert!(words.contains("other pairs"), "{words}");
}

#[test]
fn updates_without_finite_numbers_are_skipped_and_too_many_are_an_error() {
    let config = RewardModelConfig {
        most_skipped: 2,
        ..reward_config()
    };
    let mut training = reward_model(&config);
    training.step().unwrap().unwrap();
    let healthy = training.state().unwrap();
    // One NaN weight of the last norm makes all scores NaN.
    let spoil = |model: &Model| {
        let _guard = tch::no_grad_guard();
        let leaves = model.base().leaves();
        let (_, norm) = leaves
            .iter()
            .find(|(n, _)| n == "model.norm.weight")
            .unwrap();
        let _same = norm.narrow(0, 0, 1).f_fill_(f64::NAN).unwrap();
    };
    spoil(&training.model);
    let skipped = training.step().unwrap().unwrap();
    assert_eq!(
        (skipped.batch, skipped.grad_norm, skipped.skipped),
        (None, None, 1)
    );
    training.step().unwrap().unwrap();
    let error = training.step().unwrap_err();
    assert!(
        matches!(error, Error::TooManySkipped { in_a_row: 3, .. }),
        "{error}"
    );
    let kept = training.take_skipped();
    let updates: Vec<u64> = kept.iter().map(|u| u.update).collect();
    assert_eq!(updates, [1, 2, 3]);
    assert!(
        kept.iter().all(|u| u.picked.len() == config.batch),
        "{kept:?}"
    );
    // Only the spoilt weight has changed, so the state before is complete.
    let mut again = reward_model(&config);
    again.restore(&healthy).unwrap();
    assert_eq!(again.step().unwrap().unwrap().skipped, 0);
}

#[test]
fn unusable_pairs_are_named() {
    let good = pairs(3);
    let with = |change: &dyn Fn(&mut TokenPair)| {
        let mut all = good.clone();
        change(&mut all[1]);
        PairTraining::reward_model(tiny::model(Kind::Float), &all, &[], &reward_config())
            .err()
            .unwrap()
            .to_string()
    };
    assert!(with(&|p| p.slow.clear()).contains("pair 1 has an empty"));
    assert!(with(&|p| p.fast = vec![40]).contains("pair 1 has token 40"));
    assert!(with(&|p| p.fast = vec![1; 63]).contains("pair 1 has 65 tokens"));
    let turned = Evidence::Timed {
        fast_s: 2.0,
        slow_s: 1.0,
    };
    assert!(with(&|p| p.evidence = turned).contains("pair 1 has times"));
    let none = PairTraining::reward_model(tiny::model(Kind::Float), &[], &[], &reward_config());
    assert!(matches!(none.err(), Some(Error::Input(_))));
    for (field, config) in [
        (
            "beta",
            DpaConfig {
                beta: 0.0,
                ..dpa_config()
            },
        ),
        (
            "batch",
            DpaConfig {
                batch: 0,
                ..dpa_config()
            },
        ),
        (
            "margin_cap",
            DpaConfig {
                margin_cap: f64::NAN,
                ..dpa_config()
            },
        ),
    ] {
        let refused = PairTraining::alignment(tiny::model(Kind::Float), &good, &[], &config);
        assert!(matches!(refused.err(), Some(Error::Setting(e)) if e.field == field));
    }
    let reward_model = tiny::model(Kind::Float)
        .with_scalar(Scalar::Score, 1)
        .unwrap();
    let refused = PairTraining::alignment(reward_model, &good, &[], &dpa_config());
    assert!(matches!(refused.err(), Some(Error::Input(_))));
}

#[test]
fn a_reward_model_is_saved_and_opened_with_the_same_rewards() {
    let mut training = reward_model(&RewardModelConfig {
        steps: Some(3),
        schedule: Schedule::Cosine,
        warmup: 1,
        ..reward_config()
    });
    let (_, after) = train(&mut training);
    let place = std::env::temp_dir().join(format!("flopsmith-reward-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    training.model.save(&place).unwrap();
    let opened = Model::load(&place, Device::Cpu, Kind::Float);
    std::fs::remove_dir_all(&place).unwrap();
    let opened = opened.unwrap();
    assert_eq!(opened.config().scalar, Scalar::Score);
    let all = pairs(60);
    let mut again =
        PairTraining::reward_model(opened, &all[..50], &all[50..], &reward_config()).unwrap();
    let judged = again.judge().unwrap().unwrap();
    assert!(
        (judged.loss - after.loss).abs() < 1e-9,
        "{judged:?} {after:?}"
    );
}

#[test]
fn llama_models_are_rewarded_as_well() {
    let json = r#"{"model_type": "llama", "vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-6}"#;
    let config = Config::parse(json).unwrap();
    let model = Model::random(config, 3, Device::Cpu, Kind::Float).unwrap();
    let all = pairs(60);
    let mut training =
        PairTraining::reward_model(model, &all[..50], &all[50..], &reward_config()).unwrap();
    let (_, after) = train(&mut training);
    assert_eq!(after.accuracy, 1.0, "{after:?}");
}
