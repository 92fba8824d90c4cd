//! Returns of conversations against their definitions.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_reward::turns::{DISCOUNT, FIRST, discounted, first_and_best};
use proptest::prelude::*;

fn turns() -> impl Strategy<Value = Vec<Option<f64>>> {
    proptest::collection::vec(proptest::option::weighted(0.8, -2.0..20.0), 0..8)
}

/// Those that were.
fn present(turns: &[Option<f64>]) -> Vec<f64> {
    turns.iter().flatten().copied().collect()
}

#[test]
fn a_failure_that_leads_to_a_fast_program_is_worth_something() {
    let returns = discounted(&[Some(0.0), None, Some(-1.0), Some(10.0)], DISCOUNT);
    let expected = [Some(-0.4 + 0.16 * 10.0), None, Some(3.0), Some(10.0)];
    for (found, expected) in returns.iter().zip(expected) {
        assert_eq!(found.is_some(), expected.is_some());
        if let (Some(found), Some(expected)) = (found, expected) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }
    let all = first_and_best(&[Some(2.0), Some(-1.0), Some(10.0)], FIRST);
    assert_eq!(all, Some(0.75 * 2.0 + 0.25 * 10.0));
    assert_eq!(first_and_best(&[None, None], FIRST), None);
    assert_eq!(discounted(&[], DISCOUNT), Vec::new());
}

#[test]
fn non_finite_rewards_count_as_no_turn_and_non_finite_discounts_as_none() {
    let odd = [Some(f64::NAN), Some(1.0), Some(f64::INFINITY), Some(2.0)];
    assert_eq!(discounted(&odd, 0.5), [None, Some(2.0), None, Some(2.0)]);
    assert_eq!(first_and_best(&odd, 0.5), Some(1.5));
    assert_eq!(first_and_best(&odd, f64::NAN), Some(2.0));
    assert_eq!(discounted(&odd, 9.0), discounted(&odd, 1.0));
}

proptest! {
    #[test]
    fn a_return_is_the_discounted_sum_of_what_follows(turns in turns(), discount in 0.0..=1.0) {
        let rewards = present(&turns);
        let found = present(&discounted(&turns, discount));
        prop_assert_eq!(found.len(), rewards.len());
        for (i, found) in found.iter().enumerate() {
            let expected: f64 = (i..rewards.len())
                .map(|j| f64::powi(discount, (j - i) as i32) * rewards[j])
                .sum();
            prop_assert!((found - expected).abs() < 1e-9, "{} {}", found, expected);
        }
    }

    #[test]
    fn a_turn_that_the_infrastructure_failed_is_as_if_it_had_not_been(turns in turns(), discount in 0.0..=1.0, first in 0.0..=1.0) {
        let without: Vec<Option<f64>> = turns.iter().copied().filter(Option::is_some).collect();
        prop_assert_eq!(present(&discounted(&turns, discount)), present(&discounted(&without, discount)));
        let places = |all: &[Option<f64>]| -> Vec<bool> { all.iter().map(Option::is_some).collect() };
        prop_assert_eq!(places(&discounted(&turns, discount)), places(&turns));
        prop_assert_eq!(first_and_best(&turns, first), first_and_best(&without, first));
    }

    #[test]
    fn a_better_turn_never_makes_a_conversation_worth_less(turns in turns(), at in 0usize..8, more in 0.0..5.0, share in 0.0..=1.0) {
        let mut better = turns.clone();
        if let Some(Some(reward)) = better.get_mut(at) {
            *reward += more;
        }
        let (before, after) = (discounted(&turns, share), discounted(&better, share));
        for (before, after) in before.iter().zip(&after) {
            prop_assert!(after.unwrap_or(0.0) >= before.unwrap_or(0.0) - 1e-12);
        }
        let (before, after) = (first_and_best(&turns, share), first_and_best(&better, share));
        prop_assert!(after.unwrap_or(0.0) >= before.unwrap_or(0.0) - 1e-12);
    }

    #[test]
    fn the_weights_lead_from_the_best_turn_to_the_first(turns in turns()) {
        let rewards = present(&turns);
        prop_assume!(!rewards.is_empty());
        let best = rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        prop_assert_eq!(first_and_best(&turns, 1.0).unwrap(), rewards[0]);
        prop_assert_eq!(first_and_best(&turns, 0.0).unwrap(), best);
        prop_assert_eq!(present(&discounted(&turns, 0.0)), rewards);
    }
}
