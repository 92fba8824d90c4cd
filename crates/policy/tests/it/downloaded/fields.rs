//! Fields of configurations that are not needed, or whose values change nothing.

use super::*;

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
        // Without tying, the head has its own weights.
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
        // The saved folder can be read again.
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
    // If none is left, the tokenizer names it.
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
