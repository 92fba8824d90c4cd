//! Model folders as they come from elsewhere: with fields that do not matter, heads of their own, quantized weights, pointers, byte-order marks.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::Path;

use flopsmith_policy::chat::Message;
use flopsmith_policy::{
    Adapter, Config, Device, Error, Kind, LoraConfig, Model, Tokenizer, check, inspect, train_bpe,
};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

const EMBEDDING: &str = "model.embed_tokens.weight";
const HEAD: &str = "lm_head.weight";
const WEIGHTS: &str = "model.safetensors";

type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

fn config() -> Config {
    Config::new(300, 16, 24, 2, 4, 2)
}

/// A whole model, with a tokenizer that knows a chat.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::random(config(), 1, Device::Cpu, Kind::Float).unwrap();
    model.save(folder.path()).unwrap();
    let texts = ["for (int i = 0; i < n; i++) { a[i] += b[i]; }".to_owned()];
    let tokenizer = train_bpe(&texts, 300, &["<|end|>", "<|task|>"]).unwrap();
    tokenizer.save(folder.path()).unwrap();
    std::fs::write(
        folder.path().join("chat_template.jinja"),
        "{{ messages[0].content }}{{ eos_token }}",
    )
    .unwrap();
    folder
}

fn load(folder: &Path) -> Result<Model, Error> {
    Model::load(folder, Device::Cpu, Kind::Float)
}

fn edit(folder: &Path, file: &str, change: impl FnOnce(&mut Value)) {
    let path = folder.join(file);
    let mut value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(&path, value.to_string()).unwrap();
}

fn rewrite(folder: &Path, change: impl FnOnce(&mut Tensors)) {
    let bytes = std::fs::read(folder.join(WEIGHTS)).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors = file
        .tensors()
        .into_iter()
        .map(|(n, v)| (n, (v.dtype(), v.shape().to_vec(), v.data().to_vec())))
        .collect();
    change(&mut tensors);
    let views = tensors
        .iter()
        .map(|(n, (d, s, b))| (n.as_str(), TensorView::new(*d, s.clone(), b).unwrap()));
    let bytes = safetensors::serialize(views, None).unwrap();
    std::fs::write(folder.join(WEIGHTS), bytes).unwrap();
}

fn halved(bytes: &[u8]) -> Vec<u8> {
    // bfloat16 is the upper half of a float32.
    bytes.chunks(4).flat_map(|b| [b[2], b[3]]).collect()
}

#[test]
fn a_field_that_is_not_needed_does_not_stop_loading() {
    let cases = [
        ("pad_token_id", json!(-1)),
        ("pad_token_id", json!("<pad>")),
        ("pad_token_id", json!([0])),
        ("bos_token_id", json!(-1)),
        ("bos_token_id", json!([1, 2])),
        ("bos_token_id", json!(1u64 << 40)),
        ("eos_token_id", json!(-1)),
        ("eos_token_id", json!([])),
        ("eos_token_id", json!({"id": 3})),
        ("initializer_range", json!(null)),
        ("initializer_range", json!("0.02")),
        ("initializer_range", json!(-1)),
        ("tie_word_embeddings", json!(null)),
        ("num_key_value_heads", json!(2)),
        ("head_dim", json!(null)),
        ("hidden_act", json!("swish")),
        ("architectures", json!("Qwen2ForCausalLM")),
        ("architectures", json!(null)),
        ("dtype", json!(7)),
        ("torch_dtype", json!({"text": "bfloat16"})),
        ("transformers_version", json!(5)),
        ("attention_dropout", json!("none")),
        ("use_cache", json!("yes")),
        ("auto_map", json!([1])),
        ("sliding_window", json!(-1)),
        ("quantization_config", json!(null)),
    ];
    for (field, value) in cases {
        let folder = folder();
        edit(folder.path(), "config.json", |config| {
            config[field] = value.clone();
        });
        // Where nothing ties them, the head is there.
        if field == "tie_word_embeddings" {
            rewrite(folder.path(), |tensors| {
                tensors.insert(HEAD.into(), tensors[EMBEDDING].clone());
            });
        }
        let model = load(folder.path()).unwrap_or_else(|e| unreachable!("{field} {value}: {e:?}"));
        check(folder.path()).unwrap();
        let written = model.config();
        assert_eq!(
            (written.bos_token_id, written.pad_token_id),
            (None, None),
            "{field} {value}"
        );
        let range = written.initializer_range;
        assert!(range == 0.02, "{field} {value}: {range}");
        // What is written is what anybody reads.
        let again = tempfile::tempdir().unwrap();
        model.save(again.path()).unwrap();
        load(again.path()).unwrap();
    }
}

#[test]
fn ids_of_tokens_that_there_are_are_kept_among_others() {
    let folder = folder();
    let ids = json!([-1, 5, null, 7, 1u64 << 33]);
    edit(folder.path(), "config.json", |config| {
        config["eos_token_id"] = ids.clone();
        config["pad_token_id"] = 3.into();
    });
    let model = load(folder.path()).unwrap();
    assert_eq!(model.config().eos(), [5, 7]);
    assert_eq!(model.config().pad_token_id, Some(3));
    for (file, wanted) in [("generation_config.json", [5, 7]), ("config.json", [5, 7])] {
        if file == "config.json" {
            std::fs::remove_file(folder.path().join("generation_config.json")).unwrap();
        } else {
            edit(folder.path(), file, |config| {
                config["eos_token_id"] = ids.clone();
            });
        }
        assert_eq!(Tokenizer::load(folder.path()).unwrap().eos(), wanted);
    }
    // Where none is left the tokenizer says it.
    edit(folder.path(), "config.json", |config| {
        config["eos_token_id"] = json!([-1]);
    });
    assert_eq!(Tokenizer::load(folder.path()).unwrap().eos(), [0]);
}

#[test]
fn a_sliding_window_is_refused_where_there_is_one() {
    // The model has two blocks and 1024 positions.
    for (fields, fits) in [
        (json!({"sliding_window": 512}), true),
        (json!({"sliding_window": 512, "max_window_layers": 2}), true),
        (
            json!({"sliding_window": 512, "max_window_layers": 1}),
            false,
        ),
        (
            json!({"sliding_window": 1024, "max_window_layers": 1}),
            true,
        ),
        (
            json!({"sliding_window": null, "max_window_layers": 1}),
            true,
        ),
        (
            json!({"sliding_window": 512, "layer_types": ["full_attention", "full_attention"], "max_window_layers": 0}),
            true,
        ),
        (
            json!({"sliding_window": 512, "layer_types": ["full_attention", "sliding_attention"]}),
            false,
        ),
    ] {
        let folder = folder();
        edit(folder.path(), "config.json", |config| {
            config["use_sliding_window"] = true.into();
            for (name, value) in fields.as_object().unwrap() {
                config[name] = value.clone();
            }
        });
        let loaded = load(folder.path());
        assert_eq!(loaded.is_ok(), fits, "{fields}: {loaded:?}");
    }
}

#[test]
fn a_head_that_was_trained_is_used_whatever_the_configuration_says() {
    let folder = folder();
    let tied = load(folder.path()).unwrap();
    rewrite(folder.path(), |tensors| {
        let (dtype, shape, mut bytes) = tensors[EMBEDDING].clone();
        // Another row scores another token.
        bytes.rotate_left(16 * 4);
        tensors.insert(HEAD.into(), (dtype, shape, bytes));
    });
    let untied = load(folder.path()).unwrap();
    assert!(!untied.config().tie_word_embeddings);
    assert!(
        !check(folder.path()).unwrap().tie_word_embeddings,
        "a look says the same"
    );
    assert_eq!(
        untied.parameter_count(),
        tied.parameter_count() + 300 * 16,
        "the head is a matrix of its own"
    );
    let scores = |model: &Model| model.logits_all(&[1, 2]).unwrap().concat();
    let (before, after) = (scores(&tied), scores(&untied));
    let moved: Vec<f32> = before.iter().skip(1).copied().collect();
    let close = |a: &f32, b: &f32| (a - b).abs() < 1e-4;
    assert!(
        after.iter().zip(&moved).take(299).all(|(a, b)| close(a, b)),
        "token n is scored as n + 1 was"
    );
    let seen = inspect(folder.path()).unwrap();
    assert!(seen.untied && seen.loads.is_ok());
    assert_eq!(seen.parameters, untied.parameter_count());

    let saved = tempfile::tempdir().unwrap();
    untied.save(saved.path()).unwrap();
    let text = std::fs::read_to_string(saved.path().join("config.json")).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["tie_word_embeddings"], false);
    assert_eq!(scores(&load(saved.path()).unwrap()), after);
    // What is trained is handed on with its head, and not to a model that has none.
    let weights = untied.weights_bytes().unwrap();
    load(folder.path()).unwrap().set_weights(&weights).unwrap();
    let mut tied = tied;
    let error = tied.set_weights(&weights).unwrap_err();
    assert!(
        matches!(&error, Error::Input(said) if said.contains(HEAD)),
        "{error:?}"
    );
    assert_eq!(scores(&tied), before, "nothing was changed");
}

#[test]
fn a_head_that_repeats_the_embedding_is_tied() {
    let whole = folder();
    let scores = |folder: &Path| {
        let model = load(folder).unwrap();
        assert!(model.config().tie_word_embeddings);
        assert!(!inspect(folder).unwrap().untied);
        model.logits_all(&[1, 2]).unwrap().concat()
    };
    let wanted = scores(whole.path());
    let repeated = folder();
    rewrite(repeated.path(), |tensors| {
        tensors.insert(HEAD.into(), tensors[EMBEDDING].clone());
    });
    assert_eq!(scores(repeated.path()), wanted);
    let renamed = folder();
    rewrite(renamed.path(), |tensors| {
        let embedding = tensors.remove(EMBEDDING).unwrap();
        tensors.insert(HEAD.into(), embedding);
    });
    assert_eq!(scores(renamed.path()), wanted);
    check(renamed.path()).unwrap();
    // In numbers of another kind: what can be told apart in the file is another head.
    let [equal, rounded] = [true, false].map(|equal| {
        let folder = folder();
        rewrite(folder.path(), |tensors| {
            let (_, shape, bytes) = tensors[EMBEDDING].clone();
            let half = halved(&bytes);
            if equal {
                let wide = half.chunks(2).flat_map(|b| [0, 0, b[0], b[1]]).collect();
                tensors.insert(EMBEDDING.into(), (Dtype::F32, shape.clone(), wide));
            }
            tensors.insert(HEAD.into(), (Dtype::BF16, shape, half));
        });
        folder
    });
    assert!(load(equal.path()).unwrap().config().tie_word_embeddings);
    assert!(!load(rounded.path()).unwrap().config().tie_word_embeddings);
    // Of another shape it is no head at all.
    let narrow = folder();
    rewrite(narrow.path(), |tensors| {
        tensors.insert(HEAD.into(), (Dtype::F32, vec![299, 16], vec![0; 299 * 64]));
    });
    let error = load(narrow.path()).unwrap_err().to_string();
    assert!(
        error.contains("lm_head.weight has shape [299, 16]"),
        "{error}"
    );
}

/// The weight of a product of a block, as quantizers name what they make of it.
const STEM: &str = "model.layers.0.mlp.gate_proj";

#[test]
fn quantized_weights_are_called_so() {
    type Change = fn(&mut Tensors);
    let eight_bits: Change = |tensors| {
        let name = format!("{STEM}.weight");
        let (_, shape, bytes) = tensors.remove(&name).unwrap();
        let bytes = vec![0; bytes.len() / 4];
        tensors.insert(name, (Dtype::F8_E4M3, shape, bytes));
    };
    let with_scales: Change = |tensors| {
        tensors.remove(&format!("{STEM}.weight")).unwrap();
        let mut add = |name: &str, dtype| {
            let name = format!("{STEM}.{name}");
            tensors.insert(name, (dtype, vec![2, 2], vec![0; 16]));
        };
        add("qweight", Dtype::I32);
        add("qzeros", Dtype::I32);
        add("scales", Dtype::F32);
    };
    let beside: Change = |tensors| {
        let name = format!("{STEM}.weight_scale_inv");
        tensors.insert(name, (Dtype::F32, vec![1], vec![0; 4]));
    };
    let bytes: Change = |tensors| {
        let name = format!("{STEM}.weight");
        let (_, shape, _) = tensors.remove(&name).unwrap();
        tensors.insert(
            name,
            (Dtype::I8, shape.clone(), vec![0; shape[0] * shape[1]]),
        );
        let name = format!("{STEM}.SCB");
        tensors.insert(name, (Dtype::F32, vec![1], vec![0; 4]));
    };
    for (settings, change, how) in [
        (
            json!({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}),
            eight_bits,
            "fp8",
        ),
        (
            json!({"quantization_config": {"quant_method": "gptq", "bits": 4}}),
            with_scales,
            "gptq",
        ),
        (
            json!({"quantization_config": {"quant_method": "awq"}}),
            with_scales,
            "awq",
        ),
        (
            json!({"quantization_config": {"load_in_8bit": true}}),
            bytes,
            "bitsandbytes",
        ),
        (
            json!({"quantization_config": {"load_in_4bit": true, "quant_method": "bitsandbytes"}}),
            bytes,
            "bitsandbytes",
        ),
        (
            json!({"compression_config": {"format": "pack-quantized"}}),
            with_scales,
            "pack-quantized",
        ),
        (
            json!({"quantization": {"group_size": 64, "bits": 4}}),
            with_scales,
            "`quantization`",
        ),
        // The configuration says nothing.
        (json!({}), with_scales, "GPTQ or AWQ"),
        (json!({}), beside, "FP8"),
        (json!({}), bytes, "bitsandbytes"),
        (json!({}), eight_bits, "F8_E4M3"),
    ] {
        let folder = folder();
        edit(folder.path(), "config.json", |config| {
            for (name, value) in settings.as_object().unwrap() {
                config[name] = value.clone();
            }
        });
        // Settings alone change nothing: the weights are what they should be.
        load(folder.path()).unwrap();
        rewrite(folder.path(), change);
        let error = load(folder.path()).unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, Error::Quantized { .. }), "{error:?}");
        assert!(
            said.contains("are quantized") && said.contains(how),
            "{said}"
        );
        assert_eq!(check(folder.path()).unwrap_err().to_string(), said);
        assert!(inspect(folder.path()).unwrap().loads.is_err());
        // Some have a file of weights of another name.
        let own = folder.path().join("gptq_model-4bit-128g.safetensors");
        std::fs::rename(folder.path().join(WEIGHTS), own).unwrap();
        let error = load(folder.path()).unwrap_err();
        match settings.as_object().unwrap().is_empty() {
            false => assert!(matches!(error, Error::Quantized { .. }), "{error:?}"),
            true => assert!(matches!(error, Error::Input(_)), "{error:?}"),
        }
    }
}

#[test]
fn weights_in_files_that_are_not_read_are_named() {
    for other in [
        "pytorch_model.bin",
        "qwen.Q4_K_M.gguf",
        "consolidated.00.pth",
    ] {
        let folder = folder();
        let (path, other_path) = (folder.path().join(WEIGHTS), folder.path().join(other));
        std::fs::rename(path, other_path).unwrap();
        let error = load(folder.path()).unwrap_err().to_string();
        for words in [WEIGHTS, other, "save_pretrained"] {
            assert!(error.contains(words), "{error}");
        }
    }
}

#[test]
fn a_pointer_in_the_place_of_a_file_is_called_so() {
    const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 3554214621\n";
    let sharded = || {
        let folder = folder();
        let shard = "model-00001-of-00001.safetensors";
        std::fs::rename(folder.path().join(WEIGHTS), folder.path().join(shard)).unwrap();
        let index = json!({"weight_map": {EMBEDDING: shard}}).to_string();
        std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
        folder
    };
    let adapted = || {
        let folder = folder();
        let mut model = load(folder.path()).unwrap();
        model.adapt(LoraConfig::default(), 1).unwrap();
        let adapter: &Adapter = model.adapter().unwrap();
        adapter.save(folder.path(), "").unwrap();
        folder
    };
    for (folder, file) in [
        (folder(), WEIGHTS),
        (folder(), "config.json"),
        (folder(), "tokenizer.json"),
        (folder(), "tokenizer_config.json"),
        (folder(), "generation_config.json"),
        (folder(), "chat_template.jinja"),
        (sharded(), "model-00001-of-00001.safetensors"),
        (sharded(), "model.safetensors.index.json"),
        (adapted(), "adapter_model.safetensors"),
        (adapted(), "adapter_config.json"),
    ] {
        check(folder.path()).unwrap();
        std::fs::write(folder.path().join(file), POINTER).unwrap();
        let error = check(folder.path()).unwrap_err();
        assert!(matches!(error, Error::Pointer { .. }), "{file}: {error:?}");
        assert!(error.is_of_the_input());
        let said = error.to_string();
        for words in [
            file,
            "Git LFS pointer",
            "3554214621 bytes",
            "`git lfs pull`",
        ] {
            assert!(said.contains(words), "{said}");
        }
        // Loading says the same as looking.
        let loaded = load(folder.path()).and_then(|_| Tokenizer::load(folder.path()).map(drop));
        assert_eq!(loaded.unwrap_err().to_string(), said);
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_any_file() {
    let folder = folder();
    let mut model = load(folder.path()).unwrap();
    let wanted = Tokenizer::load(folder.path()).unwrap();
    model.adapt(LoraConfig::default(), 1).unwrap();
    model.adapter().unwrap().save(folder.path(), "").unwrap();
    let shard = "model-00001-of-00001.safetensors";
    std::fs::rename(folder.path().join(WEIGHTS), folder.path().join(shard)).unwrap();
    let index = json!({"weight_map": {EMBEDDING: shard}}).to_string();
    std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
    std::fs::write(folder.path().join("special_tokens_map.json"), "{}").unwrap();
    let mut marked = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|e| e == "json" || e == "jinja")
        {
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, format!("\u{feff}{text}")).unwrap();
            marked += 1;
        }
    }
    assert_eq!(marked, 8);
    check(folder.path()).unwrap();
    load(folder.path()).unwrap();
    let tokenizer = Tokenizer::load(folder.path()).unwrap();
    assert_eq!(tokenizer.eos(), wanted.eos());
    let said = [Message::user("for")];
    assert_eq!(
        tokenizer.encode_chat(&said).unwrap(),
        wanted.encode_chat(&said).unwrap()
    );
    // An adapter names the model below it.
    let place = tempfile::tempdir().unwrap();
    let settings = folder.path().join("adapter_config.json");
    let text = std::fs::read_to_string(&settings).unwrap();
    let base = folder.path().display().to_string();
    let text = text.replace(
        "\"base_model_name_or_path\": \"\"",
        &format!("\"base_model_name_or_path\": \"{base}\""),
    );
    assert!(
        text.starts_with('\u{feff}') && text.contains(&base),
        "{text}"
    );
    std::fs::write(place.path().join("adapter_config.json"), text).unwrap();
    std::fs::rename(
        folder.path().join("adapter_model.safetensors"),
        place.path().join("adapter_model.safetensors"),
    )
    .unwrap();
    std::fs::remove_file(settings).unwrap();
    check(place.path()).unwrap();
}

#[test]
fn a_text_is_encoded_as_it_is_whatever_the_tokenizer_was_made_for() {
    let folder = folder();
    let plain = Tokenizer::load(folder.path()).unwrap();
    let long = "for (int i = 0; i < n; i++) { a[i] += b[i]; }\n".repeat(20);
    let texts = [long.as_str(), "n", ""];
    let ids = |tokenizer: &Tokenizer| {
        texts.map(|text| {
            let chat = tokenizer.encode_chat(&[Message::user(text)]).unwrap();
            [
                tokenizer.encode(text).unwrap(),
                tokenizer.encode_prompt(text).unwrap(),
                chat,
            ]
        })
    };
    let wanted = ids(&plain);
    assert!(wanted[0][0].len() > 100);
    edit(folder.path(), "tokenizer.json", |file| {
        file["truncation"] = json!({
            "direction": "Right", "max_length": 16, "strategy": "LongestFirst", "stride": 0,
        });
        file["padding"] = json!({
            "strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 1, "pad_type_id": 0, "pad_token": "<|task|>",
        });
    });
    let tokenizer = Tokenizer::load(folder.path()).unwrap();
    assert_eq!(ids(&tokenizer), wanted);
    // Others read what is saved so too.
    let again = tempfile::tempdir().unwrap();
    tokenizer.save(again.path()).unwrap();
    let text = std::fs::read_to_string(again.path().join("tokenizer.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&file["truncation"], &file["padding"]),
        (&Value::Null, &Value::Null)
    );
}
