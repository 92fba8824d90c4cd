//! What runs the model one token at a time for a batch of rows.
//!
//! The sampler knows only [`Decoder`]; which engine serves a model is decided in [`begin`].

mod native;
mod prefill;
pub(crate) mod space;
pub(crate) mod torch;

use crate::draw::Drawn;
use crate::error::Result;
use crate::model::Model;

/// The beginning of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prompt<'a> {
    /// Token ids that are run before the first [`Decoder::advance`]; there may be none.
    pub tokens: &'a [u32],
    /// How many tokens may be appended by [`Decoder::advance`].
    pub more: usize,
    /// A row that stays (its place among those) and began with the same tokens: what they left in its cache is copied.
    pub like: Option<usize>,
}

/// One row's draw, where nothing of its distribution is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// What its scores are multiplied by before the softmax: 1 / temperature.
    pub sharpen: f32,
    /// Take the likeliest token.
    pub greedy: bool,
    /// Where in [0, 1) the cumulative sum is inverted.
    pub u: f64,
}

/// What was drawn for a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub drawn: Drawn,
    /// ln of the token's probability under the scores as they are.
    pub raw: f32,
}

/// Rows that are written side by side. It begins without any.
pub(crate) trait Decoder {
    /// Tokens the cache has room for after [`Decoder::turn`] with the same arguments.
    fn room(&self, stay: &[usize], more: usize, join: &[Prompt<'_>]) -> usize;

    /// Goes on with the rows `stay` (places in the present batch, ascending), each of which may take `more` tokens, and behind them
    /// rows that begin with `join`, sorted by descending length with equal ones side by side.
    /// [`Decoder::advance`] has to follow before the next probabilities.
    fn turn(&mut self, stay: &[usize], more: usize, join: &[Prompt<'_>]) -> Result<()>;

    /// Appends one token to every row; one that took all the tokens it has room for gives nothing of use any more.
    fn advance(&mut self, tokens: &[u32]) -> Result<()>;

    /// Probabilities of every row's next token, row after row. Scores are multiplied by the row's `sharpen` (1 / temperature) before the softmax.
    fn probabilities(&mut self, sharpen: &[f32], into: &mut Vec<f32>) -> Result<()>;

    /// Does it draw by itself, where the scores lie? An engine whose scores lie in this process's memory has no reason to.
    fn draws(&self) -> bool {
        false
    }

    /// [`Decoder::probabilities`] of some rows alone, from an engine that draws for the others.
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

    /// Draws the next tokens of some rows, one for each of `asks`; nothing from an engine that does not draw.
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
