//! Modules of PyTorch in `flopsmith bench` and `flopsmith problem check`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use flopsmith_bench::modules::{self, print_findings, select};
use flopsmith_bench::{Export, Format as BenchFormat};
use flopsmith_evaluate::ModuleStages;
use flopsmith_machine::pinning;
use flopsmith_module::{INTERPRETATION, Options, Problem};
use flopsmith_run::console::{say, usage};

use crate::args::{Bench, Format};
use crate::exit;

/// Evaluates candidates for modules and prints the results. `folders` are those of the problems.
pub fn bench(args: &Bench, folders: &[PathBuf]) -> Result<ExitCode> {
    refuse_options(args)?;
    let exports = Export::of_modules(&args.exports).map_err(usage)?;
    Ok(ExitCode::from(modules::run(&modules::Order {
        problem_name: &args.problem,
        folders,
        files: &args.files,
        workloads: &args.workloads.names,
        threads: &args.threads,
        purpose: args.purpose.purpose(),
        wait: args.wait.limit()?,
        allow_weaker_jail: args.allow_weaker_jail,
        format: args.format,
        exports: &exports,
        architectures: &args.architectures,
    })?))
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
        architectures: Vec::new(),
        interpretation: INTERPRETATION,
        allow_weaker_jail,
        progress: say_progress,
    };
    let findings = ModuleStages::open(problem, options)?.admit()?;
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
    // A variable that was set for kernels does not matter.
    let of_shell = |name: &str, value: &OsStr| std::env::var_os(name).is_some_and(|v| v == value);
    let compiler = OsStr::new(&args.compiler);
    let baselines = args.baselines.as_ref().map(|path| path.as_os_str());
    let given = [
        (
            "--compiler",
            compiler != "gcc" && !of_shell("FLOPSMITH_COMPILER", compiler),
        ),
        (
            "--baselines",
            baselines.is_some_and(|folder| !of_shell("FLOPSMITH_BASELINES", folder)),
        ),
        ("--resolve", args.resolve != "60s"),
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
