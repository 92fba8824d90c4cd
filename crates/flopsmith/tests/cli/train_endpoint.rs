//! A run that trains an adapter through `model serve`: the real service, the real learner, and a server that cannot be
//! trained through.

use std::collections::BTreeSet;
use std::path::Path;

use flopsmith_test_support::endpoint::{Act, ScriptedEndpoint};
use serde_json::Value;

use crate::one_core::on_one_core;
use crate::service::Service;
use crate::{flopsmith, last_object, objects, only_run, recorded, train};

/// The settings of a short run that trains an adapter through the endpoint at this base URL, with recorded outcomes.
fn settings(place: &Path, url: &str) -> Vec<String> {
    let endpoint = format!("generator.endpoint.url={url}");
    let outcomes = recorded::setting(place, 2, 2, 4);
    let all = [
        outcomes.as_str(),
        "tasks=2",
        "group_size=4",
        "evaluate_tasks=1",
        "max_steps=2",
        "sqd.enabled=false",
        "learner.lora.rank=4",
        "learner.lora.alpha=8",
        // The shipped configuration's setting changes a weight that an adapter does not have.
        "learner.sharpen=1.0",
        "learner.warmup_steps=0",
        "generator.exploration_samples=0",
        "generator.kind=endpoint",
        "generator.endpoint.model=starter",
        &endpoint,
    ];
    all.map(str::to_owned).into()
}

#[test]
fn a_model_is_trained_through_its_own_server_version_by_version() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let mut command = flopsmith();
    command.args(["model", "serve", "models/starter", "--port", "0"]);
    command.arg("--adapter-folder").arg(place.path());
    let service = Service::start(&mut command);
    let settings = settings(place.path(), &format!("http://{}/v1", service.address));
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let output = train(&runs, &settings).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(last_object(&output)["steps"], 2, "{said}");
    let folder = only_run(&runs).unwrap();

    // Each sample says the version that wrote it: that which the step before left.
    let mut versions = BTreeSet::new();
    for outcome in objects(&folder.join("outcomes.jsonl")) {
        assert_ne!(outcome["verdict"]["type"], "infrastructure", "{outcome}");
        let candidate = &outcome["candidate"];
        let policy = candidate["policy"].as_u64().unwrap();
        let step = candidate["step"].as_u64().unwrap();
        let expected = match candidate["purpose"].as_str().unwrap() {
            "train" => step - 1,
            "evaluate_start" => 0,
            "evaluate_end" => 2,
            _ => continue,
        };
        versions.insert(policy);
        assert_eq!(policy, expected, "{candidate}");
    }
    assert_eq!(versions, BTreeSet::from([0, 1, 2]));
    let answers = objects(&folder.join("answers.jsonl"));
    assert!(!answers.is_empty());
    for line in &answers {
        assert!(!line["prompt"].as_str().unwrap().is_empty(), "{line}");
        assert!(line["output_tokens"].as_u64().unwrap() > 0, "{line}");
    }

    // The learner finds the log-probabilities that the server drew by, for the version that wrote the samples.
    let published = objects(&folder.join("training.jsonl"));
    let digests: BTreeSet<String> = published
        .iter()
        .map(|version| version["weights"]["digest"].as_str().unwrap().to_owned())
        .collect();
    assert!(digests.len() > 1, "{published:?}");
    let gaps: Vec<f64> = published
        .iter()
        .filter_map(|version| version["metrics"]["sampler_gap"].as_f64())
        .collect();
    assert!(!gaps.is_empty(), "{published:?}");
    assert!(gaps.iter().all(|gap| *gap < 1e-3), "{gaps:?}");

    // The server has the last two versions beside the model.
    let models = service.ask("GET /v1/models", "");
    let models: Value = serde_json::from_str(&models).unwrap();
    let run = folder.file_name().unwrap().to_str().unwrap();
    let names: Vec<&str> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for (name, version) in names[1..].iter().zip([1, 2]) {
        let begins = format!("{run}-v{version}-");
        assert!(name.starts_with(&begins), "{names:?}");
        let adapter = folder.join("adapters").join(name);
        assert!(adapter.join("adapter_model.safetensors").is_file());
    }
    assert!(folder.join("model/adapter_model.safetensors").is_file());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_server_without_token_ids_ends_the_run_before_its_first_sample() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let body = r#"{"model":"starter","choices":[{"text":"x","finish_reason":"length"}]}"#;
    let server = ScriptedEndpoint::acts(vec![Act::Answer(200, "", body.to_owned())]).unwrap();
    let settings = settings(place.path(), &server.url());
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let output = train(&runs, &settings).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("return_token_ids"), "{said}");
    assert_eq!(server.asked().len(), 1);
    let written = only_run(&runs).map(|folder| folder.join("outcomes.jsonl"));
    let outcomes = written.and_then(|file| std::fs::read_to_string(file).ok());
    assert_eq!(outcomes.unwrap_or_default(), "");
}

#[test]
fn a_training_through_an_endpoint_is_checked_before_it_has_a_folder() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let base = settings(place.path(), "http://127.0.0.1:1/v1");
    for (more, part) in [
        ("generator.temperature=0.7", "processed_logprobs"),
        ("generator.endpoint.url=ftp://127.0.0.1/v1", "http://"),
        (
            "generator.endpoint.key=FLOPSMITH_TEST_NO_SUCH_KEY",
            "FLOPSMITH_TEST_NO_SUCH_KEY",
        ),
    ] {
        let settings: Vec<&str> = base.iter().map(String::as_str).chain([more]).collect();
        let output = train(&runs, &settings).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more}: {said}");
        assert!(said.contains(part), "{more}: {said}");
        assert!(only_run(&runs).is_none(), "{more}");
    }
    // The machine is not measured for a server that is not there.
    let settings: Vec<&str> = base.iter().map(String::as_str).collect();
    let output = train(&runs, &settings).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("127.0.0.1:1/v1 cannot be reached"), "{said}");
    assert!(only_run(&runs).is_none(), "{said}");
}
