//! Text to token ids and back, from and into Hugging Face folders.

use std::path::Path;

use serde_json::{Value, json};

use crate::chat::{Message, Template};
use crate::checkpoint::replace;
use crate::config::TokenIds;
use crate::error::{Error, Result};
use crate::origin::Origin;

/// A tokenizer with the tokens that end an answer and the way a conversation is written.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    eos: Vec<u32>,
    pad: Option<u32>,
    template: Option<Template>,
    /// `tokenizer_config.json`, written back as it was read.
    settings: Value,
    /// `generation_config.json`, likewise.
    generation: Value,
}

impl Tokenizer {
    /// Opens `tokenizer.json` of a folder, and beside it, where they are there, `tokenizer_config.json`,
    /// `generation_config.json`, `chat_template.jinja` and `config.json` (for the end tokens).
    pub fn load(folder: &Path) -> Result<Self> {
        let origin = Origin::of(folder)?;
        let folder = origin.with("tokenizer.json");
        let path = folder.join("tokenizer.json");
        let bytes = std::fs::read(&path).map_err(|source| Error::Read { path, source })?;
        let inner =
            tokenizers::Tokenizer::from_bytes(&bytes).map_err(|source| Error::Tokenizer {
                doing: "read tokenizer.json",
                source,
            })?;
        let settings = read_json(folder, "tokenizer_config.json")?;
        let generation = read_json(&origin.base, "generation_config.json")?;
        let config = read_json(&origin.base, "config.json")?;
        let named = |key: &str| token_text(&settings[key]);
        let id = |text: Option<String>| text.and_then(|t| inner.token_to_id(&t));
        let eos = ids(&generation["eos_token_id"])
            .or_else(|| ids(&config["eos_token_id"]))
            .or_else(|| id(named("eos_token")).map(|id| vec![id]))
            .unwrap_or_default();
        let pad = id(named("pad_token"))
            .or_else(|| ids(&generation["pad_token_id"]).and_then(|v| v.first().copied()));
        let template = template_source(folder, &settings)?.map(|source| Template {
            source,
            bos: named("bos_token"),
            eos: named("eos_token"),
            pad: named("pad_token"),
        });
        Ok(Tokenizer {
            inner,
            eos,
            pad,
            template,
            settings,
            generation,
        })
    }

    /// A tokenizer of our own making. The first special token ends an answer and fills up batches.
    pub(crate) fn trained(inner: tokenizers::Tokenizer, end: &str) -> Self {
        let eos: Vec<u32> = inner.token_to_id(end).into_iter().collect();
        let settings = json!({
            "tokenizer_class": "Qwen2Tokenizer",
            "eos_token": end,
            // Byte-level BPE knows every byte; without an entry transformers would add a token of its own for this.
            "unk_token": end,
            "pad_token": end,
            "clean_up_tokenization_spaces": false,
            "model_max_length": 1_000_000,
        });
        let generation = json!({
            "eos_token_id": eos,
            "pad_token_id": eos.first(),
            "do_sample": true,
        });
        Tokenizer {
            pad: eos.first().copied(),
            inner,
            eos,
            template: None,
            settings,
            generation,
        }
    }

    /// For each token id: is it a numeral, nothing but decimal digits?
    pub fn numerals(&self) -> Vec<bool> {
        (0..=self.highest_id())
            .map(|id| {
                let text = self.inner.id_to_token(id).unwrap_or_default();
                !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
            })
            .collect()
    }

    /// Writes `tokenizer.json`, `tokenizer_config.json` and `generation_config.json` so that transformers opens them.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|source| Error::Write {
            path: folder.to_owned(),
            source,
        })?;
        let text = self
            .inner
            .to_string(true)
            .map_err(|source| Error::Tokenizer {
                doing: "write itself",
                source,
            })?;
        replace(folder, "tokenizer.json", text.as_bytes())?;
        for (name, value) in [
            ("tokenizer_config.json", &self.settings),
            ("generation_config.json", &self.generation),
        ] {
            if !value.is_null() {
                let text = serde_json::to_string_pretty(value).map_err(|source| Error::Json {
                    path: folder.join(name),
                    source,
                })?;
                replace(folder, name, (text + "\n").as_bytes())?;
            }
        }
        if let Some(template) = &self.template
            && self.settings["chat_template"].is_null()
        {
            replace(folder, "chat_template.jinja", template.source.as_bytes())?;
        }
        Ok(())
    }

    /// The ids of a text. Special tokens written out in it are recognised; none are added.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        self.encoded(text, false)
    }

    /// The ids of a text that begins a sequence: with the token that the tokenizer puts before it, where it has one, as Llama's do. What a chat
    /// template has written begins with it already.
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>> {
        self.encoded(text, true)
    }

    fn encoded(&self, text: &str, begins: bool) -> Result<Vec<u32>> {
        self.inner
            .encode_fast(text, begins)
            .map(|encoding| encoding.get_ids().to_vec())
            .map_err(|source| Error::Tokenizer {
                doing: "encode a text",
                source,
            })
    }

    /// The text of ids, without special tokens.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.text(ids, true)
    }

    /// The text of ids with special tokens written out.
    pub fn decode_with_specials(&self, ids: &[u32]) -> Result<String> {
        self.text(ids, false)
    }

    fn text(&self, ids: &[u32], skip_specials: bool) -> Result<String> {
        self.inner
            .decode(ids, skip_specials)
            .map_err(|source| Error::Tokenizer {
                doing: "decode token ids",
                source,
            })
    }

    /// A conversation as the text that precedes the answer: by the chat template, or, where there is none, the plain contents one after the other.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        match &self.template {
            Some(template) => template.render(messages),
            None => Ok(messages
                .iter()
                .map(|m| m.content.as_str())
                .collect::<Vec<_>>()
                .join("\n")),
        }
    }

    /// The ids of a conversation, up to where the answer begins.
    pub fn encode_chat(&self, messages: &[Message]) -> Result<Vec<u32>> {
        self.encode(&self.render(messages)?)
    }

    /// Does the folder say how conversations are written?
    pub fn has_chat_template(&self) -> bool {
        self.template.is_some()
    }

    /// Tokens that end an answer.
    pub fn eos(&self) -> &[u32] {
        &self.eos
    }

    /// The token that fills up rows of a batch.
    pub fn pad(&self) -> Option<u32> {
        self.pad
    }

    /// Number of tokens, special ones included.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// The largest id of a token, special ones included: above their number less one where ids are left out.
    pub fn highest_id(&self) -> u32 {
        let ids = self.inner.get_vocab(true).into_values();
        ids.max().unwrap_or_default()
    }

    /// The id of a token written as in `tokenizer.json`.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }
}

/// The JSON file of a folder, or null where there is none.
fn read_json(folder: &Path, name: &str) -> Result<Value> {
    let path = folder.join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|source| Error::Json { path, source }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Value::Null),
        Err(source) => Err(Error::Read { path, source }),
    }
}

/// A token as `tokenizer_config.json` writes it: its text, or an object with its `content`.
fn token_text(value: &Value) -> Option<String> {
    value
        .as_str()
        .or_else(|| value["content"].as_str())
        .map(str::to_owned)
}

fn ids(value: &Value) -> Option<Vec<u32>> {
    serde_json::from_value::<TokenIds>(value.clone())
        .ok()
        .map(|ids| ids.to_vec())
}

/// The template: a file of its own, a text in the settings, or the one named `default` of several there.
fn template_source(folder: &Path, settings: &Value) -> Result<Option<String>> {
    let path = folder.join("chat_template.jinja");
    match std::fs::read_to_string(&path) {
        Ok(text) => return Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(source) => return Err(Error::Read { path, source }),
    }
    let text = match &settings["chat_template"] {
        Value::String(text) => Some(text.clone()),
        Value::Array(named) => named
            .iter()
            .find(|t| t["name"] == "default")
            .and_then(|t| t["template"].as_str())
            .map(str::to_owned),
        _ => None,
    };
    Ok(text)
}
