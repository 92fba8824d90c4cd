//! Evaluation metrics against their definitions, subset by subset.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_reward::metrics::*;
use proptest::prelude::*;

/// Every subset of `k` positions out of `n`, as bit masks.
fn subsets(n: usize, k: usize) -> impl Iterator<Item = u32> {
    (0..1_u32 << n).filter(move |m| m.count_ones() as usize == k)
}

fn samples() -> impl Strategy<Value = Vec<Option<f64>>> {
    proptest::collection::vec(proptest::option::weighted(0.7, 0.01..20.0), 1..10)
}

proptest! {
    #[test]
    fn pass_at_k_is_the_share_of_subsets_with_a_pass((n, c, k) in (1_usize..10).prop_flat_map(|n| (Just(n), 0..=n, 1..=n))) {
        let (mut hit, mut all) = (0, 0);
        for m in subsets(n, k) {
            all += 1;
            hit += u32::from(m & ((1 << c) - 1) != 0);
        }
        prop_assert!((pass_at_k(n, c, k).unwrap() - f64::from(hit) / f64::from(all)).abs() < 1e-12);
        prop_assert_eq!(build_at_k(n, c, k), pass_at_k(n, c, k));
    }

    #[test]
    fn speedup_at_k_is_the_mean_over_subsets_of_the_maximum(s in samples(), k in 1_usize..10, zero in any::<bool>()) {
        let invalid = if zero { Invalid::CountZero } else { Invalid::Drop };
        let values: Vec<f64> = if zero {
            s.iter().map(|x| x.unwrap_or(0.0)).collect()
        } else {
            s.iter().flatten().copied().collect()
        };
        let got = speedup_n_at_k(&s, k, invalid);
        if k > values.len() {
            prop_assert_eq!(got, None);
        } else {
            let (mut sum, mut all) = (0.0, 0);
            for m in subsets(values.len(), k) {
                all += 1;
                sum += (0..values.len()).filter(|i| m >> i & 1 == 1).map(|i| values[i]).fold(0.0, f64::max);
            }
            prop_assert!((got.unwrap() - sum / f64::from(all)).abs() < 1e-9);
            prop_assert_eq!(efficiency_n_at_k(&s, k, invalid, 4), got.map(|g| g / 4.0));
        }
    }

    #[test]
    fn fast_p_falls_with_p_and_starts_at_the_correct_rate(s in samples(), p in 0.0..20.0, more in 0.0..5.0) {
        let correct = s.iter().flatten().count() as f64 / s.len() as f64;
        prop_assert_eq!(fast_p(&s, 0.0), Some(correct));
        prop_assert!(fast_p(&s, p + more) <= fast_p(&s, p));
        let (fast, slow) = (fast_p(&s, 1.0).unwrap(), slow_share(&s).unwrap());
        prop_assert!((fast + slow - correct).abs() < 1e-12);
    }

    #[test]
    fn geometric_mean_of_inverses_is_the_inverse(s in samples()) {
        let inverse: Vec<Option<f64>> = s.iter().map(|x| x.map(f64::recip)).collect();
        match (geometric_mean_speedup(&s), geometric_mean_speedup(&inverse)) {
            (Some(a), Some(b)) => prop_assert!((a * b - 1.0).abs() < 1e-9),
            (a, b) => prop_assert_eq!((a, b), (None, None)),
        }
    }
}

#[test]
fn large_numbers_do_not_overflow() {
    let p = pass_at_k(100_000, 3, 1_000).unwrap();
    assert!((p - (1.0 - 0.99_f64.powi(3))).abs() < 1e-3);
    let s: Vec<Option<f64>> = (0..20_000).map(|i| Some(f64::from(i))).collect();
    let got = speedup_n_at_k(&s, 100, Invalid::Drop).unwrap();
    // The maximum of k of 0..n has the mean k(n+1)/(k+1) − 1.
    assert!((got - (100.0 * 20_001.0 / 101.0 - 1.0)).abs() < 1e-6);
}

#[test]
fn impossible_questions_have_no_answer() {
    assert_eq!(pass_at_k(5, 2, 0), None);
    assert_eq!(pass_at_k(5, 2, 6), None);
    assert_eq!(pass_at_k(5, 6, 1), None);
    assert_eq!(speedup_n_at_k(&[None, None], 1, Invalid::Drop), None);
    assert_eq!(
        speedup_n_at_k(&[None, None], 1, Invalid::CountZero),
        Some(0.0)
    );
    assert_eq!(fast_p(&[], 1.0), None);
    assert_eq!(geometric_mean_speedup(&[None]), None);
    assert_eq!(geometric_mean_speedup(&[Some(0.0)]), None);
    assert_eq!(efficiency_n_at_k(&[Some(1.0)], 1, Invalid::Drop, 0), None);
}

#[test]
fn by_hand() {
    let s = [Some(0.5), Some(2.0), None, Some(8.0)];
    assert_eq!(fast_p(&s, 1.0), Some(0.5));
    assert_eq!(slow_share(&s), Some(0.25));
    assert!((geometric_mean_speedup(&s).unwrap() - 2.0).abs() < 1e-12);
    assert!((geometric_mean_of_faster(&s).unwrap() - 4.0).abs() < 1e-12);
    assert_eq!(distinct(["a", "b", "a"]), 2);
    // Fastest first with weights C(0,1), C(1,1), C(2,1) over C(3,2): 1, 1, 2 thirds.
    let compat = pareval_compat_speedup(&s, 2).unwrap();
    assert!((compat - (8.0 + 2.0 + 2.0 * 0.5) / 3.0).abs() < 1e-12);
    // With k = 1 both are the plain mean.
    assert!((pareval_compat_speedup(&s, 1).unwrap() - 3.5).abs() < 1e-12);
}
