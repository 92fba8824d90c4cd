//! The messages by which a run introduces itself to nodes that do not know it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{MachineClass, ProblemId, RunId};
use crate::messages::ArtifactRef;

/// The files of a problem, so that each worker of a run has the run's own problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemFiles {
    /// The name of its folder.
    pub id: ProblemId,
    /// `problem.toml`.
    pub definition: String,
    /// `reference.c`; of a module `reference.py`.
    pub reference: String,
    /// `baseline.c`, if the problem has one.
    pub baseline: Option<String>,
    /// `magnitude.c`, if the problem has one.
    pub magnitude: Option<String>,
}

/// A file of a run's initial model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelFile {
    /// Its name in the model's folder.
    pub name: String,
    /// Its bytes.
    pub content: ArtifactRef,
}

/// A run that may have work for nodes. The run registry holds it under the run's name until the run ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunSpec {
    /// The run.
    pub run: RunId,
    /// The build that started it, and its method of measuring: numbers of another method are not comparable.
    pub version: String,
    /// The problem; of a run over many problems, the first one.
    pub problem: ProblemFiles,
    /// The other problems of a run over many, in the order in which its tasks take turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<ProblemFiles>,
    /// Its settings, as JSON.
    pub settings_json: String,
    /// The class of the machines that time its programs.
    pub machine_class: MachineClass,
    /// True if the run trains a policy, false if it only searches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trains: bool,
    /// The initial model, if nodes need it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model: Vec<ModelFile>,
    /// The store of its artifacts, if nodes need it: a node with another store would not find them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Its latest session, by which a follower knows the rest of the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
}

impl RunSpec {
    /// The problems of the run, in the order in which its tasks take turns.
    pub fn problems(&self) -> impl Iterator<Item = &ProblemFiles> {
        std::iter::once(&self.problem).chain(&self.others)
    }
}

/// The start of a session of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Time of its start by its own clock, milliseconds since 1970.
    pub began_unix_ms: u64,
    /// Time that earlier sessions took, milliseconds.
    pub before_ms: u64,
}
