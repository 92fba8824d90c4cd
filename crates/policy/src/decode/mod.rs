//! What runs the model one token at a time for a batch of rows.
//!
//! The sampler knows only [`Decoder`]; which engine serves a model is decided in [`begin`].

mod native;
mod prefill;
mod torch;

use crate::error::Result;
use crate::model::Model;

/// The beginning of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prompt<'a> {
    /// Its token ids; at least one.
    pub tokens: &'a [u32],
    /// How many tokens may be appended by [`Decoder::advance`].
    pub more: usize,
}

/// Rows that are written side by side.
pub(crate) trait Decoder {
    /// Probabilities of every row's next token, row after row. Scores are multiplied by the row's `sharpen` (1 / temperature) before the softmax.
    fn probabilities(&mut self, sharpen: &[f32], into: &mut Vec<f32>) -> Result<()>;

    /// Goes on with only `rows` (positions in the present batch, ascending), each of which may take `more` tokens.
    /// [`Decoder::advance`] has to follow before the next probabilities.
    fn keep(&mut self, rows: &[usize], more: usize) -> Result<()>;

    /// Appends one token to every row; one that took all the tokens it has room for gives nothing of use any more.
    fn advance(&mut self, tokens: &[u32]) -> Result<()>;
}

/// Runs the prompts, sorted by descending length with equal ones side by side.
pub(crate) fn begin<'a>(model: &'a Model, rows: &[Prompt<'_>]) -> Result<Box<dyn Decoder + 'a>> {
    if native::serves(model) {
        Ok(Box::new(native::Native::begin(model, rows)?))
    } else {
        Ok(Box::new(torch::Torch::begin(model, rows)?))
    }
}

/// Bytes of keys and values for one token of one row.
pub(crate) fn bytes_of_token(model: &Model) -> usize {
    let c = model.config();
    let width = crate::layout::bytes_of(model.kind()).unwrap_or(4);
    (c.num_hidden_layers * 2 * c.kv_heads() * c.head() * width) as usize
}
