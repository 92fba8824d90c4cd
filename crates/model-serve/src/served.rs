//! The models that a service has, as requests see them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use anyhow::Result;
use flopsmith_policy::config::Scalar;
use flopsmith_policy::{Adapter, Model, Tokenizer};
use flopsmith_run::console::usage;

/// Number of adapters that a service has at most.
pub(crate) const MOST_ADAPTERS: usize = 64;

/// Facts about the models that requests may name.
#[derive(Debug, Clone)]
pub struct Served {
    /// The names of the model itself and of its adapters.
    pub names: Names,
    /// The tokenizer of all of them.
    pub tokenizer: Arc<Tokenizer>,
    /// Largest number of tokens of a prompt and its answer.
    pub longest: usize,
    /// Number of token ids.
    pub vocabulary: u32,
}

/// The names of the models, each with a number that no other model gets while the service runs. So a request that was read
/// before an adapter was replaced is never answered by the new one. All copies are of the same names.
#[derive(Debug, Clone, Default)]
pub struct Names(Arc<RwLock<BTreeMap<usize, String>>>);

impl Names {
    /// The number of the model itself; its adapters have higher ones.
    pub const OWN: usize = 0;

    /// These names with numbers from 0. The first is that of the model itself.
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        let names = names.into_iter().enumerate().collect();
        Self(Arc::new(RwLock::new(names)))
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<usize, String>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the model of this name.
    pub fn number(&self, name: &str) -> Option<usize> {
        let names = self.read();
        let mut all = names.iter();
        all.find(|(_, known)| *known == name).map(|(n, _)| *n)
    }

    /// All names with their numbers; the first is that of the model itself.
    pub fn all(&self) -> Vec<(usize, String)> {
        let names = self.read();
        names.iter().map(|(n, name)| (*n, name.clone())).collect()
    }

    /// All names.
    pub fn list(&self) -> Vec<String> {
        self.read().values().cloned().collect()
    }

    /// Gives a model a name.
    pub fn add(&self, number: usize, name: String) {
        let mut names = self.0.write().unwrap_or_else(PoisonError::into_inner);
        names.insert(number, name);
    }

    /// Forgets the name of a model.
    pub fn remove(&self, number: usize) {
        let mut names = self.0.write().unwrap_or_else(PoisonError::into_inner);
        names.remove(&number);
    }
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
        let adapted = adapted(&model, &adapter.folder).map_err(|error| {
            let said = format!("{:#}", anyhow::Error::new(error));
            usage(format!("--adapter {}: {said}", adapter.name))
        })?;
        names.push(adapter.name.clone());
        models.push(adapted);
    }
    models.insert(0, model);
    Ok((names, models))
}

/// A model on the weights of `model` with the adapter in a folder.
pub fn adapted(model: &Model, folder: &Path) -> flopsmith_policy::Result<Model> {
    let adapter = Adapter::load(folder, model.config(), model.device(), model.kind())?;
    let mut adapted = model.bare()?;
    adapted.attach(adapter)?;
    Ok(adapted)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_one_model_and_all_copies_know_it() {
        let names = Names::of(["tiny".to_owned(), "tuned".to_owned()]);
        let copy = names.clone();
        assert_eq!(copy.number("tuned"), Some(1));
        names.remove(1);
        names.add(2, "tuned".to_owned());
        assert_eq!(copy.number("tuned"), Some(2));
        assert_eq!(copy.number("other"), None);
        let all = [(Names::OWN, "tiny".to_owned()), (2, "tuned".to_owned())];
        assert_eq!(copy.all(), all);
        assert_eq!(copy.list(), ["tiny", "tuned"]);
    }

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
