//! `flopsmith dataset`: makes corpora and measured programs, and splits them for the stages of training.

use std::process::ExitCode;

use anyhow::Result;
use flopsmith_generator::corpus::{self, CorpusConfig};
use flopsmith_generator::schedule::Space;
use flopsmith_run::console::{data, usage};

use crate::args::Dataset;

mod measure;
mod of_run;
mod split;

/// Executes a subcommand.
pub fn run(args: &Dataset) -> Result<ExitCode> {
    match args {
        Dataset::Schedules {
            problem,
            examples,
            seed,
        } => schedules(problem, *examples, *seed),
        Dataset::Measure(args) => measure::run(args),
        Dataset::Run(args) => of_run::run(args),
        Dataset::Split(args) => split::run(args),
    }
}

/// Prints a corpus as JSON lines.
fn schedules(problem: &str, examples: usize, seed: u64) -> Result<ExitCode> {
    let Some(space) = Space::of(problem) else {
        return Err(usage(format!(
            "there is no schedule space for `{problem}`; there is one for dgemm"
        )));
    };
    let config = CorpusConfig {
        examples,
        ..CorpusConfig::default()
    };
    for example in corpus::build(&space, seed, &config) {
        data(&serde_json::to_string(&example)?);
    }
    Ok(ExitCode::SUCCESS)
}
