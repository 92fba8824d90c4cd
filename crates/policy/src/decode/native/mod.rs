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
    /// Runs the prompts, sorted by descending length with equal ones side by side.
    pub fn begin(model: &'a Model, prompts: &[Prompt<'_>]) -> Result<Self> {
        Self::with(model, prompts, Width::here(), threads())
    }

    fn with(
        model: &'a Model,
        prompts: &[Prompt<'_>],
        width: Width,
        threads: usize,
    ) -> Result<Self> {
        let lanes = width.lanes();
        let longest = prompts.iter().map(|p| p.tokens.len() + p.more).max();
        let weights = Weights::pack(model, lanes, longest.unwrap_or_default())?;
        let mut rows: Vec<Row> = prompts
            .iter()
            .map(|p| Row::new(&weights.shape, p.tokens.len(), p.tokens.len() + p.more))
            .collect();
        let scores = prefill::run(model, prompts, |block, these, keys, values, from| {
            row::fill(&mut rows[these], block, &weights.shape, keys, values, from)
        })?;
        let vocabulary = weights.shape.vocabulary;
        let stride = weights.head.padded(lanes);
        let mut logits = vec![0.0; prompts.len() * stride];
        let plain = row::numbers(&scores)?;
        for (to, from) in logits
            .chunks_exact_mut(stride)
            .zip(plain.chunks_exact(vocabulary))
        {
            to[..vocabulary].copy_from_slice(from);
        }
        let threads = threads.clamp(1, prompts.len().div_ceil(ROWS_OF_A_THREAD).max(1));
        Ok(Native {
            model,
            width,
            rows,
            logits,
            stride,
            scratch: (0..threads).map(|_| Scratch::default()).collect(),
            weights,
        })
    }
}

impl Decoder for Native<'_> {
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

    fn keep(&mut self, rows: &[usize], _more: usize) -> Result<()> {
        let mut position = 0;
        self.rows.retain(|_| {
            position += 1;
            rows.binary_search(&(position - 1)).is_ok()
        });
        Ok(())
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
}

/// As many threads as libtorch would use.
fn threads() -> usize {
    usize::try_from(tch::get_num_threads()).unwrap_or(1).max(1)
}
