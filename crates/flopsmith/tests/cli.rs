//! The binary as a person uses it: real compiler, real jail, real broker, real measurements.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use flopsmith_protocol::Digest;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The harness is another package's binary: it lies beside this one once the workspace is built.
fn flopsmith() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flopsmith"));
    command.current_dir(root()).stdin(Stdio::null());
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

/// The result of timing a program, its exit code and what was written of its samples.
fn bench(source: &str) -> (Value, i32, Option<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.c");
    let raw = folder.path().join("raw.json");
    std::fs::write(&file, source).unwrap();
    let output = run(&[
        "bench",
        file.to_str().unwrap(),
        "--problem",
        "dgemm",
        "--purpose",
        "screen",
        "--format",
        "json",
        "--raw",
        raw.to_str().unwrap(),
    ]);
    let raw = std::fs::read(raw)
        .ok()
        .map(|bytes| serde_json::from_slice(&bytes).unwrap());
    (last_object(&output), output.status.code().unwrap(), raw)
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

#[test]
fn bench_measures_a_correct_program_and_says_what_it_uses() {
    let (object, code, raw) = bench(
        "void dgemm(int n,const double*A,const double*B,double*C){\n\
         for(int i=0;i<n*n;i++)C[i]=0;\n\
         for(int i=0;i<n;i++)for(int k=0;k<n;k++)for(int j=0;j<n;j++)C[i*n+j]+=A[i*n+k]*B[k*n+j];}\n",
    );
    assert_eq!(code, 0, "{object}");
    assert_eq!(object["outcome"], "measured");
    assert_eq!(object["techniques"], serde_json::json!(["loop_reorder"]));
    assert!(object["gflops"].as_f64().unwrap() > 0.1);
    for key in ["ratio", "interval", "blocks", "diagnostics", "attestation"] {
        assert!(!object[key].is_null(), "{key} in {object}");
    }
    if cfg!(target_arch = "x86_64") {
        assert!(object["vector_bits"].as_u64().unwrap() >= 128, "{object}");
    }
    let raw = raw.unwrap();
    assert_traceable(&raw);
    assert_eq!(raw["measurement"]["gflops"], object["gflops"]);
}

#[test]
fn bench_names_the_candidates_fault_and_exits_with_1() {
    let wrong = |source: &str, reason: &str| {
        let (object, code, raw) = bench(source);
        assert_eq!(code, 1, "{object}");
        assert_eq!(object["outcome"], "rejected", "{object}");
        assert_eq!(object["reason"], reason, "{object}");
        assert_eq!(raw, None, "what was not timed has no samples");
    };
    wrong(
        "void dgemm(int n,const double*A,const double*B,double*C){}",
        "wrong_result",
    );
    wrong(
        "void dgemm(int n,const double*A,const double*B,double*C){for(;;);}",
        "timeout",
    );
    wrong(
        "void dgemm(int n,const double*A,const double*B,double*C){ int x = ; }",
        "compile_error",
    );
    wrong(
        "#include <unistd.h>\nvoid dgemm(int n,const double*A,const double*B,double*C){}",
        "forbidden_include",
    );
    wrong("int other;", "missing_entry");
}

#[test]
fn wrong_usage_exits_with_2_and_says_what_to_try() {
    let says = |arguments: &[&str], part: &str| {
        let output = run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(part), "{part:?} in {text}");
    };
    says(
        &["bench", "no-such-file.c", "--problem", "dgemm"],
        "cannot read no-such-file.c",
    );
    says(
        &["bench", "Cargo.toml", "--problem", "dgem"],
        "did you mean `dgemm`",
    );
    says(&["train", "no-such.toml"], "examples/dgemm.toml");
    says(&["search", "--problem", "dgemm", "--budget", "5x"], "10m");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.toml");
    std::fs::write(&config, "tasks = 4\n[generator]\nmax_token = 3\n").unwrap();
    says(&["train", config.to_str().unwrap()], "line 3");
    std::fs::write(&config, "tasks = = 4\n").unwrap();
    says(&["train", config.to_str().unwrap()], "line 1");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    says(
        &[
            "search",
            "--problem",
            "dgemm",
            "--runs",
            file.to_str().unwrap(),
        ],
        "--runs",
    );
}

#[test]
fn the_shipped_problem_is_sound() {
    let output = run(&["problem", "check", "dgemm", "--format", "json"]);
    let object = last_object(&output);
    assert_eq!(object["sound"], true, "{object}");
}

#[test]
fn doctor_finds_what_a_run_needs() {
    let output = run(&["doctor", "--quick", "--format", "json"]);
    let object = last_object(&output);
    assert_eq!(object["ready"], true, "{object}");
}

/// Outcomes by id, and how often each stands in the file.
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

fn search(runs: &Path) -> Command {
    let mut command = flopsmith();
    command
        .args(["search", "--problem", "dgemm", "--format", "json"])
        .args(["--budget", "10m", "--runs"])
        .arg(runs);
    for set in ["tasks=2", "group_size=4", "max_steps=4"] {
        command.args(["--set", set]);
    }
    command
}

/// Goes on with it; its settings are its own.
fn resume_search(runs: &Path) -> Command {
    let mut command = flopsmith();
    command
        .args(["search", "--problem", "dgemm", "--format", "json"])
        .args(["--resume", "--runs"])
        .arg(runs);
    command
}

/// Training with the shipped starter.
#[cfg(feature = "torch")]
fn train(runs: &Path, settings: &[&str]) -> Command {
    let mut command = flopsmith();
    command
        .args(["train", "examples/dgemm.toml", "--format", "json", "--runs"])
        .arg(runs);
    for set in settings {
        command.args(["--set", set]);
    }
    command
}

fn only_run(runs: &Path) -> Option<PathBuf> {
    std::fs::read_dir(runs)
        .ok()?
        .filter_map(Result::ok)
        .map(|e| e.path())
        .next()
}

#[test]
fn a_search_that_is_killed_is_resumed_without_losing_or_doubling_an_outcome() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let mut child = search(&runs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(
        &mut child,
        Duration::from_secs(120),
        "some outcomes",
        || only_run(&runs).is_some_and(|r| outcomes(&r).len() >= 5),
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let folder = only_run(&runs).unwrap();
    let before: HashSet<String> = outcomes(&folder).into_keys().collect();

    // Only the budget may be another than at its begin, and it stays.
    let settings = || std::fs::read_to_string(folder.join("config.toml")).unwrap();
    assert!(settings().contains("budget_seconds = 600"));
    let refused = search(&runs).arg("--resume").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let error = last_object(&refused)["error"].to_string();
    assert!(
        error.contains("--set") && error.contains("--budget"),
        "{error}"
    );
    let output = resume_search(&runs)
        .args(["--budget", "11m"])
        .output()
        .unwrap();
    assert!(
        settings().contains("budget_seconds = 660"),
        "{}",
        settings()
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let after = outcomes(&folder);
    assert!(after.values().all(|n| *n == 1), "{after:?}");
    assert!(
        before.iter().all(|id| after.contains_key(id)),
        "every outcome from before the kill is still there"
    );
    let own = after.keys().filter(|id| !id.contains("-m")).count();
    assert_eq!(
        own,
        4 * 2 * 4,
        "each sample of each step has exactly one outcome"
    );
    let summary = last_object(&output);
    assert_eq!(summary["steps"], 4);
    assert_eq!(summary["infrastructure_errors"], 0, "{summary}");
    assert!(summary["best"]["gflops"].as_f64().unwrap() > 0.1);
    assert!(folder.join("report.html").is_file() && folder.join("best.c").is_file());

    // What the numbers rest on is there: the machine as each sitting attested it, and the samples of what is called the best.
    let attested: HashSet<String> = objects(&folder.join("machines.jsonl"))
        .iter()
        .map(|machine| {
            let json = machine["attestation_json"].as_str().unwrap();
            assert_eq!(
                machine["attestation"],
                Digest::of(json.as_bytes()).to_string()
            );
            machine["attestation"].as_str().unwrap().to_owned()
        })
        .collect();
    let (mut confirmed, mut measured) = (HashSet::new(), HashSet::new());
    for outcome in objects(&folder.join("outcomes.jsonl")) {
        if outcome["verdict"]["type"] != "measured" {
            continue;
        }
        let named = outcome["verdict"]["measurement"]["attestation"]
            .as_str()
            .unwrap();
        assert!(attested.contains(named), "nobody knows {named}");
        if cfg!(target_arch = "x86_64") {
            assert!(outcome["vector_bits"].as_u64().unwrap() >= 128, "{outcome}");
        }
        let techniques = outcome["techniques"].to_string();
        if outcome["candidate"]["purpose"] == "certify" {
            confirmed.insert(techniques.clone());
        }
        measured.insert(techniques);
    }
    let counted = |key: &str| summary[key].as_u64().unwrap() as usize;
    assert_eq!(counted("coverage"), confirmed.len());
    assert!(counted("coverage_unconfirmed") <= measured.len() - confirmed.len());
    let kept = summary["best"]["samples"].as_str().unwrap();
    let record: Value = serde_json::from_slice(&std::fs::read(folder.join(kept)).unwrap()).unwrap();
    assert_traceable(&record);
    assert_eq!(record["measurement"]["gflops"], summary["best"]["gflops"]);
    assert_eq!(record["source"], summary["best"]["source"]);

    // A kill between the last step and the measurements after it: only those are made.
    let facts_path = folder.join("run.json");
    let facts =
        || -> Value { serde_json::from_slice(&std::fs::read(&facts_path).unwrap()).unwrap() };
    let certified = facts()["certified"].as_array().unwrap().clone();
    assert!((1..=4).contains(&certified.len()), "{certified:?}");
    assert!(
        certified
            .iter()
            .any(|c| c["measurement"]["gflops"] == summary["best"]["gflops"]),
        "what is called the best was measured after the end: {certified:?}"
    );
    let mut cut = facts();
    cut["certified"] = serde_json::json!([]);
    cut["concluded"] = false.into();
    std::fs::write(&facts_path, cut.to_string()).unwrap();
    let concluded = resume_search(&runs).output().unwrap();
    assert!(concluded.status.success());
    assert_eq!(last_object(&concluded)["outcomes"], summary["outcomes"]);
    assert_eq!(
        facts()["certified"].as_array().unwrap().len(),
        certified.len()
    );

    let again = resume_search(&runs).output().unwrap();
    assert_eq!(
        again.status.code(),
        Some(2),
        "there is nothing left to resume"
    );
    let listed = flopsmith()
        .args(["runs", "--format", "json", "--runs"])
        .arg(&runs)
        .output()
        .unwrap();
    assert_eq!(last_object(&listed)[0]["finished"], true);
}

/// The private broker of the run that is this process.
fn broker_of(run: u32) -> Option<u32> {
    let mut processes = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    processes.find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        // `pid (name) state parent …`
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(')')?;
        let parent: u32 = rest.split_whitespace().nth(1)?.parse().ok()?;
        (parent == run && name.ends_with("(nats-server")).then_some(pid)
    })
}

#[test]
fn a_run_whose_broker_keeps_dying_says_so_and_is_resumed() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let mut child = search(&runs)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let run = child.id();
    let limit = Duration::from_secs(120);
    wait_for(&mut child, limit, "some outcomes", || {
        only_run(&runs).is_some_and(|r| outcomes(&r).len() >= 3)
    });
    // It is started again five times within a minute, and then no more.
    let mut killed = None;
    for _ in 0..6 {
        wait_for(&mut child, limit, "a broker", || {
            broker_of(run).is_some_and(|pid| Some(pid) != killed)
        });
        killed = broker_of(run);
        let pid = killed.unwrap().to_string();
        let done = Command::new("kill").args(["-KILL", &pid]).status();
        assert!(done.unwrap().success());
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "the run hangs without a broker");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("is given up") && said.contains("--resume"),
        "{said}"
    );

    let folder = only_run(&runs).unwrap();
    let before = outcomes(&folder);
    let resumed = resume_search(&runs).output().unwrap();
    assert!(
        resumed.status.success(),
        "{}",
        String::from_utf8_lossy(&resumed.stderr)
    );
    let after = outcomes(&folder);
    assert!(before.keys().all(|id| after.contains_key(id)));
    assert!(after.values().all(|n| *n == 1), "{after:?}");
}

/// The whole loop with the shipped starter: two steps of training, cut short by a kill, then resumed to its end.
#[cfg(feature = "torch")]
#[test]
fn training_runs_end_to_end_and_survives_a_kill() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let settings = ["tasks=2", "group_size=4", "evaluate_tasks=2", "max_steps=2"];
    let mut child = train(&runs, &settings)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(
        &mut child,
        Duration::from_secs(180),
        "the first evaluation",
        || only_run(&runs).is_some_and(|r| outcomes(&r).len() >= 9),
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let output = train(&runs, &[]).arg("--resume").output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let summary = last_object(&output);
    assert_eq!(summary["steps"], 2, "{summary}");
    assert_eq!(summary["start"]["samples"], 8);
    assert_eq!(summary["end"]["samples"], 8);
    assert_eq!(summary["finished"], true);
    let folder = only_run(&runs).unwrap();
    let all = outcomes(&folder);
    assert!(all.values().all(|n| *n == 1));
    assert_eq!(all.keys().filter(|id| !id.contains("-m")).count(), 8 * 4);
    // What was trained is a model like any other, with weights of its own.
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

    // A kill after the last step, before the model was written and the last measurements were made.
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
    let concluded = train(&runs, &[]).arg("--resume").output().unwrap();
    let said = String::from_utf8_lossy(&concluded.stderr);
    assert!(concluded.status.success(), "{said}");
    assert!(said.contains("sample it"), "{said}");
    assert_eq!(weights(&model), trained);
    // What is divided by each other was measured with the same timer.
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

/// Ten kills at random moments of one training run; then it is led to its end. About three minutes:
/// `make kills`.
#[cfg(feature = "torch")]
#[test]
#[ignore = "takes minutes; `make kills` runs it"]
#[expect(clippy::print_stderr, reason = "what happened is worth seeing")]
fn ten_kills() {
    const STEPS: usize = 12;
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let steps = format!("max_steps={STEPS}");
    let settings = [
        "tasks=4",
        "group_size=4",
        "evaluate_tasks=2",
        steps.as_str(),
    ];
    let begin = || {
        let mut command = train(&runs, &settings);
        command.args(["--budget", "30m"]);
        command
    };
    let resume = || {
        let mut command = train(&runs, &[]);
        command.arg("--resume");
        command
    };
    let mut known: HashSet<String> = HashSet::new();
    for kill in 0..10 {
        // A kill may come before the run has a folder.
        let begun = only_run(&runs).is_some();
        let mut child = if begun { resume() } else { begin() }
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let nanos = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .subsec_nanos();
        let moment = Duration::from_millis(2000 + u64::from(nanos / 1000 % 9000));
        let begun = Instant::now();
        while begun.elapsed() < moment && child.try_wait().unwrap().is_none() {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        assert!(
            child.try_wait().unwrap().is_none(),
            "the run ended by itself before kill {kill}"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        let Some(folder) = only_run(&runs) else {
            continue;
        };
        let now = outcomes(&folder);
        eprintln!(
            "killed after {:.1} s with {} outcomes on disk, {} of them new",
            moment.as_secs_f64(),
            now.len(),
            now.keys().filter(|id| !known.contains(*id)).count()
        );
        assert!(now.values().all(|n| *n == 1), "{now:?}");
        assert!(
            known.iter().all(|id| now.contains_key(id)),
            "an outcome was lost"
        );
        known = now.into_keys().collect();
    }
    let output = resume().output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let all = outcomes(&only_run(&runs).unwrap());
    assert!(all.values().all(|n| *n == 1));
    assert!(known.iter().all(|id| all.contains_key(id)));
    assert_eq!(
        all.keys().filter(|id| !id.contains("-m")).count(),
        STEPS * 16 + 2 * 2 * 4,
        "each sample of each step and evaluation has exactly one outcome"
    );
    let summary = last_object(&output);
    eprintln!("{summary}");
    assert_eq!(summary["infrastructure_errors"], 0, "{summary}");
}
