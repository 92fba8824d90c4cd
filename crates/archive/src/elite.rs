//! The elites of a cell, and the order among them.

use std::cmp::Ordering;

use flopsmith_protocol::{CandidateId, Digest, Interval, Measurement, Outcome, PolicyVersion};
use serde::{Deserialize, Serialize};

use crate::identity;

/// A verified program with its measured speed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Elite {
    /// The candidate that wrote it first.
    pub candidate: CandidateId,
    /// Digest of the normalised source ([`identity::source_digest`]).
    pub digest: Digest,
    /// The source as written.
    pub source: String,
    /// Speed in 10⁹ floating-point operations a second.
    pub gflops: f64,
    /// The plain reference's time / the candidate's.
    pub ratio: f64,
    /// Interval of `ratio`; always around it.
    pub interval: Interval,
    /// Standard error of ln(ratio).
    pub log_ratio_se: f64,
    /// How many times it was measured again. Only what was measured again is kept in a cell.
    pub remeasured: u32,
    /// The training step of its candidate.
    pub step: u64,
    /// The policy version that wrote it; none for other generators.
    pub policy: Option<PolicyVersion>,
}

impl Elite {
    /// The program of a measured outcome, not measured again yet. None for other outcomes and for measurements that are
    /// not positive finite numbers.
    pub fn from_outcome(outcome: &Outcome) -> Option<Self> {
        let mut elite = Self {
            candidate: outcome.candidate.id.clone(),
            digest: identity::source_digest(&outcome.source),
            source: outcome.source.clone(),
            gflops: 0.0,
            ratio: 0.0,
            interval: Interval {
                low: 0.0,
                high: 0.0,
                confidence: 0.0,
            },
            log_ratio_se: 0.0,
            remeasured: 0,
            step: outcome.candidate.step,
            policy: outcome.candidate.policy,
        };
        elite
            .set_speed(outcome.verdict.measurement()?)
            .then_some(elite)
    }

    /// The same program with the speed of another measurement, which has converged.
    ///
    /// The first measurement made the program an elite *because* it was high, so it is too high on average. The second
    /// measurement was not selected. It replaces the first one instead of being averaged with it. None if the
    /// measurement is not a positive finite number.
    pub fn measured_again(mut self, measurement: &Measurement) -> Option<Self> {
        self.remeasured += 1;
        self.set_speed(measurement).then_some(self)
    }

    fn set_speed(&mut self, m: &Measurement) -> bool {
        let usable = |x: f64| x.is_finite() && x > 0.0;
        self.gflops = m.gflops;
        self.ratio = m.ratio;
        // An interval must contain its own estimate, independent of the timer that measured it.
        self.interval = Interval {
            low: m.interval.low.min(m.ratio),
            high: m.interval.high.max(m.ratio),
            confidence: m.interval.confidence,
        };
        // An unknown error counts as a factor of e.
        self.log_ratio_se = if m.log_ratio_se.is_finite() {
            m.log_ratio_se.max(0.0)
        } else {
            1.0
        };
        usable(m.gflops)
            && usable(m.ratio)
            && self.interval.low.is_finite()
            && self.interval.high.is_finite()
            && self.interval.confidence.is_finite()
    }

    /// True if this elite is faster by more than the share `min_gain` and by more than both standard errors together
    /// (root of the sum of their squares).
    pub fn clearly_faster_than(&self, other: &Elite, min_gain: f64) -> bool {
        let noise = self.log_ratio_se.hypot(other.log_ratio_se);
        (self.ratio / other.ratio).ln() > noise.max(min_gain.ln_1p())
    }

    /// The order of elites in a cell, best first.
    ///
    /// The *lower* end of the interval decides. An elite that is slower beyond noise (its interval lies below the other's) has
    /// the lower end further down, so it can never push the faster one out; of two elites with the same estimate the
    /// one with the narrower interval is preferred. The order is total over all fields, so the elites of a cell do not
    /// depend on the order in which they arrive.
    pub fn rank(&self, other: &Elite) -> Ordering {
        let by = |a: f64, b: f64| b.total_cmp(&a);
        by(self.interval.low, other.interval.low)
            .then_with(|| by(self.ratio, other.ratio))
            .then_with(|| by(self.gflops, other.gflops))
            .then_with(|| by(self.interval.high, other.interval.high))
            .then_with(|| by(self.interval.confidence, other.interval.confidence))
            .then_with(|| by(other.log_ratio_se, self.log_ratio_se))
            .then_with(|| other.remeasured.cmp(&self.remeasured))
            .then_with(|| self.step.cmp(&other.step))
            .then_with(|| self.digest.cmp(&other.digest))
            .then_with(|| self.candidate.cmp(&other.candidate))
            .then_with(|| self.source.cmp(&other.source))
            .then_with(|| self.policy.cmp(&other.policy))
    }
}
