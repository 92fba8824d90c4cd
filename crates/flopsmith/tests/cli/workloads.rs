//! Several workloads of a problem, as a person meets them.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::bench::GOOD;
use crate::one_core::on_one_core;
use crate::search::quick_search;
use crate::{flopsmith, last_object, only_run, quick};

/// The quick problem with these workloads, in a folder of its own.
fn problem(place: &Path, timed: &str) -> PathBuf {
    let folder = place.join("dgemm");
    std::fs::create_dir(&folder).unwrap();
    for file in ["problem.toml", "reference.c", "baseline.c"] {
        let from = quick::problems().join("dgemm").join(file);
        std::fs::copy(from, folder.join(file)).unwrap();
    }
    let file = folder.join("problem.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once("[timed]").unwrap();
    let (_, after) = rest.split_once("[verify]").unwrap();
    std::fs::write(&file, format!("{before}{timed}\n[verify]{after}")).unwrap();
    folder
}

const TWO: &str = "[[timed]]\nn = 64\n[[timed]]\nname = \"larger\"\nn = 128\n";

fn bench(problem: &Path, files: &[PathBuf], more: &[&str]) -> Output {
    flopsmith()
        .arg("bench")
        .args(files)
        .arg("--problem")
        .arg(problem)
        .args(["--purpose", "screen"])
        .args(more)
        .output()
        .unwrap()
}

fn program(place: &Path, name: &str, source: &str) -> PathBuf {
    let file = place.join(name);
    std::fs::write(&file, source).unwrap();
    file
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn bench_shows_the_mean_and_every_workload() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let problem = problem(place.path(), TWO);
    let good = program(place.path(), "good.c", GOOD);
    let one = std::slice::from_ref(&good);
    let output = bench(&problem, one, &["--format", "json"]);
    let object = last_object(&output);
    assert_eq!(output.status.code(), Some(0), "{object}");
    let workloads = object["workloads"].as_array().unwrap();
    let names: Vec<&Value> = workloads.iter().map(|w| &w["name"]).collect();
    assert_eq!(names, ["n=64", "larger"]);
    let of = |object: &Value, key: &str| object[key].as_f64().unwrap();
    for key in ["ratio", "gflops", "seconds_per_call", "share_of_peak"] {
        let product: f64 = workloads.iter().map(|w| of(w, key)).product();
        let mean = of(&object, key);
        assert!(
            (mean / product.sqrt() - 1.0).abs() < 1e-6,
            "{key}: {object}"
        );
    }
    let least = workloads
        .iter()
        .min_by(|a, b| of(a, "ratio").total_cmp(&of(b, "ratio")));
    assert_eq!(object["worst_workload"], least.unwrap()["name"]);

    let output = bench(&problem, one, &[]);
    let said = text(&output.stderr);
    for part in [
        "1 program for dgemm at 2 workloads (n=64, larger), on 1 thread",
        "\ncompiling and verifying…\n",
        "\nmeasuring the plain reference at n=64, workload 1 of 2…\n",
        "\ntiming the program at larger, workload 2 of 2…\n",
    ] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    let output = text(&output.stdout);
    assert!(
        output.contains("the geometric mean over 2 workloads: n = 64; n = 128"),
        "{output}"
    );
    assert!(
        output.contains("\n  n=64: ") && output.contains("\n  larger: "),
        "{output}"
    );
    assert!(output.contains("(the worst)"), "{output}");

    let other = program(place.path(), "other.c", &format!("{GOOD}/* another */\n"));
    let table = text(&bench(&problem, &[good, other], &[]).stdout);
    assert!(table.contains("  worst  "), "{table}");
    assert!(
        table.contains("geometric means over the workloads"),
        "{table}"
    );
}

#[test]
fn one_workload_that_was_chosen_is_the_only_one() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let problem = problem(place.path(), TWO);
    let good = [program(place.path(), "good.c", GOOD)];
    let chosen = ["--workload", "larger", "--format", "jsonl"];
    let output = bench(&problem, &good, &chosen);
    let first: Value = serde_json::from_str(text(&output.stdout).lines().next().unwrap()).unwrap();
    assert_eq!(first["size"], "n = 128");
    assert_eq!(first["workloads"], serde_json::json!(["larger"]));
    let refused = |more: &[&str], part: &str| {
        let output = bench(&problem, &good, more);
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(said.contains(part), "{part}: {said}");
    };
    refused(&["--workload", "larg"], "did you mean `larger`?");
    refused(&["--workload", "x"], "it has `n=64`, `larger`");
    let twice = ["--workload", "larger", "--workload", "larger"];
    refused(&twice, "named twice");
}

#[test]
fn a_workload_whose_arrays_are_too_large_is_refused_with_its_size() {
    let place = tempfile::tempdir().unwrap();
    let timed = "[[timed]]\nn = 64\n[[timed]]\nn = 64000\n";
    let problem = problem(place.path(), timed);
    let good = [program(place.path(), "good.c", GOOD)];
    let output = bench(&problem, &good, &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("larger than 1 GiB at the timed size n = 64000"),
        "{said}"
    );
}

#[test]
fn a_search_takes_the_mean_over_the_workloads() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let problem = problem(place.path(), TWO);
    let runs = place.path().join("runs");
    let mut command = quick_search(&runs);
    command.env("FLOPSMITH_PROBLEMS", problem.parent().unwrap());
    // The quick search names a workload of the problem that it is made for.
    command.args(["--set", "workloads=[\"n=64\", \"larger\"]"]);
    for set in ["tasks=1", "group_size=2", "max_steps=1"] {
        command.args(["--set", set]);
    }
    command.args(["--set", "evaluate.finalists=1"]);
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    // The budget of ten minutes is not all that a search takes.
    let expected = "this takes at most 10 min to 11.5 min in all: 4 s to 25 s to measure this machine, \
        at most 10 min of searching, and 10 s to 55 s to measure the fastest program once more";
    let [expected, begun] = [expected, "measuring this machine"].map(|words| said.find(words));
    assert!(expected.is_some() && expected < begun, "{said}");
    let summary = last_object(&output);
    let workloads = summary["best"]["workloads"].as_array().unwrap();
    assert_eq!(workloads.len(), 2, "{summary}");
    let rooflines = summary["rooflines"].as_array().unwrap();
    assert_eq!(rooflines.len(), 2, "{summary}");
    assert!(said.contains("(geometric mean over 2 workloads)"), "{said}");
    let run = only_run(&runs).unwrap();
    let report = std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(
        report.contains("<th scope=\"row\">larger"),
        "no table of workloads"
    );
    let outcomes = std::fs::read_to_string(run.join("outcomes.jsonl")).unwrap();
    assert!(
        outcomes.contains("\"workloads\":[{\"name\":\"n=64\""),
        "{outcomes}"
    );
}
