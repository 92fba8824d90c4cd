//! `flopsmith dataset`: makes corpora and measured programs, and splits them for the stages of training.

use std::process::ExitCode;

use anyhow::Result;
use flopsmith_generator::corpus::{self, CorpusConfig};
use flopsmith_generator::schedule::Space;
use flopsmith_protocol::Verdict;
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

/// The `runtime_s` of a program's line: `Some(None)` if the program is wrong, `None` if the verdict says nothing about
/// the program.
fn runtime_s(verdict: &Verdict) -> Option<Option<f64>> {
    match verdict {
        Verdict::Measured { measurement } => measurement.known_seconds_per_call().map(Some),
        Verdict::Rejected { .. } => Some(None),
        Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => None,
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

#[cfg(test)]
mod tests {
    use flopsmith_test_support::{Measured, unknown, wrong};

    use super::*;

    #[test]
    fn an_unconverged_time_is_labelled_by_its_upper_end() {
        let seconds = Measured::at(40.0).measurement().seconds_per_call;
        let of = |measured: Measured| runtime_s(&measured.verdict());
        assert_eq!(of(Measured::at(40.0)), Some(Some(seconds)));
        let unsure = of(Measured::at(40.0).se(0.5).unconverged()).flatten();
        assert!(unsure.is_some_and(|s| 2.0 * seconds < s && s < 3.0 * seconds));
        assert_eq!(of(Measured::at(40.0).se(f64::NAN).unconverged()), None);
        assert_eq!(
            (runtime_s(&wrong()), runtime_s(&unknown())),
            (Some(None), None)
        );
    }
}
