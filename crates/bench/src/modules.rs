//! Modules of PyTorch in `flopsmith bench`: candidates' files in, printed results out.

mod candidates;
mod export;
mod import;
mod levels;
mod run;
mod solution;

use std::path::{Path, PathBuf};

use anyhow::Result;
use flopsmith_module::{Failure, Outcome, Problem, Verdict};
use flopsmith_run::console::{data, table, usage};
use flopsmith_run::digits::four;
use serde_json::json;

pub use export::Export;
pub use import::Import;
pub use run::{Order, run};

/// Keeps only the named workloads, if any are named.
///
/// # Errors
/// A usage error that lists the problem's workloads.
pub fn select(problem: &mut Problem, names: &[String]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let known: Vec<String> = problem.workloads.iter().map(|w| w.name.clone()).collect();
    if let Some(unknown) = names.iter().find(|n| !known.contains(n)) {
        return Err(usage(format!(
            "{} has no workload `{unknown}`; it has {}",
            problem.id,
            known.join(", ")
        )));
    }
    problem.workloads.retain(|w| names.contains(&w.name));
    Ok(())
}

/// One result as a line of JSON; `busy` is the disturbance of the machine before the evaluation, if there was one.
fn line(problem: &str, file: &Path, outcome: &Outcome, busy: Option<&str>) -> Result<String> {
    let mut object = serde_json::to_value(outcome)?;
    object["file"] = json!(file.display().to_string());
    object["problem"] = json!(problem);
    if let Some(why) = busy {
        object["busy"] = json!(why);
    }
    Ok(object.to_string())
}

/// Prints a table, a row for each candidate, workload and baseline, and the reasons of refusals.
fn print(results: &[(PathBuf, Outcome)]) {
    let columns = [
        ("program", false),
        ("workload", false),
        ("speedup", true),
        ("95 %", false),
        ("baseline", false),
        ("baseline ms", true),
        ("ms", true),
        ("stop", false),
    ];
    let mut rows = Vec::new();
    for (file, outcome) in results {
        let Verdict::Measured {
            speedup,
            low,
            high,
            workloads,
        } = &outcome.verdict
        else {
            continue;
        };
        let name = file.display().to_string();
        let between = |low: f64, high: f64| format!("{}–{}", four(low), four(high));
        rows.push(vec![
            name,
            "all".into(),
            four(*speedup),
            between(*low, *high),
            "fastest".into(),
            String::new(),
            String::new(),
            String::new(),
        ]);
        for timed in workloads {
            for speed in &timed.speeds {
                rows.push(vec![
                    String::new(),
                    timed.workload.clone(),
                    four(speed.speedup),
                    between(speed.low, speed.high),
                    speed.baseline.into(),
                    four(1e3 * speed.baseline_seconds),
                    four(1e3 * speed.candidate_seconds),
                    speed.stop.to_string(),
                ]);
            }
        }
    }
    if !rows.is_empty() {
        table(&columns, rows).iter().for_each(|line| data(line));
    }
    for (file, outcome) in results {
        if let Verdict::Refused(failure) = &outcome.verdict {
            data(&refusal(file, failure));
        }
    }
}

fn refusal(file: &Path, failure: &Failure) -> String {
    let rule = failure.rule.as_ref().map(|rule| format!(" ({rule})"));
    format!(
        "{}: {}{}: {}",
        file.display(),
        failure.fault,
        rule.unwrap_or_default(),
        failure.detail
    )
}
