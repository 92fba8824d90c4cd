//! `flopsmith bench`: programs, compiled, verified and timed.

mod inputs;
mod keep;
mod legend;
mod lines;
mod one;
mod pattern;
mod resolve;
mod rows;
mod several;
mod stages;
mod stream;
mod table;
mod threads;
mod watch;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use flopsmith_compile::Toolchain;
use flopsmith_measure::Purpose;
use flopsmith_problem::Problem;
use flopsmith_run::console::{say, usage};
use flopsmith_run::output::Output;
use flopsmith_run::{config, neighbour, paths, record};

use crate::args::{Bench, BenchFormat, BenchPurpose};
use inputs::Program;
use keep::Keep;

/// What was asked for, with everything read that can be read before something is measured.
struct Order<'a> {
    /// The problem as it was named.
    problem_name: &'a str,
    problem: Arc<Problem>,
    compiler: &'a str,
    allow_weaker_jail: bool,
    purpose: Purpose,
    /// How long neighbours are measured again that cannot be told apart.
    resolve: Duration,
    /// How long it may wait in all until the machine is quiet.
    wait: Duration,
    /// Are the programs looked at with sanitizers?
    sanitize: bool,
    format: BenchFormat,
    /// Numbers of threads, at least one.
    threads: Vec<u32>,
    programs: Vec<Program>,
    against: Option<Program>,
    keep: Option<Keep>,
    raw: Option<Output>,
    watch: bool,
}

impl Order<'_> {
    /// How often it may be looked at which programs can be told apart, each time with more measurements of them.
    fn looks(&self) -> usize {
        if self.purpose == Purpose::Rank && !self.resolve.is_zero() {
            resolve::MOST
        } else {
            1
        }
    }
}

/// Evaluates what was named and prints what became of it.
pub fn run(args: &Bench) -> Result<ExitCode> {
    let mut problem = match &args.flags {
        Some(flags) => paths::problem_under(&args.problem, flags)?,
        None => paths::problem(&args.problem)?,
    };
    if let Some(bytes) = args.max_source {
        problem.max_source_bytes = bytes as usize;
    }
    if let Some(flags) = args.flags.as_ref().filter(|f| !f.trim().is_empty())
        && let Some(why) = Toolchain::refusal_of_flags(&args.compiler, &problem)
    {
        return Err(usage(format!(
            "--flags '{flags}': {} does not take them: {why}",
            args.compiler
        )));
    }
    let problem = Arc::new(problem);
    let inputs = inputs::collect(&args.files)?;
    let against = args
        .against
        .as_deref()
        .map(|file| Program::read(file, String::new()))
        .transpose()?;
    let threads = threads::counts(&args.threads)?;
    if let Some(warning) = threads::warning(&threads, &problem) {
        say(&warning);
    }
    // What reads the output of one file and nothing else shall never meet a table.
    let alone = inputs.plain && threads.len() == 1;
    if args.raw.is_some() && !alone {
        return Err(usage(
            "--raw takes the samples of one FILE at one number of threads",
        ));
    }
    if args.purpose != BenchPurpose::Rank && args.resolve != "60s" {
        say("note: --resolve has a meaning with --purpose rank only");
    }
    let keep = args.keep.as_deref().map(|folder| {
        let stems = inputs.programs.iter().map(|p| p.stem.as_str());
        Keep::new(folder, stems)
    });
    let order = Order {
        problem_name: &args.problem,
        problem,
        compiler: &args.compiler,
        allow_weaker_jail: args.allow_weaker_jail,
        purpose: match args.purpose {
            BenchPurpose::Screen => Purpose::Screen,
            BenchPurpose::Rank => Purpose::Rank,
            BenchPurpose::Certify => Purpose::Certify,
        },
        resolve: config::time(&args.resolve).context("--resolve cannot be read")?,
        wait: args.wait.limit()?,
        sanitize: args.sanitize || args.purpose == BenchPurpose::Certify,
        format: args.format,
        threads,
        keep: keep.transpose()?,
        programs: inputs.programs,
        raw: args
            .raw
            .as_deref()
            .map(|path| Output::claim_of_kind(path, "earlier record", record::is_record))
            .transpose()?,
        watch: args.watch,
        against,
    };
    neighbour::announce(&format!("bench --problem {}", args.problem));
    if alone && order.against.is_none() && !order.watch {
        one::run(order)
    } else {
        several::run(order)
    }
}
