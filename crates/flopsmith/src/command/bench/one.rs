//! One program: a few lines about it, one object, or one row.

use std::process::ExitCode;

use anyhow::{Context, Result};

use super::rows::{self, Row};
use super::stages::Stages;
use super::{Order, lines};
use crate::args::BenchFormat;
use crate::exit::{self, data, say};
use crate::output::Output;
use crate::record;

/// Evaluates the program and prints its outcome.
pub fn run(order: Order) -> Result<ExitCode> {
    let mut stages = Stages::new(&order)?;
    let program = order.programs.first().context("no program was named")?;
    let mut measured = stages.measure(program);
    rows::arrange(&mut measured.rows);
    let row = measured.rows.first().context("nothing was timed")?;
    let mut code = row.said().2;
    if let (Some(keep), Some(object)) = (&order.keep, &measured.object)
        && let Err(error) = keep.save(&program.stem, object, stages.sandbox())
    {
        say(&format!("error: {error:#}"));
        code = exit::INFRASTRUCTURE;
    }
    if let Some(raw) = order.raw {
        // The result is there all the same, and it is printed.
        if let Err(error) = write_raw(raw, &program.source, row) {
            say(&format!("error: {error:#}"));
            code = exit::INFRASTRUCTURE;
        }
    }
    match order.format {
        BenchFormat::Json => data(&lines::object(order.problem_name, row).to_string()),
        BenchFormat::Csv => {
            data(&lines::csv_header());
            data(&lines::csv(order.problem_name, row));
        }
        BenchFormat::Text => text(row),
    }
    Ok(ExitCode::from(code))
}

fn write_raw(raw: Output, source: &str, row: &Row) -> Result<()> {
    match row.done.verdict.measurement() {
        Some(measurement) => {
            let record = record::json(source, measurement, &row.done.raw, &row.machine.json)?;
            raw.write(record)
        }
        None => {
            say(&format!(
                "{} is not written: there are no samples of a program that was not timed",
                raw.path().display()
            ));
            Ok(())
        }
    }
}

fn text(row: &Row) {
    match row.done.verdict.measurement() {
        Some(m) => {
            data(&format!("{}: {:.2} GFLOPS", row.file, m.gflops));
            data(&format!(
                "  {:.3}× the plain reference, 95 % interval [{:.3}, {:.3}] ({} calls in {} blocks, {})",
                m.ratio, m.interval.low, m.interval.high, m.calls, m.blocks, m.stop
            ));
            data(&format!(
                "  {:.1} % of this core's measured peak ({:.1} GFLOPS)",
                m.share_of_peak * 100.0,
                row.peak_gflops
            ));
            if let Some(certificate) = &m.certificate {
                let cold = certificate
                    .cold_seconds_per_call
                    .map(|cold| {
                        format!(
                            "; {:.2} times as long with cold caches",
                            cold / m.seconds_per_call
                        )
                    })
                    .unwrap_or_default();
                data(&format!(
                    "  its code at {} places: {:.2} % apart{cold}",
                    certificate.layout_ratios.len(),
                    certificate.layout_spread * 100.0
                ));
            }
        }
        None => {
            let (outcome, reason, _) = row.said();
            data(&format!(
                "{}: {outcome}: {}",
                row.file,
                reason.unwrap_or_default()
            ));
        }
    }
    if let Some(techniques) = row.done.techniques {
        data(&format!("  techniques: {techniques}"));
    }
    if let Some(bits) = row.done.vector_bits {
        data(&format!("  vector registers: {bits} bits"));
    }
    if !row.detail().trim().is_empty() {
        say(row.detail().trim_end());
    }
}
