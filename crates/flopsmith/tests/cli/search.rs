//! Searches that end early: killed, or without their broker.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flopsmith_machine::attest::Attestation;
use flopsmith_protocol::Digest;
use serde_json::Value;

use crate::{
    as_shipped, assert_traceable, flopsmith, last_object, objects, only_run, outcomes, quick,
    summary, wait_for,
};

/// The shipped search, of known length.
fn search(runs: &Path) -> Command {
    let mut command = as_shipped();
    command
        .args(["search", "--problem", "dgemm", "--workload", "n=256"])
        .args(["--format", "json", "--budget", "10m", "--runs"])
        .arg(runs);
    for set in [
        "tasks=2",
        "group_size=4",
        "max_steps=3",
        "evaluate.finalists=1",
        // A second measurement takes seconds.
        "sqd.remeasures_per_step=2",
        // Tests that run at the same time disturb each other.
        "evaluate.quarantine=false",
    ] {
        command.args(["--set", set]);
    }
    command
}

/// The same of a problem with short calls.
pub fn quick_search(runs: &Path) -> Command {
    let mut command = search(runs);
    command.args(quick::SETTINGS.iter().flat_map(|set| ["--set", set]));
    quick::on(&mut command);
    command
}

/// Resumes it; a resumed run has its own settings.
fn resume_search(runs: &Path) -> Command {
    let mut command = as_shipped();
    command
        .args(["search", "--problem", "dgemm", "--format", "json"])
        .args(["--resume", "--runs"])
        .arg(runs);
    command
}

/// The same of a problem with short calls.
pub fn resume_quick_search(runs: &Path) -> Command {
    let mut command = resume_search(runs);
    quick::on(&mut command);
    command
}

/// Interrupts `runs watch` beside a running run.
fn interrupted_watching_leaves_the_run_alone(runs: &Path) {
    let mut command = flopsmith();
    command.args(["runs", "watch", "--runs"]).arg(runs);
    let mut watching = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(watching.stderr.take().unwrap()).lines();
    // The command handles signals a moment after that.
    assert!(said.next().unwrap().unwrap().starts_with("watching "));
    let pid = watching.id().to_string();
    let listens = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
        u64::from_str_radix(caught.unwrap().trim(), 16).unwrap() & 2 != 0
    };
    wait_for(
        &mut watching,
        Duration::from_secs(60),
        "a watch that listens",
        listens,
    );
    let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(sent.success());
    let words: Vec<String> = said.map(Result::unwrap).collect();
    assert_eq!(watching.wait().unwrap().code(), Some(130), "{words:?}");
    assert_eq!(words, ["no longer watching; no run is stopped"]);
}

#[test]
fn a_search_that_is_killed_is_resumed_without_losing_or_doubling_an_outcome() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let mut child = search(&runs)
        .args(["--set", "max_steps=2"])
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
    interrupted_watching_leaves_the_run_alone(&runs);
    assert!(child.try_wait().unwrap().is_none(), "the run has ended");
    child.kill().unwrap();
    child.wait().unwrap();
    let folder = only_run(&runs).unwrap();
    let before: HashSet<String> = outcomes(&folder).into_keys().collect();

    // Only the budget may differ from that of the start, and it stays.
    let settings = || std::fs::read_to_string(folder.join("config.toml")).unwrap();
    assert!(settings().contains("budget_seconds = 600"));
    let refused = search(&runs).arg("--resume").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let error = last_object(&refused)["error"].to_string();
    assert!(
        error.contains("--set") && error.contains("--budget"),
        "{error}"
    );
    // A follower reports that no archive works, and later that the run has ended.
    let watched = || {
        let mut command = flopsmith();
        command.args(["runs", "watch", "--runs"]).arg(&runs);
        let output = command.output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap().lines().count();
        (output.status.code(), lines)
    };
    assert_eq!(watched().0, Some(3));
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
        2 * 2 * 4,
        "each sample of each step has exactly one outcome"
    );
    let summary = last_object(&output);
    summary::is_whole(&summary, &folder);
    assert_eq!(summary["steps"], 2);
    // A search has no policy to evaluate and no corpus.
    assert_eq!(summary["start"], Value::Null);
    assert_eq!(summary["end"], Value::Null);
    assert_eq!(summary["corpus_best_gflops"], Value::Null);
    assert_eq!(summary["infrastructure_errors"], 0, "{summary}");
    assert!(summary["best"]["gflops"].as_f64().unwrap() > 0.1);
    assert!(folder.join("report.html").is_file() && folder.join("best.c").is_file());
    assert_eq!(watched(), (Some(0), 2));

    // Each session says first how long all takes, of which the budget is a part.
    let said = String::from_utf8_lossy(&output.stderr);
    let places = [
        "this takes at most ",
        " in all: 4 s to 25 s to measure this machine, at most ",
        " of searching, and 10 s to 55 s to measure the fastest program once more",
        "measuring this machine",
    ]
    .map(|part| said.find(part));
    let in_order = places.iter().all(Option::is_some) && places.is_sorted();
    assert!(in_order, "{places:?} {said}");

    // Each session warns once, at its start, of everything that makes timing on this machine imprecise.
    let machines = objects(&folder.join("machines.jsonl"));
    let last = machines.last().unwrap()["attestation_json"].as_str();
    let machine: Attestation = serde_json::from_str(last.unwrap()).unwrap();
    for line in machine.warnings() {
        let warning = format!("warning: {line}\n");
        assert_eq!(said.matches(&warning).count(), 1, "{warning}{said}");
    }

    // The run keeps the evidence of its numbers: each session's attestation of the machine, and the samples of the best
    // program.
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
        let stop = &outcome["verdict"]["measurement"]["stop"];
        if outcome["candidate"]["purpose"] == "certify" && stop != "unconverged" {
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

    let facts: Value =
        serde_json::from_slice(&std::fs::read(folder.join("run.json")).unwrap()).unwrap();
    let certified = facts["certified"].as_array().unwrap();
    assert_eq!(certified.len(), 1, "{certified:?}");
    assert_eq!(
        certified[0]["measurement"]["gflops"], summary["best"]["gflops"],
        "what is called the best was measured after the end"
    );
    let sizes = &summary["best"]["sizes"];
    assert!(sizes["met"].as_u64() > Some(0), "{summary}");
    assert_eq!(*sizes, certified[0]["measurement"]["sizes"]);

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
    let listed = last_object(&listed);
    assert_eq!(listed[0]["finished"], true);
    assert_eq!(listed[0]["concluded"], true);
    let rate = listed[0]["search_correct_rate"].as_f64().unwrap();
    assert!(rate > 0.0 && rate <= 1.0, "{listed}");
    let table = flopsmith().args(["runs", "--runs"]).arg(&runs).output();
    let table = String::from_utf8(table.unwrap().stdout).unwrap();
    let shown = format!("{:.0} %", rate * 100.0);
    assert!(table.lines().nth(1).unwrap().contains(&shown), "{table}");
    is_reported(&runs, &folder, place.path());
    warms_later_searches(&runs, &summary);
}

/// Another search in the same folder of runs begins with the best program of this one, if it is not told otherwise.
fn warms_later_searches(runs: &Path, summary: &Value) {
    let warm = |more: &[&str], earlier: usize| {
        let mut child = search(runs)
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let settings = || {
            let newest = std::fs::read_dir(runs).ok()?.flatten();
            let newest = newest.map(|entry| entry.path());
            let newest = newest.max_by_key(|path| {
                let made = path.join("config.toml").metadata();
                made.and_then(|of| of.modified()).ok()
            })?;
            std::fs::read_to_string(newest.join("config.toml")).ok()
        };
        let has_settings = |entry: &std::fs::DirEntry| entry.path().join("config.toml").is_file();
        let begun = || {
            let all = std::fs::read_dir(runs).unwrap().flatten();
            all.filter(has_settings).count() > earlier
        };
        wait_for(&mut child, Duration::from_secs(60), "another run", || {
            begun() && settings().is_some_and(|text| text.contains("budget_seconds"))
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let text = settings().unwrap();
        let settings: toml::Table = text.parse().unwrap();
        settings.get("warm_start").cloned()
    };
    let begun = warm(&["--seed", "2"], 1).unwrap();
    let programs = begun.as_array().unwrap();
    assert_eq!(programs.len(), 1);
    assert_eq!(programs[0].as_str(), summary["best"]["source"].as_str());
    assert_eq!(warm(&["--cold"], 2), None);
}

/// A finished run can be written as one page at any time: into its folder, or to another path.
fn is_reported(runs: &Path, folder: &Path, place: &Path) {
    let report = |more: &[&Path]| {
        let mut command = flopsmith();
        command.args(["report", "--runs"]).arg(runs).args(more);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let path = String::from_utf8(output.stdout).unwrap();
        (std::fs::read_to_string(path.trim_end()).unwrap(), path)
    };
    // The newest run.
    let usual = folder.join("report.html");
    std::fs::remove_file(&usual).unwrap();
    let (_, path) = report(&[]);
    assert_eq!(Path::new(path.trim_end()), usual);
    // A named run.
    let wanted = place.join("page.html");
    let name = folder.file_name().unwrap();
    let (page, path) = report(&[Path::new(name), Path::new("--output"), &wanted]);
    assert_eq!(Path::new(path.trim_end()), wanted);
    assert!(page.starts_with("<!doctype html>"), "{page}");
    assert!(page.trim_end().ends_with("</html>"), "{page}");
    for part in [name.to_str().unwrap(), "search over the schedule space"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    // The report is one file, and it runs and fetches nothing.
    for part in ["<script", "<link", "src=", "@import"] {
        assert!(!page.contains(part), "{part} in {page}");
    }
}

/// A kill between the last step and the measurements after it.
#[test]
#[ignore = "takes half a minute or more: make long"]
fn where_only_the_last_measurements_are_missing_only_those_are_made() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let output = quick_search(&runs)
        .args(["--set", "evaluate.finalists=1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let summary = last_object(&output);
    let folder = only_run(&runs).unwrap();
    let facts_path = folder.join("run.json");
    let facts =
        || -> Value { serde_json::from_slice(&std::fs::read(&facts_path).unwrap()).unwrap() };
    let certified = facts()["certified"].as_array().unwrap().clone();
    let mut cut = facts();
    cut["certified"] = serde_json::json!([]);
    cut["concluded"] = false.into();
    cut["seconds"] = serde_json::json!(1000.0);
    cut["peak_memory_bytes"] = serde_json::json!(0);
    std::fs::write(&facts_path, cut.to_string()).unwrap();
    let concluded = resume_quick_search(&runs).output().unwrap();
    assert!(concluded.status.success());
    assert_eq!(last_object(&concluded)["outcomes"], summary["outcomes"]);
    assert_eq!(
        facts()["certified"].as_array().unwrap().len(),
        certified.len()
    );
    // They are part of the run.
    assert!(facts()["seconds"].as_f64().unwrap() > 1000.0);
    assert!(facts()["peak_memory_bytes"].as_u64().unwrap() > 0);
}

/// The steps of the search end near its budget. Measurements before and after them are no part of it.
#[test]
#[ignore = "takes half a minute or more: make long"]
fn a_search_goes_on_for_its_budget() {
    const BUDGET: f64 = 40.0;
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let mut command = as_shipped();
    command.env("FLOPSMITH_PROBLEMS", quick::problems());
    command
        .args(["search", "--problem", "dgemm", "--format", "json"])
        .args(["--budget", &format!("{BUDGET}s"), "--runs"])
        .arg(&runs);
    command.args(quick::SETTINGS.iter().flat_map(|set| ["--set", set]));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let summary = last_object(&output);
    let seconds = |key: &str| summary[key].as_f64().unwrap();
    let spent = seconds("spent_seconds");
    // The last step may end before the budget, if another one would not fit, or after it.
    assert!((0.8 * BUDGET..1.6 * BUDGET).contains(&spent), "{summary}");
    assert!(seconds("seconds") >= spent, "{summary}");
    assert!(summary["steps"].as_u64().unwrap() >= 3, "{summary}");
}

/// The private broker of this process's run.
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
#[ignore = "takes half a minute or more: make long"]
fn a_run_whose_broker_keeps_dying_says_so_and_is_resumed() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let mut child = quick_search(&runs)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let run = child.id();
    let limit = Duration::from_secs(120);
    wait_for(&mut child, limit, "some outcomes", || {
        only_run(&runs).is_some_and(|r| outcomes(&r).len() >= 3)
    });
    // The broker is restarted five times within a minute, and then no more.
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
        said.contains("is not restarted") && said.contains("--resume"),
        "{said}"
    );

    let folder = only_run(&runs).unwrap();
    let before = outcomes(&folder);
    let resumed = resume_quick_search(&runs).output().unwrap();
    assert!(
        resumed.status.success(),
        "{}",
        String::from_utf8_lossy(&resumed.stderr)
    );
    let after = outcomes(&folder);
    assert!(before.keys().all(|id| after.contains_key(id)));
    assert!(after.values().all(|n| *n == 1), "{after:?}");
}
