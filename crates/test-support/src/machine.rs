//! The machine that timed everything.

use flopsmith_protocol::{Digest, MachineFacts};

use crate::ids::{machine_class, node_id, run_id};

/// The attestation of the machine that made the measurements.
pub const ATTESTED: &str = "machine";

/// The floating-point peak of that machine.
pub const PEAK_GFLOPS: f64 = 50.0;

/// The machine, with these words as its attestation.
pub fn machine(attested: &str) -> MachineFacts {
    MachineFacts {
        run: run_id(),
        node: node_id(),
        machine_class: machine_class(),
        problem: None,
        peak_gflops: PEAK_GFLOPS,
        reference_gflops: 1.0,
        reference_gflops_of_each: Vec::new(),
        openblas_gflops: None,
        openblas_core: None,
        openblas_version: None,
        attestation: Digest::of(attested.as_bytes()),
        attestation_json: attested.to_owned(),
    }
}
