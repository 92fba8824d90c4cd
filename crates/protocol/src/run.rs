//! What a run says of itself to nodes that never heard of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{MachineClass, ProblemId, RunId};

/// A problem as its files say it, so that whoever works for a run has the run's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemFiles {
    /// The name of its folder.
    pub id: ProblemId,
    /// `problem.toml`.
    pub definition: String,
    /// `reference.c`.
    pub reference: String,
    /// `baseline.c`, where there is one.
    pub baseline: Option<String>,
    /// `magnitude.c`, where there is one.
    pub magnitude: Option<String>,
}

/// A run that may have work for a node. It stands on the bus under the run's name as long as the run goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunSpec {
    /// The run.
    pub run: RunId,
    /// Whose build started it, and by which method it measures: numbers of another one cannot stand beside its numbers.
    pub version: String,
    /// The problem.
    pub problem: ProblemFiles,
    /// Its settings, as JSON.
    pub settings_json: String,
    /// Machines that shall time its programs.
    pub machine_class: MachineClass,
}
