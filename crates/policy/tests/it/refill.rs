//! Requests that wait until others are done get the same answers as in one batch.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use flopsmith_policy::{
    Bounds, Config, Detour, Device, Extras, Kind, Model, Request, Sample, Stops, Tokenizer, sample,
    sample_stream, train_bpe,
};
use flopsmith_protocol::Sampling;
use proptest::prelude::*;

static TOKENIZER: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
    let texts: Vec<String> = (0..40)
        .map(|i| format!("for (int i = {i}; i < n; i += {i}) C[i] = 0.5 * {i};\n"))
        .collect();
    Arc::new(train_bpe(&texts, 300, &["<|end|>"]).unwrap())
});

/// In single precision this crate's engine writes, in double precision libtorch's.
fn models(vocabulary: i64) -> [Model; 2] {
    let mut config = Config::new(vocabulary, 32, 48, 2, 4, 2);
    config.initializer_range = 0.3;
    config.max_position_embeddings = 200;
    [Kind::Float, Kind::Double]
        .map(|kind| Model::random(config.clone(), 11, Device::Cpu, kind).unwrap())
}

fn plain(prompt: Vec<u32>, seed: u64, max_tokens: u32) -> Request {
    Request {
        prompt,
        seed,
        sampling: Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_tokens,
        },
        detour: None,
        extras: Extras::default(),
    }
}

/// The answers, and the number of rows of each step. The shown tokens have to be the written ones.
fn within(model: &Model, requests: &[Request], bounds: Bounds) -> (Vec<Sample>, Vec<usize>) {
    let mut steps = Vec::new();
    let mut shown = vec![Vec::new(); requests.len()];
    let answers = sample_stream(model, requests, &[3, 4], bounds, |tokens| {
        steps.push(tokens.len());
        for (request, token) in tokens {
            shown[*request].push(*token);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    for (shown, answer) in shown.iter().zip(&answers) {
        assert_eq!(shown, &answer.tokens);
    }
    (answers, steps)
}

fn assert_same(ours: &[Sample], wanted: &[Sample], what: &str) {
    assert_eq!(ours.len(), wanted.len());
    for (i, (a, b)) in ours.iter().zip(wanted).enumerate() {
        assert_eq!(a.tokens, b.tokens, "{what}: answer {i}");
        assert_eq!((a.end, a.finished), (b.end, b.finished), "{what}");
        for (a, b) in [(&a.logprobs, &b.logprobs), (&a.raw, &b.raw)] {
            assert_eq!(a.len(), b.len());
            assert!(
                a.iter().zip(b).all(|(a, b)| (a - b).abs() < 2e-4),
                "{what}: answer {i}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    /// Prompts of several lengths, some of them equal, answers of several lengths, every way to end, detours.
    #[test]
    fn a_late_request_gets_what_it_would_get_at_once(
        kinds in prop::collection::vec((0usize..6, 0u32..24, 0u64..1000, 0usize..6), 1..24),
        rows in 1usize..12,
        cache_bytes in prop_oneof![Just(1usize << 30), Just(0), 20_000usize..100_000],
    ) {
        let tokenizer = &*TOKENIZER;
        let vocabulary = tokenizer.vocab_size() as i64;
        let stops = Arc::new(Stops::new(Arc::clone(tokenizer), [" ".into(), "1".into()]));
        let kind: Arc<[bool]> = (0..vocabulary).map(|id| id % 2 == 0).collect();
        let requests: Vec<Request> = kinds
            .iter()
            .map(|(prompt, tokens, seed, what)| {
                let length = [1, 1, 5, 5, 17, 60][*prompt];
                let prompt = (0..length).map(|t| (t * 7 + (*prompt as u32) * 13) % 200);
                let mut request = plain(prompt.collect(), *seed, *tokens);
                match what {
                    1 => request.extras.stops = Some(Arc::clone(&stops)),
                    2 => request.extras.repeats = 2,
                    3 => request.detour = Some(Detour { kind: Arc::clone(&kind), at: 2 }),
                    4 => request.sampling.temperature = 0.7,
                    5 => {
                        request.extras.raw = true;
                        request.sampling.temperature = 1.2;
                    }
                    _ => {}
                }
                request
            })
            .collect();
        for model in models(vocabulary) {
            let together = sample(&model, &requests, &[3, 4], |_| {}).unwrap();
            let (late, steps) = within(&model, &requests, Bounds { rows, cache_bytes });
            prop_assert!(steps.iter().all(|n| *n <= rows));
            assert_same(&late, &together, &format!("{:?}", model.kind()));
        }
    }
}

#[test]
fn a_row_that_ends_makes_room_at_once() {
    // Every other answer is short: in waves of four all would wait for the long ones, 16 / 4 · 40 steps.
    let requests: Vec<Request> = (0..16)
        .map(|i| plain(vec![1, 2, i % 3 + 5], u64::from(i), [2, 40][i as usize % 2]))
        .collect();
    for model in models(50) {
        let bounds = Bounds {
            rows: 4,
            ..Bounds::default()
        };
        let mut steps = 0;
        let answers = sample_stream(&model, &requests, &[], bounds, |tokens| {
            assert!(tokens.len() <= 4);
            steps += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        // All tokens four at a time, and the longest alone at the end.
        assert!(steps <= 8 * 42 / 4 + 40, "{steps}");
        assert_same(
            &answers,
            &sample(&model, &requests, &[], |_| {}).unwrap(),
            "refilled",
        );
    }
}

#[test]
fn the_cache_bounds_the_rows() {
    let requests: Vec<Request> = (0..12)
        .map(|i| plain(vec![1, 2, 3, 4, 5, i + 6], u64::from(i), 20))
        .collect();
    for model in models(50) {
        // Keys and values of 25 tokens, 2 blocks, 2 heads of 8.
        let width = if model.kind() == Kind::Double { 8 } else { 4 };
        let row = 25 * 2 * 2 * 2 * 8 * width;
        for fit in 0..5 {
            let bounds = Bounds {
                rows: 100,
                cache_bytes: fit * row + row / 2,
            };
            let mut most = 0;
            let answers = sample_stream(&model, &requests, &[], bounds, |tokens| {
                most = most.max(tokens.len());
                ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(most, fit.max(1));
            assert!(answers.iter().all(|a| a.tokens.len() == 20));
        }
    }
}

/// A row that has used all positions stays with the others until enough of them are done: its next position is beyond
/// the model.
#[test]
fn rows_at_their_last_position_harm_no_other() {
    let positions = 60;
    let mut config = Config::new(40, 32, 48, 2, 4, 2);
    config.initializer_range = 0.3;
    config.max_position_embeddings = positions;
    let requests: Vec<Request> = (0..40u32)
        .map(|i| {
            // Every third one runs to the end of the model, the others stop at odd places.
            let prompt: Vec<u32> = (0..1 + i * 7 % 20).map(|t| (t * 3 + i) % 40).collect();
            let rest = positions as u32 - prompt.len() as u32;
            let most = if i % 3 == 0 { rest } else { 1 + i * 11 % rest };
            plain(prompt, u64::from(i), most)
        })
        .collect();
    for kind in [Kind::Float, Kind::Double] {
        let model = Model::random(config.clone(), 11, Device::Cpu, kind).unwrap();
        let whole = sample(&model, &requests, &[], |_| {}).unwrap();
        let bounds = Bounds {
            rows: 20,
            ..Bounds::default()
        };
        let go_on = |_: &[(usize, u32)]| ControlFlow::Continue(());
        let waited = sample_stream(&model, &requests, &[], bounds, go_on).unwrap();
        assert_same(&waited, &whole, &format!("{kind:?}"));
    }
}
