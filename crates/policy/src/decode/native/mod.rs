//! Decoding by kernels of our own, for models whose weights lie in single precision in a processor's memory.
//!
//! libtorch runs a step as some eighty operations, each of which starts its threads, writes its result to memory and
//! treats all rows alike. Here every thread runs the whole step for rows of its own: weights are packed once in the order
//! in which the products read them, rows have caches of their own length, and threads meet once a step.
#![expect(
    unsafe_code,
    reason = "vector instructions, and threads that write to parts of one result"
)]

mod kernels;
mod row;
mod simd;
mod step;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
mod weights;

use tch::{Device, Kind};

use crate::decode::{Decoder, Prompt, prefill};
use crate::error::{Error, Result};
use crate::model::Model;
use row::Row;
use simd::Width;
use step::{Part, Scratch};
use weights::Weights;

/// The largest model that is packed: beyond, the copy of its weights costs memory and reading them, not arithmetic, is what takes time.
const LARGEST: i64 = 64 << 20;

/// Fewer rows than this are not worth a thread of their own.
const ROWS_OF_A_THREAD: usize = 4;

/// Rows decoded by the kernels of this module.
pub(super) struct Native<'a> {
    model: &'a Model,
    width: Width,
    weights: Weights,
    rows: Vec<Row>,
    /// Scores of the next token, [rows, stride].
    logits: Vec<f32>,
    stride: usize,
    scratch: Vec<Scratch>,
}

/// Is a model one for this engine?
pub(super) fn serves(model: &Model) -> bool {
    model.device() == Device::Cpu
        && model.kind() == Kind::Float
        && model.parameter_count() <= LARGEST
}

impl<'a> Native<'a> {
    /// No rows yet; `longest` is the most tokens that one will have.
    pub fn begin(model: &'a Model, longest: usize) -> Result<Self> {
        Self::with(model, longest, Width::here(), threads())
    }

    fn with(model: &'a Model, longest: usize, width: Width, threads: usize) -> Result<Self> {
        let weights = Weights::pack(model, width.lanes(), longest)?;
        Ok(Native {
            model,
            width,
            stride: weights.head.padded(width.lanes()),
            weights,
            rows: Vec::new(),
            logits: Vec::new(),
            scratch: (0..threads.max(1)).map(|_| Scratch::default()).collect(),
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
        let (stayed, shape) = (self.rows.len(), &self.weights.shape);
        for prompt in join {
            let length = prompt.tokens.len();
            let mut row = Row::new(shape, length, length + prompt.more);
            if let Some(like) = prompt.like {
                row.begin_like(shape, &self.rows[like]);
            }
            self.rows.push(row);
        }
        let joined = &mut self.rows[stayed..];
        prefill::run(self.model, join, |block, stretch, keys, values| {
            row::fill(joined, block, shape, stretch, keys, values)
        })
    }

    fn advance(&mut self, tokens: &[u32]) -> Result<()> {
        if tokens.len() != self.rows.len() {
            return Err(Error::Input(format!(
                "{} tokens for {} rows",
                tokens.len(),
                self.rows.len()
            )));
        }
        debug_assert_eq!(self.model.blocks(), self.weights.blocks.len());
        self.logits.resize(self.rows.len() * self.stride, 0.0);
        let threads = self
            .scratch
            .len()
            .min(self.rows.len().div_ceil(ROWS_OF_A_THREAD))
            .max(1);
        let each = self.rows.len().div_ceil(threads).max(1);
        let (weights, width, stride) = (&self.weights, self.width, self.stride);
        let mut parts: Vec<Part<'_>> = self
            .rows
            .chunks_mut(each)
            .zip(tokens.chunks(each))
            .zip(self.logits.chunks_mut(each * stride))
            .zip(&mut self.scratch)
            .map(|(((rows, tokens), logits), scratch)| Part {
                rows,
                tokens,
                logits,
                scratch,
            })
            .collect();
        let Some(ours) = parts.pop() else {
            return Ok(());
        };
        std::thread::scope(|scope| {
            for part in parts {
                scope.spawn(move || step::run(width, weights, part));
            }
            step::run(width, weights, ours);
        });
        Ok(())
    }

    fn probabilities(&mut self, sharpen: &[f32], into: &mut Vec<f32>) -> Result<()> {
        let vocabulary = self.weights.shape.vocabulary;
        into.resize(self.rows.len() * vocabulary, 0.0);
        let scores = self.logits.chunks_exact_mut(self.stride);
        for ((scores, sharpen), into) in scores.zip(sharpen).zip(into.chunks_exact_mut(vocabulary))
        {
            // The vector instructions for extremes lose what is no number; the caller has to see it.
            if scores[..vocabulary].iter().any(|s| s.is_nan()) {
                into.fill(f32::NAN);
                continue;
            }
            step::probabilities(self.width, scores, vocabulary, *sharpen);
            into.copy_from_slice(&scores[..vocabulary]);
        }
        Ok(())
    }
}

/// As many threads as libtorch would use.
fn threads() -> usize {
    usize::try_from(tch::get_num_threads()).unwrap_or(1).max(1)
}
