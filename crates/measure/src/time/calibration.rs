//! The measurements that a timer makes for itself: the roofs of its cores, the plain reference, and calls without caches.

use flopsmith_machine::attest::Attestation;
use flopsmith_machine::peak::Peak;
use flopsmith_machine::roofline::Roofs;

use super::roof;
use super::steps::Listener;

/// How a timer measures its machine and its reference. The default is that of all timers whose numbers are reported.
#[derive(Clone)]
pub struct Calibration {
    known: Option<Attestation>,
    divisor: u32,
    listener: Listener,
}

impl Default for Calibration {
    fn default() -> Self {
        Self {
            known: None,
            divisor: 1,
            listener: Listener::default(),
        }
    }
}

impl Calibration {
    /// Takes peak and roofs from this attestation, if it is one of the same cores and the same number of threads.
    #[must_use]
    pub fn with_roofs_of(self, attestation: &Attestation) -> Self {
        Self {
            known: Some(attestation.clone()),
            ..self
        }
    }

    /// Divides the time of all comparisons of plain reference and baseline, and of calls without caches. Programs get the
    /// time of their purpose. For callers that ask whether programs are measured or refused: ratios to the reference become
    /// less certain.
    #[must_use]
    pub fn in_a_part_of_the_time(self, divisor: u32) -> Self {
        Self {
            divisor: divisor.max(1),
            ..self
        }
    }

    /// Tells `listener` of each step of the timer.
    #[must_use]
    pub fn telling(self, listener: Listener) -> Self {
        Self { listener, ..self }
    }

    /// Peak and roofs of these cores with this number of threads, measured unless they are known.
    pub fn roofs(&self, cores: &[usize], threads: u32) -> (Peak, Roofs) {
        let same = |known: &&Attestation| known.kernel_cores == cores && known.threads == threads;
        match self.known.as_ref().filter(same) {
            Some(known) => (known.peak, known.roofs.clone()),
            None => roof::measure(cores, threads),
        }
    }

    /// The one who is told of each step.
    pub(super) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// The number that divides the time of the timer's own measurements; at least 1.
    pub(super) fn divisor(&self) -> u32 {
        self.divisor
    }
}
