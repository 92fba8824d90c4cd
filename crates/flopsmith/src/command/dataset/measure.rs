//! `flopsmith dataset measure`: compiles, verifies and times programs, of one problem or of several.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_alignment::label::{self, Bench};
use flopsmith_alignment::to_measure::{self, Order, Permit, Work};
use flopsmith_config::Standard;
use flopsmith_generator::measured::Program;
use flopsmith_problem::prompt::Style;
use flopsmith_run::console::{data, say};
use flopsmith_run::digits::counted;
use flopsmith_run::farm::{self, Farm};
use flopsmith_run::interrupt::Watch;
use flopsmith_run::ticker::Ticker;

use super::super::problem::named;
use crate::args::Measure;
use crate::exit;

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
    let mut count = Count::new(total as u64);
    let mut interrupted = false;
    match args.farm.ways()? {
        None => here(args, work, &mut count)?,
        Some(ways) => {
            let watch = Watch::saying("stopping…")?;
            let problems: Vec<_> = work.iter().map(|of| Arc::clone(&of.problem)).collect();
            let mut farm = Farm::open(
                &ways,
                &farm::Order {
                    name: "measure",
                    problems: &problems,
                    workloads: &args.workloads.names,
                    compiler: &args.compiler,
                    standard: Standard::Screen,
                    full: Standard::Screen,
                    threads: 1,
                    sanitize: false,
                },
            )?;
            let stopped = watch.asked();
            interrupted =
                !label::on_farm(&mut farm, work, &args.workloads.names, stopped, |program| {
                    count.add(program)
                })?;
        }
    }
    count.ticker.end();
    if count.left_out > 0 {
        say(&format!(
            "{} programs are left out: {} failed to measure them",
            count.left_out,
            if args.farm.cluster {
                "the workers"
            } else {
                "this machine"
            }
        ));
    }
    Ok(match interrupted {
        true => ExitCode::from(exit::INTERRUPTED),
        false => ExitCode::SUCCESS,
    })
}

/// Counts programs, and prints the lines of the measured ones.
struct Count {
    total: u64,
    right: u64,
    wrong: u64,
    left_out: u64,
    ticker: Ticker,
}

impl Count {
    fn new(total: u64) -> Self {
        Self {
            total,
            right: 0,
            wrong: 0,
            left_out: 0,
            ticker: Ticker::new(50),
        }
    }

    fn add(&mut self, program: Option<Program>) -> Result<()> {
        match program {
            Some(program) => {
                match program.correct {
                    true => self.right += 1,
                    false => self.wrong += 1,
                }
                data(&serde_json::to_string(&program)?);
            }
            None => self.left_out += 1,
        }
        let (right, wrong, total) = (self.right, self.wrong, self.total);
        let number = right + wrong + self.left_out;
        self.ticker.tick(number, total, || {
            format!("measured {number} of {total} programs: {right} are right, {wrong} wrong")
        });
        Ok(())
    }
}

/// Measures the programs on this machine, problem by problem.
fn here(args: &Measure, work: Vec<Work>, count: &mut Count) -> Result<()> {
    let several = work.len() > 1;
    for Work {
        problem,
        permitted,
        programs,
    } in work
    {
        if several {
            let programs = counted(programs.len() as u64, "program");
            say(&format!("{}: {programs} to measure", problem.id));
        }
        let mut bench = Bench::open(
            problem,
            &args.workloads.names,
            &args.compiler,
            args.allow_weaker_jail,
            permitted,
        )?;
        for given in programs {
            count.add(bench.measure(given))?;
        }
        count.ticker.end();
    }
    Ok(())
}
