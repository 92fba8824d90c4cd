//! The page of `flopsmith eval`: any data gives a well-formed file.

use flopsmith_report::bars::{Bar, BarChart, BarGroup, Quantity, file};
use flopsmith_report::bench::BenchTable;
use flopsmith_report::evaluation::{EvaluationReport, Figures, html};
use proptest::prelude::*;

use crate::well_formed::well_formed;

proptest! {
    #[test]
    fn any_data_gives_a_well_formed_page(
        text in "\\PC{0,40}",
        odd in "[<>&\"'\u{0}\n a-z]{0,12}",
        numbers in prop::collection::vec(prop::num::f64::ANY, 0..40),
        series in 0usize..12,
        groups in 0usize..8,
        is_share: bool,
    ) {
        let bars: Vec<Option<Bar>> = numbers
            .chunks_exact(3)
            .map(|n| (n[0] != 0.0).then_some(Bar { value: n[0], low: n[1], high: n[2] }))
            .collect();
        let chart = BarChart {
            title: odd.clone(),
            series: vec![text.clone(); series],
            groups: vec![BarGroup { name: odd.clone(), bars }; groups],
            quantity: if is_share { Quantity::Share } else { Quantity::Times },
        };
        let report = EvaluationReport {
            title: text.clone(),
            facts: vec![(odd.clone(), text.clone())],
            figures: vec![Figures { title: odd.clone(), lead: text.clone(), charts: vec![chart.clone(); 2] }],
            tables: vec![BenchTable {
                title: odd.clone(),
                columns: vec![(text.clone(), true)],
                rows: vec![vec![odd.clone()]],
                notes: vec![text.clone()],
            }],
        };
        if let Err(problem) = well_formed(&html(&report)) {
            return Err(TestCaseError::fail(problem));
        }
        if let Some(svg) = file(&chart) {
            // The namespace is a name and no link.
            let inside = svg.replace(" xmlns=\"http://www.w3.org/2000/svg\"", "");
            if let Err(problem) = well_formed(&format!("<!doctype html>\n{inside}")) {
                return Err(TestCaseError::fail(problem));
            }
        }
    }
}
