//! How likely a model finds a text that it did not write.

use tch::{Kind, Tensor};

use crate::error::{Doing, Error, Result};
use crate::model::Model;
use crate::pass::numbers;

/// Number of scores that one product of the head computes: 256 MiB in single precision.
const SCORES_AT_ONCE: usize = 1 << 26;

/// The model's view of one token of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// ln p(token | tokens before it).
    pub logprob: f32,
    /// The likeliest tokens at its place, the likeliest first, with ln of their probabilities.
    pub top: Vec<(u32, f32)>,
}

impl Model {
    /// Scores every token of `ids` but the first, and names the `top` likeliest tokens at its place.
    ///
    /// # Errors
    /// If a token is outside the vocabulary, or the text longer than the model's positions.
    pub fn score_prompt(&self, ids: &[u32], top: usize) -> Result<Vec<Scored>> {
        let _guard = tch::no_grad_guard();
        let vocabulary = self.config().vocab_size;
        if let Some(id) = ids.iter().find(|id| i64::from(**id) >= vocabulary) {
            return Err(Error::Input(format!(
                "token {id} is outside the vocabulary of {vocabulary}"
            )));
        }
        let head = self.head()?;
        let row: Vec<i64> = ids.iter().map(|id| i64::from(*id)).collect();
        let Some((_, targets)) = row.split_first() else {
            return Ok(Vec::new());
        };
        if targets.is_empty() {
            return Ok(Vec::new());
        }
        let tensor = Tensor::f_from_slice(&row)
            .and_then(|t| t.f_to_device(self.device())?.f_unsqueeze(0))
            .doing("hand over token ids")?;
        let hidden = self
            .hidden(&tensor)?
            .f_squeeze_dim(0)
            .doing("score the vocabulary")?;
        let vocabulary = usize::try_from(vocabulary).unwrap_or(1).max(1);
        let top = top.min(vocabulary);
        let piece = (SCORES_AT_ONCE / vocabulary).max(1);
        let mut scored = Vec::with_capacity(targets.len());
        for (n, targets) in targets.chunks(piece).enumerate() {
            let all = hidden
                .f_narrow(0, (n * piece) as i64, targets.len() as i64)
                .and_then(|h| h.f_linear(head, None::<&Tensor>))
                .and_then(|t| t.f_log_softmax(-1, self.wide()))
                .doing("score the vocabulary")?;
            let own = Tensor::f_from_slice(targets)
                .and_then(|t| t.f_to_device(self.device())?.f_unsqueeze(1))
                .and_then(|targets| all.f_gather(1, &targets, false))
                .doing("gather scores")?;
            let own = numbers(&own)?;
            let likeliest = self.likeliest(&all, top)?;
            let mut likeliest = likeliest.chunks(top.max(1));
            scored.extend(own.into_iter().map(|logprob| Scored {
                logprob: logprob as f32,
                top: likeliest.next().map(<[_]>::to_vec).unwrap_or_default(),
            }));
        }
        Ok(scored)
    }

    /// The `top` likeliest tokens of each row of `all`, [rows, vocabulary], row after row.
    fn likeliest(&self, all: &Tensor, top: usize) -> Result<Vec<(u32, f32)>> {
        if top == 0 {
            return Ok(Vec::new());
        }
        let (values, tokens) = all
            .f_topk(top as i64, -1, true, true)
            .doing("find the likeliest tokens")?;
        // Numbers of tokens are exact in double precision.
        let tokens = tokens
            .f_to_kind(Kind::Double)
            .doing("find the likeliest tokens")?;
        let (values, tokens) = (numbers(&values)?, numbers(&tokens)?);
        let both = tokens.into_iter().zip(values);
        Ok(both
            .map(|(token, logprob)| (token as u32, logprob as f32))
            .collect())
    }
}
