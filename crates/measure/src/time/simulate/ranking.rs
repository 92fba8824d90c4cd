//! Rankings of many programs on machines with another busy process, compared with the true order.

use flopsmith_protocol::StopReason;
use rand::Rng;

use super::*;
use crate::ranking::letters::share;
use crate::ranking::{Entry, LogRatio, Ranking, placement_log_se, rank};
use crate::time::resolution::Resolution;

/// Programs of a ranking.
const PROGRAMS: usize = 64;
/// Rankings on each machine.
const RANKINGS: u64 = 12;

/// Effects of another busy core on the timed one, stronger and weaker, some with an error of each process's own.
const NEIGHBOURS: [(&str, &[Part]); 6] = [
    (
        "shared core",
        &[
            Part::Jitter(0.01),
            Part::Interrupts {
                per_second: 100.0,
                seconds: 4e-3,
            },
            Part::Process(0.001),
        ],
    ),
    (
        "shared caches",
        &[
            Part::Jitter(0.02),
            Part::Switching {
                factor: 1.6,
                slow: 10e-3,
                fast: 10e-3,
            },
            Part::Process(0.001),
        ],
    ),
    (
        "one side hit",
        &[
            Part::Jitter(0.01),
            Part::OneSided {
                share: 0.6,
                most: 2.5,
            },
        ],
    ),
    (
        "memories",
        &[
            Part::Jitter(0.01),
            Part::OwnMemory {
                sd: 0.08,
                seconds: 50e-3,
            },
        ],
    ),
    (
        "long tails",
        &[
            Part::Jitter(0.02),
            Part::Pareto {
                scale: 0.05,
                shape: 0.9,
            },
        ],
    ),
    (
        "everything",
        &[
            Part::Jitter(0.02),
            Part::Switching {
                factor: 1.5,
                slow: 5e-3,
                fast: 20e-3,
            },
            Part::OneSided {
                share: 0.3,
                most: 1.5,
            },
            Part::Interrupts {
                per_second: 50.0,
                seconds: 2e-3,
            },
            Part::Walk(0.05),
        ],
    ),
];

/// ln(baseline / candidate) of programs as a search leaves them: some equal, most within a factor of two of the best, a
/// few textbook loops.
fn truths(seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut truths: Vec<f64> = Vec::with_capacity(PROGRAMS);
    while truths.len() < PROGRAMS {
        let truth = match rng.random_range(0..8) {
            0 => -2.0 * rng.random::<f64>(),
            1 if !truths.is_empty() => truths[rng.random_range(0..truths.len())],
            _ => 0.2 - 0.9 * rng.random::<f64>(),
        };
        truths.push(truth);
    }
    truths
}

/// Measures programs one after the other, each in processes of its own. `hidden` is the error of a clock.
fn entries(
    parts: &[Part],
    truths: &[f64],
    baseline: f64,
    hidden: Option<Resolution>,
    seed: u64,
) -> Vec<Entry> {
    let limits = Purpose::Rank.limits();
    let measured = (0u64..).zip(truths).map(|(n, truth)| {
        let seed = seed * 1000 + n;
        let mut world = World::new(parts, seed);
        let call = (baseline * (-truth).exp(), baseline);
        let found = measure(&mut world, call, limits, None, seed);
        let estimate = match hidden {
            Some(hidden) => hidden.widen(&found.estimate),
            None => found.estimate,
        };
        Entry {
            own: LogRatio {
                value: estimate.log_ratio,
                se: estimate.log_se.max(SYSTEMATIC_LOG_SE),
            },
            placement_log_se: 0.0,
            converged: found.stop != StopReason::Unconverged
                && estimate.log_se <= limits.usable_log_se,
        }
    });
    measured.collect()
}

/// Pairs of programs with places and intervals that do not overlap: their number, and how many stand in their true
/// order.
fn pairs(entries: &[Entry], ranking: &Ranking, truths: &[f64]) -> (u32, u32) {
    let (mut apart, mut right) = (0, 0);
    for (a, one) in ranking.places.iter().enumerate() {
        for (b, other) in ranking.places.iter().enumerate().skip(a + 1) {
            let (Some(one), Some(other)) = (one, other) else {
                continue;
            };
            if entries[a].own.is_apart_from(entries[b].own) {
                apart += 1;
                // Equal programs have no order that could be right.
                let order = (truths[a] - truths[b]) * (f64::from(other.rank) - f64::from(one.rank));
                right += u32::from(order > 0.0);
            }
        }
    }
    (apart, right)
}

#[test]
fn programs_whose_intervals_are_apart_stand_in_the_right_order_beside_a_busy_neighbour() {
    let named = MODELS
        .iter()
        .filter(|m| !m.quiet)
        .map(|m| (m.name, m.parts));
    let mut off = Vec::new();
    for (name, parts) in NEIGHBOURS.into_iter().chain(named) {
        let (mut apart, mut right, mut ranked, mut first_right) = (0, 0, 0, 0);
        for seed in 0..RANKINGS {
            let truths = truths(seed);
            let entries = entries(parts, &truths, CALL, None, seed);
            let ranking = rank(&entries, 1);
            let found = pairs(&entries, &ranking, &truths);
            apart += found.0;
            right += found.1;
            let places = || {
                ranking
                    .order
                    .iter()
                    .filter(|&&n| ranking.places[n].is_some())
            };
            ranked += places().count();
            // The first place compared with the best of the programs that have one.
            let best = places().map(|&n| truths[n]).fold(f64::MIN, f64::max);
            let first = places().next().map_or(f64::MAX, |&n| truths[n]);
            first_right += u64::from(first >= best - 0.05);
        }
        eprintln!(
            "{name}: {right} of {apart} pairs apart in the right order, {ranked} of {} ranked, the first place within 5 % of the best in {first_right} of {RANKINGS}",
            PROGRAMS as u64 * RANKINGS
        );
        let firsts = 100 * first_right >= 90 * RANKINGS;
        if f64::from(right) < 0.95 * f64::from(apart) || !firsts {
            off.push((name, apart, right, first_right));
        }
    }
    assert!(off.is_empty(), "{off:?}");
}

/// Copies of one program, each in a process whose pages lie elsewhere: ln of their ratios has a standard deviation of 2 %.
#[test]
fn copies_whose_pages_lie_elsewhere_are_not_told_apart() {
    let parts = [Part::Jitter(0.01), Part::Process(0.02 / f64::sqrt(2.0))];
    let rankings = 60;
    let told_apart = |placement_log_se: f64| {
        let told = (0..rankings).filter(|&seed| {
            let mut entries = entries(&parts, &[0.0; 4], CALL, None, seed);
            for entry in &mut entries {
                entry.placement_log_se = placement_log_se;
            }
            let places = rank(&entries, 1).places;
            let groups: Vec<String> = places.into_iter().flatten().map(|p| p.group).collect();
            assert_eq!(groups.len(), 4, "all converge");
            groups
                .iter()
                .any(|one| groups.iter().any(|other| !share(one, other)))
        });
        told.count()
    };
    assert!(told_apart(0.0) > 30, "calls of one process do not show it");
    // 5 %, and what such a count may deviate by in one of two hundred tries.
    let found = told_apart(placement_log_se(Purpose::Rank));
    assert!(found <= 8, "{found} of {rankings}");
}

#[test]
fn equal_programs_that_the_clock_cannot_see_are_not_told_apart() {
    // Calls of 2 ns behind hand-shakes of 400 ns, a tenth more or less in each process.
    let parts = [
        Part::Jitter(0.03),
        Part::HandShake {
            seconds: 400e-9,
            sd: 0.1,
        },
    ];
    let hidden = Resolution {
        hand_shake_seconds: 420e-9,
        taken_off_seconds: 0.0,
        error_seconds: 42e-9,
    };
    let rankings = 40;
    let told_apart = |hidden: Option<Resolution>| {
        let told = (0..rankings).filter(|&seed| {
            let entries = entries(&parts, &[0.0; 4], 2e-9, hidden, seed);
            let known: Vec<LogRatio> = entries.iter().map(|e| e.own).collect();
            let letters = crate::ranking::letters::letters(&known, 1);
            let apart = |one: &String| letters.iter().any(|other| !share(one, other));
            letters.iter().any(apart)
        });
        told.count()
    };
    assert!(told_apart(None) > 30, "nothing is hidden from this clock");
    assert!(told_apart(Some(hidden)) <= 5);
    let entries = entries(&parts, &[0.0; 4], 2e-9, Some(hidden), 1);
    assert!(rank(&entries, 1).places.iter().all(Option::is_none));
}
