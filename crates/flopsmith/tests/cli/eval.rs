//! `eval`: models, evaluated and compared.

use std::path::{Path, PathBuf};
use std::process::Output;

use flopsmith_test_support::skipped;
use serde_json::{Value, json};

use crate::bench::GOOD;
use crate::one_core::on_one_core;
use crate::{assert_keys, assert_rows, assert_traceable, flopsmith, last_object, objects, quick};

/// It is built, and computes nothing.
const IDLE: &str = "void dgemm(int n,const double*A,const double*B,double*C){}";

/// It is not built.
const BROKEN: &str = "void dgemm(int n,const double*A,const double*B,double*C){ int x = ; }";

/// A file of samples in `place`.
fn file(place: &Path, name: &str, lines: &[Value]) -> PathBuf {
    let path = place.join(name);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, text).unwrap();
    path
}

fn program(problem: &str, program: &str) -> Value {
    json!({ "problem": problem, "program": program })
}

/// The problem of the tests under another name.
fn second(place: &Path) -> PathBuf {
    let folder = place.join("second");
    std::fs::create_dir(&folder).unwrap();
    for entry in std::fs::read_dir(quick::problems().join("dgemm")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    folder
}

/// Runs `eval` with an output folder in `place`.
pub fn eval(place: &Path, arguments: &[&str]) -> Output {
    let mut command = flopsmith();
    command.env_remove("FLOPSMITH_FORMAT").arg("eval");
    command
        .args(arguments)
        .arg("--output")
        .arg(place.join("out"));
    command.args(["--purpose", "screen"]).output().unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The results have their keys, and the rows of their first model have theirs.
fn have_their_keys(results: &Value) {
    let always = "format version flopsmith config machine models troubles";
    assert_keys(results, always, "");
    let judged = &results["models"][0];
    let groups = "all suites kinds problems";
    let always = format!("model threads {groups} refusals unmeasured");
    assert_keys(judged, &always, "unanswered unasked");
    assert_keys(&judged["all"], "name counts metrics", "");
    assert_rows(&judged["problems"], "name counts metrics");
    assert_rows(&judged["refusals"], "reason count problem sample example");
    assert_keys(
        &judged["all"]["counts"],
        "problems answers without_program distinct_programs built correct unconverged unmeasured unanswered unasked",
        "",
    );
    let pass = &judged["all"]["metrics"]["pass@1"];
    assert_keys(pass, "value low high problems", "");
}

#[test]
fn every_answer_is_counted_each_program_evaluated_once_and_a_second_start_goes_on() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let other = second(place);
    let samples = file(
        place,
        "samples.jsonl",
        &[
            program("dgemm", GOOD),
            program("dgemm", BROKEN),
            program("second", IDLE),
            program("dgemm", GOOD),
            json!({ "problem": "dgemm", "answer": format!("So:\n```c\n{GOOD}```\n"), "model": "x" }),
            json!({ "problem": "dgemm", "answer": "I cannot do that." }),
            program("second", IDLE),
        ],
    );
    let arguments = [
        samples.to_str().unwrap(),
        "--problem",
        "dgemm",
        "--problem",
        other.to_str().unwrap(),
        "--format",
        "json",
    ];
    let output = eval(place, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let first = last_object(&output);
    let judged = &first["models"][0];
    have_their_keys(&first);
    assert_eq!(judged["model"], samples.to_str().unwrap());
    let counts = json!({
        "problems": 2, "answers": 7, "without_program": 1, "distinct_programs": 3, "built": 5,
        "correct": 3, "unmeasured": 0,
    });
    for (name, count) in counts.as_object().unwrap() {
        assert_eq!(judged["all"]["counts"][name], *count, "{name} in {judged}");
    }
    // Three of five answers to one problem are correct, and none to the other.
    let pass = &judged["all"]["metrics"]["pass@1"];
    assert!(
        (pass["value"].as_f64().unwrap() - 0.3).abs() < 1e-9,
        "{pass}"
    );
    let of_second = &judged["problems"][1];
    assert_eq!(of_second["name"], "second");
    assert_eq!(of_second["metrics"]["speedup_n@1"]["value"], 0.0);
    assert!(of_second["metrics"]["geometric_mean_speedup"].is_null());
    let reasons: Vec<&str> = judged["refusals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|refusal| refusal["reason"].as_str().unwrap())
        .collect();
    assert_eq!(
        reasons,
        ["wrong_result", "compile_error", "format"],
        "{judged}"
    );

    let out = place.join("out");
    let answers = objects(&out.join("samples.jsonl"));
    assert_eq!(answers.len(), 7);
    assert!(
        answers
            .iter()
            .any(|a| a["answer"] == "I cannot do that." && a["program"].is_null())
    );
    let outcomes = objects(&out.join("outcomes.jsonl"));
    assert_eq!(outcomes.len(), 3, "{outcomes:?}");
    let record = outcomes.iter().find_map(|o| o["record"].as_str()).unwrap();
    let record = std::fs::read_to_string(out.join(record)).unwrap();
    assert_traceable(&serde_json::from_str(&record).unwrap());
    let written: Value =
        serde_json::from_str(&std::fs::read_to_string(out.join("eval.json")).unwrap()).unwrap();
    assert_eq!(written, first);
    let pareval: Vec<PathBuf> = std::fs::read_dir(out.join("pareval"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(pareval.len(), 1, "{pareval:?}");
    let pareval = std::fs::read_to_string(&pareval[0]).unwrap();
    let pareval: Value = serde_json::from_str(&pareval).unwrap();
    assert_eq!(pareval[0]["outputs"].as_array().unwrap().len(), 5);
    assert_eq!(pareval[1]["name"], "second");
    let page = std::fs::read_to_string(out.join("eval.md")).unwrap();
    assert!(page.contains("| second |"), "{page}");
    let charts = std::fs::read_to_string(out.join("eval.html")).unwrap();
    assert!(charts.contains(", second: "), "{charts}");
    let chart = std::fs::read_to_string(out.join("figures/speedup.svg")).unwrap();
    assert!(chart.starts_with("<svg xmlns="), "{chart}");

    // A process that was killed while it wrote its last line.
    let lines = std::fs::read_to_string(out.join("outcomes.jsonl")).unwrap();
    let kept: Vec<&str> = lines.lines().take(2).collect();
    let torn = format!("{}\n{}", kept.join("\n"), "{\"problem\": \"dge");
    std::fs::write(out.join("outcomes.jsonl"), torn).unwrap();
    let output = eval(place, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for line in [
        "1 distinct program to evaluate",
        "measuring this machine and the plain reference",
    ] {
        assert!(stderr(&output).contains(line), "{}", stderr(&output));
    }
    let again = std::fs::read_to_string(out.join("outcomes.jsonl")).unwrap();
    assert!(again.starts_with(&kept.join("\n")), "{again}");
    assert_eq!(objects(&out.join("outcomes.jsonl")).len(), 3);
    assert_eq!(
        last_object(&output)["models"][0]["all"]["counts"],
        judged["all"]["counts"]
    );

    // Nothing is left to do, and the numbers are the same.
    let text = eval(place, &arguments[..5]);
    assert_eq!(text.status.code(), Some(0), "{}", stderr(&text));
    let table = String::from_utf8_lossy(&text.stdout);
    assert!(
        table.contains("speedup@1") && table.contains("1 × format"),
        "{table}"
    );
    assert_eq!(
        std::fs::read_to_string(out.join("outcomes.jsonl")).unwrap(),
        again
    );

    let output = eval(place, &[&arguments[..5], &["--seed", "2"][..]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("`seed` (1 there, 2 here)"),
        "{}",
        stderr(&output)
    );
}

/// Nothing is built for such a model, so the machine is not measured, and all its answers count as failures.
#[test]
fn a_model_whose_every_answer_holds_no_program_scores_nothing_and_the_reason_is_told() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let answers = [
        "I cannot do that.",
        "```c\nvoid dgemm(int n",
        "```python\npass\n```",
    ];
    let lines = answers.map(|answer| json!({ "problem": "dgemm", "answer": answer }));
    let samples = file(place, "samples.jsonl", &lines);
    let arguments = [samples.to_str().unwrap(), "--problem", "dgemm"];
    let output = eval(place, &[&arguments[..], &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        !stderr(&output).contains("measuring this machine"),
        "{}",
        stderr(&output)
    );
    let results = last_object(&output);
    let judged = &results["models"][0];
    let counts = json!({
        "answers": 3, "without_program": 3, "distinct_programs": 0, "built": 0, "correct": 0,
        "unmeasured": 0,
    });
    for (name, count) in counts.as_object().unwrap() {
        assert_eq!(judged["all"]["counts"][name], *count, "{name} in {judged}");
    }
    let metrics = &judged["all"]["metrics"];
    for metric in ["build@1", "pass@1", "speedup_n@1", "fast_1"] {
        assert_eq!(metrics[metric]["value"], 0.0, "{metric} in {judged}");
    }
    assert!(metrics["geometric_mean_speedup"].is_null(), "{judged}");
    let refusals = judged["refusals"].as_array().unwrap();
    assert_eq!(refusals.len(), 1, "{judged}");
    assert_eq!(refusals[0]["reason"], "format", "{judged}");
    assert_eq!(refusals[0]["count"], 3, "{judged}");
    let example = refusals[0]["example"].as_str().unwrap();
    assert!(answers.contains(&example), "{judged}");
    let out = place.join("out");
    let outcomes = std::fs::read_to_string(out.join("outcomes.jsonl")).unwrap_or_default();
    assert_eq!(outcomes, "");
    for page in ["eval.md", "eval.html"] {
        assert!(out.join(page).is_file(), "{page}");
    }
    // The same command has nothing left to do.
    let again = eval(place, &arguments);
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    let table = String::from_utf8_lossy(&again.stdout);
    assert!(
        table.contains("3 of 3 answers failed") && table.contains("3 × format"),
        "{table}"
    );
}

#[test]
fn two_models_are_compared_and_a_real_difference_is_told() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let good = file(place, "good.jsonl", &vec![json!({ "program": GOOD }); 8]);
    let bad = file(place, "bad.jsonl", &vec![json!({ "program": IDLE }); 8]);
    let good = format!("good={}", good.display());
    let bad = format!("bad={}", bad.display());
    let output = eval(
        place,
        &[
            &bad,
            &good,
            "schedule",
            "--problem",
            "dgemm",
            "--samples",
            "2",
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("6 further answers"),
        "{}",
        stderr(&output)
    );
    let out = place.join("out");
    let folder = out.to_str().unwrap();
    let drawn = objects(&out.join("samples.jsonl"));
    let drawn = drawn.iter().filter(|a| a["model"] == "schedule");
    assert!(
        drawn
            .clone()
            .all(|a| a["program"].as_str().unwrap().contains("dgemm"))
    );
    assert_eq!(drawn.count(), 2);
    let compare = |a: &str, b: &str| {
        let [a, b] = [a, b].map(|model| format!("{folder}#{model}"));
        let output = flopsmith()
            .args(["eval", "compare", &a, &b, "--format", "json"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        last_object(&output)
    };
    // Two answers of each are too few to tell anything.
    let few = compare("bad", "good");
    assert_keys(&few, "a b comparisons left_out", "");
    assert_rows(
        &few["comparisons"],
        "threads problem metric a b difference low high chance corrected_chance real problems",
    );
    let real = |compared: &Value| {
        let all = compared["comparisons"].as_array().unwrap().clone();
        let real = all.iter().filter(|c| c["real"] == true);
        let names = real.map(|c| c["metric"].as_str().unwrap().to_owned());
        names.collect::<Vec<String>>()
    };
    assert_eq!(real(&few), Vec::<String>::new(), "{few}");
    assert_eq!(real(&compare("good", "good")), Vec::<String>::new());

    std::fs::remove_dir_all(&out).unwrap();
    let output = eval(place, &[&bad, &good, "--problem", "dgemm"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found = compare("bad", "good");
    let told = real(&found);
    assert!(told.contains(&"pass@1".to_owned()), "{found}");
    assert!(told.contains(&"speedup_n@1".to_owned()), "{found}");
    assert!(!told.contains(&"build@1".to_owned()), "{found}");
}

#[test]
fn ready_samples_are_judged_on_each_number_of_threads() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        skipped("two threads cannot be timed on one core");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let lines = [program("dgemm", GOOD), program("dgemm", BROKEN)];
    let samples = file(place, "samples.jsonl", &lines);
    let samples = samples.to_str().unwrap();
    let threads = ["--threads", "1,2", "--format", "json"];
    let output = eval(
        place,
        &[&[samples, "--problem", "dgemm"][..], &threads].concat(),
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let results = last_object(&output);
    let models = results["models"].as_array().unwrap();
    let threads: Vec<&Value> = models.iter().map(|judged| &judged["threads"]).collect();
    assert_eq!(threads, [1, 2]);
    for judged in models {
        let counts = &judged["all"]["counts"];
        assert_eq!(counts["answers"], 2, "{judged}");
        assert_eq!(counts["correct"], 1, "{judged}");
        let value = |metric: &str| judged["all"]["metrics"][metric]["value"].as_f64().unwrap();
        let (speedup, efficiency) = (value("speedup_n@1"), value("efficiency_n@1"));
        let threads = judged["threads"].as_f64().unwrap();
        assert!(
            (speedup / threads / efficiency - 1.0).abs() < 1e-9,
            "{judged}"
        );
    }
    let out = place.join("out");
    let outcomes = objects(&out.join("outcomes.jsonl"));
    let measured = outcomes.iter().filter(|o| !o["speed"].is_null());
    let mut timed: Vec<u64> = measured.map(|o| o["threads"].as_u64().unwrap()).collect();
    timed.sort_unstable();
    assert_eq!(timed, [1, 2], "{outcomes:?}");
    assert_eq!(std::fs::read_dir(out.join("pareval")).unwrap().count(), 2);
}

#[test]
fn wrong_input_is_named_before_anything_is_measured() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let whole = file(place, "whole.jsonl", &[program("dgemm", GOOD)]);
    let whole = whole.to_str().unwrap();
    let foreign = file(
        place,
        "foreign.jsonl",
        &[program("dgemm", GOOD), program("dot", GOOD)],
    );
    let nothing = file(place, "nothing.jsonl", &[json!({ "problem": "dgemm" })]);
    let cut = place.join("cut.jsonl");
    let line = program("dgemm", GOOD).to_string();
    std::fs::write(&cut, format!("{line}\n{}", &line[..line.len() / 2])).unwrap();
    let path = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let (foreign, nothing, cut) = (path(&foreign), path(&nothing), path(&cut));
    let cases: [(&[&str], &str); 12] = [
        (
            &[whole, "--suite", "polybenhc"],
            "did you mean `polybench`?",
        ),
        (&[whole, "--problem", "no_such_problem"], "no_such_problem"),
        (
            &[whole, "--problem", "dgemm", "--problem", "dot"],
            "too few answers to dot (0)",
        ),
        (
            &[whole, "--problem", "dgemm", "--samples", "3"],
            "too few answers to dgemm (1)",
        ),
        (&[whole, "--problem", "dgemm", "--k", "1,5"], "--k 5"),
        (&[&foreign, "--problem", "dgemm"], "line 2 of"),
        (
            &[&nothing, "--problem", "dgemm"],
            "neither a `program` nor an `answer`",
        ),
        (&[&cut, "--problem", "dgemm"], "line 2 of"),
        (&["no/such/model", "--problem", "dgemm"], "no/such/model"),
        (
            &[whole, "--problem", "dgemm", "--temperature", "-1"],
            "--temperature",
        ),
        (
            &[whole, "--problem", "dgemm", "--permit", "simdd"],
            "did you mean `simd`?",
        ),
        (&[whole], "--problem"),
    ];
    for (arguments, words) in cases {
        let output = eval(place, arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains(words),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert!(!place.join("out").exists());
    let missing = place.join("out").display().to_string();
    let output = flopsmith()
        .args(["eval", "compare", &missing, &missing])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("holds no evaluation"),
        "{}",
        stderr(&output)
    );
}

#[cfg(feature = "torch")]
#[test]
fn a_language_model_answers_and_its_prompts_and_answers_are_kept() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let arguments = [
        "models/starter",
        "--problem",
        "dgemm",
        "--samples",
        "3",
        "--format",
        "json",
    ];
    let output = eval(place, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let counts = last_object(&output)["models"][0]["all"]["counts"].clone();
    assert_eq!(counts["answers"], 3, "{counts}");
    let answers = objects(&place.join("out/samples.jsonl"));
    for (answer, number) in answers.iter().zip(1..) {
        assert_eq!(answer["number"], number);
        assert_eq!(answer["seed"], number + 1);
        assert!(
            answer["prompt"].as_str().unwrap().starts_with("// dgemm:"),
            "{answer}"
        );
        // The starter model answers with a program and nothing else.
        assert_eq!(answer["answer"], answer["program"]);
    }
    // Existing answers are not drawn again, and the model is not loaded for them.
    let again = eval(place, &arguments);
    assert_eq!(last_object(&again)["models"][0]["all"]["counts"], counts);
    assert_eq!(objects(&place.join("out/samples.jsonl")), answers);
}
