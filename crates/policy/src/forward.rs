//! The forward pass over whole sequences, and the log-probabilities of their tokens.

use std::ops::Range;

use tch::{Kind, Tensor};

use crate::block::Sequences;
use crate::error::{Doing, Error, Result};
use crate::model::Model;

/// Whether [`Model::token_logprobs`] computes the entropy of each distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entropy {
    /// Not at all.
    Skip,
    /// As a number to report; no gradient flows through it.
    Report,
    /// With a gradient, for an entropy bonus.
    Train,
}

/// Log-probabilities of chosen tokens, without padding.
#[derive(Debug)]
pub struct TokenLogprobs {
    /// ln p(token | tokens before it), [n] in single precision, row after row in the order of the ranges.
    pub logprobs: Tensor,
    /// Entropy of the distribution each token was drawn from, [n], in nats, where asked for.
    pub entropy: Option<Tensor>,
}

/// Head products are cut into pieces of at most this many logits: their softmax lives until the backward pass.
const LOGITS_AT_ONCE: i64 = 1 << 23;

impl Model {
    /// The last hidden states, after the final norm: `ids` [rows, length] of i64 → [rows, length, hidden].
    ///
    /// Attention is causal, so a row may be filled up at its end with any token: positions before are not touched by it.
    pub fn hidden(&self, ids: &Tensor) -> Result<Tensor> {
        self.run(ids, |_, _, _| Ok(()))
    }

    /// [`Model::hidden`], showing the keys and values of each block, [rows, kv heads, length, head], on the way.
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

    /// What is common to the blocks of a pass over `rows` sequences of `length` tokens.
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

    /// Log-probabilities of the tokens at chosen positions, with gradients while the model is trainable.
    ///
    /// `ids` is [rows, length] of i64, filled up at the end. `wanted` gives for each row the positions *of the tokens*
    /// in question (each at least 1, since the first token follows nothing); the vocabulary is scored nowhere else.
    /// `temperature` divides the logits: one number for all rows or one for each.
    pub fn token_logprobs(
        &self,
        ids: &Tensor,
        wanted: &[Range<usize>],
        temperature: &[f64],
        entropy: Entropy,
    ) -> Result<TokenLogprobs> {
        let (rows, length) = ids
            .size2()
            .doing("read the shape of token ids")
            .map(|(r, l)| (r as usize, l as usize))?;
        check(rows, length, wanted, temperature)?;
        let mut before = Vec::new();
        for (row, range) in wanted.iter().enumerate() {
            before.extend((range.start..range.end).map(|t| (row * length + t - 1) as i64));
        }
        let before = Tensor::f_from_slice(&before)
            .and_then(|t| t.f_to_device(ids.device()))
            .doing("list the wanted positions")?;
        let targets = ids
            .f_reshape([-1])
            .and_then(|t| t.f_index_select(0, &before.f_add_scalar(1)?))
            .doing("gather the wanted tokens")?;
        let hidden = self
            .hidden(ids)?
            .f_view([-1, self.config.hidden_size])
            .and_then(|t| t.f_index_select(0, &before))
            .doing("gather the wanted hidden states")?;
        let sharpen = self.sharpen(wanted, temperature)?;
        self.score(&hidden, &targets, &sharpen, entropy)
    }

    /// Scores `targets` [n] from hidden states [n, hidden].
    fn score(
        &self,
        hidden: &Tensor,
        targets: &Tensor,
        sharpen: &Sharpen,
        entropy: Entropy,
    ) -> Result<TokenLogprobs> {
        let piece = (LOGITS_AT_ONCE / self.config.vocab_size).max(16);
        let n = targets.size().first().copied().unwrap_or_default();
        // `split` has a cheap backward pass; `narrow` would fill zeros for every piece.
        let cut = |t: &Tensor| {
            if n > piece {
                t.f_split(piece, 0).doing("cut hidden states into pieces")
            } else {
                Ok(vec![t.shallow_clone()])
            }
        };
        let early = self.kind() == self.wide();
        let hidden = if early {
            sharpen.apply(hidden)?
        } else {
            hidden.shallow_clone()
        };
        let sharpened = match sharpen {
            Sharpen::Each(by) => cut(by)?,
            _ => Vec::new(),
        };
        let (mut logprobs, mut entropies) = (Vec::new(), Vec::new());
        for (i, (hidden, targets)) in cut(&hidden)?.iter().zip(&cut(targets)?).enumerate() {
            let mut logits = hidden
                .f_linear(self.head(), None::<&Tensor>)
                .and_then(|t| t.f_to_kind(self.wide()))
                .doing("score the vocabulary")?;
            if !early {
                logits = match sharpened.get(i) {
                    Some(by) => logits.f_mul(by).doing("divide by the temperature")?,
                    None => sharpen.apply(&logits)?,
                };
            }
            let all = logits
                .f_log_softmax(-1, None)
                .doing("score the vocabulary")?;
            logprobs.push(
                all.f_gather(1, &targets.f_unsqueeze(1).doing("gather scores")?, false)
                    .and_then(|t| t.f_squeeze_dim(1))
                    .doing("gather scores")?,
            );
            match entropy {
                Entropy::Skip => {}
                Entropy::Report => {
                    let _guard = tch::no_grad_guard();
                    entropies.push(entropy_of(&all.detach())?);
                }
                Entropy::Train => entropies.push(entropy_of(&all)?),
            }
        }
        let join = |mut pieces: Vec<Tensor>| match pieces.len() {
            1 => Ok(pieces.remove(0)),
            _ => Tensor::f_cat(&pieces, 0).doing("join scores"),
        };
        Ok(TokenLogprobs {
            logprobs: join(logprobs)?,
            entropy: match entropy {
                Entropy::Skip => None,
                _ => Some(join(entropies)?),
            },
        })
    }

    fn sharpen(&self, wanted: &[Range<usize>], temperature: &[f64]) -> Result<Sharpen> {
        let first = temperature.first().copied().unwrap_or(1.0);
        if temperature.iter().all(|t| *t == first) {
            return Ok(if first == 1.0 {
                Sharpen::Not
            } else {
                Sharpen::All(1.0 / first)
            });
        }
        let inverse: Vec<f64> = wanted
            .iter()
            .zip(temperature)
            .flat_map(|(range, t)| range.clone().map(move |_| 1.0 / t))
            .collect();
        Tensor::f_from_slice(&inverse)
            .and_then(|t| t.f_to_kind(self.wide())?.f_to_device(self.device()))
            .and_then(|t| t.f_unsqueeze(1))
            .map(Sharpen::Each)
            .doing("hand over temperatures")
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
        let all = self
            .hidden(&ids)?
            .f_squeeze_dim(0)
            .and_then(|h| h.f_linear(self.head(), None::<&Tensor>))
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
            "{} ranges of positions for {rows} rows",
            wanted.len()
        )));
    }
    if temperature.len() != 1 && temperature.len() != rows {
        return Err(Error::Input(format!(
            "{} temperatures for {rows} rows",
            temperature.len()
        )));
    }
    if let Some(t) = temperature.iter().find(|t| !(**t > 0.0 && t.is_finite())) {
        return Err(Error::Input(format!(
            "temperature {t} is no positive number"
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

/// What 1 / temperature multiplies scores by.
///
/// Where weights have full precision it multiplies the hidden states, which are narrower than the vocabulary; in half
/// precision that would round it, and it multiplies the widened logits.
enum Sharpen {
    Not,
    All(f64),
    /// One factor for each wanted position, [n, 1].
    Each(Tensor),
}

impl Sharpen {
    fn apply(&self, scores: &Tensor) -> Result<Tensor> {
        match self {
            Sharpen::Not => Ok(scores.shallow_clone()),
            Sharpen::All(by) => scores.f_mul_scalar(*by).doing("divide by the temperature"),
            Sharpen::Each(by) => scores.f_mul(by).doing("divide by the temperature"),
        }
    }
}

fn entropy_of(logprobs: &Tensor) -> Result<Tensor> {
    logprobs
        .f_exp()
        .and_then(|p| p.f_mul(logprobs))
        .and_then(|t| t.f_sum_dim_intlist([-1i64].as_slice(), false, None))
        .and_then(|t| t.f_neg())
        .doing("compute entropies")
}
