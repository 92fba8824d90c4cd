//! The program in a person's use: real compiler, real jail, real broker, real measurements.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use flopsmith_protocol::Digest;
use serde_json::Value;

#[cfg(feature = "torch")]
mod adapter;
#[cfg(feature = "torch")]
mod align;
mod answers;
mod bad_input;
mod bench;
mod dead;
mod doctor;
mod endpoints;
mod eval;
mod harbor;
mod interrupts;
mod keys;
#[cfg(feature = "torch")]
mod kills;
#[cfg(feature = "torch")]
mod learning;
#[cfg(feature = "torch")]
mod many;
mod mcp;
#[cfg(feature = "torch")]
mod memory;
#[cfg(feature = "torch")]
mod model_serve;
#[cfg(feature = "torch")]
mod models;
mod module_service;
mod modules;
mod nests;
mod one_core;
mod quick;
#[cfg(feature = "torch")]
mod recorded;
mod refusals;
#[cfg(feature = "torch")]
mod replay;
mod search;
mod serve;
mod service;
mod store;
mod summary;
mod terminal;
#[cfg(feature = "torch")]
mod traces;
#[cfg(feature = "torch")]
mod train_endpoint;
#[cfg(feature = "torch")]
mod training;
mod tune;
mod variables;
mod variants;
mod worker;
mod workloads;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Uses problems with short calls. The harness is another package's program: it lies beside this one once the workspace
/// is built.
fn flopsmith() -> Command {
    let mut command = as_shipped();
    command.env("FLOPSMITH_PROBLEMS", quick::problems());
    command
}

fn as_shipped() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flopsmith"));
    command.current_dir(root()).stdin(Stdio::null());
    // The tests themselves keep the machine busy.
    command.env("FLOPSMITH_WAIT", "0");
    command
}

fn run(arguments: &[&str]) -> Output {
    flopsmith().args(arguments).output().unwrap()
}

fn last_object(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_else(|| {
        panic!(
            "no stdout; stderr: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    });
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))
}

/// An object must have the keys that are always there, and may have those that are sometimes there: programs of users
/// read them by their names.
fn assert_keys(object: &Value, always: &str, sometimes: &str) {
    let keys = object.as_object();
    let keys = keys.unwrap_or_else(|| panic!("no object: {object}")).keys();
    let found: BTreeSet<&str> = keys.map(String::as_str).collect();
    let sometimes = sometimes.split(' ').filter(|key| found.contains(key));
    let wanted: BTreeSet<&str> = always.split(' ').chain(sometimes).collect();
    assert_eq!(found, wanted, "{object}");
}

/// A list must have rows, each with these keys.
fn assert_rows(list: &Value, always: &str) {
    let rows = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    assert!(!rows.is_empty(), "no row");
    for row in rows {
        assert_keys(row, always, "");
    }
}

/// A record must hold samples, and the attestation that its measurement names.
fn assert_traceable(record: &Value) {
    assert!(
        !record["samples"]["candidate"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    assert!(!record["samples"]["baseline"].as_array().unwrap().is_empty());
    let attestation = Digest::of(record["attestation_json"].as_str().unwrap().as_bytes());
    assert_eq!(
        record["measurement"]["attestation"],
        attestation.to_string()
    );
}

/// Outcomes by id, and the number of their lines in the file.
fn outcomes(folder: &Path) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(folder.join("outcomes.jsonl")).unwrap_or_default();
    let mut ids = BTreeMap::new();
    for line in text.lines() {
        if let Ok(value) = serde_json::from_str::<Value>(line) {
            *ids.entry(value["candidate"]["id"].as_str().unwrap().to_owned())
                .or_default() += 1;
        }
    }
    ids
}

/// The objects of a file of JSON lines.
fn objects(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn wait_for(child: &mut Child, limit: Duration, what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !ready() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        assert!(
            child.try_wait().unwrap().is_none(),
            "the run ended before {what}"
        );
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// The shipped training, with the starter.
#[cfg(feature = "torch")]
fn train_as_shipped(runs: &Path, settings: &[&str]) -> Command {
    let mut command = as_shipped();
    command
        .args(["train", "examples/dgemm.toml", "--format", "json", "--runs"])
        .arg(runs);
    for set in settings {
        command.args(["--set", set]);
    }
    command
}

/// The same of a problem with short calls.
#[cfg(feature = "torch")]
fn train(runs: &Path, settings: &[&str]) -> Command {
    let model = format!("generator.model={}", quick::starter().display());
    // A resumed run has its own settings.
    let all: Vec<&str> = match settings {
        [] => Vec::new(),
        more => [&quick::SETTINGS, &[model.as_str()][..], more].concat(),
    };
    let mut command = train_as_shipped(runs, &all);
    quick::on(&mut command);
    command
}

fn only_run(runs: &Path) -> Option<PathBuf> {
    std::fs::read_dir(runs)
        .ok()?
        .filter_map(Result::ok)
        .map(|e| e.path())
        .next()
}
