//! `flopsmith ui`: the runs of a folder as pages for a browser.

use std::process::ExitCode;

use anyhow::Result;
use flopsmith_run::console::usage;
use flopsmith_run::{paths, resident};
use flopsmith_ui::{Plan, execute};

use super::serve::token;
use crate::allocator;
use crate::args::Ui;

/// Shows pages until a stop request.
pub fn run(args: &Ui) -> Result<ExitCode> {
    let runs = args.place.folder();
    // The default folder may come with the first run.
    if args.place.runs.is_some() && !runs.is_dir() {
        let name = runs.display();
        return Err(usage(format!(
            "there is no folder of runs at {name}; name another with --runs (or FLOPSMITH_RUNS)"
        )));
    }
    // A window stays open for days beside the work that it shows.
    allocator::return_freed_memory();
    resident::release_library("libtorch");
    execute(Plan {
        runs: runs.to_owned(),
        cache: paths::data_folder().ok().map(|data| data.join("ui")),
        listen: args.listen,
        token: token(args.token_file.as_deref())?,
        nats: args.nats.clone().filter(|url| !url.is_empty()),
    })?;
    Ok(ExitCode::SUCCESS)
}
