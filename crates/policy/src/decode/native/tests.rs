use proptest::prelude::*;
use tch::{Device, Kind};

use super::simd::Width;
use super::{Native, serves};
use crate::decode::torch::Torch;
use crate::decode::{Decoder, Prompt};
use crate::{Config, Model};

/// Runs both engines over the same tokens and compares every distribution.
fn agree(config: Config, width: Width, threads: usize, lengths: &[usize], steps: usize) {
    let _guard = tch::no_grad_guard();
    let vocabulary = config.vocab_size as usize;
    let model = Model::random(config, 5, Device::Cpu, Kind::Float).unwrap();
    assert!(serves(&model));
    let mut lengths = lengths.to_vec();
    lengths.sort_by(|a, b| b.cmp(a));
    let tokens: Vec<Vec<u32>> = lengths
        .iter()
        .enumerate()
        .map(|(row, n)| {
            (0..*n)
                .map(|i| ((row % 3 * 31 + i * 17) % vocabulary) as u32)
                .collect()
        })
        .collect();
    let prompts: Vec<Prompt<'_>> = tokens
        .iter()
        .map(|tokens| Prompt {
            tokens,
            more: steps,
        })
        .collect();
    let mut theirs = Torch::begin(&model, &prompts).unwrap();
    let mut ours = Native::with(&model, &prompts, width, threads).unwrap();
    let mut alive = prompts.len();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for step in 0..=steps {
        let sharpen: Vec<f32> = (0..alive).map(|r| [1.0, 2.0, 0.7][r % 3]).collect();
        let sharpen = if step % 2 == 0 {
            vec![1.0; alive]
        } else {
            sharpen
        };
        theirs.probabilities(&sharpen, &mut a).unwrap();
        ours.probabilities(&sharpen, &mut b).unwrap();
        assert_eq!(a.len(), b.len());
        for (i, (a, b)) in a.iter().zip(&b).enumerate() {
            assert!(
                (a - b).abs() <= 1e-6 + 1e-3 * a,
                "{width:?} step {step} row {} token {}: {a} and {b}",
                i / vocabulary,
                i % vocabulary
            );
        }
        if step == steps {
            break;
        }
        if step == steps / 2 && alive > 2 {
            // Every third row leaves.
            let rows: Vec<usize> = (0..alive).filter(|r| r % 3 != 1).collect();
            theirs.keep(&rows, steps - step).unwrap();
            ours.keep(&rows, steps - step).unwrap();
            alive = rows.len();
        }
        let next: Vec<u32> = (0..alive)
            .map(|r| ((r * 7 + step * 3) % vocabulary) as u32)
            .collect();
        theirs.advance(&next).unwrap();
        ours.advance(&next).unwrap();
    }
}

fn config(hidden: i64, inner: i64, heads: i64, kv: i64, vocabulary: i64) -> Config {
    let mut config = Config::new(vocabulary, hidden, inner, 2, heads, kv);
    config.initializer_range = 0.2;
    config.max_position_embeddings = 200;
    config
}

#[test]
fn the_engines_agree_on_the_starters_shape() {
    for width in Width::all() {
        agree(
            config(192, 512, 4, 2, 453),
            width,
            2,
            &[30, 30, 17, 1, 30, 90],
            40,
        );
    }
}

#[test]
fn a_full_row_harms_no_other() {
    let _guard = tch::no_grad_guard();
    let model = Model::random(config(16, 24, 2, 1, 20), 1, Device::Cpu, Kind::Float).unwrap();
    let [full, other] = [0, 9].map(|more| Prompt {
        tokens: &[1, 2, 3],
        more,
    });
    let mut together = Native::begin(&model, &[full, other]).unwrap();
    let mut alone = Native::begin(&model, &[other]).unwrap();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for token in 4..10 {
        together.advance(&[token, token]).unwrap();
        alone.advance(&[token]).unwrap();
        together.probabilities(&[1.0, 1.0], &mut a).unwrap();
        alone.probabilities(&[1.0], &mut b).unwrap();
        assert_eq!(a[20..], b[..]);
    }
    assert!(alone.advance(&[]).is_err());
}

#[test]
fn what_is_no_number_is_not_turned_into_one() {
    let _guard = tch::no_grad_guard();
    let model = Model::random(config(16, 24, 2, 1, 20), 1, Device::Cpu, Kind::Float).unwrap();
    let _ = model.base().flat().shallow_clone().fill_(f64::NAN);
    let prompt = Prompt {
        tokens: &[1],
        more: 4,
    };
    let mut native = Native::begin(&model, &[prompt]).unwrap();
    let mut p = Vec::new();
    native.probabilities(&[1.0], &mut p).unwrap();
    assert!(p.iter().all(|p| p.is_nan()));
}

#[test]
fn other_kinds_of_weights_are_not_for_it() {
    for kind in [Kind::Double, Kind::BFloat16] {
        let model = Model::random(config(16, 24, 2, 1, 20), 1, Device::Cpu, kind).unwrap();
        assert!(!serves(&model));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Odd widths, shared and own key heads, every width of vectors, rows that leave.
    #[test]
    fn the_engines_agree(
        pairs in 1i64..14, kv in 1i64..4, share in 1i64..4, inner in 1i64..70, vocabulary in 5i64..80,
        lengths in prop::collection::vec(1usize..20, 1..15), steps in 1usize..12, threads in 1usize..4,
    ) {
        let hidden = 2 * pairs * kv * share;
        for width in Width::all() {
            agree(config(hidden, inner, kv * share, kv, vocabulary), width, threads, &lengths, steps);
        }
    }
}
