//! How soon a failed role starts again, and when it is given up.

use std::collections::VecDeque;
use std::time::Duration;

use crate::delivery::doubled;

/// How often a role may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Failures within the window before the node gives up.
    pub failures: usize,
    /// The window.
    pub window: Duration,
    /// Delay before the first restart; doubles with each further failure in the window.
    pub backoff: Duration,
    /// Delay before a restart during an outage of a service that all roles need. Such failures do not count.
    pub outage: Duration,
}

impl Limits {
    /// The limits of a node.
    pub const DEFAULT: Self = Self {
        failures: 5,
        window: Duration::from_secs(60),
        backoff: Duration::from_millis(200),
        outage: Duration::from_secs(2),
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The moments of a role's failures within the window.
#[derive(Debug, Clone, Default)]
pub struct Failures(VecDeque<Duration>);

impl Failures {
    /// The delay before the restart after a failure at `now`; none when the role has failed too often.
    pub fn add(&mut self, now: Duration, limits: &Limits) -> Option<Duration> {
        self.0.push_back(now);
        self.0
            .retain(|failure| now.saturating_sub(*failure) <= limits.window);
        let doublings = u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX);
        (self.0.len() <= limits.failures)
            .then(|| doubled(limits.backoff, doublings.min(16), Duration::MAX))
    }

    /// Number of failures within the window of the last one.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_and_old_failures_are_forgotten() {
        let limits = Limits::DEFAULT;
        let mut failures = Failures::default();
        let mut add = |second| failures.add(Duration::from_secs(second), &limits);
        let delays: Vec<_> = (0..6).map(&mut add).collect();
        let millis = |delay: u64| Some(Duration::from_millis(delay));
        assert_eq!(delays[..3], [millis(200), millis(400), millis(800)]);
        assert_eq!(delays[5], None);
        assert_eq!(add(600), millis(200));
    }
}
