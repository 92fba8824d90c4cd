//! The roofs of a problem on this machine, by the roofline model (`flopsmith_machine::roofline`).

use flopsmith_machine::attest::Attestation;
use flopsmith_machine::roofline::{Place, Roof};
use flopsmith_measure::workload_roofs;
use flopsmith_problem::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The roof of a problem at one of its workloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadRoof {
    /// The workload.
    pub name: String,
    /// Operations of one call.
    pub flops: f64,
    /// Bytes that one call must move at least.
    pub bytes: f64,
    /// Operations for each of these bytes; null if their number is unknown.
    pub intensity: Option<f64>,
    /// The greatest speed that the machine permits, 10⁹ operations a second.
    pub roof_gflops: f64,
    /// The part of the machine that sets the roof: `compute`, or `memory`.
    pub bound: String,
    /// The smallest cache that holds all these bytes. If there is one, programs may exceed a roof of memory.
    pub cached_in: Option<String>,
}

/// A measured bandwidth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bandwidth {
    /// `L2`, `L3` or `memory`.
    pub level: String,
    /// Number of threads that read at once.
    pub threads: u32,
    /// Bytes a second of all threads together, 10⁹/s.
    pub gb_s: f64,
    /// Size of one cache of this level, bytes; null for memory.
    pub holds_bytes: Option<u64>,
}

/// A measured rate of double-precision multiply-adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// Width of the vectors, bits; 64 for scalar code.
    pub vector_bits: u32,
    /// Number of threads.
    pub threads: u32,
    /// Operations a second, 10⁹/s; a multiply-add counts as two.
    pub gflops: f64,
}

/// The roofs of a problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Roofs {
    /// Number of threads that programs are timed with.
    pub threads: u32,
    /// The roof at each workload.
    pub workloads: Vec<WorkloadRoof>,
    /// Bandwidths of memory and caches.
    pub bandwidths: Vec<Bandwidth>,
    /// Rates of arithmetic by width of vectors, in double precision.
    pub ceilings: Vec<Ceiling>,
}

impl Roofs {
    /// The roofs of a problem on the machine of an attestation, with the peak for the problem's numbers. A problem that states
    /// no work has none at its workloads.
    pub fn of(problem: &Problem, attestation: &Attestation, peak_gflops: f64) -> Self {
        let measured = &attestation.roofs;
        let roof = Roof {
            peak_gflops,
            threads: attestation.threads,
            measured,
        };
        let each = workload_roofs(problem, roof).into_iter();
        let workloads = each.map(|at| WorkloadRoof::of(&at.workload, at.flops, at.bytes, at.place));
        let bandwidths = measured.bandwidth.iter().map(|found| Bandwidth {
            level: found.level.clone(),
            threads: found.threads,
            gb_s: found.gb_s,
            holds_bytes: found.holds_bytes,
        });
        let ceilings = measured.compute.iter().map(|found| Ceiling {
            vector_bits: found.vector_bits,
            threads: found.threads,
            gflops: found.gflops,
        });
        Self {
            threads: attestation.threads,
            workloads: workloads.collect(),
            bandwidths: bandwidths.collect(),
            ceilings: ceilings.collect(),
        }
    }

    /// The roof over all workloads, 10⁹ operations a second: their geometric mean, as speeds are given.
    pub fn gflops(&self) -> Option<f64> {
        let roofs = self.workloads.iter().map(|workload| workload.roof_gflops);
        flopsmith_protocol::geometric(roofs)
    }

    /// True if data fit a cache at a workload whose roof is that of memory: programs may exceed the roof there.
    pub fn may_exceed(&self) -> bool {
        let mut workloads = self.workloads.iter();
        workloads.any(|at| at.bound == "memory" && at.cached_in.is_some())
    }
}

impl WorkloadRoof {
    fn of(name: &str, flops: f64, bytes: f64, place: Place) -> Self {
        Self {
            name: name.to_owned(),
            flops,
            bytes: if bytes.is_finite() { bytes } else { 0.0 },
            intensity: place.intensity,
            roof_gflops: place.roof_gflops,
            bound: place.bound.name().to_owned(),
            cached_in: place.cached_in,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_machine::roofline::{self, Roofs as Measured};

    use super::*;

    fn at(flops: f64, bytes: f64) -> WorkloadRoof {
        let measured = Measured {
            bandwidth: vec![roofline::Bandwidth {
                level: roofline::MEMORY.into(),
                threads: 1,
                gb_s: 10.0,
                buffer_bytes: 1 << 30,
                holds_bytes: None,
            }],
            ..Measured::default()
        };
        let roof = Roof {
            peak_gflops: 80.0,
            threads: 1,
            measured: &measured,
        };
        let place = roofline::place(flops, bytes, 0.0, roof).unwrap();
        WorkloadRoof::of("n", flops, bytes, place)
    }

    #[test]
    fn the_roof_over_workloads_is_their_geometric_mean() {
        let (memory, compute) = (at(2e6, 1e6), at(2e9, 1e6));
        assert_eq!(
            (memory.roof_gflops, memory.bound.as_str()),
            (20.0, "memory")
        );
        assert_eq!(
            (compute.roof_gflops, compute.bound.as_str()),
            (80.0, "compute")
        );
        let mut roofs = Roofs {
            threads: 1,
            workloads: vec![memory, compute],
            bandwidths: Vec::new(),
            ceilings: Vec::new(),
        };
        assert!((roofs.gflops().unwrap() - 40.0).abs() < 1e-9);
        roofs.workloads.clear();
        assert_eq!(roofs.gflops(), None);
    }
}
