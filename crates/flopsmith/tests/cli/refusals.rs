//! A command that cannot work ends at once, with the right exit code, one clear message, and one JSON object.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::one_core::on_one_core;
use crate::quick;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn flopsmith() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flopsmith"));
    command
        .current_dir(root())
        .stdin(Stdio::null())
        // The tests themselves keep the machine busy.
        .env("FLOPSMITH_WAIT", "0")
        .env_remove("FLOPSMITH_ALLOW_WEAKER_JAIL")
        .env_remove("FLOPSMITH_COMPILER");
    quick::on(&mut command);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The output for a program that reads stdout: one line, one object.
fn only_object(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().count(), 1, "{text}\n{}", stderr(output));
    serde_json::from_str(text.trim()).unwrap()
}

/// The shipped problem in a folder of another name, with edited files.
fn copy_of_dgemm(place: &Path, name: &str, edit: impl Fn(&str, String) -> String) -> PathBuf {
    let folder = place.join(name);
    std::fs::create_dir(&folder).unwrap();
    for file in ["problem.toml", "reference.c", "baseline.c"] {
        let text = std::fs::read_to_string(quick::problems().join("dgemm").join(file)).unwrap();
        std::fs::write(folder.join(file), edit(file, text)).unwrap();
    }
    folder
}

fn with_reference(place: &Path, body: &str) -> PathBuf {
    copy_of_dgemm(place, "dgemm", |file, text| match file {
        "reference.c" => format!(
            "void dgemm(int n, const double *A, const double *B, double *C)\n{{\n{body}\n}}\n"
        ),
        _ => text,
    })
}

fn problem_check(folder: &Path, more: &[&str]) -> Output {
    flopsmith()
        .args(["problem", "check", "--format", "json"])
        .arg(folder)
        .args(more)
        .output()
        .unwrap()
}

fn mistakes(output: &Output) -> Vec<String> {
    let object = only_object(output);
    assert_eq!(object["sound"], false, "{object}");
    assert_eq!(output.status.code(), Some(1), "{object}");
    object["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|f| f["error"] == true)
        .map(|f| f["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_definition_whose_reference_breaks_a_law_is_told_which() {
    const PRODUCT: &str = "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { double s = 0; \
        for (int k = 0; k < n; k++) s += A[i * n + k] * B[k * n + j]; C[i * n + j] = s; }";
    // A difference in the last bit passes every bound.
    let counted = format!("static int calls; {PRODUCT} if (calls++ & 1) C[0] *= 1 + 2.3e-16;");
    let cases: [(&str, &[&str]); 4] = [
        (&counted, &["the reference is not deterministic"]),
        (
            "for (int i = 0; i < n * n; i++) C[i] = 2 * A[i];",
            &["`B` does not matter"],
        ),
        (
            "for (int i = 0; i < n * n; i++) C[i] = 0;",
            &[
                "`A` does not matter",
                "`B` does not matter",
                "`C` is zero everywhere",
            ],
        ),
        (
            "for (int i = 0; i < n * n; i++) C[i] = i;",
            &["`C` does not vary"],
        ),
    ];
    for (body, parts) in cases {
        let place = tempfile::tempdir().unwrap();
        let found = mistakes(&problem_check(&with_reference(place.path(), body), &[]));
        for part in parts {
            assert!(
                found.iter().any(|m| m.contains(part)),
                "{part} for {body}: {found:?}"
            );
        }
    }
}

#[test]
fn flags_are_the_definitions_mistake_and_a_compiler_that_is_none_is_the_users() {
    let place = tempfile::tempdir().unwrap();
    let folder = copy_of_dgemm(place.path(), "dgemm", |_, text| {
        text.replace("\"-O3\"", "\"-fno-such-flag\"")
    });
    let found = mistakes(&problem_check(&folder, &[]));
    assert!(
        found.iter().any(|m| m.contains("no-such-flag")),
        "{found:?}"
    );
    let output = problem_check(Path::new("dgemm"), &["--compiler", "no-such-compiler"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let object = only_object(&output);
    let error = object["error"].as_str().unwrap();
    assert!(error.contains("no-such-compiler"), "{error}");
}

/// A search path whose first folder, `place`, has a bubblewrap that cannot make a network namespace, like in some
/// containers.
fn path_with_weak_bubblewrap(place: &Path) -> std::ffi::OsString {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let real = std::env::split_paths(&path)
        .chain(["/usr/bin".into(), "/usr/local/bin".into()])
        .map(|folder| folder.join("bwrap"))
        .find(|p| p.is_file())
        .unwrap();
    let weak = place.join("bwrap");
    std::fs::write(
        &weak,
        format!(
            "#!/bin/sh\nfor a in \"$@\"; do [ \"$a\" = --unshare-net ] && exit 1; done\nexec {} \"$@\"\n",
            real.display()
        ),
    )
    .unwrap();
    std::fs::set_permissions(&weak, std::fs::Permissions::from_mode(0o755)).unwrap();
    let folders = [place.to_owned()]
        .into_iter()
        .chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap()
}

#[test]
fn a_machine_with_a_weaker_jail_is_not_ready_and_doctor_names_the_flag() {
    let place = tempfile::tempdir().unwrap();
    let output = flopsmith()
        .args(["doctor", "--quick", "--format", "json"])
        .env("PATH", path_with_weak_bubblewrap(place.path()))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let object = only_object(&output);
    assert_eq!(object["ready"], false, "{object}");
    let findings = object["findings"].as_array().unwrap();
    let jail = findings.iter().find(|f| f["what"] == "jail").unwrap();
    assert_eq!(jail["state"], "missing", "{jail}");
    let advice = jail["advice"].as_str().unwrap();
    assert!(advice.contains("--allow-weaker-jail"), "{advice}");
}

#[test]
fn a_definition_is_not_run_in_a_weaker_jail_unless_that_is_allowed() {
    let place = tempfile::tempdir().unwrap();
    let path = path_with_weak_bubblewrap(place.path());
    // Its mistake is found before the longer checks, and only by running it.
    let idle = "for (int i = 0; i < n * n; i++) C[i] = 0;";
    let folder = with_reference(place.path(), idle);
    let check = |more: &[&str]| {
        flopsmith()
            .args(["problem", "check", "--format", "json"])
            .arg(&folder)
            .args(more)
            .env("PATH", &path)
            .output()
            .unwrap()
    };
    let refused = check(&[]);
    assert_eq!(refused.status.code(), Some(3), "{}", stderr(&refused));
    let object = only_object(&refused);
    let error = object["error"].as_str().unwrap();
    assert!(error.contains("cannot be run safely"), "{error}");
    let found = mistakes(&check(&["--allow-weaker-jail"]));
    assert!(
        found.iter().any(|m| m.contains("`C` is zero everywhere")),
        "{found:?}"
    );
}

/// Wrong settings of the shipped configuration are refused before a run starts.
#[cfg(feature = "torch")]
fn refused_before_a_run(set: &[&str], parts: &[&str]) {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let mut train = flopsmith();
    train
        .args(["train", "examples/dgemm.toml", "--format", "json", "--runs"])
        .arg(&runs);
    for item in set {
        train.args(["--set", item]);
    }
    let output = train.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{set:?}: {said}");
    let object = only_object(&output);
    crate::assert_keys(&object, "error exit_code", "");
    assert_eq!(object["exit_code"], 2, "{object}");
    let error = object["error"].as_str().unwrap();
    for part in parts {
        assert!(error.contains(part), "{part} for {set:?}: {error}");
    }
    assert!(!said.contains("measuring this machine"), "{said}");
    assert!(!runs.exists(), "no run was made of it: {set:?}");
}

#[cfg(feature = "torch")]
#[test]
fn training_is_refused_before_anything_is_measured() {
    refused_before_a_run(
        &["generator.kind=schedule"],
        &["generator.kind", "flopsmith search"],
    );
    refused_before_a_run(
        &["generator.top_p=0.9"],
        &["log-probabilities", "evaluation_top_p"],
    );
    refused_before_a_run(
        &["generator.top_k=20"],
        &["log-probabilities", "evaluation_top_p"],
    );
    refused_before_a_run(&["sqd.elites_per_cell=0"], &["[sqd]", "elites_per_cell"]);
    refused_before_a_run(&["sqd.advance.steps=[1]"], &["[sqd]", "advance.steps"]);
    refused_before_a_run(&["learner.learning_rate=-1.0"], &["[learner]"]);
    refused_before_a_run(
        &["learner.epoch=2"],
        &["--set learner.epoch=2", "did you mean `epochs`"],
    );
    refused_before_a_run(&["machine_class=\"a b\""], &["machine_class"]);
    refused_before_a_run(&["problem=no-such-problem"], &["no-such-problem"]);
}

#[test]
fn config_check_refuses_what_training_would() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("c.toml");
    let cases: &[(&str, &[&str])] = &[
        ("[generator]\nkind = \"schedule\"\n", &["flopsmith search"]),
        (
            "[generator]\ntop_p = 0.9\n",
            &["c.toml, line 2", "evaluation_top_p"],
        ),
        ("[sqd]\nreplay_share = 2.0\n", &["replay_share"]),
        ("machine_class = \"a/b\"\n", &["machine_class"]),
        ("problem = \"dgem\"\n", &["dgem"]),
        #[cfg(feature = "torch")]
        (
            "[learner]\nepoch = 2\n",
            &["c.toml, line 2: unknown field `epoch`"],
        ),
        #[cfg(feature = "torch")]
        ("[generator]\nmodel = \"nowhere\"\n", &["nowhere"]),
    ];
    for (text, parts) in cases {
        std::fs::write(&file, text).unwrap();
        let output = flopsmith()
            .args(["config", "check"])
            .arg(&file)
            .output()
            .unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}: {said}");
        for part in *parts {
            assert!(said.contains(part), "{part} for {text}: {said}");
        }
    }
    // Another machine may have the cores that this one lacks.
    for (text, warned) in [
        ("[generator]\nevaluation_top_p = 0.9\n", ""),
        ("threads = 4096\n", "warning: `threads` is 4096"),
    ] {
        std::fs::write(&file, text).unwrap();
        let output = flopsmith()
            .args(["config", "check"])
            .arg(&file)
            .output()
            .unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains(warned), "{said}");
    }
}

#[cfg(feature = "torch")]
#[test]
fn a_gpu_that_is_not_there_is_a_lack_of_this_machine() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let recipe = place.path().join("sft.toml");
    let text = "model = \"models/starter\"\nexamples = \"sft.jsonl\"\ndevice = \"cuda:4000\"\n";
    std::fs::write(&recipe, text).unwrap();
    let (runs_text, recipe) = (runs.display().to_string(), recipe.display().to_string());
    let missing = "generator.device=cuda:4000";
    let train = [
        "train",
        "examples/dgemm.toml",
        "--runs",
        &runs_text,
        "--set",
    ];
    let sample = ["model", "sample", "models/starter", "--prompt", "x"];
    for command in [
        [&train[..], &[missing]].concat(),
        [&sample[..], &["--device", "cuda:4000"]].concat(),
        vec!["sft", &recipe],
    ] {
        let output = flopsmith().args(&command).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{command:?}: {said}");
        for part in ["\"cuda:4000\"", "flopsmith doctor"] {
            assert!(said.contains(part), "{part} for {command:?}: {said}");
        }
        assert!(!said.contains("measuring this machine"), "{said}");
    }
    assert!(!runs.exists(), "no run was made");
    let output = flopsmith().args(sample).args(["--device", "gpu"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    refused_before_a_run(&["learner.device=gpu"], &["`gpu` is no device"]);
    refused_before_a_run(
        &["require_gpu=true", "learner.device=cpu"],
        &["`learner.device`", "`require_gpu`"],
    );
}

#[cfg(feature = "torch")]
#[test]
fn a_model_that_does_not_load_is_refused_before_anything_is_measured() {
    let place = tempfile::tempdir().unwrap();
    let model = place.path().join("model");
    let set = format!("generator.model={}", model.display());
    let refused = |parts: &[&str]| refused_before_a_run(&[&set], parts);
    refused(&["config.json"]);
    std::fs::create_dir(&model).unwrap();
    let shipped = root().join("models/starter");
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        std::fs::copy(shipped.join(file), model.join(file)).unwrap();
    }
    let weights = model.join("model.safetensors");
    let bytes = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &bytes[..bytes.len() - 100]).unwrap();
    refused(&["model.safetensors"]);
    std::fs::write(&weights, &bytes).unwrap();
    let config = std::fs::read_to_string(model.join("config.json")).unwrap();
    let layers = config.replace("\"num_hidden_layers\": 4", "\"num_hidden_layers\": 5");
    assert_ne!(layers, config);
    std::fs::write(model.join("config.json"), layers).unwrap();
    refused(&["do not fit the configuration"]);
    std::fs::write(model.join("config.json"), config).unwrap();
    std::fs::write(model.join("tokenizer.json"), "{}").unwrap();
    refused(&["tokenizer"]);
    std::fs::copy(shipped.join("tokenizer.json"), model.join("tokenizer.json")).unwrap();
    refused_before_a_run(
        &[&set, "generator.max_tokens=5000"],
        &["generator.max_tokens", "positions"],
    );
    // The starter has 1024 positions, and the prompt takes some.
    refused_before_a_run(
        &[&set, "generator.max_tokens=1023"],
        &["the prompt takes", "1024 positions"],
    );
}

#[test]
fn a_problem_without_a_schedule_space_is_not_searched() {
    let place = tempfile::tempdir().unwrap();
    let problem = place.path().join("sort64");
    std::fs::create_dir(&problem).unwrap();
    let shipped = root().join("problems/sort64");
    for file in ["problem.toml", "reference.c", "baseline.c"] {
        let text = std::fs::read_to_string(shipped.join(file)).unwrap();
        let text = text.replace("template = \"sorting_networks\"\n", "");
        std::fs::write(problem.join(file), text).unwrap();
    }
    let runs = place.path().join("runs");
    let output = flopsmith()
        .args(["search", "--format", "json", "--budget", "30s"])
        .arg("--problem")
        .arg(&problem)
        .arg("--runs")
        .arg(&runs)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let object = only_object(&output);
    let error = object["error"].as_str().unwrap();
    for part in ["`sort64`", "no affine loop nest", "line ", "`template`"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!runs.exists());
}

#[test]
fn dependences_that_forbid_other_orders_are_named_before_the_search() {
    let place = tempfile::tempdir().unwrap();
    let problem = place.path().join("prefix_sum");
    std::fs::create_dir(&problem).unwrap();
    let shipped = root().join("problems/prefix_sum");
    for file in ["problem.toml", "baseline.c"] {
        let text = std::fs::read_to_string(shipped.join(file)).unwrap();
        let text = text.replace("template = \"running_sums\"\n", "");
        std::fs::write(problem.join(file), text).unwrap();
    }
    let recurrence = "\
void prefix_sum(int n, const int *in, int *out)
{
    for (int i = 1; i < n; i++)
        out[i] = 3 * out[i - 1] + in[i];
}
";
    std::fs::write(problem.join("reference.c"), recurrence).unwrap();
    let runs = place.path().join("runs");
    // It ends before a run is made.
    let output = search(&problem, &runs)
        .arg("--output")
        .arg(place.path().join("no/such/folder/best.c"))
        .output()
        .unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in [
        "note: the dependences of reference.c forbid every other order",
        "`template`",
        "--start mine.c",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let object = only_object(&output);
    let error = object["error"].as_str().unwrap();
    assert!(error.contains("cannot write"), "{error}");
    assert!(!runs.exists());
}

#[test]
fn a_budget_that_is_no_time_is_refused_with_words() {
    let place = tempfile::tempdir().unwrap();
    for (budget, part) in [
        ("-5", "`-5` is no duration"),
        ("0", "`0` is zero"),
        ("5 minutes", "`5 minutes` is no duration"),
    ] {
        let output = search(Path::new("dgemm"), place.path())
            .args(["--budget", budget])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let object = only_object(&output);
        let error = object["error"].as_str().unwrap();
        assert!(
            error.contains(part) && error.contains("--budget"),
            "{error}"
        );
    }
}

fn search(problem: &Path, runs: &Path) -> Command {
    let mut command = flopsmith();
    command
        .args(["search", "--format", "json"])
        .arg("--problem")
        .arg(problem)
        .arg("--runs")
        .arg(runs);
    command
}

fn short_search(problem: &Path, runs: &Path, more: &[&str]) -> Output {
    let mut command = search(problem, runs);
    command.args(["--budget", "10m"]);
    for set in ["tasks=1", "group_size=2", "max_steps=1"] {
        command.args(["--set", set]);
    }
    command.args(quick::SETTINGS.iter().flat_map(|set| ["--set", set]));
    command.args(more).output().unwrap()
}

#[test]
fn a_search_that_finds_nothing_blames_its_programs_and_prints_one_object() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    // The schedule space writes `dgemm`, so each of its programs lacks this entry.
    let folder = copy_of_dgemm(place.path(), "dgemm", |_, text| {
        text.replace("name = \"dgemm\"", "name = \"product\"")
            .replace("void dgemm(", "void product(")
    });
    let best = place.path().join("best.c");
    let more = ["--output", best.to_str().unwrap()];
    let output = short_search(&folder, &place.path().join("runs"), &more);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(!best.exists(), "an empty file is no program");
    let summary = only_object(&output);
    assert_eq!(summary["best"], Value::Null, "{summary}");
    assert_eq!(summary["finished"], true, "{summary}");
    assert!(
        stderr(&output).contains("no program of this run was correct"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_run_does_not_go_on_after_its_problem_was_edited() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let folder = copy_of_dgemm(place.path(), "dgemm", |_, text| text);
    let runs = place.path().join("runs");
    let output = short_search(&folder, &runs, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = std::fs::read_dir(&runs)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert!(run.join("comparability.json").is_file());
    // As if a kill had come before its last measurements.
    let facts = run.join("run.json");
    let mut cut: Value = serde_json::from_slice(&std::fs::read(&facts).unwrap()).unwrap();
    cut["concluded"] = false.into();
    std::fs::write(&facts, cut.to_string()).unwrap();
    let reference = folder.join("reference.c");
    let text = std::fs::read_to_string(&reference).unwrap();
    std::fs::write(&reference, format!("{text}/* edited */\n")).unwrap();
    let refused = search(&folder, &runs).arg("--resume").output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let object = only_object(&refused);
    let error = object["error"].as_str().unwrap();
    assert!(error.contains("the problem was edited"), "{error}");
    // After undoing the edit the run continues.
    std::fs::write(&reference, text).unwrap();
    let resumed = search(&folder, &runs).arg("--resume").output().unwrap();
    assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
}

#[test]
fn an_output_that_cannot_be_written_is_named_before_the_search() {
    let place = tempfile::tempdir().unwrap();
    let output = flopsmith()
        .args([
            "search",
            "--problem",
            "dgemm",
            "--budget",
            "10m",
            "--output",
        ])
        .arg(place.path().join("no/such/folder/best.c"))
        .arg("--runs")
        .arg(place.path().join("runs"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot write"));
    assert!(!place.path().join("runs").exists(), "no run was begun");
}

#[test]
fn samples_that_cannot_be_written_are_named_before_anything_is_measured() {
    let place = tempfile::tempdir().unwrap();
    let raw = place.path().join("no/such/folder/raw.json");
    let output = flopsmith()
        .args(["bench", "problems/dgemm/reference.c", "--problem", "dgemm"])
        .args(["--purpose", "screen", "--format", "json", "--raw"])
        .arg(&raw)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let object = only_object(&output);
    let error = object["error"].as_str().unwrap();
    assert!(error.contains("raw.json"), "{error}");
}

#[cfg(feature = "torch")]
#[test]
fn a_configuration_whose_name_cannot_name_a_run_is_refused_with_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let config = place.path().join("my config.toml");
    std::fs::copy(root().join("examples/dgemm.toml"), &config).unwrap();
    let runs = place.path().join("runs");
    let output = flopsmith()
        .args(["train", "--format", "json"])
        .arg(&config)
        .arg("--runs")
        .arg(&runs)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let object = only_object(&output);
    let error = object["error"].as_str().unwrap();
    assert!(
        error.contains("my config-") && error.contains("rename"),
        "{error}"
    );
    assert!(!runs.exists());
}

/// The message of a command that is refused since its argument names something missing.
fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(!said.contains("measuring this machine"), "{said}");
    said
}

#[test]
fn runs_that_are_not_there_are_named() {
    let place = tempfile::tempdir().unwrap();
    let nowhere = place.path().join("nowhere");
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    for runs in [&nowhere, &file] {
        let said = refused(flopsmith().args(["runs", "--runs"]).arg(runs));
        assert!(said.contains(runs.to_str().unwrap()), "{said}");
        let said = refused(flopsmith().arg("runs").env("FLOPSMITH_RUNS", runs));
        assert!(said.contains(runs.to_str().unwrap()), "{said}");
    }
    // The default folder of runs is empty.
    let listed = flopsmith()
        .args(["runs", "--format", "json"])
        .current_dir(place.path())
        .env_remove("FLOPSMITH_RUNS")
        .output()
        .unwrap();
    assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
    assert_eq!(only_object(&listed), serde_json::json!([]));
    let commands: [&[&str]; 3] = [
        &["report", "no-such-run"],
        &["train", "examples/dgemm.toml", "--resume", "no-such-run"],
        &["search", "--problem", "dgemm", "--resume", "no-such-run"],
    ];
    for command in commands {
        let said = refused(flopsmith().args(command).arg("--runs").arg(place.path()));
        assert!(said.contains("there is no run no-such-run in"), "{said}");
    }
}

#[test]
fn a_folder_of_problems_that_is_not_there_is_named() {
    let commands: [&[&str]; 3] = [
        &["problem", "list"],
        &["problem", "prompt", "dgemm"],
        &["search", "--problem", "dgemm", "--budget", "5s"],
    ];
    for command in commands {
        let said = refused(
            flopsmith()
                .args(command)
                .env("FLOPSMITH_PROBLEMS", "/no/such/problems"),
        );
        assert!(
            said.contains("FLOPSMITH_PROBLEMS") && said.contains("/no/such/problems"),
            "{said}"
        );
    }
}

#[test]
fn a_store_that_cannot_be_used_is_named_before_there_is_a_run() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("below").display().to_string();
    for store in ["nowhere://bucket", &below] {
        let setting = format!("store={store}");
        let said = refused(search(Path::new("dgemm"), &runs).args(["--set", &setting]));
        assert!(said.contains("`store`") && said.contains(store), "{said}");
        assert!(!runs.exists(), "no run was begun");
    }
}

#[test]
fn the_settings_of_a_run_cannot_be_changed_when_it_is_resumed() {
    let place = tempfile::tempdir().unwrap();
    let refused = |command: &[&str], flags: &[&str]| {
        let output = flopsmith()
            .args(command)
            .args(["--resume", "--format", "json", "--runs"])
            .arg(place.path())
            .args(flags)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let object = only_object(&output);
        let error = object["error"].as_str().unwrap();
        assert!(
            error.contains(flags[0]) && error.contains("--resume"),
            "{error}"
        );
    };
    let train = ["train", "examples/dgemm.toml"];
    let search = ["search", "--problem", "dgemm"];
    for command in [&train[..], &search[..]] {
        refused(command, &["--set", "tasks=2"]);
        refused(command, &["--seed", "3"]);
    }
    refused(&search, &["--evaluations", "10"]);
}
