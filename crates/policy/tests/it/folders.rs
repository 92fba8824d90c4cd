//! Invalid model folders, and the output of `inspect` for them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::HashMap;
use std::error::Error as _;
use std::path::Path;

use flopsmith_policy::{Config, Device, Error, Kind, Model, check, inspect, train_bpe};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

fn config() -> Config {
    Config::new(300, 16, 24, 2, 4, 2)
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    Model::random(config(), 1, Device::Cpu, Kind::Float)
        .unwrap()
        .save(folder.path())
        .unwrap();
    folder
}

fn load(folder: &Path) -> Error {
    Model::load(folder, Device::Cpu, Kind::Float).unwrap_err()
}

fn rewrite(folder: &Path, change: impl FnOnce(&mut HashMap<String, (Dtype, Vec<usize>, Vec<u8>)>)) {
    let path = folder.join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let mut tensors = SafeTensors::deserialize(&bytes)
        .unwrap()
        .tensors()
        .into_iter()
        .map(|(n, v)| (n, (v.dtype(), v.shape().to_vec(), v.data().to_vec())))
        .collect();
    change(&mut tensors);
    let views = tensors
        .iter()
        .map(|(n, (d, s, b))| (n.as_str(), TensorView::new(*d, s.clone(), b).unwrap()));
    std::fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
}

fn set(folder: &Path, field: &str, value: serde_json::Value) {
    let path = folder.join("config.json");
    let mut config: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config[field] = value;
    std::fs::write(&path, config.to_string()).unwrap();
}

#[test]
fn every_tensor_that_does_not_fit_is_listed_at_once() {
    let folder = folder();
    rewrite(folder.path(), |t| {
        t.remove("model.layers.1.self_attn.k_proj.bias").unwrap();
        t.remove("model.norm.weight").unwrap();
        let down = t.get_mut("model.layers.0.mlp.down_proj.weight").unwrap();
        down.1 = vec![24, 16];
        let gate = t.get_mut("model.layers.0.mlp.gate_proj.weight").unwrap();
        gate.0 = Dtype::I32;
        t.insert("surprise".into(), (Dtype::F32, vec![1], vec![0; 4]));
    });
    let error = load(folder.path());
    let Error::Weights { problems, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(problems.len(), 5, "{problems:?}");
    let text = error.to_string();
    for words in [
        "model.layers.1.self_attn.k_proj.bias is missing",
        "model.norm.weight is missing",
        "model.layers.0.mlp.down_proj.weight has shape [24, 16] instead of [16, 24]",
        "model.layers.0.mlp.gate_proj.weight has kind I32",
        "surprise is not part of this model",
    ] {
        assert!(text.contains(words), "{text}");
    }
    let seen = inspect(folder.path()).unwrap();
    assert!(matches!(seen.loads, Err(Error::Weights { .. })));
}

#[test]
fn however_many_do_not_fit_each_is_named() {
    let folder = folder();
    let mut names = Vec::new();
    rewrite(folder.path(), |t| {
        names = t.keys().filter(|n| n.contains("layers")).cloned().collect();
        t.retain(|name, _| !name.contains("layers"));
        for n in 0..12 {
            let name = format!("surprise.{n}");
            t.insert(name.clone(), (Dtype::F32, vec![1], vec![0; 4]));
            names.push(name);
        }
    });
    assert!(names.len() > 30, "{names:?}");
    let text = load(folder.path()).to_string();
    for name in &names {
        assert!(text.contains(name.as_str()), "{name} is not in {text}");
    }
    assert_eq!(text.lines().count(), names.len() + 1, "{text}");
}

#[test]
fn a_tokenizer_with_tokens_that_the_model_has_not_is_refused() {
    let with = |vocabulary: i64| {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = train_bpe(&["int i;".to_owned()], 300, &["<end>"]).unwrap();
        tokenizer.save(folder.path()).unwrap();
        let shape = Config::new(vocabulary, 16, 24, 2, 4, 2);
        Model::random(shape, 1, Device::Cpu, Kind::Float)
            .unwrap()
            .save(folder.path())
            .unwrap();
        (folder, tokenizer.highest_id())
    };
    let (enough, highest) = with(300);
    check(enough.path()).unwrap();
    let (short, _) = with(i64::from(highest));
    let error = check(short.path()).unwrap_err().to_string();
    let words = format!("up to number {highest}, but `vocab_size` of config.json is {highest}");
    assert!(error.contains(&words), "{error}");
    assert!(inspect(short.path()).unwrap().tokenizer.is_err());
    let (exact, _) = with(i64::from(highest) + 1);
    check(exact.path()).unwrap();
}

#[test]
fn harmless_surplus_is_passed_over_and_half_precision_is_widened() {
    let folder = folder();
    rewrite(folder.path(), |t| {
        let head = t["model.embed_tokens.weight"].clone();
        t.insert("lm_head.weight".into(), head);
        t.insert(
            "model.layers.0.self_attn.rotary_emb.inv_freq".into(),
            (Dtype::F32, vec![2], vec![0; 8]),
        );
        for (dtype, _, bytes) in t.values_mut() {
            *dtype = Dtype::BF16;
            // bfloat16 is the upper half of a float32.
            *bytes = bytes.chunks(4).flat_map(|b| [b[2], b[3]]).collect();
        }
    });
    let model = Model::load(folder.path(), Device::Cpu, Kind::Float).unwrap();
    assert_eq!(model.kind(), Kind::Float);
    let exact = Model::random(config(), 1, Device::Cpu, Kind::Float).unwrap();
    let difference = (model.base().flat() - exact.base().flat())
        .abs()
        .max()
        .double_value(&[]);
    assert!(difference > 0.0 && difference < 0.001, "{difference}");
}

#[test]
fn damaged_weights_are_named() {
    let folder = folder();
    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    for damaged in [
        &bytes[..bytes.len() - 9],
        &bytes[..20],
        b"",
        b"no tensors in here",
    ] {
        std::fs::write(&path, damaged).unwrap();
        let error = load(folder.path());
        assert!(matches!(error, Error::Safetensors { .. }), "{error:?}");
        assert!(error.to_string().contains("model.safetensors"));
        assert!(error.source().is_some());
    }
    std::fs::remove_file(&path).unwrap();
    let error = load(folder.path());
    assert!(matches!(error, Error::Read { .. }) && error.to_string().contains("model.safetensors"));
}

#[test]
fn an_index_cannot_lead_out_of_its_folder() {
    let folder = folder();
    std::fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    for shard in ["../secret", "/etc/passwd", ".."] {
        let index = serde_json::json!({"weight_map": {"model.norm.weight": shard}}).to_string();
        std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
        assert!(matches!(load(folder.path()), Error::Input(m) if m.contains(shard)));
    }
    let index = serde_json::json!({"weight_map": {"model.norm.weight": "model-1.safetensors"}});
    std::fs::write(
        folder.path().join("model.safetensors.index.json"),
        index.to_string(),
    )
    .unwrap();
    assert!(
        load(folder.path())
            .to_string()
            .contains("model-1.safetensors")
    );
}

#[test]
fn configurations_that_cannot_be_run_are_named() {
    let cases = [
        (
            "model_type",
            "gpt_bigcode".into(),
            "architecture `gpt_bigcode`",
        ),
        ("hidden_act", "gelu".into(), "`hidden_act`"),
        ("num_key_value_heads", 3.into(), "`num_key_value_heads`"),
        ("hidden_size", 18.into(), "`hidden_size`"),
        ("head_dim", 3.into(), "`head_dim`"),
        ("num_hidden_layers", 0.into(), "`num_hidden_layers`"),
        ("vocab_size", (-1).into(), "`vocab_size`"),
        ("rms_norm_eps", 0.into(), "`rms_norm_eps`"),
        (
            "rope_scaling",
            serde_json::json!({"type": "longrope", "factor": 4.0}),
            "rotary scaling `longrope`",
        ),
        ("vocab_size", "many".into(), "no usable JSON"),
        // Sizes that would take too much memory to list, or exceed the range of a number.
        (
            "num_hidden_layers",
            4_000_000_000u32.into(),
            "`num_hidden_layers`",
        ),
        ("hidden_size", (1i64 << 32).into(), "`hidden_size`"),
        (
            "intermediate_size",
            (1i64 << 32).into(),
            "`intermediate_size`",
        ),
        ("vocab_size", (1i64 << 32).into(), "`vocab_size`"),
        ("head_dim", (1i64 << 40).into(), "`head_dim`"),
        (
            "max_position_embeddings",
            (1i64 << 32).into(),
            "`max_position_embeddings`",
        ),
    ];
    for (field, value, words) in cases {
        let folder = folder();
        set(folder.path(), field, value);
        let error = load(folder.path());
        assert!(error.to_string().contains(words), "{field}: {error}");
        assert!(inspect(folder.path()).is_err());
    }
    let nowhere = tempfile::tempdir().unwrap();
    assert!(load(nowhere.path()).to_string().contains("config.json"));
}

#[test]
fn biases_that_llama_models_do_not_have_here_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut llama = config();
    llama.model_type = "llama".into();
    let model = Model::random(llama, 1, Device::Cpu, Kind::Float).unwrap();
    model.save(folder.path()).unwrap();
    Model::load(folder.path(), Device::Cpu, Kind::Float).unwrap();
    for field in ["attention_bias", "mlp_bias"] {
        set(folder.path(), field, true.into());
        let error = load(folder.path()).to_string();
        assert!(error.contains(field), "{error}");
        set(folder.path(), field, false.into());
    }
}

#[test]
fn unknown_fields_survive_saving() {
    let folder = folder();
    set(folder.path(), "sliding_window", 131_072.into());
    let model = Model::load(folder.path(), Device::Cpu, Kind::BFloat16).unwrap();
    let target = tempfile::tempdir().unwrap();
    model.save(target.path()).unwrap();
    let text = std::fs::read_to_string(target.path().join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(config["sliding_window"], 131_072);
    assert_eq!(config["dtype"], "bfloat16");
    assert_eq!(config["architectures"][0], "Qwen2ForCausalLM");
}

#[test]
fn inspecting_a_good_folder_says_what_it_is() {
    let folder = folder();
    let seen = inspect(folder.path()).unwrap();
    assert!(seen.tokenizer.is_err());
    train_bpe(&["for (;;) {}".to_owned()], 300, &["<|end|>"])
        .unwrap()
        .save(folder.path())
        .unwrap();
    let seen = inspect(folder.path()).unwrap();
    assert_eq!(seen.architecture, "qwen2");
    let (h, i, v, d) = (16, 24, 300, 4);
    let block = 2 * h + 3 * h * i + (4 + 2 + 2) * d * (h + 1) + 4 * d * h;
    assert_eq!(seen.parameters, v * h + 2 * block + h);
    assert_eq!(seen.cache_bytes_per_token["float32"], 2 * 2 * 2 * d * 4);
    assert!(seen.memory_bytes["float32"] >= 4 * seen.parameters);
    assert_eq!(seen.tokenizer.as_ref().unwrap().eos, [0]);
    assert!(seen.loads.is_ok());
    let json = serde_json::to_value(&seen).unwrap();
    assert!(json["loads"].get("ok").is_some() && json["tokenizer"]["ok"]["tokens"].is_u64());
}

#[test]
fn a_look_at_the_headers_says_what_loading_would() {
    let folder = folder();
    assert_eq!(Model::check(folder.path()).unwrap().vocab_size, 300);
    let error = check(folder.path()).unwrap_err();
    assert!(error.to_string().contains("tokenizer.json"), "{error}");
    train_bpe(&["for (;;) {}".to_owned()], 260, &["<|end|>"])
        .unwrap()
        .save(folder.path())
        .unwrap();
    assert_eq!(check(folder.path()).unwrap().vocab_size, 300);

    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    rewrite(folder.path(), |t| {
        t.remove("model.norm.weight").unwrap();
    });
    let error = check(folder.path()).unwrap_err();
    assert_eq!(error.to_string(), load(folder.path()).to_string());
    assert!(error.to_string().contains("model.norm.weight is missing"));
    // The header of a truncated file already shows it.
    std::fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
    let error = check(folder.path()).unwrap_err();
    assert!(matches!(error, Error::Safetensors { .. }), "{error:?}");
    std::fs::write(&path, &bytes).unwrap();
    set(folder.path(), "num_hidden_layers", 1.into());
    assert!(check(folder.path()).is_err());
}
