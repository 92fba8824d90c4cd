//! Laws of the archive.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_archive::{Archive, Counts, Elite, Inserted};
use flopsmith_protocol::{Digest, Interval, RunId, TechniqueSet};
use proptest::prelude::*;

use crate::made::*;

/// Few cells, sources and speeds, so that collisions are frequent.
#[derive(Debug, Clone)]
enum Act {
    Insert { cell: u8, elite: Elite },
    Count { cell: u8, run: u8, n: u64 },
}

fn cell_of(n: u8) -> TechniqueSet {
    ["{}", "simd", "simd+unroll"].map(set)[usize::from(n) % 3]
}

fn any_elite() -> impl Strategy<Value = Elite> {
    (0..6_u8, 1..8_u8, 0..3_u8, 1..3_u32).prop_map(|(source, ratio, se, remeasured)| Elite {
        remeasured,
        ..elite(
            &format!("int x{source};"),
            f64::from(ratio),
            0.1 * f64::from(se),
        )
    })
}

fn any_archive() -> impl Strategy<Value = Archive> {
    let act = prop_oneof![
        4 => (0..3_u8, any_elite()).prop_map(|(cell, elite)| Act::Insert { cell, elite }),
        1 => (0..3_u8, 0..3_u8, 1..5_u64).prop_map(|(cell, run, n)| Act::Count { cell, run, n }),
    ];
    proptest::collection::vec(act, 0..20).prop_map(|acts| {
        let mut a = archive(2);
        for act in acts {
            match act {
                Act::Insert { cell, elite } => {
                    a.insert(cell_of(cell), elite, 0.01, 0.5);
                }
                Act::Count { cell, run, n } => {
                    let counts = Counts {
                        tried: n,
                        correct: n / 2,
                        aimed: n,
                        hit: n / 3,
                    };
                    a.count(
                        cell_of(cell),
                        &RunId::new(format!("r{run}")).unwrap(),
                        counts,
                    );
                }
            }
        }
        a
    })
}

proptest! {
    #[test]
    fn the_order_of_arrival_does_not_matter(elites in proptest::collection::vec(any_elite(), 0..12), seed in any::<u64>()) {
        let fill = |elites: &[Elite]| {
            let mut a = archive(3);
            for e in elites {
                a.insert(set("simd"), e.clone(), 0.01, 0.5);
            }
            a
        };
        let mut shuffled = elites.clone();
        let mut state = seed;
        for i in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(i, (state >> 33) as usize % (i + 1));
        }
        prop_assert_eq!(fill(&elites), fill(&shuffled));
    }

    #[test]
    fn nothing_slower_beyond_noise_replaces_an_elite(elites in proptest::collection::vec(any_elite(), 1..30)) {
        let mut a = archive(2);
        for e in elites {
            let before: Vec<Elite> = a.cell(set("simd")).map(|c| c.elites().to_vec()).unwrap_or_default();
            let answer = a.insert(set("simd"), e.clone(), 0.01, 0.5);
            let after = a.cell(set("simd")).unwrap().elites();
            for old in &before {
                if let Some(same) = after.iter().find(|k| k.digest == old.digest) {
                    prop_assert!(same.rank(old).is_le(), "{same:?} took the place of {old:?}");
                    continue;
                }
                for kept in after {
                    prop_assert!(kept.interval.high >= old.interval.low, "{kept:?} pushed out {old:?}");
                }
            }
            prop_assert_eq!(answer.stayed(), after.contains(&e) && !before.contains(&e));
            // Sorted, distinct, not too many.
            prop_assert!(after.len() <= 2);
            prop_assert!(after.windows(2).all(|w| w[0].rank(&w[1]).is_lt() && w[0].digest != w[1].digest));
            if let Some(best) = before.first() {
                prop_assert!(after[0].interval.low >= best.interval.low);
            }
        }
    }

    #[test]
    fn a_program_measured_once_changes_nothing(a in any_archive(), e in any_elite(), cell in 0..3_u8) {
        let mut b = a.clone();
        let answer = b.insert(cell_of(cell), Elite { remeasured: 0, ..e }, 0.01, 0.5);
        prop_assert!(matches!(answer, Inserted::NeedsRemeasure | Inserted::NotAdded));
        prop_assert_eq!(a, b);
    }

    #[test]
    fn statistics_agree_with_the_cells(a in any_archive()) {
        let s = a.stats();
        let best: Vec<f64> = a.cells().filter_map(|(_, c)| c.best()).map(|e| e.gflops).collect();
        prop_assert_eq!(s.filled, best.len());
        prop_assert_eq!(s.cells, 256);
        prop_assert_eq!(s.coverage, best.len() as f64 / 256.0);
        prop_assert!((s.qd_score - best.iter().sum::<f64>()).abs() < 1e-9);
        prop_assert_eq!(s.objective_max, best.iter().copied().reduce(f64::max));
        prop_assert_eq!(a.best().is_some(), !best.is_empty());
    }

    #[test]
    fn survives_writing_and_reading(a in any_archive()) {
        let bytes = rmp_serde::to_vec_named(&a).unwrap();
        prop_assert_eq!(&rmp_serde::from_slice::<Archive>(&bytes).unwrap(), &a);
        // JSON readers may round the last bit of a number, so only its shape is compared.
        let b: Archive = serde_json::from_str(&serde_json::to_string(&a).unwrap()).unwrap();
        prop_assert_eq!(b.stats().filled, a.stats().filled);
    }
}

#[test]
fn answers_of_a_cell() {
    let mut a = archive(2);
    let mut put = |source: &str, ratio, remeasured| {
        let e = Elite {
            remeasured,
            ..elite(source, ratio, 0.01)
        };
        a.insert(set("simd"), e, 0.01, 0.5)
    };
    assert_eq!(put("a;", 4.0, 0), Inserted::NeedsRemeasure);
    assert_eq!(put("a;", 4.0, 1), Inserted::New);
    assert_eq!(
        put("a; // again", 4.5, 0),
        Inserted::NotAdded,
        "the same text"
    );
    assert_eq!(put("b;", 3.0, 0), Inserted::NeedsRemeasure, "there is room");
    assert_eq!(put("c;", 1.9, 0), Inserted::NotAdded, "below the floor");
    assert_eq!(put("b;", 3.0, 1), Inserted::Kept);
    assert_eq!(
        put("d;", 3.01, 0),
        Inserted::NotAdded,
        "within noise of the last"
    );
    assert_eq!(put("e;", 3.3, 0), Inserted::NeedsRemeasure);
    assert_eq!(put("f;", 8.0, 1), Inserted::Improved);
    assert_eq!(put("g;", 1.0, 1), Inserted::NotAdded);
}

#[test]
fn techniques_outside_the_pool_have_no_cell() {
    let mut a = Archive::new(problem_id(), machine_class(), set("simd+unroll"), 2);
    let inserted = a.insert(set("openmp"), elite("a;", 4.0, 0.01), 0.01, 0.5);
    assert_eq!(inserted, Inserted::NotAdded);
    a.count(
        set("openmp"),
        &run_id(),
        Counts {
            tried: 1,
            ..Counts::default()
        },
    );
    assert_eq!(a.cells().count(), 0);
    assert_eq!(a.stats().cells, 4);
}

#[test]
fn broken_measurements_make_no_elite() {
    for ratio in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        let o = good(From::default(), "a;", set("simd"), ratio, 0.01);
        assert_eq!(Elite::from_outcome(&o), None);
        assert_eq!(
            elite("a;", 1.0, 0.01).measured_again(&measurement(ratio, 0.01)),
            None
        );
    }
    let mut m = measurement(2.0, 0.01);
    m.interval = Interval {
        low: 2.5,
        high: 3.0,
        confidence: 0.95,
    };
    m.log_ratio_se = f64::NAN;
    let e = elite("a;", 1.0, 0.01).measured_again(&m).unwrap();
    assert_eq!(
        (e.interval.low, e.interval.high),
        (2.0, 3.0),
        "the interval holds its estimate"
    );
    assert_eq!(e.log_ratio_se, 1.0);
    assert_eq!(e.digest, Digest::of(b"a;"));
}

#[test]
fn elites_are_found_by_techniques_and_text_within_what_is_permitted() {
    let mut all = archive(2);
    for (techniques, source, ratio) in [
        ("simd", "a fma;", 2.0),
        ("simd+unroll", "b fma;", 3.0),
        ("simd", "c;", 4.0),
    ] {
        all.insert(set(techniques), elite(source, ratio, 0.01), 0.0, 0.0);
    }
    let found = |techniques: &str, permitted: &str, text: &str| -> Vec<String> {
        let found = all.find(set(techniques), set(permitted), text);
        found.into_iter().map(|(_, e)| e.source.clone()).collect()
    };
    assert_eq!(found("simd", "simd+unroll", ""), ["c;", "b fma;", "a fma;"]);
    assert_eq!(found("none", "simd", "fma"), ["a fma;"]);
    assert_eq!(found("unroll", "simd+unroll", ""), ["b fma;"]);
    for (techniques, permitted, text) in [("unroll", "simd", ""), ("simd", "simd", "tile")] {
        assert!(found(techniques, permitted, text).is_empty());
    }
}
