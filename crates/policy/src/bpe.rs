//! Training a byte-level BPE tokenizer on source code.

use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior};

use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;

/// The pieces of text that a merge may not cross: Qwen2's own rule. transformers applies this rule (and NFC) to every
/// folder whose `model_type` is `qwen2` and ignores the rule of its `tokenizer.json`. With any other rule transformers
/// would read other tokens.
pub(crate) const PIECES: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"|[^\r\n\p{L}\p{N}]?\p{L}+",
    r"|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+",
    r"|\s+(?!\S)",
    r"|\s+",
);

/// The words of C: names, digits one by one, operators, and every other character by itself. Within a piece of [`PIECES`],
/// neighbours are of other kinds, or pairs that no operator consists of.
const WORDS: &str = r"\p{L}+|\p{N}|[-+*/%<>=!]=|\+\+|--|&&|\|\||\s|[^\s\p{L}\p{N}]";

/// Learns merges from `texts` until there are `vocab_size` tokens (or nothing is left to merge).
///
/// Every byte has its own token, so every text (in Unicode's composed form) can be encoded. `specials` come first, in
/// their order; the first of them ends an answer and pads batches. The same input gives the same tokenizer, bit for
/// bit.
pub fn train_bpe(texts: &[String], vocab_size: usize, specials: &[&str]) -> Result<Tokenizer> {
    train(texts, vocab_size, specials, PIECES)
}

/// As [`train_bpe`], with merges within words of C only: no token has a name and a bracket, a blank or an operator. So a name
/// or a subscript has the same tokens wherever it stands, and can be copied token by token.
pub fn train_words(texts: &[String], vocab_size: usize, specials: &[&str]) -> Result<Tokenizer> {
    train(texts, vocab_size, specials, WORDS)
}

/// Learns merges within the pieces of a rule. The tokenizer splits by [`PIECES`] whatever the rule.
fn train(texts: &[String], vocab_size: usize, specials: &[&str], rule: &str) -> Result<Tokenizer> {
    let Some(end) = specials.first() else {
        return Err(Error::Input(
            "a tokenizer needs at least one special token: the first ends an answer".into(),
        ));
    };
    let least = 256 + specials.len();
    if vocab_size < least {
        return Err(Error::Input(format!(
            "a byte-level tokenizer with {} special tokens needs at least {least} tokens, but {vocab_size} are requested",
            specials.len()
        )));
    }
    let bytes = ByteLevel::new(false, false, false);
    let mut inner = tokenizers::Tokenizer::new(BPE::default());
    inner
        .with_normalizer(Some(NFC))
        .with_pre_tokenizer(Some(splitting(rule)?))
        .with_decoder(Some(bytes));
    let trainer = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(vocab_size)
        .min_frequency(2)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(
            specials
                .iter()
                .map(|s| AddedToken::from(*s, true))
                .collect(),
        )
        .build();
    inner
        .train(&mut TrainerWrapper::BpeTrainer(trainer), texts.iter())
        .map_err(failed)?;
    inner.with_pre_tokenizer(Some(splitting(PIECES)?));
    Ok(Tokenizer::trained(inner, end))
}

/// Splits a text into the pieces of a rule, and these into bytes.
fn splitting(rule: &str) -> Result<PreTokenizerWrapper> {
    let split = Split::new(
        SplitPattern::Regex(rule.into()),
        SplitDelimiterBehavior::Isolated,
        false,
    )
    .map_err(failed)?;
    Ok(PreTokenizerWrapper::Sequence(Sequence::new(vec![
        PreTokenizerWrapper::Split(split),
        PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, false, false)),
    ])))
}

fn failed(source: tokenizers::Error) -> Error {
    Error::Tokenizer {
        doing: "learn merges",
        source,
    }
}
