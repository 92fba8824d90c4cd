//! The number formats in which weights are held while a model samples or is trained.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Device, Kind};

use crate::config::Config;
use crate::error::Result;
use crate::origin::Origin;

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
    /// The kind for the model in `folder` on `device`; [`Dtype::Auto`] reads the folder's `config.json`.
    pub fn kind(self, folder: &Path, device: Device) -> Result<Kind> {
        Ok(match self {
            Dtype::Float32 => Kind::Float,
            Dtype::Bfloat16 => Kind::BFloat16,
            Dtype::Auto => {
                let config = Config::load(&Origin::of(folder)?.base)?;
                let says = |field: &str| config.other.get(field).and_then(|v| v.as_str());
                let stored = says("dtype").or_else(|| says("torch_dtype"));
                match stored == Some("bfloat16") && computes_in_half(device) {
                    true => Kind::BFloat16,
                    false => Kind::Float,
                }
            }
        })
    }
}

/// True if the device has instructions for bfloat16. Without them a CPU runs prompts more slowly in bfloat16 than in
/// single precision.
fn computes_in_half(device: Device) -> bool {
    match device {
        Device::Cpu => {
            #[cfg(target_arch = "x86_64")]
            {
                std::arch::is_x86_feature_detected!("avx512bf16")
            }
            #[cfg(not(target_arch = "x86_64"))]
            {
                false
            }
        }
        _ => true,
    }
}
