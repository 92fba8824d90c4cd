//! The user's own program.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The user's own program, with which a search begins.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Start {
    /// Its text.
    pub source: String,
    /// The text of the file of its parameters (Kernel Tuner's T1 format); empty if it has none. The search then tries
    /// configurations of the parameters, and not schedules.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parameters: String,
    /// Number of configurations of the parameters. The search ends after as many programs.
    pub configurations: u64,
    /// Longest program, bytes, instead of the problem's `max_source_bytes`. Default: not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_source_bytes: Option<u32>,
}

impl Start {
    /// True if the program has parameters.
    pub fn has_parameters(&self) -> bool {
        !self.parameters.is_empty()
    }
}
