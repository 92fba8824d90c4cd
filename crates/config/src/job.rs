//! The kinds of runs.

use serde::{Deserialize, Serialize};

use crate::settings::{GeneratorKind, Hosted};

/// The kind of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// Evaluation, training, evaluation.
    Train,
    /// Search only.
    Search,
}

impl Job {
    /// The once-per-run roles of such a run.
    pub fn roles(self, kind: GeneratorKind) -> impl Iterator<Item = Hosted> {
        let trains = kind.can_train() && self == Job::Train;
        [Hosted::Archive, Hosted::Generator]
            .into_iter()
            .chain(trains.then_some(Hosted::Learner))
    }
}
