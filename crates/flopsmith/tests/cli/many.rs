//! Runs over many problems.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::one_core::on_one_core;
use crate::{
    assert_rows, assert_traceable, flopsmith, last_object, objects, only_run, outcomes, quick, run,
    wait_for,
};

/// The shipped example over two problems: the starter writes programs for the first one only.
fn train(runs: &Path, settings: &[&str]) -> Command {
    let mut command = flopsmith();
    command
        .args(["train", "examples/many-problems.toml", "--format", "json"])
        .arg("--runs")
        .arg(runs);
    quick::on(&mut command);
    // A resumed run has its own settings.
    if !settings.is_empty() {
        let model = format!("generator.model={}", quick::starter().display());
        for set in quick::SETTINGS.iter().copied().chain([model.as_str()]) {
            command.args(["--set", set]);
        }
    }
    for set in settings {
        command.args(["--set", set]);
    }
    command
}

/// The number of a step's tasks of each problem.
fn tasks_of(lines: &[Value], step: u64) -> BTreeMap<String, usize> {
    let mut tasks: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in lines {
        let candidate = &line["candidate"];
        if candidate["step"] == step && candidate["purpose"] != "certify" {
            let problem = candidate["problem"].as_str().unwrap().to_owned();
            let task = candidate["task"].as_str().unwrap().to_owned();
            tasks.entry(problem).or_default().insert(task);
        }
    }
    let counts = tasks.into_iter();
    counts
        .map(|(problem, tasks)| (problem, tasks.len()))
        .collect()
}

#[test]
fn a_run_over_two_problems_is_killed_resumed_and_shows_each_problem() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let settings = [
        "problems=[\"dgemm\", \"dot\"]",
        "mix=uniform",
        "tasks=2",
        "group_size=2",
        // One more task, so that both problems have one.
        "evaluate_tasks=1",
        "max_steps=2",
        "budget_seconds=400",
        "evaluate.finalists=1",
    ];
    let mut child = train(&runs, &settings)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let limit = Duration::from_secs(180);
    wait_for(&mut child, limit, "the first evaluation", || {
        only_run(&runs).is_some_and(|folder| outcomes(&folder).len() >= 5)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let output = train(&runs, &[]).arg("--resume").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");

    let folder = only_run(&runs).unwrap();
    let all = outcomes(&folder);
    assert!(all.values().all(|n| *n == 1), "{all:?}");
    assert_eq!(all.keys().filter(|id| !id.contains("-m")).count(), 4 * 4);
    let lines = objects(&folder.join("outcomes.jsonl"));
    let one_each = [("dgemm", 1_usize), ("dot", 1)].map(|(name, n)| (name.to_owned(), n));
    for step in 0..4 {
        assert_eq!(tasks_of(&lines, step), one_each.clone().into(), "{step}");
    }

    let summary = last_object(&output);
    assert_eq!(summary["steps"], 2, "{summary}");
    assert_eq!(summary["finished"], true, "{summary}");
    assert!(summary["best"].is_null(), "{summary}");
    let [dgemm, dot] = [&summary["problems"][0], &summary["problems"][1]];
    assert_eq!(dgemm["problem"], "dgemm");
    assert_eq!(dot["problem"], "dot");
    for problem in [dgemm, dot] {
        assert_eq!(problem["judged_programs"], 8, "{problem}");
        assert_eq!(problem["start"]["samples"], 2, "{problem}");
    }
    assert!(
        dgemm["best"]["ratio_to_reference"].as_f64().unwrap() > 0.0,
        "{dgemm}"
    );
    assert_eq!(summary["over_problems"]["problems"], 2, "{summary}");
    assert!(dgemm["qd_score"].is_number() && summary["qd_score"].is_null());
    // No sample of the other problem is correct: it is named, counted and explained.
    assert!(dot["best"].is_null(), "{dot}");
    assert_eq!(dot["correct_programs"], 0);
    assert!(dot["refusals"][0]["count"].as_u64().unwrap() >= 1, "{dot}");
    for part in [
        "1 of 2 problems has a verified kernel",
        "none of 8 programs is correct",
        "held out     ",
        // The run has the example's workloads.
        " --problem stencil3d --workload first",
    ] {
        assert!(said.contains(part), "`{part}` is not in\n{said}");
    }

    // Each problem has its files, its key and its machine.
    assert!(folder.join("best/dgemm.c").is_file() && !folder.join("best.c").exists());
    let page = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    let main = page("report.html");
    assert!(main.contains("none of 8 programs is correct"), "{main}");
    for problem in ["dgemm", "dot"] {
        let file = format!("problems/{problem}.html");
        assert!(main.contains(&file), "{file}");
        assert!(page(&file).contains(&format!("<h1>{problem}: ")), "{file}");
    }
    let keys: Value = serde_json::from_str(&page("comparability.json")).unwrap();
    assert!(keys["problems"]["dot"]["problem"].is_string(), "{keys}");
    let machines = objects(&folder.join("machines.jsonl"));
    assert!(
        !machines.is_empty() && machines.iter().all(|m| m["problem"] == "dgemm"),
        "nothing was timed for dot: {machines:?}"
    );
    let record = dgemm["best"]["samples"].as_str().unwrap();
    assert_traceable(&serde_json::from_str(&page(record)).unwrap());

    let listed = run(&["runs", "--format", "json", "--runs", runs.to_str().unwrap()]);
    let listed = last_object(&listed);
    assert_eq!(listed[0]["problems"][1]["problem"], "dot", "{listed}");
    assert_rows(
        &listed[0]["problems"],
        "problem judged_programs correct_programs failures best_gflops best_ratio coverage correct_rate_end",
    );
    assert_eq!(listed[0]["problems"][1]["correct_programs"], 0, "{listed}");
}

/// Which problem has which tasks follows from earlier outcomes and the seed alone: a repetition on recorded outcomes has
/// the same programs and weights.
#[test]
#[ignore = "takes half a minute or more: make long"]
fn a_run_whose_tasks_follow_the_learning_progress_repeats_bit_by_bit() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let settings = [
        "problems=[\"dgemm\", \"dot\"]",
        "tasks=3",
        "group_size=4",
        "evaluate_tasks=2",
        "max_steps=2",
        "budget_seconds=400",
        "learner.warmup_steps=0",
    ];
    let output = train(&runs, &settings).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let recorded = only_run(&runs).unwrap();
    let again = place.path().join("again");
    let again = run(&[
        "replay",
        recorded.to_str().unwrap(),
        "--runs",
        again.to_str().unwrap(),
        "--format",
        "json",
    ]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success(), "{said}");
    assert_eq!(last_object(&again)["equal_versions"], 3);
}

/// The refusal by `flopsmith config check` of the example with these settings.
fn refused(settings: &[&str]) -> String {
    let mut arguments = vec!["config", "check", "examples/many-problems.toml"];
    for set in settings {
        arguments.extend(["--set", set]);
    }
    let output = run(&arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(output.stdout.is_empty(), "{said}");
    said
}

#[test]
fn problems_and_suites_that_cannot_be_trained_on_are_refused_in_a_sentence() {
    let suite = |name: &str| format!("suite={name}");
    let none = "problems=[]";
    let all_of_dot = place_with_suite();
    for (settings, parts) in [
        (
            vec![none.to_owned(), suite("polybenhc")],
            ["there is no suite `polybenhc`", "did you mean `polybench`?"],
        ),
        (
            vec![none.to_owned(), suite("modul")],
            ["all, modules, polybench, random", "did you mean `modules`?"],
        ),
        (
            vec![
                none.to_owned(),
                suite("polybench"),
                "hold_out=[\"polybench_lv\"]".to_owned(),
            ],
            [
                "`hold_out` names `polybench_lv`",
                "did you mean `polybench_lu`?",
            ],
        ),
        // A problem of another suite may be held out, and is looked up.
        (
            vec![
                none.to_owned(),
                suite("polybench"),
                "hold_out=[\"stencil3d\", \"dto\"]".to_owned(),
            ],
            ["`hold_out` names `dto`", "did you mean `dot`?"],
        ),
        (
            vec!["problems=[\"dgemm\", \"dto\"]".to_owned()],
            ["there is no problem `dto`", "did you mean `dot`"],
        ),
        (
            vec!["problems=[\"dgemm\", \"problems/dot\", \"dot\"]".to_owned()],
            ["two problems that are called `dot`", "leave one out"],
        ),
        (
            vec![
                "problems=[\"dgemm\", \"dot\"]".to_owned(),
                "hold_out=[\"problems/dot\"]".to_owned(),
            ],
            [
                "`hold_out` names `problems/dot`, on which the run trains",
                "leave it out",
            ],
        ),
        (
            vec![
                "problems=[\"dgemm\", \"dot\"]".to_owned(),
                "hold_out=[\"sgemm\"]".to_owned(),
            ],
            ["`hold_out` names `sgemm`", "the run trains on dgemm"],
        ),
        (
            vec![
                "problems=[\"dgemm\", \"dot\"]".to_owned(),
                "workloads=[\"n=256\"]".to_owned(),
            ],
            ["dot has no workload `n=256`", "`workloads` of a run"],
        ),
    ] {
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let said = refused(&settings);
        for part in parts {
            assert!(
                said.contains(part),
                "`{part}` is not in {said} ({settings:?})"
            );
        }
    }
    for (held_out, part) in [
        (
            "hold_out=[\"only\"]",
            "names every problem of the suite `small`",
        ),
        // The example divides its tasks by learning progress.
        (
            "hold_out=[]",
            "the suite `small` has one for this run, `only`",
        ),
    ] {
        let mut command = flopsmith();
        command.env("FLOPSMITH_PROBLEMS", all_of_dot.path());
        command.args(["config", "check", "examples/many-problems.toml"]);
        for set in [none, "suite=small", held_out] {
            command.args(["--set", set]);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "`{part}` is not in {said}");
    }
}

#[test]
fn a_suite_is_trained_on_without_the_nest_of_a_held_out_problem_of_another() {
    let place = place_with_suite();
    let mut command = flopsmith();
    command.env("FLOPSMITH_PROBLEMS", place.path());
    command.args(["config", "check", "examples/many-problems.toml"]);
    for set in ["problems=[]", "suite=small", "hold_out=[\"dot\"]"] {
        command.args(["--set", set]);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in [
        "dot is held out, so the suite is left without only",
        "names every problem of the suite `small`",
    ] {
        assert!(said.contains(part), "`{part}` is not in {said}");
    }
}

/// A folder of problems with a suite of one problem.
fn place_with_suite() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let dot = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../problems/dot"));
    let only = place.path().join("only");
    std::fs::create_dir(&only).unwrap();
    for file in std::fs::read_dir(dot).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), only.join(file.file_name())).unwrap();
    }
    let definition = only.join("problem.toml");
    let text = std::fs::read_to_string(&definition).unwrap();
    std::fs::write(&definition, format!("suite = \"small\"\n{text}")).unwrap();
    place
}

#[test]
fn a_search_has_one_problem() {
    let output = run(&[
        "search",
        "--problem",
        "dgemm",
        "--set",
        "problems=[\"dgemm\", \"dot\"]",
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("`problems` is set beside `problem`"),
        "{said}"
    );
}
