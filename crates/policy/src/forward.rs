//! The forward pass over whole sequences.

use std::ops::Range;

use tch::{Kind, Tensor};

use crate::block::Sequences;
use crate::error::{Doing, Error, Result};
use crate::model::{Block, Linear, Model};
use crate::pass::Plan;

/// Whether a pass computes the entropy of each distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entropy {
    /// No entropy.
    Skip,
    /// A number to report; no gradient flows through it.
    Report,
    /// A number with a gradient, for an entropy bonus.
    Train,
}

impl Model {
    /// The last hidden states, after the final norm: `ids` [rows, length] of i64 → [rows, length, hidden].
    ///
    /// Attention is causal, so a row may be padded at its end with any token: earlier positions do not depend on it.
    pub fn hidden(&self, ids: &Tensor) -> Result<Tensor> {
        self.run(ids, |_, _, _| Ok(()))
    }

    /// [`Model::hidden`], which also passes the keys and values of each block, [rows, kv heads, length, head], to
    /// `keep`.
    pub(crate) fn run(
        &self,
        ids: &Tensor,
        mut keep: impl FnMut(usize, &Tensor, &Tensor) -> Result<()>,
    ) -> Result<Tensor> {
        let (rows, length) = ids.size2().map_err(|_| {
            Error::Input(format!(
                "token ids must have two dimensions, not {:?}",
                ids.size()
            ))
        })?;
        let sequences = self.sequences(rows, length, None)?;
        let mut x = self.embed(ids)?;
        for n in 0..self.blocks() {
            x = self.run_block(n, &x, &sequences, &mut keep)?;
        }
        self.norm(&x, self.last_norm())?
            .f_view([rows, length, self.config.hidden_size])
            .doing("shape hidden states")
    }

    /// Only the keys and values of [`Model::run`], computed in single precision for weights of any kind: each block's
    /// weights are widened while the block runs. A processor without tiles for half precision multiplies large
    /// half-precision matrices more slowly than single-precision ones.
    pub(crate) fn run_widened(
        &self,
        ids: &Tensor,
        mut keep: impl FnMut(usize, &Tensor, &Tensor) -> Result<()>,
    ) -> Result<()> {
        let (rows, length) = ids.size2().doing("read the shape of token ids")?;
        let sequences = self.sequences(rows, length, None)?;
        let wide = |t: &Tensor| t.f_to_kind(Kind::Float).doing("widen a block's weights");
        let mut x = wide(&self.embed(ids)?)?;
        for n in 0..self.blocks() {
            let w = self.block(n);
            let matrices = [&w.qkv, &w.out, &w.gate_up, &w.down].map(|l| wide(l.weight));
            let [qkv, out, gate_up, down] = matrices;
            let (qkv, out, gate_up, down) = (qkv?, out?, gate_up?, down?);
            let (norm1, norm2) = (wide(w.norm1)?, wide(w.norm2)?);
            let bias = w.qkv.bias.map(wide).transpose()?;
            let widened = Block {
                norm1: &norm1,
                norm2: &norm2,
                qkv: Linear {
                    weight: &qkv,
                    bias: bias.as_ref(),
                    low: w.qkv.low,
                },
                out: Linear {
                    weight: &out,
                    ..w.out
                },
                gate_up: Linear {
                    weight: &gate_up,
                    ..w.gate_up
                },
                down: Linear {
                    weight: &down,
                    ..w.down
                },
            };
            let (behind, halves) = self.run_to_gate(&widened, n, &x, &sequences, &mut keep)?;
            if n + 1 < self.blocks() {
                x = self.run_from_gate(&widened, n, &behind, &halves, &sequences)?;
            }
        }
        Ok(())
    }

    /// The inputs that the blocks of a pass over `rows` sequences of `length` tokens share.
    pub(crate) fn sequences(
        &self,
        rows: i64,
        length: i64,
        noise: Option<u64>,
    ) -> Result<Sequences> {
        if length > self.config.max_position_embeddings || length == 0 {
            return Err(Error::Input(format!(
                "sequences of {length} tokens do not fit the model's {} positions",
                self.config.max_position_embeddings
            )));
        }
        let rotations = self
            .rotary
            .range(0, length)?
            .f_unsqueeze(1)
            .doing("shape rotations")?;
        Ok(Sequences {
            rows,
            length,
            rotations,
            noise,
        })
    }

    /// A reward model's score of a text.
    ///
    /// # Errors
    /// If the model is not a reward model.
    pub fn reward(&self, ids: &[u32]) -> Result<f32> {
        let row: Vec<i64> = ids.iter().map(|id| i64::from(*id)).collect();
        let tensor = Tensor::f_from_slice(&row)
            .and_then(|t| t.f_to_device(self.device())?.f_unsqueeze(0))
            .doing("hand over token ids")?;
        let plan = Plan {
            logprobs: false,
            values: true,
            ..Plan::LOGPROBS
        };
        let end = row.len()..row.len() + 1;
        let scores = self.scores(&tensor, &[end], &[1.0], plan)?;
        Ok(scores.values.first().copied().unwrap_or_default() as f32)
    }

    /// Log-probabilities of the whole vocabulary after each of `ids`: positions × vocabulary.
    pub fn logits_all(&self, ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        let _guard = tch::no_grad_guard();
        if let Some(id) = ids
            .iter()
            .find(|id| i64::from(**id) >= self.config.vocab_size)
        {
            return Err(Error::Input(format!(
                "token {id} is outside the vocabulary of {}",
                self.config.vocab_size
            )));
        }
        let ids: Vec<i64> = ids.iter().map(|id| i64::from(*id)).collect();
        let ids = Tensor::f_from_slice(&ids)
            .and_then(|t| t.f_to_device(self.device())?.f_unsqueeze(0))
            .doing("hand over token ids")?;
        let head = self.head()?;
        let all = self
            .hidden(&ids)?
            .f_squeeze_dim(0)
            .and_then(|h| h.f_linear(head, None::<&Tensor>))
            .and_then(|t| t.f_log_softmax(-1, self.wide()))
            .and_then(|t| t.f_to_kind(Kind::Float)?.f_to_device(tch::Device::Cpu))
            .doing("score the vocabulary")?;
        Vec::<Vec<f32>>::try_from(&all).doing("read log-probabilities")
    }
}

pub(crate) fn check(
    rows: usize,
    length: usize,
    wanted: &[Range<usize>],
    temperature: &[f64],
) -> Result<()> {
    if wanted.len() != rows {
        return Err(Error::Input(format!(
            "the call names {} ranges of positions for {rows} rows",
            wanted.len()
        )));
    }
    if temperature.len() != 1 && temperature.len() != rows {
        return Err(Error::Input(format!(
            "the call names {} temperatures for {rows} rows",
            temperature.len()
        )));
    }
    if let Some(t) = temperature.iter().find(|t| !(**t > 0.0 && t.is_finite())) {
        return Err(Error::Input(format!(
            "temperature {t} is not a positive number"
        )));
    }
    let fits = |r: &Range<usize>| r.is_empty() || (r.start >= 1 && r.end <= length);
    match wanted.iter().position(|r| !fits(r)) {
        Some(row) => Err(Error::Input(format!(
            "positions {:?} of row {row} are not within 1..{length}",
            wanted[row]
        ))),
        None => Ok(()),
    }
}
