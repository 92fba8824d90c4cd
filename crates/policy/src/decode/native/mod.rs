//! Decoding with this crate's own kernels, for models with weights in single precision or bfloat16 in a processor's
//! memory.
//!
//! libtorch runs a step as some eighty operations. Each of them starts its threads, writes its result to memory and
//! treats all rows alike. Here each row has a cache of its own length, and there are two ways to share the work. For a
//! small model every thread runs the whole step for its own rows: weights are packed once in the order in which the
//! products read them, and threads synchronise once a step ([`step`]). A large model's weights are read in place, each
//! weight by one thread for all rows ([`shared`]).
//!
//! Arithmetic, keys and values are in single precision, also for weights in bfloat16. The exception are processors with
//! matrix tiles ([`tiles`]): there the inputs of a product with bfloat16 weights of a large model are rounded to
//! bfloat16 first, as libtorch does on every processor.
#![expect(
    unsafe_code,
    reason = "vector instructions, and threads that write to parts of one result"
)]

mod kernels;
mod low;
mod plain;
mod row;
mod shared;
mod simd;
mod step;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
#[cfg(target_arch = "x86_64")]
mod tiles;
#[cfg(not(target_arch = "x86_64"))]
#[path = "no_tiles.rs"]
mod tiles;
mod weights;

use tch::{Device, Kind};

use crate::decode::space::room;
use crate::decode::{Decoder, Prompt, prefill};
use crate::error::{Error, Result};
use crate::model::Model;
use kernels::Panels;
use low::Adapted;
use row::Row;
use shared::{Buffers, Hands};
use simd::Width;
use step::{Part, Scratch};
use weights::{Shape, Weights};

/// The largest model, in weights, that is packed. Beyond this size the copy of the weights costs memory, and reading
/// the weights takes the time, not arithmetic.
const LARGEST: i64 = 64 << 20;

/// Number of rows from which a thread of its own pays.
const ROWS_OF_A_THREAD: usize = 4;

/// Number of probabilities from which a thread of its own pays.
const SCORES_OF_A_THREAD: usize = 1 << 18;

/// Rows decoded by the kernels of this module.
pub(super) struct Native<'a> {
    model: &'a Model,
    width: Width,
    threads: usize,
    /// True if products may be computed by tiles.
    tiles: bool,
    weights: Held<'a>,
    rows: Vec<Row>,
    /// Scores of the next token, [rows, stride].
    logits: Vec<f32>,
    stride: usize,
}

/// The weights, packed or in place, and the working buffers.
enum Held<'a> {
    Packed(Weights<'a, Panels>, Vec<Scratch>),
    Plain(Box<Weights<'a, Adapted<'a>>>, Buffers),
}

impl Held<'_> {
    fn shape(&self) -> &Shape {
        match self {
            Held::Packed(weights, _) => &weights.shape,
            Held::Plain(weights, _) => &weights.shape,
        }
    }
}

/// True if this engine can run the model. An adapter is merged into packed weights; for unpacked weights a low-rank
/// product is added ([`low`]).
pub(super) fn serves(model: &Model) -> bool {
    model.device() == Device::Cpu && matches!(model.kind(), Kind::Float | Kind::BFloat16)
}

fn is_packed(model: &Model) -> bool {
    model.parameter_count() <= LARGEST
}

impl<'a> Native<'a> {
    /// A decoder without rows; `longest` is the largest number of tokens of a row.
    pub fn begin(model: &'a Model, longest: usize) -> Result<Self> {
        let mut own = Self::with(model, longest, is_packed(model), Width::here(), threads())?;
        own.tiles = tiles::are_here();
        Ok(own)
    }

    fn with(
        model: &'a Model,
        longest: usize,
        packed: bool,
        width: Width,
        threads: usize,
    ) -> Result<Self> {
        let lanes = width.lanes();
        let weights = if packed {
            let scratch = (0..threads.max(1)).map(|_| Scratch::default());
            Held::Packed(Weights::pack(model, lanes, longest)?, scratch.collect())
        } else {
            Held::Plain(
                Box::new(Weights::look(model, lanes, longest)?),
                Buffers::default(),
            )
        };
        Ok(Native {
            model,
            width,
            threads: threads.max(1),
            tiles: false,
            stride: weights.shape().vocabulary.next_multiple_of(2 * lanes),
            weights,
            rows: Vec::new(),
            logits: Vec::new(),
        })
    }
}

impl Decoder for Native<'_> {
    fn room(&self, stay: &[usize], _more: usize, join: &[Prompt<'_>]) -> usize {
        let stayed: usize = stay.iter().map(|r| self.rows[*r].capacity()).sum();
        stayed + join.iter().map(|p| p.tokens.len() + p.more).sum::<usize>()
    }

    fn turn(&mut self, stay: &[usize], _more: usize, join: &[Prompt<'_>]) -> Result<()> {
        let mut place = 0;
        self.rows.retain(|_| {
            place += 1;
            stay.binary_search(&(place - 1)).is_ok()
        });
        let (stayed, shape) = (self.rows.len(), self.weights.shape());
        for prompt in join {
            let length = prompt.tokens.len();
            let mut row = Row::new(shape, length, length + prompt.more)?;
            if let Some(like) = prompt.like {
                row.begin_like(shape, &self.rows[like]);
            }
            self.rows.push(row);
        }
        let joined = &mut self.rows[stayed..];
        let widen = !self.tiles && self.model.kind() == Kind::BFloat16;
        prefill::run(self.model, join, widen, |block, stretch, keys, values| {
            row::fill(joined, block, shape, stretch, keys, values)
        })
    }

    fn advance(&mut self, tokens: &[u32]) -> Result<()> {
        if tokens.len() != self.rows.len() {
            return Err(Error::Input(format!(
                "the call gives {} tokens for {} rows",
                tokens.len(),
                self.rows.len()
            )));
        }
        let wanted = self.rows.len() * self.stride;
        room(&mut self.logits, wanted, "hold scores of the vocabulary")?;
        self.logits.truncate(wanted);
        let (rows, logits, width) = (&mut self.rows, &mut self.logits, self.width);
        match &mut self.weights {
            Held::Packed(weights, scratch) => {
                apart(width, weights, rows, tokens, logits, scratch)?;
            }
            Held::Plain(weights, buffers) => {
                let hands = Hands {
                    width,
                    threads: self.threads,
                    tiles: self.tiles,
                };
                shared::run(hands, weights, rows, tokens, logits, buffers)?;
            }
        }
        Ok(())
    }

    fn probabilities(&mut self, sharpen: &[f32], into: &mut Vec<f32>) -> Result<()> {
        let (width, stride) = (self.width, self.stride);
        let vocabulary = self.weights.shape().vocabulary;
        let wanted = self.rows.len() * vocabulary;
        room(into, wanted, "hold probabilities of the vocabulary")?;
        into.truncate(wanted);
        let threads = (into.len() / SCORES_OF_A_THREAD).clamp(1, self.threads);
        let each = self.rows.len().div_ceil(threads).max(1);
        let mut parts = self
            .logits
            .chunks_mut(each * stride)
            .zip(sharpen.chunks(each))
            .zip(into.chunks_mut(each * vocabulary));
        let softmax = |((scores, sharpen), into): ((&mut [f32], &[f32]), &mut [f32])| {
            let scores = scores.chunks_exact_mut(stride);
            let rows = scores.zip(sharpen).zip(into.chunks_exact_mut(vocabulary));
            for ((scores, sharpen), into) in rows {
                // The vector instructions for maxima drop NaN; the caller has to see NaN.
                if scores[..vocabulary].iter().any(|s| s.is_nan()) {
                    into.fill(f32::NAN);
                    continue;
                }
                step::probabilities(width, scores, vocabulary, *sharpen);
                into.copy_from_slice(&scores[..vocabulary]);
            }
        };
        let ours = parts.next();
        std::thread::scope(|scope| {
            for part in parts {
                scope.spawn(move || softmax(part));
            }
            if let Some(part) = ours {
                softmax(part);
            }
        });
        Ok(())
    }
}

/// One step in which every thread runs its own rows.
///
/// # Errors
/// [`Error::Memory`], before anything is computed.
fn apart(
    width: Width,
    weights: &Weights<'_, Panels>,
    rows: &mut [Row],
    tokens: &[u32],
    logits: &mut [f32],
    scratch: &mut [Scratch],
) -> Result<()> {
    let count = rows.len();
    let threads = scratch.len().min(count.div_ceil(ROWS_OF_A_THREAD)).max(1);
    let each = count.div_ceil(threads).max(1);
    let stride = logits.len() / count.max(1);
    for (rows, scratch) in rows.chunks(each).zip(&mut *scratch) {
        scratch.fit(&weights.shape, rows, width.lanes())?;
    }
    let mut parts = rows
        .chunks_mut(each)
        .zip(tokens.chunks(each))
        .zip(logits.chunks_mut((each * stride).max(1)))
        .zip(scratch)
        .map(|(((rows, tokens), logits), scratch)| Part {
            rows,
            tokens,
            logits,
            scratch,
        });
    let ours = parts.next();
    std::thread::scope(|scope| {
        for part in parts {
            scope.spawn(move || step::run(width, weights, part));
        }
        if let Some(part) = ours {
            step::run(width, weights, part);
        }
    });
    Ok(())
}

/// As many threads as libtorch would use.
fn threads() -> usize {
    usize::try_from(tch::get_num_threads()).unwrap_or(1).max(1)
}
