//! Number formats of weights.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number formats of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// Single precision.
    #[default]
    Float32,
    /// bfloat16: half the memory. Weights that were trained in bfloat16 lose nothing.
    Bfloat16,
    /// bfloat16 if the folder's weights are bfloat16 and the device computes in it; otherwise single precision.
    Auto,
}

impl Dtype {
    /// The format that is used on a GPU, or without one, if none is named.
    pub fn usual(gpu: bool) -> Self {
        match gpu {
            true => Dtype::Bfloat16,
            false => Dtype::Float32,
        }
    }
}
