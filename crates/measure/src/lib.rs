//! Verifies and times candidates.
//!
//! The two stages are separate calls because they are separate jobs on separate nodes; neither stage trusts anything
//! the candidate's process says. The clock, the seeds, the reference and every verdict live in the supervisor, outside
//! the jail. This crate knows nothing of the bus, of learning or of archives.

pub mod needs;
pub mod ranking;
pub mod sanitize;
pub mod stats;
mod supervise;
pub mod time;
pub mod verify;

/// Version of the harness and of its hand-shake with this crate.
pub use flopsmith_harness::VERSION as HARNESS_VERSION;
/// Increase this number when a change outside the harness (checks, estimators, stopping rules) alters the meaning of a
/// verdict or a number. Results of different methods are never taken for each other.
pub const METHOD: &str = "14";
pub use sanitize::{Checked, Sanitizers};
pub use time::{
    Calibration, Chain, Chains, Change, Limits, Listener, PADDINGS, Purpose, Quarantine,
    REFINED_USABLE_LOG_SE, Resolution, State, Step, Timed, Timer, USABLE_LOG_SE, Why, Work,
    WorkloadRoof, workload_roofs,
};
pub use verify::{Report, Thoroughness, Verifier};
