//! `flopsmith bench`: programs, compiled, verified and timed.

mod groups;
mod inputs;
mod keep;
mod lines;
mod one;
mod pattern;
mod ratio;
mod rows;
mod several;
mod stages;
mod table;
mod threads;
mod watch;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_bench::Purpose;
use flopsmith_problem::Problem;

use crate::args::{Bench, BenchFormat, BenchPurpose};
use crate::exit::usage;
use crate::output::Output;
use crate::{neighbour, paths};
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
    format: BenchFormat,
    /// Numbers of threads, at least one.
    threads: Vec<u32>,
    programs: Vec<Program>,
    against: Option<Program>,
    keep: Option<Keep>,
    raw: Option<Output>,
    watch: bool,
}

/// Evaluates what was named and prints what became of it.
pub fn run(args: &Bench) -> Result<ExitCode> {
    let problem = Arc::new(paths::problem(&args.problem)?);
    let inputs = inputs::collect(&args.files)?;
    let against = args
        .against
        .as_deref()
        .map(|file| Program::read(file, String::new()))
        .transpose()?;
    let threads = threads::counts(&args.threads)?;
    // What reads the output of one file and nothing else shall never meet a table.
    let alone = inputs.plain && threads.len() == 1;
    if args.raw.is_some() && !alone {
        return Err(usage(
            "--raw takes the samples of one FILE at one number of threads",
        ));
    }
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
        format: args.format,
        threads,
        programs: inputs.programs,
        keep: args.keep.as_deref().map(Keep::new).transpose()?,
        raw: args.raw.as_deref().map(Output::claim).transpose()?,
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
