use proptest::prelude::*;
use tch::{Device, Kind, Tensor};

use super::simd::Width;
use super::{Native, serves, tiles};
use crate::decode::torch::Torch;
use crate::decode::{Decoder, Prompt};
use crate::lora::Target;
use crate::{Config, LoraConfig, Model};

/// Layout and kind of the weights.
fn ways() -> [(bool, Kind); 4] {
    [true, false]
        .map(|packed| [Kind::Float, Kind::BFloat16].map(|kind| (packed, kind)))
        .concat()
        .try_into()
        .unwrap()
}

/// The same weights in single precision.
fn widened(model: &Model) -> Model {
    let exact = Model::random(model.config().clone(), 0, Device::Cpu, Kind::Float).unwrap();
    exact
        .base()
        .flat()
        .shallow_clone()
        .copy_(model.base().flat());
    exact
}

/// Attaches an adapter without some of the targets, whose products are all nonzero; rank 0 means no adapter.
fn adapt(model: &mut Model, rank: u32) {
    use Target::{Down, Out, Query, Up, Value};
    if rank == 0 {
        return;
    }
    let lora = LoraConfig {
        rank,
        alpha: 2.0 * f64::from(rank),
        targets: [Query, Value, Out, Up, Down].into(),
        ..LoraConfig::default()
    };
    model.adapt(lora, 3).unwrap();
    let flat = model.trained().flat();
    let waves = Tensor::arange(flat.numel() as i64, (Kind::Float, Device::Cpu));
    flat.shallow_clone().copy_(&(waves.sin() * 0.2));
}

/// Runs both engines over the same tokens and compares every distribution.
#[expect(clippy::too_many_arguments, reason = "what a comparison is made of")]
fn agree(
    config: &Config,
    kind: Kind,
    packed: bool,
    width: Width,
    threads: usize,
    lengths: &[usize],
    steps: usize,
    rank: u32,
) {
    let _guard = tch::no_grad_guard();
    let vocabulary = config.vocab_size as usize;
    let mut model = Model::random(config.clone(), 5, Device::Cpu, kind).unwrap();
    let mut exact = widened(&model);
    adapt(&mut model, rank);
    adapt(&mut exact, rank);
    assert!(serves(&model));
    // libtorch runs prompts in half precision if the weights are in it; this test compares the steps after the prompts.
    let mut lengths: Vec<usize> = match kind {
        Kind::Float => lengths.to_vec(),
        _ => vec![0; lengths.len()],
    };
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
    let prompt = |tokens, more| Prompt {
        tokens,
        more,
        like: None,
    };
    let mut prompts: Vec<Prompt<'_>> = tokens.iter().map(|t| prompt(t, 2 * steps + 2)).collect();
    let mut theirs = Torch::begin(&exact);
    let longest = tokens[0].len() + 2 * steps + 2;
    let mut ours = Native::with(&model, longest, packed, width, threads).unwrap();
    let mut alive = 0;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for step in 0..=2 * steps {
        // At first all rows join. In the middle every third row leaves, and the shorter half of the prompts joins
        // again; a prompt of a row that stays is not run again.
        if step == 0 || step == steps {
            let stay: Vec<usize> = (0..alive).filter(|r| r % 3 != 1).collect();
            if step == steps {
                let stayed: Vec<&[u32]> = stay.iter().map(|r| prompts[*r].tokens).collect();
                prompts.drain(..tokens.len() / 2);
                for prompt in &mut prompts {
                    prompt.more = steps + 1;
                    prompt.like = stayed.iter().position(|t| *t == prompt.tokens);
                }
            }
            let more = 2 * steps + 2 - step;
            for engine in [&mut theirs as &mut dyn Decoder, &mut ours] {
                let room = engine.room(&stay, more, &prompts);
                let least: usize = prompts.iter().map(|p| p.tokens.len() + p.more).sum();
                assert!(room >= least);
                engine.turn(&stay, more, &prompts).unwrap();
            }
            alive = stay.len() + prompts.len();
        }
        let next: Vec<u32> = (0..alive)
            .map(|r| ((r * 7 + step * 3) % vocabulary) as u32)
            .collect();
        theirs.advance(&next).unwrap();
        ours.advance(&next).unwrap();
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
        for (packed, kind) in ways() {
            agree(
                &config(192, 512, 4, 2, 453),
                kind,
                packed,
                width,
                2,
                &[30, 30, 17, 1, 30, 90],
                20,
                if packed { 0 } else { 8 },
            );
        }
    }
}

#[test]
fn a_full_row_harms_no_other() {
    let _guard = tch::no_grad_guard();
    let model = Model::random(config(16, 24, 2, 1, 20), 1, Device::Cpu, Kind::Float).unwrap();
    let [full, other] = [0, 9].map(|more| Prompt {
        tokens: &[1, 2, 3],
        more,
        like: None,
    });
    let mut together = Native::begin(&model, 12).unwrap();
    together.turn(&[], 0, &[full, other]).unwrap();
    let mut alone = Native::begin(&model, 12).unwrap();
    alone.turn(&[], 0, &[other]).unwrap();
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
fn nan_logits_stay_nan() {
    let _guard = tch::no_grad_guard();
    let model = Model::random(config(16, 24, 2, 1, 20), 1, Device::Cpu, Kind::Float).unwrap();
    let _ = model.base().flat().shallow_clone().fill_(f64::NAN);
    let prompt = Prompt {
        tokens: &[1],
        more: 4,
        like: None,
    };
    let mut native = Native::begin(&model, 5).unwrap();
    native.turn(&[], 0, &[prompt]).unwrap();
    native.advance(&[2]).unwrap();
    let mut p = Vec::new();
    native.probabilities(&[1.0], &mut p).unwrap();
    assert!(p.iter().all(|p| p.is_nan()));
}

#[test]
fn other_kinds_of_weights_are_not_for_it() {
    for kind in [Kind::Double, Kind::Half] {
        let model = Model::random(config(16, 24, 2, 1, 20), 1, Device::Cpu, kind).unwrap();
        assert!(!serves(&model));
    }
}

/// With tiles, the inputs of a product are rounded to eight bits of precision, which bounds the error of the
/// probabilities.
#[test]
fn tiles_stay_near() {
    if !tiles::are_here() {
        eprintln!("this processor has no tiles for bfloat16");
        return;
    }
    let _guard = tch::no_grad_guard();
    let mut shape = config(192, 512, 4, 2, 453);
    shape.initializer_range = 0.1;
    let mut model = Model::random(shape, 5, Device::Cpu, Kind::BFloat16).unwrap();
    for (count, rank) in [(1, 0), (8, 0), (17, 8), (40, 8)] {
        if rank > 0 && model.adapter().is_none() {
            adapt(&mut model, rank);
        }
        let tokens: Vec<u32> = (0..count).map(|n| n * 11 % 453).collect();
        let prompts: Vec<Prompt<'_>> = (0..count)
            .map(|_| Prompt {
                tokens: &[],
                more: 8,
                like: None,
            })
            .collect();
        let decoded = |tiles: bool| {
            let mut native = Native::with(&model, 8, false, Width::here(), 2).unwrap();
            native.tiles = tiles;
            native.turn(&[], 0, &prompts).unwrap();
            let mut all = Vec::new();
            for _ in 0..4 {
                native.advance(&tokens).unwrap();
                let mut p = Vec::new();
                native
                    .probabilities(&vec![1.0; count as usize], &mut p)
                    .unwrap();
                all.extend(p);
            }
            all
        };
        let (exact, near) = (decoded(false), decoded(true));
        let gaps = exact
            .iter()
            .zip(&near)
            .map(|(a, b)| (a.ln() - b.ln()).abs());
        let (sum, most) = gaps.fold((0.0f32, 0.0f32), |(s, m), gap| (s + gap, m.max(gap)));
        let mean = sum / exact.len() as f32;
        eprintln!("{count} rows: {mean} on average, {most} at most");
        assert!(mean > 0.0 && mean < 0.02 && most < 0.2, "{mean} {most}");
    }
}

/// With unpacked bfloat16 weights a row gives the same bits alone and in a batch.
#[test]
fn company_changes_nothing_in_half_precision() {
    let _guard = tch::no_grad_guard();
    let model = Model::random(config(192, 512, 4, 2, 453), 5, Device::Cpu, Kind::BFloat16).unwrap();
    let prompt = || Prompt {
        tokens: &[],
        more: 4,
        like: None,
    };
    let first = |count: usize| {
        let prompts: Vec<Prompt<'_>> = (0..count).map(|_| prompt()).collect();
        let mut native = Native::with(&model, 4, false, Width::here(), 2).unwrap();
        native.tiles = tiles::are_here();
        native.turn(&[], 0, &prompts).unwrap();
        let mut all = Vec::new();
        for step in 0..3u32 {
            let tokens: Vec<u32> = (0..count as u32)
                .map(|n| (7 + n * 11 + step) % 453)
                .collect();
            native.advance(&tokens).unwrap();
            let mut p = Vec::new();
            native.probabilities(&vec![1.0; count], &mut p).unwrap();
            all.extend_from_slice(&p[..453]);
        }
        all
    };
    let alone = first(1);
    for count in [2, 7, 8, 9, 33] {
        assert!(first(count) == alone, "beside {} others", count - 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    /// Odd widths, shared and own key heads, every width of vectors, rows that leave.
    #[test]
    fn the_engines_agree(
        pairs in 1i64..14, kv in 1i64..4, share in 1i64..4, inner in 1i64..70, vocabulary in 5i64..80,
        lengths in prop::collection::vec(0usize..20, 1..15), steps in 1usize..6, threads in 1usize..4, rank in 0u32..20,
    ) {
        let hidden = 2 * pairs * kv * share;
        for width in Width::all() {
            for (packed, kind) in ways() {
                let config = config(hidden, inner, kv * share, kv, vocabulary);
                agree(&config, kind, packed, width, threads, &lengths, steps, rank);
            }
        }
    }
}
