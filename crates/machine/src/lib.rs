//! The machine's capabilities, and the disturbances on it.
//!
//! Attestation, the peaks of its cores and its memory, roofs, the system's OpenBLAS, other activity during a timing,
//! and the choice of cores for a timer.

pub mod attest;
pub mod environment;
pub mod openblas;
pub mod peak;
pub mod pinning;
pub mod roofline;

pub use pinning::Cores;
