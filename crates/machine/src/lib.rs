//! What the machine can do, and what disturbs it.
//!
//! Attestation, the peaks of its cores and its memory, roofs, the system's
//! OpenBLAS, what else runs meanwhile, and which cores a timer takes.

pub mod attest;
pub mod environment;
pub mod openblas;
pub mod peak;
pub mod pinning;
pub mod roofline;

pub use pinning::Cores;
