//! Metrics of models against brute force over all subsets, and their intervals against what they promise.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_reward::metrics::{
    Estimate, Metric, Pair, Sample, Samples, at_least_one, differences, estimates, expected_best,
    holm, pareval_compat, sol_score,
};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn sample() -> impl Strategy<Value = Sample> {
    prop_oneof![
        any::<bool>().prop_map(|built| Sample::Failed { built }),
        // Few values, so that ties occur.
        (0.25..8.0f64, any::<bool>(), 0..4usize).prop_map(|(speedup, round, program)| {
            Sample::Correct {
                speedup: if round {
                    speedup.round().max(1.0)
                } else {
                    speedup
                },
                log_se: 0.01,
                program,
            }
        }),
    ]
}

fn samples(most: usize) -> impl Strategy<Value = Samples> {
    let all = proptest::collection::vec(sample(), 1..=most);
    (all, proptest::option::of(1.5..40.0f64)).prop_map(|(samples, headroom)| Samples {
        samples,
        reference_log_se: 0.02,
        headroom,
        threaded_reference: false,
    })
}

/// Every choice of `k` of these samples.
fn subsets(samples: &[Sample], k: usize) -> Vec<Vec<Sample>> {
    (0u32..1 << samples.len())
        .filter(|chosen| chosen.count_ones() as usize == k)
        .map(|chosen| {
            let all = samples.iter().enumerate();
            all.filter(|(n, _)| chosen & (1 << n) != 0)
                .map(|(_, sample)| *sample)
                .collect()
        })
        .collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), v| (sum + v, count + 1.0));
    sum / count
}

fn speedup(sample: &Sample) -> f64 {
    match sample {
        Sample::Failed { .. } => 0.0,
        Sample::Correct { speedup, .. } => *speedup,
    }
}

fn is_correct(sample: &Sample) -> bool {
    matches!(sample, Sample::Correct { .. })
}

fn is_built(sample: &Sample) -> bool {
    !matches!(sample, Sample::Failed { built: false })
}

fn close(found: Option<f64>, expected: f64) -> bool {
    found.is_some_and(|found| (found - expected).abs() <= 1e-9 * expected.abs().max(1.0))
}

/// C(n, r) as ParEval's code computes it.
fn choose_as_pareval(n: usize, r: usize) -> f64 {
    if n < r {
        return 1.0;
    }
    (0..r).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

proptest! {
    #[test]
    fn estimators_of_k_draws_equal_the_mean_over_all_subsets(of in samples(8), k in 1..9usize) {
        let draws = u32::try_from(k).unwrap();
        let all = &of.samples[..];
        if k > all.len() {
            for metric in [Metric::Build(draws), Metric::Pass(draws), Metric::Speedup(draws)] {
                prop_assert_eq!(metric.of(&of), None);
            }
            return Ok(());
        }
        let subsets = subsets(all, k);
        let share = |is: fn(&Sample) -> bool| {
            mean(subsets.iter().map(|subset| f64::from(u8::from(subset.iter().any(is)))))
        };
        prop_assert!(close(Metric::Build(draws).of(&of), share(is_built)));
        prop_assert!(close(Metric::Pass(draws).of(&of), share(is_correct)));
        let best = mean(subsets.iter().map(|s| s.iter().map(speedup).fold(0.0, f64::max)));
        prop_assert!(close(Metric::Speedup(draws).of(&of), best));
        prop_assert!(close(Metric::Efficiency(draws, 4).of(&of), best / 4.0));
        // Beside a reference on four threads a speedup of 1 is as efficient as the reference, whatever that is.
        let beside = Samples { threaded_reference: true, ..of.clone() };
        prop_assert_eq!(Metric::Efficiency(draws, 4).of(&beside), None);
        prop_assert!(close(Metric::Speedup(draws).of(&beside), best));
    }

    #[test]
    fn one_draw_is_a_plain_mean(of in samples(30)) {
        let all = &of.samples[..];
        let share = |is: fn(&Sample) -> bool| mean(all.iter().map(|s| f64::from(u8::from(is(s)))));
        prop_assert!(close(Metric::Build(1).of(&of), share(is_built)));
        prop_assert!(close(Metric::Pass(1).of(&of), share(is_correct)));
        prop_assert!(close(Metric::Speedup(1).of(&of), mean(all.iter().map(speedup))));
        // ParEval drops the failed samples.
        let correct: Vec<f64> = all.iter().filter(|s| is_correct(s)).map(speedup).collect();
        let compat = Metric::ParevalSpeedup(1).of(&of);
        if correct.is_empty() {
            prop_assert_eq!(compat, None);
        } else {
            prop_assert!(close(compat, mean(correct.into_iter())));
        }
    }

    #[test]
    fn the_compatible_number_is_that_of_parevals_code(
        mut speedups in proptest::collection::vec(0.1..20.0f64, 1..25),
        k in 1..25usize,
    ) {
        speedups.sort_by(f64::total_cmp);
        // As the code does it: run times, the shortest first.
        let runtimes: Vec<f64> = speedups.iter().rev().map(|s| 1.0 / s).collect();
        let n = runtimes.len();
        let sum: f64 = runtimes
            .iter()
            .enumerate()
            .map(|(j, time)| choose_as_pareval(j, k - 1) / (choose_as_pareval(n, k) * time))
            .sum();
        prop_assert!(close(pareval_compat(&speedups, k), sum));
    }

    #[test]
    fn shares_and_means_are_what_they_say(of in samples(20)) {
        let all = &of.samples[..];
        let correct: Vec<f64> = all.iter().filter(|s| is_correct(s)).map(speedup).collect();
        let n = all.len() as f64;
        for limit in [1.0, 1.5, 2.0] {
            let faster = all.iter().filter(|s| is_correct(s) && speedup(s) > limit).count();
            prop_assert!(close(Metric::Fast(limit).of(&of), faster as f64 / n));
        }
        if correct.is_empty() {
            prop_assert_eq!(Metric::GeometricMean.of(&of), None);
            prop_assert_eq!(Metric::HarmonicMean.of(&of), None);
            prop_assert_eq!(Metric::SolScore.of(&of), Some(0.0));
            return Ok(());
        }
        let product: f64 = correct.iter().product();
        let geometric = product.powf(1.0 / correct.len() as f64);
        prop_assert!(close(Metric::GeometricMean.of(&of), geometric));
        let times: f64 = correct.iter().map(|s| 1.0 / s).sum();
        prop_assert!(close(Metric::HarmonicMean.of(&of), correct.len() as f64 / times));
        let Some(headroom) = of.headroom else {
            prop_assert_eq!(Metric::ShareOfRoof.of(&of), None);
            prop_assert_eq!(Metric::SolScore.of(&of), None);
            return Ok(());
        };
        let total: f64 = correct.iter().sum();
        prop_assert!(close(Metric::ShareOfRoof.of(&of), total / headroom / n));
        // Times in units of the reference's.
        let score = |s: &f64| {
            let (time, base, sol) = (1.0 / s, 1.0, 1.0 / headroom);
            if time <= sol { 1.0 } else { 1.0 / (1.0 + (time - sol) / (base - sol)) }
        };
        let scores: f64 = correct.iter().map(score).sum();
        prop_assert!(close(Metric::SolScore.of(&of), scores / n));
    }

    #[test]
    fn corrected_chances_reject_what_holms_procedure_rejects(
        chances in proptest::collection::vec(0.0..0.2f64, 0..12),
    ) {
        let mut left: Vec<(usize, f64)> = chances.iter().copied().enumerate().collect();
        left.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut rejected = vec![false; chances.len()];
        for (rank, (n, chance)) in left.into_iter().enumerate() {
            if chance * (chances.len() - rank) as f64 > 0.05 {
                break;
            }
            rejected[n] = true;
        }
        let corrected = holm(&chances);
        let found: Vec<bool> = corrected.iter().map(|chance| *chance <= 0.05).collect();
        prop_assert_eq!(found, rejected);
        prop_assert!(corrected.iter().zip(&chances).all(|(c, p)| c >= p && *c <= 1.0));
    }
}

#[test]
fn estimators_of_nothing_are_nothing() {
    assert_eq!(at_least_one(0, 0, 1), None);
    assert_eq!(at_least_one(3, 1, 0), None);
    assert_eq!(expected_best(0, &[], 1), None);
    assert_eq!(expected_best(3, &[2.0], 0), None);
    assert_eq!(pareval_compat(&[], 1), None);
    let empty = Samples::default();
    for metric in Metric::all(&[1, 5], 1) {
        assert_eq!(metric.of(&empty), None, "{}", metric.name());
    }
}

#[test]
fn a_score_is_a_half_at_the_reference_and_one_at_the_roof() {
    assert_eq!(sol_score(1.0, 8.0), Some(0.5));
    assert_eq!(sol_score(8.0, 8.0), Some(1.0));
    assert_eq!(sol_score(9.0, 8.0), Some(1.0));
    assert!(sol_score(0.5, 8.0).unwrap() < 0.5);
    // A reference at the roof leaves nothing to score.
    assert_eq!(sol_score(1.0, 1.0), None);
}

#[test]
fn names_are_those_of_the_documentation() {
    let names: Vec<String> = Metric::all(&[1, 5], 2).iter().map(|m| m.name()).collect();
    let expected = [
        "build@1",
        "build@5",
        "pass@1",
        "pass@5",
        "speedup_n@1",
        "speedup_n@5",
        "efficiency_n@1",
        "efficiency_n@5",
        "pareval_compat_speedup_n@1",
        "pareval_compat_speedup_n@5",
        "fast_1",
        "fast_1.5",
        "fast_2",
        "geometric_mean_speedup",
        "harmonic_mean_speedup",
        "share_of_roof",
        "sol_score",
    ];
    assert_eq!(names, expected);
}

/// A model whose answers are correct with this probability, and then of this speed, give or take.
fn model(correct: f64, speed: f64, samples: usize, rng: &mut impl Rng) -> Samples {
    let samples = (0..samples).map(|program| {
        if !rng.random_bool(correct) {
            return Sample::Failed { built: true };
        }
        Sample::Correct {
            speedup: speed * rng.random_range(0.8..1.2),
            log_se: 0.0,
            program,
        }
    });
    Samples {
        samples: samples.collect(),
        reference_log_se: 0.0,
        headroom: None,
        threaded_reference: false,
    }
}

#[test]
fn the_same_seed_gives_the_same_intervals() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let problems: Vec<Samples> = (0..4).map(|_| model(0.7, 2.0, 10, &mut rng)).collect();
    let problems: Vec<&Samples> = problems.iter().collect();
    let metrics = Metric::all(&[1, 5], 1);
    let found = |seed: u64| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        estimates(&problems, &metrics, 200, &mut rng)
    };
    assert_eq!(found(3), found(3));
    assert_ne!(found(3), found(4));
    for estimate in found(3).into_iter().flatten() {
        let Estimate {
            low,
            high,
            problems,
            ..
        } = estimate;
        assert!(low <= high && problems == 4, "{estimate:?}");
    }
}

/// Over problems and samples drawn anew, the interval covers the true value about as often as it promises.
#[test]
fn intervals_cover_the_true_value() {
    let metric = [Metric::Speedup(1)];
    let covers = |seed: u64| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let problems: Vec<Samples> = (0..12)
            .map(|_| {
                let speed = rng.random_range(1.0..3.0);
                model(0.5, speed, 20, &mut rng)
            })
            .collect();
        let problems: Vec<&Samples> = problems.iter().collect();
        let found = estimates(&problems, &metric, 200, &mut rng)[0].unwrap();
        // Half of the answers are correct, at a speed of 2 in the mean.
        found.low <= 1.0 && 1.0 <= found.high
    };
    let covered = (0..200).filter(|seed| covers(*seed)).count();
    // A percentile interval of twelve problems is a little narrow; resampled samples make it wider.
    assert!(covered >= 176, "{covered} of 200");
}

/// Between equal models a difference is claimed rarely, however few samples there are.
#[test]
fn equal_models_hardly_ever_differ() {
    for (problems, samples) in [(1, 1), (1, 2), (1, 8), (6, 4)] {
        let wrong = (0..200u64).filter(|seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(*seed);
            let made: Vec<(Samples, Samples)> = (0..problems)
                .map(|_| {
                    let a = model(0.6, 2.0, samples, &mut rng);
                    (a, model(0.6, 2.0, samples, &mut rng))
                })
                .collect();
            let pairs: Vec<Pair<'_>> = made.iter().map(|(a, b)| Pair { a, b }).collect();
            let found = differences(&pairs, &[Metric::Speedup(1)], 100, &mut rng);
            found[0].unwrap().chance <= 0.05
        });
        let wrong = wrong.count();
        // Of 200 the 5 % are exceeded by so many in one of a thousand.
        assert!(
            wrong <= 20,
            "{problems} problems, {samples} samples: {wrong}"
        );
    }
}

#[test]
fn a_better_model_is_told_from_a_worse_one() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let made: Vec<(Samples, Samples)> = (0..3)
        .map(|_| {
            let a = model(0.9, 1.0, 20, &mut rng);
            (a, model(0.9, 2.0, 20, &mut rng))
        })
        .collect();
    let pairs: Vec<Pair<'_>> = made.iter().map(|(a, b)| Pair { a, b }).collect();
    let metrics = [Metric::Speedup(1), Metric::Speedup(30)];
    let found = differences(&pairs, &metrics, 400, &mut rng);
    let speedup = found[0].unwrap();
    assert!(
        speedup.chance <= 0.01 && speedup.problems == 3,
        "{speedup:?}"
    );
    assert!(
        0.0 < speedup.low && speedup.low < speedup.difference,
        "{speedup:?}"
    );
    assert!((speedup.b - speedup.a - speedup.difference).abs() < 1e-12);
    // No problem has thirty samples.
    assert_eq!(found[1], None);
}

/// Each model always writes the same program, and the two programs differ by less than the error of their times.
#[test]
fn a_difference_within_the_error_of_measurement_is_none() {
    let always = |speedup: f64, program: usize| Samples {
        samples: vec![
            Sample::Correct {
                speedup,
                log_se: 0.02,
                program,
            };
            20
        ],
        reference_log_se: 0.1,
        headroom: None,
        threaded_reference: false,
    };
    let chance = |a: &Samples, b: &Samples| {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let found = differences(&[Pair { a, b }], &[Metric::Speedup(1)], 400, &mut rng);
        found[0].unwrap().chance
    };
    let a = always(2.0, 0);
    assert!(chance(&a, &always(2.02, 1)) > 0.05);
    // The error of the reference is common to both and does not hide a difference.
    assert!(chance(&a, &always(2.4, 1)) <= 0.01);
    assert_eq!(chance(&a, &always(2.0, 0)), 1.0);
}
