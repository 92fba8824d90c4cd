//! Training from its first evaluation to the model that it leaves.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::one_core::on_one_core;
use crate::{
    assert_traceable, last_object, objects, only_run, outcomes, recorded, root, run, summary,
    train, train_as_shipped, wait_for,
};

/// The whole loop with the shipped starter: two steps of training, cut short by a kill, then resumed until the end.
#[test]
fn training_runs_end_to_end_and_survives_a_kill() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let settings = [
        "tasks=2",
        "group_size=4",
        "evaluate_tasks=1",
        "max_steps=2",
        "evaluate.finalists=1",
        // Tests that run at the same time disturb each other.
        "evaluate.quarantine=false",
    ];
    let mut child = train_as_shipped(&runs, &settings)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(
        &mut child,
        Duration::from_secs(180),
        "the first evaluation",
        || only_run(&runs).is_some_and(|r| outcomes(&r).len() >= 5),
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let output = train_as_shipped(&runs, &[])
        .arg("--resume")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let summary = last_object(&output);
    assert_eq!(summary["steps"], 2, "{summary}");
    assert_eq!(summary["start"]["samples"], 4);
    assert_eq!(summary["end"]["samples"], 4);
    assert_eq!(summary["finished"], true);
    let folder = only_run(&runs).unwrap();
    summary::is_whole(&summary, &folder);
    assert!(summary["share_of_time"]["learn"].is_number(), "{summary}");
    // The starter includes the best program of its corpus.
    assert!(summary["corpus_best_gflops"].is_number(), "{summary}");
    let all = outcomes(&folder);
    assert!(all.values().all(|n| *n == 1));
    assert_eq!(
        all.keys().filter(|id| !id.contains("-m")).count(),
        4 + 2 * 8 + 4
    );
    // The trained model is an ordinary model, with its own weights.
    let model = folder.join("model");
    let inspected = run(&["model", "inspect", model.to_str().unwrap()]);
    assert!(
        inspected.status.success(),
        "{}",
        String::from_utf8_lossy(&inspected.stdout)
    );
    let weights = |folder: &Path| std::fs::read(folder.join("model.safetensors")).unwrap();
    assert_ne!(weights(&model), weights(&root().join("models/starter")));
    let versions = std::fs::read_to_string(folder.join("training.jsonl")).unwrap();
    assert_eq!(
        versions.lines().count(),
        3,
        "the weights it began with and one version for each step"
    );
    // The command as a user types it from here.
    let said = String::from_utf8_lossy(&output.stderr);
    let program = env!("CARGO_BIN_EXE_flopsmith");
    let sample = format!("sample it    {program} model sample ");
    assert!(said.contains(&sample), "{said}");
}

/// A kill after the last step, before the model and the last measurements.
#[test]
#[ignore = "takes half a minute or more: make long"]
fn where_the_model_and_the_last_measurements_are_missing_they_are_made() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let settings = [
        "tasks=2",
        "group_size=4",
        "evaluate_tasks=1",
        "max_steps=1",
        "evaluate.finalists=1",
        "evaluate.quarantine=false",
    ];
    let output = train_as_shipped(&runs, &settings).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let folder = only_run(&runs).unwrap();
    let model = folder.join("model");
    let weights = |folder: &Path| std::fs::read(folder.join("model.safetensors")).unwrap();
    let trained = weights(&model);
    std::fs::remove_dir_all(&model).unwrap();
    let facts_path = folder.join("run.json");
    let facts =
        || -> Value { serde_json::from_slice(&std::fs::read(&facts_path).unwrap()).unwrap() };
    let mut cut = facts();
    cut["concluded"] = false.into();
    cut["certified"] = serde_json::json!([]);
    cut["corpus_best_gflops"] = serde_json::json!(1e6);
    std::fs::write(&facts_path, cut.to_string()).unwrap();
    let record = folder.join("certified/corpus_best.json");
    std::fs::remove_file(&record).unwrap();
    let concluded = train_as_shipped(&runs, &[])
        .arg("--resume")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&concluded.stderr);
    assert!(concluded.status.success(), "{said}");
    assert_eq!(weights(&model), trained);
    // Speeds in a ratio were measured with the same timer.
    let facts = facts();
    assert_eq!(facts["concluded"], true);
    let record: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    assert_traceable(&record);
    assert_eq!(record["measurement"]["gflops"], facts["corpus_best_gflops"]);
    for certified in facts["certified"].as_array().unwrap() {
        assert_eq!(
            record["measurement"]["attestation"],
            certified["measurement"]["attestation"]
        );
    }
    let last = objects(&folder.join("machines.jsonl")).pop().unwrap();
    assert_eq!(last["attestation"], record["measurement"]["attestation"]);
}

/// A stop string at the start of all its programs cuts every answer to nothing: the run reports the model's answers,
/// ends long before its budget in its first stage, and is no success.
#[test]
fn a_run_whose_answers_hold_no_program_says_so_and_fails() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let settings = [
        "tasks=1",
        "group_size=2",
        "evaluate_tasks=1",
        "budget_seconds=600",
        "fruitless_steps_limit=3",
        "generator.stop=[\"typedef\"]",
    ];
    let output = train(&runs, &settings).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [
        " · refused: format 2",
        "10 × format",
        "no program was found in the answer",
        "the run was ended after 3 steps in which no program was correct (fruitless_steps_limit = 3)",
        "try: `flopsmith model sample",
    ] {
        assert!(said.contains(part), "`{part}` is not in\n{said}");
    }
    let summary = last_object(&output);
    assert_eq!(summary["fruitless_steps"], 3, "{summary}");
    assert_eq!(summary["correct_programs"], 0, "{summary}");
    let folder = only_run(&runs).unwrap();
    let outcomes = objects(&folder.join("outcomes.jsonl"));
    // Two evaluations and three steps.
    assert_eq!(outcomes.len(), 10);
    for outcome in &outcomes {
        let detail = outcome["verdict"]["detail"].as_str().unwrap();
        assert!(detail.contains("typedef"), "{detail}");
    }
    // The answers are there as the model wrote them, with their prompts.
    let answers = objects(&folder.join("answers.jsonl"));
    let id_of = |line: &Value| format!("{}-c{}", line["task"].as_str().unwrap(), line["sample"]);
    let answered: BTreeSet<String> = answers.iter().map(id_of).collect();
    let id_of = |line: &Value| line["candidate"]["id"].as_str().unwrap().to_owned();
    let decided: BTreeSet<String> = outcomes.iter().map(id_of).collect();
    assert_eq!((answers.len(), answered), (10, decided));
    for line in &answers {
        let answer = line["answer"].as_str().unwrap();
        assert!(answer.contains("typedef"), "{line}");
        assert!(!line["prompt"].as_str().unwrap().is_empty(), "{line}");
    }
    assert_eq!(
        std::fs::read_to_string(folder.join("stages.jsonl")).unwrap(),
        ""
    );
}

/// Sampling that need not wait for the learner: the newest available policy wrote the samples of each step, and none of
/// them is older than permitted; both evaluations use the current policy. The policy of each sample depends on the
/// clock, so the run is not repeated. The learner's weights are in half precision here, and so is the model that the
/// run leaves.
#[test]
fn sampling_goes_on_while_the_learner_steps() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let recorded = recorded::setting(place.path(), 3, 1, 4);
    let settings = [
        recorded.as_str(),
        "tasks=1",
        "group_size=4",
        "evaluate_tasks=1",
        "max_steps=3",
        "budget_seconds=400",
        "sqd.enabled=false",
        "generator.steps_ahead=1",
        "learner.correction=token_truncate",
        "learner.dtype=bfloat16",
        "learner.warmup_steps=0",
    ];
    let output = train(&runs, &settings).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let folder = only_run(&runs).unwrap();
    let mut lags = Vec::new();
    for outcome in objects(&folder.join("outcomes.jsonl")) {
        let candidate = &outcome["candidate"];
        let policy = candidate["policy"].as_u64().unwrap();
        match candidate["purpose"].as_str().unwrap() {
            // Step 0 is the first evaluation, so step n could have had version n - 1.
            "train" => lags.push(candidate["step"].as_u64().unwrap() - 1 - policy),
            "evaluate_start" => assert_eq!(policy, 0, "{candidate}"),
            "evaluate_end" => assert_eq!(policy, 3, "{candidate}"),
            _ => {}
        }
    }
    assert_eq!(lags.len(), 3 * 4);
    assert_eq!(lags.iter().max(), Some(&1), "{lags:?}");
    let versions = objects(&folder.join("training.jsonl"));
    let staleness = versions
        .iter()
        .map(|version| version["metrics"]["staleness"].as_u64().unwrap_or(0));
    assert_eq!(staleness.max(), Some(1), "{versions:?}");

    let of = |folder: &Path| std::fs::metadata(folder.join("model.safetensors")).unwrap();
    let (starter, model) = (root().join("models/starter"), folder.join("model"));
    let (whole, half) = (of(&starter).len(), of(&model).len());
    assert!(half < whole * 11 / 20, "{half} of {whole}");
    let config = std::fs::read(model.join("config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(config["dtype"], "bfloat16");
    let model = model.to_str().unwrap();
    let sample = [
        "model",
        "sample",
        model,
        "--problem",
        "dgemm",
        "--max-tokens",
        "9",
    ];
    assert!(run(&sample).status.success());

    let again = place.path().join("again");
    let folder = folder.to_str().unwrap();
    let again = again.to_str().unwrap();
    let output = run(&["replay", folder, "--runs", again]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("generator.steps_ahead"), "{said}");
}
