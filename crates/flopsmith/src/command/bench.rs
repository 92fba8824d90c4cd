//! `flopsmith bench`: compiles, verifies and times programs.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use flopsmith_bench::compare::Compare;
use flopsmith_bench::inputs::{self, Program};
use flopsmith_bench::keep::Keep;
use flopsmith_bench::saved::{self, Slot};
use flopsmith_bench::{Export, Order, is_markdown, sizes, threads};
use flopsmith_compile::Toolchain;
use flopsmith_measure::Purpose;
use flopsmith_problem::Problem;
use flopsmith_run::console::{say, usage};
use flopsmith_run::output::Output;
use flopsmith_run::{durations, measuring_lock, paths, record, shell};

use super::module;
use crate::args::{Bench, BenchPurpose};

/// Evaluates the programs and prints the results.
pub fn run(args: &Bench) -> Result<ExitCode> {
    let modules = paths::modules(&args.problem);
    if !modules.is_empty() {
        return module::bench(args, &modules);
    }
    let markdown = Export::of_kernels(&args.exports).map_err(usage)?;
    // Before any plan is printed: nothing can be done without a compiler.
    flopsmith_evaluate::is_compiler(&args.compiler)?;
    if !args.architectures.is_empty() {
        say("note: --architectures has an effect only with modules");
    }
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
    let sizes = sizes::problems(&args.size, &problem)?;
    if let Some(note) = sizes::note(&sizes, &problem) {
        say(&note);
    }
    // A single size is an ordinary comparison at that size.
    let (problem, sizes) = match <[Arc<Problem>; 1]>::try_from(sizes) {
        Ok([one]) => (one, Vec::new()),
        Err(sizes) => (Arc::new(problem), sizes),
    };
    if args.watch && !sizes.is_empty() {
        return Err(usage("--watch works with one --size only"));
    }
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
    if args.raw.is_some() && !(alone && sizes.is_empty()) {
        return Err(usage(
            "--raw works only with one FILE at one number of threads and one size",
        ));
    }
    if args.purpose != BenchPurpose::Rank && args.resolve != "60s" {
        say("note: --resolve has an effect only with --purpose rank");
    }
    let keep = args.keep.as_deref().map(|folder| {
        let stems = inputs.programs.iter().map(|p| p.stem.as_str());
        Keep::new(folder, stems)
    });
    let purpose = args.purpose.purpose();
    let folder = args.baselines.as_deref();
    let at = match sizes.as_slice() {
        [] => std::slice::from_ref(&problem),
        several => several,
    };
    let compare = args.compare.as_deref().map(|name| {
        let saved = saved::load(folder, name)?;
        Compare::new(name, saved, &inputs.programs, at, &threads, purpose)
    });
    let compare = compare.transpose()?.map(Arc::new);
    let save = args.save.as_deref().map(|name| Slot::claim(folder, name));
    let save = save.transpose()?;
    if save.is_some() && purpose != Purpose::Certify {
        say(
            "note: later comparisons with this result have wide intervals, because this purpose measures one process of each program; --purpose certify measures many",
        );
    }
    let order = Order {
        problem_name: &args.problem,
        problem,
        sizes,
        compiler: &args.compiler,
        allow_weaker_jail: args.allow_weaker_jail,
        purpose,
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
        report: args
            .report
            .as_deref()
            .map(|path| Output::claim_of_kind(path, "earlier report", flopsmith_report::is_report))
            .transpose()?,
        markdown: markdown
            .map(|path| Output::claim_of_kind(path, "earlier table", is_markdown))
            .transpose()?,
        save,
        compare,
        command: command(),
        watch: args.watch,
        alone,
        against,
    };
    measuring_lock::announce(&format!("bench --problem {}", args.problem));
    Ok(ExitCode::from(flopsmith_bench::run(order)?))
}

/// The command line of this process, as a shell reads it.
fn command() -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| shell::quoted(&word.to_string_lossy()));
    let words: Vec<String> = std::iter::once(shell::program()).chain(words).collect();
    words.join(" ")
}
