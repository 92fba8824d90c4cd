//! Models that do not fit into memory.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Map, Value, json};

use crate::root;
use crate::service::Service;

/// Width of the feed-forward layer of the large model.
const WIDE: u64 = 1_800_000;

/// Limit of a command's address space, KiB. The model's file takes 2 GiB of it; in single precision its weights would
/// take 4 more.
const ROOM: u32 = 6 << 20;

/// With this limit the model fits in bfloat16, but not the activations of a step of many samples.
const ROOM_OF_THE_WEIGHTS: u32 = 13 << 19;

/// A model like the starter with one feed-forward layer of two GiB of weights in bfloat16, which are zeros in a sparse
/// file.
fn large_model(folder: &Path) {
    let starter = root().join("models/starter");
    std::fs::create_dir(folder).unwrap();
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        if starter.join(file).exists() {
            std::fs::copy(starter.join(file), folder.join(file)).unwrap();
        }
    }
    let text = std::fs::read(starter.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&text).unwrap();
    config["num_hidden_layers"] = json!(1);
    config["intermediate_size"] = json!(WIDE);
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let number = |key: &str| config[key].as_u64().unwrap();
    let (hidden, vocabulary) = (number("hidden_size"), number("vocab_size"));
    let keys = hidden / number("num_attention_heads") * number("num_key_value_heads");
    let block = |name: &str| format!("model.layers.0.{name}");
    let tensors: Vec<(String, Vec<u64>)> = vec![
        ("model.embed_tokens.weight".into(), vec![vocabulary, hidden]),
        ("model.norm.weight".into(), vec![hidden]),
        (block("input_layernorm.weight"), vec![hidden]),
        (block("post_attention_layernorm.weight"), vec![hidden]),
        (block("self_attn.q_proj.weight"), vec![hidden, hidden]),
        (block("self_attn.q_proj.bias"), vec![hidden]),
        (block("self_attn.k_proj.weight"), vec![keys, hidden]),
        (block("self_attn.k_proj.bias"), vec![keys]),
        (block("self_attn.v_proj.weight"), vec![keys, hidden]),
        (block("self_attn.v_proj.bias"), vec![keys]),
        (block("self_attn.o_proj.weight"), vec![hidden, hidden]),
        (block("mlp.gate_proj.weight"), vec![WIDE, hidden]),
        (block("mlp.up_proj.weight"), vec![WIDE, hidden]),
        (block("mlp.down_proj.weight"), vec![hidden, WIDE]),
    ];
    let mut header = Map::new();
    let mut end = 0;
    for (name, shape) in tensors {
        let begin = end;
        end += 2 * shape.iter().product::<u64>();
        let entry = json!({ "dtype": "BF16", "shape": shape, "data_offsets": [begin, end] });
        header.insert(name, entry);
    }
    let header = Value::Object(header).to_string();
    let mut file = File::create(folder.join("model.safetensors")).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes())
        .unwrap();
    file.write_all(header.as_bytes()).unwrap();
    let whole = 8 + header.len() as u64 + end;
    file.write_all_at(&[0], whole - 1).unwrap();
}

/// Runs it with this limit of address space.
fn within(room: u32, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    let limited = format!("ulimit -v {room}; exec \"$0\" \"$@\"");
    command
        .args(["-c", &limited, env!("CARGO_BIN_EXE_flopsmith")])
        .args(arguments)
        .current_dir(root())
        .env("FLOPSMITH_WAIT", "0")
        .stdin(Stdio::null());
    command.output().unwrap()
}

fn tells(output: &Output, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
    // The place in libtorch does not matter.
    assert!(!said.contains("frame #"), "{said}");
}

#[test]
fn memory_errors_name_the_settings_to_lower() {
    let place = tempfile::tempdir().unwrap();
    let model = place.path().join("large");
    large_model(&model);
    let model = model.to_str().unwrap();

    let sample = [
        "model",
        "sample",
        model,
        "--prompt",
        "a",
        "--max-tokens",
        "2",
    ];
    tells(
        &within(ROOM, &sample),
        &["memory is short", "--dtype bfloat16"],
    );
    let many = ["--dtype", "bfloat16", "-n", "256"];
    tells(
        &within(ROOM_OF_THE_WEIGHTS, &[&sample[..], &many[..]].concat()),
        &["memory is short", "`-n`", "intermediate results"],
    );

    let pair = json!({ "problem": "p", "prompt": "a", "fast": "b", "slow": "c", "fast_s": 1.0, "slow_s": 2.0 });
    std::fs::write(place.path().join("pairs.jsonl"), format!("{pair}\n")).unwrap();
    let recipe = place.path().join("recipe.toml");
    let text = format!("model = \"{model}\"\npairs = \"pairs.jsonl\"\n[dpa]\nsteps = 1\n");
    std::fs::write(&recipe, text).unwrap();
    let output = place.path().join("made");
    let (recipe, output) = (recipe.to_str().unwrap(), output.to_str().unwrap());
    let align = ["dpa", recipe, "--output", output];
    let wanted = ["memory is short", "[dpa.lora]", "dtype = \"bfloat16\""];
    tells(&within(ROOM, &align), &wanted);

    let runs = place.path().join("runs");
    let set = format!("generator.model={model}");
    let train = [
        "train",
        "examples/dgemm.toml",
        "--runs",
        runs.to_str().unwrap(),
        "--set",
        &set,
        "--set",
        "evaluate.quarantine=false",
    ];
    // Learner or generator, whichever fails first.
    tells(
        &within(ROOM, &train),
        &["not fit", "bfloat16", "tried to allocate"],
    );
}

#[test]
fn services_without_a_model_keep_no_code_of_libtorch_in_memory() {
    let place = tempfile::tempdir().unwrap();
    for (command, folder, page, words) in [
        ("ui", "--runs", "GET /", "no runs"),
        ("serve", "--folder", "GET /v1/health", "\"status\""),
    ] {
        let mut service = crate::flopsmith();
        service.args([command, "--listen", "127.0.0.1:0", folder]);
        let service = Service::start(service.arg(place.path()));
        let told = service.ask(page, "");
        assert!(told.contains(words), "{command}: {told}");
        let resident = of_libtorch(service.id());
        // Its pages come back in blocks around each that the process touches; loading it makes 48 MB resident.
        assert!(
            resident < 16 << 10,
            "{command}: {resident} kB of libtorch's files"
        );
    }
}

/// Resident unchanged pages of libtorch's files in a process, kB.
fn of_libtorch(process: u32) -> i64 {
    let smaps = std::fs::read_to_string(format!("/proc/{process}/smaps")).unwrap();
    assert!(smaps.contains("/libtorch"));
    let (mut of_libtorch, mut resident) = (false, 0);
    for line in smaps.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first {
            // Tables of addresses that the loader changed lie in memory alone.
            "Rss:" if of_libtorch => resident += kilobytes(rest),
            "Anonymous:" if of_libtorch => resident -= kilobytes(rest),
            _ if !first.ends_with(':') => of_libtorch = rest.contains("/libtorch"),
            _ => {}
        }
    }
    resident
}

fn kilobytes(figure: &str) -> i64 {
    figure.trim().trim_end_matches(" kB").parse().unwrap()
}
