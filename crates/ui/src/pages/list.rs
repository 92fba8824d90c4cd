//! The first page: all runs.

use flopsmith_report::text::percent;
use flopsmith_run::local;
use serde::Serialize;

use super::Site;
use super::frame::{Frame, counted, float, maybe, url};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::runs::{Brief, Run};

/// Runs on a page.
const ROWS: usize = 25;

#[derive(Serialize)]
struct Context {
    frame: Frame,
    folder: String,
    /// True if there is a page of a cluster.
    cluster: bool,
    rows: Vec<Row>,
    earlier: Option<String>,
    later: Option<String>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    url: String,
    job: String,
    state: &'static str,
    problem: String,
    step: String,
    outcomes: String,
    correct: String,
    best: String,
    started: String,
}

/// The runs of the folder, the newest first.
///
/// # Errors
/// The folder cannot be read, or the query has no meaning.
pub fn list(site: &Site, query: &Query) -> Result<String, Refusal> {
    let names = site.runs.names()?;
    let number = query.number::<usize>("page")?.unwrap_or(1).max(1);
    let last = names.len().div_ceil(ROWS).max(1);
    let number = number.min(last);
    let shown = names.iter().skip((number - 1) * ROWS).take(ROWS);
    // A run that was removed meanwhile is left out.
    let runs: Vec<_> = shown.filter_map(|name| site.runs.get(name).ok()).collect();
    let briefs = site.runs.briefs(&runs);
    let mut frame = Frame::first("Runs");
    if briefs.iter().any(Option::is_none) {
        frame = frame.again("The outcomes of some runs are being read; their numbers come soon.");
    }
    let page = |number: usize| format!("/?page={number}");
    let rows = runs.iter().zip(briefs);
    let context = Context {
        frame,
        folder: site.runs.folder().display().to_string(),
        cluster: site.cluster.is_some(),
        rows: rows.map(|(run, brief)| row(run, brief)).collect(),
        earlier: (number < last).then(|| page(number + 1)),
        later: (number > 1).then(|| page(number - 1)),
    };
    site.show("list.html", &context)
}

fn row(run: &Run, brief: Option<Brief>) -> Row {
    let facts = run.facts();
    let problem = match facts.problems.len() {
        0 => facts.problem.clone(),
        many => format!("{many} problems"),
    };
    let (step, outcomes, correct, best) = match brief {
        None => ("…".into(), "…".into(), "…".into(), "…".into()),
        Some(brief) => (
            brief
                .step
                .map_or_else(|| "–".into(), |step| step.to_string()),
            counted(brief.outcomes),
            maybe(brief.correct_rate, percent),
            match (brief.problems, brief.gflops, brief.ratio) {
                (2.., _, _) => format!("{} of {} solved", brief.solved, brief.problems),
                (_, Some(gflops), Some(ratio)) => {
                    format!("{} GFLOPS, {}×", float(gflops), float(ratio))
                }
                _ => "–".into(),
            },
        ),
    };
    Row {
        name: run.name.clone(),
        url: url(run),
        job: facts.job.clone(),
        state: run.state(&facts),
        problem,
        step,
        outcomes,
        correct,
        best,
        started: local::time(facts.started_unix_ms),
    }
}
