//! The files that make up a model: those of its own folder, or those of an adapter's folder and of the base model's
//! folder.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::config::{Config, Scalar};
use crate::error::{Error, Result};
use crate::files;
use crate::lora::Adapter;

/// The folders of a model's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The folder with `config.json` and the weights.
    pub base: PathBuf,
    /// The folder with the adapter, if there is one.
    pub adapter: Option<PathBuf>,
}

impl Origin {
    /// Looks at a folder: a model's, one with both a model and an adapter, or an adapter's whose
    /// `base_model_name_or_path` is a folder (relative to the working directory, to the adapter's folder, or to that
    /// folder's parent).
    pub fn of(folder: &Path) -> Result<Self> {
        if !Adapter::is_in(folder) {
            return Ok(Origin {
                base: folder.to_owned(),
                adapter: None,
            });
        }
        let adapter = Some(folder.to_owned());
        if folder.join("config.json").exists() {
            let base = folder.to_owned();
            return Ok(Origin { base, adapter });
        }
        let path = folder.join("adapter_config.json");
        let file: Value = files::json(&path)?;
        let name = file["base_model_name_or_path"].as_str().unwrap_or_default();
        [PathBuf::from(name), folder.join(name), folder.join("..").join(name)]
            .into_iter()
            .find(|base| !name.is_empty() && base.join("config.json").exists())
            .map(|base| Origin { base, adapter })
            .ok_or_else(|| {
                Error::Input(format!(
                    "the adapter in `{}` belongs to the model `{name}`, but no folder of this name holds a model: set `base_model_name_or_path` in adapter_config.json to the model's folder",
                    folder.display()
                ))
            })
    }

    /// The shape of the model that the files make up, given the shape of its weights: an adapter may turn a policy's
    /// weights into a reward model.
    pub fn shape(&self, weights: Config) -> Result<Config> {
        let mut shape = weights;
        if let Some(adapter) = &self.adapter
            && shape.scalar == Scalar::None
            && Adapter::is_of_a_reward_model(adapter)?
        {
            shape.scalar = Scalar::Score;
        }
        Ok(shape)
    }

    /// The folder that holds a file which either folder may have, such as the tokenizer's: the adapter's folder if it
    /// has the file, otherwise the base folder.
    pub fn with(&self, file: &str) -> &Path {
        match &self.adapter {
            Some(adapter) if adapter.join(file).exists() => adapter,
            _ => &self.base,
        }
    }
}
