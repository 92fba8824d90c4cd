//! Random delays.

use std::time::Duration;

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

    proptest! {
        #[test]
        fn jitter_stays_within_its_bounds(millis in 0u64..100_000) {
            let delay = Duration::from_millis(millis);
            let spread = jittered(delay);
            prop_assert!(spread >= delay.mul_f64(0.49) && spread <= delay.mul_f64(1.51));
        }
    }
}
