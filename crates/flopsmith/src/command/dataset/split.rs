//! `flopsmith dataset split`: splits measured programs into the parts for training.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::Result;
use flopsmith_alignment::split::{self, Settings, Written};
use flopsmith_generator::measured::Program;
use flopsmith_run::console::{data, say};
use flopsmith_run::jsonl;
use serde::Serialize;

use crate::args::{Format, Split};

/// The files that were written.
#[derive(Debug, Serialize)]
struct Made {
    programs: usize,
    files: Vec<Written>,
}

/// Writes the parts of some files of programs.
pub fn run(args: &Split) -> Result<ExitCode> {
    let mut programs: Vec<Program> = Vec::new();
    for file in &args.files {
        programs.extend(jsonl::read(file, Program::check)?);
    }
    let hold_out: BTreeSet<String> = args.hold_out.iter().cloned().collect();
    let settings = Settings {
        pairs: args.pairs,
        examples: args.examples,
        improve: args.improve,
        fence: args.fence.as_deref(),
        hold_out: &hold_out,
        seed: args.seed,
    };
    let files = split::write(&args.output, &programs, &settings)?;
    for written in &files {
        say(&format!(
            "{}: {} lines",
            args.output.join(&written.file).display(),
            written.lines
        ));
    }
    if args.format == Format::Json {
        data(&serde_json::to_string(&Made {
            programs: programs.len(),
            files,
        })?);
    }
    Ok(ExitCode::SUCCESS)
}
