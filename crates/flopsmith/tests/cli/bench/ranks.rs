//! Ranks, and the lines that `bench` prints while it measures.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use flopsmith_test_support::skipped;
use serde_json::Value;

use super::{GOOD, IDLE, SLOW, assert_timed, programs, quick, said};
use crate::one_core::on_one_core;
use crate::{flopsmith, run};

fn lines(stdout: Vec<u8>) -> Vec<Value> {
    let text = String::from_utf8(stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// No two numbers of a row contradict each other: GFLOPS, ratio, reference and the time of a call agree, and the clock
/// differs from that time by 5 % at most.
pub(super) fn assert_consistent(row: &Value) {
    let of = |key: &str| row[key].as_f64().unwrap();
    let told = of("ratio") * of("reference_gflops");
    assert!((told / of("gflops") - 1.0).abs() < 1e-9, "{row}");
    // The operations of a call are a whole number.
    if let Some(seconds) = row["seconds_per_call"].as_f64() {
        let work = of("gflops") * 1e9 * seconds;
        assert!((work / work.round() - 1.0).abs() < 1e-9, "{row}");
    }
    let by_clock = ["minimum_seconds", "median_seconds"].map(|key| row[key].as_f64());
    for seconds in by_clock.into_iter().flatten() {
        assert_ne!(row["outcome"], "unconverged", "{row}");
        let times = seconds / of("seconds_per_call");
        assert!((times - 1.0).abs() < 0.050_001, "{row}");
    }
    if let [Some(minimum), Some(median)] = by_clock {
        assert!(minimum <= median, "{row}");
    }
}

#[test]
fn lines_come_in_the_order_of_the_files_and_end_with_ranks() {
    on_one_core();
    let folder = programs(&[("a-slow.c", SLOW), ("b-idle.c", IDLE), ("c-good.c", GOOD)]);
    let output = quick(&[folder.path()], &["--format", "jsonl"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let lines = lines(output.stdout);
    let types: Vec<&str> = lines.iter().map(|l| l["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["run", "row", "row", "row", "summary"]);
    assert_eq!(lines[0]["purpose"], "screen");
    let machine = &lines[0]["machines"][0];
    assert!(machine["attestation"]["cpu_model"].is_string(), "{machine}");
    assert!(machine["hand_shake_seconds"].as_f64().unwrap() > 0.0);
    for (line, file) in lines[1..4].iter().zip(["a-slow.c", "b-idle.c", "c-good.c"]) {
        assert!(line["file"].as_str().unwrap().ends_with(file), "{line}");
        assert_eq!(line["attestation_digest"], machine["attestation_digest"]);
        assert!(line.to_string().len() < 3000, "{line}");
    }
    assert_eq!(lines[2]["reason"], "wrong_result");
    for row in [&lines[1], &lines[3]] {
        assert_timed(row);
        assert_consistent(row);
        let seconds = row["seconds_per_call"].as_f64().unwrap();
        assert!(seconds > 1e-5, "{row}");
        // 2 n³ operations for 3 n² doubles.
        let gb = row["gb_per_second"].as_f64().unwrap();
        let gflops = row["gflops"].as_f64().unwrap();
        assert!((gflops / gb / (64.0 / 12.0) - 1.0).abs() < 1e-9, "{row}");
    }
    let summary = &lines[4];
    assert_eq!(
        (&summary["programs"], &summary["rejected"]),
        (&3.into(), &1.into())
    );
    assert_eq!(summary["exit_code"], 1);
    let ranks = summary["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), 3);
    assert!(ranks[2]["file"].as_str().unwrap().ends_with("b-idle.c"));
    for rank in &ranks[..2] {
        assert_consistent(rank);
        assert_eq!(rank["rank"].is_null(), rank["outcome"] == "unconverged");
    }
    // All rows use the same speed of the reference.
    assert_eq!(ranks[0]["reference_gflops"], ranks[1]["reference_gflops"]);
}

#[test]
fn a_line_is_there_before_the_next_program_has_ended() {
    on_one_core();
    let endless = "void dgemm(int n,const double*A,const double*B,double*C){for(;;);}";
    let folder = programs(&[("a.c", GOOD), ("b.c", endless)]);
    let mut child = quick(&[folder.path()], &["--format", "jsonl"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || {
        let line: Value = serde_json::from_str(&lines.next()?.unwrap()).unwrap();
        Some(line["type"].clone())
    };
    assert_eq!(next(), Some("run".into()));
    assert_eq!(next(), Some("row".into()));
    let pid = child.id().to_string();
    let done = Command::new("kill").args(["-INT", &pid]).status();
    assert!(done.unwrap().success());
    let rest: Vec<Value> = std::iter::from_fn(next).collect();
    assert!(!rest.contains(&"row".into()), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn the_first_line_names_the_machine_if_any_program_can_be_timed() {
    on_one_core();
    let folder = programs(&[("a.c", IDLE), ("b.c", GOOD)]);
    let all = |file: &Path| {
        let output = quick(&[file], &["--format", "jsonl"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        lines(output.stdout)
    };
    let types = |lines: &[Value]| -> Vec<Value> {
        let types = lines.iter().map(|l| l["type"].clone());
        types.collect()
    };
    // No machine is measured for a program that is refused.
    let one = all(&folder.path().join("a.c"));
    assert_eq!(types(&one), ["run", "row", "summary"]);
    assert_eq!(one[0]["machines"], serde_json::json!([]));
    assert!(one[1]["attestation_digest"].is_null(), "{}", one[1]);
    // The line of the first program waits for the machine of the second one.
    let both = all(folder.path());
    assert_eq!(types(&both), ["run", "row", "row", "summary"]);
    let digest = &both[0]["machines"][0]["attestation_digest"];
    assert!(digest.is_string(), "{}", both[0]);
    for (line, file) in both[1..3].iter().zip(["a.c", "b.c"]) {
        assert!(line["file"].as_str().unwrap().ends_with(file), "{line}");
        assert_eq!(line["attestation_digest"], *digest, "{line}");
    }
}

/// A problem whose calls do two operations.
fn tiny(folder: &Path) -> std::path::PathBuf {
    let problem = folder.join("tiny");
    let made = run(&["problem", "new", problem.to_str().unwrap()]);
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    let file = problem.join("problem.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once("[timed]").unwrap();
    let (_, after) = rest.split_once("[verify]").unwrap();
    let text = format!("{before}[timed]\nm = 1\nn = 1\n\n[verify]{after}");
    std::fs::write(file, text).unwrap();
    problem
}

#[test]
fn copies_of_a_program_that_the_clock_cannot_see_are_not_told_apart() {
    let copy = "void tiny(int m, int n, const double *A, const double *x, double *y) {\n\
        for (int i = 0; i < m; i++) { double s = 0.0;\n\
        for (int j = 0; j < n; j++) s += A[i * n + j] * x[j]; y[i] = s; } }\n";
    let place = programs(&[
        ("programs/t1.c", copy),
        ("programs/t2.c", copy),
        ("programs/t3.c", copy),
        ("programs/t4.c", copy),
    ]);
    let output = flopsmith()
        .arg("bench")
        .arg(place.path().join("programs"))
        .arg("--problem")
        .arg(tiny(place.path()))
        .args(["--purpose", "rank", "--resolve", "2s", "--format", "json"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rows = lines(output.stdout);
    assert_eq!(rows.len(), 4);
    if rows.iter().all(|row| row["group"].is_null()) {
        skipped(
            "no row converged on this machine, so none has a letter; the other checks are made",
        );
    }
    for row in &rows {
        assert_timed(row);
        assert_eq!(row["hidden_by_clock"], true, "{row}");
        assert_consistent(row);
        // Rows that did not converge have no letter and no rank; all others share one letter. In either case two copies lie
        // within six standard errors of each other.
        for other in &rows {
            let of = |row: &Value, key: &str| row[key].as_f64().unwrap();
            let apart = (of(row, "ratio") / of(other, "ratio")).ln().abs();
            let error = of(row, "log_ratio_se").hypot(of(other, "log_ratio_se"));
            assert!(apart <= 6.0 * error, "{row} {other}");
        }
        let group = &row["group"];
        assert!(group.is_null() || group == "a", "{rows:?}");
        assert_eq!(group.is_null(), row["outcome"] == "unconverged", "{row}");
        assert_eq!(row["rank"].is_null(), group.is_null(), "{row}");
    }
}
