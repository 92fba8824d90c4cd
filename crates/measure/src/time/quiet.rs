//! What a timer sees of its machine while it measures, and whether that is quiet enough.

use std::time::{Duration, Instant};

use flopsmith_harness::Waiting;
use flopsmith_machine::environment::{Reading, Surroundings, Watched};
use flopsmith_protocol::Failure;
use nix::time::{ClockId, clock_gettime};

use super::quarantine::{Change, State};
use super::recheck::Alone;
use super::session::Session;
use super::{Limits, Timer};

/// Time for a canary: enough calls for a floor, and with what goes on between them enough of the kernel's ticks.
pub(super) const CANARY: Limits = Limits {
    min: Duration::from_millis(60),
    max: Duration::from_millis(120),
    target_log_se: 0.004,
    usable_log_se: 0.008,
};

/// A moment of a measurement.
pub(super) struct Glance {
    reading: Reading,
    at: Instant,
    /// Processor time that we have used on the kernel's cores.
    own: Duration,
}

impl Glance {
    /// Looks now. None where the kernel does not say.
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

    /// What went on from this moment to a later one.
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

impl Timer {
    /// How the machine stands, by the baseline in the measurements so far. Nothing here waits: whoever can is to look at
    /// this before each measurement.
    pub fn standing(&self) -> State {
        self.quarantine.state()
    }

    /// The cores that matter to this timer.
    pub fn watched(&self) -> &Watched {
        &self.watched
    }

    /// Times the baseline beside itself for a moment, and says how the machine stands then. For whoever waits for the end
    /// of a quarantine.
    ///
    /// # Errors
    /// The infrastructure's only.
    pub fn canary(&mut self) -> Result<State, Failure> {
        self.meanwhile = Surroundings::default();
        let floor = self.time_alone()?.baseline;
        self.alone = Alone::new(floor);
        let now = self.began.elapsed();
        let change = self.quarantine.canary(now, floor, &self.meanwhile);
        tell(change);
        Ok(self.standing())
    }

    /// Ends a quarantine because nobody waits any longer: from now on the machine is taken as it is.
    pub fn go_on(&mut self) {
        let change = self.quarantine.go_on(self.began.elapsed());
        tell(change);
    }

    /// Takes up the baseline's floor in a measurement, seconds.
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
