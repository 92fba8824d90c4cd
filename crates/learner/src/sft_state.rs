//! The counters of supervised fine-tuning.

use serde::{Deserialize, Serialize};

use crate::batch::Row;
use crate::error::{Error, Result};
use crate::pair_state;
use crate::report::SftReport;
use crate::skips::Skips;

/// The file of [`Counters`].
pub(crate) const COUNTERS: &str = "sft.json";
/// Increases when the meaning of the file changes.
pub(crate) const VERSION: u32 = 1;

/// The part of the state that is not a tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counters {
    pub version: u32,
    /// With `seed` and `batch_tokens`, the whole random state: each pass draws its order from a stream of its own.
    pub epoch: u64,
    /// Number of updates of this pass.
    pub next: usize,
    pub updates: u64,
    pub skips: Skips,
    pub seed: u64,
    pub steps: u64,
    pub batch_tokens: usize,
    /// [`digest`] of the examples.
    pub examples: String,
    /// Identifies the weights below an adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The report so far. Nothing is computed from it.
    pub report: SftReport,
}

impl Counters {
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(|source| Error::Json {
            file: COUNTERS,
            source,
        })
    }

    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let counters: Counters = serde_json::from_slice(bytes).map_err(|source| Error::Json {
            file: COUNTERS,
            source,
        })?;
        if counters.version != VERSION {
            return Err(wrong(format!(
                "it has version {}, this build knows {VERSION}",
                counters.version
            )));
        }
        Ok(counters)
    }

    /// Checks that the file was saved by a training like `own`.
    pub fn fits(&self, own: &Counters) -> Result<()> {
        let differ = [
            ("other examples", self.examples != own.examples),
            ("another `seed`", self.seed != own.seed),
            (
                "another `batch_tokens`",
                self.batch_tokens != own.batch_tokens,
            ),
            ("another number of updates", self.steps != own.steps),
            ("another model below its adapter", self.base != own.base),
        ];
        match differ.iter().find(|(_, differs)| *differs) {
            Some((what, _)) => Err(wrong(format!("it was saved by a training with {what}"))),
            None => Ok(()),
        }
    }
}

/// Identifies examples.
pub(crate) fn digest(rows: &[Row]) -> String {
    pair_state::digest(rows, &[])
}

fn wrong(reason: String) -> Error {
    Error::State {
        file: COUNTERS,
        reason,
    }
}
