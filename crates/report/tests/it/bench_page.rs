//! The page of `flopsmith bench`: any data gives a well-formed file.

use flopsmith_report::Command;
use flopsmith_report::bench::{BenchReport, BenchTable, SpeedLine, SpeedPlot, SpeedPoint, html};
use proptest::prelude::*;
use serde_json::json;

use crate::well_formed::well_formed;

proptest! {
    #[test]
    fn any_data_gives_a_well_formed_page(
        text in "\\PC{0,12}",
        odd in "[<>&\"'\u{0}\n a-z]{0,12}",
        numbers in prop::collection::vec(prop::num::f64::ANY, 0..40),
        columns in 0usize..4,
    ) {
        let points: Vec<SpeedPoint> = numbers
            .chunks_exact(4)
            .map(|n| SpeedPoint { size: n[0], speed: n[1], low: n[2], high: n[3] })
            .collect();
        let plot = SpeedPlot {
            title: text.clone(),
            unit: odd.clone(),
            axis: text.clone(),
            lines: vec![SpeedLine { name: odd.clone(), points }; columns],
            roof: numbers.chunks_exact(2).map(|n| (n[0], n[1])).collect(),
        };
        let table = BenchTable {
            title: odd.clone(),
            columns: vec![(text.clone(), true); columns],
            rows: vec![vec![odd.clone(); 3]; columns],
            notes: vec![odd.clone(); columns],
        };
        let report = BenchReport {
            title: odd.clone(),
            facts: vec![(text.clone(), odd.clone())],
            plots: vec![plot; columns],
            crossover: Some(table.clone()),
            saved: Some(table.clone()),
            tables: vec![table],
            attestation: json!({ "cpu_model": odd }),
            commands: vec![Command { what: text.clone(), line: odd.clone() }],
        };
        if let Err(problem) = well_formed(&html(&report)) {
            return Err(TestCaseError::fail(problem));
        }
    }

    #[test]
    fn sizes_and_speeds_of_any_span_have_a_chart(
        sizes in prop::collection::btree_set(1u32..100_000_000, 2..12), first in 1e-8..1e11f64, growth in 0.1..10.0f64
    ) {
        let points = sizes.iter().zip(0..).map(|(size, n)| {
            let speed = (first * growth.powi(n)).clamp(1e-8, 1e11);
            SpeedPoint { size: f64::from(*size), speed, low: 0.9 * speed, high: 1.1 * speed }
        });
        let line = SpeedLine { name: "a.c".into(), points: points.collect() };
        let plot = SpeedPlot { lines: vec![line], ..SpeedPlot::default() };
        let page = html(&BenchReport { plots: vec![plot], ..BenchReport::default() });
        prop_assert_eq!(page.matches("<circle").count(), sizes.len());
        prop_assert_eq!(well_formed(&page).err(), None);
    }
}
