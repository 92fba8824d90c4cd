//! Re-measurement and task choice, case by case.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_archive::*;
use flopsmith_protocol::*;
use flopsmith_test_support::rejected;

use crate::made::*;

#[test]
fn a_new_best_counts_after_its_second_measurement() {
    let mut s = sqd(Config::default());
    let effects = s.on_outcome(&good(sample(0, 0), "a;", set("simd"), 5.0, 0.01));
    let id = CandidateId::new("r-s0-g0-c0").unwrap();
    assert_eq!(
        effects,
        vec![Effect::Remeasure {
            candidate: id.clone(),
            repetition: 1
        }]
    );
    assert_eq!(s.archive().best(), None);
    // Repeated or unknown programs change nothing.
    assert_eq!(
        s.on_outcome(&good(sample(0, 1), "a ;", set("simd"), 5.1, 0.01)),
        vec![]
    );
    let nobody = CandidateId::new("nobody").unwrap();
    assert_eq!(s.confirm(&nobody, &measurement(5.0, 0.01)), vec![]);
    // The second measurement counts.
    let effects = s.confirm(&id, &measurement(4.0, 0.01));
    let accepted = Effect::EliteAccepted {
        candidate: id.clone(),
        techniques: set("simd"),
        gflops: 8.0,
    };
    assert_eq!(effects, vec![accepted]);
    assert_eq!(s.archive().best().unwrap().1.ratio, 4.0);
    assert_eq!(s.confirm(&id, &measurement(9.0, 0.01)), vec![], "once only");
    let counts = s.archive().cell(set("simd")).unwrap().counts();
    assert_eq!((counts.tried, counts.correct), (2, 2));
}

#[test]
fn a_lucky_first_measurement_is_found_out() {
    let mut s = sqd(Config {
        elites_per_cell: 1,
        ..Config::default()
    });
    s.on_outcome(&good(sample(0, 0), "a;", set("simd"), 5.0, 0.01));
    answer(&mut s, 0, Some(1.0));
    s.on_outcome(&good(sample(0, 1), "lucky;", set("simd"), 8.0, 0.01));
    assert_eq!(answer(&mut s, 0, Some(0.5)), vec![]);
    assert_eq!(s.archive().best().unwrap().1.source, "a;");
    // A program that fails the second time is no elite, and a cached number is no measurement.
    s.on_outcome(&good(sample(0, 2), "unsteady;", set("simd"), 8.0, 0.01));
    let waiting = s.pending().next().unwrap().candidate.clone();
    let verdict = rejected(CandidateFault::Nondeterministic);
    assert_eq!(s.on_outcome(&again(&waiting, 1, verdict)), vec![]);
    s.on_outcome(&good(sample(0, 3), "known;", set("simd"), 8.0, 0.01));
    let waiting = s.pending().next().unwrap().candidate.id.clone();
    let looked_up = Measurement {
        reused: true,
        ..measurement(8.0, 0.01)
    };
    assert_eq!(s.confirm(&waiting, &looked_up), vec![]);
    assert_eq!(s.pending().count(), 0);
    assert_eq!(s.archive().best().unwrap().1.source, "a;");
}

#[test]
fn a_second_measurement_that_fails_is_tried_again_and_then_given_up() {
    let mut s = sqd(Config::default());
    s.on_outcome(&good(sample(0, 0), "a;", set("simd"), 5.0, 0.01));
    let waiting = s.pending().next().unwrap().candidate.clone();
    let ask = |repetition| {
        vec![Effect::Remeasure {
            candidate: waiting.id.clone(),
            repetition,
        }]
    };
    assert_eq!(s.on_outcome(&again(&waiting, 1, lost())), ask(2));
    assert_eq!(
        s.on_outcome(&again(&waiting, 1, lost())),
        vec![],
        "delivered twice"
    );
    assert_eq!(s.on_outcome(&again(&waiting, 2, lost())), ask(3));
    assert_eq!(s.on_outcome(&again(&waiting, 3, lost())), vec![]);
    assert_eq!(s.pending().count(), 0);
    // A candidate that never comes back loses its place after a while.
    s.on_outcome(&good(sample(0, 1), "b;", set("simd"), 5.0, 0.01));
    for step in 0..4 {
        s.on_step_end(step);
        assert_eq!(s.pending().count(), 1);
    }
    s.on_step_end(4);
    assert_eq!(s.pending().count(), 0);
}

#[test]
fn a_measurement_that_did_not_converge_confirms_nothing_and_is_made_again() {
    let mut s = sqd(Config::default());
    s.on_outcome(&good(sample(0, 0), "a;", set("simd"), 5.0, 0.01));
    let waiting = s.pending().next().unwrap().candidate.clone();
    let unsure = || Verdict::Measured {
        measurement: Measurement {
            stop: StopReason::Unconverged,
            ..measurement(5.0, 0.2)
        },
    };
    let ask = |repetition| {
        vec![Effect::Remeasure {
            candidate: waiting.id.clone(),
            repetition,
        }]
    };
    assert_eq!(s.on_outcome(&again(&waiting, 1, unsure())), ask(2));
    assert_eq!(s.archive().best(), None);
    let sure = Verdict::Measured {
        measurement: measurement(4.5, 0.01),
    };
    assert_eq!(s.on_outcome(&again(&waiting, 2, sure)).len(), 1);
    assert_eq!(s.archive().best().unwrap().1.ratio, 4.5);
    // With a limit: a machine that is never quiet gets no elites.
    s.on_outcome(&good(sample(0, 1), "b;", set("unroll"), 5.0, 0.01));
    let waiting = s.pending().next().unwrap().candidate.clone();
    for repetition in 1..=3 {
        s.on_outcome(&again(&waiting, repetition, unsure()));
    }
    assert_eq!(s.pending().count(), 0);
    assert!(s.archive().cell(set("unroll")).unwrap().best().is_none());
}

#[test]
fn second_measurements_are_limited_but_never_for_a_new_best() {
    let mut s = sqd(Config {
        remeasures_per_step: 2,
        elites_per_cell: 3,
        ..Config::default()
    });
    let mut asked = |n: u32, ratio: f64| {
        let o = good(
            sample(0, n),
            &format!("int x{n};"),
            set("simd"),
            ratio,
            0.001,
        );
        !s.on_outcome(&o).is_empty()
    };
    assert!(asked(0, 5.0), "opens the cell");
    assert!(asked(1, 4.9), "room, and the budget allows it");
    assert!(!asked(2, 4.8), "room, but no budget");
    assert!(asked(3, 6.0), "would be the best");
    assert!(!asked(4, 4.0), "three wait already, all faster");
    assert!(asked(5, 7.0), "would be the best again");
    s.on_step_end(0);
    assert!(
        !s.on_outcome(&good(sample(1, 0), "y;", set("simd"), 6.5, 0.001))
            .is_empty()
    );
}

#[test]
fn slow_programs_that_open_cells_have_no_more_than_the_limit() {
    let mut s = sqd(Config {
        remeasures_per_step: 2,
        ..Config::default()
    });
    let asked = |s: &mut Sqd, step: u64, n: u32, techniques: &str, ratio: f64| {
        let source = format!("int x{step}_{n};");
        let o = good(sample(step, n), &source, set(techniques), ratio, 0.001);
        !s.on_outcome(&o).is_empty()
    };
    assert!(asked(&mut s, 0, 0, "simd", 20.0), "the first of all");
    assert!(asked(&mut s, 0, 1, "unroll", 2.0), "slow, within the limit");
    assert!(
        !asked(&mut s, 0, 2, "packing", 2.0),
        "slow, beyond the limit"
    );
    assert!(asked(&mut s, 0, 3, "prefetch", 16.0), "80 % of the fastest");
    assert!(
        !asked(&mut s, 0, 4, "loop_reorder", 15.9),
        "slower than that"
    );
    s.on_step_end(0);
    assert!(
        asked(&mut s, 1, 0, "packing", 2.0),
        "the next step has room again"
    );
}

#[test]
fn guidance_goes_to_thin_cells_and_leaves_hopeless_ones() {
    let config = |guidance| Config {
        guidance,
        replay_share: 0.0,
        advance: Advance::FixedSteps {
            steps: vec![1, 100, 1, 1],
        },
        ..Config::default()
    };
    let visits = |guidance: f64| {
        let mut s = sqd(config(guidance));
        end_step(&mut s, 0);
        for i in 0..200 {
            let at = |permitted| From {
                permitted,
                stage: 1,
                group: i / 64,
                ..sample(1, i)
            };
            s.on_outcome(&good(
                at(set("simd")),
                &format!("int x{i};"),
                set("simd"),
                2.0,
                0.01,
            ));
            let from = From {
                group: 9 + i / 64,
                ..at(set("packing"))
            };
            s.on_outcome(&bad(from, CandidateFault::CompileError));
        }
        let count = |name: &str| {
            (0..500)
                .flat_map(|seed| s.plan(2, 4, seed))
                .filter(|p| p.permitted == set(name))
                .count()
        };
        (count("simd"), count("packing"), count("prefetch"))
    };
    let (well_known, hopeless, new) = visits(1.0);
    assert!(well_known < 20, "{well_known}");
    assert!(hopeless > 10 && 3 * hopeless < new, "{hopeless} {new}");
    let (a, b, c) = visits(0.0);
    assert!(a.min(b).min(c) * 10 > a.max(b).max(c) * 7, "{a} {b} {c}");
}

#[test]
fn one_step_looks_at_many_cells() {
    let mut s = sqd(Config {
        replay_share: 0.0,
        ..Config::default()
    });
    end_step(&mut s, 0);
    end_step(&mut s, 1);
    assert_eq!(s.stage(), 1);
    let mean: f64 = (0..200)
        .map(|seed| {
            s.plan(2, 8, seed)
                .iter()
                .map(|p| p.permitted)
                .collect::<BTreeSet<_>>()
                .len() as f64
        })
        .sum::<f64>()
        / 200.0;
    assert!(mean > 6.5, "{mean} of 8 sets");
}

/// An archive with an elite in each of four cells.
fn with_four_cells(config: Config) -> Sqd {
    let mut s = sqd(config);
    let found = [
        ("{}", 1.0),
        ("simd", 4.0),
        ("packing", 0.9),
        ("simd+unroll", 6.0),
    ];
    for (i, (cell, ratio)) in found.into_iter().enumerate() {
        s.on_outcome(&good(
            sample(0, i as u32),
            &format!("int x{i};"),
            set(cell),
            ratio,
            0.01,
        ));
        answer(&mut s, 0, Some(1.0));
    }
    s
}

#[test]
fn every_permitted_cell_gives_as_many_parents() {
    let s = with_four_cells(Config {
        parent_share: 0.5,
        ..Config::default()
    });
    assert_eq!(s.parents(set("simd+unroll"), 0, 7), Vec::new());
    let mut counts = BTreeMap::new();
    for seed in 0..3000 {
        for parent in s.parents(set("simd+unroll"), 1, seed) {
            *counts.entry(parent.techniques).or_insert(0) += 1;
        }
    }
    let cells: BTreeSet<_> = counts.keys().copied().collect();
    assert_eq!(cells, ["{}", "simd", "simd+unroll"].map(set).into());
    // A third of half of the samples each, within five standard deviations.
    assert!(
        counts.values().all(|n: &i32| (n - 500).abs() < 105),
        "{counts:?}"
    );
    let none = with_four_cells(Config {
        parent_share: 0.0,
        ..Config::default()
    });
    assert_eq!(none.parents(set("simd"), 4, 7), Vec::new());
}

#[test]
fn an_empty_archive_gives_no_parent() {
    let s = sqd(Config {
        parent_share: 1.0,
        ..Config::default()
    });
    assert_eq!(s.parents(set("simd"), 4, 7), Vec::new());
}

/// An outcome of a program that fails, for a prompt that permits nothing.
fn failing(number: u32, source: &str) -> Outcome {
    let from = From {
        permitted: TechniqueSet::EMPTY,
        ..sample(0, number)
    };
    Outcome {
        source: source.to_owned(),
        ..bad(from, CandidateFault::WrongResult)
    }
}

#[test]
fn tasks_show_failed_answers_to_the_same_prompt() {
    let mut s = sqd(Config {
        repair_share: 1.0,
        replay_share: 0.0,
        elite_hint_share: 1.0,
        ..Config::default()
    });
    assert!(s.plan(1, 4, 0).iter().all(|p| p.repairs.is_none()));
    for outcome in [
        failing(0, "int a;"),
        failing(1, "int b;"),
        failing(2, "int b;"),
        // The model wrote no program.
        failing(3, ""),
        good(sample(0, 4), "int c;", set("{}"), 1.0, 0.01),
    ] {
        s.on_outcome(&outcome);
    }
    let plans = s.plan(1, 40, 0);
    let shown: BTreeSet<String> = plans
        .iter()
        .map(|p| p.repairs.clone().unwrap().source)
        .collect();
    let failed = ["int a;", "int b;"].map(str::to_owned);
    assert_eq!(shown, BTreeSet::from(failed));
    assert!(plans.iter().all(|p| p.elite.is_none()));
    // The state that is saved and read has the same tasks.
    let saved = rmp_serde::to_vec_named(&s).unwrap();
    let read: Sqd = rmp_serde::from_slice(&saved).unwrap();
    assert_eq!(read.plan(1, 40, 0), plans);
    // A later stage has prompts of its own, which nobody has failed yet.
    for step in 0..8 {
        end_step(&mut s, step);
    }
    assert!(s.stage() > 0);
    assert!(s.plan(9, 40, 3).iter().all(|p| p.repairs.is_none()));
}

#[test]
fn the_last_failures_are_kept_and_only_if_tasks_show_them() {
    let mut s = sqd(Config {
        repair_share: 0.5,
        ..Config::default()
    });
    for number in 0..100 {
        s.on_outcome(&failing(number, &format!("int x{number};")));
    }
    let all = s.plan(1, 4000, 1);
    let shown: BTreeSet<String> = all
        .iter()
        .filter_map(|p| Some(p.repairs.as_ref()?.source.clone()))
        .collect();
    assert_eq!(shown.len(), 64);
    assert!(!shown.contains("int x35;") && shown.contains("int x36;"));
    let share = all.iter().filter(|p| p.repairs.is_some()).count();
    // Half, within five standard deviations.
    assert!((1842..2158).contains(&share), "{share}");
    let mut without = sqd(Config::default());
    let empty = rmp_serde::to_vec_named(&without).unwrap().len();
    without.on_outcome(&failing(0, &"x".repeat(5000)));
    let after = rmp_serde::to_vec_named(&without).unwrap().len();
    assert!(after < empty + 1000, "{empty} {after}");
}

#[test]
fn hints_come_from_smaller_sets() {
    let mut s = with_four_cells(Config {
        elite_hint_share: 1.0,
        replay_share: 0.0,
        ..Config::default()
    });
    assert!(
        s.plan(1, 4, 0).iter().all(|p| p.elite.is_none()),
        "nothing is smaller than the empty set"
    );
    for step in 0..8 {
        end_step(&mut s, step);
    }
    assert_eq!(s.config().stages()[s.stage() as usize].name, "pairs");
    for p in s.plan(9, 50, 3) {
        let hint = p.elite.unwrap();
        assert!(hint.techniques.len() < 2 && hint.techniques.is_subset(p.permitted));
    }
}
