//! Measures the time and memory of a session from its first moment to its last.

use std::time::{Duration, Instant};

use crate::machine;
use crate::summary::Facts;

/// Interval between two samples of the memory.
const INTERVAL: Duration = Duration::from_secs(1);

/// Runs as long as the session, also during the measurements before its roles begin and after the run's end.
pub(super) struct Meter {
    /// Start of the session.
    began: Instant,
    /// Seconds of the run before this session.
    seconds_before: f64,
    memory: machine::Watch,
}

impl Meter {
    /// Starts a meter for a session that began at `began`, of a run that took `seconds_before` in earlier sessions.
    pub fn start(began: Instant, seconds_before: f64) -> std::io::Result<Self> {
        Ok(Self {
            began,
            seconds_before,
            memory: machine::Watch::start(INTERVAL)?,
        })
    }

    /// Writes the session's time and peak memory so far to `facts`. `broker` is the peak memory of the run's broker,
    /// bytes.
    pub fn note(&self, facts: &mut Facts, broker: u64) {
        facts.seconds = self.seconds_before + self.began.elapsed().as_secs_f64();
        facts.peak_memory_bytes = facts
            .peak_memory_bytes
            .max(self.memory.peak_bytes())
            .max(machine::own_peak_bytes() + broker);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_session_adds_its_time_once_and_its_memory_to_nothing() {
        let a_while = Duration::from_secs(10);
        let began = Instant::now().checked_sub(a_while).unwrap();
        let mut facts = Facts {
            seconds: 1000.0,
            ..Facts::default()
        };
        let meter = Meter::start(began, facts.seconds).unwrap();
        for _ in 0..2 {
            meter.note(&mut facts, 0);
        }
        let most = 1000.0 + began.elapsed().as_secs_f64();
        assert!(facts.seconds >= 1010.0 && facts.seconds <= most);
        assert!(facts.peak_memory_bytes > 0);
        // An earlier session took more.
        facts.peak_memory_bytes = u64::MAX;
        meter.note(&mut facts, 0);
        assert_eq!(facts.peak_memory_bytes, u64::MAX);
    }
}
