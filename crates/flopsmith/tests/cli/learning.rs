//! From measured programs to a fine-tuned model, a reward model, an aligned policy and a policy trained by
//! reinforcement.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::one_core::on_one_core;
use crate::{assert_keys, assert_rows, flopsmith, last_object, objects, run, wait_for};

/// Every event that a test waits for comes long before this, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

fn said(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    said
}

/// A command with a new recipe; its model's folder has the recipe's name.
fn by_recipe(place: &Path, command: &str, name: &str, recipe: &str) -> (Command, PathBuf) {
    let file = place.join(format!("{name}.toml"));
    std::fs::write(&file, recipe).unwrap();
    let output = place.join(name);
    let mut wanted = flopsmith();
    wanted.args([command, "--format", "json", "--output"]);
    wanted.arg(&output).arg(&file);
    (wanted, output)
}

fn made(place: &Path, command: &str, name: &str, recipe: &str) -> Value {
    let (mut wanted, folder) = by_recipe(place, command, name, recipe);
    let output = wanted.output().unwrap();
    said(&output);
    let report = last_object(&output);
    let kept = std::fs::read(folder.join("training.json")).unwrap();
    assert_eq!(report, serde_json::from_slice::<Value>(&kept).unwrap());
    // The folder has a model, and the files of the unfinished training are gone.
    let inspected = run(&[
        "model",
        "inspect",
        folder.to_str().unwrap(),
        "--format",
        "json",
    ]);
    said(&inspected);
    assert!(last_object(&inspected)["loads"].get("ok").is_some());
    let checkpoints = std::fs::read_dir(&folder).unwrap().flatten();
    let left = checkpoints.filter(|e| e.file_name().to_string_lossy().contains("checkpoint"));
    assert_eq!(left.count(), 0);
    assert_eq!(curves(&folder), 1);
    report
}

/// The number of event files for TensorBoard that hold more than their beginning.
fn curves(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder.join("tensorboard")).unwrap();
    let sizes = files.map(|file| file.unwrap().metadata().unwrap().len());
    sizes.filter(|size| *size > 100).count()
}

/// Pairs of programs without measurements, told apart by a word.
fn pairs(file: &Path, count: usize) {
    let mut text = String::new();
    for i in 0..count {
        let pair = serde_json::json!({
            "problem": "dgemm", "prompt": "// dgemm: unroll\n",
            "fast": format!("int fast_{i};\n"), "slow": format!("double slow_{i};\n"),
        });
        text.push_str(&format!("{pair}\n"));
    }
    std::fs::write(file, text).unwrap();
}

#[test]
#[ignore = "takes half a minute or more: make long"]
fn programs_that_are_measured_here_train_models_of_every_kind() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let corpus = run(&["dataset", "schedules", "--examples", "36", "--seed", "5"]);
    said(&corpus);
    let corpus_file = place.join("corpus.jsonl");
    // One of them does not build.
    let broken = "{\"prompt\": \"// dgemm: none\\n\", \"program\": \"void dgemm(\"}\n";
    std::fs::write(&corpus_file, [corpus.stdout, broken.into()].concat()).unwrap();
    let measure = [
        "dataset",
        "measure",
        corpus_file.to_str().unwrap(),
        "--permit",
        "all",
    ];
    let measured = run(&measure);
    said(&measured);
    let programs = place.join("programs.jsonl");
    std::fs::write(&programs, &measured.stdout).unwrap();
    let lines = objects(&programs);
    assert!(lines.len() > 30 && lines.len() <= 37, "{}", lines.len());
    let right: Vec<&Value> = lines.iter().filter(|l| l["correct"] == true).collect();
    assert!(right.len() > 25, "{}", right.len());
    assert!(right.iter().all(|l| l["runtime_s"].as_f64().unwrap() > 0.0));
    let wrong = lines.iter().find(|l| l["correct"] == false).unwrap();
    assert_eq!(wrong["runtime_s"], Value::Null);
    assert!(lines.iter().all(|l| l["prompt"] == lines[0]["prompt"]));

    let data = place.join("data");
    let (programs, folder) = (programs.to_str().unwrap(), data.to_str().unwrap());
    let split = run(&[
        "dataset", "split", programs, "--output", folder, "--format", "json",
    ]);
    said(&split);
    assert_eq!(last_object(&split)["programs"], lines.len());
    assert_keys(&last_object(&split), "programs files", "");
    assert_rows(&last_object(&split)["files"], "file lines");
    let labels = objects(&data.join("labels.jsonl"));
    assert_eq!(labels.len(), lines.len());
    let taught = objects(&data.join("sft.jsonl"));
    assert!(
        ["solve", "improve"]
            .iter()
            .all(|kind| taught.iter().any(|t| t["kind"] == *kind))
    );
    assert!(objects(&data.join("reward_model.jsonl")).len() > 5);
    assert!(
        objects(&data.join("rl.jsonl"))[0]["median_s"]
            .as_f64()
            .unwrap()
            > 0.0
    );

    let sft = made(
        place,
        "sft",
        "tuned",
        "model = \"models/starter\"\nexamples = \"data/sft.jsonl\"\nvalidation = \"data/sft_evaluation.jsonl\"\n[sft]\nlearning_rate = 1e-4\nsteps = 2\nbatch_tokens = 1024\n",
    );
    assert_eq!(sft["training"]["steps"], 2, "{sft}");
    assert_eq!(sft["training"]["skipped"], 0, "{sft}");

    let reward = made(
        place,
        "reward-model",
        "rewards",
        "model = \"models/starter\"\npairs = \"data/reward_model.jsonl\"\nvalidation = \"data/reward_model.jsonl\"\n[reward_model]\nlearning_rate = 1e-3\nsteps = 6\nbatch = 4\n",
    );
    let (before, after) = (&reward["validation_before"], &reward["validation"]);
    assert!(after["loss"].as_f64() < before["loss"].as_f64(), "{reward}");
    assert_eq!(
        (&reward["updates"], &reward["skipped"]),
        (&6.into(), &0.into())
    );
    let config = std::fs::read_to_string(place.join("rewards/config.json")).unwrap();
    assert!(
        config.contains("Qwen2ForSequenceClassification"),
        "{config}"
    );

    let aligned = made(
        place,
        "dpa",
        "aligned",
        "model = \"tuned\"\npairs = \"data/dpa.jsonl\"\nvalidation = \"data/dpa.jsonl\"\n[dpa]\nlearning_rate = 1e-4\nsteps = 4\n",
    );
    let (before, after) = (&aligned["validation_before"], &aligned["validation"]);
    assert_eq!(
        before["accuracy"], 0.0,
        "it is its own reference: {aligned}"
    );
    assert!(
        after["loss"].as_f64() < before["loss"].as_f64(),
        "{aligned}"
    );

    let asked = std::fs::read_to_string(data.join("rl.jsonl")).unwrap();
    assert!(asked.contains("\"kind\":\"improve\""), "{asked}");
    // One exercise with tests, and one without, which the reward model judges.
    let exercises = place.join("exercises.jsonl");
    let mut text = format!("{}\n", asked.lines().next().unwrap());
    text.push_str("{\"problem\": \"unknown\", \"prompt\": \"// dgemm: unroll simd\\n\", \"median_s\": null}\n");
    std::fs::write(&exercises, text).unwrap();
    let trained = made(
        place,
        "rlpf",
        "trained",
        "model = \"tuned\"\nexercises = \"exercises.jsonl\"\nvalidation = \"exercises.jsonl\"\nreward_model = \"rewards\"\nsteps = 2\nprompts = 2\nsamples = 3\nturns = 2\nmax_tokens = 300\n[ppo]\nlearning_rate = 1e-5\nepochs = 1\n",
    );
    for when in ["validation_before", "validation"] {
        // Three answers to each exercise, in one turn.
        let score = &trained[when];
        let count = |key: &str| score[key].as_u64().unwrap();
        assert!((3..=6).contains(&count("answers")), "{score}");
        let (right, tested) = (count("right"), count("tested"));
        assert!(right <= tested && tested <= 3, "{score}");
    }
    let steps = trained["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2, "{trained}");
    for step in steps {
        let answers = step["ppo"]["answers"].as_u64().unwrap();
        let unmeasured = step["unmeasured"].as_u64().unwrap();
        // Two turns of three answers to each of two exercises, one of which has tests; the second turn may not fit.
        assert!((6..=12).contains(&(answers + unmeasured)), "{step}");
        assert!(step["tested"].as_u64() <= Some(6), "{step}");
        let by_turn = step["by_turn"].as_array().unwrap();
        assert_eq!(by_turn.len(), 2, "{step}");
        assert!(by_turn.iter().all(Value::is_number), "{step}");
        assert_eq!(step["ppo"]["skipped"], 0, "{step}");
    }
}

/// The report of a training has the keys of its command.
fn has_its_keys(command: &str, report: &Value) {
    match command {
        "sft" => {
            let keys = "model examples left_out parameters training";
            assert_keys(report, keys, "");
            assert_keys(&report["training"], crate::models::TRAINING, "");
        }
        "reward-model" | "dpa" => {
            let numbers = "updates skipped pairs left_out parameters first last seconds";
            let keys = format!("model {numbers} validation_before validation");
            assert_keys(report, &keys, "");
            assert_keys(&report["last"], "loss accuracy gap pairs", "");
        }
        "rlpf" => {
            let numbers = "skipped first_score last_score last_kl best seconds";
            let keys = format!("model {numbers} refusals unmeasured steps");
            assert_keys(report, &keys, "validation_before validation");
            for step in report["steps"].as_array().unwrap() {
                assert_keys(step, "step right tested unmeasured ppo", "by_turn");
            }
        }
        other => panic!("{other} has no report here"),
    }
}

/// One adapter from fine-tuning over alignment to reinforcement, with a reward model that is an adapter too: each in
/// PEFT's files, in half precision.
#[test]
fn adapters_are_written_alone_and_gone_on_with() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    pairs(&place.join("pairs.jsonl"), 12);
    let example =
        "{\"prompt\": \"// dgemm: unroll\\n\", \"answer\": \"int a;\\n\", \"kind\": \"solve\"}\n";
    std::fs::write(place.join("sft.jsonl"), example.repeat(4)).unwrap();
    let exercise =
        "{\"problem\": \"p\", \"prompt\": \"// dgemm: unroll\\n\", \"median_s\": null}\n";
    std::fs::write(place.join("rl.jsonl"), exercise).unwrap();
    let other = exercise.replace("unroll", "simd");
    std::fs::write(
        place.join("rl_evaluation.jsonl"),
        [exercise, &other].concat(),
    )
    .unwrap();
    let lora = |table: &str| format!("[{table}.lora]\nrank = 2\nalpha = 4\n");
    let starter = crate::root().join("models/starter").canonicalize().unwrap();
    // A whole model of an earlier training would be taken for the adapter's base model.
    let tuned = place.join("tuned");
    std::fs::create_dir(&tuned).unwrap();
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(starter.join(name), tuned.join(name)).unwrap();
    }
    let recipes = [
        (
            "sft",
            "tuned",
            "model = \"models/starter\"\ndtype = \"bfloat16\"\nexamples = \"sft.jsonl\"\n[sft]\nlearning_rate = 1e-3\nsteps = 2\n".to_owned()
                + &lora("sft"),
        ),
        (
            "reward-model",
            "rewards",
            "model = \"tuned\"\ndtype = \"bfloat16\"\npairs = \"pairs.jsonl\"\nvalidation = \"pairs.jsonl\"\n[reward_model]\nlearning_rate = 1e-3\nsteps = 3\n"
                .to_owned()
                + &lora("reward_model"),
        ),
        (
            "dpa",
            "aligned",
            // Without a setting for it, the training continues the existing adapter.
            "model = \"tuned\"\ndtype = \"bfloat16\"\npairs = \"pairs.jsonl\"\n[dpa]\nlearning_rate = 1e-3\nsteps = 2\n".to_owned(),
        ),
        (
            "rlpf",
            "trained",
            "model = \"aligned\"\ndtype = \"bfloat16\"\nexercises = \"rl.jsonl\"\nvalidation = \"rl_evaluation.jsonl\"\nreward_model = \"rewards\"\nsteps = 1\nprompts = 1\nsamples = 2\nmax_tokens = 8\n[ppo]\nlearning_rate = 1e-3\n"
                .to_owned()
                + &lora("ppo"),
        ),
    ];
    let mut weights = Vec::new();
    for (command, name, recipe) in &recipes {
        let report = made(place, command, name, recipe);
        has_its_keys(command, &report);
        if *command == "sft" {
            let losses = &report["training"];
            assert!(
                losses["last_loss"].as_f64() < losses["first_loss"].as_f64(),
                "{losses}"
            );
        }
        if *command == "rlpf" {
            for when in ["validation_before", "validation"] {
                // Two answers to each of two exercises without tests, which the reward model judges.
                let score = &report[when];
                assert_keys(score, "answers tested right mean", "");
                let counts = ["answers", "tested", "right"].map(|key| score[key].as_u64());
                assert_eq!(counts, [Some(4), Some(0), Some(0)], "{when}: {score}");
                assert!(score["mean"].is_number(), "{when}: {score}");
            }
        }
        let folder = place.join(name);
        let file = std::fs::read(folder.join("adapter_config.json")).unwrap();
        let file: Value = serde_json::from_slice(&file).unwrap();
        let base = file["base_model_name_or_path"].as_str().unwrap();
        assert_eq!(Path::new(base), starter, "{name}");
        assert_eq!(file["r"], 2, "{name}");
        let scores = *name == "rewards";
        assert_eq!(
            file["task_type"],
            if scores { "SEQ_CLS" } else { "CAUSAL_LM" }
        );
        assert!(!folder.join("config.json").exists(), "{name}");
        assert!(!folder.join("model.safetensors").exists(), "{name}");
        weights.push(std::fs::read(folder.join("adapter_model.safetensors")).unwrap());
    }
    // Each training changed the adapter that it started from.
    assert!(weights[0] != weights[2] && weights[2] != weights[3]);
    // An adapter of another shape cannot be the start of this training.
    let (mut other, _) = by_recipe(
        place,
        "dpa",
        "other",
        "model = \"tuned\"\npairs = \"pairs.jsonl\"\n[dpa]\nsteps = 1\n[dpa.lora]\nrank = 3\n",
    );
    let refused = other.output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another adapter"));
    // After a training of the whole model, the files of the adapter are gone.
    let whole = "model = \"models/starter\"\nexamples = \"sft.jsonl\"\n[sft]\nsteps = 1\n";
    made(place, "sft", "tuned", whole);
    assert!(!tuned.join("adapter_config.json").exists());
    assert!(tuned.join("model.safetensors").exists());
}

/// The starter writes no code fences, so no answer contains a program if programs are fenced blocks.
#[test]
fn reinforcement_whose_answers_hold_no_program_ends_and_says_so() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let exercise =
        "{\"problem\": \"dgemm\", \"prompt\": \"// dgemm: unroll\\n\", \"median_s\": 1.0}\n";
    std::fs::write(place.join("rl.jsonl"), exercise).unwrap();
    let validation = exercise.replace("unroll", "simd");
    std::fs::write(place.join("rl_evaluation.jsonl"), validation).unwrap();
    let recipe = "model = \"models/starter\"\nexercises = \"rl.jsonl\"\nvalidation = \"rl_evaluation.jsonl\"\nchat = true\nsteps = 9\nprompts = 1\nsamples = 2\nmax_tokens = 8\nfruitless_steps_limit = 2\n[ppo]\nepochs = 1\n";
    let (mut begun, folder) = by_recipe(place, "rlpf", "trained", recipe);
    let output = begun.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words}");
    for part in [
        "100.0 % of 4 programs refused:\n  4 × format\n    dgemm: no program was found in the answer (cut off at the length limit, ",
        "error: the training was ended after 2 steps in which no program was correct (fruitless_steps_limit = 2)",
        "try: `flopsmith model sample models/starter --problem dgemm --full`",
        "raise `max_tokens` (8)",
        "validation exercises before: score -1.000, 0 of 2 right",
    ] {
        assert!(words.contains(part), "`{part}` is not in\n{words}");
    }
    let report = last_object(&output);
    assert_eq!(curves(&folder), 1);
    assert_eq!(report["steps"].as_array().unwrap().len(), 2, "{report}");
    let failed = serde_json::json!({ "answers": 2, "tested": 2, "right": 0, "mean": -1.0 });
    assert_eq!(report["validation_before"], failed, "{report}");
    assert_eq!(report["validation"], failed, "{report}");
    let refusals = report["refusals"].as_array().unwrap();
    assert_eq!(refusals.len(), 1, "{report}");
    assert_rows(&report["refusals"], "kind count problem example answer");
    assert_eq!(refusals[0]["kind"], "format", "{report}");
    assert_eq!(refusals[0]["count"], 4, "{report}");
    assert_ne!(refusals[0]["answer"]["text"], "", "{report}");
    // The model is kept all the same, and nothing is left to resume from.
    assert!(folder.join("model.safetensors").is_file());
    let left = std::fs::read_dir(&folder).unwrap().flatten();
    let mut names = left.map(|e| e.file_name().to_string_lossy().into_owned());
    assert!(!names.any(|name| name.starts_with("checkpoint-")));
}

#[test]
fn reinforcement_is_not_gone_on_with_by_other_rewards() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    pairs(&place.join("pairs.jsonl"), 4);
    let judge = |rate: f64| {
        format!(
            "model = \"models/starter\"\npairs = \"pairs.jsonl\"\n[reward_model]\nlearning_rate = {rate}\nsteps = 1\n[reward_model.lora]\nrank = 2\n"
        )
    };
    made(place, "reward-model", "rewards", &judge(1e-3));
    let exercises = place.join("rl.jsonl");
    let exercise =
        "{\"problem\": \"p\", \"prompt\": \"// dgemm: unroll\\n\", \"median_s\": null}\n";
    std::fs::write(&exercises, exercise).unwrap();
    let recipe = "model = \"models/starter\"\nexercises = \"rl.jsonl\"\nreward_model = \"rewards\"\nsteps = 20\nprompts = 1\nsamples = 2\nmax_tokens = 8\ncheckpoint_every = 1\n";
    interrupted(place, "rlpf", "trained", recipe);
    let again = || {
        let (mut again, _) = by_recipe(place, "rlpf", "trained", recipe);
        again.arg("--resume").output().unwrap()
    };
    let refused = || {
        let output = again();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.contains("have changed"), "{words}");
    };
    std::fs::write(&exercises, exercise.replace("unroll", "simd")).unwrap();
    refused();
    std::fs::write(&exercises, exercise).unwrap();
    let adapter = place.join("rewards/adapter_model.safetensors");
    let own = std::fs::read(&adapter).unwrap();
    made(place, "reward-model", "rewards", &judge(2e-3));
    refused();
    std::fs::write(&adapter, own).unwrap();
    let output = again();
    assert!(said(&output).contains("resuming after step "));
    assert_eq!(last_object(&output)["steps"].as_array().unwrap().len(), 20);
}

#[test]
fn samples_of_skipped_updates_are_kept_and_too_many_end_the_training() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    pairs(&place.join("pairs.jsonl"), 8);
    // Weights that are out of all bounds after the first update.
    let recipe = "model = \"models/starter\"\npairs = \"pairs.jsonl\"\n[dpa]\nlearning_rate = 1e30\nmax_grad_norm = 0.0\nwarmup = 0\nsteps = 9\n";
    let (mut begun, folder) = by_recipe(place, "dpa", "aligned", recipe);
    let output = begun.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{words}");
    let kept = folder.join("skipped");
    assert!(words.contains(kept.to_str().unwrap()), "{words}");
    assert!(words.contains("smaller learning rate"), "{words}");
    let files: Vec<_> = std::fs::read_dir(&kept).unwrap().flatten().collect();
    assert_eq!(files.len(), 4, "{words}");
    for file in files {
        let text = std::fs::read(file.path()).unwrap();
        let update: Value = serde_json::from_slice(&text).unwrap();
        let batch = update["batch"].as_array().unwrap();
        assert!(!batch.is_empty());
        assert!(batch[0]["fast"].as_str().unwrap().starts_with("int fast_"));
        assert!(batch[0]["fast_tokens"].is_array());
        assert!(update["error"].as_str().unwrap().contains("not finite"));
    }
}

/// Starts a training and interrupts it once it has a checkpoint.
fn interrupted(place: &Path, command: &str, name: &str, recipe: &str) {
    let (mut begun, folder) = by_recipe(place, command, name, recipe);
    let mut child = begun
        .stdout(Stdio::null())
        .stderr(File::create(place.join("said")).unwrap())
        .spawn()
        .unwrap();
    let has_checkpoint = || {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        entries.into_iter().any(|e| {
            let name = e.file_name().to_string_lossy().into_owned();
            name.starts_with("checkpoint-") && !name.ends_with(".part")
        })
    };
    wait_for(&mut child, LIMIT, "a checkpoint", has_checkpoint);
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let status = child.wait().unwrap();
    let words = std::fs::read_to_string(place.join("said")).unwrap();
    assert_eq!(status.code(), Some(130), "{words}");
    assert!(words.contains("--resume"), "{words}");
}

#[test]
fn an_interrupted_training_goes_on_where_it_stopped() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    pairs(&place.join("pairs.jsonl"), 40);
    let recipe = "model = \"models/starter\"\npairs = \"pairs.jsonl\"\ncheckpoint_every = 1\n[reward_model]\nlearning_rate = 3e-4\nsteps = 60\nbatch = 8\n";
    interrupted(place, "reward-model", "rewards", recipe);

    // The command neither starts it over by mistake, nor continues it with another recipe.
    let (mut again, _) = by_recipe(place, "reward-model", "rewards", recipe);
    let refused = again.output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--resume"));
    let other = recipe.replace("3e-4", "2e-4");
    let (mut again, _) = by_recipe(place, "reward-model", "rewards", &other);
    let refused = again.arg("--resume").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));

    let (mut again, _) = by_recipe(place, "reward-model", "rewards", recipe);
    let output = again.arg("--resume").output().unwrap();
    let words = said(&output);
    assert!(words.contains("resuming after update "), "{words}");
    let report = last_object(&output);
    assert_eq!(report["updates"], 60, "{report}");
    assert_eq!(report["last"]["accuracy"], 1.0, "{report}");
}

#[test]
fn errors_in_files_and_recipes_are_reported_with_their_place() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let refused = |command: &str, recipe: &str| {
        let (mut wanted, _) = by_recipe(place, command, "model", recipe);
        let output = wanted.output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}");
        words
    };
    let good = place.join("pairs.jsonl");
    pairs(&good, 3);
    let bad = std::fs::read_to_string(&good).unwrap() + "{\"problem\": 1}\n";
    std::fs::write(place.join("bad.jsonl"), bad).unwrap();
    let with = |pairs: &str, more: &str| {
        format!("model = \"models/starter\"\npairs = \"{pairs}\"\n{more}")
    };
    for (command, recipe, words) in [
        ("reward-model", with("bad.jsonl", ""), "line 4 of"),
        ("reward-model", with("none.jsonl", ""), "none.jsonl"),
        ("reward-model", with("pairs.jsonl", "[dpa]\n"), "[dpa]"),
        (
            "reward-model",
            with("pairs.jsonl", "[reward_model]\nrate = 1\n"),
            "rate",
        ),
        ("dpa", with("pairs.jsonl", "[dpa]\nbeta = -1.0\n"), "beta"),
        (
            "dpa",
            with("pairs.jsonl", "").replace("starter", "nobody"),
            "nobody",
        ),
        (
            "rlpf",
            "model = \"models/starter\"\nexercises = \"none.jsonl\"\nsteps = 0\n".into(),
            "`steps` is 0",
        ),
    ] {
        let said = refused(command, &recipe);
        assert!(said.contains(words), "{words:?} in {said}");
    }
    let exercises = place.join("untested.jsonl");
    std::fs::write(&exercises, "{\"problem\": \"p\", \"prompt\": \"q\"}\n").unwrap();
    let said = refused(
        "rlpf",
        "model = \"models/starter\"\nexercises = \"untested.jsonl\"\nsteps = 1\n",
    );
    assert!(said.contains("reward_model"), "{said}");
}
