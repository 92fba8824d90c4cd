use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use flopsmith_problem::Target;
use flopsmith_test_support::shipped::{at, problems};

use super::*;

const IMAGE: &str = "flopsmith-worker";

fn task(place: &Path) -> PathBuf {
    let root = at("dgemm");
    let task = place.join("dgemm");
    let problem = Problem::load(&root).unwrap();
    let kit = Kit::of(&problem).unwrap();
    write(&task, &problem, &kit, IMAGE).unwrap();
    task
}

fn shipped(name: &str) -> String {
    at(name).display().to_string()
}

/// The files beneath a folder, by their paths from it.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = Path::new(path.file_name().unwrap());
        if path.is_dir() {
            found.extend(files(&path).iter().map(|below| name.join(below)));
        } else {
            found.insert(name.to_owned());
        }
    }
    found
}

#[test]
fn every_shipped_problem_is_a_task_whose_oracle_is_its_own_program() {
    let place = tempfile::tempdir().unwrap();
    let tasks = place.path().join("tasks");
    export(&tasks, &[], &[], IMAGE).unwrap();
    let mut folders = problems();
    let modules = std::fs::read_dir(shipped("modules")).unwrap();
    folders.extend(modules.map(|module| module.unwrap().path()));
    let (mut fast, mut plain) = (0, 0);
    for folder in folders {
        let problem = Problem::load_any(&folder).unwrap();
        let id = problem.id.as_str();
        let (name, end, definition, solution) = match problem.target() {
            Target::Kernel => (id.to_owned(), "c", PathBuf::from(id), "baseline.c"),
            Target::Module => (
                format!("module_{id}"),
                "py",
                Path::new("modules").join(id),
                "solution_cpp.py",
            ),
        };
        let task = tasks.join(&name);
        let read = |path: &str| {
            let text = std::fs::read_to_string(task.join(path));
            text.unwrap_or_else(|e| unreachable!("{name}/{path}: {e}"))
        };
        // An agent that does nothing leaves no program: the reference has another name.
        let reference = format!("environment/reference.{end}");
        let oracle = format!("solution/{id}.{end}");
        let mut expected: BTreeSet<PathBuf> = [
            "task.toml",
            "instruction.md",
            "environment/Dockerfile",
            &reference,
            "solution/solve.sh",
            &oracle,
            "tests/Dockerfile",
            "tests/test.sh",
        ]
        .map(PathBuf::from)
        .into();
        let judged_by = Path::new("tests/problems").join(definition);
        let of_problem = files(&folder).into_iter();
        let of_problem = of_problem.filter(|file| file.components().count() == 1);
        expected.extend(of_problem.map(|file| judged_by.join(file)));
        assert_eq!(files(&task), expected, "{name}");
        let artifact = format!("/app/{id}.{end}");
        assert!(!read("environment/Dockerfile").contains(&artifact));
        assert!(read("instruction.md").contains(&format!("`{artifact}`")));
        for script in ["solution/solve.sh", "tests/test.sh"] {
            let mode = task.join(script).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755, "{name}: {script}");
            let place = format!("${{FLOPSMITH_TASK_PROGRAM:-{artifact}}}");
            assert!(read(script).contains(&place), "{name}: {script}");
        }
        let settings: toml::Table = toml::from_str(&read("task.toml")).unwrap();
        let artifacts = settings["artifacts"].as_array().unwrap();
        let artifacts: Vec<_> = artifacts.iter().filter_map(toml::Value::as_str).collect();
        assert_eq!(artifacts, [artifact.as_str()]);
        let named = settings["task"]["name"].as_str();
        assert_eq!(named, Some(format!("flopsmith/{name}").as_str()));
        let digest = settings["metadata"]["problem_digest"].as_str();
        assert_eq!(digest, Some(problem.digest.as_str()));
        let own = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
        assert_eq!(Some(read(&reference)), own(&format!("reference.{end}")));
        match own(solution) {
            Some(program) => {
                fast += 1;
                assert_eq!(read(&oracle), program, "{name}");
                assert_ne!(read(&oracle), read(&reference), "{name}");
            }
            None => {
                plain += 1;
                assert_eq!(read(&oracle), read(&reference), "{name}");
            }
        }
    }
    assert!(fast >= 60 && plain > 10, "{fast} and {plain}");
}

#[test]
fn problems_of_names_and_suites_are_tasks_once_and_two_of_one_name_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let tasks = place.path().join("tasks");
    let names = ["dot", "polybench_lu"].map(str::to_owned);
    export(&tasks, &names, &["polybench".to_owned()], IMAGE).unwrap();
    let count = std::fs::read_dir(&tasks).unwrap().count();
    let of_suite = problems().into_iter();
    let of_suite = of_suite.filter(|folder| folder.parent().unwrap().ends_with("polybench"));
    assert_eq!(count, of_suite.count() + 1);
    let copied = |name: &str| {
        let folder = place.path().join(name);
        for file in files(Path::new(&shipped("lu"))) {
            let content = std::fs::read(Path::new(&shipped("lu")).join(&file)).unwrap();
            super::place(&folder.join(file), &content).unwrap();
        }
        folder.display().to_string()
    };
    let other = place.path().join("other");
    let refused = |names: &[String], words: &str| {
        let error = export(&other, names, &[], IMAGE).unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error:#}");
        assert!(!other.exists());
    };
    // The agent of this one would have the reference where its program belongs.
    refused(&[copied("reference")], "rename the folder");
    refused(&[shipped("dgemm"), copied("dgemm")], "two folders");
    let error = export(&other, &[], &["polybensh".to_owned()], IMAGE).unwrap_err();
    assert!(error.to_string().contains("polybench"), "{error:#}");
}

#[test]
fn a_task_is_whole_and_its_agent_sees_no_solution() {
    let place = tempfile::tempdir().unwrap();
    let task = task(place.path());
    let read = |path: &str| std::fs::read_to_string(task.join(path)).unwrap();
    let settings: toml::Table = toml::from_str(&read("task.toml")).unwrap();
    assert_eq!(settings["task"]["name"].as_str(), Some("flopsmith/dgemm"));
    let artifact = settings["artifacts"][0].as_str();
    assert_eq!(artifact, Some("/app/dgemm.c"));
    let mode = settings["verifier"]["environment_mode"].as_str();
    assert_eq!(mode, Some("separate"));
    let instruction = read("instruction.md");
    assert!(instruction.contains("void dgemm(") && instruction.contains("/app/dgemm.c"));
    assert!(!instruction.contains("Answer with"), "{instruction}");
    // `bench` judges the program, and refuses no technique of the problem.
    assert!(
        !instruction.contains("Forbidden techniques"),
        "{instruction}"
    );
    assert!(read("tests/Dockerfile").contains("\nFROM flopsmith-worker\n"));
    let copied = Problem::load(&task.join("tests/problems/dgemm")).unwrap();
    let root = at("dgemm");
    assert_eq!(copied.digest, Problem::load(&root).unwrap().digest);
    assert_eq!(read("solution/dgemm.c"), copied.baseline_source.unwrap());
    let seen: Vec<_> = std::fs::read_dir(task.join("environment"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(seen.len(), 2, "{seen:?}");
}

/// The exit code of the verifier and the reward, if `bench` prints `row` and ends with `code`. Without a row there is no
/// program.
fn judged(row: Option<&str>, code: i32) -> (Option<i32>, Option<serde_json::Value>) {
    let place = tempfile::tempdir().unwrap();
    let task = task(place.path());
    let program = row.map(|_| "int x;");
    judged_by(&task.join("tests/test.sh"), program, row, code)
}

/// The same by this script, of this program.
fn judged_by(
    test: &Path,
    left: Option<&str>,
    row: Option<&str>,
    code: i32,
) -> (Option<i32>, Option<serde_json::Value>) {
    let place = tempfile::tempdir().unwrap();
    let bin = place.path().join("bin");
    let program = place.path().join("program");
    if let Some(left) = left {
        std::fs::write(&program, left).unwrap();
    }
    let row = row.unwrap_or_default();
    let said = format!("#!/bin/sh\nprintf '%s\\n' head '{row}' rest\nexit {code}\n");
    // Another process writes the script: a file that this one has open cannot be started while others fork.
    std::fs::create_dir(&bin).unwrap();
    let written = Command::new("sh")
        .args(["-c", "printf '%s' \"$1\" > \"$2\" && chmod +x \"$2\"", "sh"])
        .arg(said)
        .arg(bin.join("flopsmith"))
        .status();
    assert!(written.unwrap().success());
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let logs = place.path().join("logs");
    let output = Command::new("sh")
        .arg(test)
        .env("PATH", path)
        .env_remove("FLOPSMITH_PYTHON")
        .env("FLOPSMITH_TASK_PROGRAM", program)
        .env("FLOPSMITH_TASK_PROBLEMS", test.with_file_name("problems"))
        .env("FLOPSMITH_TASK_LOGS", &logs)
        .output()
        .unwrap();
    let reward = std::fs::read(logs.join("reward.json")).ok();
    let reward = reward.map(|text| serde_json::from_slice(&text).unwrap());
    (output.status.code(), reward)
}

#[test]
fn a_reward_is_a_number_and_a_failure_of_the_machine_has_none() {
    let row = |outcome: &str, numbers: &str| format!("a.c,dgemm,,{outcome},,1.5,{numbers},0.1");
    for (row, code, exit, reward, ratio) in [
        (
            Some(row("measured", "3.5,3.25,3.75")),
            0,
            0,
            Some(3.25),
            3.5,
        ),
        (
            Some(row("measured", "1.01,0.98,1.04")),
            0,
            0,
            Some(1.0),
            1.01,
        ),
        (Some(row("measured", "0.5,0.4,0.6")), 0, 0, Some(0.6), 0.5),
        (Some(row("rejected", ",,")), 1, 0, Some(0.0), 0.0),
        (None, 0, 0, Some(0.0), 0.0),
        (Some(row("unconverged", "3.5,0.5,9.0")), 0, 3, None, 0.0),
        (Some(row("infrastructure", ",,")), 3, 3, None, 0.0),
        (Some(row("measured", "3.5,3.25,3.75")), 2, 3, None, 0.0),
    ] {
        let (ended, found) = judged(row.as_deref(), code);
        assert_eq!(ended, Some(exit), "{row:?}");
        assert_eq!(
            found.as_ref().map(|f| f["reward"].as_f64()),
            reward.map(Some),
            "{row:?}"
        );
        if let Some(found) = found {
            assert_eq!(found["ratio"].as_f64(), Some(ratio), "{row:?}");
            assert!(found["correct"].is_number(), "{found}");
        }
    }
}

#[test]
fn a_module_is_a_task_with_its_solution_as_the_oracle() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("tasks");
    let names = [shipped("dgemm"), shipped("modules/softmax")];
    export(&folder, &names, &[], IMAGE).unwrap();
    let task = folder.join("module_softmax");
    let read = |path: &str| std::fs::read_to_string(task.join(path)).unwrap();
    let settings: toml::Table = toml::from_str(&read("task.toml")).unwrap();
    let name = settings["task"]["name"].as_str();
    assert_eq!(name, Some("flopsmith/module_softmax"));
    assert_eq!(settings["artifacts"][0].as_str(), Some("/app/softmax.py"));
    let instruction = read("instruction.md");
    for part in [
        "ModelNew",
        "/app/softmax.py",
        "/app/reference.py",
        "TorchInductor",
    ] {
        assert!(instruction.contains(part), "{part} in {instruction}");
    }
    assert!(read("tests/Dockerfile").contains("\nFROM flopsmith-worker\n"));
    let copied = task.join("tests/problems/modules/softmax");
    let copied = Problem::load_module(&copied).unwrap();
    let own = Problem::load_module(Path::new(&shipped("modules/softmax"))).unwrap();
    assert_eq!(copied.digest, own.digest);
    let oracle = std::fs::read_to_string(own.shipped_program().unwrap()).unwrap();
    assert_eq!(read("solution/softmax.py"), oracle);
    assert_eq!(read("environment/reference.py"), own.reference_source);
}

#[test]
fn a_folder_of_modules_gives_a_task_for_each_of_them() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("tasks");
    export(&folder, &[shipped("modules")], &[], IMAGE).unwrap();
    let all = std::fs::read_dir(shipped("modules")).unwrap().count();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), all);
}

#[test]
fn a_module_has_a_reward_by_its_speedup_and_none_without_a_time() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("tasks");
    export(&folder, &[shipped("modules/softmax")], &[], IMAGE).unwrap();
    let test = folder.join("module_softmax/tests/test.sh");
    let measured = |low: f64, speedup: f64, high: f64| json!({ "outcome": "measured", "low": low, "speedup": speedup, "high": high, "workloads": [{ "low": 9.0 }] });
    for (row, code, exit, reward, ratio) in [
        (Some(measured(3.25, 3.5, 3.75)), 0, 0, Some(3.25), 3.5),
        (Some(measured(0.98, 1.01, 1.04)), 0, 0, Some(1.0), 1.01),
        (Some(measured(0.4, 0.5, 0.6)), 0, 0, Some(0.6), 0.5),
        (Some(json!({ "outcome": "refused" })), 1, 0, Some(0.0), 0.0),
        (None, 0, 0, Some(0.0), 0.0),
        (Some(json!({ "outcome": "verified" })), 3, 3, None, 0.0),
        (Some(json!({ "outcome": "compiled" })), 0, 3, None, 0.0),
    ] {
        let row = row.map(|row| row.to_string());
        let program = row.as_deref().map(|_| "x = 1");
        let (ended, found) = judged_by(&test, program, row.as_deref(), code);
        assert_eq!(ended, Some(exit), "{row:?}");
        let own = found.as_ref().map(|f| f["reward"].as_f64());
        assert_eq!(own, reward.map(Some), "{row:?}");
        if let Some(found) = found {
            assert_eq!(found["ratio"].as_f64(), Some(ratio), "{row:?}");
        }
    }
}

#[test]
fn a_copy_of_the_reference_and_nothing_but_it_needs_no_measurement() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("tasks");
    let names = ["dgemm", "modules/softmax"];
    export(&folder, &names.map(shipped), &[], IMAGE).unwrap();
    for (task, reference, refused) in [
        (
            "dgemm",
            "dgemm/reference.c",
            "a.c,dgemm,,rejected,,1.5,,,,0.1",
        ),
        (
            "module_softmax",
            "modules/softmax/reference.py",
            "{\"outcome\": \"refused\"}",
        ),
    ] {
        let test = folder.join(task).join("tests/test.sh");
        let reference = std::fs::read_to_string(shipped(reference)).unwrap();
        for (program, reward) in [(reference.clone(), 1.0), (reference + "\n", 0.0)] {
            let (ended, found) = judged_by(&test, Some(&program), Some(refused), 1);
            assert_eq!(ended, Some(0), "{task}");
            assert_eq!(found.unwrap()["reward"].as_f64(), Some(reward), "{task}");
        }
    }
}

#[test]
fn nothing_is_overwritten() {
    let place = tempfile::tempdir().unwrap();
    task(place.path());
    let names = ["dgemm".to_owned()];
    let error = export(place.path(), &names, &[], IMAGE).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error:#}");
    let other = place.path().join("other");
    assert!(export(&other, &names, &[], "a b").is_err());
    assert!(!other.exists());
}
