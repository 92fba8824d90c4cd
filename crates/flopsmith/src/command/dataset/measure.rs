//! `flopsmith dataset measure`: compiles, verifies and times programs, of one problem or of several.

use std::process::ExitCode;

use anyhow::Result;
use flopsmith_alignment::label::Bench;
use flopsmith_alignment::to_measure::{self, Order, Permit, Work};
use flopsmith_problem::prompt::Style;
use flopsmith_run::console::{data, say};
use flopsmith_run::digits::counted;
use flopsmith_run::ticker::Ticker;

use super::super::problem::named;
use crate::args::Measure;

/// Measures the programs of a file.
pub fn run(args: &Measure) -> Result<ExitCode> {
    let permit = match args.permit.as_deref() {
        Some("all") => Some(Permit::All),
        text => named(text)?.map(Permit::Named),
    };
    let style = match (args.full, args.nest) {
        (true, _) => Style::Full,
        (_, true) => Style::Nest,
        _ => Style::Compact,
    };
    let work = to_measure::read(&Order {
        file: &args.file,
        problem: &args.problem,
        workloads: &args.workloads.names,
        permit,
        style,
        references: args.references,
        origin: &args.origin,
    })?;
    let total: usize = work.iter().map(|of| of.programs.len()).sum();
    let several = work.len() > 1;
    let (mut right, mut wrong, mut left_out) = (0u64, 0u64, 0u64);
    let mut ticker = Ticker::new(50);
    let mut number = 0u64;
    for Work {
        problem,
        permitted,
        programs,
    } in work
    {
        if several {
            let count = counted(programs.len() as u64, "program");
            say(&format!("{}: {count} to measure", problem.id));
        }
        let mut bench = Bench::open(
            problem,
            &args.workloads.names,
            &args.compiler,
            args.allow_weaker_jail,
            permitted,
        )?;
        for given in programs {
            match bench.measure(given) {
                Some(program) => {
                    match program.correct {
                        true => right += 1,
                        false => wrong += 1,
                    }
                    data(&serde_json::to_string(&program)?);
                }
                None => left_out += 1,
            }
            number += 1;
            ticker.tick(number, total as u64, || {
                format!("measured {number} of {total} programs: {right} are right, {wrong} wrong")
            });
        }
        ticker.end();
    }
    if left_out > 0 {
        say(&format!(
            "{left_out} programs are left out: this machine failed to measure them"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
