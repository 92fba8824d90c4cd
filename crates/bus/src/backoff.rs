//! How long to wait before somebody tries again. Pure.

use std::time::Duration;

/// Why a delivery is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// This node stops; another one, or the next start, shall take it at once. Never the last attempt.
    Shutdown,
    /// This node cannot do it and another one may. Never the last attempt.
    Elsewhere,
    /// Something it needs is not there yet, such as a newer policy or an artifact.
    NotReady,
    /// A jail, a compiler, a store or something else of ours failed.
    Infrastructure,
    /// Disk, memory or handles ran out: trying again soon makes it worse.
    Resources,
    /// The work was dropped without a word, by a panic or a cancelled task.
    Dropped,
}

/// First waits per class; each further attempt doubles them up to the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    /// For [`ErrorClass::NotReady`].
    pub not_ready: Duration,
    /// For [`ErrorClass::Infrastructure`].
    pub infrastructure: Duration,
    /// For [`ErrorClass::Resources`].
    pub resources: Duration,
    /// For [`ErrorClass::Dropped`].
    pub dropped: Duration,
    /// No wait is longer.
    pub limit: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            not_ready: Duration::from_millis(100),
            infrastructure: Duration::from_millis(500),
            resources: Duration::from_secs(5),
            dropped: Duration::from_secs(1),
            limit: Duration::from_secs(60),
        }
    }
}

/// How long work stays in its queue that was refused by a node that cannot do it.
const ELSEWHERE: Duration = Duration::from_secs(2);
/// So often it stays there no longer than that.
const PATIENT: u32 = 10;

impl ErrorClass {
    /// Does it count as a failure of the work?
    pub fn counts(self) -> bool {
        !matches!(self, Self::Shutdown | Self::Elsewhere)
    }
}

impl Backoff {
    /// How long to wait after `attempt` (counted from 1) failed for `class`.
    pub fn delay(&self, class: ErrorClass, attempt: u32) -> Duration {
        let first = match class {
            ErrorClass::Shutdown => return Duration::ZERO,
            // Others shall have had the time to take it. Where nobody takes it for long, it must not be given out for
            // the last time only because one that cannot do it keeps asking.
            ErrorClass::Elsewhere => {
                return doubled(ELSEWHERE, attempt.saturating_sub(PATIENT), self.limit);
            }
            ErrorClass::NotReady => self.not_ready,
            ErrorClass::Infrastructure => self.infrastructure,
            ErrorClass::Resources => self.resources,
            ErrorClass::Dropped => self.dropped,
        };
        doubled(first, attempt.saturating_sub(1), self.limit)
    }
}

/// `first` doubled `times` times, at most `limit`.
pub(crate) fn doubled(first: Duration, times: u32, limit: Duration) -> Duration {
    first
        .saturating_mul(1u32.checked_shl(times.min(31)).unwrap_or(u32::MAX))
        .min(limit)
}

/// `delay` spread to between half and three halves of it, so that many clients
/// that lost the same server do not come back all at once.
pub(crate) fn jittered(delay: Duration) -> Duration {
    use std::hash::{BuildHasher, Hasher};
    // The standard library's hasher keys are the cheapest source of randomness there is.
    let random = std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish();
    delay.mul_f64(0.5 + (random >> 11) as f64 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLASSES: [ErrorClass; 6] = [
        ErrorClass::Shutdown,
        ErrorClass::Elsewhere,
        ErrorClass::NotReady,
        ErrorClass::Infrastructure,
        ErrorClass::Resources,
        ErrorClass::Dropped,
    ];

    proptest! {
        #[test]
        fn waits_grow_and_end_at_the_limit(attempt in 1u32..u32::MAX, class in prop::sample::select(&CLASSES[..])) {
            let backoff = Backoff::default();
            let now = backoff.delay(class, attempt);
            prop_assert!(now <= backoff.delay(class, attempt.saturating_add(1)));
            prop_assert!(now <= backoff.limit);
        }

        #[test]
        fn jitter_stays_within_its_bounds(millis in 0u64..100_000) {
            let delay = Duration::from_millis(millis);
            let spread = jittered(delay);
            prop_assert!(spread >= delay.mul_f64(0.49) && spread <= delay.mul_f64(1.51));
        }
    }

    #[test]
    fn a_shutdown_does_not_wait_and_the_first_wait_is_the_configured_one() {
        let backoff = Backoff::default();
        assert_eq!(backoff.delay(ErrorClass::Shutdown, 9), Duration::ZERO);
        assert_eq!(backoff.delay(ErrorClass::Resources, 1), backoff.resources);
        // Refused a hundred times, a message has waited for more than an hour.
        let refused = |attempt| backoff.delay(ErrorClass::Elsewhere, attempt);
        assert_eq!(refused(1), ELSEWHERE);
        assert!((1..100).map(refused).sum::<Duration>() > Duration::from_secs(3600));
        assert_eq!(
            backoff.delay(ErrorClass::Infrastructure, 3),
            backoff.infrastructure * 4
        );
    }
}
