#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use flopsmith_protocol::{CandidateFault, CandidateRef, Outcome, ProblemId};
use flopsmith_test_support::{first as program, measured, rejected};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::index::{Index, Places, outcome};

fn index(outcomes: &[Outcome]) -> (TempDir, View) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("outcomes.jsonl");
    let lines = outcomes
        .iter()
        .map(|o| serde_json::to_string(o).unwrap() + "\n");
    std::fs::write(&log, lines.collect::<String>()).unwrap();
    let mut index = Index::open(&log, &Places::new(folder.path(), None, "ui"), outcome).unwrap();
    while !index.extend(1 << 20, |_, _| ()).unwrap().done {}
    (folder, index.view())
}

const TEXTS: [&str; 4] = ["for \"i\"\n", "é<\\", "int", "while\t0"];

fn outcomes() -> impl Strategy<Value = Vec<Outcome>> {
    let one = (0u32..3, 0usize..4, 0u64..3, 0usize..4, 0u32..6).prop_map(
        |(kind, techniques, step, text, speed)| {
            let techniques = ["simd", "simd+unroll", "packing", "none"][techniques];
            let verdict = match kind {
                0 => rejected(CandidateFault::WrongResult),
                1 => rejected(CandidateFault::Crash),
                _ => measured(f64::from(speed)),
            };
            let made = program(speed, TEXTS[text], techniques, verdict);
            let problem = ["a", "b"][speed as usize % 2];
            Outcome {
                candidate: CandidateRef {
                    problem: ProblemId::new(problem).unwrap(),
                    step,
                    ..made.candidate
                },
                ..made
            }
        },
    );
    prop::collection::vec(one, 0..180)
}

/// The filter by words, and as the index has it.
#[derive(Debug, Clone)]
struct Asked {
    problem: Option<&'static str>,
    reason: Option<&'static str>,
    technique: Option<Technique>,
    step: Option<u32>,
    order: Order,
}

impl Asked {
    fn filter(&self, view: &View) -> Filter {
        let names = &view.names;
        Filter {
            problem: self
                .problem
                .map(|name| Wanted::of(names.problems.number(name))),
            reason: self
                .reason
                .map(|name| Wanted::of(names.reasons.number(name))),
            technique: self.technique,
            step: self.step,
        }
    }

    fn accepts(&self, outcome: &Outcome) -> bool {
        let candidate = &outcome.candidate;
        self.problem
            .is_none_or(|name| candidate.problem.as_str() == name)
            && self
                .reason
                .is_none_or(|name| outcome.verdict.kind() == name)
            && self
                .step
                .is_none_or(|step| candidate.step == u64::from(step))
            && self.technique.is_none_or(|technique| {
                outcome
                    .techniques
                    .is_some_and(|set| set.contains(technique))
            })
    }

    /// The numbers of the accepted outcomes in order.
    fn brute(&self, outcomes: &[Outcome]) -> Vec<u64> {
        let mut all: Vec<(u64, &Outcome)> = (0..)
            .zip(outcomes)
            .filter(|(_, o)| self.accepts(o))
            .collect();
        all.reverse();
        let speed = |o: &Outcome| o.verdict.measurement().map_or(0.0, |m| m.gflops);
        if self.order != Order::Newest {
            all.sort_by(|a, b| speed(b.1).total_cmp(&speed(a.1)));
        }
        all.into_iter().map(|(number, _)| number).collect()
    }
}

fn asked() -> impl Strategy<Value = Asked> {
    let problem = prop::sample::select(vec![None, Some("a"), Some("b"), Some("none")]);
    let reason = prop::sample::select(vec![None, Some("measured"), Some("crash"), Some("none")]);
    let technique =
        prop::sample::select(vec![None, Some(Technique::Simd), Some(Technique::Unroll)]);
    let order = prop::sample::select(vec![Order::Newest, Order::Speed, Order::Ratio]);
    (problem, reason, technique, prop::option::of(0u32..4), order).prop_map(
        |(problem, reason, technique, step, order)| Asked {
            problem,
            reason,
            technique,
            step,
            order,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn pages_hold_what_a_plain_filter_finds(outcomes in outcomes(), asked in asked()) {
        let (_folder, view) = index(&outcomes);
        let filter = asked.filter(&view);
        let expected = asked.brute(&outcomes);
        for number in 0..4 {
            let page = page(&view, &filter, asked.order, number).unwrap();
            prop_assert_eq!(page.matches, expected.len() as u64);
            let numbers: Vec<u64> = page.rows.iter().map(|row| row.0).collect();
            let rows: Vec<u64> = expected.iter().copied().skip(number * ROWS).take(ROWS).collect();
            prop_assert_eq!(numbers, rows);
        }
    }

    #[test]
    fn a_search_in_parts_finds_what_a_plain_one_finds(
        outcomes in outcomes(),
        asked in asked(),
        text in prop::sample::select(vec!["i", "\"i\"\n", "é<\\", "n", "e\t", "techniques"]),
        hasty in any::<bool>(),
    ) {
        let (_folder, view) = index(&outcomes);
        let filter = asked.filter(&view);
        let mut expected = asked.brute(&outcomes);
        expected.retain(|number| outcomes[*number as usize].source.contains(text));
        let mut seen = Vec::new();
        let mut from = 0;
        loop {
            // A search whose time is over looks at one program at least.
            let limit = if hasty { Duration::ZERO } else { Duration::from_secs(60) };
            let found = search(&view, &filter, asked.order, text, from, Instant::now() + limit).unwrap();
            prop_assert!(found.rows.len() <= ROWS && found.searched <= found.of);
            seen.extend(found.rows.iter().map(|row| row.0));
            match found.next {
                Some(next) => {
                    prop_assert!(next > from);
                    from = next;
                }
                None => break,
            }
        }
        prop_assert_eq!(seen, expected);
    }
}
