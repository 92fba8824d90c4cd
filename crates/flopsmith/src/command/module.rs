//! Modules of PyTorch in `flopsmith bench` and `flopsmith problem check`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use flopsmith_bench::modules::{
    any_refused, header, line, print, print_findings, select, sort, sources,
};
use flopsmith_bench::{Format as BenchFormat, threads};
use flopsmith_machine::pinning;
use flopsmith_measure::Purpose;
use flopsmith_module::{Architecture, Evaluator, INTERPRETATION, Options, Problem};
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::measuring_lock;

use crate::args::{Bench, BenchPurpose, Format};
use crate::exit;

/// Evaluates modules and prints the results.
pub fn bench(args: &Bench, folder: &Path) -> Result<ExitCode> {
    refuse_options(args)?;
    let mut problem = Problem::load(folder)?;
    select(&mut problem, &args.workloads.names)?;
    let sources = sources(&args.files)?;
    let cores = cores(args)?;
    let purpose = match args.purpose {
        BenchPurpose::Screen => Purpose::Screen,
        BenchPurpose::Rank => Purpose::Rank,
        BenchPurpose::Certify => Purpose::Certify,
    };
    measuring_lock::announce(&format!("bench --problem {}", args.problem));
    let options = Options {
        cores,
        limits: purpose.limits(),
        inductor: true,
        architectures: match args.architectures.as_slice() {
            [] => Architecture::DEFAULT.to_vec(),
            asked => asked.to_vec(),
        },
        interpretation: INTERPRETATION,
        allow_weaker_jail: args.allow_weaker_jail,
        progress: say_progress,
    };
    let name = problem.id.clone();
    let mut evaluator = Evaluator::new(problem, options)?;
    if args.format == BenchFormat::Jsonl {
        data(&header(&name, evaluator.environment()));
    }
    let mut results = Vec::new();
    for (file, source) in sources {
        say(&format!("evaluating {}…", file.display()));
        let outcome = evaluator
            .evaluate(&source)
            .with_context(|| format!("{} could not be evaluated", file.display()))?;
        if args.format == BenchFormat::Jsonl {
            data(&line(&name, &file, &outcome)?);
        }
        results.push((file, outcome));
    }
    sort(&mut results);
    match args.format {
        BenchFormat::Json => {
            for (file, outcome) in &results {
                data(&line(&name, file, outcome)?);
            }
        }
        BenchFormat::Text => print(&results),
        _ => {}
    }
    Ok(ExitCode::from(match any_refused(&results) {
        true => exit::CANDIDATE,
        false => exit::OK,
    }))
}

/// Checks a module problem, as `problem check` does for kernels.
pub fn check(
    name: &str,
    folder: &Path,
    workloads: &[String],
    allow_weaker_jail: bool,
    format: Format,
) -> Result<ExitCode> {
    let mut problem = Problem::load(folder)?;
    select(&mut problem, workloads)?;
    let allowed = pinning::allowed_cores();
    let options = Options {
        cores: allowed.last().copied().into_iter().collect(),
        limits: Purpose::Screen.limits(),
        inductor: false,
        architectures: Vec::new(),
        interpretation: INTERPRETATION,
        allow_weaker_jail,
        progress: say_progress,
    };
    let findings = Evaluator::new(problem, options)?.admit()?;
    let sound = print_findings(name, &findings, format == Format::Json);
    Ok(ExitCode::from(if sound {
        exit::OK
    } else {
        exit::CANDIDATE
    }))
}

fn say_progress(text: &str) {
    say(&format!("{text}…"));
}

/// Refuses options of `bench` that hold for kernels only.
fn refuse_options(args: &Bench) -> Result<()> {
    let given = [
        (
            "--flags",
            args.flags.as_ref().is_some_and(|f| !f.trim().is_empty()),
        ),
        ("--max-source", args.max_source.is_some()),
        ("--size", !args.size.is_empty()),
        ("--against", args.against.is_some()),
        ("--keep", args.keep.is_some()),
        ("--watch", args.watch),
        ("--raw", args.raw.is_some()),
        ("--report", args.report.is_some()),
        ("--save", args.save.is_some()),
        ("--compare", args.compare.is_some()),
        ("--sanitize", args.sanitize),
        (
            "--format csv and markdown",
            matches!(args.format, BenchFormat::Csv | BenchFormat::Markdown),
        ),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(usage(format!(
            "{} is a module; {option} works with kernels only",
            args.problem
        ))),
        None => Ok(()),
    }
}

/// The cores on which all sides are called: the last ones. This process keeps to the others.
fn cores(args: &Bench) -> Result<Vec<usize>> {
    let counts = threads::counts(&args.threads)?;
    let [count] = counts.as_slice() else {
        return Err(usage("a module is timed at one number of threads"));
    };
    let allowed = pinning::allowed_cores();
    let count = (*count as usize).clamp(1, allowed.len().max(1));
    let (others, timed) = allowed.split_at(allowed.len() - count.min(allowed.len()));
    if others.is_empty() {
        say("note: no core is left for this process, so times are less certain");
    } else {
        pinning::pin_this_thread(others).context("this process cannot leave the timed cores")?;
    }
    Ok(timed.to_vec())
}
