//! Conversations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::recipe::{Returns, usual_discount, usual_first};

/// Conversations of a training step.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Turns {
    /// Largest number of answers in a conversation; 1 holds none. Each further turn takes the step as long again. A
    /// conversation ends early at an answer without a program, and at one that no machine could measure.
    pub most: u32,
    /// Score of a turn from the rewards of its conversation.
    pub returns: Returns,
    /// Share of a turn's score that is added to the turn before it, with `returns = "discounted"`.
    pub discount: f64,
    /// Weight of the first turn, with `returns = "first_and_best"`.
    pub first: f64,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            most: 1,
            returns: Returns::default(),
            discount: usual_discount(),
            first: usual_first(),
        }
    }
}
