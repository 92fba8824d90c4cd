//! Numbers for people, rounded to their significant digits. Every command prints speeds and ratios by [`four`], and times of
//! calls by [`time`], so that a number looks the same wherever it stands.

use flopsmith_protocol::Interval;
pub use flopsmith_report::text::{four, significant, time};
pub use flopsmith_report::{counted, share};

/// A share as per cent, with three digits.
pub fn percent(share: f64) -> String {
    format!("{} %", significant(100.0 * share, 3))
}

/// The ends of an interval, however wide it is; `unknown` if an end is not finite.
pub fn between(interval: &Interval) -> String {
    if !interval.low.is_finite() || !interval.high.is_finite() {
        return "unknown".into();
    }
    format!("[{}, {}]", four(interval.low), four(interval.high))
}

/// Half the width of an interval as a percentage of `value`.
pub fn give_or_take(value: f64, interval: &Interval) -> String {
    let half = (interval.high - interval.low) / 2.0 / value;
    if half > 1.0 {
        return "more than ±100 %".into();
    }
    format!("±{} %", significant(100.0 * half, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_three_digits() {
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.0321), "3.21 %");
        assert_eq!(percent(0.000_32), "0.0320 %");
    }

    #[test]
    fn an_interval_is_shown_by_its_ends_or_by_its_half() {
        let interval = Interval {
            low: 39.6,
            high: 40.4,
            confidence: 0.95,
        };
        assert_eq!(between(&interval), "[39.60, 40.40]");
        assert_eq!(give_or_take(40.0, &interval), "±1.0 %");
        let nothing = Interval {
            low: 1.5,
            high: 546.0,
            confidence: 0.95,
        };
        assert_eq!(between(&nothing), "[1.500, 546.0]");
        let none = Interval {
            high: f64::INFINITY,
            ..nothing
        };
        assert_eq!(between(&none), "unknown");
        assert_eq!(give_or_take(30.0, &nothing), "more than ±100 %");
    }
}
