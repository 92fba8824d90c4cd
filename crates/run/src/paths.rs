//! Where things are: problems, the harness, the starter model.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use flopsmith_problem::{Problem, flags};

use crate::console::usage;

/// The folder of the repository or installation this binary belongs to, when it can be told.
fn home() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    exe.ancestors()
        .skip(1)
        .find(|p| p.join("problems").is_dir())
        .map(Path::to_owned)
}

/// Folders that are looked through for problems, nearest first. One that was named has to be there.
pub fn problem_roots() -> Result<Vec<PathBuf>> {
    let mut roots: Vec<PathBuf> = named_root(std::env::var_os("FLOPSMITH_PROBLEMS"))?
        .into_iter()
        .collect();
    roots.push("problems".into());
    if let Some(home) = home() {
        roots.push(home.join("problems"));
    }
    // From the repository's own folder two of them are the same.
    let mut seen = BTreeSet::new();
    roots.retain(|r| seen.insert(r.canonicalize().unwrap_or_else(|_| r.clone())));
    Ok(roots)
}

/// The folder that the environment names, if it names any.
fn named_root(value: Option<OsString>) -> Result<Option<PathBuf>> {
    let Some(root) = value.filter(|v| !v.is_empty()).map(PathBuf::from) else {
        return Ok(None);
    };
    if root.is_dir() {
        return Ok(Some(root));
    }
    Err(usage(format!(
        "FLOPSMITH_PROBLEMS names {}, and there is no such folder: correct it, or leave it out",
        root.display()
    )))
}

/// A problem by name or by folder.
pub fn problem(name: &str) -> Result<Problem> {
    Problem::find(name, &problem_roots()?).map_err(|e| {
        let because = std::error::Error::source(&e).map(|why| format!(": {why}"));
        usage(format!("{e}{}", because.unwrap_or_default()))
    })
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
    let found = find_harness()?;
    // A jail shows it where it lies, with what is permitted there.
    if flopsmith_sandbox::forbids_programs(&found) {
        anyhow::bail!(
            "{} lies on a file system that is mounted with `noexec`, so it cannot be run in a jail: install Flopsmith elsewhere, or name a copy in FLOPSMITH_HARNESS",
            found.display()
        );
    }
    Ok(found)
}

fn find_harness() -> Result<PathBuf> {
    let name = "flopsmith-harness";
    if let Some(named) = std::env::var_os("FLOPSMITH_HARNESS") {
        let named = PathBuf::from(named);
        if !named.is_file() {
            return Err(usage(format!(
                "FLOPSMITH_HARNESS names {}, and there is no such file: correct it, or leave it out",
                named.display()
            )));
        }
        return Ok(named);
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

/// Looks at a store that is only to be looked at: opening it would make a folder of whatever name was mistyped.
///
/// # Errors
/// Where it is a folder of this machine that is not there.
pub fn must_be_there(store: &str) -> Result<()> {
    let folder = store.strip_prefix("file://").unwrap_or(store);
    if folder.contains("://") || Path::new(folder).is_dir() {
        return Ok(());
    }
    Err(usage(format!(
        "there is no folder {folder}: name the store of the cluster (--store), or make the folder if it is to be a new one"
    )))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_problems_that_was_named_has_to_be_there() {
        let place = tempfile::tempdir().unwrap();
        let named = |path: &Path| named_root(Some(path.into()));
        assert_eq!(named(place.path()).unwrap().unwrap(), place.path());
        assert_eq!(named_root(None).unwrap(), None);
        assert_eq!(named(Path::new("")).unwrap(), None);
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        for path in [place.path().join("nowhere"), file] {
            let error = named(&path).unwrap_err();
            assert!(error.is::<crate::console::Usage>(), "{error:#}");
            let said = path.display().to_string();
            assert!(error.to_string().contains(&said), "{error:#}");
        }
    }
}
