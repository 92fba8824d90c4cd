//! Repetitions of requests, for people who wait for them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::journal::Reason;

/// Longest time without a word about a failure that goes on.
const QUIET: Duration = Duration::from_secs(10);

/// A request failed, and is sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repetition {
    /// The problem.
    pub problem: String,
    /// Number of the answer that the request asks for.
    pub number: u32,
    /// Number of the request that failed, from 1.
    pub attempt: u32,
    /// Why it failed.
    pub reason: Reason,
    /// The words of the server or the system, without the key.
    pub words: String,
    /// Time until it is sent again.
    pub wait: Duration,
    /// Number of repetitions that may follow, at least 1.
    pub left: u32,
}

impl fmt::Display for Repetition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reason == Reason::Connection {
            f.write_str("the server cannot be reached: ")?;
        }
        let seconds = self.wait.as_secs_f64();
        write!(f, "{}; it is tried again in {seconds:.1} s, ", self.words)?;
        match self.left {
            1 => f.write_str("for the last time"),
            left => write!(f, "and at most {left} times in all"),
        }
    }
}

/// Chooses the repetitions that are told. Many requests at a time fail by one cause, so of each reason only the first failure
/// is told, then each that more repetitions did not mend, and one after every [`QUIET`].
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When each reason was told last, and for which attempt.
    told: BTreeMap<Reason, (Duration, u32)>,
}

impl Pace {
    /// True if a repetition is to be told at the time `now`.
    pub(crate) fn is_due(&mut self, now: Duration, reason: Reason, attempt: u32) -> bool {
        let told = self.told.get(&reason);
        let due =
            told.is_none_or(|(then, most)| attempt > *most || now.saturating_sub(*then) >= QUIET);
        if due {
            self.told.insert(reason, (now, attempt));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_fail_together_are_told_once() {
        let mut pace = Pace::default();
        let seconds = Duration::from_secs;
        let mut told = Vec::new();
        // Eight requests at a time, of which each is repeated twice; then the next eight.
        for (round, now) in [(1, 0), (2, 1), (3, 3), (1, 4), (2, 5), (3, 7), (1, 20)] {
            let due = (0..8).filter(|_| pace.is_due(seconds(now), Reason::Connection, round));
            told.push(due.count());
        }
        assert_eq!(told, [1, 1, 1, 0, 0, 0, 1]);
        assert!(
            pace.is_due(seconds(20), Reason::RateLimited, 1),
            "another reason"
        );
    }

    #[test]
    fn a_repetition_says_the_cause_the_wait_and_the_rest() {
        let mut repetition = Repetition {
            problem: "dot".into(),
            number: 1,
            attempt: 1,
            reason: Reason::Connection,
            words: "connection refused".into(),
            wait: Duration::from_millis(760),
            left: 5,
        };
        assert_eq!(
            repetition.to_string(),
            "the server cannot be reached: connection refused; it is tried again in 0.8 s, and at most 5 times in all"
        );
        repetition.reason = Reason::Server;
        repetition.words = "the server answers 500: down".into();
        repetition.left = 1;
        assert_eq!(
            repetition.to_string(),
            "the server answers 500: down; it is tried again in 0.8 s, for the last time"
        );
    }
}
