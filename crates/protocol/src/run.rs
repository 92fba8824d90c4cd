//! The messages by which a run introduces itself to nodes that do not know it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{MachineClass, ProblemId, RunId};
use crate::messages::ArtifactRef;

/// A problem as its files say it, so that each worker of a run has the run's own.
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

/// A file of the model that a run begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelFile {
    /// Its name in the model's folder.
    pub name: String,
    /// Its bytes.
    pub content: ArtifactRef,
}

/// A run that may have work for a node. It stands on the bus under the run's name as long as the run goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunSpec {
    /// The run.
    pub run: RunId,
    /// The build that started it, and its method of measuring: numbers of another method are not comparable.
    pub version: String,
    /// The problem.
    pub problem: ProblemFiles,
    /// Its settings, as JSON.
    pub settings_json: String,
    /// Machines that shall time its programs.
    pub machine_class: MachineClass,
    /// Is a policy trained, or only searched?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trains: bool,
    /// The model it begins with, where nodes need it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model: Vec<ModelFile>,
    /// The store that its artifacts lie in, where nodes need it: a node that has another one would not find them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Its latest session, by which a follower knows how much of the budget is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
}

/// A session of a run, as it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// When it began by its own clock, milliseconds since 1970.
    pub began_unix_ms: u64,
    /// The time that earlier sessions have taken, milliseconds.
    pub before_ms: u64,
}
