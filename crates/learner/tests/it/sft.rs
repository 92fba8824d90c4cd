//! Supervised fine-tuning on a corpus small enough to learn by heart.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::ops::ControlFlow;

use flopsmith_config::{Labels, Schedule, SftConfig};
use flopsmith_learner::{Error, SftTraining, evaluate, sft};
use flopsmith_policy::Kind;

use crate::tiny;

type Examples = Vec<(Vec<u32>, Vec<u32>)>;

/// The answer continues to count from the prompt's last token.
fn corpus(count: u32) -> Examples {
    (0..count)
        .map(|i| {
            let prompt = vec![39, i * 7 % 30, i % 30];
            let answer = (1..5 + i % 6).map(|n| (i + n) % 30).chain([38]).collect();
            (prompt, answer)
        })
        .collect()
}

fn config() -> SftConfig {
    SftConfig {
        learning_rate: 1e-2,
        warmup: 5,
        steps: Some(60),
        batch_tokens: 200,
        ..SftConfig::default()
    }
}

#[test]
fn the_loss_falls_on_examples_and_on_those_held_out() {
    let mut model = tiny::model(Kind::Float);
    let (train, held_out) = (corpus(60)[..50].to_vec(), corpus(60)[50..].to_vec());
    let before = evaluate(&model, &held_out, &config()).unwrap().unwrap();
    let mut seen = Vec::new();
    let config = SftConfig {
        validate_every: 20,
        ..config()
    };
    let report = sft(&mut model, &train, &config, &held_out, |p| {
        seen.push(*p);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(
        report.first_loss > 2.5 && report.last_loss < 0.6,
        "{report:?}"
    );
    let after = evaluate(&model, &held_out, &config).unwrap().unwrap();
    assert!(after < before / 3.0, "{before} → {after}");
    assert!(
        (report.val_loss.unwrap() - after).abs() < 1e-6
            && (report.perplexity.unwrap() - after.exp()).abs() < 1e-4
    );
    assert_eq!((report.steps, seen.len(), report.stopped), (60, 60, false));
    let looked: Vec<u64> = seen
        .iter()
        .filter(|p| p.val_loss.is_some())
        .map(|p| p.step)
        .collect();
    assert_eq!(looked, [20, 40, 60]);
    assert!(seen.iter().all(|p| p.steps == 60 && p.tokens_per_s > 0.0));
    assert!(
        model
            .trained()
            .leaves()
            .iter()
            .all(|(_, leaf)| !leaf.requires_grad())
    );
}

#[test]
fn the_same_seed_gives_the_same_weights_and_another_seed_others() {
    let train = |seed| {
        let mut model = tiny::model(Kind::Float);
        let config = SftConfig {
            seed,
            steps: Some(8),
            workers: Some(2),
            ..config()
        };
        sft(&mut model, &corpus(30), &config, &[], |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        tiny::weights(&model)
    };
    assert!(train(1) == train(1));
    assert!(train(1) != train(2));
}

#[test]
fn an_epoch_teaches_every_example_once() {
    let examples = corpus(37);
    let answers: u64 = examples.iter().map(|(_, a)| a.len() as u64).sum();
    let all: u64 = examples
        .iter()
        .map(|(p, a)| (p.len() + a.len()) as u64)
        .sum();
    for (labels, tokens) in [(Labels::Answer, answers), (Labels::All, all - 37)] {
        let mut model = tiny::model(Kind::Float);
        let config = SftConfig {
            steps: None,
            epochs: 2,
            labels,
            ..config()
        };
        let report = sft(&mut model, &examples, &config, &[], |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!((report.tokens, report.positions), (2 * tokens, 2 * all));
        assert_eq!(report.val_loss, None);
    }
}

#[test]
fn the_first_loss_is_the_mean_negative_log_probability_of_the_answers() {
    let mut model = tiny::model(Kind::Float);
    let examples = corpus(10);
    let scores: Vec<f32> = examples
        .iter()
        .flat_map(|(p, a)| tiny::logprobs(&model, p, a, 1.0))
        .collect();
    let wanted = -scores.iter().map(|x| f64::from(*x)).sum::<f64>() / scores.len() as f64;
    let found = evaluate(&model, &examples, &config()).unwrap().unwrap();
    assert!((found - wanted).abs() < 1e-5);
    let config = SftConfig {
        steps: Some(1),
        batch_tokens: 10_000,
        ..config()
    };
    let report = sft(&mut model, &examples, &config, &[], |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!((report.first_loss - wanted).abs() < 1e-5);
}

#[test]
fn the_callback_can_end_it() {
    let mut model = tiny::model(Kind::Float);
    let held_out = corpus(5);
    let report = sft(&mut model, &corpus(30), &config(), &held_out, |p| {
        if p.step == 3 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .unwrap();
    assert_eq!((report.steps, report.stopped), (3, true));
    let after = evaluate(&model, &held_out, &config()).unwrap().unwrap();
    assert!((report.val_loss.unwrap() - after).abs() < 1e-6);
}

#[test]
fn step_sizes_warm_up_and_fall_to_a_tenth() {
    let config = SftConfig {
        learning_rate: 1.0,
        warmup: 4,
        ..SftConfig::default()
    };
    let rates: Vec<f64> = (0..24).map(|s| config.rate(s, 24)).collect();
    assert_eq!(rates[..5], [0.25, 0.5, 0.75, 1.0, 1.0]);
    assert!(rates[4..].windows(2).all(|w| w[1] < w[0]));
    assert!((rates[14] - 0.55).abs() < 1e-12 && rates[23] < 0.11 && rates[23] > 0.1);
    let constant = SftConfig {
        schedule: Schedule::Constant,
        ..config
    };
    assert_eq!((constant.rate(0, 24), constant.rate(23, 24)), (0.25, 1.0));
}

#[test]
fn examples_that_do_not_fit_are_named() {
    let mut model = tiny::model(Kind::Float);
    let go = |_: &_| ControlFlow::Continue(());
    for bad in [
        (vec![], vec![1]),
        (vec![1], vec![]),
        (vec![1], vec![40]),
        (vec![1; 60], vec![1; 5]),
    ] {
        let examples = vec![(vec![1], vec![2]), bad];
        let error = sft(&mut model, &examples, &config(), &[], go).unwrap_err();
        assert!(
            matches!(&error, Error::Input(text) if text.contains("example 1")),
            "{error}"
        );
    }
    assert!(matches!(
        sft(&mut model, &[], &config(), &[], go),
        Err(Error::Input(_))
    ));
    let config = SftConfig {
        batch_tokens: 0,
        ..config()
    };
    assert!(matches!(
        sft(&mut model, &corpus(2), &config, &[], go),
        Err(Error::Setting(e)) if e.field == "batch_tokens"
    ));
    let config = SftConfig {
        short_first: 1.5,
        ..self::config()
    };
    assert!(matches!(
        sft(&mut model, &corpus(2), &config, &[], go),
        Err(Error::Setting(e)) if e.field == "short_first"
    ));
}

#[test]
fn a_restored_training_goes_on_bit_by_bit() {
    let lora = Some(flopsmith_policy::LoraConfig {
        rank: 4,
        dropout: 0.1,
        ..flopsmith_policy::LoraConfig::default()
    });
    for (kind, config) in [
        (Kind::Float, config()),
        (Kind::BFloat16, config()),
        (Kind::Float, SftConfig { lora, ..config() }),
    ] {
        let config = SftConfig {
            steps: Some(20),
            workers: Some(2),
            ..config
        };
        let begin = || {
            let (examples, held_out) = (corpus(40)[..35].to_vec(), corpus(40)[35..].to_vec());
            SftTraining::new(tiny::model(kind), &examples, &config, &held_out).unwrap()
        };
        let mut whole = begin();
        // Into the second pass over the examples.
        for _ in 0..5 {
            whole.step().unwrap().unwrap();
        }
        let files = whole.state().unwrap();
        let mut again = begin();
        again.restore(&files).unwrap();
        assert_eq!(again.steps_done(), 5);
        while let Some(one) = whole.step().unwrap() {
            let other = again.step().unwrap().unwrap();
            assert_eq!(
                (one.step, one.loss, one.val_loss),
                (other.step, other.loss, other.val_loss)
            );
            assert_eq!(one.grad_norm, other.grad_norm);
        }
        assert!(again.step().unwrap().is_none());
        let state = |of: &SftTraining| {
            let (weights, mut files) = tiny::comparable(&of.model, of.state().unwrap());
            // The report has the clock's value.
            files.retain(|(name, _)| name != "trainer.json");
            (weights, files)
        };
        assert!(state(&whole) == state(&again));
        assert_eq!(again.finish().unwrap().steps, 20);
    }
}

#[test]
fn a_training_on_other_examples_is_not_gone_on_with() {
    let begin = |count, seed| {
        let config = SftConfig { seed, ..config() };
        SftTraining::new(tiny::model(Kind::Float), &corpus(count), &config, &[]).unwrap()
    };
    let files = begin(30, 0).state().unwrap();
    for mut other in [begin(31, 0), begin(30, 1)] {
        let error = other.restore(&files).unwrap_err();
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
    }
    begin(30, 0).restore(&files).unwrap();
}

#[test]
fn updates_without_finite_numbers_are_skipped_and_too_many_are_an_error() {
    let config = SftConfig {
        most_skipped: 2,
        ..config()
    };
    let mut training =
        SftTraining::new(tiny::model(Kind::Float), &corpus(30), &config, &[]).unwrap();
    training.step().unwrap().unwrap();
    {
        let _guard = tch::no_grad_guard();
        let leaves = training.model.base().leaves();
        let (_, norm) = leaves
            .iter()
            .find(|(n, _)| n == "model.norm.weight")
            .unwrap();
        let _same = norm.narrow(0, 0, 1).f_fill_(f64::NAN).unwrap();
    }
    let error = training.step().unwrap_err();
    assert!(
        matches!(error, Error::TooManySkipped { in_a_row: 3, .. }),
        "{error}"
    );
    assert_eq!(training.steps_done(), 3);
    let kept = training.take_skipped();
    let updates: Vec<u64> = kept.iter().map(|u| u.update).collect();
    assert_eq!(updates, [1, 2, 3]);
    assert!(kept.iter().all(|u| !u.picked.is_empty()), "{kept:?}");
}
