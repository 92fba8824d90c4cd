#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_protocol::{CandidateRef, Outcome};
use flopsmith_test_support::{Measured, again, candidate, first, measured, outcome as of, wrong};
use tempfile::TempDir;

use super::*;
use crate::index::{Index, Places, Read, attempt, outcome};

/// The index of these lines.
fn index(lines: &[String], read: Read) -> (TempDir, View) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    std::fs::write(&log, lines.concat()).unwrap();
    let places = Places::new(folder.path(), None, "ui");
    let mut index = Index::open(&log, &places, read).unwrap();
    while !index.extend(1 << 20, |_, _| ()).unwrap().done {}
    let view = index.view();
    (folder, view)
}

fn outcomes(all: &[Outcome]) -> (TempDir, View) {
    let lines = all
        .iter()
        .map(|of| serde_json::to_string(of).unwrap() + "\n");
    index(&lines.collect::<Vec<_>>(), outcome)
}

/// A program of step 2 that follows another one.
fn follows(parent: &Outcome, sample: u32, gflops: f64) -> Outcome {
    let candidate = CandidateRef {
        follows: Some(parent.candidate.id.clone()),
        ..candidate(2, 0, sample)
    };
    of(candidate, measured(gflops))
}

/// Number, column and parent's row of each row.
fn drawn(families: &Families) -> Vec<(u64, u32, Option<u32>)> {
    let rows = families.rows().iter();
    let rows = rows.map(|row| (families.node(row).number, row.column, row.parent));
    rows.collect()
}

#[test]
fn families_are_drawn_by_their_fastest_programs() {
    let a = first(1, "a", "simd", measured(10.0));
    let b = follows(&a, 1, 20.0);
    let c = follows(&a, 2, 30.0);
    let d = follows(&b, 3, 90.0);
    let x = first(7, "x", "simd", measured(60.0));
    let y = of(candidate(3, 0, 0), wrong());
    let alone = first(8, "alone", "simd", measured(99.0));
    let all = [
        a,
        b,
        c,
        d.clone(),
        again(&d, Measured::at(85.0).verdict()),
        x.clone(),
        y.clone(),
        alone,
    ];
    let (_log, view) = outcomes(&all);
    let line = serde_json::json!({ "candidate": y.candidate.id, "island": 0, "parents": [], "nearest": x.candidate.id });
    let (_attempts, attempts) = index(&[line.to_string() + "\n"], attempt);
    let problem = view.record(0).unwrap().unwrap().problem;
    let families = Families::of(&view, Some(&attempts), problem).unwrap();
    // The child with the fastest offspring goes on straight, after the other one.
    assert_eq!(
        drawn(&families),
        [
            (0, 0, None),
            (2, 1, Some(0)),
            (1, 0, Some(0)),
            (3, 0, Some(2)),
            (5, 0, None),
            (6, 0, Some(4)),
        ]
    );
    let until: Vec<u32> = families.rows().iter().map(|row| row.until).collect();
    assert_eq!(until, [2, 1, 3, 3, 5, 5]);
    let fastest = families.node(&families.rows()[3]);
    assert_eq!((fastest.gflops, fastest.confirmed), (85.0, true));
    assert_eq!((families.top(), families.is_cut), (85.0, false));
    // The record of the second measurement leads to the same line.
    for number in [3, 4] {
        let record = view.record(number).unwrap().unwrap();
        let line = families.line_of(&record);
        let numbers: Vec<u64> = line.iter().map(|row| families.node(row).number).collect();
        assert_eq!(numbers, [0, 1, 3]);
        assert_eq!((line[0].parent, line[2].parent), (None, Some(1)));
        assert_eq!((line[1].until, line[2].until), (2, 2));
    }
    let alone = view.record(7).unwrap().unwrap();
    assert!(families.line_of(&alone).is_empty());
    // Without the attempts, and for another problem, there is less.
    let families = Families::of(&view, None, problem).unwrap();
    assert_eq!(families.rows().len(), 4);
    let families = Families::of(&view, None, problem + 1).unwrap();
    assert!(families.rows().is_empty() && families.top() == 0.0);
}

#[test]
fn a_parent_without_an_outcome_makes_its_child_the_first() {
    let lost = first(1, "a", "simd", measured(10.0));
    let (_log, view) = outcomes(&[follows(&lost, 1, 20.0)]);
    let families = Families::of(&view, None, 0).unwrap();
    assert_eq!(drawn(&families), [(0, 0, None)]);
}

#[test]
fn programs_that_are_their_own_ancestors_are_left_out() {
    let one = first(1, "a", "simd", measured(10.0));
    let two = follows(&one, 1, 20.0);
    let mut circle = one.clone();
    circle.candidate.follows = Some(two.candidate.id.clone());
    let (_log, view) = outcomes(&[circle, two]);
    let families = Families::of(&view, None, 0).unwrap();
    assert!(families.rows().is_empty());
    let record = view.record(0).unwrap().unwrap();
    assert!(families.line_of(&record).len() <= 3);
}

#[test]
fn a_long_line_stays_in_its_column() {
    let mut all = vec![first(0, "a", "simd", measured(1.0))];
    for n in 1..1500 {
        let next = follows(&all[n - 1], n as u32, 1.0 + n as f64);
        all.push(next);
    }
    let (_log, view) = outcomes(&all);
    let families = Families::of(&view, None, 0).unwrap();
    assert_eq!(families.rows().len(), 1500);
    assert!(families.rows().iter().all(|row| row.column == 0));
    let record = view.record(1499).unwrap().unwrap();
    assert_eq!(families.line_of(&record).len(), 1500);
}

#[test]
fn programs_that_are_left_stand_below_their_ancestors() {
    let a = first(1, "a", "simd", measured(10.0));
    let b = follows(&a, 1, 20.0);
    let c = follows(&a, 2, 30.0);
    let d = follows(&b, 3, 90.0);
    let x = first(7, "x", "simd", measured(60.0));
    let y = follows(&x, 4, 50.0);
    let (_log, view) = outcomes(&[a, b, c, d, x, y]);
    let problem = view.record(0).unwrap().unwrap().problem;
    let mut families = Families::of(&view, None, problem).unwrap();
    assert_eq!(families.numbers(), [5, 4, 3, 2, 1, 0]);
    type Kept<'a> = &'a [(u64, u32, Option<u32>)];
    let cases: [(&[u64], Kept<'_>); 5] = [
        (&[2], &[(0, 0, None), (2, 0, Some(0))]),
        (&[0], &[(0, 0, None)]),
        (&[], &[]),
        // Without the fastest program, the other family is the first one.
        (
            &[1, 5],
            &[(4, 0, None), (5, 0, Some(0)), (0, 0, None), (1, 0, Some(2))],
        ),
        (
            &[2, 3],
            &[
                (0, 0, None),
                (2, 1, Some(0)),
                (1, 0, Some(0)),
                (3, 0, Some(2)),
            ],
        ),
    ];
    for (wanted, expected) in cases {
        families.leave(&wanted.iter().copied().collect());
        assert_eq!(drawn(&families), expected, "{wanted:?}");
    }
}
