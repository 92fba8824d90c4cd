//! `flopsmith config`.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::{Config, Format};
use crate::config;
use crate::exit::data;

/// Checks a configuration and prints it whole.
pub fn run(args: &Config) -> Result<ExitCode> {
    let Config::Check {
        config: path,
        set,
        format,
    } = args;
    let settings = config::load(path, set)?;
    // `train` is the one command that reads a configuration.
    config::check_training(&settings)?;
    match format {
        Format::Text => data(toml::to_string(&settings)?.trim_end()),
        Format::Json => data(&serde_json::to_string(&settings)?),
    }
    Ok(ExitCode::SUCCESS)
}
