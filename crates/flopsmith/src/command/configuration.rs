//! `flopsmith config`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use flopsmith_config::Reference;
use flopsmith_run::console::{data, say};
use flopsmith_run::{console, evaluator, paths};

use super::recipe;
use crate::args::{Config, Format};

/// Checks and explains configurations.
pub fn run(args: &Config) -> Result<ExitCode> {
    match args {
        Config::Check {
            config,
            set,
            format,
        } => check(config, set, *format),
        Config::Explain { key, format } => explain(key.as_deref().unwrap_or_default(), *format),
    }
}

/// Prints the meaning of a setting or of a table, or of all settings.
fn explain(key: &str, format: Format) -> Result<ExitCode> {
    let reference = Reference::default();
    match format {
        Format::Text => reference.explain(key)?.iter().for_each(|line| data(line)),
        Format::Json => data(&reference.schema_of(key)?.to_string()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks a configuration and prints it with all defaults.
fn check(path: &Path, set: &[String], format: Format) -> Result<ExitCode> {
    if let Ok(text) = flopsmith_config::read_text(path)
        && let Some(reader) = recipe::reader_of(&text)
    {
        return recipe::check(reader, path, &text, set, format);
    }
    let settings = flopsmith_config::load(path, set)?;
    let located = |e| console::located(e, path, set);
    flopsmith_config::check_training(&settings).map_err(|e| located(e.into()))?;
    for warning in flopsmith_config::warnings(&settings) {
        say(&format!("warning: {warning}"));
    }
    // A suite is replaced by its problems when a run begins.
    let mut settled = settings.clone();
    paths::settle(&mut settled).map_err(located)?;
    #[cfg(feature = "torch")]
    super::train::check_files(&settled).map_err(located)?;
    #[cfg(not(feature = "torch"))]
    {
        paths::problems_of(&settled)?;
        say("warning: this build has no libtorch, so the model was not checked");
    }
    // The machine that checks a configuration may differ from the one that trains with it, so this is only a warning.
    if let Err(lacking) = evaluator::has_cores_of(&settings) {
        say(&format!("warning: {lacking}"));
    }
    match format {
        Format::Text => data(toml::to_string(&settings)?.trim_end()),
        Format::Json => data(&serde_json::to_string(&settings)?),
    }
    Ok(ExitCode::SUCCESS)
}
