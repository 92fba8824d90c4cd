//! A timer for campaigns of faults: it measures like the real one, and then reports numbers that follow from the
//! program alone.
//!
//! Two runs of the same seed try the same programs and end alike, so the effect of a fault shows. Such numbers are no
//! measurements. Only builds with the feature `steady` have such timers. [`crate::outcome_cache::version`] marks these
//! builds, so that no other node works for their runs and they work for no others.

use flopsmith_measure::{Purpose, State, Timed};
use flopsmith_protocol::{Digest, Failure, Interval, StopReason};

use super::timer::Stage;

/// Half the width of the interval and the standard error, as shares.
const ERROR: f64 = 0.001;
/// The fastest program is this many times as fast as the reference.
const FASTEST: f64 = 40.0;

/// Measures with another stage, passes on its failures and replaces its numbers.
pub struct Steady<S>(pub S);

impl<S: Stage> Stage for Steady<S> {
    fn measure(
        &mut self,
        object: &[u8],
        purpose: Purpose,
        seed: u64,
        best_gflops_known: Option<f64>,
    ) -> Result<Timed, Failure> {
        let timed = self.0.measure(object, purpose, seed, best_gflops_known)?;
        Ok(steady(timed, object))
    }

    fn certify(&mut self, layouts: &[Vec<u8>], seed: u64) -> Result<Timed, Failure> {
        let timed = self.0.certify(layouts, seed)?;
        let first = layouts.first().map_or(&[][..], Vec::as_slice);
        Ok(steady(timed, first))
    }

    fn quarantine_state(&self) -> State {
        self.0.quarantine_state()
    }
}

fn steady(mut timed: Timed, object: &[u8]) -> Timed {
    let ratio = ratio(object);
    let measured = &mut timed.measurement;
    measured.gflops = ratio;
    measured.seconds_per_call = 1e-3 / ratio;
    measured.minimum_seconds = Some(measured.seconds_per_call);
    measured.median_seconds = Some(measured.seconds_per_call);
    measured.ratio = ratio;
    measured.interval = Interval {
        low: ratio * (1.0 - ERROR),
        high: ratio * (1.0 + ERROR),
        confidence: 0.95,
    };
    measured.log_ratio_se = ERROR;
    measured.stop = StopReason::Precise;
    measured.share_of_peak = ratio / (2.0 * FASTEST);
    if let Some(certificate) = &mut measured.certificate {
        certificate.layout_ratios.fill(ratio);
        certificate.layout_spread = 0.0;
        certificate.cold_seconds_per_call = None;
        certificate.cold_ratio = None;
        certificate.cold_interval = None;
    }
    timed
}

/// A ratio from 0.5 to [`FASTEST`] that depends on nothing but the object.
fn ratio(object: &[u8]) -> f64 {
    let digest = Digest::of(object);
    let leading = u32::from_str_radix(&digest.as_str()[..8], 16).unwrap_or_default();
    0.5 + (FASTEST - 0.5) * f64::from(leading) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::Measured;

    use super::*;

    /// A stage whose numbers differ from call to call. An empty object is a failure.
    struct Noisy(f64);

    impl Stage for Noisy {
        fn measure(
            &mut self,
            object: &[u8],
            _: Purpose,
            _: u64,
            _: Option<f64>,
        ) -> Result<Timed, Failure> {
            if object.is_empty() {
                return Err(Failure::infrastructure(
                    flopsmith_protocol::InfrastructureCause::Harness,
                    "nothing to measure",
                ));
            }
            self.0 += 1.0;
            Ok(Timed {
                measurement: Measured::at(self.0).measurement(),
                raw: b"samples".to_vec(),
            })
        }

        fn certify(&mut self, layouts: &[Vec<u8>], seed: u64) -> Result<Timed, Failure> {
            self.measure(&layouts[0], Purpose::Certify, seed, None)
        }
    }

    #[test]
    fn numbers_follow_from_the_object_and_failures_stay() {
        let mut timer = Steady(Noisy(1.0));
        let mut of = |object: &[u8]| {
            let timed = timer.measure(object, Purpose::Screen, 1, None);
            timed.expect("a number").measurement
        };
        let (one, other, again) = (of(b"one"), of(b"other"), of(b"one"));
        assert_eq!(one, again);
        assert!((one.ratio - other.ratio).abs() > 1e-6);
        assert!((0.5..=FASTEST).contains(&one.ratio) && one.converged());
        assert!(one.interval.low < one.ratio && one.ratio < one.interval.high);
        assert!(timer.measure(b"", Purpose::Screen, 1, None).is_err());
        let certified = timer.certify(&[b"one".to_vec()], 1).expect("a number");
        assert_eq!(certified.measurement.gflops, one.gflops);
    }
}
