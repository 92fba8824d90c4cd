//! Laws of the stages, the task choice and the re-measurements, for all events in any order.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use flopsmith_archive::*;
use flopsmith_protocol::*;
use flopsmith_test_support::{infrastructure, unknown};
use proptest::prelude::*;

use crate::made::*;

/// A test's action on an [`Sqd`].
#[derive(Debug, Clone)]
enum Act {
    Outcome(Box<Outcome>),
    /// Answers the n-th waiting program with its first ratio times a factor; none: an infrastructure failure.
    Answer(usize, Option<f64>),
    StepEnd(u64),
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    let from = (0..6_u64, 0..3_u32, 0..8_u32, 0..3_u32, 0..4_usize, 0..8_u8);
    (from, 0..10_u8, 0..8_u8, 0..5_usize, 1..40_u8, 0..3_u8).prop_map(
        |((step, group, sample, stage, permitted, purpose), kind, source, cell, ratio, se)| {
            let sets = [
                "{}",
                "simd",
                "simd+unroll",
                "unroll",
                "simd+unroll+register_blocking",
            ]
            .map(set);
            let purpose = match purpose {
                0 => Purpose::EvaluateStart,
                1 => Purpose::Search,
                _ => Purpose::Train,
            };
            let from = From {
                step,
                group,
                sample,
                stage,
                permitted: sets[permitted],
                purpose,
            };
            match kind {
                0 => bad(from, CandidateFault::CompileError),
                1 => bad(from, CandidateFault::WrongResult),
                2 => outcome(from, "lost", None, lost()),
                _ => good(
                    from,
                    &format!("int x{source};"),
                    sets[cell],
                    f64::from(ratio) / 4.0,
                    0.05 * f64::from(se),
                ),
            }
        },
    )
}

fn any_acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => any_outcome().prop_map(|o| Act::Outcome(Box::new(o))),
        3 => (0..4_usize, proptest::option::weighted(0.9, 0.7..1.1)).prop_map(|(n, f)| Act::Answer(n, f)),
        1 => (0..6_u64).prop_map(Act::StepEnd),
    ];
    proptest::collection::vec(act, 0..60)
}

fn advance() -> impl Strategy<Value = Advance> {
    prop_oneof![
        proptest::collection::vec(1..4_u64, 4).prop_map(|steps| Advance::FixedSteps { steps }),
        proptest::collection::vec(0.0..1.0_f64, 4).prop_map(|mut shares| {
            shares.sort_by(f64::total_cmp);
            Advance::BudgetShare { shares }
        }),
        (0.3..0.9, 1..10_usize, 0..2_u64, 2..5_u64).prop_map(
            |(threshold, window, min_steps, max_steps)| {
                Advance::SuccessRate {
                    threshold,
                    window,
                    min_steps,
                    max_steps,
                }
            }
        ),
        (1..4_u64, 0.0..0.2, 0..2_u64, 2..5_u64).prop_map(
            |(patience, min_gain, min_steps, max_steps)| {
                Advance::Plateau {
                    patience,
                    min_gain,
                    min_steps,
                    max_steps,
                }
            }
        ),
    ]
}

fn any_config() -> impl Strategy<Value = Config> {
    let shares = (0.0..=1.0, 0.0..=1.0, 0.0..=1.0, 0.0..=1.0);
    (
        advance(),
        shares,
        proptest::option::of((0.0..0.3, 1..10_usize)),
        1..4_usize,
        0..5_u32,
    )
        .prop_map(
            |(
                advance,
                (replay_share, guidance, elite_hint_share, repair_share),
                demote,
                elites_per_cell,
                remeasures,
            )| Config {
                advance,
                replay_share,
                guidance,
                elite_hint_share,
                repair_share,
                demote: demote.map(|(below, window)| Demote {
                    below,
                    window,
                    at_most: 2,
                }),
                elites_per_cell,
                remeasures_per_step: remeasures,
                ..Config::default()
            },
        )
}

fn play(sqd: &mut Sqd, act: &Act) -> Vec<Effect> {
    match act {
        Act::Outcome(o) => sqd.on_outcome(o),
        Act::Answer(n, factor) => answer(sqd, *n, *factor),
        Act::StepEnd(step) => {
            sqd.on_spent(*step as f64 / 6.0);
            sqd.on_step_end(*step)
        }
    }
}

proptest! {
    #[test]
    fn every_task_belongs_to_its_stage(config in any_config(), acts in any_acts(), tasks in 0..20_usize, seed in any::<u64>()) {
        prop_assert_eq!(config.check(), Ok(()));
        let mut sqd = sqd(config.clone());
        for (step, act) in acts.iter().enumerate() {
            play(&mut sqd, act);
            let plans = sqd.plan(step as u64, tasks, seed);
            prop_assert_eq!(plans.len(), tasks);
            for p in &plans {
                prop_assert!(config.stage_sets(p.stage).contains(&p.permitted));
                prop_assert!(p.stage <= sqd.stage());
                if let Some(failed) = &p.repairs {
                    prop_assert_eq!((failed.permitted, p.elite.is_some()), (p.permitted, false));
                }
                if let Some(hint) = &p.elite {
                    prop_assert!(hint.techniques.is_subset(p.permitted) && hint.techniques != p.permitted);
                    let cell = sqd.archive().cell(hint.techniques).unwrap();
                    prop_assert!(cell.elites().iter().any(|e| e.source == hint.source && e.gflops == hint.gflops));
                }
            }
            let replays = plans.iter().filter(|p| p.stage < sqd.stage()).count() as f64;
            let expected = if sqd.stage() == 0 { 0.0 } else { config.replay_share * tasks as f64 };
            prop_assert!((replays - expected).abs() < 1.0);
            prop_assert_eq!(plans, sqd.plan(step as u64, tasks, seed), "the same state, step and seed");
        }
    }

    #[test]
    fn an_outcome_counts_once(config in any_config(), acts in any_acts(), again in any::<u64>()) {
        let (mut once, mut twice) = (sqd(config.clone()), sqd(config));
        let mut earlier: Vec<Act> = Vec::new();
        let mut state = again;
        for act in &acts {
            // Converts answers to their outcomes, so that they can be delivered twice as well.
            let act = match act {
                Act::Answer(n, factor) => match repetition(&once, *n, *factor) {
                    Some(outcome) => Act::Outcome(Box::new(outcome)),
                    None => continue,
                },
                other => other.clone(),
            };
            // The bus never delivers two outcomes of one id with different content.
            if let Act::Outcome(o) = &act
                && earlier.iter().any(|e| matches!(e, Act::Outcome(p) if p.candidate.id == o.candidate.id))
            {
                continue;
            }
            prop_assert_eq!(play(&mut once, &act), play(&mut twice, &act));
            earlier.push(act);
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let repeat = &earlier[(state >> 33) as usize % earlier.len()];
            prop_assert_eq!(play(&mut twice, repeat), vec![]);
            prop_assert_eq!(&once, &twice);
        }
    }

    #[test]
    fn elites_are_measured_twice_and_never_lost_to_slower_ones(config in any_config(), acts in any_acts()) {
        let mut sqd = sqd(config.clone());
        let mut asked: BTreeSet<CandidateId> = BTreeSet::new();
        for act in &acts {
            let before = sqd.archive().clone();
            for effect in play(&mut sqd, act) {
                match effect {
                    Effect::Remeasure { candidate, repetition } => {
                        prop_assert_eq!(asked.insert(candidate), repetition == 1);
                    }
                    Effect::EliteAccepted { candidate, techniques, .. } => {
                        prop_assert!(asked.contains(&candidate));
                        let cell = sqd.archive().cell(techniques).unwrap();
                        prop_assert!(cell.elites().iter().any(|e| e.candidate == candidate));
                    }
                    Effect::StageChanged { from, to, .. } => {
                        let skips = matches!(config.advance, Advance::BudgetShare { .. }) && to > from;
                        prop_assert!(skips || from.abs_diff(to) == 1);
                    }
                }
            }
            for (techniques, cell) in sqd.archive().cells() {
                prop_assert!(cell.elites().len() <= config.elites_per_cell);
                prop_assert!(cell.elites().iter().all(|e| e.remeasured > 0));
                let texts: BTreeSet<_> = cell.elites().iter().map(|e| &e.digest).collect();
                prop_assert_eq!(texts.len(), cell.elites().len());
                let earlier = before.cell(techniques).map(|c| c.elites()).unwrap_or_default();
                for gone in earlier.iter().filter(|e| !cell.elites().contains(e)) {
                    prop_assert!(cell.elites().iter().all(|e| e.interval.high >= gone.interval.low));
                }
            }
        }
    }

    #[test]
    fn a_restored_state_goes_on_like_the_undisturbed_one(config in any_config(), acts in any_acts(), cut in 0..60_usize) {
        let mut undisturbed = sqd(config);
        let (first, second) = acts.split_at(cut.min(acts.len()));
        for act in first {
            play(&mut undisturbed, act);
        }
        let bytes = rmp_serde::to_vec_named(&undisturbed).unwrap();
        let mut restored: Sqd = rmp_serde::from_slice(&bytes).unwrap();
        prop_assert_eq!(&restored, &undisturbed);
        // JSON can hold it too, except the last bit of some numbers.
        let text = serde_json::to_string(&undisturbed).unwrap();
        let read: Sqd = serde_json::from_str(&text).unwrap();
        prop_assert_eq!((read.stage(), read.pending().count()), (restored.stage(), restored.pending().count()));
        for act in second {
            prop_assert_eq!(play(&mut restored, act), play(&mut undisturbed, act));
        }
        prop_assert_eq!(restored.plan(9, 8, 1), undisturbed.plan(9, 8, 1));
    }

    #[test]
    fn without_stages_everything_is_permitted(acts in any_acts(), config in any_config(), step in 0..99_u64, seed in any::<u64>()) {
        let mut sqd = sqd(config.disabled());
        for act in &acts {
            for effect in play(&mut sqd, act) {
                let moved = matches!(effect, Effect::StageChanged { .. });
                prop_assert!(!moved);
            }
        }
        for p in sqd.plan(step, 5, seed) {
            prop_assert_eq!((p.stage, p.permitted, p.elite), (0, TechniqueSet::general(), None));
        }
        prop_assert_eq!(sqd.evaluation(5), sqd.plan(step, 5, seed));
    }

    #[test]
    fn infrastructure_failures_change_nothing(config in any_config(), step in 0..5_u64) {
        let mut sqd = sqd(config);
        let before = sqd.clone();
        let from = From { step, ..From::default() };
        let lost = infrastructure(InfrastructureCause::Bus);
        prop_assert_eq!(sqd.on_outcome(&outcome(from, "x;", Some(set("simd")), lost)), vec![]);
        prop_assert_eq!(sqd.on_outcome(&outcome(from, "x;", None, unknown())), vec![]);
        prop_assert_eq!(&sqd, &before);
        // The sample is tried again and its real outcome counts.
        sqd.on_outcome(&good(from, "x;", set("simd"), 2.0, 0.01));
        prop_assert_ne!(&sqd, &before);
    }
}
