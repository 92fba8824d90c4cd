//! Problems as tasks of Harbor, for `flopsmith problem export`.
//!
//! A task is a folder: `task.toml`, `instruction.md`, the agent's container in `environment`, the oracle in
//! `solution`, and the verifier in `tests`. The verifier runs in a container of its own, to which Harbor copies the program
//! and nothing else of the agent's: an agent that has become root cannot change the measurement.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Result;
use flopsmith_problem::{Problem, prompt};
use flopsmith_run::console::{data, usage};
use flopsmith_run::output::unwritable;
use flopsmith_run::paths;
use serde_json::json;

/// Scores the program.
const TEST: &str = include_str!("harbor/test.sh");
/// Writes the oracle's program.
const SOLVE: &str = include_str!("harbor/solve.sh");
/// The agent's container.
const ENVIRONMENT: &str = include_str!("harbor/environment.Dockerfile");
/// The verifier's container.
const VERIFIER: &str = include_str!("harbor/tests.Dockerfile");

/// Writes problems as tasks of Harbor into `folder`: those of these names, or all if there is none. Verifiers are built from
/// the image `image`, which has the command `flopsmith`.
///
/// # Errors
/// Wrong usage: no name of an image, an unknown problem, or a task that exists or cannot be written.
pub fn export(folder: &Path, names: &[String], image: &str) -> Result<()> {
    if image.is_empty() || image.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(usage(format!(
            "`{}` is no name of an image; use one such as flopsmith-worker",
            image.escape_default()
        )));
    }
    let problems = chosen(names)?;
    for problem in &problems {
        let task = folder.join(problem.id.as_str());
        if task.exists() {
            return Err(usage(format!(
                "{} exists already; remove it, or name a new folder",
                task.display()
            )));
        }
    }
    for problem in &problems {
        write(&folder.join(problem.id.as_str()), problem, image)?;
    }
    data(&format!(
        "{} tasks are in {}; run one with\n  harbor run -p {} -a oracle",
        problems.len(),
        folder.display(),
        problems.first().map_or_else(String::new, |first| {
            folder.join(first.id.as_str()).display().to_string()
        }),
    ));
    Ok(())
}

/// The named problems, or all.
fn chosen(names: &[String]) -> Result<Vec<Problem>> {
    if names.is_empty() {
        return paths::suite(paths::EVERY);
    }
    if let Some(name) = names.iter().find(|name| !paths::modules(name).is_empty()) {
        return Err(usage(format!(
            "`{name}` names modules of PyTorch, which are not exported: a verifier is built from the image of a worker, and that has no PyTorch; evaluate programs with `flopsmith bench FILE --problem {name}`"
        )));
    }
    names.iter().map(|name| paths::problem(name)).collect()
}

fn write(task: &Path, problem: &Problem, image: &str) -> Result<()> {
    let name = problem.id.as_str();
    let file = format!("{name}.{}", problem.language.ending());
    let fill = |text: &str| {
        text.replace("FILE", &file)
            .replace("NAME", name)
            .replace("IMAGE", image)
    };
    // Reference and baseline are in C.
    let oracle = problem.baseline_source.as_ref();
    let oracle = oracle.unwrap_or(&problem.reference_source);
    let solution = format!("solution/{file}");
    let texts = [
        ("task.toml", configuration(problem, &file)),
        ("instruction.md", instruction(problem, &file)),
        ("environment/Dockerfile", fill(ENVIRONMENT)),
        ("environment/reference.c", problem.reference_source.clone()),
        ("solution/solve.sh", fill(SOLVE)),
        (solution.as_str(), oracle.clone()),
        ("tests/Dockerfile", fill(VERIFIER)),
        ("tests/test.sh", fill(TEST)),
    ];
    for (path, text) in texts {
        let path = task.join(path);
        place(&path, text.as_bytes())?;
        if path.extension().is_some_and(|end| end == "sh") {
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&path, mode).map_err(|e| unwritable(&path, e))?;
        }
    }
    // The verifier judges by the definition that was exported, whatever its image has.
    let definition = task.join("tests/problems").join(name);
    let entries = std::fs::read_dir(&problem.dir).map_err(|e| unreadable(&problem.dir, &e))?;
    for entry in entries {
        let entry = entry.map_err(|e| unreadable(&problem.dir, &e))?;
        let source = entry.path();
        if source.is_file() {
            let content = std::fs::read(&source).map_err(|e| unreadable(&source, &e))?;
            place(&definition.join(entry.file_name()), &content)?;
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: &std::io::Error) -> anyhow::Error {
    usage(format!("cannot read {}: {error}", path.display()))
}

/// Writes a file, and makes its folder if that is missing.
fn place(path: &Path, content: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| unwritable(folder, e))?;
    }
    std::fs::write(path, content).map_err(|e| unwritable(path, e))
}

/// The task for the agent: the prompt for a model, with a file in place of an answer.
fn instruction(problem: &Problem, file: &str) -> String {
    // `bench`, which judges the program, permits all of them with any number of threads.
    let prompt = prompt::full(problem, problem.techniques, None);
    let lines: Vec<&str> = prompt.trim_end().lines().collect();
    // The last line says how to answer.
    let task = lines.split_last().map_or(&[][..], |(_, task)| task);
    format!(
        "{}\n\nWrite the whole program, at most {} bytes, to `/app/{file}`. Its score is its speed relative to the plain reference in `/app/reference.c`, which is timed with one thread beside it: 1 is as fast, 2 is twice as fast, and a program that is wrong or refused has 0.\n",
        task.join("\n").trim_end(),
        problem.max_source_bytes
    )
}

fn configuration(problem: &Problem, file: &str) -> String {
    // Strings of JSON are strings of TOML.
    let text = |text: &str| json!(text).to_string();
    format!(
        "\
schema_version = \"1.1\"
artifacts = [{artifact}]

[task]
name = {name}
description = {title}
keywords = [\"performance\", \"kernels\"]

[metadata]
category = \"performance\"
flopsmith = {version}
problem_digest = {digest}

[agent]
timeout_sec = 3600.0

[verifier]
environment_mode = \"separate\"
timeout_sec = 1800.0

[verifier.environment]
build_timeout_sec = 1200.0
cpus = 2
memory_mb = 4096
storage_mb = 10240

[environment]
build_timeout_sec = 1200.0
cpus = 2
memory_mb = 4096
storage_mb = 10240
",
        artifact = text(&format!("/app/{file}")),
        name = text(&format!("flopsmith/{}", problem.id)),
        title = text(&problem.title),
        version = text(env!("CARGO_PKG_VERSION")),
        digest = text(problem.digest.as_str()),
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::process::Command;

    use super::*;

    fn task(place: &Path) -> std::path::PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
        let task = place.join("dgemm");
        write(&task, &Problem::load(&root).unwrap(), "flopsmith-worker").unwrap();
        task
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
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
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
        let bin = place.path().join("bin");
        let program = place.path().join("dgemm.c");
        if row.is_some() {
            std::fs::write(&program, "int x;").unwrap();
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
            .arg(task.join("tests/test.sh"))
            .env("PATH", path)
            .env("FLOPSMITH_TASK_PROGRAM", program)
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
    fn a_module_is_refused_with_the_reason() {
        let place = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        for name in ["modules/softmax", "modules"] {
            let name = root.join(name).display().to_string();
            let names = [root.join("dgemm").display().to_string(), name];
            let folder = place.path().join("tasks");
            let error = export(&folder, &names, "flopsmith-worker").unwrap_err();
            assert!(error.to_string().contains("no PyTorch"), "{error:#}");
            assert!(!folder.exists());
        }
    }

    #[test]
    fn nothing_is_overwritten() {
        let place = tempfile::tempdir().unwrap();
        task(place.path());
        let names = ["dgemm".to_owned()];
        let error = export(place.path(), &names, "flopsmith-worker").unwrap_err();
        assert!(error.to_string().contains("exists already"), "{error:#}");
        let other = place.path().join("other");
        assert!(export(&other, &names, "a b").is_err());
        assert!(!other.exists());
    }
}
