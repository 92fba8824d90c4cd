//! Fitness sharing (Goldberg & Richardson, 1987): a program that many samples found gives each of them a smaller
//! reward.
//!
//! A policy that is rewarded for speed alone converges to one program. If m samples of a step answer the same prompt
//! with the same program, each keeps its reward times m^-α. A different program then pays even if it is somewhat
//! slower, and the distribution settles on many good programs instead of the best one. The rewards of failures are not
//! shared: they are negative, and the factor would raise them.

use std::collections::HashMap;
use std::hash::Hash;

/// Shares the rewards above 0 among samples of one niche: `r · m^-strength`, with m the samples that have the same key
/// and a reward above 0.
///
/// `strength` 0 changes nothing, and 1 divides the reward among the samples. The measurement error of each reward is
/// scaled alike. Missing rewards and rewards up to 0 stay.
pub fn share<K: Hash + Eq>(samples: &mut [(K, Option<f64>, f64)], strength: f64) {
    if strength <= 0.0 {
        return;
    }
    let mut sizes: HashMap<&K, u32> = HashMap::new();
    for (key, reward, _) in samples.iter() {
        if reward.is_some_and(|r| r > 0.0) {
            *sizes.entry(key).or_default() += 1;
        }
    }
    let factors: Vec<f64> = samples
        .iter()
        .map(|(key, ..)| f64::from(sizes.get(key).copied().unwrap_or(1)).powf(-strength))
        .collect();
    for ((_, reward, error), factor) in samples.iter_mut().zip(factors) {
        if let Some(r) = reward.as_mut().filter(|r| **r > 0.0) {
            *r *= factor;
            *error *= factor;
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples() -> impl Strategy<Value = Vec<(u8, Option<f64>, f64)>> {
        prop::collection::vec((0u8..5, prop::option::of(-1.0f64..1.0), 0.0f64..0.1), 0..40)
    }

    proptest! {
        #[test]
        fn order_of_failure_and_success_stays(mut s in samples(), strength in 0.0f64..1.0) {
            let before = s.clone();
            share(&mut s, strength);
            for ((_, old, old_error), (_, new, error)) in before.iter().zip(&s) {
                match old {
                    Some(r) if *r > 0.0 => {
                        prop_assert!(new.unwrap() > 0.0 && new.unwrap() <= *r);
                        // The error stays the same share of the reward.
                        prop_assert!((error * r - old_error * new.unwrap()).abs() < 1e-12);
                    }
                    _ => prop_assert_eq!((old, old_error), (new, error)),
                }
            }
        }

        #[test]
        fn a_niche_never_gains_by_crowding(reward in 0.01f64..1.0, m in 1usize..40, strength in 0.0f64..1.0) {
            let worth = |m: usize| {
                let mut s = vec![((), Some(reward), 0.0); m];
                share(&mut s, strength);
                (s[0].1.unwrap(), s.iter().map(|x| x.1.unwrap()).sum::<f64>())
            };
            let (each, all) = worth(m);
            let (each_more, all_more) = worth(m + 1);
            prop_assert!(each_more <= each);
            prop_assert!(all_more >= all - 1e-12, "together they do not lose");
        }

        #[test]
        fn the_lonely_keep_theirs(rewards in prop::collection::vec(-1.0f64..1.0, 0..20)) {
            let mut s: Vec<_> = rewards.iter().enumerate().map(|(i, r)| (i, Some(*r), 0.0)).collect();
            share(&mut s, 1.0);
            prop_assert!(s.iter().zip(&rewards).all(|((_, new, _), old)| *new == Some(*old)));
        }
    }
}
