//! `flopsmith report`: a run as one HTML file.

use std::process::ExitCode;

use anyhow::Result;
use flopsmith_run::console::data;
use flopsmith_run::folder;
use flopsmith_run::output::Output;
use flopsmith_run::report::{FILE, gather, write_problems};

use crate::args::Report;

/// Writes the report of a run and prints its path.
pub fn run(args: &Report) -> Result<ExitCode> {
    let folder = folder::find(
        args.place.folder(),
        args.run.as_deref().unwrap_or_default(),
        |_| true,
    )?;
    let path = args.output.clone().unwrap_or_else(|| folder.join(FILE));
    let output = match &args.output {
        Some(path) => Output::claim_of_kind(path, "earlier report", flopsmith_report::is_report)?,
        None => Output::claim(&path)?,
    };
    output.write(flopsmith_report::html(&gather(&folder)?))?;
    if args.output.is_none() {
        write_problems(&folder)?;
    }
    data(&path.display().to_string());
    Ok(ExitCode::SUCCESS)
}
