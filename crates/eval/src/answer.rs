//! Answers of models.

use flopsmith_protocol::Digest;
use serde::{Deserialize, Serialize};

/// An answer of a model to a problem: a line of `samples.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Name of the model.
    pub model: String,
    /// The problem.
    pub problem: String,
    /// Its number among the model's answers to the problem, from 1.
    pub number: u32,
    /// Seed of its draws, if Flopsmith drew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The prompt, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The answer as the model wrote it, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// False if the answer was cut off at the limit on its tokens; none if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<bool>,
    /// The program in the answer; none if there is none.
    pub program: Option<String>,
}

impl Answer {
    /// The digest of its program.
    pub fn digest(&self) -> Option<Digest> {
        let program = self.program.as_ref()?;
        Some(Digest::of(program.as_bytes()))
    }
}
