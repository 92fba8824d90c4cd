//! Timing: the speed of a verified program relative to a baseline on the same core in the same moments.
//!
//! Candidate and baseline run in processes of their own on the same cores and map the same buffers; the supervisor
//! holds the clock. Every timed call gets fresh inputs, which a third process makes while the called process sleeps.
//! Every timed call is probed, and some are checked in full; now and then there is an untimed call with adversarial inputs
//! between them. Only the ratio of the two sides, which take turns in short bursts, is trusted. The ratio to the plain
//! reference comes from a ratio of baseline and reference that is measured once, so that a slow reference need not be
//! called between all candidates.
//!
//! The caller guarantees that no other process runs on the cores meanwhile.

mod adversarial;
mod baseline_oracle;
mod calibration;
mod certify;
mod check;
mod combine;
pub mod counters;
mod course;
mod decision;
mod equipment;
mod idle;
mod moved;
mod numbers;
mod off_clock;
mod quarantine;
mod raw;
mod recheck;
mod reference;
mod remaining;
mod resolution;
mod roof;
mod session;
#[cfg(test)]
mod simulate;
mod spot_checks;
mod steps;
mod timer;
mod tolerance;
mod workload;
mod workload_roofs;

use std::time::Duration;

use flopsmith_protocol::Measurement;

pub use calibration::Calibration;
pub use certify::PADDINGS;
pub use course::{Course, Finished, Turn, Who};
pub use decision::{Limits, Purpose};
pub use moved::MemoryRoof;
pub use quarantine::{Change, Quarantine, State, Why};
pub use reference::{Chain, Chains, REFINED_USABLE_LOG_SE, USABLE_LOG_SE};
pub use resolution::Resolution;
pub use steps::{Listener, Step, Work};
pub use timer::Timer;
pub use workload_roofs::{WorkloadRoof, workload_roofs};

/// Processor time that one candidate may use.
pub(crate) const CPU_LIMIT: Duration = Duration::from_secs(60);
/// If a program is this many times as fast as the best one known, it is measured again, and for longer, before the
/// result is believed.
const SURPRISING: f64 = 3.0;

/// A measured candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// The numbers.
    pub measurement: Measurement,
    /// All raw samples of both sides as JSON, for the artifact store.
    pub raw: Vec<u8>,
}

/// Whether calls find their arrays in the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caches {
    /// Yes, as far as the arrays fit.
    Warm,
    /// No, in none.
    Cold,
}
