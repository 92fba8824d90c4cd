//! The roofs that measurements are held against.

use std::time::Duration;

use flopsmith_protocol::InfrastructureCause;

use super::Timer;
use crate::Failure;
use crate::peak::{self, Peak};
use crate::roofline::{self, Place, Roof, Roofs};

/// Above this share of the measured peak a result is an error of the measurement.
const PLAUSIBLE: f64 = 1.02;
/// Time spent on measuring the peak.
const PEAK_BUDGET: Duration = Duration::from_millis(250);
/// Time spent on every other roof; there are about a dozen.
const ROOF_BUDGET: Duration = Duration::from_millis(10);

/// Measures all roofs of these cores.
pub fn measure(cores: &[usize], threads: u32) -> (Peak, Roofs) {
    peak::measure_all(cores, threads, PEAK_BUDGET, ROOF_BUDGET)
}

impl Timer {
    /// Measured floating-point peak at this thread count, 10⁹ operations a second.
    pub fn peak_gflops(&self) -> f64 {
        self.roof()
    }

    /// Where a program of this problem lies under the roofs that does `gflops` · 10⁹ operations a second, see
    /// [`roofline::place`]. Single precision is read as fast as double, byte for byte, and computed twice as fast.
    pub fn place(&self, gflops: f64) -> Option<Place> {
        let roof = Roof {
            peak_gflops: self.roof(),
            threads: self.threads,
            measured: &self.attestation.roofs,
        };
        let bytes = self.problem.moved_bytes(&self.problem.timed);
        roofline::place(self.work_flops, bytes, gflops, roof)
    }

    /// The peak for elements of this problem's size: vectors hold twice as many floats as doubles.
    pub(super) fn roof(&self) -> f64 {
        self.peak.gflops * self.problem.lanes()
    }

    /// Refuses what is faster than this machine can be.
    pub(super) fn plausible(&mut self, gflops: f64) -> Result<f64, Failure> {
        if gflops > self.roof() * PLAUSIBLE {
            // The roof itself may have been measured in a bad moment.
            let again = peak::measure(&self.cores.kernel, self.threads, PEAK_BUDGET * 2);
            self.peak.gflops = self.peak.gflops.max(again.gflops);
        }
        if gflops > self.roof() * PLAUSIBLE {
            // Nobody is rewarded for it and nobody blamed: it is tried again and then left out.
            return Err(Failure::infrastructure(
                InfrastructureCause::Implausible,
                format!(
                    "{gflops:.2} GFLOPS are more than this machine's measured peak of {:.2}",
                    self.roof()
                ),
            ));
        }
        Ok(gflops)
    }
}
