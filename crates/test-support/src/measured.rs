//! Measurements.

use flopsmith_protocol::{
    AtWorkload, CandidateRef, Digest, Interval, Measurement, Outcome, StopReason, Verdict,
};

use crate::machine::{ATTESTED, PEAK_GFLOPS};
use crate::outcome::outcome;

/// Floating-point operations of one call, 10⁹: two 256 × 256 matrices.
const GFLOP_PER_CALL: f64 = 0.033_554_432;

/// A measurement under construction, then a verdict or an outcome. Invalid numbers stay as they are.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Measured {
    gflops: f64,
    ratio: f64,
    se: f64,
    share_of_peak: f64,
    reused: bool,
    stop: StopReason,
}

impl Measured {
    /// A program of this speed, within a hundredth, on a machine where the plain reference makes one GFLOPS and the
    /// peak is [`PEAK_GFLOPS`].
    pub fn at(gflops: f64) -> Self {
        Self {
            gflops,
            ratio: gflops,
            se: 0.01,
            share_of_peak: gflops / PEAK_GFLOPS,
            reused: false,
            stop: StopReason::Precise,
        }
    }

    /// This many times as fast as the plain reference.
    pub fn ratio(self, ratio: f64) -> Self {
        Self { ratio, ..self }
    }

    /// With this standard error of the ratio's logarithm; the interval is about two of them to either side.
    pub fn se(self, se: f64) -> Self {
        Self { se, ..self }
    }

    /// With this share of the peak.
    pub fn share_of_peak(self, share_of_peak: f64) -> Self {
        Self {
            share_of_peak,
            ..self
        }
    }

    /// A cached measurement.
    pub fn reused(self) -> Self {
        Self {
            reused: true,
            ..self
        }
    }

    /// A measurement far less precise than its target.
    pub fn unconverged(self) -> Self {
        Self {
            stop: StopReason::Unconverged,
            ..self
        }
    }

    /// The measurement.
    pub fn measurement(self) -> Measurement {
        Measurement {
            gflops: self.gflops,
            seconds_per_call: GFLOP_PER_CALL / self.gflops,
            minimum_seconds: Some(0.99 * GFLOP_PER_CALL / self.gflops),
            median_seconds: Some(1.01 * GFLOP_PER_CALL / self.gflops),
            ratio: self.ratio,
            interval: Interval {
                low: self.ratio * (-1.96 * self.se).exp(),
                high: self.ratio * (1.96 * self.se).exp(),
                confidence: 0.95,
            },
            log_ratio_se: self.se,
            calls: 64,
            blocks: 8,
            mdape: 0.01,
            stop: self.stop,
            samples: None,
            attestation: Digest::of(ATTESTED.as_bytes()),
            share_of_peak: self.share_of_peak,
            reused: self.reused,
            certificate: None,
            rounds: 12,
            outlying: 0,
            sizes: None,
            workloads: Vec::new(),
        }
    }

    /// The measurement over workloads of these names, at which the program is so many times as fast as `self` says.
    ///
    /// # Panics
    /// If there are none.
    pub fn over(self, workloads: &[(&str, f64)]) -> Measurement {
        let parts = workloads.iter().map(|(name, times)| {
            let here = Self {
                gflops: self.gflops * times,
                ratio: self.ratio * times,
                share_of_peak: self.share_of_peak * times,
                ..self
            };
            AtWorkload {
                name: (*name).to_owned(),
                measurement: here.measurement(),
                gb_per_second: None,
            }
        });
        Measurement::over_workloads(parts.collect()).expect("there is a workload")
    }

    /// The verdict: verified and measured.
    pub fn verdict(self) -> Verdict {
        Verdict::Measured {
            measurement: self.measurement(),
        }
    }

    /// The outcome of `candidate`.
    pub fn outcome(self, candidate: CandidateRef) -> Outcome {
        outcome(candidate, self.verdict())
    }
}

/// Verified, and this fast.
pub fn measured(gflops: f64) -> Verdict {
    Measured::at(gflops).verdict()
}
