//! `flopsmith bench`: compiles, verifies and times programs.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use flopsmith_bench::inputs::{self, Program};
use flopsmith_bench::keep::Keep;
use flopsmith_bench::{Order, threads};
use flopsmith_compile::Toolchain;
use flopsmith_measure::Purpose;
use flopsmith_run::console::{say, usage};
use flopsmith_run::output::Output;
use flopsmith_run::{durations, measuring_lock, paths, record};

use crate::args::{Bench, BenchPurpose};

/// Evaluates the programs and prints the results.
pub fn run(args: &Bench) -> Result<ExitCode> {
    let mut problem = match &args.flags {
        Some(flags) => paths::problem_under(&args.problem, flags)?,
        None => paths::problem(&args.problem)?,
    };
    problem = paths::selected(problem, &args.workloads.names)?;
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
    // A script that reads the output for one file must never get a table.
    let alone = inputs.plain && threads.len() == 1;
    if args.raw.is_some() && !alone {
        return Err(usage(
            "--raw works only with one FILE at one number of threads",
        ));
    }
    if args.purpose != BenchPurpose::Rank && args.resolve != "60s" {
        say("note: --resolve has an effect only with --purpose rank");
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
        resolve: durations::time(&args.resolve).context("--resolve cannot be read")?,
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
        alone,
        against,
    };
    measuring_lock::announce(&format!("bench --problem {}", args.problem));
    Ok(ExitCode::from(flopsmith_bench::run(order)?))
}
