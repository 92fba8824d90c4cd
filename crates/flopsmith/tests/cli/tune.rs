//! A search that begins with the user's own program, with and without parameters.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::one_core::on_one_core;
use crate::search::quick_search;
use crate::{as_shipped, last_object, objects, only_run, quick};

/// A plain product with the type of its sums and the order of two loops as parameters.
const KERNEL: &str = "\
void dgemm(int n, const double *A, const double *B, double *C) {
#if ROWS_OUTSIDE
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
#else
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
#endif
            SUM sum = 0;
            for (int k = 0; k < n; k++)
                sum += A[i * n + k] * B[k * n + j];
            C[i * n + j] = sum;
        }
}
";

/// Three configurations, of which one has sums in single precision, which are too imprecise.
const PARAMETERS: &str = r#"{"ConfigurationSpace": {
    "TuningParameters": [
        {"Name": "SUM", "Type": "string", "Values": "['double', 'float']", "Default": "double"},
        {"Name": "ROWS_OUTSIDE", "Type": "bool", "Values": "[False, True]", "Default": true}],
    "Conditions": [{"Expression": "SUM == 'double' or ROWS_OUTSIDE", "Parameters": ["SUM", "ROWS_OUTSIDE"]}]},
    "KernelSpecification": {"Language": "CUDA", "KernelName": "dgemm"}}"#;

fn file(place: &Path, name: &str, text: &str) -> PathBuf {
    let path = place.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn every_configuration_is_tried_once_and_the_results_are_in_the_format_of_kernel_tuner() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let kernel = file(place.path(), "mine.c", KERNEL);
    // Editors for Windows mark a file as UTF-8.
    let marked = format!("\u{feff}{PARAMETERS}");
    let parameters = file(place.path(), "parameters.json", &marked);
    let results = place.path().join("t4.json");
    let output = quick_search(&runs)
        .arg("--start")
        .arg(&kernel)
        .arg("--parameters")
        .arg(&parameters)
        .arg("--results")
        .arg(&results)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("parameters.json: 3 configurations"), "{said}");
    assert!(said.contains("KernelSpecification.Language"), "{said}");

    let folder = only_run(&runs).unwrap();
    let of_search = objects(&folder.join("outcomes.jsonl"))
        .into_iter()
        .filter(|outcome| outcome["candidate"]["purpose"] == "search");
    let mut sources: Vec<String> = of_search
        .map(|outcome| outcome["source"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(sources.len(), 3, "{sources:?}");
    sources.sort();
    sources.dedup();
    assert_eq!(sources.len(), 3, "no program is evaluated twice");
    assert!(sources.iter().all(|source| source.ends_with(KERNEL)));

    let summary = last_object(&output);
    assert_eq!(summary["outcomes"]["wrong_result"], 1, "{summary}");
    let best = summary["best"]["source"].as_str().unwrap();
    assert!(
        best.starts_with("#define SUM double\n#define ROWS_OUTSIDE "),
        "{best}"
    );
    assert_eq!(
        std::fs::read_to_string(folder.join("best.c")).unwrap(),
        best
    );
    let own = &summary["start_program"];
    assert_eq!(own["verdict"], "measured", "{summary}");
    assert!(own["best_ratio"].as_f64().unwrap() > 0.5, "{summary}");
    assert!(said.contains("your program"), "{said}");

    let written = std::fs::read_to_string(&results).unwrap();
    let kept = std::fs::read_to_string(folder.join("results.json")).unwrap();
    assert_eq!(written, kept);
    let all: Value = serde_json::from_str(&written).unwrap();
    let all = all["results"].as_array().unwrap();
    assert_eq!(all.len(), 3);
    for result in all {
        let imprecise = result["configuration"]["SUM"] == "float";
        let kind = if imprecise { "correctness" } else { "correct" };
        assert_eq!(result["invalidity"], kind, "{result}");
        let time = &result["measurements"][0]["value"];
        assert_eq!(
            time.as_f64().is_some_and(|ms| ms > 0.0),
            !imprecise,
            "{result}"
        );
        assert_eq!(result["objectives"], json!(["time"]));
    }
    assert_eq!(
        std::fs::read_to_string(folder.join("start.c")).unwrap(),
        KERNEL
    );
    assert_eq!(
        std::fs::read_to_string(folder.join("parameters.json")).unwrap(),
        PARAMETERS
    );
}

#[test]
fn the_users_own_program_is_the_first_of_a_search_over_schedules() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let own = KERNEL.replace("ROWS_OUTSIDE", "0").replace("SUM", "double");
    // It is longer than the problem permits.
    let own = format!("/* {} */\n{own}", "a table ".repeat(16_000));
    let kernel = file(place.path(), "mine.c", &own);
    let output = quick_search(&runs)
        .arg("--start")
        .arg(&kernel)
        .args(["--max-source", "200000"])
        .args(["--set", "tasks=1", "--set", "group_size=2"])
        .args(["--set", "max_steps=1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let folder = only_run(&runs).unwrap();
    let outcomes = objects(&folder.join("outcomes.jsonl"));
    let first: Vec<&Value> = outcomes
        .iter()
        .filter(|o| o["candidate"]["step"] == 0 && o["candidate"]["purpose"] == "search")
        .collect();
    assert_eq!(first.len(), 2, "{first:?}");
    let of_user = |o: &&&Value| o["source"] == own.as_str();
    let mine = first.iter().find(of_user).unwrap();
    assert_eq!(mine["candidate"]["sample"], 0);
    let summary = last_object(&output);
    assert_eq!(summary["start_program"]["verdict"], "measured", "{summary}");
    assert!(
        !folder.join("results.json").exists(),
        "there are no configurations"
    );

    // The run keeps its program, so a resumed one needs no flags for it; a finished one only shows its result.
    let name = folder.file_name().unwrap().to_str().unwrap();
    let resume = |flags: &[&str]| {
        let mut command = as_shipped();
        command.env("FLOPSMITH_PROBLEMS", quick::problems());
        command.args(["search", "--problem", "dgemm", "--format", "json"]);
        command
            .args(["--resume", name, "--runs"])
            .arg(&runs)
            .args(flags);
        command.output().unwrap()
    };
    let again = last_object(&resume(&[]));
    assert_eq!(again["start_program"], summary["start_program"]);
    let refused = resume(&["--start", "mine.c"]);
    assert_eq!(refused.status.code(), Some(2));
    let refused = resume(&["--results", "t4.json"]);
    assert_eq!(refused.status.code(), Some(2));
    let error = last_object(&refused)["error"].to_string();
    assert!(error.contains("--parameters"), "{error}");
}
