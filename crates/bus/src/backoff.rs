//! How long a message waits before the next attempt. Pure functions.

use std::time::Duration;

/// Why a delivery is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// This node stops. Another node, or the next start of this node, shall take the work at once. Never the last
    /// attempt.
    Shutdown,
    /// This node cannot do the work, but another node may. Never the last attempt.
    Elsewhere,
    /// Something that the work needs is not there yet, such as a newer policy or an artifact.
    NotReady,
    /// A jail, a compiler, a store or another part of the infrastructure failed.
    Infrastructure,
    /// Disk, memory or file handles ran out. An early retry would make the shortage worse.
    Resources,
    /// A panic or a cancelled task dropped the work without an answer.
    Dropped,
}

/// The first wait of each class. Each further attempt doubles the wait, up to the limit.
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
    /// The longest wait.
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

/// How long work that a node cannot do waits in its queue before a node gets it again.
const ELSEWHERE: Duration = Duration::from_secs(2);
/// How often a message is given out before [`ELSEWHERE`] begins to double.
const PATIENT: u32 = 10;

impl ErrorClass {
    /// True if an attempt of this class counts as a failure of the work.
    pub fn counts(self) -> bool {
        !matches!(self, Self::Shutdown | Self::Elsewhere)
    }
}

impl Backoff {
    /// How long to wait after `attempt` (counted from 1) failed with `class`.
    pub fn delay(&self, class: ErrorClass, attempt: u32) -> Duration {
        let first = match class {
            ErrorClass::Shutdown => return Duration::ZERO,
            // The wait gives other nodes time to take the work. If no node takes the work for long, the wait grows: a
            // node that cannot do the work and keeps asking must not use up the number of times the message may be
            // given out.
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

/// `delay` multiplied by a random factor between 0.5 and 1.5, so that clients that lost the same server do not
/// reconnect all at once.
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
        // A message that was refused a hundred times has waited for more than an hour.
        let refused = |attempt| backoff.delay(ErrorClass::Elsewhere, attempt);
        assert_eq!(refused(1), ELSEWHERE);
        assert!((1..100).map(refused).sum::<Duration>() > Duration::from_secs(3600));
        assert_eq!(
            backoff.delay(ErrorClass::Infrastructure, 3),
            backoff.infrastructure * 4
        );
    }
}
