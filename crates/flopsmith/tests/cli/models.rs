//! `model` and `sft`: properties and answers of a model, and training a new one.

use std::path::Path;
use std::process::Output;

use flopsmith_protocol::Digest;
use serde_json::Value;

use crate::{as_shipped, assert_keys, flopsmith, last_object, root, run};

const STARTER: &str = "models/starter";

fn said(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    said
}

#[test]
fn the_log_probabilities_of_a_model_are_of_its_whole_vocabulary_at_every_position() {
    let output = run(&["model", "inspect", STARTER, "--tokens", "1,2,3"]);
    said(&output);
    let object = last_object(&output);
    assert_keys(&object, "tokens logprobs", "");
    assert_eq!(object["tokens"], serde_json::json!([1, 2, 3]));
    let config = std::fs::read(root().join(STARTER).join("config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    let rows: Vec<Vec<f64>> = serde_json::from_value(object["logprobs"].clone()).unwrap();
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert_eq!(Some(row.len() as u64), config["vocab_size"].as_u64());
        let sum: f64 = row.iter().map(|logprob| logprob.exp()).sum();
        assert!((sum - 1.0).abs() < 1e-3, "{sum}");
    }
    assert!(
        rows[0] != rows[1],
        "what was read before makes no difference"
    );
}

#[test]
fn the_memory_of_a_model_is_planned_as_text_and_as_json() {
    let text = run(&["model", "plan", STARTER, "--gpu", "24GiB", "--group", "4"]);
    said(&text);
    let lines = String::from_utf8(text.stdout).unwrap();
    for part in [
        "train an adapter: fits",
        "8 tasks of 4, up to 1024 positions",
        "[learner.lora]",
    ] {
        assert!(lines.contains(part), "{part}: {lines}");
    }
    let output = run(&["model", "plan", STARTER, "--format", "json"]);
    said(&output);
    let plan = last_object(&output);
    assert_keys(
        &plan,
        "parameters adapter_parameters gpu_bytes context answers ways settings",
        "",
    );
    assert_eq!(plan["gpu_bytes"], 80u64 << 30);
    assert_eq!(plan["ways"].as_array().map(Vec::len), Some(3));
    // The starter is smaller than a GiB.
    assert!(
        !lines.contains(" 0.0 GiB") && lines.contains(" MiB"),
        "{lines}"
    );
    assert!(!lines.contains("0.00 billion"), "{lines}");
    let none = run(&["model", "plan", STARTER, "--gpu", "1MiB"]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    let output = run(&["model", "plan", STARTER, "--context", "5000"]);
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("1024 positions"), "{words}");
}

#[test]
fn a_model_writes_as_many_programs_as_it_is_asked_for() {
    let sample = |more: &[&str]| {
        // Like in its corpus, and close to its most likely answer.
        let prompt = "// dgemm: unroll simd\n";
        let begin = ["model", "sample", STARTER, "--prompt", prompt];
        run(&[&begin[..], &["--temperature", "0.2"][..], more].concat())
    };
    let two = sample(&["--number", "2"]);
    let words = said(&two);
    assert!(words.contains("prompt: "), "{words}");
    assert_eq!(words.matches("ended by itself").count(), 2, "{words}");
    let programs = String::from_utf8(two.stdout).unwrap();
    let entries = programs.matches("void dgemm(int n,").count();
    assert_eq!(entries, 2, "{programs}");

    let words = said(&sample(&["--max-tokens", "5"]));
    assert!(
        words.contains("sample 1: 5 tokens, cut at the limit"),
        "{words}"
    );
}

/// The keys of a supervised training's report.
pub const TRAINING: &str = "steps skipped first_loss last_loss val_loss perplexity positions tokens tokens_per_s seconds \
    stopped";

/// The smallest size: every tokenizer has a token for each byte.
const RECIPE: &str = r#"
problem = "dgemm"
seed = 3
validation = 4

[model]
start = "random"
vocab_size = 400
hidden_size = 16
intermediate_size = 32
num_hidden_layers = 1
num_attention_heads = 2
num_key_value_heads = 1

[corpus]
examples = 40

[sft]
learning_rate = 1e-3
steps = 2
batch_tokens = 1024
"#;

#[test]
fn a_recipe_makes_a_model_that_can_be_used() {
    let place = tempfile::tempdir().unwrap();
    let recipe = place.path().join("recipe.toml");
    std::fs::write(&recipe, RECIPE).unwrap();
    let model = place.path().join("model");
    // Left over from another training.
    std::fs::create_dir(&model).unwrap();
    std::fs::write(model.join("corpus_best.c"), "void dgemm();").unwrap();
    let mut sft = flopsmith();
    sft.args(["sft", "--format", "json"]).arg(&recipe);
    let output = sft.arg("--output").arg(&model).output().unwrap();
    let words = said(&output);
    assert!(words.contains("update 2/2: loss "), "{words}");

    let made = last_object(&output);
    let training = &made["training"];
    assert_keys(
        &made,
        "model training parameters examples distinct_programs mean_tokens longest_tokens technique_sets held_out samples \
         correct_rate mean_gflops corpus_best_gflops",
        "unmeasured corpus_programs_tried machine",
    );
    assert_keys(training, TRAINING, "");
    assert_eq!(training["steps"], 2, "{made}");
    assert_eq!(training["stopped"], false, "{made}");
    // It has learned almost nothing: each of at most 400 tokens is about as likely as any other.
    for loss in ["first_loss", "last_loss", "val_loss"] {
        let loss = training[loss].as_f64().unwrap();
        assert!(loss > 3.0 && loss < 9.0, "{made}");
    }
    assert_eq!(made["examples"], 44, "{made}");
    assert!(made["distinct_programs"].as_u64().unwrap() > 20, "{made}");
    assert_eq!(
        made["held_out"],
        serde_json::json!([["register_blocking", "simd"]])
    );
    assert_eq!(made["samples"], 0, "it was not asked to be looked at");
    let kept = std::fs::read(model.join("evaluation.json")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept, made);
    let weights = std::fs::read(model.join("model.safetensors")).unwrap();
    assert_eq!(made["model"], Digest::of(&weights).to_string());
    assert!(!model.join("corpus_best.c").exists());

    let folder = model.to_str().unwrap();
    let output = run(&["model", "inspect", folder, "--format", "json"]);
    said(&output);
    let found = last_object(&output);
    assert_keys(
        &found,
        "architecture config parameters memory_bytes cache_bytes_per_token untied tokenizer chat_template loads",
        "",
    );
    assert_keys(&found["tokenizer"]["ok"], "tokens eos chat_template", "");
    assert_eq!(found["parameters"], made["parameters"], "{found}");
    assert!(found["loads"].get("ok").is_some(), "{found}");
    assert!(found["tokenizer"].get("ok").is_some(), "{found}");
}

/// Trains a model by this recipe in a folder with an earlier one; returns output and exit code. The earlier one must
/// stay.
fn refused(recipe: &str, path: Option<&Path>) -> (String, Option<i32>) {
    const EARLIER: [&str; 3] = ["model.safetensors", "evaluation.json", "corpus_best.c"];
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("recipe.toml");
    std::fs::write(&file, recipe).unwrap();
    for name in EARLIER {
        std::fs::write(place.path().join(name), name).unwrap();
    }
    let mut sft = flopsmith();
    sft.arg("sft").arg(&file);
    if let Some(path) = path {
        sft.env("PATH", path);
    }
    let output = sft.output().unwrap();
    for name in EARLIER {
        let kept = std::fs::read_to_string(place.path().join(name)).unwrap();
        assert_eq!(kept, name);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("update "), "{said}");
    (said, output.status.code())
}

#[test]
fn missing_tools_of_the_evaluation_are_reported_before_the_training() {
    let recipe = RECIPE.replace("validation = 4", "validation = 4\nevaluate_samples = 1");
    assert_ne!(recipe, RECIPE);
    // A PATH without a compiler and, unless it lies at a usual path, without the jail.
    let nothing = tempfile::tempdir().unwrap();
    let (said, code) = refused(&recipe, Some(nothing.path()));
    assert_eq!(code, Some(3), "{said}");
}

#[test]
fn a_recipe_whose_corpus_comes_out_short_is_wrong_usage() {
    let recipe = RECIPE.replace("examples = 40", "examples = 40\nhold_out = [[]]");
    assert_ne!(recipe, RECIPE);
    let (said, code) = refused(&recipe, None);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("40 examples to train on and 4 to validate on, and its corpus has 0"),
        "{said}"
    );
}

#[test]
fn a_configuration_that_needs_another_model_says_how_to_name_it() {
    let check = |file: &str, more: &[&str]| {
        let mut command = as_shipped();
        command.args(["config", "check", file]).args(more);
        command.output().unwrap()
    };
    let lacking = ["--set", "generator.model=no/such/model"];
    for (file, more) in [
        // It asks in words, and the starter has no chat template.
        ("examples/paper-dgemm.toml", &[][..]),
        ("examples/dgemm.toml", &lacking[..]),
    ] {
        let output = check(file, more);
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {words}");
        assert!(words.contains("--set generator.model=FOLDER"), "{words}");
    }
}
