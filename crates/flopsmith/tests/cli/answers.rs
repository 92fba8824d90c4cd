//! Commands that answer at once: wrong usage, checks of a problem, the state of this machine.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::one_core::on_one_core;
use crate::{as_shipped, assert_keys, assert_rows, bench, flopsmith, last_object, quick, run};

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
    says(
        &["bench", "problems/dgemm/problem.toml", "--problem", "dgemm"],
        "named with --problem",
    );
    let of = |name: &'static str| ["--problem", "dgemm", "--workload", name];
    let near = "did you mean `n=256`?";
    says(&[&["bench", "Cargo.toml"], &of("n=265")[..]].concat(), near);
    says(&[&["search"], &of("n=265")[..]].concat(), near);
    #[cfg(feature = "torch")]
    says(
        &["train", "examples/dgemm.toml", "--workload", "n=265"],
        near,
    );
    says(
        &[&["bench", "Cargo.toml"], &of("everything")[..]].concat(),
        "it has `n=256`",
    );
    says(&["train", "no-such.toml"], "examples/dgemm.toml");
    says(
        &["runs", "--log", "a=b=c"],
        "error, warn, info, debug or trace",
    );
    says(&["runs", "--log", "loud"], "`loud` is not a log level");
    let rank = ["bench", "problems/dgemm/baseline.c", "--problem", "dgemm"];
    says(
        &[&rank[..], &["--resolve", "soon"]].concat(),
        "--resolve cannot be read",
    );
    says(
        &["bench", "-", "--problem", "dgemm"],
        "programs are not read from stdin",
    );
    says(
        &["problem", "prompt", "examples"],
        "the folder examples holds no problem.toml",
    );
    says(
        &["problem", "prompt", "sort64", "--nest"],
        "the reference of sort64 is no affine loop nest",
    );
    let flags = ["--problem", "dgemm", "--flags", "-O3 -march=nosuch"];
    says(
        &[&["bench", "problems/dgemm/baseline.c"], &flags[..]].concat(),
        "nosuch",
    );
    says(&["search", "--problem", "dgemm", "--budget", "5x"], "10m");
    says(
        &["search", "--problem", "dgem", "--budget", "10"],
        "--budget 10 is 10 seconds; 10m is 10 minutes",
    );
    let set = |item: &str, part: &str| {
        says(&["search", "--problem", "dgemm", "--set", item], part);
    };
    set("tasks=many", "`tasks` takes a whole number");
    set("threads=100000", "`threads` is 100000");
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
fn lists_prompts_and_configurations_are_there_for_programs_too() {
    let object = |arguments: &[&str]| {
        let output = run(&[arguments, &["--format", "json"][..]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        last_object(&output)
    };
    let list = object(&["problem", "list"]);
    assert_rows(&list, "problem folder title timed workloads error");
    let listed = list.as_array().unwrap().iter();
    let dgemm = listed.filter(|p| p["problem"] == "dgemm").count();
    assert_eq!(dgemm, 1, "{list}");
    assert!(
        list[0]["title"].is_string() && list[0]["error"].is_null(),
        "{list}"
    );
    let dgemm = list
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["problem"] == "dgemm");
    assert_eq!(dgemm.unwrap()["timed"]["n"], 64);
    assert_rows(&dgemm.unwrap()["workloads"], "name timed");
    let names: Vec<&str> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["problem"].as_str().unwrap())
        .collect();
    assert!(names.is_sorted(), "{names:?}");
    // Unless the user asks for it, a prompt permits no technique that the starter's corpus lacks.
    let prompt = object(&["problem", "prompt", "dgemm"]);
    assert_keys(&prompt, "problem permitted threads compact nest prompt", "");
    let permitted = prompt["permitted"].as_array().unwrap();
    assert!(permitted.contains(&"simd".into()) && !permitted.contains(&"openmp".into()));
    let prompt = object(&["problem", "prompt", "dgemm", "--nest", "--permit", "simd"]);
    assert_eq!(prompt["permitted"], serde_json::json!(["simd"]));
    let nest = prompt["prompt"].as_str().unwrap_or_default();
    assert!(
        nest.starts_with("// nest: simd\nvoid dgemm(int n,"),
        "{nest}"
    );
    let prompt = object(&["problem", "prompt", "dgemm", "--permit", "simd"]);
    assert_eq!(prompt["permitted"], serde_json::json!(["simd"]));
    // Runs that time several threads permit OpenMP.
    let prompt = object(&["problem", "prompt", "dgemm", "--threads", "2"]);
    let permitted = prompt["permitted"].as_array().unwrap();
    assert!(permitted.contains(&"openmp".into()), "{prompt}");
    assert!(
        prompt["prompt"].as_str().unwrap().contains("void dgemm("),
        "{prompt}"
    );
    let config = object(&["config", "check", "examples/dgemm.toml"]);
    assert_eq!(config["problem"], "dgemm");
    assert_eq!(config["generator"]["model"], "models/starter");
    let config = object(&[
        "config",
        "check",
        "examples/dgemm.toml",
        "--set",
        "group_size=6",
    ]);
    assert_eq!(config["group_size"], 6);
}

#[test]
fn a_corpus_has_a_line_for_each_example_and_is_the_same_for_the_same_seed() {
    let corpus = |seed: &str| {
        let wanted = ["dataset", "schedules", "--examples", "20", "--seed", seed];
        let output = run(&wanted);
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = corpus("5");
    assert_eq!(text.lines().count(), 20, "{text}");
    for line in text.lines() {
        let example: Value = serde_json::from_str(line).unwrap();
        assert_keys(&example, "prompt program techniques", "");
        let prompt = example["prompt"].as_str().unwrap();
        assert!(prompt.starts_with("// dgemm:"), "{prompt}");
        let program = example["program"].as_str().unwrap();
        assert!(program.contains("void dgemm("), "{program}");
        for technique in example["techniques"].as_array().unwrap() {
            assert!(prompt.contains(technique.as_str().unwrap()), "{example}");
        }
    }
    assert_eq!(text, corpus("5"));
    assert_ne!(text, corpus("6"));
}

#[test]
fn the_shipped_problem_is_sound() {
    let check = ["problem", "check", "dgemm", "--workload", "n=256"];
    let output = as_shipped()
        .args(check)
        .args(["--format", "json"])
        .output()
        .unwrap();
    let object = last_object(&output);
    assert_eq!(object["sound"], true, "{object}");
}

#[test]
fn a_new_definition_is_sound_and_has_no_weakness() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("my_kernel");
    let folder = folder.to_str().unwrap();
    let output = run(&["problem", "new", folder]);
    assert_eq!(output.status.code(), Some(0));
    let output = run(&["problem", "check", folder, "--format", "json"]);
    let object = last_object(&output);
    assert_eq!(output.status.code(), Some(0), "{object}");
    assert_eq!(object["sound"], true, "{object}");
    assert_eq!(object["weaknesses"], serde_json::json!([]), "{object}");
}

#[test]
fn weaknesses_of_a_sound_definition_are_listed_and_no_failure() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("my_kernel");
    let named = folder.to_str().unwrap();
    assert_eq!(run(&["problem", "new", named]).status.code(), Some(0));
    std::fs::remove_file(folder.join("baseline.c")).unwrap();
    let output = run(&["problem", "check", named, "--format", "json"]);
    let object = last_object(&output);
    assert_eq!(output.status.code(), Some(0), "{object}");
    assert_eq!(object["sound"], true, "{object}");
    assert_keys(&object, "problem sound weaknesses findings", "");
    assert_rows(&object["findings"], "error warning text");
    let weaknesses = object["weaknesses"].as_array().unwrap();
    assert_eq!(weaknesses.len(), 1, "{object}");
    let said = weaknesses[0].as_str().unwrap();
    assert!(said.starts_with("there is no baseline.c"), "{object}");
}

#[test]
fn a_bound_that_admits_a_reference_with_fewer_digits_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("dgemm");
    std::fs::create_dir(&folder).unwrap();
    for file in ["problem.toml", "reference.c", "baseline.c"] {
        let text = std::fs::read_to_string(quick::problems().join("dgemm").join(file)).unwrap();
        let loose = text.replace("c = 4.0", "c = 1e9");
        // The prompt must promise the same.
        let loose = loose.replace("4·√n·eps", "1000000000·√n·eps");
        assert_eq!(loose != text, file == "problem.toml");
        std::fs::write(folder.join(file), loose).unwrap();
    }
    let output = run(&[
        "problem",
        "check",
        folder.to_str().unwrap(),
        "--format",
        "json",
    ]);
    let object = last_object(&output);
    assert_eq!(output.status.code(), Some(1), "{object}");
    assert_eq!(object["sound"], false, "{object}");
    let findings = object["findings"].as_array().unwrap();
    let mut errors = findings.iter().filter(|f| f["error"] == true);
    assert!(
        errors.all(|f| f["text"].as_str().unwrap().contains("the bound is loose")),
        "{object}"
    );
}

#[test]
fn a_baseline_that_is_right_where_it_is_timed_only_is_found_and_named() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("my_kernel");
    let named = folder.to_str().unwrap();
    assert_eq!(run(&["problem", "new", named]).status.code(), Some(0));
    let change = |file: &str, old: &str, new: &str| {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(old), "{file}");
        std::fs::write(path, text.replace(old, new)).unwrap();
    };
    let errors = || {
        let output = run(&["problem", "check", named, "--format", "json"]);
        let object = last_object(&output);
        assert_eq!(output.status.code(), Some(1), "{object}");
        let findings = object["findings"].as_array().unwrap().clone();
        let errors = findings.iter().filter(|f| f["error"] == true);
        errors.map(|f| f["text"].to_string()).collect::<Vec<_>>()
    };
    // The timed size is a multiple of 8, and hidden ones are not.
    let rest = "rest += A[i * n + j] * x[j];";
    change("baseline.c", rest, "rest += 0 * x[j];");
    let found = errors();
    assert_eq!(found.len(), 1, "{found:?}");
    for part in [
        "baseline.c and reference.c do not agree",
        "wrong_result",
        "n = ",
    ] {
        assert!(found[0].contains(part), "{part} in {found:?}");
    }
    change("baseline.c", "rest += 0 * x[j];", rest);
    change("problem.toml", "c = 4.0", "c = 0.0001");
    change("problem.toml", "4·√n·eps", "0.0001·√n·eps");
    let found = errors();
    assert!(found[0].contains("`bound.c` is too small"), "{found:?}");
}

#[test]
fn doctor_finds_what_a_run_needs() {
    let output = run(&["doctor", "--quick", "--broker", "--format", "json"]);
    let object = last_object(&output);
    assert_keys(&object, "findings attestation roofs timing ready", "");
    assert_rows(&object["findings"], "what state found advice");
    assert_eq!(object["ready"], true, "{object}");
    let server = nats_server(&object);
    let found = server["found"].as_str().unwrap();
    assert!(found.ends_with("starts with JetStream"), "{object}");
}

/// The doctor's finding about the broker.
fn nats_server(object: &Value) -> Value {
    let findings = object["findings"].as_array().unwrap();
    let mut named = findings.iter().filter(|f| f["what"] == "nats-server");
    named.next().unwrap().clone()
}

#[test]
fn doctor_without_a_nats_server_says_which_commands_need_one() {
    let says = |more: &[&str], code: i32, state: &str| {
        let mut command = flopsmith();
        command.env("FLOPSMITH_NATS_SERVER", "/no/such/nats-server");
        command.args(["doctor", "--quick", "--format", "json"]);
        let output = command.args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        let object = last_object(&output);
        let found = nats_server(&object);
        assert_eq!(found["state"], state, "{object}");
        assert!(found["found"].as_str().unwrap().contains("/no/such"));
        assert_eq!(object["ready"], code == 0, "{object}");
        // The advice about a missing broker has its own text.
        found["advice"].as_str().unwrap_or_default().to_owned()
    };
    let advice = says(&[], 0, "advice");
    assert!(advice.contains("`train` and `search`"), "{advice}");
    says(&["--broker"], 3, "missing");
}

/// A nats-server that answers `--version`, and writes the file `started` on any other call.
fn trap(folder: &Path, started: &Path) -> std::path::PathBuf {
    let path = folder.join("nats-server");
    let text = format!(
        "#!/bin/sh\n[ \"$*\" = --version ] && exec echo nats-server: v2.12.3\necho \"$*\" >>'{}'\nexit 1\n",
        started.display()
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn local_commands_start_no_broker() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let started = place.path().join("started");
    let server = trap(place.path(), &started);
    let program = place.path().join("program.c");
    std::fs::write(&program, bench::GOOD).unwrap();
    let file = program.to_str().unwrap();
    for arguments in [
        &["bench", file, "--problem", "dgemm", "--purpose", "screen"][..],
        &["problem", "list"],
        &["problem", "check", "dgemm"],
        &["doctor", "--quick"],
    ] {
        let mut command = flopsmith();
        command.env("FLOPSMITH_NATS_SERVER", &server);
        let output = command.args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        assert!(!started.exists(), "{arguments:?} started a broker");
    }
    // The test would have noticed a call.
    Command::new(&server).arg("--js").status().unwrap();
    assert!(started.exists());
}

#[test]
fn runs_are_listed_with_local_times_of_their_start_and_their_last_change() {
    let place = tempfile::tempdir().unwrap();
    // Without runs there is a hint.
    let mut command = flopsmith();
    command.args(["runs", "list", "--runs"]).arg(place.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stderr);
    for part in ["there are no runs in ", "search --problem dgemm`", "--runs"] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let run = place.path().join("search-dgemm-1");
    std::fs::create_dir(&run).unwrap();
    std::fs::write(run.join("config.toml"), "").unwrap();
    let started = 1_750_000_000_000_u64;
    let facts = serde_json::json!({
        "job": "search", "problem": "dgemm", "started_unix_ms": started, "seconds": 60.0, "sessions": 1,
        "shares": { "by_role": {}, "idle": 0.0, "seconds": 0.0 }, "peak_memory_bytes": 1, "finished": false,
        "disturbed": 0, "certified": [], "refused": [], "concluded": false,
    });
    std::fs::write(run.join("run.json"), facts.to_string()).unwrap();
    let changed = std::time::UNIX_EPOCH + std::time::Duration::from_millis(started + 90_000);
    let file = std::fs::File::options()
        .write(true)
        .open(run.join("run.json"));
    file.unwrap().set_modified(changed).unwrap();
    let listed = |format: &str| {
        let mut command = flopsmith();
        command
            .env("TZ", "HERE-2")
            .args(["runs", "--format", format]);
        command.arg("--runs").arg(place.path()).output().unwrap()
    };
    let output = listed("text");
    let text = String::from_utf8_lossy(&output.stdout);
    // Two hours east of Greenwich.
    let times = "  2025-06-15 17:06  2025-06-15 17:08  can be resumed";
    assert!(text.lines().any(|l| l.ends_with(times)), "{text}");
    let object = last_object(&listed("json"));
    assert_rows(
        &object,
        "run job problem finished running concluded steps started_unix_ms changed_unix_ms seconds best_gflops coverage \
         coverage_unconfirmed correct_rate_end search_correct_rate outcomes",
    );
    assert_eq!(object[0]["started_unix_ms"], started);
    assert_eq!(object[0]["changed_unix_ms"], started + 90_000);
}

#[test]
fn a_variable_is_named_where_its_value_is_at_fault() {
    let said = |set: &[(&str, &str)], arguments: &[&str]| {
        let output = flopsmith()
            .args(arguments)
            .envs(set.iter().copied())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text)
    };
    for (name, value) in [("FLOPSMITH_FORMAT", "csv"), ("FLOPSMITH_LOG", "loud")] {
        let (code, text) = said(&[(name, value)], &["runs"]);
        assert_eq!(code, Some(2), "{text}");
        assert!(
            text.contains(&format!("environment variable {name}")),
            "{text}"
        );
    }
    let bench = ["bench", "no-such.c", "--problem", "dgemm"];
    let names = ["FLOPSMITH_SANITIZE", "FLOPSMITH_ALLOW_WEAKER_JAIL"];
    for name in names {
        let (_, text) = said(&[(name, "maybe")], &bench);
        assert!(
            text.contains(&format!("environment variable {name}")),
            "{text}"
        );
    }
    for value in ["0", "no", "1", "yes", "true"] {
        let (_, text) = said(&names.map(|name| (name, value)), &bench);
        assert!(text.contains("cannot read no-such.c"), "{value}: {text}");
    }
}

#[test]
fn settings_fixed_by_a_cluster_cannot_be_overridden() {
    let place = ["--nats", "nats://127.0.0.1:1", "--store", "/nowhere"];
    for (set, key) in [
        ("evaluate.workers=false", "`evaluate.workers`"),
        ("hosted=[\"archive\"]", "`hosted`"),
    ] {
        let search = ["search", "--problem", "dgemm", "--cluster", "--set", set];
        let output = run(&[&search[..], &place].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--cluster") && said.contains(key), "{said}");
    }
}
