//! A trained reward model that scores programs.

use std::sync::Arc;

use flopsmith_policy::{Model, Plan, Scalar};

use crate::batch::Row;
use crate::error::{Doing, Error, Result};
use crate::gradient::{Engine, Thrift};
use crate::learner::check_ids;
use crate::state;

/// A reward model whose training is finished.
pub struct Judge {
    model: Model,
    engine: Engine,
}

impl Judge {
    /// A judge that computes on `workers` threads, as in [`flopsmith_config::GrpoConfig::workers`].
    ///
    /// # Errors
    /// [`Error::Input`] if the model has no head for rewards.
    pub fn new(model: Model, workers: Option<usize>) -> Result<Self> {
        if model.config().scalar != Scalar::Score {
            return Err(Error::Input(
                "the model is no reward model: it has no `score.weight`".into(),
            ));
        }
        let thrift = Thrift {
            budget: 2048,
            recompute: false,
            seed: 0,
        };
        Ok(Judge {
            engine: Engine::new(&model, workers, thrift)?,
            model,
        })
    }

    /// True if a text fits the model's positions.
    pub fn can_read(&self, prompt: &[u32], answer: &[u32]) -> bool {
        let length = prompt.len() + answer.len();
        length as i64 <= self.model.config().max_position_embeddings
    }

    /// A digest of the judge's weights, those of an adapter included, which identifies it.
    pub fn fingerprint(&self) -> Result<String> {
        let mut fingerprint = state::fingerprint(&self.model)?;
        if let Some(adapter) = self.model.adapter() {
            let bytes = adapter.bytes().doing("look at an adapter")?;
            fingerprint.push_str(&blake3::hash(&bytes).to_hex());
        }
        Ok(fingerprint)
    }

    /// The reward of each answer to its prompt, as token ids; the answer includes its end token.
    pub fn rewards(&self, texts: &[(Vec<u32>, Vec<u32>)]) -> Result<Vec<f64>> {
        let mut rows = Vec::with_capacity(texts.len());
        for (i, (prompt, answer)) in texts.iter().enumerate() {
            if prompt.is_empty() || answer.is_empty() {
                return Err(Error::Input(format!(
                    "text {i} has an empty prompt or answer"
                )));
            }
            check_ids(&self.model, "text", i, prompt, answer)?;
            rows.push(Row::whole(prompt, answer));
        }
        let everything: Vec<usize> = (0..rows.len()).collect();
        let plan = Plan {
            logprobs: false,
            values: true,
            ..Plan::LOGPROBS
        };
        let scores = self
            .engine
            .scores(&self.model, &Arc::new(rows), &everything, plan)?;
        Ok(scores.iter().map(|s| s.values.iter().sum()).collect())
    }
}
