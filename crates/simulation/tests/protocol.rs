//! The protocol holds under faults, and fails with each of the mutations.
#![expect(clippy::panic, reason = "tests")]

use std::collections::BTreeSet;

use proptest::prelude::*;

use flopsmith_simulation::{Config, Kind, Mutation, Report, SECOND, Verdict, caught, simulate};

fn run(config: &Config, seed: u64) -> Report {
    simulate(config, seed).unwrap_or_else(|violation| panic!("{violation}"))
}

#[test]
fn the_protocol_holds_in_small_clusters() {
    let config = Config::small();
    let mut befell = BTreeSet::new();
    for seed in 0..1_500 {
        let report = run(&config, seed);
        befell.extend(
            report
                .faults
                .iter()
                .filter(|(_, n)| *n > 0)
                .map(|(k, _)| *k),
        );
    }
    assert_eq!(befell.len(), Kind::ALL.len(), "every kind of fault came");
}

#[test]
fn the_protocol_holds_with_a_thousand_workers() {
    let config = Config {
        steps: 2,
        ..Config::with_workers(1_000)
    };
    for seed in 0..8 {
        let report = run(&config, seed);
        assert_eq!(report.outcomes.len(), 2_000);
    }
}

/// A cluster with dynamic sampling: further groups replace those without a spread of rewards.
fn drawing_again() -> Config {
    Config {
        rounds: 2,
        ..Config::small()
    }
}

#[test]
fn the_protocol_holds_where_groups_are_drawn_again() {
    let first = Config::small();
    let first = (first.steps * first.tasks * first.group) as usize;
    let mut again = 0;
    for seed in 0..600 {
        let report = run(&drawing_again(), seed);
        assert!(report.outcomes.len() >= first);
        again += usize::from(report.outcomes.len() > first);
    }
    assert!(again > 300, "{again} runs had groups without a spread");
    for seed in 0..50 {
        run(&drawing_again().undisturbed(), seed);
    }
}

/// A cluster whose generators need not wait for the learner.
fn running_ahead() -> Config {
    Config {
        steps: 5,
        ahead: 2,
        ..Config::small()
    }
}

#[test]
fn the_protocol_holds_where_generators_run_ahead_of_the_learner() {
    let mut stale = 0;
    for seed in 0..400 {
        let report = run(&running_ahead(), seed);
        assert!(report.staleness <= 2, "{}", report.staleness);
        stale += usize::from(report.staleness > 0);
        assert_eq!(run(&Config::small(), seed).staleness, 0);
    }
    assert!(
        stale > 200,
        "{stale} runs had programs of an earlier policy"
    );
    for seed in 0..50 {
        run(&running_ahead().undisturbed(), seed);
    }
}

#[test]
fn one_node_of_each_kind_is_enough() {
    let config = Config {
        generators: 1,
        compilers: 1,
        verifiers: 1,
        timers: 1,
        singles: 1,
        ..Config::small()
    };
    for seed in 0..200 {
        run(&config, seed);
    }
}

#[test]
fn where_nothing_happens_nothing_is_given_up_or_done_twice() {
    let config = Config::with_workers(60).undisturbed();
    for seed in 0..20 {
        let report = run(&config, seed);
        assert_eq!(report.given_up(), 0);
        assert_eq!((report.role_failures, report.losses.leases), (0, 0));
        let measured = report.outcomes.values();
        let measured = measured
            .filter(|v| matches!(v, Verdict::Measured(_)))
            .count() as u64;
        assert!(report.timed < measured, "equal programs are timed once");
    }
}

#[test]
fn a_disturbed_run_has_the_result_of_an_undisturbed_one() {
    let config = Config::small();
    for seed in 0..100 {
        let (disturbed, calm) = (run(&config, seed), run(&config.clone().undisturbed(), seed));
        for (sample, verdict) in &disturbed.outcomes {
            let given_up = matches!(verdict, Verdict::Infrastructure(_));
            assert!(given_up || calm.outcomes.get(sample) == Some(verdict));
        }
        if disturbed.given_up() == 0 {
            assert_eq!(disturbed.outcomes, calm.outcomes);
            assert_eq!(disturbed.cells, calm.cells);
        }
    }
}

#[test]
fn a_seed_gives_the_same_events_again() {
    let config = Config::small();
    let digests: BTreeSet<u64> = (0..50)
        .map(|seed| {
            let (one, other) = (run(&config, seed), run(&config, seed));
            assert_eq!(one, other);
            one.digest
        })
        .collect();
    assert_eq!(digests.len(), 50, "and another seed others");
    let mutation = Mutation::TakeOverWithoutJournal;
    let found = || caught(&config, mutation, 0, 50);
    let (one, other) = (found(), found());
    assert!(one.is_some());
    assert_eq!(one, other, "the trace of a violation included");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// For all numbers of nodes, and all divisions of a step into tasks.
    #[test]
    fn the_protocol_holds_in_any_cluster(
        counts in (1u32..4, 1u32..6, 1u32..6, 1u32..6, 1u32..4),
        step in (1u32..9, 1u32..9),
        steps in 1u32..5,
        rounds in 0u32..3,
        ahead in 0u32..3,
        seed in any::<u64>(),
    ) {
        let (generators, compilers, verifiers, timers, singles) = counts;
        let (tasks, group) = step;
        let config = Config { steps, tasks, group, rounds, ahead, generators, compilers, verifiers, timers, singles, ..Config::small() };
        if let Err(violation) = simulate(&config, seed) {
            prop_assert!(false, "{violation}");
        }
    }
}

/// Every mutation, and the invariant that detects it.
const FOUND_BY: &[(Mutation, &[&str])] = &[
    (
        Mutation::AcknowledgeBeforePublish,
        &["acknowledged_work_has_its_effect"],
    ),
    (Mutation::NoMessageId, &["an_id_is_stored_once"]),
    (Mutation::NoDedupeAtArchive, &["none_is_counted_twice"]),
    (Mutation::FenceWithoutRevision, &["one_holder_writes"]),
    (
        Mutation::AcknowledgementNotRetried,
        &["what_is_done_has_left"],
    ),
    (Mutation::LaterResultOverwrites, &["none_is_counted_twice"]),
    (
        Mutation::DeadLetterWithoutOutcome,
        &["the_dead_are_decided"],
    ),
    (
        Mutation::LostWithoutDeadLetter,
        &["what_is_given_up_has_its_letter"],
    ),
    (
        Mutation::SignsOfLifeStopEarly,
        &["no_work_is_taken_from_the_living"],
    ),
    (Mutation::HoldLimitIgnored, &["nobody_holds_for_ever"]),
    (
        Mutation::TakeOverWithoutJournal,
        &["a_state_rests_on_the_one_before"],
    ),
    (
        Mutation::BrokerForgetsConfirmed,
        &["confirmed_writes_survive"],
    ),
    (
        Mutation::PublishedBeforeCommit,
        &["published_versions_are_saved"],
    ),
    (Mutation::TasksBeforeSave, &["tasks_rest_on_a_saved_step"]),
    (Mutation::AsksForTooMuch, &["in_flight_is_bounded"]),
    (
        Mutation::CandidatesBeforeRollouts,
        &["rollouts_come_before_candidates"],
    ),
    (
        Mutation::LearnsAgainAfterRestart,
        &["each_sample_is_learnt_at_most_once"],
    ),
    (Mutation::TasksNotToldAgain, &["the_dead_are_decided"]),
    (Mutation::DoesNotAskAnew, &["everything_ends"]),
    (
        Mutation::AnswersWithOldPolicy,
        &["the_result_is_that_of_an_undisturbed_run"],
    ),
    (
        Mutation::LearnsBeforeDrawnAgain,
        &["only_what_is_over_is_learnt_from"],
    ),
    (
        Mutation::DrawsAgainBeforeSave,
        &["tasks_rest_on_a_saved_step"],
    ),
    (
        Mutation::LearnsFromOtherTokens,
        &["lessons_are_of_their_own_tokens"],
    ),
];

/// The places where a mutation applies.
fn cluster_for(mutation: Mutation) -> Config {
    match mutation {
        Mutation::LearnsBeforeDrawnAgain | Mutation::DrawsAgainBeforeSave => drawing_again(),
        Mutation::LearnsFromOtherTokens => running_ahead(),
        _ => Config::small(),
    }
}

#[test]
fn each_mistake_is_found_out() {
    let named: BTreeSet<Mutation> = FOUND_BY.iter().map(|(mutation, _)| *mutation).collect();
    assert_eq!(named.len(), Mutation::ALL.len());
    for (mutation, invariants) in FOUND_BY {
        let name = mutation.name();
        let Some(violation) = caught(&cluster_for(*mutation), *mutation, 0, 200) else {
            panic!("{name} goes unnoticed");
        };
        let (by, seed) = (violation.invariant, violation.seed);
        assert!(invariants.contains(&by), "{name} is found by {violation}");
        eprintln!("{name}: {by}, seed {seed}");
    }
}

#[test]
fn a_violation_says_how_to_see_it_again() {
    let config = Config {
        trace: 7,
        faults_for: 45 * SECOND,
        ..Config::small()
    };
    let Some(violation) = caught(&config, Mutation::CandidatesBeforeRollouts, 3, 1) else {
        panic!("it goes unnoticed");
    };
    assert_eq!(violation.trace.len(), 7);
    let told = violation.to_string();
    assert_eq!(told.lines().count(), 9, "{told}");
    for part in [
        "--from 3 --seeds 1",
        "--seconds 45",
        "--step 3x4",
        "--mutation CandidatesBeforeRollouts",
    ] {
        assert!(told.contains(part), "{told}");
    }
}
