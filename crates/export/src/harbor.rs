//! Problems as tasks of Harbor, for `flopsmith problem export`.
//!
//! A task is a folder: `task.toml`, `instruction.md`, the agent's container in `environment`, the oracle in
//! `solution`, and the verifier in `tests`. The verifier runs in a container of its own, to which Harbor copies the program
//! and nothing else of the agent's: an agent that has become root cannot change the measurement.

mod kit;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Result;
use flopsmith_problem::{Problem, prompt};
use flopsmith_run::console::{data, usage};
use flopsmith_run::output::unwritable;
use flopsmith_run::paths;
use flopsmith_run::ticker::Ticker;
use serde_json::json;

use kit::Kit;

/// Writes the oracle's program.
const SOLVE: &str = include_str!("harbor/solve.sh");

/// Writes problems as tasks of Harbor into `folder`: those of these names and suites, or all kernels and modules if none is
/// named. The name of a folder of modules stands for all of them. Verifiers are built from the image `image`, which has the
/// command `flopsmith`.
///
/// # Errors
/// Wrong usage: no name of an image, an unknown problem or suite, two problems whose tasks have one name, or a task that
/// exists or cannot be written.
pub fn export(folder: &Path, names: &[String], suites: &[String], image: &str) -> Result<()> {
    if image.is_empty() || image.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(usage(format!(
            "`{}` is no name of an image; use one such as flopsmith-worker",
            image.escape_default()
        )));
    }
    let chosen = chosen(names, suites)?;
    for (_, kit) in &chosen {
        let task = folder.join(&kit.name);
        if task.exists() {
            return Err(usage(format!(
                "{} exists already; remove it, or name a new folder",
                task.display()
            )));
        }
    }
    let total = chosen.len() as u64;
    let mut ticker = Ticker::on_terminals();
    for (number, (problem, kit)) in (1..).zip(&chosen) {
        ticker.tick(number, total, || {
            format!("task {number} of {total}: {}", kit.name)
        });
        write(&folder.join(&kit.name), problem, kit, image)?;
    }
    ticker.clear();
    let count = |word: &str| chosen.iter().filter(|(_, kit)| kit.keyword == word).count();
    data(&format!(
        "tasks written to {}: {total} (kernels: {}, modules: {}); run one with\n  harbor run -p {} -a oracle",
        folder.display(),
        count("kernels"),
        count("modules"),
        chosen.first().map_or_else(String::new, |(_, first)| {
            folder.join(&first.name).display().to_string()
        }),
    ));
    Ok(())
}

/// The problems of these names and suites, or all, each once and with the parts of its task.
fn chosen(names: &[String], suites: &[String]) -> Result<Vec<(Problem, Kit)>> {
    let mut problems = Vec::new();
    for suite in suites {
        problems.extend(paths::suite(suite)?);
    }
    let mut names = names.to_vec();
    if names.is_empty() && suites.is_empty() {
        problems = paths::suite(paths::EVERY)?;
        names.push(paths::MODULES.to_owned());
    }
    for name in names {
        let folders = paths::modules(&name);
        if folders.is_empty() {
            problems.push(paths::any(&name)?);
        }
        for folder in folders {
            problems.push(paths::any(&folder.display().to_string())?);
        }
    }
    let mut chosen: Vec<(Problem, Kit)> = Vec::new();
    for problem in problems {
        let kit = Kit::of(&problem)?;
        if file_of(&problem) == kit.reference {
            return Err(usage(format!(
                "{} has the name of the file that the agent is given as the reference; rename the folder",
                problem.dir.display()
            )));
        }
        match chosen.iter().find(|(_, other)| other.name == kit.name) {
            None => chosen.push((problem, kit)),
            // The same problem by another name, or of a suite.
            Some((other, _)) if other.digest == problem.digest => {}
            Some((other, _)) => {
                return Err(usage(format!(
                    "{} and {} would both be the task {}; export them into two folders",
                    other.dir.display(),
                    problem.dir.display(),
                    kit.name
                )));
            }
        }
    }
    Ok(chosen)
}

/// The name of the file into which the agent writes its program.
fn file_of(problem: &Problem) -> String {
    format!("{}.{}", problem.id, problem.language.ending())
}

fn write(task: &Path, problem: &Problem, kit: &Kit, image: &str) -> Result<()> {
    let name = problem.id.as_str();
    let file = file_of(problem);
    let fill = |text: &str| {
        text.replace("FILE", &file)
            .replace("NAME", name)
            .replace("IMAGE", image)
    };
    let (solution_of, reference) = (&kit.oracle, format!("environment/{}", kit.reference));
    let solution = format!("solution/{file}");
    let texts = [
        ("task.toml", configuration(problem, kit, &file)),
        ("instruction.md", instruction(problem, kit, &file)),
        ("environment/Dockerfile", fill(kit.environment)),
        (reference.as_str(), problem.reference_source.clone()),
        ("solution/solve.sh", fill(SOLVE)),
        (solution.as_str(), solution_of.clone()),
        ("tests/Dockerfile", fill(kit.verifier)),
        ("tests/test.sh", fill(kit.test)),
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
    let definition = task.join("tests/problems").join(&kit.definition);
    let entries = std::fs::read_dir(&problem.dir).map_err(|e| unreadable(&problem.dir, &e))?;
    for entry in entries {
        let entry = entry.map_err(|e| unreadable(&problem.dir, &e))?;
        let source = entry.path();
        if source.is_file() {
            let content = std::fs::read(&source).map_err(|e| unreadable(&source, &e))?;
            place(&definition.join(entry.file_name()), &content)?;
        }
    }
    // The text that the agent has, without a byte-order mark: a script compares it with the program.
    place(
        &definition.join(kit.reference),
        problem.reference_source.as_bytes(),
    )
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
fn instruction(problem: &Problem, kit: &Kit, file: &str) -> String {
    // `bench`, which judges the program, permits all of them with any number of threads.
    let prompt = prompt::full(problem, problem.techniques, None);
    let lines: Vec<&str> = prompt.trim_end().lines().collect();
    // The last line says how to answer.
    let task = lines.split_last().map_or(&[][..], |(_, task)| task);
    format!(
        "{}\n\nWrite the whole program, at most {} bytes, to `/app/{file}`. Its score is its speed relative to {}: 1 is as fast, 2 is twice as fast, and a program that is wrong or refused has 0.\n",
        task.join("\n").trim_end(),
        problem.max_source_bytes,
        kit.one
    )
}

fn configuration(problem: &Problem, kit: &Kit, file: &str) -> String {
    // Strings of JSON are strings of TOML.
    let text = |text: &str| json!(text).to_string();
    format!(
        "\
schema_version = \"1.1\"
artifacts = [{artifact}]

[task]
name = {name}
description = {title}
keywords = [\"performance\", {keyword}]

[metadata]
category = \"performance\"
flopsmith = {version}
problem_digest = {digest}

[agent]
timeout_sec = 3600.0

[verifier]
environment_mode = \"separate\"
timeout_sec = {verifier}.0

[verifier.environment]
build_timeout_sec = {build}.0
cpus = 2
memory_mb = {memory}
storage_mb = {storage}

[environment]
build_timeout_sec = {build}.0
cpus = 2
memory_mb = {memory}
storage_mb = {storage}
",
        keyword = text(kit.keyword),
        verifier = kit.verifier_seconds,
        build = kit.build_seconds,
        memory = kit.memory_mb,
        storage = kit.storage_mb,
        artifact = text(&format!("/app/{file}")),
        name = text(&format!("flopsmith/{}", kit.name)),
        title = text(&problem.title),
        version = text(env!("CARGO_PKG_VERSION")),
        digest = text(problem.digest.as_str()),
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
