//! `flopsmith dataset`: makes corpora and measured programs, and splits them for the stages of training.

use std::process::ExitCode;

use anyhow::Result;
use flopsmith_alignment::{draw, label};
use flopsmith_generator::corpus::{self, CorpusConfig};
use flopsmith_generator::schedule::Space;
use flopsmith_problem::Problem;
use flopsmith_problem::prompt::Style;
use flopsmith_run::console::{data, say};
use flopsmith_run::paths;
use serde::Serialize;

use crate::args::Dataset;

mod measure;
mod of_run;
mod split;
mod synthesize;

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
        Dataset::Synthesize(args) => synthesize::run(args),
    }
}

/// A program of a loop nest or of a template.
#[derive(Debug, Serialize)]
struct Drawn<'a> {
    problem: &'a str,
    prompt: &'a str,
    program: &'a str,
}

/// Prints programs of the schedule space as JSON lines: for a matrix product the corpus, with prompts of many
/// permissions, and for other problems different programs of one prompt.
fn schedules(problem: &str, examples: usize, seed: u64) -> Result<ExitCode> {
    let Some(space) = Space::of(problem) else {
        return drawn(&paths::problem(problem)?, examples, seed);
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

/// Prints different programs of a problem's space, all as answers to the prompt that permits every technique but OpenMP.
fn drawn(problem: &Problem, examples: usize, seed: u64) -> Result<ExitCode> {
    let programs = draw::draw(problem, examples, seed)?;
    let prompt = label::prompt(problem, label::permitted(problem), Style::Compact)?;
    for program in &programs {
        data(&serde_json::to_string(&Drawn {
            problem: problem.id.as_str(),
            prompt: &prompt,
            program,
        })?);
    }
    if programs.len() < examples {
        say(&format!(
            "the space of {} gave {} different programs of the {examples} that were asked for",
            problem.id,
            programs.len()
        ));
    }
    Ok(ExitCode::SUCCESS)
}
