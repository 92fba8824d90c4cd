//! Tokens that the settings of a tokenizer name and its `tokenizer.json` lacks.

use std::collections::BTreeSet;

use serde_json::Value;
use tokenizers::AddedToken;

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

/// Adds the tokens that `settings` (`tokenizer_config.json`) name and the tokenizer does not yet find in texts, in
/// transformers' order. They get the ids in the model's vocabulary, or the next ids after the highest one. transformers
/// adds every token; here a token without a place among the model's `vocab_size` ids stays text, because no model could
/// read it.
pub(crate) fn add(
    tokenizer: &mut tokenizers::Tokenizer,
    settings: &Value,
    vocab_size: Option<u64>,
) {
    let found = tokenizer.get_added_tokens_decoder();
    let mut known: BTreeSet<String> = found.values().map(|token| token.content.clone()).collect();
    let mut missing = named(settings);
    missing.retain(|token| !token.content.is_empty() && known.insert(token.content.clone()));
    if missing.is_empty() {
        return;
    }
    let ids = tokenizer.get_vocab(true).into_values();
    let next = ids.max().map_or(0, |highest| u64::from(highest) + 1);
    let mut room = vocab_size.map_or(u64::MAX, |size| size.saturating_sub(next));
    missing.retain(|token| {
        let new = tokenizer.token_to_id(&token.content).is_none();
        let fits = !new || room > 0;
        room -= u64::from(new && fits);
        fits
    });
    tokenizer.add_tokens(&missing);
}

/// All tokens that the settings name.
fn named(settings: &Value) -> Vec<AddedToken> {
    let entries = |map: &'static str| settings[map].as_object().into_iter().flatten();
    let listed = |list: &'static str| settings[list].as_array().into_iter().flatten();
    let described = entries("added_tokens_decoder");
    let described = described.filter_map(|(id, token)| Some((id.parse::<u32>().ok()?, token)));
    let mut described: Vec<(u32, &Value)> = described.collect();
    described.sort_by_key(|(id, _)| *id);
    let described = described.into_iter();
    let described = described.filter_map(|(_, token)| read(token, false));
    let usual = USUAL.iter().map(|name| &settings[*name]);
    let own = settings.as_object().into_iter().flatten();
    let own = own.filter(|(name, _)| is_token(name) && !USUAL.contains(&name.as_str()));
    let own = own.chain(entries("extra_special_tokens"));
    // The older name counts where the newer one has nothing.
    let newer = listed("extra_special_tokens");
    let older = listed("additional_special_tokens");
    let older = older.take_while(|_| !has_entries(&settings["extra_special_tokens"]));
    let special = usual.chain(own.map(|(_, token)| token));
    let special = special.chain(newer).chain(older);
    described
        .chain(special.filter_map(|token| read(token, true)))
        .collect()
}

fn has_entries(value: &Value) -> bool {
    let listed = value.as_array().is_some_and(|list| !list.is_empty());
    listed || value.as_object().is_some_and(|map| !map.is_empty())
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
