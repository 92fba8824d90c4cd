//! The runs of a folder as a list.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::Result;
use serde_json::{Value, json};

use crate::console::{Column, say};
use crate::digits::{four, percent};
use crate::folder::{Folder, read_facts};
use crate::local;
use crate::summary::{Facts, OfProblem, Summary, summarise};

/// The headings of [`Listed::cells`], and which of them are above numbers.
pub const COLUMNS: [Column<'static>; 10] = [
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

/// The meaning of each column, for the help of the command that prints the list.
pub const EXPLAINED: &str = "\
Columns of the list:
  run          its name, which is that of its folder
  job          `train`: a model learns from measured speeds; `search`: no model
  steps        its steps so far; in each a group of programs is evaluated
  time         the time of all its sessions, without the pauses between them
  correct      the share of correct programs, in the evaluation after training
               or in the whole search
  GFLOPS       the speed of its fastest program; with several problems, how many
               of them have a correct program
  cells        the filled cells of its archive: each set of techniques has one,
               for the fastest program with these techniques, and a cell is
               filled once such a program was measured twice
  started      when it began
  last change  when its record was written last
  state        running, finished, or what `--resume` can still do";

/// A run of the list.
pub struct Listed {
    name: String,
    summary: Summary,
    facts: Facts,
    /// Time of the last change of its facts, milliseconds since 1970.
    changed_unix_ms: u64,
    at_work: bool,
}

/// The runs among these folders, oldest first. Runs that cannot be read are named on stderr.
pub fn runs(folders: impl IntoIterator<Item = PathBuf>) -> Vec<Listed> {
    let mut all = Vec::new();
    for folder in folders {
        if !folder.join("config.toml").is_file() {
            continue;
        }
        let name = folder.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        match Listed::read(&name, &folder) {
            Ok(run) => all.push(run),
            Err(error) => say(&format!("warning: {name}: {error:#}")),
        }
    }
    all.sort_by(|a, b| {
        let key = |run: &Listed| (run.facts.started_unix_ms, run.name.clone());
        key(a).cmp(&key(b))
    });
    all
}

impl Listed {
    fn read(name: &str, folder: &Path) -> Result<Self> {
        let facts = read_facts(folder)?;
        Ok(Self {
            name: name.to_owned(),
            summary: summarise(name, folder, &facts)?,
            facts,
            changed_unix_ms: changed(folder),
            at_work: Folder::is_at_work(folder),
        })
    }

    /// The run as a JSON object.
    pub fn to_json(&self) -> Value {
        let (s, f) = (&self.summary, &self.facts);
        let mut object = json!({
            "run": self.name, "job": f.job, "problem": f.problem, "finished": f.finished, "running": self.at_work,
            "concluded": f.concluded, "steps": s.steps,
            "started_unix_ms": f.started_unix_ms, "changed_unix_ms": self.changed_unix_ms,
            "seconds": s.seconds, "best_gflops": s.best.as_ref().map(|b| b.gflops), "coverage": s.coverage,
            "coverage_unconfirmed": s.coverage_unconfirmed,
            "correct_rate_end": s.end.as_ref().map(|e| e.correct_rate),
            "search_correct_rate": s.search_correct_rate, "outcomes": s.outcomes,
        });
        if !s.problems.is_empty() {
            object["problems"] = s.problems.iter().map(of_problem).collect();
        }
        object
    }

    /// The run as cells below [`COLUMNS`].
    pub fn cells(&self) -> Vec<String> {
        let (s, f) = (&self.summary, &self.facts);
        let end = s.end.as_ref().map(|e| e.correct_rate);
        let correct = end.or(s.search_correct_rate);
        vec![
            self.name.clone(),
            f.job.clone(),
            s.steps.to_string(),
            format!("{:.0} s", s.seconds),
            correct.map_or("–".into(), percent),
            found(s),
            s.coverage.to_string(),
            local::time(f.started_unix_ms),
            local::time(self.changed_unix_ms),
            state(f, self.at_work).to_owned(),
        ]
    }
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
fn of_problem(of: &OfProblem) -> Value {
    json!({
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
mod tests {
    use super::*;

    #[test]
    fn each_column_is_explained() {
        for (column, _) in COLUMNS {
            let line = format!("\n  {column} ");
            assert_eq!(EXPLAINED.matches(&line).count(), 1, "{column}");
        }
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
