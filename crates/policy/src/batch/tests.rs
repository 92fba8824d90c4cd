//! Compares the draws of an engine that draws itself with draws from its probabilities.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use flopsmith_protocol::Sampling;
use tch::{Device, Kind};

use super::*;
use crate::config::Config;
use crate::decode::torch::Torch;
use crate::sample::{Detour, Extras};

fn model(kind: Kind) -> Model {
    let config = r#"{"model_type":"qwen2","vocab_size":300,"hidden_size":32,"intermediate_size":48,"num_hidden_layers":2,
        "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":64,"tie_word_embeddings":true,
        "initializer_range":0.3}"#;
    Model::random(Config::parse(config).unwrap(), 5, Device::Cpu, kind).unwrap()
}

/// Requests of every sort, more than there is room for at once.
fn requests() -> Vec<Request> {
    let kind: Arc<[bool]> = (0..300).map(|token| token % 3 == 0).collect();
    (0..40u32)
        .map(|n| Request {
            prompt: (0..=n % 5).map(|i| (7 * n + 11 * i) % 300).collect(),
            seed: u64::from(n),
            sampling: Sampling {
                temperature: [1.0, 0.0, 0.6, 1.4][n as usize % 4],
                top_p: if n % 7 == 3 { 0.8 } else { 1.0 },
                top_k: if n % 11 == 5 { 9 } else { 0 },
                max_tokens: 4 + n % 23,
            },
            detour: (n % 6 == 1).then(|| Detour {
                kind: Arc::clone(&kind),
                at: n % 3,
            }),
            extras: Extras {
                raw: n % 2 == 0,
                min_p: if n % 13 == 6 { 0.2 } else { 0.0 },
                ..Extras::default()
            },
        })
        .collect()
}

fn answers<'a>(
    engine: Box<dyn Decoder + 'a>,
    model: &'a Model,
    requests: &'a [Request],
) -> Vec<Sample> {
    let _guard = tch::no_grad_guard();
    let bounds = Bounds {
        rows: 12,
        ..Bounds::default()
    };
    let mut answers: Vec<Option<Sample>> = requests.iter().map(|_| None).collect();
    let waiting = Batch::waiting(requests);
    let mut batch = Batch::over(engine, model, waiting, &[299], bounds);
    while batch.advance().unwrap() {
        batch.draw().unwrap();
        batch.retire(&mut answers);
    }
    answers.into_iter().map(Option::unwrap).collect()
}

#[test]
fn an_engine_that_draws_takes_the_tokens_that_its_probabilities_give() {
    let model = model(Kind::Float);
    let requests = requests();
    let drawn = answers(Box::new(Torch::that_draws(&model)), &model, &requests);
    let from_probabilities = answers(Box::new(Torch::begin(&model)), &model, &requests);
    let mut tokens = 0;
    for (n, (one, other)) in drawn.iter().zip(&from_probabilities).enumerate() {
        assert_eq!(one.tokens, other.tokens, "request {n}");
        assert_eq!(one.end, other.end, "request {n}");
        for (one, other) in [(&one.logprobs, &other.logprobs), (&one.raw, &other.raw)] {
            assert_eq!(one.len(), other.len(), "request {n}");
            for (a, b) in one.iter().zip(other) {
                assert!((a - b).abs() < 1e-5, "request {n}: {a} and {b}");
            }
        }
        tokens += one.tokens.len();
    }
    assert!(tokens > 300, "{tokens} tokens say little");
}

#[test]
fn scores_that_are_no_numbers_are_told_by_an_engine_that_draws() {
    let model = model(Kind::Float);
    let _guard = tch::no_grad_guard();
    let _nan = model.last_norm().shallow_clone().f_fill_(f64::NAN).unwrap();
    let requests = requests();
    let engine = Box::new(Torch::that_draws(&model));
    let mut batch = Batch::over(
        engine,
        &model,
        Batch::waiting(&requests),
        &[],
        Bounds::default(),
    );
    assert!(batch.advance().unwrap());
    assert!(matches!(batch.draw(), Err(Error::Scores)));
}
