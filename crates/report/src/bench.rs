//! The page of `flopsmith bench --report`: speeds over sizes, tables, and the machine.

mod plot;

use serde_json::Value;

use crate::machine;
use crate::model::Command;
use crate::page::{END, begin, commands, section, wrap};
use crate::text::escape;
pub use plot::MOST_LINES;

/// The results of one command. Parts without content are left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BenchReport {
    /// Heading, e.g. `dgemm: 3 programs at 9 sizes`.
    pub title: String,
    /// Names and values that hold for all results: compiler, flags, purpose.
    pub facts: Vec<(String, String)>,
    /// Speeds over sizes, one chart for each number of threads.
    pub plots: Vec<SpeedPlot>,
    /// The fastest programs by size.
    pub crossover: Option<BenchTable>,
    /// The comparison with a saved result.
    pub saved: Option<BenchTable>,
    /// The results of each size.
    pub tables: Vec<BenchTable>,
    /// The machine, as the timer attested it.
    pub attestation: Value,
    /// The command that measures again.
    pub commands: Vec<Command>,
}

/// A table of texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BenchTable {
    /// Heading; none if empty.
    pub title: String,
    /// Headings of the columns, and whether they hold numbers.
    pub columns: Vec<(String, bool)>,
    /// The cells, row by row.
    pub rows: Vec<Vec<String>>,
    /// Sentences below the table.
    pub notes: Vec<String>,
}

/// A chart of speeds over sizes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpeedPlot {
    /// Heading.
    pub title: String,
    /// Unit of all speeds: `GFLOPS` or `GB/s`.
    pub unit: String,
    /// Name of the parameter along the axis.
    pub axis: String,
    /// The programs, the fastest first.
    pub lines: Vec<SpeedLine>,
    /// Size and roof.
    pub roof: Vec<(f64, f64)>,
}

/// The speeds of a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpeedLine {
    /// The program.
    pub name: String,
    /// Its speeds; sizes at which it was not measured are missing.
    pub points: Vec<SpeedPoint>,
}

/// The speed of a program at a size.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SpeedPoint {
    /// The size.
    pub size: f64,
    /// The speed.
    pub speed: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
}

/// The page as one HTML file without references to other files.
pub fn html(report: &BenchReport) -> String {
    let facts = report
        .facts
        .iter()
        .map(|(name, value)| format!("{} <code>{}</code>", escape(name), escape(value)));
    let mut out = begin(&report.title, &facts.collect::<Vec<_>>().join(" · "));
    let plots: String = report.plots.iter().map(plot::html).collect();
    section(
        &mut out,
        "sizes",
        "Speed by size",
        "Bars are 95 % intervals. Point at a dot for its numbers. The dark line is the roof: the speed that the measured peak and memory bandwidth permit at that size.",
        &wrap("wide", &plots),
    );
    if let Some(leads) = &report.crossover {
        section(&mut out, "fastest", "Fastest by size", "", &table(leads));
    }
    if let Some(saved) = &report.saved {
        let title = format!("Compared with {}", escape(&saved.title));
        section(&mut out, "saved", &title, "", &untitled(saved));
    }
    let tables: String = report.tables.iter().map(table).collect();
    section(&mut out, "results", "Results", "", &tables);
    section(
        &mut out,
        "machine",
        "Machine",
        "The timer attested these facts. Numbers from other machines are not comparable.",
        &machine::html(&report.attestation),
    );
    let again = commands(&report.commands);
    section(&mut out, "again", "Measure again", "", &again);
    out.push_str(END);
    out
}

/// A table with its heading.
pub(crate) fn table(table: &BenchTable) -> String {
    if table.title.is_empty() {
        return untitled(table);
    }
    format!("<h3>{}</h3>{}", escape(&table.title), untitled(table))
}

fn untitled(table: &BenchTable) -> String {
    let numbers = |n: usize| table.columns.get(n).is_some_and(|column| column.1);
    let class = |n: usize| if numbers(n) { "" } else { " class=\"words\"" };
    let mut out = String::new();
    if !table.rows.is_empty() {
        out.push_str("<div class=\"scroll\"><table class=\"grid-of-results\"><thead><tr>");
        for (n, (heading, _)) in table.columns.iter().enumerate() {
            out.push_str(&format!("<th{}>{}</th>", class(n), escape(heading)));
        }
        out.push_str("</tr></thead><tbody>");
        for row in &table.rows {
            out.push_str("<tr>");
            for (n, cell) in row.iter().enumerate() {
                out.push_str(&format!("<td{}>{}</td>", class(n), escape(cell)));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
    }
    if !table.notes.is_empty() {
        out.push_str("<ul class=\"notes\">");
        for note in &table.notes {
            out.push_str(&format!("<li>{}</li>", escape(note)));
        }
        out.push_str("</ul>");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_without_content_are_left_out_and_texts_are_escaped() {
        let empty = html(&BenchReport::default());
        for id in ["sizes", "fastest", "saved", "results", "machine", "again"] {
            assert!(!empty.contains(&format!("id=\"{id}\"")), "{id}");
        }
        assert!(crate::is_report(&empty.as_bytes()[..1024]));
        let cells = BenchTable {
            title: "n = 8".into(),
            columns: vec![("file".into(), false), ("GFLOPS".into(), true)],
            rows: vec![vec!["<a>.c".into(), "40.00".into()]],
            notes: vec!["peak: 50 & more".into()],
        };
        let page = html(&BenchReport {
            facts: vec![("flags".into(), "-O3 <x>".into())],
            saved: Some(cells.clone()),
            tables: vec![cells],
            ..BenchReport::default()
        });
        for part in [
            "flags <code>-O3 &lt;x&gt;</code>",
            "<h2>Compared with n = 8</h2><div",
            "<h3>n = 8</h3><div",
            "<th class=\"words\">file</th><th>GFLOPS</th>",
            "<td class=\"words\">&lt;a&gt;.c</td><td>40.00</td>",
            "<li>peak: 50 &amp; more</li>",
        ] {
            assert!(page.contains(part), "`{part}` is missing in {page}");
        }
    }
}
