//! The counters of a training by PPO.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::skips::Skips;

/// The file of [`Counters`].
pub(crate) const COUNTERS: &str = "ppo.json";
/// Increases when the meaning of the file changes.
pub(crate) const VERSION: u32 = 1;

/// The part of the state that is not a tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counters {
    pub version: u32,
    /// With `steps`, the whole random state: each step draws from a stream of its own.
    pub seed: u64,
    pub steps: u64,
    pub updates: u64,
    /// Updates done or skipped.
    pub tried: u64,
    /// The weight of the divergence, bit by bit.
    pub kl_weight_bits: u64,
    pub skips: Skips,
    /// Identifies the weights below an adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
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
            return Err(Error::State {
                file: COUNTERS,
                reason: format!(
                    "it has version {}, this build knows {VERSION}",
                    counters.version
                ),
            });
        }
        Ok(counters)
    }
}
