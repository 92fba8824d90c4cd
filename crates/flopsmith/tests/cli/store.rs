//! Garbage collection of a store: referenced artifacts stay.

use std::fs::File;
use std::time::{Duration, SystemTime};

use flopsmith_bus::{Auth, Bus, RunSetup, Server, ServerOptions};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{ArtifactRef, Compiled, Digest, RunId, TechniqueSet};
use flopsmith_store::{Checkpoints, Store};
use flopsmith_test_support::{candidate, machine_class, run_id};

use super::*;

#[test]
fn a_store_that_is_only_looked_at_is_not_made() {
    let place = tempfile::tempdir().unwrap();
    let mistyped = place.path().join("nothere");
    let store = mistyped.to_str().unwrap();
    let nats = "nats://127.0.0.1:1";
    let arguments = ["store", "gc", "--dry-run", "--nats", nats, "--store", store];
    let ended = run(&arguments);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("there is no folder"), "{said}");
    assert!(!mistyped.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn unreferenced_artifacts_are_removed_and_all_others_stay() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(None, place.path(), ServerOptions::default());
    let server = server.await.unwrap();
    let bus = Bus::connect(&server).await.unwrap();
    bus.ensure_streams(&RunSetup::default()).await.unwrap();
    let folder = place.path().join("store");
    let store = Store::open(folder.to_str().unwrap()).unwrap();
    let old = async |content: &str| {
        let artifact = store.put(content.to_owned()).await.unwrap();
        let file = File::options()
            .write(true)
            .open(store.path(&artifact).unwrap());
        let days = Duration::from_secs(3 * 24 * 3600);
        file.unwrap()
            .set_modified(SystemTime::now() - days)
            .unwrap();
        artifact
    };
    let queued = old("an object that waits to be timed").await;
    let known = old("an object of a program that was tried").await;
    let recorded = old("samples that a run's folder names").await;
    let unknown = old("left behind").await;
    let young = store.put("on its way").await.unwrap();
    let compiled = Compiled {
        candidate: candidate(0, 0, 0),
        source: "x".into(),
        object: queued.clone(),
        techniques: TechniqueSet::EMPTY,
        vector_bits: None,
        toolchain: Digest::of(b"toolchain"),
        key: None,
        compile_seconds: 0.0,
    };
    let verify = Queue::verify(&machine_class()).of(&run_id());
    bus.publish(&verify, &compiled).await.unwrap();
    let cache = bus.kv("fs_outcome_cache").await.unwrap();
    let note = format!("{{\"object\":\"{}\"}}", known.digest);
    cache.put("some.key", note).await.unwrap();
    let runs = place.path().join("runs");
    std::fs::create_dir_all(runs.join("r-1")).unwrap();
    let line = format!("{{\"samples\":\"{}\"}}\n", recorded.digest);
    std::fs::write(runs.join("r-1/outcomes.jsonl"), line).unwrap();
    let over = RunId::new("over").unwrap();
    let checkpoints = Checkpoints::new(store.clone(), "archive").in_term(3);
    for step in 0..5 {
        let files = vec![("archive.msgpack".to_owned(), vec![1u8, 2, 3])];
        let saved = checkpoints.save(&over, step, files, Value::Null);
        saved.await.unwrap();
    }

    let options = server.connect_options();
    let Auth::Token(token) = &options.auth else {
        panic!("a server of one's own has a token");
    };
    let url = options.url.replace("://", &format!("://{token}@"));
    let gc = |more: &[&str]| {
        let mut command = flopsmith();
        command.args(["store", "gc", "--nats", &url, "--format", "json", "--store"]);
        command.arg(&folder).arg("--runs").arg(&runs).args(more);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        last_object(&output)
    };
    let is_there = |artifact: &ArtifactRef| store.path(artifact).unwrap().exists();
    for (more, gone) in [(&["--dry-run"][..], false), (&[], true)] {
        let found = gc(more);
        let counts = "artifacts bytes referred_to young removed removed_bytes";
        let keys = format!("dry_run {counts} removed_checkpoints");
        assert_keys(&found, &keys, "");
        assert_eq!(found["removed"], 1, "{found}");
        assert_eq!(found["referred_to"], 3, "{found}");
        assert_eq!(found["young"], 1, "{found}");
        let names = found["removed_checkpoints"].as_array().unwrap();
        assert_eq!(names.len(), 2, "{found}");
        assert_eq!(is_there(&unknown), !gone);
    }
    for kept in [&queued, &known, &recorded, &young] {
        assert!(is_there(kept));
    }
    let newest = checkpoints.latest(&over).await.unwrap().unwrap();
    assert_eq!(newest.step, 4);
    assert_eq!(checkpoints.superseded(&over, 3).await.unwrap(), [""; 0]);
    let again = gc(&[]);
    assert_eq!(again["removed"], 0, "{again}");
    // The command must not remove artifacts that are a moment old.
    let mut hasty = flopsmith();
    hasty.args(["store", "gc", "--older", "1m", "--nats", &url, "--store"]);
    assert_eq!(hasty.arg(&folder).output().unwrap().status.code(), Some(2));

    // A broker without knowledge of the store.
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Server::start(None, elsewhere.path(), ServerOptions::default());
    let other = other.await.unwrap();
    let theirs = Bus::connect(&other).await.unwrap();
    theirs.ensure_streams(&RunSetup::default()).await.unwrap();
    let options = other.connect_options();
    let Auth::Token(token) = &options.auth else {
        panic!("a server of one's own has a token");
    };
    let wrong = options.url.replace("://", &format!("://{token}@"));
    let on_wrong_bus = |more: &[&str]| {
        let mut command = flopsmith();
        command.args(["store", "gc", "--nats", &wrong, "--store"]);
        command.arg(&folder).args(more).output().unwrap()
    };
    let refused = on_wrong_bus(&[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("--all"), "{said}");
    assert!(is_there(&queued));
    let meant = on_wrong_bus(&["--all"]);
    assert_eq!(meant.status.code(), Some(0), "{meant:?}");
    assert!(!is_there(&queued) && is_there(&young));
}
