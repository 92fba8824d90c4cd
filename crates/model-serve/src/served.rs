//! The models that a service has, as requests see them.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_policy::config::Scalar;
use flopsmith_policy::{Adapter, Model, Tokenizer};
use flopsmith_run::console::usage;

/// Number of adapters that a service has at most.
const MOST_ADAPTERS: usize = 64;

/// Facts about the models that requests may name.
#[derive(Debug, Clone)]
pub struct Served {
    /// The names; the first is that of the model itself, the others are its adapters'.
    pub names: Vec<String>,
    /// The tokenizer of all of them.
    pub tokenizer: Arc<Tokenizer>,
    /// Largest number of tokens of a prompt and its answer.
    pub longest: usize,
    /// Number of token ids.
    pub vocabulary: u32,
}

/// An adapter to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The name by which requests choose it.
    pub name: String,
    /// Its folder in PEFT's layout.
    pub folder: PathBuf,
}

impl Named {
    /// Reads `NAME=FOLDER`.
    ///
    /// # Errors
    /// Wrong usage.
    pub fn parse(text: &str) -> Result<Self> {
        match text.split_once('=') {
            Some((name, folder)) if !folder.is_empty() => {
                check_name(name)?;
                Ok(Self {
                    name: name.to_owned(),
                    folder: folder.into(),
                })
            }
            _ => Err(usage(format!(
                "--adapter {text} names no adapter; write NAME=FOLDER, e.g. --adapter tuned=runs/NAME/model"
            ))),
        }
    }
}

/// Checks the name of a model.
///
/// # Errors
/// Wrong usage, if a client or a log could misread the name.
pub fn check_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+".contains(c);
    if !name.is_empty() && name.len() <= 200 && name.chars().all(fits) {
        return Ok(());
    }
    Err(usage(format!(
        "`{}` cannot name a model; give it a name of 1 to 200 letters, digits and -_.:/@+ (--name, --adapter NAME=FOLDER)",
        name.escape_debug()
    )))
}

/// The model itself and, on the same weights, one model for each adapter.
///
/// # Errors
/// Wrong usage: two equal names, an adapter that does not fit, or a model that writes no text.
pub fn models(name: String, model: Model, adapters: &[Named]) -> Result<(Vec<String>, Vec<Model>)> {
    check_name(&name)?;
    if model.config().scalar == Scalar::Score {
        return Err(usage("a reward model writes no text; serve a policy"));
    }
    if adapters.len() > MOST_ADAPTERS {
        return Err(usage(format!("name at most {MOST_ADAPTERS} adapters")));
    }
    let mut names = vec![name];
    let mut models = Vec::with_capacity(adapters.len() + 1);
    for adapter in adapters {
        if names.contains(&adapter.name) {
            return Err(usage(format!(
                "two models have the name {}; give each its own (--name is that of the model itself)",
                adapter.name
            )));
        }
        let mut adapted = model.bare()?;
        let (device, kind) = (model.device(), model.kind());
        let attached = Adapter::load(&adapter.folder, model.config(), device, kind)
            .and_then(|loaded| adapted.attach(loaded));
        attached.map_err(|error| {
            let said = format!("{:#}", anyhow::Error::new(error));
            usage(format!("--adapter {}: {said}", adapter.name))
        })?;
        names.push(adapter.name.clone());
        models.push(adapted);
    }
    models.insert(0, model);
    Ok((names, models))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_has_a_name_and_a_folder() {
        let named = Named::parse("tuned=runs/a=b").unwrap();
        assert_eq!(named.name, "tuned");
        assert_eq!(named.folder, PathBuf::from("runs/a=b"));
        for wrong in [
            "",
            "tuned",
            "tuned=",
            "=folder",
            "a b=folder",
            "a\nb=folder",
        ] {
            let error = Named::parse(wrong).unwrap_err();
            assert!(error.is::<flopsmith_run::console::Usage>(), "{wrong}");
        }
        assert!(check_name(&"x".repeat(201)).is_err());
        assert!(check_name("Qwen/Qwen2.5-0.5B").is_ok());
    }
}
