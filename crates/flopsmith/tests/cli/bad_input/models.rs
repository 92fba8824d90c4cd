//! Model folders that are damaged or incomplete.

use super::*;
use serde_json::json;

/// A tensor as the header describes it, and its bytes.
type Tensor = (Value, Vec<u8>);

/// A copy of the starter.
fn model() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&root().join("models/starter"), folder.path());
    folder
}

/// Writes the weights anew after `change`: eight bytes with the length of the header, the header, the data.
fn rewrite(folder: &Path, change: impl FnOnce(&mut BTreeMap<String, Tensor>)) {
    let path = folder.join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().unwrap());
    let (header, data) = rest.split_at(usize::try_from(length).unwrap());
    let header: BTreeMap<String, Value> = serde_json::from_slice(header).unwrap();
    let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
    for (name, entry) in header {
        if name != "__metadata__" {
            let offset = |n: usize| entry["data_offsets"][n].as_u64().unwrap();
            let begin = usize::try_from(offset(0)).unwrap();
            let end = usize::try_from(offset(1)).unwrap();
            tensors.insert(name, (entry, data[begin..end].to_vec()));
        }
    }
    change(&mut tensors);
    let mut header = serde_json::Map::new();
    let mut data: Vec<u8> = Vec::new();
    for (name, (mut entry, content)) in tensors {
        let begin = data.len();
        data.extend_from_slice(&content);
        entry["data_offsets"] = json!([begin, data.len()]);
        header.insert(name, entry);
    }
    let mut header = Value::Object(header).to_string();
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&data);
    fs::write(&path, file).unwrap();
}

fn inspect(folder: &Path) -> Ended {
    let mut command = flopsmith();
    command.args(["model", "inspect"]).arg(folder);
    run(command)
}

/// The command refuses the folder and prints the reason.
fn refused(folder: &Path, words: &[&str]) {
    let ended = inspect(folder);
    let said = ended.said();
    assert_eq!(ended.code, Some(USAGE), "{said}");
    assert!(!said.contains("panicked at"), "{said}");
    contains(&said, words);
}

#[test]
fn a_model_whose_weights_are_not_what_they_should_be_is_refused_by_the_tensors_name() {
    let whole = model();
    rewrite(whole.path(), |_| {});
    let ended = inspect(whole.path());
    assert_eq!(ended.code, Some(0), "{}", ended.said());

    let missing = model();
    rewrite(missing.path(), |tensors| {
        tensors.remove("model.norm.weight").unwrap();
    });
    refused(missing.path(), &["model.norm.weight is missing"]);

    let misshapen = model();
    let name = "model.layers.0.mlp.down_proj.weight";
    rewrite(misshapen.path(), |tensors| {
        // The number of bytes stays, so only the configuration shows the error.
        tensors.get_mut(name).unwrap().0["shape"] = json!([512, 192]);
    });
    refused(
        misshapen.path(),
        &[name, "[512, 192] instead of [192, 512]"],
    );
}

#[test]
fn a_model_folder_whose_files_are_cut_off_or_missing_is_refused_by_the_files_name() {
    let cut = model();
    let weights = cut.path().join("model.safetensors");
    let length = weights.metadata().unwrap().len();
    let file = File::options().write(true).open(&weights).unwrap();
    for left in [length - 1000, 100, 0] {
        file.set_len(left).unwrap();
        refused(
            cut.path(),
            &["model.safetensors", "no readable safetensors data"],
        );
    }
    for name in ["model.safetensors", "config.json", "tokenizer.json"] {
        let folder = model();
        fs::remove_file(folder.path().join(name)).unwrap();
        refused(folder.path(), &["cannot read", name]);
    }
}

#[test]
fn training_with_a_model_that_does_not_load_ends_before_it_begins() {
    let folder = model();
    rewrite(folder.path(), |tensors| {
        tensors.remove("model.norm.weight").unwrap();
    });
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let mut command = flopsmith();
    command
        .args(["train", "examples/dgemm.toml", "--budget", "5m", "--set"])
        .arg(format!("generator.model={}", folder.path().display()))
        .arg("--runs")
        .arg(&runs);
    let ended = run(command);
    contains(
        ended.one_error(USAGE),
        &[
            folder.path().to_str().unwrap(),
            "model.norm.weight is missing",
        ],
    );
    assert_eq!(only_run(&runs), None, "no run is left behind");
}

/// Ends with wrong usage, for any fault of the model.
fn wrong(args: &[&str], words: &[&str]) {
    let mut command = flopsmith();
    command.args(args);
    let ended = run(command);
    contains(ended.one_error(USAGE), words);
}

/// Recipes of `sft` that start from this model: one with examples that are messages, one that makes its corpus.
fn recipes(model: &Path, place: &Path) -> [PathBuf; 2] {
    let model = model.display();
    let example = json!({"prompt": "write a loop", "answer": "for (;;) {}"});
    fs::write(place.join("examples.jsonl"), format!("{example}\n")).unwrap();
    [
        (
            "examples",
            format!("model = \"{model}\"\nexamples = \"examples.jsonl\"\nchat = true\n"),
        ),
        (
            "corpus",
            format!(
                "problem = \"dgemm\"\nseed = 1\nvalidation = 1\n[model]\nstart = \"folder\"\nfolder = \"{model}\"\n[corpus]\nexamples = 2\n[sft]\n"
            ),
        ),
    ]
    .map(|(name, text)| {
        let path = place.join(format!("{name}.toml"));
        fs::write(&path, text).unwrap();
        path
    })
}

/// Commands that train this model by other recipes, each with its own.
fn other_recipes(model: &Path, place: &Path) -> [(&'static str, PathBuf); 3] {
    let model = model.display();
    let pair = json!({"problem": "dgemm", "prompt": "p", "fast": "int f;", "slow": "int s;"});
    fs::write(place.join("pairs.jsonl"), format!("{pair}\n")).unwrap();
    let exercise = json!({"problem": "dgemm", "prompt": "p", "median_s": 1.0});
    fs::write(place.join("exercises.jsonl"), format!("{exercise}\n")).unwrap();
    [
        ("reward-model", "pairs = \"pairs.jsonl\"\n"),
        ("dpa", "pairs = \"pairs.jsonl\"\n"),
        ("rlpf", "exercises = \"exercises.jsonl\"\nsteps = 1\n"),
    ]
    .map(|(command, rest)| {
        let path = place.join(format!("{command}.toml"));
        fs::write(&path, format!("model = \"{model}\"\n{rest}")).unwrap();
        (command, path)
    })
}

#[test]
fn a_broken_chat_template_is_wrong_usage_where_it_is_used() {
    let folder = model();
    let template = folder.path().join("chat_template.jinja");
    fs::write(template, "{% for m in messages %}{{ m.content }}").unwrap();
    let path = folder.path().to_str().unwrap();
    refused(
        folder.path(),
        &["template", "cannot be used", "syntax error"],
    );
    let words = ["the chat template cannot be used", "syntax error"];
    let sample = [
        "model",
        "sample",
        path,
        "--prompt",
        "x",
        "--max-tokens",
        "4",
    ];
    wrong(&[&sample[..], &["--full"]].concat(), &words);
    let place = tempfile::tempdir().unwrap();
    let [examples, _] = recipes(folder.path(), place.path());
    let output = place.path().join("made");
    let output = output.to_str().unwrap();
    wrong(
        &["sft", examples.to_str().unwrap(), "--output", output],
        &words,
    );
    for (command, recipe) in other_recipes(folder.path(), place.path()) {
        let text = fs::read_to_string(&recipe).unwrap() + "chat = true\n";
        fs::write(&recipe, text).unwrap();
        let recipe = recipe.to_str().unwrap();
        wrong(&[command, recipe, "--output", output], &words);
    }
    let chain = place.path().join("align.toml");
    let recipe = format!(
        "model = \"{path}\"\nproblems = [\"dgemm\"]\nhold_out = [\"dot\"]\nchat = true\n[rlpf]\nsteps = 1\n"
    );
    fs::write(&chain, recipe).unwrap();
    let chain = chain.to_str().unwrap();
    wrong(&["align", chain, "--output", output], &words);
    let eval = ["eval", path, "--problem", "dgemm", "--output", output];
    wrong(&eval, &words);
    let runs = place.path().join("runs");
    wrong(
        &[
            "train",
            "examples/dgemm.toml",
            "--budget",
            "5m",
            "--set",
            "generator.prompt=full",
            "--set",
            &format!("generator.model={path}"),
            "--runs",
            runs.to_str().unwrap(),
        ],
        &words,
    );
    wrong(&["model", "serve", path, "--port", "0"], &words);
    // A prompt that is not a message works without one.
    let mut command = flopsmith();
    command.args(sample);
    let ended = run(command);
    assert_eq!(ended.code, Some(0), "{}", ended.said());
}

#[test]
fn a_model_that_cannot_be_opened_is_wrong_usage_for_every_command() {
    let missing = model();
    rewrite(missing.path(), |tensors| {
        tensors.remove("model.norm.weight").unwrap();
    });
    let pointer = model();
    fs::write(
        pointer.path().join("model.safetensors"),
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n",
    )
    .unwrap();
    let tokenizer = model();
    fs::write(tokenizer.path().join("tokenizer.json"), "{}").unwrap();
    for (folder, words) in [
        (&missing, "model.norm.weight is missing"),
        (&pointer, "`git lfs pull`"),
        (&tokenizer, "tokenizer.json"),
    ] {
        let path = folder.path().to_str().unwrap();
        refused(folder.path(), &[words]);
        wrong(&["model", "sample", path, "--prompt", "x"], &[words]);
        wrong(&["model", "serve", path, "--port", "0"], &[words]);
        let place = tempfile::tempdir().unwrap();
        let evaluation = place.path().join("evaluation");
        let evaluation = evaluation.to_str().unwrap();
        let eval = ["eval", path, "--problem", "dgemm", "--output", evaluation];
        wrong(&eval, &[words]);
        // Another model may use the folder.
        assert!(!Path::new(evaluation).exists(), "{evaluation}");
        for recipe in recipes(folder.path(), place.path()) {
            let output = place.path().join("made");
            let output = output.to_str().unwrap();
            wrong(
                &["sft", recipe.to_str().unwrap(), "--output", output],
                &[words],
            );
        }
        for (command, recipe) in other_recipes(folder.path(), place.path()) {
            let output = place.path().join("made");
            let output = output.to_str().unwrap();
            wrong(
                &[command, recipe.to_str().unwrap(), "--output", output],
                &[words],
            );
        }
    }
}

#[test]
fn a_head_of_its_own_is_told_by_an_inspection_and_used_with_a_warning() {
    let folder = model();
    rewrite(folder.path(), |tensors| {
        let (entry, mut bytes) = tensors["model.embed_tokens.weight"].clone();
        bytes[0] ^= 1;
        tensors.insert("lm_head.weight".into(), (entry, bytes));
    });
    let ended = inspect(folder.path());
    assert_eq!(ended.code, Some(0), "{}", ended.said());
    contains(
        &ended.said(),
        &["head          its own, although config.json ties it"],
    );
    let mut command = flopsmith();
    command.args(["model", "sample"]).arg(folder.path());
    command.args(["--problem", "dgemm", "--max-tokens", "1"]);
    let ended = run(command);
    assert_eq!(ended.code, Some(0), "{}", ended.said());
    let warning = "the weights contain a separate head, and the model uses it";
    contains(&ended.err, &[warning]);
    // A training checks the files of its configuration in the same way.
    let mut command = flopsmith();
    command.args(["config", "check", "examples/dgemm.toml", "--set"]);
    command.arg(format!("generator.model={}", folder.path().display()));
    let ended = run(command);
    assert_eq!(ended.code, Some(0), "{}", ended.said());
    contains(&ended.err, &[warning]);
}

/// All text that users write and this program reads, saved by an editor that adds a byte-order mark.
#[test]
fn a_byte_order_mark_is_no_part_of_what_a_user_writes() {
    let place = tempfile::tempdir().unwrap();
    let mark = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        fs::write(path, format!("\u{feff}{text}")).unwrap();
    };
    let whole = model();
    for recipe in recipes(whole.path(), place.path()) {
        mark(&recipe);
        // One update, on examples with such a mark.
        let text = fs::read_to_string(&recipe).unwrap();
        let text = match text.contains("[sft]") {
            true => text,
            false => text + "[sft]\n",
        };
        fs::write(&recipe, text + "steps = 1\nbatch_tokens = 512\n").unwrap();
        if recipe.ends_with("examples.toml") {
            mark(&place.path().join("examples.jsonl"));
        }
        let mut command = flopsmith();
        let output = place.path().join("made");
        command.arg("sft").arg(&recipe).arg("--output").arg(output);
        let ended = run(command);
        assert_eq!(ended.code, Some(0), "{}", ended.said());
    }
    let configuration = place.path().join("run.toml");
    fs::copy(root().join("examples/dgemm.toml"), &configuration).unwrap();
    mark(&configuration);
    let mut command = flopsmith();
    command.args(["config", "check"]).arg(&configuration);
    let ended = run(command);
    assert_eq!(ended.code, Some(0), "{}", ended.said());
    let problem = place.path().join("marked");
    copy(&root().join("problems/dgemm"), &problem);
    for entry in fs::read_dir(&problem).unwrap() {
        mark(&entry.unwrap().path());
    }
    let mut command = flopsmith();
    command.args(["problem", "prompt"]).arg(&problem);
    let ended = run(command);
    assert_eq!(ended.code, Some(0), "{}", ended.said());
}
