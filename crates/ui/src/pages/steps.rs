//! The steps of a run.

use flopsmith_report::text::{number, percent};
use flopsmith_run::local;
use serde::Serialize;

use super::Site;
use super::frame::{Frame, float, maybe, purpose, url};
use crate::query::Query;
use crate::refusal::Refusal;

/// Steps on a page.
const ROWS: usize = 50;

#[derive(Serialize)]
struct Context {
    frame: Frame,
    rows: Vec<Row>,
    earlier: Option<String>,
    later: Option<String>,
    of_many: bool,
}

#[derive(Serialize)]
struct Row {
    step: u32,
    url: String,
    purpose: &'static str,
    stage: u16,
    outcomes: u32,
    correct: String,
    mean: String,
    best: String,
    ratio: String,
    ended: String,
}

/// The steps of a run, the newest first.
///
/// # Errors
/// There is no such run, or the query has no meaning.
pub fn steps(site: &Site, name: &str, query: &Query) -> Result<String, Refusal> {
    let run = site.runs.get(name)?;
    let snapshot = site.runs.outcomes(&run, site.runs.page_ends());
    let totals = &snapshot.totals;
    let last = totals.steps.len().div_ceil(ROWS).max(1);
    let number = query.number::<usize>("page")?.unwrap_or(1).clamp(1, last);
    let base = url(&run);
    let newest = totals.steps.iter().rev();
    let rows = newest.skip((number - 1) * ROWS).take(ROWS);
    let above = |best: f32| match best > 0.0 {
        true => float(best),
        false => "–".to_owned(),
    };
    let rows = rows.map(|(number, step)| Row {
        step: *number,
        url: format!("{base}/steps/{number}"),
        purpose: purpose(step.purpose),
        stage: step.stage,
        outcomes: step.outcomes,
        correct: maybe(step.correct_rate(), percent),
        mean: maybe(step.mean_gflops(), self::number),
        best: above(step.best_gflops),
        ratio: above(step.best_ratio),
        ended: local::time(u64::from(step.seconds) * 1000),
    });
    let page = |number: usize| format!("{base}/steps?page={number}");
    let context = Context {
        frame: Frame::of(&run, "Steps", &snapshot).live_list(&run, query),
        rows: rows.collect(),
        earlier: (number < last).then(|| page(number + 1)),
        later: (number > 1).then(|| page(number - 1)),
        of_many: totals.problems.len() > 1,
    };
    site.show("steps.html", &context)
}
