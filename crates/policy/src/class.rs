//! The classes as which transformers' `AutoTokenizer` opens a tokenizer.
//!
//! Most classes are what `tokenizer.json` describes. Four take from it the vocabulary, the merges, the added tokens and the
//! tokens around a text, and set the rest themselves: how a text is split, and how tokens become a text again.
//!
//! Source: transformers 5.24, `models/auto/tokenization_auto.py`, `tokenization_utils_tokenizers.py`, and
//! `tokenization_*.py` of the classes.

use serde_json::{Map, Value, json};
use tokenizers::PostProcessorWrapper;

use crate::bpe::PIECES;
use crate::tokenizer::token_text;

/// Special tokens with their names.
pub(crate) type Specials = &'static [(&'static str, &'static str)];

/// A blank in the tokens of characters.
const BLANK: &str = "\u{2581}";

/// The text in place of a gap that Code Llama is to fill. transformers puts the parts of such a text into another order; here a
/// text keeps its order.
pub(crate) const FILL: &str = "<FILL_ME>";

/// The special tokens of the classes of Llama.
const LLAMA: [(&str, &str); 3] = [
    ("bos_token", "<s>"),
    ("eos_token", "</s>"),
    ("unk_token", "<unk>"),
];

/// The special tokens of Code Llama's class for gaps in a text, in the order in which transformers adds them.
pub(crate) const GAPS: [(&str, &str); 5] = [
    ("prefix_token", "\u{2581}<PRE>"),
    ("middle_token", "\u{2581}<MID>"),
    ("suffix_token", "\u{2581}<SUF>"),
    ("eot_token", "\u{2581}<EOT>"),
    ("fill_token", FILL),
];

/// All special tokens of Code Llama's class.
const CODE_LLAMA: [(&str, &str); 8] = [
    LLAMA[0], LLAMA[1], LLAMA[2], GAPS[0], GAPS[1], GAPS[2], GAPS[3], GAPS[4],
];

/// A class of transformers' tokenizers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// `Qwen2Tokenizer`.
    Qwen2,
    /// `GPT2Tokenizer`.
    Gpt2,
    /// `LlamaTokenizer`.
    Llama,
    /// `CodeLlamaTokenizer`.
    CodeLlama,
    /// A class that is what `tokenizer.json` describes.
    File,
}

impl Class {
    /// The class of a tokenizer with these settings (`tokenizer_config.json`) for a model of this configuration; `file` is
    /// the text of `tokenizer.json`.
    pub fn of(settings: &Value, config: &Value, file: &str) -> Self {
        // `AutoTokenizer` takes any other class of these models for a mistake.
        if config["model_type"] == "qwen2" {
            return Class::Qwen2;
        }
        let named = settings["tokenizer_class"].as_str();
        let named = named.or_else(|| config["tokenizer_class"].as_str());
        let named = named.unwrap_or_default();
        match named.strip_suffix("Fast").unwrap_or(named) {
            "Qwen2Tokenizer" => Class::Qwen2,
            "GPT2Tokenizer" => Class::Gpt2,
            // Those of Llama 3 and of DeepSeek name this class, which is of another kind, and it ignores the name.
            "LlamaTokenizer" if !file.contains("\"ByteLevel\"") => Class::Llama,
            "CodeLlamaTokenizer" => Class::CodeLlama,
            _ => Class::File,
        }
    }

    /// The special tokens that a tokenizer of this class has unless its files name others, or none by `null`.
    pub fn specials(self) -> Specials {
        match self {
            Class::Qwen2 => &[
                ("eos_token", "<|endoftext|>"),
                ("pad_token", "<|endoftext|>"),
                ("unk_token", "<|endoftext|>"),
            ],
            Class::Gpt2 => &[
                ("bos_token", "<|endoftext|>"),
                ("eos_token", "<|endoftext|>"),
                ("unk_token", "<|endoftext|>"),
            ],
            Class::Llama => &LLAMA,
            Class::CodeLlama => &CODE_LLAMA,
            Class::File => &[],
        }
    }

    /// Changes the content of `tokenizer.json` to what the class makes of it. `settings` has the special tokens of the
    /// class, too. Returns this class, or [`Class::File`] if the file stays as it is.
    #[must_use]
    pub fn rebuild(self, file: &mut Value, settings: &Value) -> Self {
        // These classes know merges alone. A file without them stays as it is.
        if !file["model"]["merges"].is_array() {
            return Class::File;
        }
        let blank = settings["add_prefix_space"].as_bool();
        let (normalizer, pre_tokenizer, decoder) = match self {
            Class::File => return self,
            Class::Qwen2 => {
                let pieces = json!({
                    "type": "Split", "pattern": {"Regex": PIECES}, "behavior": "Isolated", "invert": false,
                });
                let bytes = of_bytes(blank.unwrap_or(false), false);
                let split = json!({"type": "Sequence", "pretokenizers": [pieces, bytes]});
                (json!({"type": "NFC"}), split, of_bytes(false, false))
            }
            Class::Gpt2 => {
                let split = of_bytes(blank.unwrap_or(false), true);
                (Value::Null, split, of_bytes(false, true))
            }
            Class::Llama | Class::CodeLlama => {
                let legacy = self == Class::Llama && settings["legacy"].as_bool() == Some(true);
                let scheme = match blank {
                    Some(false) => "never",
                    _ if legacy => "always",
                    _ => "first",
                };
                let split = json!({
                    "type": "Metaspace", "replacement": BLANK, "prepend_scheme": scheme, "split": false,
                });
                let strips = self == Class::CodeLlama || scheme != "never";
                (Value::Null, split, to_characters(strips))
            }
        };
        file["normalizer"] = normalizer;
        file["pre_tokenizer"] = pre_tokenizer;
        file["decoder"] = decoder;
        let characters = matches!(self, Class::Llama | Class::CodeLlama);
        let unknown = match self {
            Class::CodeLlama => token_text(&settings["unk_token"]).into(),
            _ => Value::Null,
        };
        for (name, value) in [
            ("type", Value::from("BPE")),
            ("dropout", Value::Null),
            ("unk_token", unknown),
            ("continuing_subword_prefix", Value::Null),
            ("end_of_word_suffix", Value::Null),
            ("fuse_unk", characters.into()),
            ("byte_fallback", characters.into()),
            ("ignore_merges", false.into()),
        ] {
            file["model"][name] = value;
        }
        self
    }

    /// Changes the tokens that a rebuilt tokenizer puts around a text to those of the class. The tokenizer has all its tokens.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn surround(
        self,
        tokenizer: &mut tokenizers::Tokenizer,
        settings: &Value,
    ) -> serde_json::Result<()> {
        // The only class with a default for `add_bos_token`, by which it replaces what the file puts around a text.
        if self == Class::CodeLlama {
            let around: PostProcessorWrapper =
                serde_json::from_value(beginning(tokenizer, settings))?;
            tokenizer.with_post_processor(Some(around));
        }
        Ok(())
    }
}

/// Splits a text into bytes, or joins them. With `blank` each part of a text begins with a blank; with `words` the text is
/// first split as GPT-2 splits it.
fn of_bytes(blank: bool, words: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": blank, "trim_offsets": false, "use_regex": words})
}

/// Joins tokens of characters to a text, without the blank before it if `strips`.
fn to_characters(strips: bool) -> Value {
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": BLANK}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if strips {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    json!({"type": "Sequence", "decoders": decoders})
}

/// Puts the begin token before a text, if there is one.
fn beginning(tokenizer: &tokenizers::Tokenizer, settings: &Value) -> Value {
    let (mut before, mut tokens) = (Vec::new(), Map::new());
    if let Some(begin) = token_text(&settings["bos_token"])
        && let Some(id) = tokenizer.token_to_id(&begin)
    {
        before.push(json!({"SpecialToken": {"id": begin, "type_id": 0}}));
        let token = json!({"id": begin, "ids": [id], "tokens": [begin]});
        tokens.insert(begin, token);
    }
    let text = |id: &str, kind: u32| json!({"Sequence": {"id": id, "type_id": kind}});
    let single = [&before[..], &[text("A", 0)]].concat();
    let pair = [&before[..], &[text("A", 0), text("B", 1)]].concat();
    json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens})
}
