//! The equipment that all workloads of a timer share: the jail, the cores, the problem's own programs, and the machine's attestation. They
//! are the same at every size, so they are made once.

use std::path::PathBuf;
use std::sync::Arc;

use flopsmith_harness::Waiting;
use flopsmith_harness::memory::CAN_FLUSH;
use flopsmith_machine::attest::Attestation;
use flopsmith_machine::environment::Watched;
use flopsmith_machine::pinning::Cores;
use flopsmith_problem::Problem;
use flopsmith_protocol::{Digest, Failure, InfrastructureCause};
use flopsmith_sandbox::Sandbox;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::Caches;
use crate::supervise::{Arena, Placement, Placing, Product, Specification, specify, timed_buffers};
use crate::verify::Object;

/// The common equipment of the workloads of one timer.
pub(super) struct Equipment {
    /// The jail.
    pub sandbox: Arc<Sandbox>,
    /// The program in the jail that calls candidates.
    pub harness: PathBuf,
    /// The cores of supervisor and kernel.
    pub cores: Cores,
    /// Threads of a candidate.
    pub threads: u32,
    /// How the two sides of a hand-shake wait for each other.
    pub waiting: Waiting,
    /// The plain reference, compiled.
    pub reference_object: Vec<u8>,
    /// The baseline, compiled.
    pub baseline_object: Vec<u8>,
    /// The program that computes the magnitudes of a scaled bound.
    pub magnitude: Option<Object>,
    /// The machine.
    pub attestation: Attestation,
    /// Its digest.
    pub attestation_digest: Digest,
    /// The cores whose disturbances matter.
    pub watched: Watched,
}

impl Caches {
    /// Whether the timed calls of a problem find their arrays in the caches.
    pub(super) fn of(problem: &Problem) -> Self {
        use flopsmith_problem::Caches as Wanted;
        match problem.caches {
            Wanted::Warm | Wanted::Both => Self::Warm,
            Wanted::Cold => Self::Cold,
        }
    }
}

/// The arrays of the timed calls of one workload, in their buffers.
pub(super) struct PlacedArrays {
    pub specification: Specification,
    pub product: Option<Product>,
    pub arena: Arena,
    pub placement: Placement,
}

impl PlacedArrays {
    /// Makes the buffers for the size that `problem` is timed at.
    pub fn of(problem: &Problem) -> Result<Self, Failure> {
        if Caches::of(problem) == Caches::Cold && !CAN_FLUSH {
            return Err(Failure::infrastructure(
                InfrastructureCause::Resources,
                "this problem is timed with cold caches, and Flopsmith cannot empty the caches of this processor: write `caches = \"warm\"` in [timed]",
            ));
        }
        let mut specification = specify(problem, &problem.timed)?;
        let product = specification.product(&problem.bound)?;
        specification.grade(problem, product.as_ref());
        let arena = timed_buffers(problem, &problem.timed, &specification.arrays)?;
        let placement = arena
            .place(
                &specification.arrays,
                Placing::Fixed,
                &mut ChaCha8Rng::seed_from_u64(0),
            )
            .ok_or_else(|| {
                Failure::infrastructure(
                    InfrastructureCause::Resources,
                    "cannot place the buffers in shared memory: the arrays do not fit",
                )
            })?;
        Ok(Self {
            specification,
            product,
            arena,
            placement,
        })
    }
}
