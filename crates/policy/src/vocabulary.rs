//! The head that scores the vocabulary, piece by piece, and its derivative written out.
//!
//! The scores of all positions at once would be by far the largest tensor of a training step. A piece of the scores is
//! freed after use, and computed again in the backward pass, unless all pieces together are small enough to be kept.

use std::ops::Range;

use tch::Tensor;

use crate::error::{Doing, Result};
use crate::model::Model;
use crate::pass::{Slopes, column, numbers};

/// The largest number of logits that one product of the head computes: 512 MiB in single precision. A product with
/// fewer rows runs less efficiently.
const LOGITS_AT_ONCE: i64 = 1 << 27;

/// Number of scores that become log-probabilities, in place, in one call: 16 MiB in single precision.
const LOGITS_TURNED: i64 = 1 << 22;

/// Largest number of logits of a pass that are kept until its backward pass: 512 MiB in single precision.
const LOGITS_KEPT: i64 = 1 << 27;

/// The tokens whose probabilities are wanted, [n], and the temperatures they are scored at.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    targets: Tensor,
    /// 1 / temperature: one for all, or one for each token, [n, 1].
    sharpen: Sharpen,
    /// Positions of a piece.
    piece: i64,
    /// Largest number of logits to keep.
    keeps: i64,
    /// Log-probabilities of the whole vocabulary, [positions of the piece, vocabulary], for each piece; empty if the
    /// pieces are computed again.
    kept: Vec<Tensor>,
}

/// The factor 1 / temperature of the scores.
#[derive(Debug)]
enum Sharpen {
    Not,
    All(f64),
    Each(Tensor),
}

impl Sharpen {
    fn of(model: &Model, wanted: &[Range<usize>], temperature: &[f64]) -> Result<Self> {
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
        column(&inverse, model.wide(), model.device()).map(Sharpen::Each)
    }

    /// `scores` multiplied by the factor; its first row is row `from` of all rows.
    fn apply(&self, scores: Tensor, from: i64) -> Result<Tensor> {
        match self {
            Sharpen::Not => Ok(scores),
            Sharpen::All(by) => scores.f_mul_scalar(*by),
            Sharpen::Each(by) => by
                .f_narrow(0, from, scores.size()[0])
                .and_then(|by| scores.f_mul(&by)),
        }
        .doing("divide by the temperature")
    }
}

impl Vocabulary {
    pub fn new(
        model: &Model,
        targets: Tensor,
        wanted: &[Range<usize>],
        temperature: &[f64],
    ) -> Result<Self> {
        Ok(Vocabulary {
            sharpen: Sharpen::of(model, wanted, temperature)?,
            piece: (LOGITS_AT_ONCE / model.config().vocab_size).max(16),
            targets,
            keeps: LOGITS_KEPT,
            kept: Vec::new(),
        })
    }

    /// Log-probabilities of the targets after `hidden` [n, hidden], and entropies if `entropy` is set. `keep` announces
    /// a backward pass.
    pub fn score(
        &mut self,
        model: &Model,
        hidden: &Tensor,
        entropy: bool,
        keep: bool,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let n = hidden.size()[0];
        let keep = keep && n * model.config().vocab_size <= self.keeps;
        let (mut logprobs, mut entropies) = (Vec::new(), Vec::new());
        let mut from = 0;
        while from < n {
            let count = self.piece.min(n - from);
            let all = self.logprobs(model, hidden, from, count)?;
            let own = self
                .targets_of(from, count)
                .and_then(|targets| all.f_gather(1, &targets, false))
                .and_then(|t| t.f_squeeze_dim(1))
                .doing("gather scores")?;
            logprobs.extend(numbers(&own)?);
            if entropy {
                let entropy = all
                    .f_exp()
                    .and_then(|p| p.f_mul(&all))
                    .and_then(|t| {
                        t.f_sum_dim_intlist([-1i64].as_slice(), false, None)?
                            .f_neg()
                    })
                    .doing("compute entropies")?;
                entropies.extend(numbers(&entropy)?);
            }
            if keep {
                self.kept.push(all);
            }
            from += count;
        }
        Ok((logprobs, entropies))
    }

    /// Gives the derivative by the hidden states, [n, hidden], and adds the gradient of the head to `weights` if the
    /// head is trained.
    ///
    /// With s the slope of a token's log-probability, e that of its entropy H, and p the distribution, the slope of
    /// logit j is s·(1 if j is the token) − s·p_j − e·p_j·(ln p_j + H), times 1 / temperature.
    ///
    /// The call consumes the kept log-probabilities: they serve one backward pass.
    pub fn back(
        &mut self,
        model: &Model,
        hidden: &Tensor,
        entropy: &[f64],
        slopes: &Slopes,
        mut weights: Option<&mut Tensor>,
    ) -> Result<Tensor> {
        let n = hidden.size()[0];
        let early = model.kind() == model.wide();
        let (wide, device) = (model.wide(), model.device());
        let head = model.head()?;
        let of_logprobs = column(&slopes.logprobs, wide, device)?;
        let of_entropy = match slopes.entropy.iter().any(|s| *s != 0.0) {
            true => Some((
                column(&slopes.entropy, wide, device)?,
                column(entropy, wide, device)?,
            )),
            false => None,
        };
        let mut kept = std::mem::take(&mut self.kept).into_iter();
        let mut pieces = Vec::new();
        let mut from = 0;
        while from < n {
            let count = self.piece.min(n - from);
            let mut all = match kept.next() {
                Some(all) => all,
                None => self.logprobs(model, hidden, from, count)?,
            };
            let part = |t: &Tensor| {
                t.f_narrow(0, from, count)
                    .doing("split derivatives into pieces")
            };
            let slope = part(&of_logprobs)?;
            let mut by_logits = match &of_entropy {
                // In place: the log-probabilities are not used again.
                None => all
                    .f_exp_()
                    .and_then(|mut p| p.f_mul_(&slope.f_neg()?))
                    .doing("compute the derivative by the scores")?,
                Some((e, h)) => {
                    let (e, h) = (part(e)?, part(h)?);
                    all.f_add(&h)
                        .and_then(|mut t| t.f_mul_(&e)?.f_add_(&slope)?.f_mul_(&all.f_exp()?))
                        .and_then(|mut t| t.f_neg_())
                        .doing("compute the derivative by the scores")?
                }
            };
            drop(all);
            let _same = self
                .targets_of(from, count)
                .and_then(|targets| by_logits.f_scatter_add_(1, &targets, &slope))
                .doing("compute the derivative by the scores")?;
            let mut h = part(hidden)?;
            if early {
                h = self.sharpen.apply(h, from)?;
            } else {
                by_logits = self.sharpen.apply(by_logits, from)?;
            }
            if let Some(weights) = weights.as_deref_mut() {
                let _same = by_logits
                    .f_tr()
                    .and_then(|t| weights.f_addmm_(&t, &h.f_to_kind(wide)?))
                    .doing("collect the head's gradient")?;
            }
            let by_hidden = by_logits
                .f_to_kind(model.kind())
                .and_then(|t| t.f_matmul(head))
                .doing("compute the derivative by the scores")?;
            pieces.push(if early {
                self.sharpen.apply(by_hidden, from)?
            } else {
                by_hidden
            });
            from += count;
        }
        match pieces.len() {
            1 => Ok(pieces.remove(0)),
            0 => Ok(hidden.zeros_like()),
            _ => Tensor::f_cat(&pieces, 0).doing("join derivatives"),
        }
    }

    fn targets_of(&self, from: i64, count: i64) -> Result<Tensor, tch::TchError> {
        self.targets.f_narrow(0, from, count)?.f_unsqueeze(1)
    }

    /// Log-probabilities of the whole vocabulary at `count` positions, [count, vocabulary].
    ///
    /// For weights in full precision 1 / temperature multiplies the hidden states, which are narrower than the
    /// vocabulary. In half precision the hidden states would be rounded, and 1 / temperature multiplies the widened
    /// logits instead.
    fn logprobs(&self, model: &Model, hidden: &Tensor, from: i64, count: i64) -> Result<Tensor> {
        let early = model.kind() == model.wide();
        let mut h = hidden
            .f_narrow(0, from, count)
            .doing("split hidden states into pieces")?;
        if early {
            h = self.sharpen.apply(h, from)?;
        }
        let head = model.head()?;
        let mut logits = h
            .f_linear(head, None::<&Tensor>)
            .and_then(|t| t.f_to_kind(model.wide()))
            .doing("score the vocabulary")?;
        if !early {
            logits = self.sharpen.apply(logits, from)?;
        }
        // A softmax of all rows at once would need a second tensor of the logits' size while all blocks' tensors are in
        // memory.
        let rows = (LOGITS_TURNED / model.config().vocab_size).max(1);
        let mut at = 0;
        while at < count {
            let some = rows.min(count - at);
            at += some;
            logits
                .f_narrow(0, at - some, some)
                .and_then(|mut place| place.f_copy_(&place.f_log_softmax(-1, None)?))
                .map(drop)
                .doing("score the vocabulary")?;
        }
        Ok(logits)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::config::Config;

    #[test]
    fn pieces_give_what_the_whole_gives() {
        let mut config = Config::new(23, 16, 24, 1, 2, 1);
        config.initializer_range = 0.5;
        let model = Model::random(config, 2, Device::Cpu, Kind::Double).unwrap();
        let n = 7;
        let hidden = Tensor::arange(n * 16, (Kind::Double, Device::Cpu))
            .sin()
            .view([n, 16]);
        let targets = Tensor::from_slice(&[3i64, 0, 22, 8, 8, 1, 19]);
        let slopes = Slopes {
            logprobs: (0..n).map(|i| (i as f64).cos()).collect(),
            entropy: (0..n).map(|i| (i as f64 * 0.3).sin()).collect(),
            values: Vec::new(),
        };
        // One temperature for each of two rows.
        let wanted = [1..4, 1..5];
        let at = |piece: i64, keeps: bool| {
            let targets = targets.shallow_clone();
            let mut vocabulary = Vocabulary::new(&model, targets, &wanted, &[0.8, 1.5]).unwrap();
            vocabulary.piece = piece;
            vocabulary.keeps = if keeps { n * 23 } else { n * 23 - 1 };
            let (logprobs, entropy) = vocabulary.score(&model, &hidden, true, true).unwrap();
            assert_eq!(
                vocabulary.kept.len() as i64,
                if keeps { (n + piece - 1) / piece } else { 0 }
            );
            let mut weights = model.head().unwrap().zeros_like();
            let by = vocabulary
                .back(&model, &hidden, &entropy, &slopes, Some(&mut weights))
                .unwrap();
            (
                Tensor::from_slice(&logprobs),
                Tensor::from_slice(&entropy),
                by,
                weights,
            )
        };
        let whole = at(100, true);
        for (piece, keeps) in [(1, true), (3, false), (6, true), (6, false), (100, false)] {
            let cut = at(piece, keeps);
            for (a, b) in [
                (&cut.0, &whole.0),
                (&cut.1, &whole.1),
                (&cut.2, &whole.2),
                (&cut.3, &whole.3),
            ] {
                assert!((a - b).abs().max().double_value(&[]) < 1e-12, "{piece}");
            }
        }
    }
}
