//! The learner as a whole, on a tiny model.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::ops::Range;

use flopsmith_config::{Correction, Fall, GrpoConfig, Loss};
use flopsmith_learner::{Error, GrpoSample, Learner};
use flopsmith_policy::{Kind, Model};
use tch::Tensor;

use crate::tiny;

fn learner(kind: Kind, config: GrpoConfig) -> Learner {
    Learner::new(tiny::model(kind), config, 5).unwrap()
}

/// Log-probabilities of the tokens at `wanted` and entropies before them, as one graph of libtorch's.
fn graph(model: &Model, ids: &Tensor, wanted: &Range<usize>, temperature: f32) -> (Tensor, Tensor) {
    let (from, count) = (wanted.start as i64, wanted.len() as i64);
    // Tied: the embedding scores the vocabulary.
    let (_, head) = &model.base().leaves()[0];
    let hidden = model.hidden(ids).unwrap().squeeze_dim(0);
    let all = (hidden.narrow(0, from - 1, count).matmul(&head.tr()) / f64::from(temperature))
        .log_softmax(-1, None);
    let targets = ids.squeeze_dim(0).narrow(0, from, count).unsqueeze(1);
    let entropy = -(all.exp() * &all).sum_dim_intlist([-1i64].as_slice(), false, None);
    (all.gather(1, &targets, false).squeeze_dim(1), entropy)
}

/// The loss of all samples by libtorch's own operations and autograd, row by row: gradients by name, and the loss.
fn autograd(
    model: &Model,
    reference: &Model,
    samples: &[GrpoSample],
    config: &GrpoConfig,
) -> (f64, Vec<(String, Tensor)>) {
    let mut model = model.replica().unwrap();
    model.set_trainable(true);
    let (low, high) = config.clip();
    let tokens: usize = samples.iter().map(|s| s.tokens.len()).sum();
    let longest = samples.iter().map(|s| s.tokens.len()).max().unwrap();
    let mut total = Tensor::from(0.0);
    for s in samples {
        let ids: Vec<i64> = s
            .prompt
            .iter()
            .chain(&s.tokens)
            .map(|id| i64::from(*id))
            .collect();
        let ids = Tensor::from_slice(&ids).unsqueeze(0);
        let wanted = s.prompt.len()..s.prompt.len() + s.tokens.len();
        let (now, entropy) = graph(&model, &ids, &wanted, s.temperature);
        // The learner keeps the reference's values in single precision.
        let reference = graph(reference, &ids, &wanted, s.temperature)
            .0
            .detach()
            .to_kind(Kind::Float)
            .to_kind(Kind::Double);
        let old = match s.old_logprobs.as_slice() {
            // Imitated: the ratio is always 1.
            [] => now.detach().to_kind(Kind::Float),
            drawn => Tensor::from_slice(drawn),
        };
        let old = old.to_kind(Kind::Double);
        let a = f64::from(s.advantage);
        let log_ratio = &now - &old;
        let term = match config.loss {
            Loss::Cispo => log_ratio.exp().clamp_max(high).detach() * -a * &now,
            loss => {
                let ratio = if loss == Loss::Gspo {
                    log_ratio.mean(None).exp() + log_ratio.zeros_like()
                } else {
                    log_ratio.exp()
                };
                -(&ratio * a).minimum(&(ratio.clamp(1.0 - low, 1.0 + high) * a))
            }
        };
        let gap = reference - &now;
        let term =
            term + config.kl_beta * (gap.exp() - &gap - 1.0) - config.entropy_bonus * entropy;
        let divisor = match config.loss {
            Loss::Grpo | Loss::Gspo => samples.len() * s.tokens.len(),
            Loss::DrGrpo => samples.len() * config.max_completion_tokens.unwrap_or(longest),
            _ => tokens,
        };
        total += term.sum(Kind::Double) / divisor as f64;
    }
    total.backward();
    let gradients = model
        .base()
        .leaves()
        .iter()
        .map(|(name, p)| (name.clone(), p.grad()))
        .collect();
    (total.double_value(&[]), gradients)
}

#[test]
fn gradients_are_those_of_autograd_however_the_batch_is_split() {
    for loss in [
        Loss::Grpo,
        Loss::Bnpo,
        Loss::DrGrpo,
        Loss::Dapo,
        Loss::Gspo,
        Loss::Cispo,
    ] {
        for (workers, micro, entropy_bonus, temperature) in
            [(1, 4096, 0.0, 1.0), (2, 60, 0.02, 0.7), (3, 1, 0.0, 1.3)]
        {
            let config = GrpoConfig {
                loss,
                kl_beta: 0.05,
                entropy_bonus,
                workers: Some(workers),
                micro_batch_tokens: micro,
                max_completion_tokens: Some(50),
                ..tiny::plain()
            };
            let mut learner = learner(Kind::Double, config.clone());
            let reference = learner.model.frozen_copy().unwrap();
            // Away from the reference, so that its term has a slope.
            {
                let _guard = tch::no_grad_guard();
                let mut flat = learner.model.base().flat().shallow_clone();
                let _same = flat.f_mul_scalar_(1.05).unwrap();
            }
            let mut samples = tiny::samples(&learner.model, 7, 0.3, temperature);
            // Copies are computed once and count each, independent of their advantages.
            for factor in [1.0, 0.5, -1.0, 0.0] {
                let advantage = samples[1].advantage * factor;
                samples.push(GrpoSample {
                    advantage,
                    ..samples[1].clone()
                });
            }
            samples.push(GrpoSample {
                old_logprobs: Vec::new(),
                advantage: 1.5,
                ..samples[2].clone()
            });
            let (wanted_loss, wanted) = autograd(&learner.model, &reference, &samples, &config);
            let report = learner.step(&samples).unwrap();
            assert!(
                (report.loss - wanted_loss).abs() < 1e-9 * (1.0 + wanted_loss.abs()),
                "{loss:?}: {} and {wanted_loss}",
                report.loss
            );
            let found = tiny::first_moments(&learner.state().unwrap());
            assert_eq!(found.len(), wanted.len());
            for (name, moment) in found {
                let (_, gradient) = wanted.iter().find(|(n, _)| *n == name).unwrap();
                let gap = (moment * 10.0 - gradient).abs().max().double_value(&[]);
                let size = gradient.abs().max().double_value(&[]);
                assert!(
                    gap <= 1e-9 * (1e-3 + size),
                    "{loss:?} {name}: {gap} beside {size}"
                );
            }
            assert!(report.reference_kl > 0.0 && report.entropy > 0.0);
        }
    }
}

#[test]
fn sampler_and_trainer_agree_at_any_temperature() {
    for temperature in [0.5, 1.0, 1.5] {
        let mut learner = learner(Kind::Float, tiny::plain());
        let samples = tiny::samples(&learner.model, 6, 0.0, temperature);
        let report = learner.step(&samples).unwrap();
        assert!(report.sampler_gap < 1e-5, "{}", report.sampler_gap);
        assert!(
            (report.ratio_mean - 1.0).abs() < 1e-5 && report.kl < 1e-8 && report.clip_share == 0.0
        );
        assert_eq!(
            report.tokens,
            samples.iter().map(|s| s.tokens.len() as u64).sum::<u64>()
        );
    }
}

#[test]
fn rewarded_tokens_become_likelier_and_punished_ones_less_likely() {
    for loss in [
        Loss::Grpo,
        Loss::DrGrpo,
        Loss::Dapo,
        Loss::Gspo,
        Loss::Cispo,
    ] {
        let mut learner = learner(
            Kind::Float,
            GrpoConfig {
                loss,
                ..tiny::plain()
            },
        );
        let mut samples = tiny::samples(&learner.model, 4, 0.0, 1.0);
        for (i, s) in samples.iter_mut().enumerate() {
            s.advantage = if i % 2 == 0 { 1.0 } else { -1.0 };
        }
        let total = |model: &Model, s: &GrpoSample| {
            tiny::logprobs(model, &s.prompt, &s.tokens, 1.0)
                .iter()
                .sum::<f32>()
        };
        let before: Vec<f32> = samples.iter().map(|s| total(&learner.model, s)).collect();
        learner.step(&samples).unwrap();
        for (s, before) in samples.iter().zip(before) {
            let change = total(&learner.model, s) - before;
            assert!(
                change * s.advantage > 0.01,
                "{loss:?}: {change} for {}",
                s.advantage
            );
        }
    }
}

#[test]
fn towards_the_end_of_the_budget_the_logits_grow_by_the_factor_that_was_asked_for() {
    for kind in [Kind::Float, Kind::BFloat16] {
        let config = GrpoConfig {
            learning_rate: 0.0,
            sharpen: 1.25,
            ..tiny::plain()
        };
        let untouched = tiny::model(kind);
        let samples = tiny::samples(&untouched, 3, 0.0, 1.0);
        let mut learner = learner(kind, config);
        let assert_like = |learner: &Learner, temperature: f32| {
            for s in &samples {
                let now = tiny::logprobs(&learner.model, &s.prompt, &s.tokens, 1.0);
                let then = tiny::logprobs(&untouched, &s.prompt, &s.tokens, temperature);
                let limit = if kind == Kind::Float { 1e-4 } else { 0.1 };
                for (a, b) in now.iter().zip(&then) {
                    assert!((a - b).abs() < limit, "{kind:?} {temperature}: {a} and {b}");
                }
            }
        };
        learner.set_progress(0.5);
        learner.step(&samples).unwrap();
        assert_like(&learner, 1.0);
        // In many small parts, each of which half precision would round to nothing.
        for part in 0..=60 {
            learner.set_progress(0.65 + 0.3 * f64::from(part) / 60.0);
            learner.step(&samples).unwrap();
        }
        assert_like(&learner, 1.0 / 1.25);
    }
}

#[test]
fn the_step_size_falls_with_the_budget_as_it_was_asked_for() {
    for (schedule, expected) in [
        (Fall::Linear, [1.0, 0.775, 0.55, 0.1]),
        (Fall::Cosine, [1.0, 0.868_198, 0.55, 0.1]),
    ] {
        for (progress, expected) in [0.0, 0.25, 0.5, 1.0].into_iter().zip(expected) {
            assert!((schedule.factor(progress, 0.1) - expected).abs() < 1e-6);
            let config = GrpoConfig {
                learning_rate: 1e-3,
                final_rate: 0.1,
                schedule,
                ..GrpoConfig::default()
            };
            let mut learner = learner(Kind::Double, config);
            learner.set_progress(progress);
            let samples = tiny::samples(&learner.model, 4, 0.0, 1.0);
            let report = learner.step(&samples).unwrap();
            let off = report.learning_rate - 1e-3 * expected;
            assert!(off.abs() < 1e-9, "{schedule:?} at {progress}: {report:?}");
        }
    }
}

#[test]
fn files_that_do_not_fit_are_refused() {
    let mut small = learner(Kind::Float, tiny::plain());
    let files = small.state().unwrap();
    let without = |name: &str| -> Vec<(String, Vec<u8>)> {
        files.iter().filter(|(n, _)| n != name).cloned().collect()
    };
    for (name, _) in &files {
        assert!(
            matches!(small.restore(&without(name)), Err(Error::State { file, .. }) if file == name)
        );
    }
    let mut double = learner(Kind::Double, tiny::plain());
    assert!(matches!(
        double.restore(&files),
        Err(Error::State {
            file: "optimizer.safetensors",
            ..
        })
    ));
    let mut needs_reference = learner(
        Kind::Float,
        GrpoConfig {
            kl_beta: 0.1,
            ..tiny::plain()
        },
    );
    assert!(matches!(
        needs_reference.restore(&files),
        Err(Error::State {
            file: "reference.safetensors",
            ..
        })
    ));
    let mut torn = files.clone();
    for (name, bytes) in &mut torn {
        if name == "optimizer.safetensors" {
            bytes.truncate(bytes.len() / 2);
        }
    }
    assert!(matches!(
        small.restore(&torn),
        Err(Error::Safetensors { .. })
    ));
}

#[test]
fn a_loss_that_is_no_number_is_an_error_and_changes_nothing() {
    let mut learner = learner(Kind::Float, tiny::plain());
    let mut samples = tiny::samples(&learner.model, 4, 0.0, 1.0);
    let before = tiny::weights(&learner.model);
    // exp(−old) overflows, and the loss does not clip the ratio of a token with a negative advantage from above.
    samples[1].old_logprobs[0] = -2000.0;
    samples[1].advantage = -1.0;
    assert!(matches!(
        learner.step(&samples),
        Err(Error::NotFinite {
            what: "the loss",
            update: 0
        })
    ));
    assert_eq!(before, tiny::weights(&learner.model));
    // The next good step continues unchanged.
    samples[1].old_logprobs[0] = -1.0;
    learner.step(&samples).unwrap();
    assert!(tiny::weights(&learner.model).iter().all(|w| w.is_finite()));
}

#[test]
fn samples_that_contradict_themselves_or_the_model_are_refused() {
    let mut learner = learner(Kind::Float, tiny::plain());
    let good = tiny::samples(&learner.model, 1, 0.0, 1.0).remove(0);
    let before = tiny::weights(&learner.model);
    let breaks: [fn(&mut GrpoSample); 6] = [
        |s| s.prompt.clear(),
        |s| {
            s.tokens.clear();
            s.old_logprobs.clear();
        },
        |s| s.old_logprobs.truncate(1),
        |s| s.temperature = 0.0,
        |s| s.tokens[0] = tiny::VOCABULARY,
        |s| s.prompt = vec![1; 64],
    ];
    for (i, break_it) in breaks.iter().enumerate() {
        let mut bad = good.clone();
        break_it(&mut bad);
        let error = learner.step(&[good.clone(), bad]).unwrap_err();
        assert!(
            matches!(&error, Error::Input(text) if text.contains("sample 1")),
            "{i}: {error}"
        );
    }
    // A NaN value is no contradiction: the step is skipped like one with a NaN loss.
    let numbers: [fn(&mut GrpoSample); 2] = [
        |s| s.advantage = f32::NAN,
        |s| s.old_logprobs[0] = f32::NEG_INFINITY,
    ];
    for break_it in numbers {
        let mut bad = good.clone();
        break_it(&mut bad);
        let error = learner.step(&[good.clone(), bad]).unwrap_err();
        assert!(matches!(error, Error::NotFinite { .. }), "{error}");
    }
    assert_eq!(before, tiny::weights(&learner.model));
    assert_eq!(learner.step(&[]).unwrap().updates, 0);
}

#[test]
fn settings_come_from_tables_and_are_checked() {
    let config: GrpoConfig = serde_json::from_str(
        r#"{"learning_rate": 3e-4, "loss": "dr_grpo", "clip_high": 0.3, "betas": [0.9, 0.95]}"#,
    )
    .unwrap();
    assert_eq!((config.loss, config.clip()), (Loss::DrGrpo, (0.2, 0.3)));
    assert!(serde_json::from_str::<GrpoConfig>(r#"{"learning_rat": 1}"#).is_err());
    for text in [
        r#"{"learning_rate": -1}"#,
        r#"{"epochs": 0}"#,
        r#"{"minibatches": 0}"#,
        r#"{"micro_batch_tokens": 0}"#,
        r#"{"betas": [1.0, 0.9]}"#,
        r#"{"eps": 0}"#,
        r#"{"clip_low": 1.5}"#,
        r#"{"workers": 0}"#,
    ] {
        let config: GrpoConfig = serde_json::from_str(text).unwrap();
        assert!(config.check().is_err(), "{text}");
    }
}

#[test]
fn in_half_precision_rounding_of_the_sampler_is_corrected_and_gspo_needs_that() {
    let samples = tiny::samples(&tiny::model(Kind::BFloat16), 6, 0.3, 1.0);
    let of = |kind, correction| {
        let config = GrpoConfig {
            correction,
            ..tiny::plain()
        };
        let mut learner = learner(kind, config);
        learner.step(&samples).unwrap()
    };
    let half = of(Kind::BFloat16, Correction::Auto);
    assert!((half.ratio_mean - 1.0).abs() < 1e-6, "{half:?}");
    assert!(half.clip_share == 0.0 && half.kl.abs() < 1e-9, "{half:?}");
    assert!(half.sampler_gap > 0.1, "{half:?}");
    let uncorrected = of(Kind::BFloat16, Correction::None);
    assert!(uncorrected.clip_share > 0.0, "{uncorrected:?}");
    let single = of(Kind::Float, Correction::Auto);
    assert!(single.clip_share > 0.0, "{single:?}");

    let gspo = |kind, correction| {
        let config = GrpoConfig {
            loss: Loss::Gspo,
            correction,
            ..tiny::plain()
        };
        Learner::new(tiny::model(kind), config, 5)
    };
    let error = gspo(Kind::BFloat16, Correction::None).err().unwrap();
    assert!(
        matches!(&error, Error::Setting(e) if e.field == "correction"),
        "{error}"
    );
    gspo(Kind::BFloat16, Correction::Auto).unwrap();
    gspo(Kind::Float, Correction::None).unwrap();
}

#[test]
fn off_policy_samples_are_corrected_or_left_out() {
    let base = learner(Kind::Double, tiny::plain());
    let samples = tiny::samples(&base.model, 5, 0.4, 1.0);
    let exact = tiny::samples(&base.model, 5, 0.0, 1.0);
    let of = |config: GrpoConfig, samples: &[GrpoSample]| {
        let mut learner = learner(Kind::Double, config);
        let report = learner.step(samples).unwrap();
        (report, learner.model.base().flat().copy())
    };
    for correction in [
        Correction::TokenTruncate,
        Correction::TokenMask,
        Correction::SequenceTruncate,
        Correction::SequenceMask,
    ] {
        let config = GrpoConfig {
            correction,
            correction_cap: 1.2,
            ..tiny::plain()
        };
        let (report, _) = of(config, &samples);
        let mut wanted = 0.0;
        for (s, exact) in samples.iter().zip(&exact) {
            let weights = flopsmith_learner::correction::weights(
                correction,
                1.2,
                &exact.old_logprobs,
                &s.old_logprobs,
            );
            let mean = weights.iter().sum::<f64>() / weights.len() as f64;
            wanted -= mean * f64::from(s.advantage) / samples.len() as f64;
        }
        assert!(
            (report.loss - wanted).abs() < 1e-6,
            "{correction:?}: {} and {wanted}",
            report.loss
        );
        // Clipping bounds only the change by the step itself.
        assert!((report.ratio_mean - 1.0).abs() < 1e-6 && report.clip_share == 0.0);
    }
    let mut far = exact.clone();
    far[1].old_logprobs.iter_mut().for_each(|lp| *lp -= 2.0);
    let config = GrpoConfig {
        max_gap: Some(1.0),
        ..tiny::plain()
    };
    let (report, without) = of(config, &far);
    assert_eq!(report.left_out, 1);
    far[1].advantage = 0.0;
    let (report, wanted) = of(tiny::plain(), &far);
    assert_eq!(report.left_out, 0);
    assert_eq!(without, wanted);
    for (key, value) in [
        ("max_gap", 0.0),
        ("ratio_limit", 1.1),
        ("correction_cap", -1.0),
    ] {
        let set = serde_json::json!({ key: value });
        let config: GrpoConfig = serde_json::from_value(set).unwrap();
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}
