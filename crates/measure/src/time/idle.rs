//! Observes the machine while a timer measures, and decides whether it is idle enough.

use std::time::{Duration, Instant};

use flopsmith_harness::Waiting;
use flopsmith_machine::environment::{Reading, Surroundings, Watched};
use flopsmith_protocol::Failure;
use nix::time::{ClockId, clock_gettime};

use super::Limits;
use super::quarantine::{Change, State};
use super::recheck::RecheckedBaseline;
use super::session::Session;
use super::workload::WorkloadTimer;

/// Time for a canary: enough calls for a floor, and with the time between them enough of the kernel's ticks.
pub(super) const CANARY: Limits = Limits {
    min: Duration::from_millis(60),
    max: Duration::from_millis(120),
    target_log_se: 0.004,
    usable_log_se: 0.008,
};

/// The readings at one moment of a measurement.
pub(super) struct Glance {
    reading: Reading,
    at: Instant,
    /// Processor time that our processes have used on the kernel's cores.
    own: Duration,
}

impl Glance {
    /// Takes the readings now. None if the kernel does not provide them.
    pub(super) fn take(session: &mut Session<'_>, waiting: Waiting) -> Option<Self> {
        let processes = session.processor_time().ok()?;
        let own = match waiting {
            Waiting::Spin => processes,
            // This thread is pinned to no core and may be on one of the kernel's.
            Waiting::Sleep => {
                let thread = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok()?;
                processes + Duration::from(thread)
            }
        };
        Some(Self {
            reading: Reading::now()?,
            at: Instant::now(),
            own,
        })
    }

    /// The disturbances between this moment and a later one.
    pub(super) fn until(&self, later: &Self, cores: &Watched) -> Surroundings {
        Surroundings::between(
            &self.reading,
            &later.reading,
            later.at.saturating_duration_since(self.at),
            later.own.saturating_sub(self.own),
            cores,
        )
    }
}

impl WorkloadTimer {
    /// The state of the machine, from the baseline's floors in the measurements so far.
    pub fn quarantine_state(&self) -> State {
        self.quarantine.state()
    }

    /// Times the baseline against itself for a moment, and returns the state of the machine after that. For a caller
    /// that waits for the end of a quarantine.
    ///
    /// # Errors
    /// Infrastructure failures only.
    pub fn canary(&mut self) -> Result<State, Failure> {
        self.meanwhile = Surroundings::default();
        let floor = self.recheck_baseline()?.baseline;
        self.rechecked = RecheckedBaseline::new(floor);
        let now = self.began.elapsed();
        let change = self.quarantine.canary(now, floor, &self.meanwhile);
        tell(change);
        Ok(self.quarantine_state())
    }

    /// Ends a quarantine because the caller waits no longer: from now on the machine is taken as it is.
    pub fn go_on(&mut self) {
        let change = self.quarantine.go_on(self.began.elapsed());
        tell(change);
    }

    /// Records the baseline's floor in a measurement, seconds.
    pub(super) fn note(&mut self, floor: f64) {
        let now = self.began.elapsed();
        let change = self.quarantine.measured(now, floor, &self.meanwhile);
        tell(change);
    }
}

fn tell(change: Option<Change>) {
    if let Some(change) = change {
        tracing::info!("{change}");
    }
}
