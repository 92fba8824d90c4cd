//! Requests that join while others are written get the answers that they get alone.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use flopsmith_policy::{
    Bounds, Config, Device, End, Error, Extras, Kind, Live, Model, Plan, Request, Sample, Tensor,
    sample,
};
use flopsmith_protocol::Sampling;
use proptest::prelude::*;

const EOS: [u32; 2] = [3, 4];

/// In single precision this crate's engine writes, in double precision libtorch's.
fn models() -> [Model; 2] {
    let mut config = Config::new(60, 32, 48, 2, 4, 2);
    config.initializer_range = 0.3;
    config.max_position_embeddings = 120;
    [Kind::Float, Kind::Double]
        .map(|kind| Model::random(config.clone(), 11, Device::Cpu, kind).unwrap())
}

fn request(length: u32, seed: u64, temperature: f32, max_tokens: u32) -> Request {
    Request {
        prompt: (0..length).map(|t| (t * 7 + length * 13) % 60).collect(),
        seed,
        sampling: Sampling {
            temperature,
            top_p: 1.0,
            top_k: 0,
            max_tokens,
        },
        detour: None,
        extras: Extras {
            raw: true,
            ..Extras::default()
        },
    }
}

/// Steps until every request is answered. Before step n those join whose number in `joins` is n.
fn answers(live: &mut Live<'_>, joins: &[(usize, Request)]) -> BTreeMap<usize, Sample> {
    let mut done = BTreeMap::new();
    let mut lengths = BTreeMap::new();
    for step in 0.. {
        for (id, (at, request)) in joins.iter().enumerate() {
            if *at == step {
                live.push(id, request.clone()).unwrap();
            }
        }
        let went_on = live
            .step(|id, sample, end| {
                let length = lengths.entry(id).or_insert(0);
                *length += 1;
                assert_eq!(sample.tokens.len(), *length, "one token a step");
                if end.is_some() {
                    done.insert(id, sample.clone());
                }
            })
            .unwrap();
        if !went_on && joins.iter().all(|(at, _)| *at <= step) {
            break;
        }
    }
    assert_eq!(live.counts(), (0, 0));
    done
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn who_else_is_in_the_batch_changes_nothing(
        kinds in prop::collection::vec((0usize..20, 0usize..4, 0u64..1000, any::<bool>(), 1u32..30), 1..20),
        rows in 1usize..8,
        cache_bytes in prop_oneof![Just(1usize << 30), Just(0), 20_000usize..100_000],
    ) {
        let joins: Vec<(usize, Request)> = kinds
            .iter()
            .map(|(at, length, seed, greedy, tokens)| {
                let temperature = if *greedy { 0.0 } else { 0.9 };
                (*at, request([1, 5, 17, 60][*length], *seed, temperature, *tokens))
            })
            .collect();
        for model in models() {
            let mut live = Live::new(&model, &EOS, Bounds { rows, cache_bytes }, 100).unwrap();
            let done = answers(&mut live, &joins);
            prop_assert_eq!(done.len(), joins.len());
            for (id, (_, request)) in joins.iter().enumerate() {
                let alone = sample(&model, std::slice::from_ref(request), &EOS, |_| {}).unwrap();
                prop_assert_eq!(&done[&id].tokens, &alone[0].tokens);
                prop_assert_eq!(done[&id].end, alone[0].end);
                for (a, b) in done[&id].raw.iter().zip(&alone[0].raw) {
                    prop_assert!((a - b).abs() < 2e-4, "{} and {}", a, b);
                }
            }
        }
    }
}

#[test]
fn a_request_that_is_removed_leaves_its_place_to_the_next() {
    for model in models() {
        let bounds = Bounds {
            rows: 1,
            ..Bounds::default()
        };
        let mut live = Live::new(&model, &[], bounds, 100).unwrap();
        live.push(0, request(5, 1, 1.0, 90)).unwrap();
        live.push(1, request(5, 2, 1.0, 3)).unwrap();
        live.push(2, request(5, 3, 1.0, 3)).unwrap();
        assert!(live.step(|id, _, _| assert_eq!(id, 0)).unwrap());
        assert_eq!(live.counts(), (2, 1));
        live.remove(0);
        live.remove(1);
        let mut ends = Vec::new();
        while live.step(|id, _, end| ends.push((id, end))).unwrap() {}
        let last = Some(End::Length);
        assert_eq!(ends, [(2, None), (2, None), (2, last)]);
    }
}

#[test]
fn requests_that_cannot_be_answered_are_refused_before_they_join() {
    let [model, _] = models();
    let mut live = Live::new(&model, &[], Bounds::default(), 20).unwrap();
    let mut outside = request(3, 1, 1.0, 4);
    outside.prompt.push(60);
    for (wrong, part) in [
        (request(3, 1, 1.0, 0), "no token"),
        (request(10, 1, 1.0, 11), "20"),
        (request(3, 1, f32::NAN, 4), "temperature"),
        (outside, "vocabulary"),
    ] {
        let error = live.push(7, wrong).unwrap_err();
        assert!(matches!(error, Error::Input(_)), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(!live.step(|_, _, _| ()).unwrap());
    live.push(7, request(10, 1, 1.0, 10)).unwrap();
    assert!(live.step(|_, _, _| ()).unwrap());
}

#[test]
fn an_end_token_ends_only_answers_that_heed_it() {
    let [model, _] = models();
    let all: Vec<u32> = (0..60).collect();
    let mut asked = request(5, 4, 1.0, 12);
    let heeding = sample(&model, std::slice::from_ref(&asked), &all, |_| {}).unwrap();
    assert_eq!((heeding[0].tokens.len(), heeding[0].end), (1, End::Token));
    asked.extras.ignore_eos = true;
    let ignoring = sample(&model, std::slice::from_ref(&asked), &all, |_| {}).unwrap();
    assert_eq!(
        (ignoring[0].tokens.len(), ignoring[0].end),
        (12, End::Length)
    );
    assert_eq!(ignoring[0].tokens[0], heeding[0].tokens[0]);
}

#[test]
fn recorded_alternatives_are_the_models_own() {
    for model in models() {
        for temperature in [0.0, 1.0, 0.7] {
            let mut asked = request(5, 4, temperature, 12);
            asked.extras.top = 3;
            let plain = sample(&model, &[request(5, 4, temperature, 12)], &[], |_| {}).unwrap();
            let sampled = sample(&model, std::slice::from_ref(&asked), &[], |_| {}).unwrap();
            let answer = &sampled[0];
            assert_eq!(answer.tokens, plain[0].tokens, "recording changes no draw");
            assert_eq!(answer.top.len(), answer.tokens.len());
            let text = [asked.prompt.as_slice(), &answer.tokens].concat();
            let all = model.logits_all(&text).unwrap();
            for (place, top) in answer.top.iter().enumerate() {
                let row = &all[asked.prompt.len() - 1 + place];
                let mut order: Vec<usize> = (0..row.len()).collect();
                order.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
                assert_eq!(top.len(), 3);
                for ((token, logprob), wanted) in top.iter().zip(order) {
                    assert!((logprob - row[wanted]).abs() < 2e-4);
                    assert!((row[*token as usize] - row[wanted]).abs() < 2e-4);
                }
            }
        }
    }
}

#[test]
fn the_scores_of_a_prompt_are_those_of_teacher_forcing() {
    for model in models() {
        let ids = request(17, 0, 1.0, 1).prompt;
        let scored = model.score_prompt(&ids, 2).unwrap();
        let row: Vec<i64> = ids.iter().map(|id| i64::from(*id)).collect();
        let tensor = Tensor::from_slice(&row).unsqueeze(0);
        let wanted = 1..ids.len();
        let forced = model.scores(&tensor, &[wanted], &[1.0], Plan::LOGPROBS);
        let forced = forced.unwrap().logprobs;
        let all = model.logits_all(&ids).unwrap();
        assert_eq!(scored.len(), ids.len() - 1);
        for (n, (own, forced)) in scored.iter().zip(forced).enumerate() {
            assert!((f64::from(own.logprob) - forced).abs() < 1e-4);
            let best = all[n].iter().copied().fold(f32::MIN, f32::max);
            assert_eq!(own.top.len(), 2);
            assert!((own.top[0].1 - best).abs() < 1e-4 && own.top[0].1 >= own.top[1].1);
            assert!((all[n][own.top[1].0 as usize] - own.top[1].1).abs() < 1e-4);
        }
        assert!(model.score_prompt(&ids[..1], 2).unwrap().is_empty());
        assert!(model.score_prompt(&[], 2).unwrap().is_empty());
        assert!(model.score_prompt(&[60], 0).is_err());
        assert!(model.score_prompt(&ids, 0).unwrap()[0].top.is_empty());
    }
}
