//! The files that a command writes once its results are printed: a report, tables in Markdown, and a saved result.

use std::sync::Arc;

use anyhow::Result;
use flopsmith_problem::Problem;
use flopsmith_run::console::say;
use flopsmith_run::exit;

use crate::rows::{Row, worse};
use crate::saved::Saved;
use crate::{Order, markdown, page};

/// The results of one size, in their order.
pub struct AtSize {
    /// The problem, timed at this size.
    pub problem: Arc<Problem>,
    /// The programs.
    pub rows: Vec<Row>,
}

impl AtSize {
    /// The results of `problem`.
    pub fn new(problem: Arc<Problem>, rows: Vec<Row>) -> Self {
        Self { problem, rows }
    }
}

/// Writes what the order asks for. Returns `code`, or the code of a failure that outranks it.
pub fn write(mut order: Order, results: &[AtSize], code: u8) -> u8 {
    let report = order.report.take();
    let report = report.map_or(Ok(()), |file| file.write(page::html(&order, results)));
    let tables = order.markdown.take();
    let tables = tables.map_or(Ok(()), |file| file.write(markdown::page(&order, results)));
    let saved = save(&order, results, code == exit::INTERRUPTED);
    let mut code = code;
    for error in [report.err(), tables.err(), saved.err()]
        .into_iter()
        .flatten()
    {
        say(&format!("error: {error:#}"));
        code = worse(code, exit::INFRASTRUCTURE);
    }
    code
}

fn save(order: &Order, results: &[AtSize], interrupted: bool) -> Result<()> {
    let Some(slot) = &order.save else {
        return Ok(());
    };
    if interrupted {
        say("interrupted: no result is saved");
        return Ok(());
    }
    let problem = order.problem.id.as_str();
    let saved = Saved::of(problem, order.purpose, results, &order.programs);
    if saved.programs.is_empty() {
        say("nothing was measured, so no result is saved");
        return Ok(());
    }
    let busy = saved
        .programs
        .iter()
        .filter(|p| p.machine_busy.is_some())
        .count();
    if busy > 0 {
        say(&format!(
            "note: the machine was busy during {busy} of {} saved measurements, so comparisons with them say less",
            saved.programs.len()
        ));
    }
    say(&slot.write(&saved)?);
    Ok(())
}
