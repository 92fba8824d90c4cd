//! Laws of the division of tasks among problems, and of the stages of problems with small pools.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_archive::mix::{LearningProgress, apportion, score};
use flopsmith_archive::*;
use flopsmith_protocol::*;
use flopsmith_test_support::{Measured, infrastructure, measured, unknown, wrong};
use proptest::prelude::*;

use crate::made::set;

fn problem(number: usize) -> ProblemId {
    ProblemId::new(format!("p{number}")).unwrap()
}

fn noted(means: &[(usize, f64)]) -> LearningProgress {
    let mut progress = LearningProgress::default();
    for (number, mean) in means {
        progress.note(&problem(*number), *mean);
    }
    progress
}

/// The shares of the first `count` problems.
fn shares(progress: &LearningProgress, count: usize) -> Vec<f64> {
    let ids: Vec<ProblemId> = (0..count).map(problem).collect();
    progress.shares(&ids.iter().collect::<Vec<_>>())
}

#[test]
fn a_score_grows_with_speed_and_says_nothing_of_failures_of_machines() {
    let of = |verdict: Verdict| score(&verdict);
    assert_eq!(of(wrong()), Some(0.0));
    assert_eq!(of(unknown()), None);
    assert_eq!(of(infrastructure(InfrastructureCause::Bus)), None);
    let (slow, fast) = (of(measured(10.0)).unwrap(), of(measured(20.0)).unwrap());
    assert!(0.0 < slow && slow < fast && fast < 1.0, "{slow} {fast}");
    // 20 exp(-1.96 · 0.5) is less than 10.
    let unsure = Measured::at(20.0).se(0.5).unconverged().verdict();
    let unsure = of(unsure).unwrap();
    assert!(0.0 < unsure && unsure < slow, "{unsure} {slow}");
}

#[test]
fn problems_that_change_get_more_tasks_in_either_direction() {
    let constant: Vec<(usize, f64)> = (0..9).map(|_| (0, 0.5)).collect();
    let learned = (0..9).map(|n| (1, 0.1 * f64::from(n)));
    let forgotten = (0..9).map(|n| (2, 0.8 - 0.1 * f64::from(n)));
    let means: Vec<_> = constant
        .into_iter()
        .chain(learned)
        .chain(forgotten)
        .collect();
    let shares = shares(&noted(&means), 3);
    assert!(shares[1] > 3.0 * shares[0], "{shares:?}");
    assert!((shares[1] - shares[2]).abs() < 1e-9, "{shares:?}");
}

#[test]
fn nothing_that_is_no_mean_is_noted_and_without_progress_all_are_equal() {
    let none = noted(&[(0, f64::NAN), (0, -0.1), (0, 1.1)]);
    assert_eq!(none, LearningProgress::default());
    assert_eq!(shares(&noted(&[(0, 0.5), (1, 0.0)]), 4), [0.25; 4]);
    assert!(shares(&none, 0).is_empty());
}

proptest! {
    #[test]
    fn shares_are_positive_sum_to_one_and_keep_a_floor(
        means in proptest::collection::vec((0usize..6, 0.0f64..=1.0), 0..60), count in 1usize..8
    ) {
        let shares = shares(&noted(&means), count);
        prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{:?}", shares);
        let floor = 0.25 / count as f64;
        prop_assert!(shares.iter().all(|share| *share >= floor - 1e-12), "{:?}", shares);
    }

    #[test]
    fn every_problem_has_its_share_of_tasks_rounded_down_or_up(
        weights in proptest::collection::vec(0.01f64..1.0, 1..9),
        tasks in 0usize..40, seed in any::<u64>(), step in 0u64..1000
    ) {
        let total: f64 = weights.iter().sum();
        let shares: Vec<f64> = weights.iter().map(|w| w / total).collect();
        let given = apportion(&shares, tasks, seed, step);
        prop_assert_eq!(given.len(), tasks);
        prop_assert_eq!(&given, &apportion(&shares, tasks, seed, step));
        for (place, share) in shares.iter().enumerate() {
            let count = given.iter().filter(|of| **of == place).count() as f64;
            let exact = share * tasks as f64;
            prop_assert!(
                (exact - 1e-6).floor() <= count && count <= (exact + 1e-6).ceil(),
                "{} of {}", count, exact
            );
        }
    }

    /// A saved state is the same state, to the bit.
    #[test]
    fn a_resumed_progress_goes_on_as_it_was(
        means in proptest::collection::vec((0usize..6, 0.0f64..=1.0), 0..40)
    ) {
        let progress = noted(&means);
        let bytes = rmp_serde::to_vec_named(&progress).unwrap();
        let again: LearningProgress = rmp_serde::from_slice(&bytes).unwrap();
        prop_assert_eq!(again, progress);
    }

    /// The rules of a problem are usable with any pool, and every stage has sets of its own.
    #[test]
    fn rules_within_any_pool_are_usable(bits in any::<u16>()) {
        let all: Vec<Technique> = TechniqueSet::general().iter().collect();
        let pool = (0..).zip(&all).filter(|(n, _)| bits >> n & 1 == 1);
        let pool = pool.fold(TechniqueSet::EMPTY, |pool, (_, technique)| pool.with(*technique));
        let config = Config::default().within(pool);
        config.check().unwrap();
        prop_assert!(config.techniques.is_subset(pool));
        let stages = 0..u32::try_from(config.stages.len()).unwrap();
        let sets: Vec<_> = stages.map(|stage| config.stage_sets(stage)).collect();
        for (n, of) in sets.iter().enumerate() {
            prop_assert!(!of.is_empty() && !sets[n + 1..].contains(of), "{:?}", sets);
        }
    }
}

#[test]
fn stages_that_a_small_pool_makes_equal_or_impossible_are_left_out_with_their_steps() {
    let names = |pool: &str| -> (Vec<String>, Advance) {
        let config = Config::default().within(set(pool));
        let stages = config.stages.iter().map(|stage| stage.name.clone());
        (stages.collect(), config.advance)
    };
    let steps = |steps: &[u64]| Advance::FixedSteps {
        steps: steps.to_vec(),
    };
    // By default the stages take 2, 6, 7 and 7 steps.
    let of = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    assert_eq!(names("{}"), (of(&["unrestricted"]), steps(&[])));
    assert_eq!(names("simd"), (of(&["plain", "unrestricted"]), steps(&[2])));
    assert_eq!(
        names("simd+unroll"),
        (of(&["plain", "singles", "unrestricted"]), steps(&[2, 6]))
    );
    let whole = Config::default();
    assert_eq!(whole.within(whole.techniques), whole);
}
