//! Runs the model one token at a time for a batch of rows.
//!
//! The sampler knows only [`Decoder`]; [`begin`] chooses the engine for a model.

mod native;
mod prefill;
pub(crate) mod space;
pub(crate) mod torch;

use crate::draw::Drawn;
use crate::error::Result;
use crate::model::Model;

/// A new row's prompt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prompt<'a> {
    /// Token ids that are run before the first [`Decoder::advance`]; may be empty.
    pub tokens: &'a [u32],
    /// Largest number of tokens that [`Decoder::advance`] may append.
    pub more: usize,
    /// Place, among the staying rows, of a row that began with the same tokens: its cache entries for them are copied.
    pub like: Option<usize>,
}

/// One row's draw from its whole distribution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// The factor of the scores before the softmax: 1 / temperature.
    pub sharpen: f32,
    /// Take the likeliest token.
    pub greedy: bool,
    /// The number in [0, 1) at which the cumulative sum is inverted.
    pub u: f64,
}

/// The token drawn for a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub drawn: Drawn,
    /// ln of the token's probability under the unscaled scores.
    pub raw: f32,
}

/// Rows that are decoded together. A new decoder has no rows.
pub(crate) trait Decoder {
    /// Number of tokens that the cache has room for after [`Decoder::turn`] with the same arguments.
    fn room(&self, stay: &[usize], more: usize, join: &[Prompt<'_>]) -> usize;

    /// Keeps the rows `stay` (places in the present batch, ascending), each of which may take `more` tokens, and
    /// appends rows that begin with `join`, sorted by descending length with equal ones next to each other.
    /// [`Decoder::advance`] has to follow before the next probabilities.
    fn turn(&mut self, stay: &[usize], more: usize, join: &[Prompt<'_>]) -> Result<()>;

    /// Appends one token to every row. The output of a row whose room is used up is meaningless.
    fn advance(&mut self, tokens: &[u32]) -> Result<()>;

    /// Probabilities of every row's next token, row after row. Each row's scores are multiplied by its `sharpen` (1 /
    /// temperature) before the softmax.
    fn probabilities(&mut self, sharpen: &[f32], into: &mut Vec<f32>) -> Result<()>;

    /// True if the decoder draws tokens itself, on the device that holds the scores. An engine whose scores are in this
    /// process's memory need not.
    fn draws(&self) -> bool {
        false
    }

    /// [`Decoder::probabilities`] of the given rows only, from an engine that draws for the other rows.
    fn probabilities_of(
        &mut self,
        rows: &[usize],
        sharpen: &[f32],
        into: &mut Vec<f32>,
    ) -> Result<()> {
        let _unused = (rows, sharpen);
        into.clear();
        Ok(())
    }

    /// Draws the next tokens of the given rows, one for each of `asks`; empty from an engine that does not draw.
    fn draw(&mut self, rows: &[usize], asks: &[Ask]) -> Result<Vec<Answer>> {
        let _unused = (rows, asks);
        Ok(Vec::new())
    }
}

/// An engine for a model whose rows have at most `longest` tokens.
pub(crate) fn begin(model: &Model, longest: usize) -> Result<Box<dyn Decoder + '_>> {
    if native::serves(model) {
        Ok(Box::new(native::Native::begin(model, longest)?))
    } else {
        Ok(Box::new(torch::Torch::begin(model)))
    }
}

/// Bytes of keys and values for one token of one row.
pub(crate) fn bytes_of_token(model: &Model) -> usize {
    let c = model.config();
    let width = match native::serves(model) {
        true => 4,
        false => crate::layout::bytes_of(model.kind()).unwrap_or(4),
    };
    (c.num_hidden_layers * 2 * c.kv_heads() * c.head() * width) as usize
}
