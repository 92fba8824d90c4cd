//! The machine's capabilities, and the disturbances on it.
//!
//! Attestation, free memory, the peaks of its cores and its memory, roofs, the newest OpenBLAS, other activity
//! during a timing, hardware counters, and the choice of cores for a timer and for
//! processes that run beside each other.
//!
//! Invariants:
//! - A fact that the kernel does not tell is reported as unknown and never guessed.
//! - A peak is the best of many short blocks, so that load on the machine does not lower the roof that programs are
//!   compared with.
//! - The crate decides nothing about a program.

pub mod attest;
pub mod counters;
pub mod environment;
pub mod memory;
pub mod openblas;
pub mod peak;
pub mod pinning;
pub mod roofline;
pub mod shared_cores;

pub use pinning::Cores;
pub use shared_cores::SharedCores;
