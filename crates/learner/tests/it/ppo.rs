//! PPO on a policy small enough to learn in a moment.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_config::{GrpoConfig, KlControl, PpoConfig, Schedule};
use flopsmith_learner::{Error, GrpoSample, Learner, Ppo, PpoReport, PpoSample};
use flopsmith_policy::layout::VALUE;
use flopsmith_policy::{Extras, Kind, LoraConfig, Model, Request, Scalar, sample};
use flopsmith_protocol::Sampling;

use crate::tiny;

const END: u32 = 38;

fn config() -> PpoConfig {
    PpoConfig {
        learning_rate: 3e-3,
        epochs: 2,
        batch: 16,
        kl: KlControl::Adaptive {
            start: 0.02,
            target: 4.0,
            horizon: 400.0,
        },
        workers: Some(2),
        ..PpoConfig::default()
    }
}

fn ppo(config: PpoConfig) -> Ppo {
    ppo_in(Kind::Float, config)
}

fn ppo_in(kind: Kind, config: PpoConfig) -> Ppo {
    Ppo::new(tiny::model(kind), config, None, 9).unwrap()
}

/// The answers of the policy in a step, and their score: the share of tokens below 10, which a policy can learn to
/// write.
fn written(model: &Model, step: u64) -> Vec<PpoSample> {
    let requests: Vec<Request> = (0..32)
        .map(|i| Request {
            detour: None,
            extras: Extras::default(),
            prompt: vec![39, 30 + (i % 6) as u32],
            seed: step * 1000 + i,
            sampling: Sampling {
                temperature: 1.0,
                top_p: 1.0,
                top_k: 0,
                max_tokens: 8,
            },
        })
        .collect();
    let samples = sample(model, &requests, &[END], |_| {}).unwrap();
    requests
        .into_iter()
        .zip(samples)
        .map(|(request, sample)| {
            let low = sample.tokens.iter().filter(|t| **t < 10).count();
            PpoSample {
                prompt: request.prompt,
                score: low as f64 / 8.0,
                tokens: sample.tokens,
                old_logprobs: sample.logprobs,
                temperature: 1.0,
            }
        })
        .collect()
}

fn train(ppo: &mut Ppo, from: u64, to: u64) -> Vec<PpoReport> {
    (from..to)
        .map(|step| {
            let samples = written(&ppo.model, step);
            ppo.step(&samples).unwrap()
        })
        .collect()
}

#[test]
fn the_policy_comes_to_write_what_is_rewarded_and_the_values_to_foresee_it() {
    let mut ppo = ppo(config());
    let reports = train(&mut ppo, 0, 25);
    let (first, last) = (reports[0], reports[24]);
    assert!(
        first.score < 0.35 && last.score > 0.75,
        "{first:?} {last:?}"
    );
    assert!(first.kl.abs() < 1e-3 && last.kl > 0.5, "{first:?} {last:?}");
    assert!(last.explained > 0.2, "{last:?}");
    assert_eq!((first.updates, first.skipped, first.answers), (4, 0, 32));
    // The cost of the divergence is subtracted from the score.
    assert!(
        (last.reward - (last.score - last.kl_weight * last.kl)).abs() < 1e-6,
        "{last:?}"
    );
    assert_eq!(ppo.steps(), 25);
}

#[test]
fn the_entropy_is_the_one_that_grpo_reports_of_the_same_answers() {
    let mut ppo = ppo(config());
    let samples = written(&ppo.model, 0);
    let same: Vec<GrpoSample> = samples
        .iter()
        .zip([1.0, -1.0].into_iter().cycle())
        .map(|(sample, advantage)| GrpoSample {
            prompt: sample.prompt.clone(),
            tokens: sample.tokens.clone(),
            old_logprobs: sample.old_logprobs.clone(),
            advantage,
            temperature: sample.temperature,
        })
        .collect();
    // One update a step, so that all its entropies are of the policy before the step.
    let grpo = GrpoConfig {
        epochs: 1,
        minibatches: 1,
        ..GrpoConfig::default()
    };
    let mut grpo = Learner::new(tiny::model(Kind::Float), grpo, 9).unwrap();
    let expected = grpo.step(&same).unwrap().entropy;
    let entropy = ppo.step(&samples).unwrap().entropy;
    assert!(
        entropy > 1.0 && (entropy - expected).abs() < 1e-4,
        "{entropy} {expected}"
    );
}

#[test]
fn more_divergence_than_is_wanted_makes_its_weight_grow() {
    let wanting = |target| PpoConfig {
        kl: KlControl::Adaptive {
            start: 0.05,
            target,
            horizon: 100.0,
        },
        ..config()
    };
    let mut strict = ppo(wanting(0.01));
    let mut free = ppo(wanting(1e6));
    train(&mut strict, 0, 8);
    train(&mut free, 0, 8);
    assert!(strict.kl_weight() > 0.05 && free.kl_weight() < 0.05);
}

#[test]
fn the_step_size_falls_along_a_cosine_where_that_is_asked_for() {
    for (progress, expected) in [(0.0, 1.0), (0.5, 0.55), (1.0, 0.1)] {
        let mut ppo = ppo(PpoConfig {
            schedule: Schedule::Cosine,
            ..config()
        });
        ppo.set_progress(progress);
        let samples = written(&ppo.model, 0);
        let report = ppo.step(&samples).unwrap();
        let off = report.learning_rate - config().learning_rate * expected;
        assert!(off.abs() < 1e-12, "at {progress}: {report:?}");
    }
}

#[test]
fn a_restored_policy_goes_on_bit_by_bit() {
    let lora = Some(LoraConfig {
        rank: 4,
        ..LoraConfig::default()
    });
    for (kind, config) in [
        (Kind::Float, config()),
        (Kind::BFloat16, config()),
        (Kind::Float, PpoConfig { lora, ..config() }),
    ] {
        let mut whole = ppo_in(kind, config.clone());
        train(&mut whole, 0, 3);
        let files = whole.state().unwrap();
        let mut again = ppo_in(kind, config);
        again.restore(&files).unwrap();
        assert_eq!(again.steps(), 3);
        assert_eq!(again.kl_weight(), whole.kl_weight());
        let (one, other) = (train(&mut whole, 3, 5), train(&mut again, 3, 5));
        for (one, other) in one.iter().zip(&other) {
            let seconds = one.seconds;
            assert_eq!(*one, PpoReport { seconds, ..*other });
        }
        let state = |of: &Ppo| tiny::comparable(&of.model, of.state().unwrap());
        assert!(state(&whole) == state(&again));
    }
}

#[test]
fn the_state_of_another_kind_of_training_is_refused() {
    let learner = Learner::new(tiny::model(Kind::Float), tiny::plain(), 9).unwrap();
    let error = ppo(config())
        .restore(&learner.state().unwrap())
        .unwrap_err();
    assert!(error.to_string().contains("`grpo`, not `ppo`"), "{error}");
}

#[test]
fn with_an_adapter_the_reference_is_what_lies_below_it() {
    let lora = Some(LoraConfig {
        rank: 4,
        ..LoraConfig::default()
    });
    let mut ppo = ppo(PpoConfig { lora, ..config() });
    assert!(
        ppo.state()
            .unwrap()
            .iter()
            .all(|(name, _)| name != "reference.safetensors")
    );
    let reports = train(&mut ppo, 0, 6);
    assert!(
        reports[0].kl.abs() < 1e-3 && reports[5].kl > 0.01,
        "{reports:?}"
    );
}

#[test]
fn a_saved_policy_has_no_value_head() {
    let mut ppo = ppo(config());
    train(&mut ppo, 0, 1);
    let place = std::env::temp_dir().join(format!("flopsmith-ppo-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    ppo.model.save(&place).unwrap();
    let opened = Model::load(&place, flopsmith_policy::Device::Cpu, Kind::Float);
    std::fs::remove_dir_all(&place).unwrap();
    let opened = opened.unwrap();
    assert_eq!(opened.config().scalar, Scalar::None);
    let ids = [39, 30, 5, 6];
    let (own, other) = (
        ppo.model.logits_all(&ids).unwrap(),
        opened.logits_all(&ids).unwrap(),
    );
    assert_eq!(own, other);
}

#[test]
fn updates_without_finite_numbers_are_skipped_and_too_many_are_an_error() {
    let mut ppo = ppo(PpoConfig {
        most_skipped: 3,
        ..config()
    });
    let mut samples = written(&ppo.model, 0);
    // So unlikely that a ratio to it overflows.
    samples[0].old_logprobs[0] = -1e5;
    let report = ppo.step(&samples);
    // One update of each pass has the sample.
    let report = report.unwrap();
    assert_eq!((report.updates, report.skipped, ppo.skipped()), (2, 2, 2));
    let kept = ppo.take_skipped();
    assert_eq!(kept.len(), 2);
    for update in &kept {
        assert_eq!(update.picked.len(), 16);
        assert!(update.picked.contains(&0), "{update:?}");
    }
    assert!(ppo.take_skipped().is_empty());
    for sample in &mut samples {
        sample.old_logprobs[0] = -1e5;
    }
    let error = ppo.step(&samples).unwrap_err();
    assert!(
        matches!(error, Error::TooManySkipped { in_a_row: 4.., .. }),
        "{error}"
    );
}

#[test]
fn values_that_are_no_numbers_skip_the_step_and_too_many_such_steps_are_an_error() {
    let mut ppo = ppo(PpoConfig {
        most_skipped: 1,
        ..config()
    });
    let samples = written(&ppo.model, 0);
    let before = tiny::weights(&ppo.model);
    let head = |ppo: &Ppo, value: f64| {
        let _guard = tch::no_grad_guard();
        let leaves = ppo.model.base().leaves();
        let (_, head) = leaves.iter().find(|(n, _)| n == VALUE).unwrap();
        let _same = head.shallow_clone().f_fill_(value).unwrap();
    };
    head(&ppo, f64::NAN);
    let report = ppo.step(&samples).unwrap();
    assert_eq!((report.updates, report.skipped, ppo.skipped()), (0, 1, 1));
    assert!(
        report.kl_weight.is_finite() && report.kl == 0.0 && report.score > 0.0,
        "{report:?}"
    );
    let kept = ppo.take_skipped();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].picked, (0..32).collect::<Vec<_>>());
    assert!(kept[0].error.contains("a value"), "{}", kept[0].error);
    let error = ppo.step(&samples).unwrap_err();
    assert!(
        matches!(error, Error::TooManySkipped { in_a_row: 2, .. }),
        "{error}"
    );
    // Only the spoilt weights have changed, and with a sound head it continues.
    head(&ppo, 0.0);
    assert_eq!(tiny::weights(&ppo.model), before);
    assert_eq!(ppo.step(&samples).unwrap().skipped, 0);
}

#[test]
fn in_half_precision_ratios_begin_at_one_whatever_the_sampler_rounds() {
    let once = PpoConfig {
        epochs: 1,
        batch: 32,
        ..config()
    };
    let of = |kind| {
        let mut ppo = ppo_in(kind, once.clone());
        let mut samples = written(&ppo.model, 0);
        for (i, sample) in samples.iter_mut().enumerate() {
            for (t, logprob) in sample.old_logprobs.iter_mut().enumerate() {
                *logprob += 0.3 * ((i * 5 + t) as f32).sin();
            }
        }
        ppo.step(&samples).unwrap()
    };
    let (half, single) = (of(Kind::BFloat16), of(Kind::Float));
    assert!(
        half.approx_kl.abs() < 1e-9 && half.clip_share == 0.0,
        "{half:?}"
    );
    // It has not learned anything yet: it equals its reference.
    assert!(half.kl.abs() < 1e-9, "{half:?}");
    assert!(
        single.approx_kl > 1e-2 && single.clip_share > 0.0,
        "{single:?}"
    );
}

#[test]
fn samples_that_do_not_fit_are_named() {
    let mut ppo = ppo(config());
    let good = written(&ppo.model, 0);
    let mut with = |change: &dyn Fn(&mut PpoSample)| {
        let mut all = good.clone();
        change(&mut all[2]);
        ppo.step(&all).unwrap_err().to_string()
    };
    assert!(with(&|s| s.tokens.clear()).contains("sample 2 has an empty"));
    assert!(with(&|s| s.old_logprobs.clear()).contains("0 log-probabilities"));
    assert!(with(&|s| s.score = f64::NAN).contains("sample 2 has a score"));
    assert!(with(&|s| s.temperature = 0.0).contains("sample 2 has temperature 0"));
    assert!(with(&|s| s.tokens[0] = 99).contains("token 99"));
    assert_eq!(ppo.steps(), 0);
    assert_eq!(ppo.step(&[]).unwrap().updates, 0);
    for (field, config) in [
        (
            "value_clip",
            PpoConfig {
                value_clip: 0.0,
                ..config()
            },
        ),
        (
            "lambda",
            PpoConfig {
                lambda: 1.5,
                ..config()
            },
        ),
        (
            "kl.target",
            PpoConfig {
                kl: KlControl::Adaptive {
                    start: 0.1,
                    target: 0.0,
                    horizon: 1.0,
                },
                ..config()
            },
        ),
    ] {
        let refused = Ppo::new(tiny::model(Kind::Float), config, None, 1);
        assert!(matches!(refused.err(), Some(Error::Setting(e)) if e.field == field));
    }
}
