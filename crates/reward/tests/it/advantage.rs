//! Identities of the advantages.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_reward::advantage::{EPSILON, is_flat};
use flopsmith_reward::{AdvantageKind as Kind, Scale};
use proptest::prelude::*;

/// A batch of one group.
fn group_advantages(r: &[Option<f64>], se: &[f64], scale: Scale, kind: Kind) -> Vec<Option<f64>> {
    flopsmith_reward::group_advantages(&[(r, se)], scale, kind).remove(0)
}

const KINDS: [Kind; 3] = [Kind::MeanStd, Kind::LeaveOneOut, Kind::MeasurementAware];
const SCALES: [Scale; 3] = [Scale::Group, Scale::Batch, Scale::None];

fn rewards() -> impl Strategy<Value = Vec<Option<f64>>> {
    proptest::collection::vec(proptest::option::weighted(0.8, -100.0..100.0), 0..12)
}

/// At least two rewards that differ, the rest anything.
fn differing() -> impl Strategy<Value = Vec<Option<f64>>> {
    (rewards(), -100.0..0.0, 1.0..100.0).prop_map(|(mut r, low, high)| {
        r.insert(r.len() / 2, Some(low));
        r.push(Some(high));
        r
    })
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

proptest! {
    #[test]
    fn left_out_samples_have_no_advantage_and_no_influence(r in rewards()) {
        let kept: Vec<Option<f64>> = r.iter().copied().filter(Option::is_some).collect();
        let se = vec![0.5; r.len()];
        for (scale, kind) in SCALES.into_iter().flat_map(|s| KINDS.map(|k| (s, k))) {
            let a = group_advantages(&r, &se, scale, kind);
            let b = group_advantages(&kept, &se[..kept.len()], scale, kind);
            prop_assert_eq!(a.len(), r.len());
            for (x, y) in a.iter().zip(&r) {
                prop_assert_eq!(x.is_some(), y.is_some());
            }
            let a: Vec<f64> = a.into_iter().flatten().collect();
            let b: Vec<f64> = b.into_iter().flatten().collect();
            prop_assert_eq!(&a, &b);
            prop_assert!(a.iter().all(|x| x.is_finite()));
        }
    }

    #[test]
    fn advantages_keep_the_order_and_cancel(r in rewards()) {
        for (scale, kind) in SCALES.into_iter().flat_map(|s| [Kind::MeanStd, Kind::LeaveOneOut].map(|k| (s, k))) {
            let a = group_advantages(&r, &[], scale, kind);
            prop_assert!(a.iter().flatten().sum::<f64>().abs() < 1e-6);
            for (i, j) in (0..r.len()).flat_map(|i| (0..r.len()).map(move |j| (i, j))) {
                if let (Some(x), Some(y)) = (r[i], r[j]) && x > y {
                    prop_assert!(a[i].unwrap() > a[j].unwrap());
                }
            }
        }
    }

    #[test]
    fn leave_one_out_is_centred_times_n_over_n_minus_1(r in differing()) {
        let n = r.iter().flatten().count() as f64;
        let centred = group_advantages(&r, &[], Scale::None, Kind::MeanStd);
        let out = group_advantages(&r, &[], Scale::None, Kind::LeaveOneOut);
        let present: Vec<f64> = r.iter().flatten().copied().collect();
        for (i, x) in r.iter().enumerate() {
            if let Some(x) = x {
                let of_others = (present.iter().sum::<f64>() - x) / (n - 1.0);
                prop_assert!(close(out[i].unwrap(), x - of_others));
                prop_assert!(close(out[i].unwrap(), n / (n - 1.0) * centred[i].unwrap()));
            }
        }
    }

    #[test]
    fn without_noise_the_measurement_aware_kind_is_the_plain_one(r in rewards()) {
        for scale in SCALES {
            let plain = group_advantages(&r, &[], scale, Kind::MeanStd);
            let aware = group_advantages(&r, &vec![0.0; r.len()], scale, Kind::MeasurementAware);
            for (x, y) in plain.iter().flatten().zip(aware.iter().flatten()) {
                prop_assert!(close(*x, *y));
            }
        }
    }

    #[test]
    fn noise_only_shrinks(r in rewards(), se in 0.0..50.0, more in 0.0..50.0) {
        for scale in SCALES {
            let a = group_advantages(&r, &vec![se; r.len()], scale, Kind::MeasurementAware);
            let b = group_advantages(&r, &vec![se + more; r.len()], scale, Kind::MeasurementAware);
            for (x, y) in a.iter().flatten().zip(b.iter().flatten()) {
                prop_assert!(y.abs() <= x.abs() + 1e-12);
                prop_assert!(x * y >= 0.0);
            }
        }
    }

    #[test]
    fn group_scale_is_unchanged_by_shift_and_factor(r in differing(), shift in -50.0..50.0_f64, factor in 10.0..100.0_f64) {
        let moved: Vec<Option<f64>> = r.iter().map(|x| x.map(|x| factor * x + shift)).collect();
        let a = group_advantages(&r, &[], Scale::Group, Kind::MeanStd);
        let b = group_advantages(&moved, &[], Scale::Group, Kind::MeanStd);
        let n = r.iter().flatten().count() as f64;
        let mean = r.iter().flatten().sum::<f64>() / n;
        let std: f64 = (r.iter().flatten().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        for (x, y) in a.iter().flatten().zip(b.iter().flatten()) {
            // Only ε separates them.
            let expected: f64 = x * (std + EPSILON) / (std + EPSILON / factor);
            prop_assert!((y - expected).abs() <= 1e-6 * (1.0 + x.abs()));
        }
    }

    #[test]
    fn group_scale_ignores_the_rest_of_the_batch(r in rewards(), other in rewards()) {
        for kind in KINDS {
            let groups = [(r.clone(), vec![]), (other.clone(), vec![])];
            let both = flopsmith_reward::group_advantages(&groups, Scale::Group, kind);
            prop_assert_eq!(&both[0], &group_advantages(&r, &[], Scale::Group, kind));
            prop_assert_eq!(&both[1], &group_advantages(&other, &[], Scale::Group, kind));
        }
    }
}

#[test]
fn by_hand() {
    // Mean 2, unbiased deviation 1.
    let r = [Some(1.0), None, Some(2.0), Some(3.0)];
    let a = group_advantages(&r, &[], Scale::Group, Kind::MeanStd);
    let unit = 1.0 / (1.0 + EPSILON);
    assert_eq!(a, vec![Some(-unit), None, Some(0.0), Some(unit)]);
    let a = group_advantages(&r, &[], Scale::None, Kind::LeaveOneOut);
    assert_eq!(a, vec![Some(-1.5), None, Some(0.0), Some(1.5)]);
    let se = [3f64.sqrt(); 4];
    let a = group_advantages(&r, &se, Scale::None, Kind::MeasurementAware);
    assert!(close(a[0].unwrap(), -0.5));
}

#[test]
fn batch_scale_uses_the_deviation_of_all_rewards() {
    // All rewards: 0, 2, 4, 6: mean 3, squares 20, deviation √(20/3).
    let (a, b) = ([Some(0.0), Some(2.0)], [Some(4.0), Some(6.0)]);
    let groups = [(a, []), (b, [])];
    let got = flopsmith_reward::group_advantages(&groups, Scale::Batch, Kind::MeanStd);
    let unit = 1.0 / ((20f64 / 3.0).sqrt() + EPSILON);
    for group in got {
        assert!(close(group[0].unwrap(), -unit));
        assert!(close(group[1].unwrap(), unit));
    }
}

#[test]
fn equal_rewards_teach_nothing() {
    // The mean of these is not exactly 0.1.
    let r = vec![Some(0.1); 7];
    assert!(is_flat(&r));
    for (scale, kind) in SCALES.into_iter().flat_map(|s| KINDS.map(|k| (s, k))) {
        assert_eq!(
            group_advantages(&r, &[0.3; 7], scale, kind),
            vec![Some(0.0); 7]
        );
        assert_eq!(
            group_advantages(&[Some(4.0), None], &[], scale, kind),
            vec![Some(0.0), None]
        );
    }
    assert!(!is_flat(&[Some(1.0), None, Some(2.0)]));
    assert!(is_flat(&[]));
}

#[test]
fn broken_rewards_are_left_out() {
    let r = [Some(f64::NAN), Some(1.0), Some(f64::INFINITY), Some(3.0)];
    let a = group_advantages(&r, &[f64::NAN; 4], Scale::None, Kind::MeasurementAware);
    assert_eq!(a, vec![None, Some(-1.0), None, Some(1.0)]);
}
