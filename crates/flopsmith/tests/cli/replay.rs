//! Repeats a training run on its recorded outcomes, bit by bit.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::one_core::on_one_core;
use crate::{assert_keys, last_object, objects, only_run, recorded, run, train};

/// Repeats the run in this folder, with the new run in its own folder.
fn replay(recorded: &Path, runs: &Path) -> Output {
    let recorded = recorded.to_str().unwrap();
    let runs = runs.to_str().unwrap();
    run(&["replay", recorded, "--runs", runs, "--format", "json"])
}

/// A copy of a replay's input files.
fn copy(recorded: &Path, to: &Path) -> PathBuf {
    std::fs::create_dir(to).unwrap();
    let files = [
        "config.toml",
        "run.json",
        "outcomes.jsonl",
        "training.jsonl",
        "machines.jsonl",
    ];
    for file in files {
        std::fs::copy(recorded.join(file), to.join(file)).unwrap();
    }
    to.to_owned()
}

/// Changes the first line that `which` accepts in a file of JSON lines, and returns the original line.
fn tamper(file: &Path, which: impl Fn(&Value) -> bool, change: impl Fn(&mut Value)) -> Value {
    let mut lines = objects(file);
    let line = lines.iter_mut().find(|line| which(line)).unwrap();
    let before = line.clone();
    change(line);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(file, text).unwrap();
    before
}

fn digests(folder: &Path) -> Vec<(u64, String)> {
    let versions = objects(&folder.join("training.jsonl"));
    let of = |version: &Value| {
        let digest = version["weights"]["digest"].as_str().unwrap();
        (version["version"].as_u64().unwrap(), digest.to_owned())
    };
    versions.iter().map(of).collect()
}

fn refused(output: &Output, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_run_is_repeated_bit_by_bit_and_differences_are_named() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    // The learning rate falls with the spent time. With all techniques permitted programs differ.
    let outcomes = recorded::setting(place.path(), 2, 1, 6);
    let settings = [
        outcomes.as_str(),
        "tasks=1",
        "group_size=6",
        "evaluate_tasks=1",
        "sqd.enabled=false",
        "max_steps=2",
        "budget_seconds=400",
        "learner.warmup_steps=0",
    ];
    let output = train(&runs, &settings).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let recorded = only_run(&runs).unwrap();
    let versions = digests(&recorded);
    assert_eq!(versions.len(), 3);
    let mut pairs = versions.windows(2);
    let (changed, _) = &pairs.find(|two| two[0].1 != two[1].1).unwrap()[1];

    let once_more = place.path().join("first");
    let output = replay(&recorded, &once_more);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let told = last_object(&output);
    assert_keys(&told, "recorded run equal_versions summary", "");
    assert_eq!(told["equal_versions"], 3, "{told}");
    assert_eq!(told["summary"]["finished"], true, "{told}");
    assert!(said.contains("3 policy versions are equal"), "{said}");
    assert_eq!(digests(&only_run(&once_more).unwrap()), versions);

    // Another program than the recorded one.
    let tampered = copy(&recorded, &place.path().join("tampered"));
    let trained = |line: &Value| line["candidate"]["purpose"] == "train";
    let line = tamper(&tampered.join("outcomes.jsonl"), trained, |line| {
        line["source"] = "int another;".into();
    });
    let id = line["candidate"]["id"].as_str().unwrap();
    let output = replay(&tampered, &place.path().join("third"));
    refused(&output, &["has diverged", id, "another program"]);

    // Other outcomes of the same programs, which leave nothing to train on.
    let failed = copy(&recorded, &place.path().join("failed"));
    let file = failed.join("outcomes.jsonl");
    let mut lines = objects(&file);
    let lost = serde_json::json!({ "type": "infrastructure", "cause": "jail", "detail": "" });
    for line in lines.iter_mut().filter(|line| trained(line)) {
        line["verdict"] = lost.clone();
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&file, text).unwrap();
    let output = replay(&failed, &place.path().join("fourth"));
    let first = format!("policy version {changed} ");
    refused(&output, &["has diverged", &first]);

    // A record with other weights than its outcomes lead to.
    let other = copy(&recorded, &place.path().join("other"));
    let second = |line: &Value| line["version"] == 2;
    tamper(&other.join("training.jsonl"), second, |line| {
        line["weights"]["digest"] = "0".repeat(64).into();
    });
    let output = replay(&other, &place.path().join("fifth"));
    refused(&output, &["has diverged", "policy version 2"]);

    // A run that has not reached its end.
    let facts = other.join("run.json");
    let mut value: Value = serde_json::from_slice(&std::fs::read(&facts).unwrap()).unwrap();
    value["finished"] = false.into();
    std::fs::write(&facts, value.to_string()).unwrap();
    let output = replay(&other, &place.path().join("sixth"));
    refused(&output, &["not come to its end"]);
    assert_eq!(output.status.code(), Some(2));
}
