//! Where things are: problems, the harness, the starter model.

use std::path::{Path, PathBuf};

use anyhow::Result;
use flopsmith_problem::{Problem, flags};

use crate::exit::usage;

/// The folder of the repository or installation this binary belongs to, when it can be told.
fn home() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    exe.ancestors()
        .skip(1)
        .find(|p| p.join("problems").is_dir())
        .map(Path::to_owned)
}

/// Folders that are looked through for problems, nearest first.
pub fn problem_roots() -> Vec<PathBuf> {
    let mut roots = Vec::new();
    if let Some(named) = std::env::var_os("FLOPSMITH_PROBLEMS") {
        roots.push(PathBuf::from(named));
    }
    roots.push("problems".into());
    if let Some(home) = home() {
        roots.push(home.join("problems"));
    }
    roots
}

/// A problem by name or by folder.
pub fn problem(name: &str) -> Result<Problem> {
    Problem::find(name, &problem_roots()).map_err(|e| usage(e.to_string()))
}

/// A problem whose programs are built with other flags than its own; with its own where none are given.
pub fn problem_under(name: &str, flags: &str) -> Result<Problem> {
    let problem = problem(name)?;
    if flags.trim().is_empty() {
        return Ok(problem);
    }
    let flags = flags::parse(flags).map_err(|e| usage(e.to_string()))?;
    Ok(problem.with_flags(flags))
}

/// The harness beside this binary.
pub fn harness() -> Result<PathBuf> {
    let name = "flopsmith-harness";
    if let Some(named) = std::env::var_os("FLOPSMITH_HARNESS") {
        return Ok(named.into());
    }
    let exe = std::env::current_exe()?;
    // Tests run from target/<profile>/deps.
    for folder in exe.ancestors().skip(1).take(2) {
        let candidate = folder.join(name);
        if candidate.is_file() {
            return Ok(candidate);
        }
    }
    anyhow::bail!(
        "{name} is not beside {}: build it with `make build`",
        exe.display()
    )
}

/// A model folder named in a configuration: as it stands, or in the repository.
pub fn model(folder: &Path) -> PathBuf {
    if folder.is_dir() || folder.is_absolute() {
        return folder.to_owned();
    }
    match home().map(|h| h.join(folder)) {
        Some(inside) if inside.is_dir() => inside,
        _ => folder.to_owned(),
    }
}
