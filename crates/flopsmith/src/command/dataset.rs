//! `flopsmith dataset`: corpora.

use std::process::ExitCode;

use anyhow::Result;
use flopsmith_generator::corpus::{self, CorpusConfig};
use flopsmith_generator::schedule::Space;

use crate::args::Dataset;
use crate::exit::{data, usage};

/// Prints a corpus as JSON lines.
pub fn run(args: &Dataset) -> Result<ExitCode> {
    let Dataset::Schedules {
        problem,
        examples,
        seed,
    } = args;
    let Some(space) = Space::of(problem) else {
        return Err(usage(format!(
            "there is no schedule space for `{problem}`; there is one for dgemm"
        )));
    };
    let config = CorpusConfig {
        examples: *examples,
        ..CorpusConfig::default()
    };
    for example in corpus::build(&space, *seed, &config) {
        data(&serde_json::to_string(&example)?);
    }
    Ok(ExitCode::SUCCESS)
}
