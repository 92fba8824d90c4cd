//! Returns of conversations against their definitions.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_reward::turns::{
    DISCOUNT, FIRST, discounted, discounted_se, first_and_best, first_and_best_se,
};
use proptest::prelude::*;

fn turns() -> impl Strategy<Value = Vec<Option<f64>>> {
    proptest::collection::vec(proptest::option::weighted(0.8, -2.0..20.0), 0..8)
}

/// Rewards with their standard errors.
fn uncertain() -> impl Strategy<Value = Vec<(Option<f64>, f64)>> {
    let reward = proptest::option::weighted(0.8, -2.0..20.0);
    proptest::collection::vec((reward, 0.0..0.1), 1..8)
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
    // Of a turn that counts as none, neither the reward nor its standard error is part of any return.
    assert_eq!(
        discounted_se(&odd, &[9.0, 0.3, 9.0, 0.8], 0.5),
        [0.0, 0.5, 0.0, 0.8]
    );
    assert_eq!(discounted_se(&odd, &[0.0, f64::NAN], 0.5), [0.0; 4]);
    assert_eq!(first_and_best_se(&odd, &[9.0, 0.6, 9.0, 0.8], 0.5), 0.5);
    assert_eq!(first_and_best_se(&[None], &[9.0], 0.5), 0.0);
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

    /// A return is linear in the rewards as long as the same turn is the best, so the square of its standard error is the sum
    /// of the squares of its changes, one for each reward that moves by its own standard error.
    #[test]
    fn a_standard_error_is_that_of_a_sum_of_independent_rewards(
        turns in uncertain(),
        discount in 0.0..=1.0,
        first in 0.0..=1.0,
    ) {
        let (rewards, errors): (Vec<Option<f64>>, Vec<f64>) = turns.into_iter().unzip();
        let mut sorted = present(&rewards);
        sorted.sort_by(|a, b| b.total_cmp(a));
        // Another turn must not become the best one.
        prop_assume!(sorted.len() < 2 || sorted[0] - sorted[1] > 0.2);
        let (mut of_turns, mut of_whole) = (vec![0.0_f64; rewards.len()], 0.0_f64);
        let returns = discounted(&rewards, discount);
        let whole = first_and_best(&rewards, first).unwrap_or(0.0);
        for (turn, error) in errors.iter().enumerate() {
            let mut moved = rewards.clone();
            moved[turn] = moved[turn].map(|reward| reward + error);
            let found = discounted(&moved, discount);
            for (square, (now, before)) in of_turns.iter_mut().zip(found.iter().zip(&returns)) {
                *square += (now.unwrap_or(0.0) - before.unwrap_or(0.0)).powi(2);
            }
            let change = first_and_best(&moved, first).unwrap_or(0.0) - whole;
            of_whole += change.powi(2);
        }
        let found = discounted_se(&rewards, &errors, discount);
        prop_assert_eq!(found.len(), rewards.len());
        for (found, square) in found.iter().zip(&of_turns) {
            prop_assert!((found - square.sqrt()).abs() < 1e-6, "{} {}", found, square.sqrt());
        }
        let found = first_and_best_se(&rewards, &errors, first);
        prop_assert!((found - of_whole.sqrt()).abs() < 1e-6, "{} {}", found, of_whole.sqrt());
    }

    #[test]
    fn the_best_turn_is_found_wherever_it_stands(turns in turns(), first in 0.0..=1.0) {
        let rewards = present(&turns);
        let expected = rewards.first().map(|begun| {
            // Every turn after the first might be the best; the largest of all values is the one with the best turn.
            let with = rewards.iter().map(|turn| first * begun + (1.0 - first) * turn);
            with.fold(f64::NEG_INFINITY, f64::max)
        });
        let found = first_and_best(&turns, first);
        prop_assert_eq!(found.is_some(), expected.is_some());
        if let (Some(found), Some(expected)) = (found, expected) {
            prop_assert!((found - expected).abs() < 1e-9, "{} {}", found, expected);
        }
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
