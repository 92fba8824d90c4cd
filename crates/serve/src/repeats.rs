//! Requests of clients that ask again without an idempotency key. Pure: time comes in.
//!
//! OpenRLHF and slime give up a call after a time, and send the same body again. Their evaluation shall not begin anew each
//! time: a body that was sent a short time before has the job of that request.

use std::collections::HashMap;
use std::time::Duration;

use flopsmith_protocol::Digest;

/// Time after the last request with the same body within which a request is taken for its repetition. OpenRLHF waits 180 s
/// for an answer.
pub const SHORT: Duration = Duration::from_secs(300);

/// The jobs `J` of recent requests, by the digest of what was asked for.
#[derive(Debug)]
pub struct Repeats<J> {
    jobs: HashMap<Digest, (J, Duration)>,
}

impl<J> Default for Repeats<J> {
    fn default() -> Self {
        Self {
            jobs: HashMap::new(),
        }
    }
}

impl<J: Clone> Repeats<J> {
    /// The job of the request that this one repeats at `now`, if that job is of use.
    pub fn of(
        &mut self,
        asked: &Digest,
        now: Duration,
        is_of_use: impl FnOnce(&J) -> bool,
    ) -> Option<J> {
        self.jobs
            .retain(|_, (_, last)| now.saturating_sub(*last) <= SHORT);
        let (job, last) = self.jobs.get_mut(asked)?;
        if !is_of_use(job) {
            self.jobs.remove(asked);
            return None;
        }
        *last = now;
        Some(job.clone())
    }

    /// Notes the job of a request at `now`.
    pub fn note(&mut self, asked: Digest, job: J, now: Duration) {
        self.jobs.insert(asked, (job, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_within_a_short_time_has_the_job_of_the_first_request() {
        let mut repeats = Repeats::default();
        let (one, two) = (Digest::of(b"one"), Digest::of(b"two"));
        let at = Duration::from_secs;
        assert_eq!(repeats.of(&one, at(0), |_| true), None);
        repeats.note(one.clone(), "first", at(0));
        // Each repetition counts as the last one.
        for seconds in [181, 362, 543] {
            assert_eq!(repeats.of(&one, at(seconds), |_| true), Some("first"));
        }
        assert_eq!(repeats.of(&two, at(600), |_| true), None);
        assert_eq!(repeats.of(&one, at(844), |_| true), None);
        assert!(repeats.jobs.is_empty());
    }

    #[test]
    fn a_job_that_failed_is_not_repeated() {
        let mut repeats = Repeats::default();
        let one = Digest::of(b"one");
        repeats.note(one.clone(), "failed", Duration::ZERO);
        assert_eq!(repeats.of(&one, Duration::ZERO, |_| false), None);
        assert_eq!(repeats.of(&one, Duration::ZERO, |_| true), None);
    }
}
