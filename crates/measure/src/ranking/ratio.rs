//! Ratios between programs that one timer measured, without the errors the programs have in common.

use flopsmith_protocol::{Interval, Measurement};

use crate::stats::SYSTEMATIC_LOG_SE;
use crate::time::Chain;

/// Half of a 95 % interval, in standard errors.
const HALF: f64 = 1.96;
/// If an interval of ln(ratio) reaches no further than this to either side, it is narrow enough to say that there is no
/// difference.
const NARROW: f64 = 0.05;

/// ln(seconds of the baseline / seconds of a program).
///
/// Ratios to the plain reference have an error in common: the timer measures the ratio of baseline and reference once,
/// for all programs. That error moves all programs together and says nothing about which of them is faster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogRatio {
    /// The estimate of ln(ratio).
    pub value: f64,
    /// Its standard error.
    pub se: f64,
}

impl LogRatio {
    /// The result of a measurement without the `chain` of its timer.
    pub fn of(measurement: &Measurement, chain: &Chain) -> Self {
        Self {
            value: measurement.ratio.ln() - chain.log_ratio,
            se: measurement.log_ratio_se.max(SYSTEMATIC_LOG_SE),
        }
    }

    /// The same estimate with a further, independent standard error.
    pub fn widened(self, se: f64) -> Self {
        Self {
            se: self.se.hypot(se),
            ..self
        }
    }

    /// The standard error that the mean of these measurements lacks if each has a further, independent one of `placed`. The mean's own error
    /// grows where measurements disagree, so it contains a part of that already.
    pub fn lacks(all: &[LogRatio], placed: f64) -> f64 {
        let Some(mean) = Self::mean(all) else {
            return placed;
        };
        let weights: Vec<f64> = all.iter().map(Self::weight).collect();
        let sum: f64 = weights.iter().sum();
        let squares: f64 = weights.iter().map(|weight| weight.powi(2)).sum();
        let whole = sum.sqrt().recip().hypot(placed * squares.sqrt() / sum);
        (whole.powi(2) - mean.se.powi(2)).max(0.0).sqrt()
    }

    /// Its weight in a mean.
    fn weight(&self) -> f64 {
        self.se.max(SYSTEMATIC_LOG_SE).powi(-2)
    }

    /// Lower end of the 95 % interval.
    pub fn low(self) -> f64 {
        self.value - HALF * self.se
    }

    /// Upper end of the 95 % interval.
    pub fn high(self) -> f64 {
        self.value + HALF * self.se
    }

    /// True if the 95 % intervals of two programs do not overlap.
    #[cfg(test)]
    pub(crate) fn is_apart_from(self, other: Self) -> bool {
        self.low() > other.high() || other.low() > self.high()
    }

    /// The mean of several measurements of one program, each weighted by the inverse square of its standard error. If
    /// the measurements differ by more than these errors explain, as processes do whose memory lies at different
    /// addresses, the error of the mean grows by the scale factor with which the Particle Data Group averages (Review
    /// of Particle Physics, section 5.2). None if there is no measurement.
    pub fn mean(all: &[LogRatio]) -> Option<Self> {
        let weights: f64 = all.iter().map(Self::weight).sum();
        if all.is_empty() || !weights.is_finite() {
            return None;
        }
        let value = all.iter().map(|one| one.weight() * one.value).sum::<f64>() / weights;
        let squares: f64 = all
            .iter()
            .map(|one| one.weight() * (one.value - value).powi(2))
            .sum();
        let degrees = (all.len() as f64 - 1.0).max(1.0);
        let scale = (squares / degrees).sqrt().max(1.0);
        Some(Self {
            value,
            // The error that all measurements have in common does not shrink with their number.
            se: (scale / weights.sqrt()).max(SYSTEMATIC_LOG_SE),
        })
    }

    /// How many times as fast this program is as another one that the same timer measured.
    pub fn over(self, other: Self) -> Compared {
        let difference = self.value - other.value;
        let half = HALF * self.se.hypot(other.se);
        Compared {
            ratio: difference.exp(),
            interval: Interval {
                low: (difference - half).exp(),
                high: (difference + half).exp(),
                confidence: 0.95,
            },
        }
    }
}

/// The comparison of two programs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// Seconds of the other program divided by the seconds of this one: above 1 this one is faster.
    pub ratio: f64,
    /// Interval of `ratio`.
    pub interval: Interval,
}

impl Compared {
    /// True if one of the two is known to be faster.
    pub fn is_a_difference(&self) -> bool {
        let Interval { low, high, .. } = self.interval;
        low > 1.0 || high < 1.0
    }

    /// True if it is known which of the two is faster, or that they hardly differ. Otherwise only more measurements can
    /// tell.
    pub fn is_told(&self) -> bool {
        self.is_a_difference() || self.is_narrow()
    }

    /// True if the interval is narrow enough to say that two programs hardly differ.
    pub fn is_narrow(&self) -> bool {
        (self.interval.high / self.interval.low).ln() / 2.0 <= NARROW
    }

    /// The difference in percent; if there is none, how large it could be at most; if the interval is too wide for
    /// either, the estimate and the interval.
    pub fn words(&self) -> String {
        let Interval { low, high, .. } = self.interval;
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        if self.is_a_difference() {
            return format!(
                "{:+.1} % [{:+.1}, {:+.1}]",
                percent(self.ratio),
                percent(low),
                percent(high)
            );
        }
        if self.is_told() {
            let most = percent(high).max(-percent(low));
            return format!("no difference of more than {most:.1} %");
        }
        let between = if low.is_finite() && high.is_finite() {
            format!("between {:+.0} % and {:+.0} %", percent(low), percent(high))
        } else {
            "anything".to_owned()
        };
        format!(
            "cannot be told yet: {:+.0} % by the estimate, {between} by its interval",
            percent(self.ratio)
        )
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::Measured;

    use super::*;

    fn at(value: f64, se: f64) -> LogRatio {
        LogRatio { value, se }
    }

    #[test]
    fn the_error_common_to_all_programs_is_removed() {
        let chain = Chain {
            log_ratio: 3.0,
            log_se: 0.03,
            reference_seconds: 1.0,
            baseline_seconds: 0.05,
        };
        let measured = Measured::at(40.0).ratio(3.5f64.exp()).se(0.05);
        let own = LogRatio::of(&measured.measurement(), &chain);
        assert!((own.value - 0.5).abs() < 1e-12);
        assert!((own.se - 0.05).abs() < 1e-12);
        // No measurement is more precise than this.
        let sure = LogRatio::of(&measured.se(0.0).measurement(), &chain);
        assert!((sure.se - SYSTEMATIC_LOG_SE).abs() < 1e-12);
    }

    #[test]
    fn more_measurements_are_surer_unless_they_disagree() {
        let four = LogRatio::mean(&[at(0.1, 0.004); 4]).expect("four");
        assert!((four.value - 0.1).abs() < 1e-12 && (four.se - 0.002).abs() < 1e-12);
        // The more precise measurement weighs more.
        let two = LogRatio::mean(&[at(0.1, 0.001), at(0.106, 0.01)]).expect("two");
        assert!((two.value - 0.1).abs() < 1e-4, "{two:?}");
        let apart = LogRatio::mean(&[at(0.0, 0.001), at(0.04, 0.001)]).expect("two");
        assert!((apart.se - 0.02).abs() < 1e-3, "{apart:?}");
        let many = LogRatio::mean(&[at(0.1, 0.001); 100]).expect("many");
        assert!((many.se - SYSTEMATIC_LOG_SE).abs() < 1e-12);
        assert_eq!(LogRatio::mean(&[]), None);
    }

    #[test]
    fn an_error_that_measurements_show_already_is_not_counted_twice() {
        assert!((LogRatio::lacks(&[at(0.1, 0.004)], 0.02) - 0.02).abs() < 1e-12);
        // Four processes that happen to agree hide it, and it shrinks with their number.
        assert!((LogRatio::lacks(&[at(0.1, 0.004); 4], 0.02) - 0.01).abs() < 1e-12);
        // Processes that lie as far apart as it says show it, and more distant ones as well.
        for apart in [0.02, 0.2] {
            let all = [at(-apart, 0.004), at(apart, 0.004)];
            assert!(LogRatio::lacks(&all, 0.02) < 0.006, "{apart}");
        }
        // A measurement that has nearly all the weight has nearly all of its process' error, too.
        let one_counts = [at(0.1, 0.002), at(0.1, 0.05)];
        assert!(LogRatio::lacks(&one_counts, 0.02) > 0.0195);
        assert!((LogRatio::lacks(&[], 0.02) - 0.02).abs() < 1e-12);
    }

    #[test]
    fn a_difference_is_named_with_its_interval_and_noise_is_called_so() {
        let faster = at(0.0315, 0.001).over(at(0.0, 0.001));
        assert_eq!(faster.words(), "+3.2 % [+2.9, +3.5]");
        let slower = at(0.0, 0.001).over(at(0.0315, 0.001));
        assert_eq!(slower.words(), "-3.1 % [-3.4, -2.8]");
        assert!((faster.ratio * slower.ratio - 1.0).abs() < 1e-12);
        let same = at(0.002, 0.001).over(at(0.0, 0.001));
        assert_eq!(same.words(), "no difference of more than 0.5 %");
        assert!(same.is_told() && !same.is_a_difference());
    }

    #[test]
    fn a_large_difference_that_is_not_sure_is_not_called_none() {
        // From 41.6 to 122.5 GFLOPS, each known within a factor of two.
        let unsure = at(122.5f64.ln(), 0.4).over(at(41.6f64.ln(), 0.4));
        assert!(!unsure.is_told() && !unsure.is_a_difference());
        assert_eq!(
            unsure.words(),
            "cannot be told yet: +194 % by the estimate, between -3 % and +792 % by its interval"
        );
        let nothing = at(1.0, f64::INFINITY).over(at(0.0, 0.001));
        assert!(!nothing.is_told());
        assert!(nothing.words().contains("anything"), "{}", nothing.words());
        let none = at(1.0, f64::NAN).over(at(0.0, 0.001));
        assert!(!none.is_told() && none.words().contains("anything"));
    }
}
