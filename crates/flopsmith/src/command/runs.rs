//! `flopsmith runs`: lists the runs of a folder.

mod skipped;
mod watch;

use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use anyhow::Result;
use flopsmith_run::console::{data, say, table, usage};
use flopsmith_run::digits::{four, percent};
use flopsmith_run::folder::Folder;
use flopsmith_run::summary::{Facts, OfProblem, Summary};
use flopsmith_run::{folder, local, shell, summary};

use crate::args::{Format, Place, Runs, RunsAction};

/// Lists the runs of a folder, oldest first.
pub fn run(args: &Runs) -> Result<ExitCode> {
    match &args.action {
        Some(RunsAction::Watch { run, place }) => {
            return watch::watch(place, run.as_deref().unwrap_or_default());
        }
        Some(RunsAction::Skipped { run, format, place }) => {
            return skipped::show(place, run.as_deref().unwrap_or_default(), *format);
        }
        Some(RunsAction::Export { order, place }) => {
            flopsmith_export::run(order, place.folder())?;
            return Ok(ExitCode::SUCCESS);
        }
        None => {}
    }
    let mut rows = Vec::new();
    for entry in entries(&args.place)? {
        let path = entry.path();
        if !path.join("config.toml").is_file() {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        match folder::read_facts(&path)
            .and_then(|facts| Ok((summary::summarise(&name, &path, &facts)?, facts)))
        {
            Ok((summary, facts)) => {
                let at_work = Folder::is_at_work(&path);
                rows.push((
                    facts.started_unix_ms,
                    name,
                    summary,
                    facts,
                    (changed(&path), at_work),
                ));
            }
            Err(error) => say(&format!("warning: {name}: {error:#}")),
        }
    }
    rows.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    if args.format == Format::Json {
        let list: Vec<_> = rows
            .iter()
            .map(|(_, name, s, f, (changed, at_work))| {
                let mut object = serde_json::json!({
                    "run": name, "job": f.job, "problem": f.problem, "finished": f.finished, "running": at_work,
                    "concluded": f.concluded, "steps": s.steps,
                    "started_unix_ms": f.started_unix_ms, "changed_unix_ms": changed,
                    "seconds": s.seconds, "best_gflops": s.best.as_ref().map(|b| b.gflops), "coverage": s.coverage,
                    "coverage_unconfirmed": s.coverage_unconfirmed,
                    "correct_rate_end": s.end.as_ref().map(|e| e.correct_rate),
                    "search_correct_rate": s.search_correct_rate, "outcomes": s.outcomes,
                });
                if !s.problems.is_empty() {
                    object["problems"] = s.problems.iter().map(of_problem).collect();
                }
                object
            })
            .collect();
        data(&serde_json::Value::Array(list).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        say(&format!(
            "there are no runs in {}; `{} train examples/dgemm.toml` starts one",
            args.place.folder().display(),
            shell::program()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let columns = [
        ("run", false),
        ("job", false),
        ("steps", true),
        ("time", true),
        ("correct", true),
        ("GFLOPS", true),
        ("cells", true),
        ("started", false),
        ("last change", false),
        ("state", false),
    ];
    let cells = rows.into_iter().map(|(_, name, s, f, (changed, at_work))| {
        let correct = s
            .end
            .as_ref()
            .map(|e| e.correct_rate)
            .or(s.search_correct_rate);
        vec![
            name,
            f.job.clone(),
            s.steps.to_string(),
            format!("{:.0} s", s.seconds),
            correct.map_or("–".into(), percent),
            found(&s),
            s.coverage.to_string(),
            local::time(f.started_unix_ms),
            local::time(changed),
            state(&f, at_work).to_owned(),
        ]
    });
    for line in table(&columns, cells) {
        data(&line);
    }
    Ok(ExitCode::SUCCESS)
}

/// The speed of the best program, or of many problems how many have one.
fn found(summary: &Summary) -> String {
    match (summary.problems.len(), &summary.best) {
        (0, None) => "–".into(),
        (0, Some(best)) => four(best.gflops),
        (all, _) => format!("{} of {all} problems", summary.solved()),
    }
}

/// A problem of a run over many.
fn of_problem(of: &OfProblem) -> serde_json::Value {
    serde_json::json!({
        "problem": of.problem, "judged_programs": of.judged_programs, "correct_programs": of.correct_programs,
        "failures": of.failures, "best_gflops": of.best.as_ref().map(|b| b.gflops),
        "best_ratio": of.best.as_ref().map(|b| b.ratio_to_reference), "coverage": of.coverage,
        "correct_rate_end": of.end.as_ref().map(|e| e.correct_rate),
    })
}

/// Time of the last change of a run's facts, milliseconds since 1970; they are rewritten during the run and at its end.
fn changed(folder: &Path) -> u64 {
    let modified = |file: &str| folder.join(file).metadata().and_then(|m| m.modified());
    let at = modified("run.json").or_else(|_| modified("config.toml"));
    let since = at.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// The entries of the folder of runs. The default folder may be missing; a folder that the user named must exist.
fn entries(place: &Place) -> Result<Vec<DirEntry>> {
    let folder = place.folder();
    match std::fs::read_dir(folder) {
        Ok(entries) => Ok(entries.filter_map(Result::ok).collect()),
        Err(e) if e.kind() == ErrorKind::NotFound && place.runs.is_none() => Ok(Vec::new()),
        Err(e) => Err(usage(format!(
            "there is no folder of runs at {}: {e}; name another with --runs (or FLOPSMITH_RUNS)",
            folder.display()
        ))),
    }
}

/// The state of a run for people. `--resume` accepts all runs that are not concluded.
fn state(facts: &Facts, at_work: bool) -> &'static str {
    match (facts.finished, facts.concluded) {
        (_, true) => "finished",
        _ if at_work => "running",
        (true, false) => "its last measurements are missing: can be resumed",
        (false, false) => "can be resumed",
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_named_has_to_be_there() {
        let place = tempfile::tempdir().unwrap();
        let named = |path: std::path::PathBuf| entries(&Place { runs: Some(path) });
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

    #[test]
    fn a_run_is_finished_once_there_is_nothing_left_to_resume() {
        let at = |finished, concluded, at_work| {
            let facts = Facts {
                finished,
                concluded,
                ..Facts::default()
            };
            state(&facts, at_work)
        };
        let said = |finished, concluded| at(finished, concluded, false);
        assert_eq!(
            (at(false, false, true), at(true, true, true)),
            ("running", "finished")
        );
        assert_eq!(said(true, true), "finished");
        assert_eq!(said(false, false), "can be resumed");
        let between = said(true, false);
        assert!(between.contains("last measurements") && between.ends_with("can be resumed"));
    }
}
