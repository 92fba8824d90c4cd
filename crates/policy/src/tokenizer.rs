//! Text to token ids and back, read from and written to Hugging Face folders.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Once;

use serde_json::{Map, Value, json};

use crate::added;
use crate::chat::Message;
use crate::class::{Class, FILL, Specials};
use crate::config::TokenIds;
use crate::error::{Error, Result};
use crate::files;
use crate::origin::Origin;
use crate::template::Template;

/// The file that may hold the chat template; it takes precedence over the settings.
const TEMPLATE: &str = "chat_template.jinja";

/// The folder of further chat templates, each in a file with its name. They take precedence over the settings, too.
const TEMPLATES: &str = "additional_chat_templates";

/// The name of the template that is used where there are several.
const DEFAULT: &str = "default";

/// Brackets and quantifiers that a pattern of `tokenizer.json` may have. Each may be a level of the stack for the compiler of
/// patterns; those of models have some tens.
const MOST_MARKS: usize = 1000;

/// A tokenizer with the tokens that end an answer and the chat template.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    eos: Vec<u32>,
    pad: Option<u32>,
    template: Option<Template>,
    /// The names of the chat templates if there are some and none is the default.
    unchosen: Vec<String>,
    /// True if transformers fills the gaps of texts for this tokenizer.
    fills: bool,
    /// `tokenizer_config.json`, written back as read, with the special tokens and the chat templates that were read from other
    /// files.
    settings: Value,
    /// `generation_config.json`, likewise.
    generation: Value,
}

impl Tokenizer {
    /// Opens `tokenizer.json` of a folder, and those of the following files that exist: `tokenizer_config.json`,
    /// `special_tokens_map.json` (which older folders have), `generation_config.json`, `chat_template.jinja`,
    /// `additional_chat_templates` and `config.json` (for the end tokens).
    ///
    /// The texts get the token ids that transformers gives them: `tokenizer_class` may replace parts of `tokenizer.json`,
    /// and `add_bos_token` and `add_eos_token` do not count beside that file.
    ///
    /// The settings of truncation and padding in `tokenizer.json` are for programs that encode batches, and are ignored
    /// here: a text is encoded whole and without padding.
    pub fn load(folder: &Path) -> Result<Self> {
        let origin = Origin::of(folder)?;
        let folder = origin.with("tokenizer.json");
        let path = folder.join("tokenizer.json");
        let unreadable = |source| Error::Tokenizer {
            doing: "read tokenizer.json",
            source,
        };
        let text = files::text(&path)?;
        let mut file: Value = serde_json::from_str(&text).map_err(|e| unreadable(e.into()))?;
        let marks = marks(&file);
        if marks > MOST_MARKS {
            return Err(unreadable(
                format!(
                    "a pattern has {marks} brackets and quantifiers; at most {MOST_MARKS} are read"
                )
                .into(),
            ));
        }
        let mut settings = files::json_if_there(&folder.join("tokenizer_config.json"))?;
        let older = files::json_if_there(&folder.join("special_tokens_map.json"))?;
        let padding = file["padding"]["pad_token"].as_str().map(str::to_owned);
        let generation = files::json_if_there(&origin.base.join("generation_config.json"))?;
        let config = files::json_if_there(&origin.base.join("config.json"))?;
        let class = Class::of(&settings, &config, &text);
        complete(&mut settings, older, class.specials(), padding);
        let rebuilt = class.rebuild(&mut file, &settings);
        let own = added::take(&mut file).map_err(|e| unreadable(e.into()))?;
        let inner = serde_json::from_value(file).map_err(|e| unreadable(e.into()));
        let mut inner: tokenizers::Tokenizer = inner?;
        inner.with_padding(None);
        inner.with_truncation(None).map_err(unreadable)?;
        let vocab_size = config["vocab_size"].as_u64();
        added::add(&mut inner, &own, &settings, rebuilt, vocab_size);
        let around = rebuilt.surround(&mut inner, &settings);
        around.map_err(|e| unreadable(e.into()))?;
        let splits = settings["split_special_tokens"].as_bool();
        inner.set_encode_special_tokens(splits.unwrap_or_default());
        let named = |key: &str| token_text(&settings[key]);
        let id = |text: Option<String>| text.and_then(|t| inner.token_to_id(&t));
        let eos = ids(&generation["eos_token_id"])
            .or_else(|| ids(&config["eos_token_id"]))
            .or_else(|| id(named("eos_token")).map(|id| vec![id]))
            .unwrap_or_default();
        let pad = id(named("pad_token"))
            .or_else(|| ids(&generation["pad_token_id"]).and_then(|v| v.first().copied()));
        let own = own_templates(folder)?;
        if let Some(templates) = own.in_settings() {
            if settings.is_null() {
                settings = Value::Object(Map::new());
            }
            if let Some(map) = settings.as_object_mut() {
                map.insert("chat_template".into(), templates);
            }
        }
        let source = own
            .default
            .or_else(|| template_in(&settings).map(str::to_owned));
        let template = source.map(|source| Template {
            source,
            tokens: special_tokens(&settings),
        });
        let unchosen = match &template {
            Some(_) => Vec::new(),
            None => template_names(&settings),
        };
        let fill = token_text(&settings["fill_token"]);
        let fills = rebuilt == Class::CodeLlama && fill.as_deref() == Some(FILL);
        Ok(Tokenizer {
            inner,
            eos,
            pad,
            template,
            unchosen,
            fills,
            settings,
            generation,
        })
    }

    /// A tokenizer that this crate trained. The first special token ends an answer and pads batches.
    pub(crate) fn trained(inner: tokenizers::Tokenizer, end: &str) -> Self {
        let eos: Vec<u32> = inner.token_to_id(end).into_iter().collect();
        let settings = json!({
            "tokenizer_class": "Qwen2Tokenizer",
            "eos_token": end,
            // Byte-level BPE encodes every byte; without an entry transformers would add a token of its own for unknown
            // text.
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
            unchosen: Vec::new(),
            fills: false,
            settings,
            generation,
        }
    }

    /// For each token id: true if the token is a number token: decimal digits only, of which one at least is not 0. In
    /// programs a lone 0 is where something begins, and no size.
    pub fn number_tokens(&self) -> Vec<bool> {
        (0..=self.highest_id())
            .map(|id| {
                let text = self.inner.id_to_token(id).unwrap_or_default();
                let is_zero = text.bytes().all(|b| b == b'0');
                !is_zero && text.bytes().all(|b| b.is_ascii_digit())
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
        files::replace(folder, "tokenizer.json", text.as_bytes())?;
        for (name, value) in [
            ("tokenizer_config.json", &self.settings),
            ("generation_config.json", &self.generation),
        ] {
            if !value.is_null() {
                let text = serde_json::to_string_pretty(value).map_err(|source| Error::Json {
                    path: folder.join(name),
                    source,
                })?;
                files::replace(folder, name, (text + "\n").as_bytes())?;
            }
        }
        if let Some(template) = &self.template
            && template_in(&self.settings) != Some(template.source.as_str())
        {
            files::replace(folder, TEMPLATE, template.source.as_bytes())?;
        }
        Ok(())
    }

    /// The ids of a text. Special tokens in the text are recognised; none are added.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        self.encoded(text, false)
    }

    /// The ids of a text that begins a sequence. If the tokenizer has a begin token, as Llama's do, the ids start with
    /// it. A chat template's output already contains that token.
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>> {
        self.encoded(text, true)
    }

    fn encoded(&self, text: &str, begins: bool) -> Result<Vec<u32>> {
        static TOLD: Once = Once::new();
        if self.fills && text.contains(FILL) {
            TOLD.call_once(|| {
                tracing::warn!(
                    "a text contains `{FILL}`: Flopsmith keeps the order of the text and leaves the gap, where transformers would put the part after it first; write the tokens around the parts yourself"
                );
            });
        }
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

    /// A conversation as the text that precedes the answer: by the chat template, or, without a template, the plain
    /// contents one after the other.
    ///
    /// # Errors
    /// [`Error::Messages`] if the template refuses the messages, [`Error::ChatTemplate`] if it fails otherwise, and
    /// [`Error::NoDefaultTemplate`] if there are several templates and none is the default.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        if !self.unchosen.is_empty() {
            return Err(Error::NoDefaultTemplate(self.unchosen.clone()));
        }
        match &self.template {
            Some(template) => template.render(messages),
            None => Ok(messages
                .iter()
                .map(|m| m.content.as_str())
                .collect::<Vec<_>>()
                .join("\n")),
        }
    }

    /// The token ids of messages that an answer follows. With `chat` and a template the template joins them; otherwise
    /// they are plain text: a single message as it is, and of several each begins on a line of its own.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_chat`] and [`Tokenizer::encode_prompt`].
    pub fn encode_messages(&self, messages: &[Message], chat: bool) -> Result<Vec<u32>> {
        if chat && self.has_chat_template() {
            return self.encode_chat(messages);
        }
        if let [message] = messages {
            return self.encode_prompt(&message.content);
        }
        let mut text = String::new();
        for message in messages {
            text.push_str(&message.content);
            if !text.ends_with('\n') {
                text.push('\n');
            }
        }
        self.encode_prompt(&text)
    }

    /// The ids of a conversation, up to the beginning of the answer.
    pub fn encode_chat(&self, messages: &[Message]) -> Result<Vec<u32>> {
        self.encode(&self.render(messages)?)
    }

    /// True if the folder has a chat template, also if it does not say which of several is to be used.
    pub fn has_chat_template(&self) -> bool {
        self.template.is_some() || !self.unchosen.is_empty()
    }

    /// Tokens that end an answer.
    pub fn eos(&self) -> &[u32] {
        &self.eos
    }

    /// The token that pads the rows of a batch.
    pub fn pad(&self) -> Option<u32> {
        self.pad
    }

    /// Number of tokens, special ones included.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// The largest id of a token, special ones included. If ids are skipped, it exceeds the number of tokens less one.
    pub fn highest_id(&self) -> u32 {
        let ids = self.inner.get_vocab(true).into_values();
        ids.max().unwrap_or_default()
    }

    /// The id of a token written as in `tokenizer.json`.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }
}

/// Adds to the settings the special tokens that transformers has from elsewhere: those of `special_tokens_map.json` if
/// the settings describe no added tokens, those of the tokenizer's class (`usual`), and the padding token of
/// `tokenizer.json` if nothing else names one.
fn complete(settings: &mut Value, older: Value, usual: Specials, padding: Option<String>) {
    if settings.is_null() && (older.is_object() || !usual.is_empty() || padding.is_some()) {
        *settings = Value::Object(Map::new());
    }
    let Some(map) = settings.as_object_mut() else {
        return;
    };
    if !map.contains_key("added_tokens_decoder")
        && let Value::Object(older) = older
    {
        for (name, value) in older {
            if name == LISTED || name == LISTED_BEFORE {
                list(map, &name, value);
            } else if is_token(&name) {
                map.insert(name, value);
            }
        }
    }
    for (name, token) in usual {
        map.entry(*name).or_insert_with(|| (*token).into());
    }
    if let Some(padding) = padding
        && !map.contains_key("pad_token")
    {
        map.insert("pad_token".into(), padding.into());
    }
}

/// Special tokens without names of their own, and the setting that older folders have for them.
const LISTED: &str = "extra_special_tokens";
const LISTED_BEFORE: &str = "additional_special_tokens";

/// Adds special tokens of `special_tokens_map.json` that are listed under this name. Older lists count where there is no other.
fn list(map: &mut Map<String, Value>, name: &str, mut value: Value) {
    let has_some = |list: &&Value| {
        list.as_array().is_some_and(|list| !list.is_empty())
            || list.as_object().is_some_and(|map| !map.is_empty())
    };
    let known = map.get(LISTED).filter(has_some);
    let known = known.or_else(|| map.get(LISTED_BEFORE).filter(has_some));
    for token in value.as_array_mut().into_iter().flatten() {
        if let Some(token) = token.as_object_mut() {
            token.insert("special".into(), true.into());
        }
    }
    match (known.cloned(), value) {
        (None, value) => {
            map.insert(name.to_owned(), value);
        }
        (Some(Value::Array(mut all)), Value::Array(more)) if name == LISTED => {
            let more = more.into_iter().filter(|token| !all.contains(token));
            let more: Vec<Value> = more.collect();
            all.extend(more);
            map.insert(LISTED.into(), all.into());
        }
        _ => {}
    }
}

/// The number of brackets and quantifiers in the pattern of `tokenizer.json` that has most.
fn marks(value: &Value) -> usize {
    let most = match value {
        Value::Object(map) => map
            .iter()
            .map(|(name, inner)| match inner {
                Value::String(pattern) if name == "Regex" => {
                    pattern.matches(['(', '[', '{', '*', '+', '?']).count()
                }
                inner => marks(inner),
            })
            .max(),
        Value::Array(all) => all.iter().map(marks).max(),
        _ => None,
    };
    most.unwrap_or(0)
}

/// True if this setting is a special token.
pub(crate) fn is_token(name: &str) -> bool {
    name.ends_with("_token")
}

/// The special tokens by their names: those that every tokenizer may have, and those of this tokenizer alone.
fn special_tokens(settings: &Value) -> BTreeMap<String, String> {
    let entries = |map: &Value| map.as_object().cloned().unwrap_or_default();
    let own = entries(&settings["extra_special_tokens"]);
    let usual = entries(settings).into_iter();
    usual
        .filter(|(name, _)| is_token(name))
        .chain(own)
        .filter_map(|(name, token)| Some((name, token_text(&token)?)))
        .collect()
}

/// A token as `tokenizer_config.json` writes it: its text, or an object with its `content`.
pub(crate) fn token_text(value: &Value) -> Option<String> {
    value
        .as_str()
        .or_else(|| value["content"].as_str())
        .map(str::to_owned)
}

fn ids(value: &Value) -> Option<Vec<u32>> {
    TokenIds::read(value).map(|ids| ids.to_vec())
}

/// The chat templates of a folder that have files of their own.
struct OwnTemplates {
    default: Option<String>,
    others: BTreeMap<String, String>,
}

impl OwnTemplates {
    /// All templates as the settings would have them; none if there are no others than the default.
    fn in_settings(&self) -> Option<Value> {
        let default = self.default.as_ref().map(|text| (DEFAULT, text));
        let others = self.others.iter().map(|(name, text)| (name.as_str(), text));
        let all = default.into_iter().chain(others);
        let all = all.map(|(name, text)| json!({"name": name, "template": text}));
        (!self.others.is_empty()).then(|| all.collect())
    }
}

/// Reads the chat templates that have files of their own.
fn own_templates(folder: &Path) -> Result<OwnTemplates> {
    let mut others = BTreeMap::new();
    let place = folder.join(TEMPLATES);
    let unreadable = |source| Error::Read {
        path: place.clone(),
        source,
    };
    let entries = match std::fs::read_dir(&place) {
        Ok(entries) => Some(entries),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
        Err(e) => return Err(unreadable(e)),
    };
    for entry in entries.into_iter().flatten() {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(name) = name.and_then(|name| name.strip_suffix(".jinja")) {
            others.insert(name.to_owned(), files::text(&path)?);
        }
    }
    let default = match others.remove(DEFAULT) {
        Some(text) => Some(text),
        None => files::text_if_there(&folder.join(TEMPLATE))?,
    };
    Ok(OwnTemplates { default, others })
}

/// The template text in the settings, or the template named `default` if the settings have several.
fn template_in(settings: &Value) -> Option<&str> {
    match &settings["chat_template"] {
        Value::Array(named) => named
            .iter()
            .find(|t| t["name"] == DEFAULT)
            .and_then(|t| t["template"].as_str()),
        Value::Object(named) => named.get(DEFAULT).and_then(Value::as_str),
        text => text.as_str(),
    }
}

/// The names of the templates in the settings, if they have names.
fn template_names(settings: &Value) -> Vec<String> {
    let mut names: Vec<String> = match &settings["chat_template"] {
        Value::Array(named) => named
            .iter()
            .filter_map(|t| t["name"].as_str().map(str::to_owned))
            .collect(),
        Value::Object(named) => named.keys().cloned().collect(),
        _ => Vec::new(),
    };
    names.sort();
    names
}
