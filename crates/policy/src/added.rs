//! The tokens that are added to a vocabulary, and how texts are searched for them, by all files of a folder.
//!
//! Source: transformers 5.24, `tokenization_utils_base.py` and `tokenization_utils_tokenizers.py`. tokenizers' own merge of two
//! descriptions of a token keeps parts of both; here each token is added once, with the properties that transformers gives it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};
use tokenizers::AddedToken;

use crate::class::{Class, FILL, GAPS};
use crate::tokenizer::{is_token, token_text};

/// The special tokens that every tokenizer may have, in the order in which transformers adds them.
const USUAL: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// An entry of `added_tokens` in `tokenizer.json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Own {
    id: u32,
    #[serde(flatten)]
    token: AddedToken,
}

/// Takes the added tokens out of the content of `tokenizer.json`.
///
/// # Errors
/// If they are no list of tokens.
pub(crate) fn take(file: &mut Value) -> serde_json::Result<Vec<Own>> {
    match file.get_mut("added_tokens") {
        Some(tokens) => serde_json::from_value(std::mem::replace(tokens, json!([]))),
        None => Ok(Vec::new()),
    }
}

/// Adds all tokens of a folder to its tokenizer: those of `tokenizer.json` (`own`) and those that `settings`
/// (`tokenizer_config.json`) name, in transformers' order. They get the ids in the model's vocabulary, or the next ids after the
/// highest one. `class` is the class that rebuilt the tokenizer, or [`Class::File`].
///
/// - The properties in `added_tokens_decoder` replace those of `tokenizer.json`. A token that is special in one of them is
///   special.
/// - A class that rebuilds the tokenizer has the tokens of `added_tokens_decoder` alone, if there are settings of this name.
/// - A special token that the settings name is special. It has the properties that they give it if no other description of it
///   was read.
///
/// transformers adds every token; here a token of the settings without a place among the model's `vocab_size` ids stays text,
/// because no model could read it. So does the token for gaps of Code Llama's class.
pub(crate) fn add(
    tokenizer: &mut tokenizers::Tokenizer,
    own: &[Own],
    settings: &Value,
    class: Class,
    vocab_size: Option<u64>,
) {
    let mut tokens = Tokens::default();
    if class == Class::File {
        for own in own {
            tokens.put(own.token.clone());
        }
    }
    let of_file = tokens.all.len();
    describe(&mut tokens, own, settings, class);
    let mut new = tokens.all.split_off(of_file);
    // The next ids follow those of the file.
    tokenizer.add_tokens(&tokens.all);
    let ids = tokenizer.get_vocab(true).into_values();
    let next = ids.max().map_or(0, |highest| u64::from(highest) + 1);
    let mut room = vocab_size.map_or(u64::MAX, |size| size.saturating_sub(next));
    let fill = Some(FILL).filter(|_| class == Class::CodeLlama);
    let kept = own.iter().map(|own| own.token.content.as_str());
    let kept: BTreeSet<&str> = kept.filter(|content| Some(*content) != fill).collect();
    new.retain(|token| {
        let is_new = tokenizer.token_to_id(&token.content).is_none();
        let fits = !is_new || room > 0 || kept.contains(token.content.as_str());
        room = room.saturating_sub(u64::from(is_new && fits));
        fits
    });
    tokenizer.add_tokens(&new);
}

/// Added tokens in the order in which they came, each once.
#[derive(Default)]
struct Tokens {
    all: Vec<AddedToken>,
    /// The place of each content in `all`.
    places: BTreeMap<String, usize>,
}

impl Tokens {
    /// Adds a token, or gives the one that is there these properties.
    fn put(&mut self, token: AddedToken) {
        if token.content.is_empty() {
            return;
        }
        if let Some(place) = self.places.get(&token.content).copied() {
            let known = &mut self.all[place];
            let special = known.special || token.special;
            *known = token.special(special);
        } else {
            self.places.insert(token.content.clone(), self.all.len());
            self.all.push(token);
        }
    }
}

/// Puts the tokens that are described, and then those that are only named.
fn describe(tokens: &mut Tokens, own: &[Own], settings: &Value, class: Class) {
    let (named, listed) = (named(settings, class), listed(settings));
    let names: BTreeSet<String> = named.iter().filter_map(|token| token_text(token)).collect();
    for token in described(own, settings) {
        let special = token.special || names.contains(&token.content);
        tokens.put(token.special(special));
    }
    let known: BTreeSet<String> = tokens.places.keys().cloned().collect();
    let mut seen = BTreeSet::new();
    let both = named.iter().map(|token| (*token, true));
    let both = both.chain(listed.iter().map(|token| (*token, token.is_string())));
    for (value, special) in both {
        if let Some(token) = read(value, special)
            && !known.contains(&token.content)
            && seen.insert(value.to_string())
        {
            tokens.put(token);
        }
    }
    // This class adds its special tokens a second time, as texts.
    if class == Class::Qwen2 {
        let texts = named.iter().chain(&listed);
        for text in texts.filter_map(|token| token_text(token)) {
            tokens.put(AddedToken::from(text, true));
        }
    }
}

/// The tokens that `added_tokens_decoder` describes, or else `tokenizer.json`, in the order of their ids there.
fn described(own: &[Own], settings: &Value) -> Vec<AddedToken> {
    let by_id: BTreeMap<u32, AddedToken> = match settings["added_tokens_decoder"].as_object() {
        Some(entries) => entries
            .iter()
            .filter_map(|(id, token)| Some((id.parse().ok()?, read(token, false)?)))
            .collect(),
        None => own.iter().map(|own| (own.id, own.token.clone())).collect(),
    };
    by_id.into_values().collect()
}

/// The special tokens that the settings have by names: those that every tokenizer may have, those of the class, and those of
/// this tokenizer alone.
fn named(settings: &Value, class: Class) -> Vec<&Value> {
    let gaps: &[(&str, &str)] = match class {
        Class::CodeLlama => &GAPS,
        _ => &[],
    };
    let first = USUAL.iter().chain(gaps.iter().map(|(name, _)| name));
    let first: Vec<&str> = first.copied().collect();
    let own = settings.as_object().into_iter().flatten();
    let own = own.filter(|(name, _)| is_token(name) && !first.contains(&name.as_str()));
    let extra = settings["extra_special_tokens"].as_object();
    let own = own.chain(extra.into_iter().flatten());
    let first = first.iter().map(move |name| &settings[*name]);
    first.chain(own.map(|(_, token)| token)).collect()
}

/// The special tokens that the settings list without names. The older list counts where the newer one has nothing.
fn listed(settings: &Value) -> Vec<&Value> {
    let newer = &settings["extra_special_tokens"];
    let has_newer = newer.as_array().is_some_and(|list| !list.is_empty())
        || newer.as_object().is_some_and(|map| !map.is_empty());
    let list = match has_newer {
        true => newer,
        false => &settings["additional_special_tokens"],
    };
    list.as_array().into_iter().flatten().collect()
}

/// A token as `tokenizer_config.json` writes it: its text, or an object with its `content` and how texts are searched
/// for it.
fn read(token: &Value, special: bool) -> Option<AddedToken> {
    let flag = |name: &str| token[name].as_bool();
    let special = special || flag("special").unwrap_or_default();
    let read = AddedToken::from(token_text(token)?, special)
        .single_word(flag("single_word").unwrap_or_default())
        .lstrip(flag("lstrip").unwrap_or_default())
        .rstrip(flag("rstrip").unwrap_or_default())
        .normalized(flag("normalized").unwrap_or(!special));
    Some(read)
}
