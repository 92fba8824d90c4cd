//! The page of `flopsmith eval`: bars by model with intervals, and the tables.

use crate::bars::{BarChart, figure};
use crate::bench::{BenchTable, table};
use crate::page::{END, begin, section, wrap};
use crate::text::escape;

/// Charts of one kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Heading.
    pub title: String,
    /// The meaning of the numbers, in a sentence or two.
    pub lead: String,
    /// The charts. Those without a number are left out.
    pub charts: Vec<BarChart>,
}

/// An evaluation of some models. Parts without content are left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EvaluationReport {
    /// Heading.
    pub title: String,
    /// Names and values that hold for all results: task, temperature, compiler.
    pub facts: Vec<(String, String)>,
    /// The charts.
    pub figures: Vec<Figures>,
    /// The tables.
    pub tables: Vec<BenchTable>,
}

/// The page as one HTML file without references to other files.
pub fn html(report: &EvaluationReport) -> String {
    let facts = report
        .facts
        .iter()
        .map(|(name, value)| format!("{} <code>{}</code>", escape(name), escape(value)));
    let mut out = begin(&report.title, &facts.collect::<Vec<_>>().join(" · "));
    for (number, figures) in report.figures.iter().enumerate() {
        let charts: String = figures.charts.iter().map(figure).collect();
        section(
            &mut out,
            &format!("figures-{}", number + 1),
            &escape(&figures.title),
            &escape(&figures.lead),
            &wrap("wide", &charts),
        );
    }
    let tables: String = report.tables.iter().map(table).collect();
    section(&mut out, "tables", "Tables", "", &tables);
    out.push_str(END);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::{Bar, BarGroup, Quantity};

    #[test]
    fn parts_without_content_are_left_out_and_texts_are_escaped() {
        let empty = html(&EvaluationReport::default());
        assert!(!empty.contains("<section"), "{empty}");
        let page = html(&EvaluationReport {
            title: "a <b>".into(),
            facts: vec![("task".into(), "<write>".into())],
            figures: vec![
                Figures {
                    title: "nothing".into(),
                    lead: String::new(),
                    charts: vec![BarChart::default()],
                },
                Figures {
                    title: "Speed & more".into(),
                    lead: "of <k>".into(),
                    charts: vec![BarChart {
                        title: "speedup".into(),
                        series: vec!["base".into()],
                        groups: vec![BarGroup {
                            name: "k = 1".into(),
                            bars: vec![Some(Bar {
                                value: 2.0,
                                low: 1.0,
                                high: 3.0,
                            })],
                        }],
                        quantity: Quantity::Times,
                    }],
                },
            ],
            tables: Vec::new(),
        });
        for part in [
            "<title>a &lt;b&gt;</title>",
            "task <code>&lt;write&gt;</code>",
            "<section id=\"figures-2\"><h2>Speed &amp; more</h2>",
            "of &lt;k&gt;",
            "<rect class=\"f1\"",
        ] {
            assert!(page.contains(part), "`{part}` is missing in {page}");
        }
        assert!(!page.contains("nothing"), "{page}");
    }
}
