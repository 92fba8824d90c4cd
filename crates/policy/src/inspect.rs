//! The content of a model folder, reported even if a part of it is broken.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use tch::{Device, Kind};

use crate::chat::Message;
use crate::config::{Config, Scalar};
use crate::error::{Error, Result};
use crate::layout::{Layout, bytes_of};
use crate::model::Model;
use crate::origin::Origin;
use crate::tokenizer::Tokenizer;

/// The content of a model folder, and whether it can be used.
#[derive(Debug, Serialize)]
pub struct Inspection {
    /// `model_type` of its configuration.
    pub architecture: String,
    /// Its shape.
    pub config: Config,
    /// Number of weights; a tied head counts once.
    pub parameters: i64,
    /// Size of the weights in memory, bytes, by number format (`float32`, `bfloat16`).
    pub memory_bytes: BTreeMap<&'static str, i64>,
    /// Size of keys and values for each token of each row, bytes, by number format.
    pub cache_bytes_per_token: BTreeMap<&'static str, i64>,
    /// True if its weights contain a head of its own, although its configuration ties the head to the embedding.
    pub untied: bool,
    /// Its tokenizer, or the error if there is none.
    #[serde(serialize_with = "report")]
    pub tokenizer: Result<TokenizerFacts>,
    /// True if there is a chat template; the error if the template cannot write a message of a user.
    #[serde(serialize_with = "report")]
    pub chat_template: Result<bool>,
    /// Success if the weights load and run; otherwise the error.
    #[serde(serialize_with = "report")]
    pub loads: Result<()>,
}

/// The properties of a tokenizer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenizerFacts {
    /// Number of tokens, special ones included.
    pub tokens: usize,
    /// Tokens that end an answer.
    pub eos: Vec<u32>,
    /// True if it has a chat template.
    pub chat_template: bool,
}

/// Looks into a model folder.
///
/// # Errors
/// Only if `config.json` is missing or unusable: nothing can be reported without it. A broken tokenizer or weights that
/// do not fit are part of the result.
pub fn inspect(folder: &Path) -> Result<Inspection> {
    let origin = Origin::of(folder)?;
    let written = origin.shape(Config::load(&origin.base)?)?;
    let loaded = Model::load(folder, Device::Cpu, Kind::Float);
    let config = loaded.as_ref().map_or(&written, Model::config).clone();
    let layout = Layout::of(&config);
    let kinds = [("float32", Kind::Float), ("bfloat16", Kind::BFloat16)];
    let by_kind = |count: i64| {
        kinds
            .into_iter()
            .map(|(name, kind)| (name, count * bytes_of(kind).unwrap_or(4)))
            .collect()
    };
    let tokenizer = fitting_tokenizer(folder, &config);
    let chat_template = match &tokenizer {
        Ok(tokenizer) if tokenizer.has_chat_template() => {
            let asked = tokenizer.render(&[Message::user("?")]);
            asked.map(|_| true)
        }
        // A fault of the tokenizer is reported in its own field.
        _ => Ok(false),
    };
    let tokenizer = tokenizer.map(|t| TokenizerFacts {
        tokens: t.vocab_size(),
        eos: t.eos().to_vec(),
        chat_template: t.has_chat_template(),
    });
    let loads = loaded.and_then(|model| {
        let row = match model.config().scalar {
            Scalar::Score => vec![vec![model.reward(&[0])?]],
            _ => model.logits_all(&[0])?,
        };
        if row.iter().flatten().all(|p| p.is_finite()) {
            Ok(())
        } else {
            Err(Error::Scores)
        }
    });
    Ok(Inspection {
        architecture: config.model_type.clone(),
        parameters: layout.parameters(),
        memory_bytes: by_kind(layout.total),
        cache_bytes_per_token: by_kind(
            2 * config.num_hidden_layers * config.kv_heads() * config.head(),
        ),
        untied: written.tie_word_embeddings && !config.tie_word_embeddings,
        tokenizer,
        chat_template,
        loads,
        config,
    })
}

/// Checks that this folder's model can be sampled and trained, as far as that shows without reading its weights.
///
/// # Errors
/// The first fault in its configuration, the headers of its weights, or its tokenizer.
pub fn check(folder: &Path) -> Result<Config> {
    let config = Model::check(folder)?;
    fitting_tokenizer(folder, &config)?;
    Ok(config)
}

/// The tokenizer in a folder, if each of its tokens is one of the model's.
///
/// # Errors
/// If there is no tokenizer, or if it has a token or an end token outside the model's vocabulary.
pub fn fitting_tokenizer(folder: &Path, config: &Config) -> Result<Tokenizer> {
    let tokenizer = Tokenizer::load(folder)?;
    let reaches = |id: u32| i64::from(id) < config.vocab_size;
    let disagree = |what: String| {
        Err(Error::Input(format!(
            "the tokenizer and the model disagree: {what}, but `vocab_size` of config.json is {}",
            config.vocab_size
        )))
    };
    let highest = tokenizer.highest_id();
    if !reaches(highest) {
        return disagree(format!(
            "the tokenizer has {} tokens up to number {highest}",
            tokenizer.vocab_size()
        ));
    }
    match tokenizer.eos().iter().find(|id| !reaches(**id)) {
        Some(end) => disagree(format!("token {end} ends answers")),
        None => Ok(tokenizer),
    }
}

/// `{"ok": …}` or `{"error": "reason: cause: …"}`.
fn report<T: Serialize, S: serde::Serializer>(
    result: &Result<T>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap;
    let mut map = serializer.serialize_map(Some(1))?;
    match result {
        Ok(value) => map.serialize_entry("ok", value)?,
        Err(error) => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(e) = cause {
                text.push_str(&format!(": {e}"));
                cause = e.source();
            }
            map.serialize_entry("error", &text)?;
        }
    }
    map.end()
}
