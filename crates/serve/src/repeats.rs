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
    /// The job of the request that this one repeats at `now`, if that job is of use. A repetition prolongs the time for others
    /// only while the job is not done: a client that sends the same body for ever gets newer measurements now and then.
    pub fn of(
        &mut self,
        asked: &Digest,
        now: Duration,
        is_of_use: impl FnOnce(&J) -> bool,
        is_done: impl FnOnce(&J) -> bool,
    ) -> Option<J> {
        self.jobs
            .retain(|_, (_, last)| now.saturating_sub(*last) <= SHORT);
        let (job, last) = self.jobs.get_mut(asked)?;
        if !is_of_use(job) {
            self.jobs.remove(asked);
            return None;
        }
        if !is_done(job) {
            *last = now;
        }
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
        let of = |repeats: &mut Repeats<&'static str>, asked: &Digest, seconds| {
            repeats.of(asked, at(seconds), |_| true, |_| false)
        };
        assert_eq!(of(&mut repeats, &one, 0), None);
        repeats.note(one.clone(), "first", at(0));
        // Each repetition counts as the last one while the job goes on.
        for seconds in [181, 362, 543] {
            assert_eq!(of(&mut repeats, &one, seconds), Some("first"));
        }
        assert_eq!(of(&mut repeats, &two, 600), None);
        assert_eq!(of(&mut repeats, &one, 844), None);
        assert!(repeats.jobs.is_empty());
    }

    #[test]
    fn a_job_that_is_done_does_not_stay_because_it_is_asked_for() {
        let mut repeats = Repeats::default();
        let one = Digest::of(b"one");
        repeats.note(one.clone(), "first", Duration::ZERO);
        for (seconds, found) in [(200, Some("first")), (300, Some("first")), (301, None)] {
            let now = Duration::from_secs(seconds);
            assert_eq!(repeats.of(&one, now, |_| true, |_| true), found);
        }
    }

    #[test]
    fn a_job_that_failed_is_not_repeated() {
        let mut repeats = Repeats::default();
        let one = Digest::of(b"one");
        repeats.note(one.clone(), "failed", Duration::ZERO);
        assert_eq!(repeats.of(&one, Duration::ZERO, |_| false, |_| true), None);
        assert_eq!(repeats.of(&one, Duration::ZERO, |_| true, |_| true), None);
    }
}
