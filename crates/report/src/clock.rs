//! The seconds of a call, and those of the timed calls by the clock as far as they agree with the speed.
//!
//! GFLOPS and the time of a call follow from the ratio. The clock sees every disturbance, and an imprecise ratio is
//! wrong by itself. If both were shown, the numbers of a program would contradict each other.

use flopsmith_protocol::{Measurement, WorkloadMeasurement};
use serde::{Deserialize, Serialize};

use crate::text::{four, significant, time};

/// Seconds by the clock agree with the time of a call if they differ from it by at most this share. `bench` says `no
/// difference` of speeds within 5 %, so it calls times that are further apart different. Calls without disturbance
/// lie within it: the time of a call is a low quantile of them, and they scatter by one or two per cent.
const AGREES: f64 = 0.05;

/// Replaces seconds by the clock that would contradict the speed.
pub const LEFT_OUT: &str = "—";

/// The seconds of calls.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// An undisturbed call.
    #[serde(rename = "seconds_per_call")]
    pub call: f64,
    /// The fastest timed call; none if it contradicts the speed.
    #[serde(rename = "minimum_seconds", default)]
    pub minimum: Option<f64>,
    /// The median of all timed calls; none if it contradicts the speed.
    #[serde(rename = "median_seconds", default)]
    pub median: Option<f64>,
    /// Median absolute deviation of the timed calls from their median, as a share of it.
    #[serde(rename = "mdape")]
    pub spread: f64,
}

impl Clock {
    /// Those of a measurement.
    pub fn of(m: &Measurement) -> Self {
        let seconds = [m.minimum_seconds, m.median_seconds];
        Self::beside(m.seconds_per_call, m.converged(), seconds, m.mdape)
    }

    /// Those of a workload.
    pub fn of_workload(w: &WorkloadMeasurement) -> Self {
        let seconds = [w.minimum_seconds, w.median_seconds];
        Self::beside(w.seconds_per_call, w.converged(), seconds, w.mdape)
    }

    fn beside(call: f64, converged: bool, seconds: [Option<f64>; 2], spread: f64) -> Self {
        let agrees = |seconds: &f64| converged && (seconds / call - 1.0).abs() <= AGREES;
        let [minimum, median] = seconds.map(|seconds| seconds.filter(agrees));
        Self {
            call,
            minimum,
            median,
            spread,
        }
    }

    /// The cells of a call, the fastest one, the median and the spread.
    pub fn cells(&self) -> [String; 4] {
        let [minimum, median] =
            [self.minimum, self.median].map(|s| s.map_or_else(|| LEFT_OUT.to_owned(), time));
        let spread = format!("{} %", significant(100.0 * self.spread, 3));
        [time(self.call), minimum, median, spread]
    }

    /// The same as part of a sentence, with the bytes that calls move where these bind, in 10⁹/s.
    pub fn words(&self, gb_per_second: Option<f64>) -> String {
        let [call, minimum, median, spread] = self.cells();
        let bytes = gb_per_second.map_or_else(String::new, |gb| format!(", {} GB/s", four(gb)));
        format!("{call} a call (min {minimum}, median {median}, spread {spread}){bytes}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_with_what_the_clock_does_not_contradict() {
        let clock = Clock::beside(1e-3, true, [Some(0.99e-3), Some(1.2e-3)], 0.0123);
        assert_eq!(
            clock.words(Some(12.5)),
            "1.000 ms a call (min 990.0 µs, median —, spread 1.23 %), 12.50 GB/s"
        );
        let unsure = Clock::beside(1e-3, false, [Some(0.99e-3), None], 0.0123);
        assert_eq!(
            unsure.words(None),
            "1.000 ms a call (min —, median —, spread 1.23 %)"
        );
    }
}
