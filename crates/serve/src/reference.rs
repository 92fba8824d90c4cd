//! The measurement of a problem's plain reference that ratios and rewards refer to, and the time for which it holds.
//!
//! A reference holds for the time of `--refresh`, so that the numbers of a service are comparable. One that is not well known
//! ([`ReferenceSpeeds::defects`]) is provisional: it is measured again after [`SOON`], and if that brings nothing better,
//! after twice that time, and so on. A new measurement replaces it only if it has fewer defects: on a machine that is always
//! busy the numbers refer to one measurement nevertheless.

use std::time::Duration;

use flopsmith_measure::{Chains, REFINED_USABLE_LOG_SE, USABLE_LOG_SE};
use serde::{Deserialize, Serialize};

use crate::circumstances::Circumstances;
use crate::roofs::Roofs;
use crate::wire::{Purpose, ReferenceSpeeds};

/// Time after which a provisional reference is measured again for the first time.
pub const SOON: Duration = Duration::from_secs(300);

/// How long the reference of a measurement was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grade {
    /// In one process: for screenings and rankings.
    Quick,
    /// In several processes: for certified numbers.
    Refined,
}

impl Grade {
    /// The grade that a purpose needs.
    pub fn of(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Screen | Purpose::Rank => Self::Quick,
            Purpose::Certify => Self::Refined,
        }
    }

    /// Its name in the folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Refined => "refined",
        }
    }

    /// Largest standard error of ln(ratio) of a reference that has converged.
    pub fn usable_log_se(self) -> f64 {
        match self {
            Self::Quick => USABLE_LOG_SE,
            Self::Refined => REFINED_USABLE_LOG_SE,
        }
    }
}

/// A measured reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The circumstances in which it holds.
    pub circumstances: Circumstances,
    /// True if sanitizers check all rankings: results with and without them have different references.
    pub sanitize: bool,
    /// The ratios of reference and baseline.
    pub chains: Chains,
    /// Speed of the reference at each of several workloads, 10⁹ operations a second; empty where there is one.
    #[serde(default)]
    pub of_each: Vec<f64>,
    /// The speeds, for people and rewards.
    pub speeds: ReferenceSpeeds,
    /// The roofs of the problem on this machine.
    pub roofs: Roofs,
    /// Number of later measurements that were no better.
    pub attempts: u32,
    /// Time of the latest measurement, milliseconds since 1970.
    pub tried_unix_ms: u64,
}

impl Reference {
    /// True if it was measured as this evaluator measures.
    pub fn is_of(&self, circumstances: &Circumstances, sanitize: bool) -> bool {
        self.circumstances == *circumstances && self.sanitize == sanitize
    }

    /// The last time at which it holds, milliseconds since 1970. `refresh` is the longest time for which any reference holds.
    pub fn holds_until_unix_ms(&self, refresh: Duration) -> u64 {
        let latest = later(self.speeds.measured_unix_ms, refresh);
        if self.speeds.defects() == 0 {
            return latest;
        }
        let times = 1u32.checked_shl(self.attempts).unwrap_or(u32::MAX);
        latest.min(later(self.tried_unix_ms, SOON.saturating_mul(times)))
    }

    /// The reference to refer to after another measurement in the same circumstances.
    pub fn or_better(self, newer: Self, refresh: Duration) -> Self {
        let now = newer.speeds.measured_unix_ms;
        let is_old = now > later(self.speeds.measured_unix_ms, refresh);
        if is_old || newer.speeds.defects() < self.speeds.defects() {
            return newer;
        }
        Self {
            attempts: self.attempts.saturating_add(1),
            tried_unix_ms: now,
            ..self
        }
    }
}

/// A time, milliseconds since 1970, after a while.
pub fn later(unix_ms: u64, pause: Duration) -> u64 {
    let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    unix_ms.saturating_add(pause)
}

#[cfg(test)]
pub mod tests {
    use flopsmith_measure::Chain;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const MINUTE: u64 = 60_000;

    /// A reference that tests invent, well known and measured at the time `at`.
    pub fn reference(id: &str, at: u64) -> Reference {
        let chain = Chain {
            log_ratio: 1.5,
            log_se: 0.004,
            reference_seconds: 2.0,
            baseline_seconds: 0.1,
        };
        Reference {
            circumstances: Circumstances::of_machine("this"),
            sanitize: false,
            chains: chain.into(),
            of_each: Vec::new(),
            speeds: ReferenceSpeeds {
                id: id.into(),
                gflops: 2.0,
                peak_gflops: 80.0,
                measured_unix_ms: at,
                log_se: 0.004,
                converged: true,
                machine_busy: None,
            },
            roofs: Roofs {
                threads: 1,
                workloads: Vec::new(),
                bandwidths: Vec::new(),
                ceilings: Vec::new(),
            },
            attempts: 0,
            tried_unix_ms: at,
        }
    }

    fn busy(id: &str, at: u64) -> Reference {
        let mut made = reference(id, at);
        made.speeds.machine_busy = Some("core 1 is used 40 % by others".into());
        made
    }

    #[test]
    fn only_a_well_known_reference_holds_for_a_day() {
        let known = reference("a", 1);
        assert_eq!(known.holds_until_unix_ms(DAY), 1 + 24 * 60 * MINUTE);
        assert_eq!(busy("a", 1).holds_until_unix_ms(DAY), 1 + 5 * MINUTE);
        let mut unsure = reference("a", 1);
        unsure.speeds.converged = false;
        assert_eq!(unsure.holds_until_unix_ms(DAY), 1 + 5 * MINUTE);
        let minute = Duration::from_millis(MINUTE);
        assert_eq!(unsure.holds_until_unix_ms(minute), 1 + MINUTE);
    }

    #[test]
    fn a_quiet_measurement_replaces_that_of_a_busy_machine() {
        let first = busy("first", 0);
        let second = first.or_better(reference("second", 5 * MINUTE), DAY);
        assert_eq!((second.speeds.id.as_str(), second.attempts), ("second", 0));
        // It was busy, and did not converge either.
        let mut worse = busy("first", 0);
        worse.speeds.converged = false;
        let better = worse.or_better(busy("second", 5 * MINUTE), DAY);
        assert_eq!(better.speeds.id, "second");
    }

    #[test]
    fn a_machine_that_stays_busy_is_tried_ever_more_rarely_and_keeps_its_reference() {
        let mut kept = busy("first", 0);
        for minutes in [5, 10, 20, 40] {
            let due = kept.holds_until_unix_ms(DAY);
            assert_eq!(due, kept.tried_unix_ms + minutes * MINUTE);
            kept = kept.or_better(busy("another", due + 1), DAY);
            assert_eq!(kept.speeds.id, "first");
        }
        // A service that nobody asked for long does not make up for what it missed.
        let late = 10 * 60 * MINUTE;
        kept = kept.or_better(busy("another", late), DAY);
        assert_eq!(kept.holds_until_unix_ms(DAY), late + 160 * MINUTE);
        kept.attempts = u32::MAX;
        assert_eq!(kept.holds_until_unix_ms(DAY), 24 * 60 * MINUTE);
        // After a day any measurement replaces it.
        let next = kept.or_better(busy("next", 24 * 60 * MINUTE + 1), DAY);
        assert_eq!((next.speeds.id.as_str(), next.attempts), ("next", 0));
    }
}
