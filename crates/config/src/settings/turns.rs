//! Conversations.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::recipe::{Returns, usual_discount, usual_first};

/// Prompts of conversations.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnPrompt {
    /// Each result in a line or two after its answer. Each answer is a whole program.
    #[default]
    Brief,
    /// As in `search --agent`: the fastest program of the conversation, and each result with its diagnostics, its share of the
    /// roof at each workload and the differences from the program that was shown. An answer is a whole program or
    /// SEARCH/REPLACE blocks that change the shown one. Before the last turn it may also be a line that asks for elites or for a
    /// document in place of a program. Needs `generator.prompt = "full"`.
    Agent,
}

/// Conversations of a training step.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Turns {
    /// Largest number of answers in a conversation; 1 holds none. Each further turn takes the step as long again. A
    /// conversation ends early at an answer that no machine could measure, and with `prompt = "brief"` at one without a
    /// program.
    pub most: u32,
    /// Prompts of the policy, also where a conversation has one answer. Default `brief`.
    pub prompt: TurnPrompt,
    /// Folder of documents that the policy may read in its conversations with `prompt = "agent"`: the files `*.md` and `*.txt` in
    /// it, at most 64. The node of the archive reads it. Default: not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<PathBuf>,
    /// Score of a turn from the rewards of its conversation. Default `discounted`.
    pub returns: Returns,
    /// Share of a turn's score that is added to the turn before it, with `returns = "discounted"`. Default 0.4.
    pub discount: f64,
    /// Weight of the first turn, with `returns = "first_and_best"`. Default 0.75.
    pub first: f64,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            most: 1,
            prompt: TurnPrompt::default(),
            documents: None,
            returns: Returns::default(),
            discount: usual_discount(),
            first: usual_first(),
        }
    }
}
