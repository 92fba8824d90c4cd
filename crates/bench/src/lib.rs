//! Compiles, verifies and times candidates.
//!
//! The three stages are separate calls because they are separate jobs on
//! separate nodes; none of them trusts anything the candidate's process says.
//! The clock, the seeds, the reference and every verdict live in the
//! supervisor, outside the jail. This crate knows nothing of the bus, of
//! learning or of archives.

pub mod attest;
pub mod compile;
mod detect;
pub mod environment;
pub mod failure;
#[doc(hidden)]
pub mod fuzz;
pub mod needs;
mod object_audit;
pub mod openblas;
pub mod peak;
pub mod pinning;
pub mod ranking;
pub mod roofline;
pub mod sanitize;
mod scan;
pub mod stats;
mod supervise;
pub mod time;
pub mod toolchain;
pub mod verify;

pub use compile::{Built, Compiler};
pub use failure::{Failure, ran_out};
/// Version of the harness and of its hand-shake with this crate.
pub use flopsmith_harness::VERSION as HARNESS_VERSION;
/// Changes when what a verdict or a number means changes outside the harness: checks, estimators, stopping rules. Results of
/// different methods are never taken for each other.
pub const METHOD: &str = "10";
pub use sanitize::{Checked, Sanitizers};
pub use time::{
    Chain, Change, Cores, Limits, PADDINGS, Purpose, Quarantine, Resolution, State, Timed, Timer,
    Why,
};
pub use toolchain::Toolchain;
pub use verify::{Report, Thoroughness, Verifier};
