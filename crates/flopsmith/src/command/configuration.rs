//! `flopsmith config`.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::Config;
use crate::config;
use crate::exit::data;

/// Checks a configuration and prints it whole.
pub fn run(args: &Config) -> Result<ExitCode> {
    let Config::Check { config: path } = args;
    let settings = config::load(path, &[])?;
    // `train` is the one command that reads a configuration.
    config::check_training(&settings)?;
    data(toml::to_string(&settings)?.trim_end());
    Ok(ExitCode::SUCCESS)
}
