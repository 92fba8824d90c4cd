//! A run that trains an adapter, and the commands on the adapter that it leaves.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::eval::{eval, stderr};
use crate::one_core::on_one_core;
use crate::{last_object, objects, only_run, recorded, root, run, train, wait_for};

#[test]
fn an_adapter_is_trained_killed_resumed_sampled_merged_and_evaluated() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let recorded = recorded::setting(place.path(), 2, 1, 4);
    let settings = [
        recorded.as_str(),
        "tasks=1",
        "group_size=4",
        "evaluate_tasks=1",
        "max_steps=2",
        "sqd.enabled=false",
        "learner.lora.rank=4",
        "learner.lora.alpha=8",
        // The shipped configuration's setting changes a weight that an adapter does not have.
        "learner.sharpen=1.0",
        "learner.warmup_steps=0",
    ];
    let mut child = train(&runs, &settings)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let versions = || {
        let file = only_run(&runs).map(|run| run.join("training.jsonl"));
        file.filter(|f| f.exists()).map_or(0, |f| objects(&f).len())
    };
    wait_for(
        &mut child,
        Duration::from_secs(180),
        "the first step",
        || versions() >= 2,
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let output = train(&runs, &[]).arg("--resume").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let summary = last_object(&output);
    assert_eq!(summary["steps"], 2, "{summary}");
    let folder = only_run(&runs).unwrap();

    // Only the adapter is published: every version is a small part of the model, and the last one differs from the
    // first.
    let starter = std::fs::metadata(root().join("models/starter/model.safetensors")).unwrap();
    let published = objects(&folder.join("training.jsonl"));
    for version in &published {
        let size = version["weights"]["size"].as_u64().unwrap();
        assert!(size < starter.len() / 4, "{version}");
    }
    let digest = |n: usize| published[n]["weights"]["digest"].clone();
    assert_ne!(digest(0), digest(published.len() - 1));

    let model = folder.join("model");
    assert!(model.join("adapter_model.safetensors").exists());
    assert!(!model.join("model.safetensors").exists());
    let model = model.to_str().unwrap();
    let works = |arguments: &[&str]| {
        let output = run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        output.stdout
    };
    works(&["model", "inspect", model]);
    let whole = place.path().join("whole");
    let whole = whole.to_str().unwrap();
    works(&["model", "merge", model, whole]);
    let greedy = |model: &str| {
        let sample = ["model", "sample", model, "--problem", "dgemm"];
        works(&[&sample[..], &["--temperature", "0", "--max-tokens", "40"]].concat())
    };
    assert_eq!(greedy(model), greedy(whole));
    // As a model of an evaluation it answers as the merged model does.
    let models = [format!("adapter={model}"), format!("merged={whole}")];
    let asked = ["--problem", "dgemm", "--samples", "2", "--format", "json"];
    let sampled = ["--temperature", "0", "--max-tokens", "40"];
    let named = [models[0].as_str(), models[1].as_str()];
    let output = eval(place.path(), &[&named[..], &asked, &sampled].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let results = last_object(&output);
    let judged = results["models"].as_array().unwrap().iter();
    for (judged, name) in judged.zip(["adapter", "merged"]) {
        assert_eq!(judged["model"], name, "{results}");
        let counts = &judged["all"]["counts"];
        assert_eq!(counts["answers"], 2, "{judged}");
        assert_eq!(counts["unmeasured"], 0, "{judged}");
    }
    let answers = objects(&place.path().join("out/samples.jsonl"));
    let of = |name: &str| -> Vec<&Value> {
        let own = answers.iter().filter(|answer| answer["model"] == name);
        own.map(|answer| &answer["answer"]).collect()
    };
    assert_eq!(of("adapter").len(), 2, "{answers:?}");
    assert_eq!(of("adapter"), of("merged"));
    // No file is replaced.
    let output = run(&["model", "merge", model, whole]);
    assert_eq!(output.status.code(), Some(2));
    let output = run(&["model", "merge", whole, "elsewhere"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("there is no adapter in"), "{said}");
}
