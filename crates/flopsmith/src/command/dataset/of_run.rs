//! `flopsmith dataset run`: prints the measured programs of a run.

use std::process::ExitCode;

use anyhow::Result;
use flopsmith_alignment::of_run;
use flopsmith_run::console::{data, say};
use flopsmith_run::folder;

use crate::args::OfRun;

/// Prints the measured programs of a run.
pub fn run(args: &OfRun) -> Result<ExitCode> {
    let name = args.run.as_deref().unwrap_or_default();
    let path = folder::find(args.place.folder(), name, |_| true)?;
    let (programs, left_out) = of_run::programs(&path)?;
    for program in &programs {
        data(&serde_json::to_string(program)?);
    }
    if left_out > 0 {
        say(&format!(
            "{left_out} outcomes are left out: they are of another machine class than most outcomes, contain no program, or have no verdict on their program"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
