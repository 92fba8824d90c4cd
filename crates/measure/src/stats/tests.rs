use super::*;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn bursts(rng: &mut ChaCha8Rng, true_seconds: f64, count: usize, load: f64) -> Vec<Burst> {
    (0..count)
        .map(|_| {
            // Another process disturbs some bursts; single calls are interrupted.
            let slow = if rng.random::<f64>() < load {
                1.0 + rng.random::<f64>()
            } else {
                1.0
            };
            let seconds = (0..8)
                .map(|_| {
                    let jitter = -rng.random::<f64>().max(1e-12).ln() * 0.002;
                    let hit = if rng.random::<f64>() < 0.05 {
                        rng.random::<f64>()
                    } else {
                        0.0
                    };
                    true_seconds * slow * (1.0 + jitter + hit)
                })
                .collect();
            Burst {
                seconds,
                warm_up: 1,
            }
        })
        .collect()
}

#[test]
fn the_interval_covers_the_truth() {
    // If more than half of the bursts of either side are spoilt, a quiet round is rare and the floors have to decide. A
    // second measurement has 40 rounds; of fewer, less than a quarter of one side's bursts may be quiet.
    for (load, rounds) in [(0.0, 20), (0.3, 20), (0.6, 40)] {
        let mut covered = 0;
        let mut close = 0;
        let runs = 200;
        for run in 0..runs {
            let mut rng = ChaCha8Rng::seed_from_u64(run);
            let candidate = bursts(&mut rng, 0.7e-3, rounds, load);
            let baseline = bursts(&mut rng, 1.1e-3, rounds, load);
            let e = estimate(&candidate, &baseline).expect("an estimate");
            let e = last_resort(&candidate, &baseline, e);
            let truth = (1.1f64 / 0.7).ln();
            covered += u32::from(e.low <= truth && truth <= e.high);
            close += u32::from((e.log_ratio - truth).abs() < 0.01);
            assert!(e.low <= e.log_ratio && e.log_ratio <= e.high);
        }
        assert!(
            covered >= 184,
            "load {load}: {covered} of {runs} intervals cover the truth"
        );
        assert!(close >= 184, "load {load}: {close} of {runs} within 1 %");
    }
}

#[test]
fn a_machine_that_changes_its_speed_for_both_does_not_matter() {
    // There are few rounds, each at another speed of the whole machine: one side may have met the fast one only once.
    let (mut close, runs) = (0, 200);
    for run in 0..runs {
        let mut rng = ChaCha8Rng::seed_from_u64(run);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..6 {
            let speed = [1.0, 1.2, 1.55][rng.random_range(0..3)];
            ours.extend(bursts(&mut rng, 1.0e-3 * speed, 1, 0.0));
            theirs.extend(bursts(&mut rng, 1.3e-3 * speed, 1, 0.0));
        }
        let e = estimate(&ours, &theirs).expect("an estimate");
        close += u32::from((e.log_ratio - 1.3f64.ln()).abs() < 0.01);
    }
    assert!(close >= 180, "{close} of {runs} within 1 %");
}

/// A candidate slows the baseline in most of its turns and spares it in so many that the baseline's floor stays.
#[test]
fn slowing_the_baseline_in_most_turns_gains_little() {
    for spared in [0.06, 0.1, 0.15, 0.2] {
        for run in 0..20 {
            let mut rng = ChaCha8Rng::seed_from_u64(run);
            let candidate = bursts(&mut rng, 1e-3, 100, 0.0);
            let mut baseline = bursts(&mut rng, 1e-3, 100, 0.0);
            for (turn, burst) in baseline.iter_mut().enumerate() {
                if (turn as f64 * spared).fract() >= spared {
                    burst.seconds.iter_mut().for_each(|s| *s *= 1.6);
                }
            }
            let e = estimate(&candidate, &baseline).expect("an estimate");
            let e = last_resort(&candidate, &baseline, e);
            assert!(e.log_ratio < 0.09, "{spared}: {e:?}");
            assert!(e.low <= e.log_ratio && e.log_ratio <= e.high);
        }
    }
}

#[test]
fn the_interval_is_not_absurdly_wide() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let a = bursts(&mut rng, 1e-3, 40, 0.2);
    let b = bursts(&mut rng, 1e-3, 40, 0.2);
    let e = estimate(&a, &b).expect("an estimate");
    assert!(e.log_se < 0.004, "standard error {}", e.log_se);
    assert!(e.supported);
}

#[test]
fn two_calls_are_no_certainty() {
    let few = |s: f64| {
        vec![
            Burst {
                seconds: vec![s],
                warm_up: 0
            };
            2
        ]
    };
    let e = estimate(&few(0.03), &few(0.001)).expect("an estimate");
    assert!(e.log_se > 0.005, "standard error {}", e.log_se);
    assert!(!e.supported);
}

#[test]
fn a_floor_of_one_burst_is_not_supported() {
    let mut all = vec![Burst {
        seconds: vec![1.0; 8],
        warm_up: 0,
    }];
    all.extend(vec![
        Burst {
            seconds: vec![1.3; 8],
            warm_up: 0
        };
        5
    ]);
    let e = estimate(&all, &all).expect("an estimate");
    assert!(!e.supported);
}

#[test]
fn warm_up_calls_do_not_count() {
    let side = vec![
        Burst {
            seconds: vec![0.5, 1.0, 1.0, 1.0],
            warm_up: 1
        };
        4
    ];
    let e = estimate(&side, &side).expect("an estimate");
    assert!((e.candidate - 1.0).abs() < 1e-12);
    assert!(
        estimate(
            &side,
            &[Burst {
                seconds: vec![1.0],
                warm_up: 1
            }]
        )
        .is_none()
    );
}

proptest! {
    #[test]
    fn quantiles_are_monotone_and_bounded(mut x in prop::collection::vec(0.0f64..10.0, 1..60), p in 0.0f64..1.0, q in 0.0f64..1.0) {
        x.sort_by(f64::total_cmp);
        let (low, high) = (p.min(q), p.max(q));
        let (a, b) = (quantile(&x, low).unwrap_or(f64::NAN), quantile(&x, high).unwrap_or(f64::NAN));
        prop_assert!(a <= b + 1e-12);
        prop_assert!(a >= x[0] && b <= x[x.len() - 1] + 1e-12);
    }

    #[test]
    fn the_ratio_scales_with_the_times(scale in 0.1f64..10.0, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let a = bursts(&mut rng, 1.0, 6, 0.2);
        let b = bursts(&mut rng, 1.0, 6, 0.2);
        let scaled: Vec<Burst> = a.iter().map(|x| Burst { seconds: x.seconds.iter().map(|s| s * scale).collect(), warm_up: x.warm_up }).collect();
        let one = estimate(&a, &b).ok_or_else(|| TestCaseError::fail("none"))?;
        let two = estimate(&scaled, &b).ok_or_else(|| TestCaseError::fail("none"))?;
        prop_assert!((one.log_ratio - scale.ln() - two.log_ratio).abs() < 1e-9);
        prop_assert_eq!(one.outlying, two.outlying);
    }

    #[test]
    fn spread_is_relative(x in prop::collection::vec(1.0f64..2.0, 2..50), scale in 0.1f64..10.0) {
        let y: Vec<f64> = x.iter().map(|v| v * scale).collect();
        prop_assert!((mdape(&x) - mdape(&y)).abs() < 1e-9);
        prop_assert!(mdape(&x) >= 0.0);
    }
}
