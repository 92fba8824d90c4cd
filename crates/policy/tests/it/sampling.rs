//! Sampling against teacher forcing, alone and in a batch.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::ops::ControlFlow;
use std::sync::Arc;

use flopsmith_policy::{
    Bounds, Config, Detour, Device, End, Error, Extras, Kind, Model, Plan, Request, Sample, Stops,
    Tensor, sample, sample_stream, sample_while, train_bpe,
};
use flopsmith_protocol::Sampling;

fn model(kv_heads: i64) -> Model {
    let mut config = Config::new(50, 32, 48, 2, 4, kv_heads);
    config.initializer_range = 0.3;
    config.max_position_embeddings = 700;
    Model::random(config, 11, Device::Cpu, Kind::Float).unwrap()
}

fn plain(max_tokens: u32) -> Sampling {
    Sampling {
        temperature: 1.0,
        top_p: 1.0,
        top_k: 0,
        max_tokens,
    }
}

/// Requests with prompts of several lengths, some of them equal, and several lengths of answers.
fn mixed(n: usize) -> Vec<Request> {
    (0..n)
        .map(|i| Request {
            detour: None,
            extras: Extras::default(),
            prompt: (0..[5, 9, 5, 17][i % 4])
                .map(|t| ((t * 7 + (i % 3) * 13) % 50) as u32)
                .collect(),
            seed: i as u64 * 1000 + 1,
            sampling: plain(8 + (i * 5 % 23) as u32),
        })
        .collect()
}

fn forced(model: &Model, request: &Request, answer: &Sample, temperature: f64) -> Vec<f32> {
    let ids: Vec<i64> = request
        .prompt
        .iter()
        .chain(&answer.tokens)
        .map(|t| i64::from(*t))
        .collect();
    let wanted = request.prompt.len()..ids.len();
    let ids = Tensor::from_slice(&ids).unsqueeze(0);
    let scored = model.scores(&ids, &[wanted], &[temperature], Plan::LOGPROBS);
    let logprobs = scored.unwrap().logprobs;
    logprobs.into_iter().map(|x| x as f32).collect()
}

fn assert_near(ours: &[f32], wanted: &[f32], what: &str) {
    assert_eq!(ours.len(), wanted.len(), "{what}");
    for (a, b) in ours.iter().zip(wanted) {
        assert!((a - b).abs() < 2e-4, "{what}: {a} and {b}");
    }
}

#[test]
fn log_probabilities_are_those_the_learner_computes() {
    for kv_heads in [1, 2, 4] {
        let model = model(kv_heads);
        let requests = mixed(21);
        let answers = sample(&model, &requests, &[3], |_| {}).unwrap();
        assert_eq!(answers.len(), requests.len());
        for (i, (request, answer)) in requests.iter().zip(&answers).enumerate() {
            assert_near(
                &answer.logprobs,
                &forced(&model, request, answer, 1.0),
                &format!("row {i}, {kv_heads} key heads"),
            );
        }
    }
}

#[test]
fn a_temperature_enters_the_log_probabilities() {
    let model = model(2);
    let mut requests = mixed(6);
    for (i, request) in requests.iter_mut().enumerate() {
        request.sampling.temperature = 0.5 + 0.25 * i as f32;
    }
    let answers = sample(&model, &requests, &[], |_| {}).unwrap();
    for (request, answer) in requests.iter().zip(&answers) {
        let t = f64::from(request.sampling.temperature);
        assert_near(
            &answer.logprobs,
            &forced(&model, request, answer, t),
            "tempered",
        );
    }
}

#[test]
fn company_changes_nothing() {
    let model = model(2);
    let requests = mixed(24);
    let together = sample(&model, &requests, &[3, 4], |_| {}).unwrap();
    for (request, wanted) in requests.iter().zip(&together) {
        let alone = sample(&model, std::slice::from_ref(request), &[3, 4], |_| {}).unwrap();
        assert_eq!(alone[0].tokens, wanted.tokens);
        assert_eq!(alone[0].finished, wanted.finished);
        assert_near(&alone[0].logprobs, &wanted.logprobs, "alone");
    }
    let mut turned = requests.clone();
    turned.reverse();
    let mut answers = sample(&model, &turned, &[3, 4], |_| {}).unwrap();
    answers.reverse();
    for (a, b) in answers.iter().zip(&together) {
        assert_eq!(a.tokens, b.tokens);
    }
}

#[test]
fn seeds_tell_samples_apart() {
    let model = model(4);
    let requests: Vec<Request> = (0..16)
        .map(|seed| Request {
            detour: None,
            extras: Extras::default(),
            prompt: vec![1, 2, 3],
            seed,
            sampling: plain(20),
        })
        .collect();
    let answers = sample(&model, &requests, &[], |_| {}).unwrap();
    let mut distinct: Vec<_> = answers.iter().map(|a| &a.tokens).collect();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 16);
}

#[test]
fn an_end_token_ends_and_is_part_of_the_answer() {
    let model = model(2);
    let requests = mixed(32);
    let ends = [3, 7, 11, 19, 23, 31, 42];
    let answers = sample(&model, &requests, &ends, |_| {}).unwrap();
    assert!(answers.iter().any(|a| a.finished));
    for (request, answer) in requests.iter().zip(&answers) {
        let (last, before) = answer.tokens.split_last().unwrap();
        assert_eq!(answer.finished, ends.contains(last));
        assert!(before.iter().all(|t| !ends.contains(t)));
        let most = request.sampling.max_tokens as usize;
        assert!(answer.tokens.len() == most || (answer.finished && answer.tokens.len() < most));
        assert_eq!(answer.tokens.len(), answer.logprobs.len());
    }
}

#[test]
fn greedy_and_a_top_k_of_one_take_the_likeliest() {
    let model = model(2);
    let prompt = vec![5u32, 6, 7];
    let mut wanted = Vec::new();
    for _ in 0..12 {
        let ids: Vec<u32> = prompt.iter().chain(&wanted).copied().collect();
        let last = model.logits_all(&ids).unwrap().pop().unwrap();
        let best = (0..50)
            .max_by(|a, b| last[*a].total_cmp(&last[*b]))
            .unwrap();
        wanted.push(best as u32);
    }
    let requests = [
        Sampling {
            temperature: 0.0,
            ..plain(12)
        },
        Sampling {
            top_k: 1,
            ..plain(12)
        },
        Sampling {
            top_p: 1e-6,
            ..plain(12)
        },
    ]
    .map(|sampling| Request {
        detour: None,
        extras: Extras::default(),
        prompt: prompt.clone(),
        seed: 9,
        sampling,
    });
    for answer in sample(&model, &requests, &[], |_| {}).unwrap() {
        assert_eq!(answer.tokens, wanted);
        assert!(answer.logprobs.iter().all(|p| *p == 0.0));
    }
}

#[test]
fn a_cut_distribution_is_renormalized() {
    let model = model(2);
    let request = Request {
        detour: None,
        extras: Extras::default(),
        prompt: vec![8, 9],
        seed: 4,
        sampling: Sampling {
            top_k: 3,
            ..plain(30)
        },
    };
    let answer = sample(&model, std::slice::from_ref(&request), &[], |_| {})
        .unwrap()
        .remove(0);
    let full = forced(&model, &request, &answer, 1.0);
    for (step, (cut, full)) in answer.logprobs.iter().zip(&full).enumerate() {
        let ids: Vec<u32> = request
            .prompt
            .iter()
            .chain(&answer.tokens[..step])
            .copied()
            .collect();
        let mut all = model.logits_all(&ids).unwrap().pop().unwrap();
        all.sort_by(|a, b| b.total_cmp(a));
        let mass: f32 = all[..3].iter().map(|p| p.exp()).sum();
        assert!(all[..3].iter().any(|p| (p - full).abs() < 1e-4));
        assert!((cut - (full - mass.ln())).abs() < 2e-4);
    }
}

#[test]
fn a_long_stretch_of_masked_columns_does_no_harm() {
    // Attention kernels work in blocks of 512 columns: one row is masked over a whole block.
    let model = model(2);
    let long = Request {
        detour: None,
        extras: Extras::default(),
        prompt: (0..640).map(|t| t % 50).collect(),
        seed: 1,
        sampling: plain(6),
    };
    let short = Request {
        detour: None,
        extras: Extras::default(),
        prompt: vec![4],
        seed: 2,
        sampling: plain(6),
    };
    let answers = sample(&model, &[short.clone(), long.clone()], &[], |_| {}).unwrap();
    for (request, answer) in [short, long].iter().zip(&answers) {
        assert_near(
            &answer.logprobs,
            &forced(&model, request, answer, 1.0),
            "masked",
        );
    }
}

#[test]
fn progress_counts_every_token_and_can_stop() {
    let model = model(2);
    let requests = mixed(10);
    let mut seen = Vec::new();
    let answers = sample(&model, &requests, &[3], |n| seen.push(n)).unwrap();
    let total: usize = answers.iter().map(|a| a.tokens.len()).sum();
    assert_eq!(seen.last(), Some(&total));
    assert!(seen.windows(2).all(|w| w[0] < w[1]));
    let mut calls = 0;
    let stopped = sample_while(&model, &requests, &[], |_| {
        calls += 1;
        if calls == 3 {
            std::ops::ControlFlow::Break(())
        } else {
            std::ops::ControlFlow::Continue(())
        }
    });
    assert!(matches!(stopped, Err(Error::Stopped)));
    assert_eq!(calls, 3);
}

#[test]
fn requests_that_cannot_be_answered_are_refused_by_number() {
    let model = model(2);
    let good = Request {
        detour: None,
        extras: Extras::default(),
        prompt: vec![1],
        seed: 0,
        sampling: plain(4),
    };
    let bad = [
        (
            Request {
                prompt: vec![],
                ..good.clone()
            },
            "the prompt is empty",
        ),
        (
            Request {
                prompt: vec![50],
                ..good.clone()
            },
            "token 50",
        ),
        (
            Request {
                sampling: plain(700),
                ..good.clone()
            },
            "700 positions",
        ),
        (
            Request {
                sampling: Sampling {
                    temperature: -1.0,
                    ..plain(4)
                },
                ..good.clone()
            },
            "temperature -1",
        ),
        (
            Request {
                sampling: Sampling {
                    temperature: f32::NAN,
                    ..plain(4)
                },
                ..good.clone()
            },
            "temperature NaN",
        ),
        (
            Request {
                sampling: Sampling {
                    top_p: 0.0,
                    ..plain(4)
                },
                ..good.clone()
            },
            "top_p 0",
        ),
    ];
    for (request, words) in bad {
        let error = sample(&model, &[good.clone(), request], &[], |_| {})
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("request 1") && error.contains(words),
            "{error}"
        );
    }
    let nothing = Request {
        sampling: plain(0),
        ..good
    };
    let answers = sample(&model, &[nothing], &[], |_| {}).unwrap();
    assert!(answers[0].tokens.is_empty() && !answers[0].finished);
    assert!(sample(&model, &[], &[], |_| {}).unwrap().is_empty());
}

#[test]
fn a_model_gone_astray_is_an_error() {
    let model = model(2);
    let _ = model.base().flat().shallow_clone().fill_(f64::NAN);
    let request = Request {
        detour: None,
        extras: Extras::default(),
        prompt: vec![1],
        seed: 0,
        sampling: plain(4),
    };
    assert!(matches!(
        sample(&model, &[request], &[], |_| {}),
        Err(Error::Scores)
    ));
}

#[test]
fn a_detour_exchanges_one_token_and_goes_on_from_there() {
    let model = model(2);
    // Every other token is of the kind.
    let kind: std::sync::Arc<[bool]> = (0..50).map(|id| id % 2 == 0).collect();
    let of_kind = |tokens: &[u32]| -> Vec<usize> {
        (0..tokens.len())
            .filter(|t| kind[tokens[*t] as usize])
            .collect()
    };
    for request in mixed(12) {
        let straight = &sample(&model, std::slice::from_ref(&request), &[], |_| {}).unwrap()[0];
        let places = of_kind(&straight.tokens);
        for at in 0..4u32 {
            let other = Request {
                extras: Extras::default(),
                detour: Some(Detour {
                    kind: std::sync::Arc::clone(&kind),
                    at,
                }),
                ..request.clone()
            };
            let answer = &sample(&model, std::slice::from_ref(&other), &[], |_| {}).unwrap()[0];
            let Some(&place) = places.get(at as usize) else {
                assert_eq!(answer, straight, "too short for a detour");
                continue;
            };
            assert_eq!(answer.tokens[..place], straight.tokens[..place]);
            assert_ne!(answer.tokens[place], straight.tokens[place]);
            assert!(kind[answer.tokens[place] as usize]);
            // The probabilities are the policy's own, also at the mutated token.
            assert_near(
                &answer.logprobs,
                &forced(&model, &other, answer, 1.0),
                "detour",
            );
        }
    }
}

#[test]
fn raw_log_probabilities_are_the_models_own_whatever_is_drawn_from() {
    let model = model(2);
    for (temperature, top_k) in [(0.6, 0), (1.7, 0), (0.0, 0), (1.0, 5), (1.3, 7)] {
        let mut requests = mixed(6);
        for request in &mut requests {
            request.sampling.temperature = temperature;
            request.sampling.top_k = top_k;
            request.extras.raw = true;
        }
        for (request, answer) in requests
            .iter()
            .zip(sample(&model, &requests, &[], |_| {}).unwrap())
        {
            assert_near(&answer.raw, &forced(&model, request, &answer, 1.0), "raw");
            if top_k == 0 && temperature > 0.0 {
                let drawn = forced(&model, request, &answer, f64::from(temperature));
                assert_near(&answer.logprobs, &drawn, "drawn");
            }
        }
        // Recording them does not change the draws.
        let noted = sample(&model, &requests, &[], |_| {}).unwrap();
        requests.iter_mut().for_each(|r| r.extras.raw = false);
        let plain = sample(&model, &requests, &[], |_| {}).unwrap();
        let tokens = |all: &[Sample]| all.iter().map(|s| s.tokens.clone()).collect::<Vec<_>>();
        assert_eq!(tokens(&noted), tokens(&plain));
        assert!(plain.iter().all(|s| s.raw.is_empty()));
    }
}

#[test]
fn min_p_leaves_out_what_is_unlikely_beside_the_likeliest() {
    let model = model(2);
    let mut requests = mixed(12);
    for request in &mut requests {
        request.extras.min_p = 0.5;
        request.extras.raw = true;
    }
    let answers = sample(&model, &requests, &[], |_| {}).unwrap();
    for (request, answer) in requests.iter().zip(&answers) {
        let ids = [&request.prompt[..], &answer.tokens].concat();
        let all = model.logits_all(&ids).unwrap();
        for (n, token) in answer.tokens.iter().enumerate() {
            let scores = &all[request.prompt.len() + n - 1];
            let best = scores.iter().copied().fold(f32::MIN, f32::max);
            assert!(scores[*token as usize] > best + 0.5f32.ln() - 1e-3);
        }
    }
    requests.iter_mut().for_each(|r| r.extras.min_p = 1.0);
    let likeliest = sample(&model, &requests, &[], |_| {}).unwrap();
    requests.iter_mut().for_each(|r| {
        r.extras.min_p = 0.0;
        r.sampling.temperature = 0.0;
    });
    let greedy = sample(&model, &requests, &[], |_| {}).unwrap();
    for (a, b) in likeliest.iter().zip(&greedy) {
        assert_eq!(a.tokens, b.tokens);
    }
    requests[3].extras.min_p = 1.5;
    let refused = sample(&model, &requests, &[], |_| {}).unwrap_err();
    assert!(
        refused.to_string().contains("request 3: min_p 1.5"),
        "{refused}"
    );
}

#[test]
fn answers_end_at_stop_strings_and_in_circles_and_are_shown_as_they_grow() {
    let texts: Vec<String> = (0..40)
        .map(|i| format!("for (int i = {i}; i < n; i += {i}) C[i] = 0.5 * {i};\n"))
        .collect();
    let tokenizer = Arc::new(train_bpe(&texts, 300, &["<|end|>"]).unwrap());
    let mut config = Config::new(tokenizer.vocab_size() as i64, 32, 48, 2, 4, 2);
    config.initializer_range = 0.3;
    let model = Model::random(config, 3, Device::Cpu, Kind::Float).unwrap();
    let request = |extras: &Extras| Request {
        detour: None,
        extras: extras.clone(),
        prompt: tokenizer.encode("for (").unwrap(),
        seed: 4,
        sampling: plain(400),
    };
    let free = sample(&model, &[request(&Extras::default())], &[], |_| {}).unwrap();
    assert_eq!((free[0].end, free[0].finished), (End::Length, false));
    let text = tokenizer.decode_with_specials(&free[0].tokens).unwrap();
    // A passage from its middle that consists of whole characters.
    let chars: Vec<char> = text.chars().collect();
    let middle: String = chars[chars.len() / 2..][..4].iter().collect();
    assert!(!middle.contains('\u{fffd}'), "{middle:?}");
    let stops = Stops::new(Arc::clone(&tokenizer), [middle.clone(), String::new()]);
    let extras = Extras {
        stops: Some(Arc::new(stops.clone())),
        ..Extras::default()
    };
    let mut shown = Vec::new();
    let stopped = sample_stream(
        &model,
        &[request(&extras)],
        &[],
        Bounds::default(),
        |tokens| {
            shown.extend_from_slice(tokens);
            ControlFlow::Continue(())
        },
    )
    .unwrap();
    assert_eq!((stopped[0].end, stopped[0].finished), (End::Stop, true));
    let said = tokenizer.decode_with_specials(&stopped[0].tokens).unwrap();
    let first = text.find(&middle).unwrap();
    assert_eq!(stops.cut(&said), &text[..first]);
    let without_last = &stopped[0].tokens[..stopped[0].tokens.len() - 1];
    let before = tokenizer.decode_with_specials(without_last).unwrap();
    assert!(!before.contains(&middle), "it ended later than it could");
    assert!(free[0].tokens.starts_with(&stopped[0].tokens));
    let written: Vec<(usize, u32)> = stopped[0].tokens.iter().map(|t| (0, *t)).collect();
    assert_eq!(shown, written);
    // Without weights all tokens are equally likely, and the first of them is always the likeliest.
    let mut empty = model.config().clone();
    empty.initializer_range = 0.0;
    let empty = Model::random(empty, 3, Device::Cpu, Kind::Float).unwrap();
    let mut greedy = request(&Extras {
        repeats: 3,
        ..Extras::default()
    });
    greedy.sampling.temperature = 0.0;
    let round = sample(&empty, &[greedy], &[], |_| {}).unwrap();
    assert_eq!((round[0].end, round[0].finished), (End::Repetition, false));
    assert!(round[0].tokens.len() < 400);
}

#[test]
fn the_coldest_temperatures_take_the_likeliest_token() {
    let model = model(2);
    let at = |temperature: f32| {
        let mut requests = mixed(4);
        requests
            .iter_mut()
            .for_each(|r| r.sampling.temperature = temperature);
        let answers = sample(&model, &requests, &[], |_| {}).unwrap();
        answers.into_iter().map(|a| a.tokens).collect::<Vec<_>>()
    };
    for temperature in [1e-45, 1e-38, 1e-20, 1e-6] {
        assert_eq!(at(temperature), at(0.0), "{temperature}");
    }
}

#[test]
fn the_start_of_a_stop_string_is_not_certain() {
    let tokenizer = Arc::new(train_bpe(&["a b".into()], 260, &["<|end|>"]).unwrap());
    let stops = Stops::new(tokenizer, ["\n}".into(), "STOP".into()]);
    for (text, certain) in [
        ("x = 1;", "x = 1;"),
        ("x = 1;\n", "x = 1;"),
        ("x = 1;\n ", "x = 1;\n "),
        ("x = 1;\n}\n", "x = 1;"),
        ("ST", ""),
        ("a STO", "a "),
        ("a STOPS\n", "a "),
    ] {
        assert_eq!(stops.certain(text), certain, "{text:?}");
    }
}
