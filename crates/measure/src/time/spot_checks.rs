//! Chooses the timed calls that are compared with the baseline as closely as verified ones. Pure.
//!
//! The tolerance of each element is known for some seeds only, so the choice is made before the call. The checked calls
//! are spread over the time that a measurement may take and not over its calls: a program is safe in no part of that
//! time, however it changes its speed. No seed comes twice in a process, since a program that has seen inputs before
//! would know that they matter.

use std::time::Duration;

use rand::Rng;
use rand::seq::SliceRandom;

/// The seeds of one measurement whose tolerances are known.
#[derive(Debug)]
pub struct SpotChecks {
    /// Seeds that are not used yet.
    seeds: Vec<u64>,
    /// The moments when seeds are due, in seconds of timed calls; the next at the end. One fewer than the seeds.
    moments: Vec<f64>,
    /// Seconds of timed calls so far.
    spent: f64,
}

impl SpotChecks {
    /// Spreads `seeds` over a measurement of at most `longest`. One seed is left for its end.
    pub fn new<R: Rng>(seeds: Vec<u64>, longest: Duration, rng: &mut R) -> Self {
        let mut moments: Vec<f64> = (1..seeds.len())
            .map(|_| longest.as_secs_f64() * rng.random::<f64>())
            .collect();
        // A measurement may have two calls only.
        if let Some(first) = moments.first_mut() {
            *first = 0.0;
        }
        moments.sort_by(|x, y| y.total_cmp(x));
        Self {
            seeds,
            moments,
            spent: 0.0,
        }
    }

    /// Records that timed calls of either side took this long.
    pub fn spent(&mut self, seconds: f64) {
        self.spent += seconds;
    }

    /// The seeds of a burst of `calls`; none for calls that take any seed. Due seeds come anywhere in the burst.
    pub fn burst<R: Rng>(&mut self, calls: u32, rng: &mut R) -> Vec<Option<u64>> {
        let mut seeds = vec![None; calls as usize];
        for seed in &mut seeds {
            if self.moments.last().is_none_or(|due| *due > self.spent) {
                break;
            }
            self.moments.pop();
            *seed = self.any(rng);
        }
        seeds.shuffle(rng);
        seeds
    }

    /// The seed of the last call.
    pub fn last<R: Rng>(&mut self, rng: &mut R) -> Option<u64> {
        self.any(rng)
    }

    fn any<R: Rng>(&mut self, rng: &mut R) -> Option<u64> {
        if self.seeds.is_empty() {
            return None;
        }
        let at = rng.random_range(0..self.seeds.len());
        Some(self.seeds.swap_remove(at))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(1);

    fn spot_checks(seeds: u64, rng: &mut ChaCha8Rng) -> SpotChecks {
        SpotChecks::new((0..seeds).collect(), LONGEST, rng)
    }

    proptest! {
        #[test]
        fn no_seed_comes_twice_and_one_is_left_for_the_end(
            seeds in 0u64..30, bursts in prop::collection::vec((1u32..17, 0.0f64..0.1), 0..60), rng: u64
        ) {
            let mut rng = ChaCha8Rng::seed_from_u64(rng);
            let mut spot_checks = spot_checks(seeds, &mut rng);
            let mut used = BTreeSet::new();
            for (calls, seconds) in bursts {
                let burst = spot_checks.burst(calls, &mut rng);
                prop_assert_eq!(burst.len(), calls as usize);
                for seed in burst.into_iter().flatten() {
                    prop_assert!(used.insert(seed));
                }
                spot_checks.spent(seconds);
            }
            match spot_checks.last(&mut rng) {
                Some(seed) => prop_assert!(used.insert(seed)),
                None => prop_assert_eq!(seeds, 0),
            }
            prop_assert!(used.iter().all(|seed| *seed < seeds));
        }

        /// If a program makes its calls a thousand times as fast from some moment on, no fewer of them are checked in
        /// the time that is left.
        #[test]
        fn no_part_of_a_measurement_is_safe(change in 0.1f64..0.6, rng: u64) {
            let mut rng = ChaCha8Rng::seed_from_u64(rng);
            let (mut before, mut after) = (0, 0);
            for _ in 0..40 {
                let mut spot_checks = spot_checks(24, &mut rng);
                while spot_checks.spent < LONGEST.as_secs_f64() {
                    let fast = spot_checks.spent > change;
                    let checked = spot_checks.burst(if fast { 16 } else { 1 }, &mut rng).iter().flatten().count();
                    if fast {
                        after += checked;
                    } else {
                        before += checked;
                    }
                    spot_checks.spent(if fast { 16.0 * 2e-5 } else { 0.01 });
                }
            }
            let expected = 40.0 * 22.0 * (1.0 - change);
            prop_assert!(f64::from(after as u32) > 0.8 * expected, "{before} before, {after} after");
        }
    }

    #[test]
    fn both_calls_of_a_slow_program_are_checked() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut spot_checks = spot_checks(6, &mut rng);
        assert!(spot_checks.burst(1, &mut rng)[0].is_some());
        spot_checks.spent(2.0);
        assert!(spot_checks.burst(1, &mut rng)[0].is_some());
    }

    #[test]
    fn any_call_of_a_burst_may_be_checked() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut places = BTreeSet::new();
        for _ in 0..200 {
            let burst = spot_checks(2, &mut rng).burst(8, &mut rng);
            places.extend(burst.iter().position(Option::is_some));
        }
        assert_eq!(places.len(), 8);
    }
}
