//! The model against the values of transformers from the same folders (tools/parity/make_fixtures.py).
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flopsmith_policy::{Device, Extras, Kind, Model, Plan, Request, Tensor, sample};
use flopsmith_protocol::Sampling;
use safetensors::SafeTensors;
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    ids: Vec<Vec<u32>>,
    token_logprobs: Vec<Vec<f32>>,
    greedy: Vec<Vec<u32>>,
    every_fifth_position_of_row_0: Vec<Vec<f32>>,
    token_logprobs_in_bfloat16: Vec<Vec<f32>>,
    seeded: Vec<Seeded>,
}

/// An answer drawn from transformers' probabilities by the numbers of the sampler's generator, which a script
/// implements a second time.
#[derive(Deserialize)]
struct Seeded {
    prompt: Vec<u32>,
    seed: u64,
    temperature: f32,
    top_k: u32,
    top_p: f32,
    min_p: f32,
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    raw: Vec<f32>,
}

fn fixtures() -> Vec<(PathBuf, Expected)> {
    // `make parity` names a folder with new files.
    let root = std::env::var_os("FLOPSMITH_PARITY").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"),
        |anew| Path::new(&anew).join("models"),
    );
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("expected.json").exists())
        .collect();
    folders.sort();
    assert!(folders.len() >= 13, "{folders:?}");
    folders
        .into_iter()
        .map(|folder| {
            let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
            (folder, serde_json::from_str(&text).unwrap())
        })
        .collect()
}

fn open(folder: &Path) -> Model {
    Model::load(folder, Device::Cpu, Kind::Float).unwrap()
}

fn batch(rows: &[Vec<u32>]) -> Tensor {
    let flat: Vec<i64> = rows.iter().flatten().map(|id| i64::from(*id)).collect();
    Tensor::from_slice(&flat).view([rows.len() as i64, -1])
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

#[test]
fn log_probabilities_are_those_of_transformers() {
    for (folder, expected) in fixtures() {
        let model = open(&folder);
        let all = model.logits_all(&expected.ids[0]).unwrap();
        assert_eq!(all.len(), expected.ids[0].len());
        for (ours, theirs) in all
            .iter()
            .step_by(5)
            .zip(&expected.every_fifth_position_of_row_0)
        {
            let d = largest_difference(ours, theirs);
            assert!(d < 1e-4, "{}: {d}", folder.display());
        }
        let length = expected.ids[0].len();
        let wanted = vec![1..length; expected.ids.len()];
        let ours = model
            .scores(&batch(&expected.ids), &wanted, &[1.0], Plan::LOGPROBS)
            .unwrap()
            .logprobs;
        let ours: Vec<f32> = ours.into_iter().map(|x| x as f32).collect();
        let d = largest_difference(&ours, &expected.token_logprobs.concat());
        assert!(d < 1e-4, "{}: {d}", folder.display());
    }
}

#[test]
fn greedy_answers_are_those_of_transformers() {
    for (folder, expected) in fixtures() {
        let model = open(&folder);
        let requests: Vec<Request> = expected
            .ids
            .iter()
            .map(|row| Request {
                prompt: row[..8].to_vec(),
                seed: 0,
                sampling: Sampling {
                    temperature: 0.0,
                    top_p: 1.0,
                    top_k: 0,
                    max_tokens: 16,
                },
                detour: None,
                extras: Extras::default(),
            })
            .collect();
        let answers = sample(&model, &requests, &model.config().eos(), |_| {}).unwrap();
        let tokens: Vec<_> = answers.into_iter().map(|a| a.tokens).collect();
        assert_eq!(tokens, expected.greedy, "{}", folder.display());
    }
}

/// All answers of a model at once: a sample must not depend on the others or on their settings.
#[test]
fn seeded_answers_are_those_drawn_from_transformers_probabilities() {
    for (folder, expected) in fixtures() {
        let model = open(&folder);
        assert!(expected.seeded.len() >= 8);
        let request = |s: &Seeded| Request {
            prompt: s.prompt.clone(),
            seed: s.seed,
            sampling: Sampling {
                temperature: s.temperature,
                top_p: s.top_p,
                top_k: s.top_k,
                max_tokens: s.tokens.len() as u32,
            },
            detour: None,
            extras: Extras {
                min_p: s.min_p,
                raw: true,
                ..Extras::default()
            },
        };
        let requests: Vec<Request> = expected.seeded.iter().map(request).collect();
        let answers = sample(&model, &requests, &model.config().eos(), |_| {}).unwrap();
        for (answer, wanted) in answers.iter().zip(&expected.seeded) {
            let case = format!("{} seed {}", folder.display(), wanted.seed);
            assert_eq!(answer.tokens, wanted.tokens, "{case}");
            let drawn = largest_difference(&answer.logprobs, &wanted.logprobs);
            let raw = largest_difference(&answer.raw, &wanted.raw);
            assert!(drawn < 1e-4 && raw < 1e-4, "{case}: {drawn} {raw}");
        }
    }
}

/// Name → shape and bytes of every tensor of a folder, over all its files.
fn tensors(folder: &Path) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "safetensors") {
            let bytes = std::fs::read(path).unwrap();
            for (name, view) in SafeTensors::deserialize(&bytes).unwrap().tensors() {
                found.insert(name, (view.shape().to_vec(), view.data().to_vec()));
            }
        }
    }
    found
}

/// The kind of a folder's weights.
fn stored_kind(folder: &Path) -> Kind {
    let text = std::fs::read_to_string(folder.join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    match config["dtype"].as_str().unwrap() {
        "bfloat16" => Kind::BFloat16,
        "float16" => Kind::Half,
        "float32" => Kind::Float,
        other => unreachable!("{other}"),
    }
}

#[test]
fn saved_models_equal_loaded_ones_bit_for_bit() {
    for (folder, _) in fixtures() {
        let target = tempfile::tempdir().unwrap();
        let open = |folder: &Path| Model::load(folder, Device::Cpu, stored_kind(folder)).unwrap();
        let model = open(&folder);
        model.save(target.path()).unwrap();
        // A failure does not print the values: there are too many.
        let same = tensors(&folder) == tensors(target.path());
        assert!(same, "{}", folder.display());
        let again = open(target.path());
        // Files carry both spellings of the rotary base and of the kind; the shape must be the same.
        assert_eq!(again.config().theta(), model.config().theta());
        assert_eq!(again.config().rope, model.config().rope);
        assert_eq!(again.config().eos(), model.config().eos());
        assert_eq!(again.base().flat(), model.base().flat());
        let names: Vec<_> = std::fs::read_dir(target.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .filter(|n| n.starts_with('.'))
            .collect();
        assert!(names.is_empty(), "left behind: {names:?}");
    }
}

#[test]
fn weights_travel_as_bytes_and_replicas_see_them() {
    let (folder, expected) = fixtures().remove(0);
    let source = open(&folder);
    let mut target = Model::random(source.config().clone(), 3, Device::Cpu, Kind::Float).unwrap();
    let replica = target.replica().unwrap();
    let before = replica.logits_all(&expected.ids[0]).unwrap();
    target
        .set_weights(&source.weights_bytes().unwrap())
        .unwrap();
    let wanted = source.logits_all(&expected.ids[0]).unwrap();
    assert_ne!(before, wanted);
    assert_eq!(target.logits_all(&expected.ids[0]).unwrap(), wanted);
    assert_eq!(replica.logits_all(&expected.ids[0]).unwrap(), wanted);
}

#[test]
fn weights_that_do_not_fit_change_nothing() {
    let (folder, _) = fixtures().remove(0);
    let mut model = open(&folder);
    let before = model.base().flat().copy();
    let mut config = model.config().clone();
    config.num_hidden_layers = 1;
    let other = Model::random(config, 3, Device::Cpu, Kind::Float).unwrap();
    let error = model
        .set_weights(&other.weights_bytes().unwrap())
        .unwrap_err();
    assert!(error.to_string().contains("model.layers.1."), "{error}");
    assert_eq!(*model.base().flat(), before);
}

#[test]
fn half_precision_stays_near() {
    for (folder, expected) in fixtures() {
        let model = Model::load(&folder, Device::Cpu, Kind::BFloat16).unwrap();
        let ours = model.logits_all(&expected.ids[0]).unwrap();
        let exact = open(&folder).logits_all(&expected.ids[0]).unwrap();
        for (a, b) in ours.iter().zip(&exact) {
            // bfloat16 has 8 bits: some hundredths of logits that reach about ten.
            assert!(largest_difference(a, b) < 0.5, "{}", folder.display());
        }
        // Rounded at other places, and no farther from single precision.
        let wanted = vec![1..expected.ids[0].len(); expected.ids.len()];
        let ours = model
            .scores(&batch(&expected.ids), &wanted, &[1.0], Plan::LOGPROBS)
            .unwrap()
            .logprobs;
        let ours: Vec<f32> = ours.into_iter().map(|x| x as f32).collect();
        let exact = expected.token_logprobs.concat();
        let theirs = expected.token_logprobs_in_bfloat16.concat();
        let away = |from: &[f32]| {
            let sum: f32 = from.iter().zip(&exact).map(|(a, b)| (a - b).abs()).sum();
            sum / exact.len() as f32
        };
        let (here, there) = (away(&ours), away(&theirs));
        eprintln!("{}: {here} here, {there} there", folder.display());
        assert!(here <= 1.5 * there, "{}: {here} {there}", folder.display());
    }
}

#[test]
fn the_same_seed_draws_the_same_model() {
    let config = open(&fixtures()[0].0).config().clone();
    let draw = |seed| Model::random(config.clone(), seed, Device::Cpu, Kind::Float).unwrap();
    assert_eq!(draw(5).base().flat(), draw(5).base().flat());
    assert_ne!(draw(5).base().flat(), draw(6).base().flat());
    let model = draw(5);
    for ((name, p), slot) in model.base().leaves().iter().zip(model.base().slots()) {
        let std = p.std(false).double_value(&[]);
        if slot.is_matrix() {
            assert!((std - 0.02).abs() < 0.003, "{name}: {std}");
        } else {
            assert_eq!(std, 0.0, "{name}");
        }
    }
}
