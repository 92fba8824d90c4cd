//! GPUs that need not be in this machine: architectures that kernels are compiled for, and the compilers' figures.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// An architecture of GPUs, by its compute capability without the point: 90 is Hopper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Architecture(u32);

impl Architecture {
    /// Those for which kernels are compiled if nothing else is asked for: A100 and H100.
    pub const DEFAULT: [Self; 2] = [Architecture(80), Architecture(90)];

    /// Those that Triton, its ptxas and nvcc know.
    const KNOWN: [u32; 8] = [75, 80, 86, 87, 89, 90, 100, 120];

    /// The architecture of this number, which a compiler named.
    pub(crate) fn of(number: u32) -> Self {
        Architecture(number)
    }

    /// The number.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// The number as nvcc takes it, with the instructions that no later architecture has: `90a`.
    pub(crate) fn own(self) -> String {
        let suffix = if self.0 >= 90 { "a" } else { "" };
        format!("{}{suffix}", self.0)
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.0)
    }
}

impl FromStr for Architecture {
    type Err = String;

    /// Reads `90` or `sm_90`.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim().strip_prefix("sm_").unwrap_or(text.trim());
        let number = digits.parse::<u32>().ok();
        match number.filter(|n| Self::KNOWN.contains(n)) {
            Some(number) => Ok(Architecture(number)),
            None => Err(format!(
                "`{text}` is no architecture that kernels are compiled for; there are {}",
                Self::KNOWN.map(|n| n.to_string()).join(", ")
            )),
        }
    }
}

impl Serialize for Architecture {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The compiler's figures about one kernel for one architecture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompiledKernel {
    /// The kernel.
    pub kernel: String,
    /// The name of a kernel in CUDA C++ for the linker: kernels of one template have one name and several of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// The architecture.
    pub architecture: Architecture,
    /// The values of its constants in this kind of launch; none for CUDA C++.
    pub constants: BTreeMap<String, Value>,
    /// The compiler's figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The compiler's figures about a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Warps of a program of Triton; none for CUDA C++, where each launch says how many threads it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_warps: Option<u32>,
    /// Stages of Triton's software pipelines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_stages: Option<u32>,
    /// Registers of a thread.
    pub registers: u32,
    /// Shared memory of a program or a block, in bytes, without the part whose size a launch of CUDA C++ names.
    pub shared_bytes: u64,
    /// Bytes that a thread stores because registers are missing.
    pub spill_store_bytes: u64,
    /// Bytes that a thread loads because registers are missing.
    pub spill_load_bytes: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn architectures_are_read_with_and_without_prefix() {
        let read = |text: &str| text.parse::<Architecture>();
        assert_eq!(read("sm_90"), Ok(Architecture(90)));
        assert_eq!(read(" 80"), Ok(Architecture(80)));
        assert!(read("91").is_err_and(|why| why.contains("90, 100")));
        assert_eq!(json!(Architecture::DEFAULT), json!(["sm_80", "sm_90"]));
        assert_eq!(Architecture::DEFAULT.map(Architecture::own), ["80", "90a"]);
    }
}
