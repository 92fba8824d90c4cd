//! `flopsmith runs`: lists the runs of a folder.

mod skipped;
mod watch;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use flopsmith_run::console::{data, say, table, usage};
use flopsmith_run::listing::{self, Listed};
use flopsmith_run::shell;

use crate::args::{Format, Place, Runs, RunsAction};

/// Executes a subcommand, or lists runs without one.
pub fn run(args: &Runs) -> Result<ExitCode> {
    match &args.action {
        Some(RunsAction::List { format, place }) => list(*format, place),
        None => list(args.format, &args.place),
        Some(RunsAction::Watch { run, place }) => {
            watch::watch(place, run.as_deref().unwrap_or_default())
        }
        Some(RunsAction::Skipped { run, format, place }) => {
            skipped::show(place, run.as_deref().unwrap_or_default(), *format)
        }
        Some(RunsAction::Export { order, place }) => {
            flopsmith_export::run(order, place.folder())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Lists the runs of a folder, oldest first.
fn list(format: Format, place: &Place) -> Result<ExitCode> {
    let runs = listing::runs(folders(place)?);
    if format == Format::Json {
        let list = runs.iter().map(Listed::to_json).collect();
        data(&serde_json::Value::Array(list).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    if runs.is_empty() {
        say(&format!(
            "there are no runs in {}: {}; to list those of another folder, name it with --runs (or FLOPSMITH_RUNS)",
            place.folder().display(),
            starts()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    for line in table(&listing::COLUMNS, runs.iter().map(Listed::cells)) {
        data(&line);
    }
    Ok(ExitCode::SUCCESS)
}

/// The commands that start runs.
fn starts() -> String {
    let program = shell::program();
    format!(
        "`{program} search --problem dgemm` starts one without a model, and `{program} train examples/dgemm.toml` one that trains a model"
    )
}

/// The paths in the folder of runs. The default folder may be missing; a folder that the user named must exist.
fn folders(place: &Place) -> Result<Vec<PathBuf>> {
    let folder = place.folder();
    match std::fs::read_dir(folder) {
        Ok(entries) => {
            let entries = entries.filter_map(Result::ok);
            Ok(entries.map(|entry| entry.path()).collect())
        }
        Err(e) if e.kind() == ErrorKind::NotFound && place.runs.is_none() => Ok(Vec::new()),
        Err(e) => Err(usage(format!(
            "there is no folder of runs at {}: {e}; name another with --runs (or FLOPSMITH_RUNS), or start a run: {}",
            folder.display(),
            starts()
        ))),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_named_has_to_be_there() {
        let place = tempfile::tempdir().unwrap();
        let named = |path: PathBuf| folders(&Place { runs: Some(path) });
        assert!(named(place.path().to_owned()).unwrap().is_empty());
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        for path in [place.path().join("nowhere"), file] {
            let said = path.display().to_string();
            let error = named(path).unwrap_err();
            assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
            assert!(error.to_string().contains(&said), "{error:#}");
        }
        assert_eq!(named(place.path().to_owned()).unwrap().len(), 1);
    }
}
