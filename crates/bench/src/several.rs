//! Output for several programs, or for one with several results: a table, objects, or rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_evaluate::Evaluated;
use flopsmith_measure::ranking::{LogRatio, placement_log_se};
use flopsmith_measure::{Chain, Chains, Purpose};
use flopsmith_problem::Problem;
use flopsmith_protocol::{Measurement, Verdict};
use flopsmith_run::console::{self, data, say};
use flopsmith_run::exit;
use flopsmith_run::interrupt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::against::Against;
use crate::inputs::Program;
use crate::outputs::{self, AtSize};
use crate::rows::{self, Row};
use crate::stages::Stages;
use crate::stream::{End, Stream};
use crate::{Format, Order, lines, markdown, resolve, table, watch};

/// Evaluates all programs, prints the results, and goes on watching the files with `--watch`.
pub fn run(order: Order) -> Result<u8> {
    let listening = interrupt::Watch::start()?;
    let stopped = listening.asked();
    let mut several = match Several::new(&order, &order.problem, stopped) {
        // Ctrl-c also reaches the measured process, so a failure after a stop request has no meaning.
        Err(_) if stopped.is_cancelled() => return Ok(exit::INTERRUPTED),
        several => several?,
    };
    if let Err(error) = several.measure_all(stopped) {
        several.print_incomplete();
        return Err(error);
    }
    // An interrupted comparison prints its results as well: they may have taken an hour.
    several.print(stopped.is_cancelled());
    if order.watch && !stopped.is_cancelled() {
        return Ok(watch::run(several, &order.programs, stopped));
    }
    let code = if stopped.is_cancelled() {
        exit::INTERRUPTED
    } else {
        several.code()
    };
    let result = several.into_result();
    Ok(outputs::write(order, &[result], code))
}

/// Number of further measurements of a watched program that did not converge.
const SETTLING: usize = 2;

/// All programs, and the stages that measure them.
pub struct Several<'a> {
    order: &'a Order<'a>,
    stages: Stages,
    against: Option<Against>,
    /// The results so far.
    result: AtSize,
    /// True if an object could not be kept.
    trouble: bool,
    stream: Stream,
    /// True once the lines that precede the first program are printed.
    begun: bool,
}

impl<'a> Several<'a> {
    /// Prepares the measurements at the timed size of `problem`.
    pub fn new(
        order: &'a Order<'a>,
        problem: &Arc<Problem>,
        stopped: &CancellationToken,
    ) -> Result<Self> {
        let mut stages = Stages::new(order, problem, stopped.clone())?;
        let (against, rows) = match &order.against {
            Some(program) => {
                say(&format!(
                    "measuring {}, to compare with it ...",
                    program.name
                ));
                let (against, rows) = Against::measure(program, &mut stages)?;
                (Some(against), rows)
            }
            None => (None, Vec::new()),
        };
        Ok(Self {
            order,
            stages,
            against,
            result: AtSize::new(Arc::clone(problem), rows),
            trouble: false,
            stream: Stream::new(order, problem),
            begun: false,
        })
    }

    /// Measures all programs, and measures again those that a ranking cannot tell apart. Prints the lines that come before
    /// the end.
    ///
    /// # Errors
    /// As [`Stages::measure`]. The programs before the failure keep their results.
    pub fn measure_all(&mut self, stopped: &CancellationToken) -> Result<()> {
        let measured = self.measure_each(stopped);
        // No program could be timed.
        if !self.begun {
            self.begin();
        }
        self.arrange();
        measured?;
        if self.order.purpose == Purpose::Rank {
            resolve::run(self, self.order.resolve, stopped);
            self.arrange();
        }
        Ok(())
    }

    fn measure_each(&mut self, stopped: &CancellationToken) -> Result<()> {
        let order = self.order;
        let total = order.programs.len();
        for (n, program) in order.programs.iter().enumerate() {
            if stopped.is_cancelled() {
                break;
            }
            say(&format!("[{}/{total}] {} ...", n + 1, program.name));
            let Some(rows) = self.measure(program)? else {
                break;
            };
            // An interrupted measurement is no result.
            if stopped.is_cancelled() {
                break;
            }
            say_why(&rows);
            self.take(rows);
            if order.watch {
                self.settle(&program.name, stopped);
            }
            self.finished(&program.name);
        }
        Ok(())
    }

    /// Prints the results of the programs before a failure that ended the comparison.
    pub fn print_incomplete(&mut self) {
        self.trouble = true;
        if !self.result.rows.is_empty() {
            self.print(false);
        }
    }

    /// The results.
    pub fn result(&self) -> &AtSize {
        &self.result
    }

    /// The results, once nothing more is measured.
    pub fn into_result(self) -> AtSize {
        self.result
    }

    /// Measures a program, and keeps its object if the user wants it. `None` if a stop was requested before the
    /// end.
    fn measure(&mut self, program: &Program) -> Result<Option<Vec<Row>>> {
        let Some(mut measured) = self.stages.measure(program)? else {
            return Ok(None);
        };
        if let (Some(keep), Some(object)) = (&self.order.keep, &measured.object)
            && let Err(error) = keep.save(program, object, self.stages.evaluator())
        {
            say(&format!("error: {error:#}"));
            self.trouble = true;
        }
        if let Some(against) = &self.against {
            against.compare(&mut measured.rows);
        }
        Ok(Some(measured.rows))
    }

    /// Measures a program that was saved. This is a new request, so the wait for a quiet machine has its full limit
    /// again.
    ///
    /// # Errors
    /// As [`Stages::measure`].
    pub fn measure_saved(&mut self, program: &Program) -> Result<Option<Vec<Row>>> {
        self.stages.renew_patience();
        self.measure(program)
    }

    /// Times a program of a ranking once more.
    pub fn again(&mut self, file: &str, threads: u32) -> Option<Evaluated> {
        self.stages.again(file, threads)
    }

    /// The results so far.
    pub fn rows(&self) -> &[Row] {
        &self.result.rows
    }

    /// Replaces the measurement of a program by one that `measured` makes of `all` its measurements, from the chains to the
    /// plain reference; `busy` is its disturbance.
    pub fn replace(
        &mut self,
        file: &str,
        threads: u32,
        all: &[Measurement],
        busy: Option<String>,
        measured: impl FnOnce(&Chains) -> Option<Measurement>,
    ) {
        let Some(chains) = self.stages.chains(threads) else {
            return;
        };
        let Some(mut measurement) = measured(&chains) else {
            return;
        };
        // The part of the error that `resolution` causes is common to all measurements, so their mean does not reduce
        // it.
        let hidden = self.stages.hidden_log_se(threads, &measurement);
        at_least(&mut measurement, hidden, &chains.whole());
        let (stages, against) = (&self.stages, self.against.as_ref());
        if let Some(row) = find(&mut self.result.rows, file, threads) {
            stages.renew(row, Some(measurement));
            row.done.busy = busy;
            let ratios: Vec<LogRatio> = all
                .iter()
                .map(|one| LogRatio::of(one, &chains.whole()))
                .collect();
            row.placement_log_se = LogRatio::lacks(&ratios, placement_log_se(self.order.purpose));
            if let Some(against) = against {
                against.compare(std::slice::from_mut(row));
            }
        }
    }

    /// Times a program again that did not converge, so that the next change of the program can be measured.
    pub fn settle(&mut self, file: &str, stopped: &CancellationToken) {
        let limits = self.order.purpose.limits();
        let unsure = |row: &&Row| {
            let measurement = row.done.verdict.measurement();
            !row.is_hidden() && measurement.is_some_and(|m| !m.converged())
        };
        let threads: Vec<u32> = self.of(file).filter(unsure).map(|r| r.threads).collect();
        for threads in threads {
            let first = self.of(file).find(|row| row.threads == threads);
            let first = first.and_then(|row| row.done.verdict.measurement().cloned());
            let mut all: Vec<Measurement> = first.into_iter().collect();
            for _ in 0..SETTLING {
                let still = self
                    .of(file)
                    .any(|row| row.threads == threads && unsure(&row));
                if !still || stopped.is_cancelled() {
                    break;
                }
                let Some(done) = self.again(file, threads) else {
                    break;
                };
                if stopped.is_cancelled() {
                    break;
                }
                match done.verdict {
                    Verdict::Measured { measurement } => {
                        all.push(measurement);
                        self.replace(file, threads, &all, done.busy, |chains| {
                            resolve::mean(&all, chains, &limits)
                        });
                    }
                    refused @ Verdict::Rejected { .. } => {
                        self.refuse(file, threads, refused);
                        break;
                    }
                    Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => break,
                }
            }
        }
    }

    /// Marks a program as refused that passed before.
    pub fn refuse(&mut self, file: &str, threads: u32, refused: Verdict) {
        if let Some(row) = find(&mut self.result.rows, file, threads) {
            row.done.verdict = refused;
            row.own = None;
            row.place = None;
            row.places = Vec::new();
            (row.to_against, row.to_saved) = (None, None);
            (row.rank, row.group) = (None, None);
            say_why(std::slice::from_ref(row));
        }
    }

    /// Replaces the rows of a program by new ones.
    pub fn take(&mut self, rows: Vec<Row>) {
        rows::take(&mut self.result.rows, rows);
    }

    /// Sorts all rows, and computes anew which programs can be told apart. All speeds refer to one measurement of the
    /// reference.
    pub fn arrange(&mut self) {
        let rows = &mut self.result.rows;
        for row in &mut *rows {
            self.stages.renew(row, None);
        }
        rows::arrange(rows, self.order.looks());
        if let Some(compare) = &self.order.compare {
            compare.judge(rows);
        }
    }

    /// The rows of a program, one for each number of threads.
    pub fn of<'b>(&'b self, file: &'b str) -> impl Iterator<Item = &'b Row> {
        let rows = self.result.rows.iter();
        rows.filter(move |row| row.file == file && !row.against)
    }

    /// The output format.
    pub fn format(&self) -> Format {
        self.order.format
    }

    /// A row as a JSON object.
    pub fn object(&self, row: &Row) -> Value {
        let against = self.against.is_some();
        match self.order.format {
            Format::Jsonl => self.stream.row(row, against),
            _ => self.stream.object(row, Some(against)),
        }
    }

    /// A row as CSV.
    pub fn csv(&self, row: &Row) -> String {
        lines::csv(self.order.problem_name, row)
    }

    /// Prints the lines that precede the first program, and those of the programs that are done already.
    fn begin(&mut self) {
        self.begun = true;
        // Programs that were refused before a machine was measured learn which one it is.
        for row in &mut self.result.rows {
            self.stages.renew(row, None);
        }
        if self.order.format == Format::Jsonl {
            let speeds = self.stages.reference_speeds();
            data(&self.stream.begin(&speeds).to_string());
            for row in &self.result.rows {
                data(&self.object(row).to_string());
            }
        }
    }

    /// Prints the lines of a program that is done. The first line names the machine, so nothing is printed before a machine
    /// was measured.
    fn finished(&mut self, file: &str) {
        if !self.begun {
            if self.stages.are_timing() {
                self.begin();
            }
            return;
        }
        if self.order.format == Format::Jsonl {
            for row in self.of(file) {
                data(&self.object(row).to_string());
            }
        }
    }

    fn print(&self, interrupted: bool) {
        let rows = &self.result.rows;
        match self.order.format {
            Format::Text => {
                let size = self.result.problem.timed_size();
                table::lines(rows, &size, self.against_name())
                    .iter()
                    .for_each(|line| data(line));
                self.print_refusals();
                if let Some(compare) = self.order.compare.as_ref().filter(|_| !rows.is_empty()) {
                    let rows: Vec<&Row> = rows.iter().collect();
                    compare.lines(&rows).iter().for_each(|line| data(line));
                }
            }
            Format::Markdown => {
                let lines = markdown::of_one_size(&self.result, self.order);
                lines.iter().for_each(|line| data(line));
            }
            Format::Csv => {
                data(&lines::csv_header());
                self.print_rows(interrupted);
            }
            Format::Json | Format::Jsonl => self.print_rows(interrupted),
        }
    }

    /// Prints the rows for other programs; with JSON lines the summary, since the rows are printed already.
    pub fn print_rows(&self, interrupted: bool) {
        match self.order.format {
            Format::Json => {
                for row in &self.result.rows {
                    data(&self.object(row).to_string());
                }
            }
            Format::Jsonl => {
                let end = End {
                    programs: self.order.programs.len(),
                    interrupted,
                    code: self.code(),
                };
                data(&self.stream.end(&self.result.rows, &end).to_string());
            }
            Format::Csv => {
                for row in &self.result.rows {
                    data(&self.csv(row));
                }
            }
            Format::Text | Format::Markdown => {}
        }
    }

    /// Prints why programs were refused below a table.
    pub fn print_refusals(&self) {
        // If stdout and stderr go to one place, the reasons are above already, next to their programs.
        let refusals = table::refusals(&self.result.rows);
        if !refusals.is_empty() && !console::has_one_place() {
            data("");
            refusals.iter().for_each(|line| data(line));
        }
    }

    /// The program that all are compared with, if there is one.
    pub fn against_name(&self) -> Option<&str> {
        self.against.as_ref().map(|against| &*against.name)
    }

    /// The exit code of the results so far.
    pub fn code(&self) -> u8 {
        let trouble = if self.trouble {
            exit::INFRASTRUCTURE
        } else {
            exit::OK
        };
        rows::worse(rows::code(&self.result.rows), trouble)
    }
}

/// Raises a measurement's standard error of ln(ratio) to at least `log_se`.
fn at_least(measurement: &mut Measurement, log_se: f64, chain: &Chain) {
    if measurement.log_ratio_se >= log_se {
        return;
    }
    measurement.log_ratio_se = log_se;
    let half = 1.96 * log_se.hypot(chain.log_se);
    measurement.interval.low = measurement.ratio * (-half).exp();
    measurement.interval.high = measurement.ratio * half.exp();
}

/// The row of a program. Rows of the program that all others are compared with are left out: that measurement stays, as
/// every ratio depends on it.
fn find<'b>(rows: &'b mut [Row], file: &str, threads: u32) -> Option<&'b mut Row> {
    rows.iter_mut()
        .find(|row| row.file == file && row.threads == threads && !row.against)
}

/// Prints on stderr why programs were not measured: the table has no room for the reasons.
pub fn say_why(rows: &[Row]) {
    let reasons: BTreeSet<String> = rows
        .iter()
        .filter_map(|row| Some(why(&row.refusal()?, &row.detail_for_people())))
        .collect();
    for reason in reasons {
        say(&reason);
    }
}

/// A refusal, and the lines of its details beneath.
pub fn why(refusal: &str, detail: &str) -> String {
    let mut words = format!("  {refusal}");
    for line in detail.trim().lines() {
        words.push_str("\n    ");
        words.push_str(line);
    }
    words
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::Measured;

    use super::*;
    use crate::rows::tests::fast;

    #[test]
    fn no_number_of_measurements_is_surer_than_the_clock() {
        let chain = Chain {
            log_ratio: 0.0,
            log_se: 0.003,
            reference_seconds: 1.0,
            baseline_seconds: 1.0,
        };
        let mut measurement = Measured::at(40.0).se(0.001).measurement();
        let before = measurement.clone();
        at_least(&mut measurement, 0.0005, &chain);
        assert_eq!(measurement, before);
        at_least(&mut measurement, 0.004, &chain);
        assert!((measurement.log_ratio_se - 0.004).abs() < 1e-12);
        let half = (measurement.interval.high / measurement.ratio).ln();
        assert!((half - 1.96 * 0.005).abs() < 1e-9, "{half}");
    }

    #[test]
    fn the_row_that_others_are_compared_with_is_not_found_by_name() {
        let mut rows = [fast("a.c", 1, 40.0), fast("a.c", 1, 41.0)];
        rows[0].against = true;
        let found = find(&mut rows, "a.c", 1);
        assert!(found.is_some_and(|row| !row.against));
        assert!(find(&mut rows[..1], "a.c", 1).is_none());
    }

    #[test]
    fn a_refusal_is_said_with_what_the_compiler_said() {
        assert_eq!(why("refused: timeout", ""), "  refused: timeout");
        assert_eq!(
            why("refused: compile_error", "line 3\n  int x = ;\n"),
            "  refused: compile_error\n    line 3\n      int x = ;"
        );
    }
}
