//! `problem export harbor`: tasks of all problems and modules, and the verifier of one with the real program.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::{as_shipped, flopsmith};

#[test]
fn every_shipped_problem_is_a_task() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("tasks");
    let export = |more: &[&str]| {
        as_shipped()
            .args(["problem", "export", "harbor"])
            .arg(&folder)
            .args(more)
            .output()
            .unwrap()
    };
    let output = export(&[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let tasks: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
    assert!(tasks.len() >= 83, "{}", tasks.len());
    let said = String::from_utf8_lossy(&output.stdout);
    let summary = format!("tasks written to {}: {} (", folder.display(), tasks.len());
    assert!(said.starts_with(&summary), "{said}");
    for task in tasks {
        let task = task.unwrap().path();
        for file in [
            "task.toml",
            "instruction.md",
            "environment/Dockerfile",
            "solution/solve.sh",
            "tests/Dockerfile",
            "tests/test.sh",
        ] {
            assert!(task.join(file).is_file(), "{}: {file}", task.display());
        }
    }
    let again = export(&["--suite", "polybench"]);
    let stderr = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("exists already"), "{stderr}");
    let unknown = export(&["--suite", "modul"]);
    let stderr = String::from_utf8_lossy(&unknown.stderr);
    assert_eq!(unknown.status.code(), Some(2), "{stderr}");
    for part in ["there are all, modules, polybench", "mean `modules`?"] {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }
}

/// Runs a script of a task with the real program.
fn script(path: &Path, place: &Path) -> Output {
    let bin = Path::new(env!("CARGO_BIN_EXE_flopsmith")).parent().unwrap();
    let mut paths = vec![bin.to_owned()];
    let known = std::env::var_os("PATH").unwrap_or_default();
    paths.extend(std::env::split_paths(&known));
    let paths: OsString = std::env::join_paths(paths).unwrap();
    Command::new("sh")
        .arg(path)
        .env("PATH", paths)
        // The tests themselves keep the machine busy.
        .env("FLOPSMITH_WAIT", "0")
        .env("FLOPSMITH_TASK_PROGRAM", place.join("dgemm.c"))
        .env(
            "FLOPSMITH_TASK_PROBLEMS",
            place.join("dgemm/tests/problems"),
        )
        .env("FLOPSMITH_TASK_LOGS", place.join("logs"))
        .output()
        .unwrap()
}

#[test]
fn the_oracle_has_at_least_one_and_nothing_has_zero() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let output = flopsmith()
        .args(["problem", "export", "harbor", "--problem", "dgemm"])
        .arg(place)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let judge = || {
        let output = script(&place.join("dgemm/tests/test.sh"), place);
        let reward = std::fs::read_to_string(place.join("logs/reward.json")).ok();
        let reward = reward.map(|text| serde_json::from_str::<Value>(&text).unwrap());
        (output, reward)
    };
    let (output, reward) = judge();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(reward.unwrap()["reward"], 0);
    let solved = script(&place.join("dgemm/solution/solve.sh"), place);
    assert_eq!(solved.status.code(), Some(0), "{solved:?}");
    let (output, reward) = judge();
    let stderr = String::from_utf8_lossy(&output.stderr);
    match reward {
        Some(reward) => {
            assert!(reward["reward"].as_f64().unwrap() >= 1.0, "{reward}");
            assert_eq!(reward["correct"], 1);
        }
        // Other tests keep the machine busy, so no measurement need converge.
        None => {
            assert_eq!(output.status.code(), Some(3), "{stderr}");
            assert!(stderr.contains("unconverged"), "{stderr}");
        }
    }
}
