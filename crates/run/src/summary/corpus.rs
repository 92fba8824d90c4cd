//! The program of the starter's corpus that a run is compared with, on a machine with narrower vectors.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{certification, record};

/// Vectors that a program was written for and that the machine does not have. The compiler divides them, which costs
/// registers, so a comparison with such a program flatters the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WiderVectors {
    /// Width of the program's vectors, bits.
    pub written_bits: u32,
    /// Width of the machine's widest vectors, bits.
    pub machine_bits: u32,
}

impl WiderVectors {
    /// Of the program that a run is compared with. `None` if the machine has such vectors, or if there is no such program.
    pub(super) fn of_run(folder: &Path) -> Option<Self> {
        let evidence = record::evidence(folder, certification::CORPUS_BEST)?;
        Self::of(&evidence.source, &evidence.attestation_json)
    }

    fn of(source: &str, attestation_json: &str) -> Option<Self> {
        let (written_bits, machine_bits) = (written_bits(source)?, machine_bits(attestation_json)?);
        (written_bits > machine_bits).then_some(Self {
            written_bits,
            machine_bits,
        })
    }

    /// As a sentence about "that program".
    pub fn words(self) -> String {
        format!(
            "That program was written for vectors of {} bits and this machine has {}, so the comparison flatters the run.",
            self.written_bits, self.machine_bits
        )
    }
}

/// Width of the widest vectors that a source in C declares, bits.
fn written_bits(source: &str) -> Option<u32> {
    let sizes = source.split("vector_size(").skip(1);
    let declared = sizes.filter_map(|rest| {
        let mut digits = rest.trim_start().split(|c: char| !c.is_ascii_digit());
        let bytes: u32 = digits.next()?.parse().ok()?;
        bytes.checked_mul(8)
    });
    let named = [("__m512", 512), ("__m256", 256), ("__m128", 128)];
    let named = named
        .into_iter()
        .filter(|(name, _)| source.contains(name))
        .map(|(_, bits)| bits);
    declared.chain(named).max()
}

/// Width of the widest vectors of an attested machine, bits.
fn machine_bits(attestation_json: &str) -> Option<u32> {
    let attested: serde_json::Value = serde_json::from_str(attestation_json).ok()?;
    let ceilings = attested["roofs"]["compute"].as_array();
    let roofs = ceilings.into_iter().flatten().chain([&attested["peak"]]);
    let bits = roofs
        .filter_map(|roof| roof["vector_bits"].as_u64())
        .max()?;
    u32::try_from(bits).ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const WIDE: &str = "typedef double V __attribute__((vector_size(64),aligned(8)));";

    fn machine(bits: &[u32]) -> String {
        let ceilings = bits
            .iter()
            .map(|bits| serde_json::json!({"vector_bits": bits, "threads": 1, "gflops": 50.0}));
        let ceilings: Vec<serde_json::Value> = ceilings.collect();
        // The widest vectors need not be the fastest ones.
        let peak = serde_json::json!({"vector_bits": 256});
        serde_json::json!({"peak": peak, "roofs": {"compute": ceilings}}).to_string()
    }

    #[test]
    fn vectors_that_the_machine_lacks_are_found() {
        let found = WiderVectors::of(WIDE, &machine(&[64, 256])).unwrap();
        assert_eq!((found.written_bits, found.machine_bits), (512, 256));
        let intrinsics = "__m512d v; __m256d w;";
        assert!(WiderVectors::of(intrinsics, &machine(&[256])).is_some());
        for fitting in [
            (WIDE, machine(&[64, 256, 512])),
            (
                "typedef int V __attribute__((vector_size( 32 )));",
                machine(&[256]),
            ),
            (
                "typedef int V __attribute__((vector_size(4 * W)));",
                machine(&[256]),
            ),
            ("void f(void) {}", machine(&[256])),
            (WIDE, "{}".to_owned()),
        ] {
            assert_eq!(WiderVectors::of(fitting.0, &fitting.1), None, "{fitting:?}");
        }
    }
}
