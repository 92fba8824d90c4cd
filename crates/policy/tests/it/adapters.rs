//! Adapters and reward models against the values of PEFT and transformers from the same folders
//! (tools/parity/make_adapters.py).
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flopsmith_policy::{
    Adapter, Config, Device, Extras, Kind, LoraConfig, Model, Plan, Request, Scalar, Slopes,
    Tensor, sample,
};
use flopsmith_protocol::Sampling;
use safetensors::SafeTensors;
use serde::Deserialize;

fn root(kind: &str, committed: &str) -> PathBuf {
    // `make parity` names a folder with new files.
    std::env::var_os("FLOPSMITH_PARITY").map_or_else(
        || {
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests")
                .join(committed)
        },
        |anew| Path::new(&anew).join(kind),
    )
}

fn folders(kind: &str, least: usize) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(root(kind, kind))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    found.sort();
    assert!(found.len() >= least, "{found:?}");
    found
}

fn expected<T: serde::de::DeserializeOwned>(folder: &Path) -> T {
    serde_json::from_str(&std::fs::read_to_string(folder.join("expected.json")).unwrap()).unwrap()
}

#[derive(Deserialize)]
struct Adapted {
    base: String,
    ids: Vec<Vec<i64>>,
    token_logprobs: Vec<Vec<f64>>,
    gradients: BTreeMap<String, Vec<f64>>,
}

fn base(name: &str) -> Model {
    Model::load(
        &root("models", "fixtures").join(name),
        Device::Cpu,
        Kind::Float,
    )
    .unwrap()
}

fn open(folder: &Path) -> (Model, Adapted) {
    let wanted: Adapted = expected(folder);
    let mut model = base(&wanted.base);
    let adapter = Adapter::load(folder, model.config(), Device::Cpu, Kind::Float).unwrap();
    model.attach(adapter).unwrap();
    (model, wanted)
}

fn batch(ids: &[Vec<i64>]) -> Tensor {
    Tensor::from_slice(&ids.concat()).view([ids.len() as i64, -1])
}

fn sines(n: usize) -> Vec<f64> {
    (0..n).map(|i| (i as f64 * 1.3 + 0.5).sin()).collect()
}

fn near(ours: &[f64], theirs: &[f64], relative: f64, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let apart: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a - b).collect();
    assert!(
        norm(&apart) <= relative * norm(theirs),
        "{what}: {} of {}",
        norm(&apart),
        norm(theirs)
    );
}

#[test]
fn adapters_compute_what_pefts_do_forwards_and_backwards() {
    for folder in folders("adapters", 4) {
        let (mut model, wanted) = open(&folder);
        model.set_trainable(true);
        let length = wanted.ids[0].len();
        let pass = model
            .pass(
                &batch(&wanted.ids),
                &vec![1..length; wanted.ids.len()],
                &[1.0],
                Plan::LOGPROBS,
            )
            .unwrap();
        let theirs = wanted.token_logprobs.concat();
        for (a, b) in pass.scores().logprobs.iter().zip(&theirs) {
            assert!((a - b).abs() < 1e-4, "{}: {a} {b}", folder.display());
        }
        let slopes = Slopes {
            logprobs: sines(theirs.len()),
            ..Slopes::default()
        };
        let gradient = model.trained().flat().zeros_like();
        let mut views = model.trained().views_of(&gradient).unwrap();
        pass.back(&slopes, &mut views).unwrap();
        // Written into an adapter, gradients have the names and the order of a file.
        let carrier = Adapter::load(&folder, model.config(), Device::Cpu, Kind::Float).unwrap();
        {
            let _guard = tch::no_grad_guard();
            carrier.parameters().flat().shallow_clone().copy_(&gradient);
        }
        let bytes = carrier.bytes().unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.len(), wanted.gradients.len());
        for (name, theirs) in &wanted.gradients {
            let view = file.tensor(&format!("base_model.model.{name}")).unwrap();
            let ours: Vec<f64> = view
                .data()
                .chunks_exact(4)
                .map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap())))
                .collect();
            near(
                &ours,
                theirs,
                1e-5,
                &format!("{}: {name}", folder.display()),
            );
        }
    }
}

#[test]
fn both_decoders_sample_with_the_adapter() {
    for folder in folders("adapters", 4) {
        let (mut model, wanted) = open(&folder);
        let prompt: Vec<u32> = wanted.ids[0][..6].iter().map(|id| *id as u32).collect();
        let greedy = |model: &Model| {
            let request = Request {
                prompt: prompt.clone(),
                seed: 0,
                sampling: Sampling {
                    temperature: 0.0,
                    top_p: 1.0,
                    top_k: 0,
                    max_tokens: 12,
                },
                detour: None,
                extras: Extras::default(),
            };
            sample(model, &[request], &[], |_| {})
                .unwrap()
                .remove(0)
                .tokens
        };
        // Decoded step by step, and by whole passes.
        let mut ids = prompt.clone();
        for _ in 0..12 {
            let scores = model.logits_all(&ids).unwrap().pop().unwrap();
            let best = (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b]));
            ids.push(best.unwrap() as u32);
        }
        assert_eq!(greedy(&model), ids[prompt.len()..], "{}", folder.display());
        let mut wide = Model::load(
            &root("models", "fixtures").join(&wanted.base),
            Device::Cpu,
            Kind::Double,
        )
        .unwrap();
        wide.attach(Adapter::load(&folder, wide.config(), Device::Cpu, Kind::Double).unwrap())
            .unwrap();
        assert_eq!(greedy(&wide), ids[prompt.len()..], "{}", folder.display());
        model.merge().unwrap();
        assert_eq!(greedy(&model), ids[prompt.len()..], "{}", folder.display());
    }
}

#[test]
fn adapters_are_saved_as_they_were_and_travel_alone() {
    let all: Vec<PathBuf> = folders("adapters", 4);
    for folder in &all {
        let (model, wanted) = open(folder);
        let adapter = model.adapter().unwrap();
        let target = tempfile::tempdir().unwrap();
        adapter.save(target.path(), &wanted.base).unwrap();
        let read = |folder: &Path| {
            let bytes = std::fs::read(folder.join("adapter_model.safetensors")).unwrap();
            let file = SafeTensors::deserialize(&bytes).unwrap();
            let own = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
                (name, (view.shape().to_vec(), view.data().to_vec()))
            };
            file.tensors()
                .into_iter()
                .map(own)
                .collect::<BTreeMap<_, _>>()
        };
        assert!(read(folder) == read(target.path()), "{}", folder.display());
        let again = Adapter::load(target.path(), model.config(), Device::Cpu, Kind::Float).unwrap();
        assert_eq!(again.config(), adapter.config());
        // Like in a generator: the same weights, and a new adapter.
        let mut generator = base(&wanted.base);
        let before = generator.weights_bytes().unwrap();
        let bytes = model.trained_bytes().unwrap();
        assert!(bytes.len() < before.len());
        generator.set_weights(&bytes).unwrap();
        let ids: Vec<u32> = wanted.ids[0].iter().map(|id| *id as u32).collect();
        assert_eq!(
            generator.logits_all(&ids).unwrap(),
            model.logits_all(&ids).unwrap()
        );
        assert!(generator.weights_bytes().unwrap() == before);
        assert!(
            generator.trained_bytes().unwrap() == bytes,
            "equal adapters have equal digests"
        );
        // An adapter of the same shape is replaced in place, so replicas see it.
        let replica = generator.replica().unwrap();
        let fresh = Adapter::fresh(
            model.config(),
            adapter.config().clone(),
            1,
            Device::Cpu,
            Kind::Float,
        );
        generator
            .set_weights(&fresh.unwrap().bytes().unwrap())
            .unwrap();
        let plain = base(&wanted.base).logits_all(&ids).unwrap();
        assert_eq!(replica.logits_all(&ids).unwrap(), plain);
    }
}

#[test]
fn adapters_that_are_not_known_are_refused_by_name() {
    let folder = root("adapters", "adapters").join("queries_values");
    let model = base("gqa_untied");
    let text = std::fs::read_to_string(folder.join("adapter_config.json")).unwrap();
    let weights = std::fs::read(folder.join("adapter_model.safetensors")).unwrap();
    let with = |field: &str, value: serde_json::Value| {
        let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
        file[field] = value;
        let target = tempfile::tempdir().unwrap();
        std::fs::write(target.path().join("adapter_config.json"), file.to_string()).unwrap();
        std::fs::write(target.path().join("adapter_model.safetensors"), &weights).unwrap();
        let error = Adapter::load(target.path(), model.config(), Device::Cpu, Kind::Float);
        error.unwrap_err().to_string()
    };
    use serde_json::json;
    for (field, value, said) in [
        ("peft_type", json!("IA3"), "`IA3`"),
        ("use_dora", json!(true), "`use_dora`"),
        ("init_lora_weights", json!("pissa"), "`init_lora_weights`"),
        ("rank_pattern", json!({ "q_proj": 2 }), "`rank_pattern`"),
        ("bias", json!("all"), "`bias`"),
        ("modules_to_save", json!(["lm_head"]), "`lm_head`"),
        ("r", json!(2.5), "`r`"),
        ("target_modules", json!(["q_proj", "router"]), "`router`"),
        ("target_modules", json!("q_.*"), "`target_modules`"),
        (
            "target_modules",
            json!(["model.layers.0.self_attn.q_proj"]),
            "some blocks",
        ),
        // Missing tensors and superfluous ones, each with its name.
        (
            "target_modules",
            json!(["q_proj", "k_proj"]),
            "model.layers.1.self_attn.k_proj.lora_B.weight is missing",
        ),
        (
            "target_modules",
            json!(["q_proj", "k_proj"]),
            "model.layers.0.self_attn.v_proj.lora_A.weight is not part",
        ),
    ] {
        let error = with(field, value);
        assert!(error.contains(said), "{error}");
    }
    let error = Adapter::from_bytes(
        &model.weights_bytes().unwrap(),
        model.config(),
        Device::Cpu,
        Kind::Float,
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("weights of a model")
    );
}

#[test]
fn a_folder_with_an_adapter_is_a_model() {
    let (model, wanted) = open(&root("adapters", "adapters").join("all"));
    let ids: Vec<u32> = wanted.ids[0].iter().map(|id| *id as u32).collect();
    let said = model.logits_all(&ids).unwrap();
    let models = root("models", "fixtures").join(&wanted.base);
    let place = tempfile::tempdir().unwrap();
    let [alone, both] = ["alone", "both"].map(|name| place.path().join(name));
    model
        .adapter()
        .unwrap()
        .save(&alone, models.to_str().unwrap())
        .unwrap();
    let load = |folder: &Path| Model::load(folder, Device::Cpu, Kind::Float);
    assert_eq!(load(&alone).unwrap().logits_all(&ids).unwrap(), said);
    assert_eq!(Model::check(&alone).unwrap(), *model.config());
    model
        .adapter()
        .unwrap()
        .save(&both, "somewhere/else")
        .unwrap();
    let error = load(&both).unwrap_err().to_string();
    assert!(
        error.contains("`somewhere/else`, but no folder of this name"),
        "{error}"
    );
    let error = model.save(&both).unwrap_err().to_string();
    assert!(error.contains("merge the adapter first"), "{error}");
    model.bare().unwrap().save(&both).unwrap();
    assert_eq!(load(&both).unwrap().logits_all(&ids).unwrap(), said);
}

#[test]
fn an_adapter_makes_a_reward_model_of_a_policy() {
    let models = root("models", "fixtures").join("gqa_untied");
    let ids = [3, 1, 4, 1, 5];
    let mut policy = base("gqa_untied");
    policy.adapt(LoraConfig::default(), 3).unwrap();
    {
        let _guard = tch::no_grad_guard();
        let flat = policy
            .adapter()
            .unwrap()
            .parameters()
            .flat()
            .shallow_clone();
        let _same = flat.shallow_clone().f_add_scalar_(0.05).unwrap();
    }
    let said = policy.logits_all(&ids).unwrap();
    // First with values, as in training: the adapter and the probabilities stay the same.
    let valued = policy.with_scalar(Scalar::Value, 1).unwrap();
    assert_eq!(valued.logits_all(&ids).unwrap(), said);
    let valued_folder = tempfile::tempdir().unwrap();
    let named = models.to_str().unwrap();
    let adapter = valued.adapter().unwrap();
    adapter.save(valued_folder.path(), named).unwrap();
    let load = |folder: &Path| Model::load(folder, Device::Cpu, Kind::Float).unwrap();
    let again = load(valued_folder.path());
    assert_eq!(again.logits_all(&ids).unwrap(), said);
    let reward = valued.with_scalar(Scalar::Score, 1).unwrap();
    let scored = reward.reward(&ids).unwrap();
    assert_ne!(scored, 0.0);
    let folder = tempfile::tempdir().unwrap();
    reward
        .adapter()
        .unwrap()
        .save(folder.path(), named)
        .unwrap();
    let mut again = load(folder.path());
    assert_eq!(again.config().scalar, Scalar::Score);
    assert_eq!(again.reward(&ids).unwrap(), scored);
    assert_eq!(Model::check(folder.path()).unwrap(), *again.config());
    // With one head it is a reward model.
    again.merge().unwrap();
    let whole = tempfile::tempdir().unwrap();
    again.save(whole.path()).unwrap();
    let merged = load(whole.path()).reward(&ids).unwrap();
    assert!((merged - scored).abs() < 1e-5, "{merged} {scored}");
}

#[derive(Deserialize)]
struct Reward {
    ids: Vec<Vec<i64>>,
    scores: Vec<f64>,
    gradient_of_score: Vec<f64>,
    gradient_of_last_norm: Vec<f64>,
}

#[test]
fn reward_models_score_as_those_of_transformers() {
    for folder in folders("rewards", 2) {
        let wanted: Reward = expected(&folder);
        let mut model = Model::load(&folder, Device::Cpu, Kind::Float).unwrap();
        assert_eq!(model.config().scalar, Scalar::Score);
        model.set_trainable(true);
        let length = wanted.ids[0].len();
        let whole = Plan {
            logprobs: false,
            values: true,
            ..Plan::LOGPROBS
        };
        let ends = vec![length..length + 1; wanted.ids.len()];
        let pass = model
            .pass(&batch(&wanted.ids), &ends, &[1.0], whole)
            .unwrap();
        near(&pass.scores().values, &wanted.scores, 1e-5, "scores");
        let slopes = Slopes {
            values: sines(wanted.scores.len()),
            ..Slopes::default()
        };
        let gradient = model.trained().flat().zeros_like();
        let mut views = model.trained().views_of(&gradient).unwrap();
        pass.back(&slopes, &mut views).unwrap();
        let of = |name: &str| {
            let at = model
                .trained()
                .slots()
                .iter()
                .position(|s| s.name == name)
                .unwrap();
            Vec::<f64>::try_from(&views[at].reshape([-1]).to_kind(Kind::Double)).unwrap()
        };
        near(
            &of("score.weight"),
            &wanted.gradient_of_score,
            1e-5,
            "score",
        );
        near(
            &of("model.norm.weight"),
            &wanted.gradient_of_last_norm,
            1e-5,
            "norm",
        );
        // Saved and opened again it is the same, with the settings that transformers needs.
        let target = tempfile::tempdir().unwrap();
        model.save(target.path()).unwrap();
        let again = Model::load(target.path(), Device::Cpu, Kind::Float).unwrap();
        assert_eq!(again.base().flat(), model.base().flat());
        let written = Config::load(target.path()).unwrap();
        assert_eq!(written.scalar, Scalar::Score);
    }
}

#[test]
fn a_language_model_becomes_a_reward_model_or_a_policy_with_values() {
    let policy = base("gqa_untied");
    let ids = [3, 1, 4, 1, 5];
    let said = policy.logits_all(&ids).unwrap();
    let valued = policy.with_scalar(Scalar::Value, 1).unwrap();
    assert_eq!(valued.logits_all(&ids).unwrap(), said);
    // Other readers ignore the head for values.
    let target = tempfile::tempdir().unwrap();
    valued.save(target.path()).unwrap();
    let plain = Model::load(target.path(), Device::Cpu, Kind::Float).unwrap();
    assert_eq!(plain.config().scalar, Scalar::None);
    assert_eq!(plain.logits_all(&ids).unwrap(), said);
    let mut generator = base("gqa_untied");
    generator
        .set_weights(&valued.weights_bytes().unwrap())
        .unwrap();
    let reward = valued.with_scalar(Scalar::Score, 1).unwrap();
    // An adapter also trains the head, and continues from it.
    let mut adapted = reward.replica().unwrap();
    adapted.adapt(LoraConfig::default(), 3).unwrap();
    assert_eq!(adapted.reward(&ids).unwrap(), reward.reward(&ids).unwrap());
    assert_ne!(reward.reward(&ids).unwrap(), 0.0);
    reward.save(target.path()).unwrap();
    let file = std::fs::read_to_string(target.path().join("config.json")).unwrap();
    assert!(file.contains("Qwen2ForSequenceClassification"), "{file}");
    let again = Model::load(target.path(), Device::Cpu, Kind::Float).unwrap();
    assert_eq!(again.base().flat(), reward.base().flat());
    // And back: its head for the vocabulary is gone, so a plain one samples nothing.
    assert!(reward.logits_all(&ids).is_err());
}
