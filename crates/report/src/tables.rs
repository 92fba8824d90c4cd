//! The tables of the page.

use crate::heat;
use crate::model::{CellRow, Moment, RunReport};
use crate::source;
use crate::text::{count, escape, number, percent};

/// Start → end of the policy.
pub fn start_to_end(start: Option<&Moment>, end: Option<&Moment>) -> String {
    let Some(start) = start else {
        return String::new();
    };
    let mut out = String::from(
        "<div class=\"scroll\"><table><thead><tr><th></th><th>Start</th><th>End</th><th>Change</th></tr></thead><tbody>",
    );
    let mut row = |name: &str,
                   note: &str,
                   of: &dyn Fn(&Moment) -> f64,
                   show: fn(f64) -> String,
                   points: bool| {
        let before = of(start);
        let (after, change) = match end.map(of) {
            None => ("–".to_owned(), "–".to_owned()),
            Some(after) => (show(after), change(before, after, points)),
        };
        let note = if note.is_empty() {
            String::new()
        } else {
            format!("<small>{note}</small>")
        };
        out.push_str(&format!(
            "<tr><th scope=\"row\">{name}{note}</th><td>{}</td><td>{after}</td><td>{change}</td></tr>",
            show(before)
        ));
    };
    row(
        "Correct",
        "verified and measured",
        &|m| m.correct_rate,
        percent,
        true,
    );
    row("Builds", "", &|m| m.build_rate, percent, true);
    row(
        "Mean GFLOPS",
        "all samples, failures count 0",
        &|m| m.mean_gflops,
        number,
        false,
    );
    row(
        "Mean GFLOPS of correct programs",
        "",
        &|m| m.mean_gflops_correct,
        number,
        false,
    );
    row(
        "Distinct correct programs",
        "",
        &|m| m.distinct_correct as f64,
        whole,
        false,
    );
    row("Samples", "", &|m| m.samples as f64, whole, false);
    out.push_str("</tbody></table></div>");
    out
}

fn whole(value: f64) -> String {
    count(value.max(0.0) as u64)
}

/// A change in percentage points, or as a factor.
fn change(before: f64, after: f64, points: bool) -> String {
    if points {
        let p = 100.0 * (after - before);
        return if p.is_finite() {
            format!("{p:+.0} points")
        } else {
            "–".into()
        };
    }
    let factor = after / before;
    if factor.is_finite() && before > 0.0 {
        format!("×{}", number(factor))
    } else {
        "–".into()
    }
}

/// The best program beside what it is measured against, as bars.
pub fn comparison(report: &RunReport) -> String {
    let Some(best) = &report.best else {
        return String::new();
    };
    let mut rows: Vec<(String, f64, &str)> =
        vec![("Best program of this run".into(), best.gflops, "mine")];
    if let Some(openblas) = &report.openblas {
        let core = openblas
            .core
            .as_deref()
            .map_or_else(String::new, |c| format!(" ({})", escape(c)));
        rows.push((format!("OpenBLAS{core}"), openblas.gflops, ""));
    }
    if let Some(corpus) = report.corpus_best_gflops {
        rows.push(("Best program the starter was shown".into(), corpus, ""));
    }
    if let Some(reference) = report.reference_gflops {
        rows.push((
            "Plain reference, <code>gcc -O3 -march=native</code>".into(),
            reference,
            "",
        ));
    }
    if let Some(peak) = report.peak_gflops {
        rows.push(("Measured peak of this machine".into(), peak, "ceiling"));
    }
    rows.retain(|r| r.1.is_finite() && r.1 >= 0.0);
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    let top = rows.iter().map(|r| r.1).fold(0.0, f64::max);
    let mut out = String::from("<div class=\"compare\">");
    for (name, value, class) in rows {
        let width = if top > 0.0 {
            100.0 * (value / top)
        } else {
            0.0
        };
        out.push_str(&format!(
            "<div class=\"row {class}\"><span class=\"label\">{name}</span><span class=\"track\"><i style=\"width:{width:.1}%\"></i></span>\
             <span class=\"value\">{} GFLOPS</span></div>",
            number(value)
        ));
    }
    out.push_str("</div>");
    out
}

/// How many sets stand beside the grid.
const FASTEST: usize = 9;

fn by_speed(cells: &[CellRow]) -> Vec<&CellRow> {
    let mut order: Vec<&CellRow> = cells.iter().collect();
    let speed = |cell: &CellRow| cell.best_gflops.unwrap_or(-1.0);
    order.sort_by(|a, b| speed(b).total_cmp(&speed(a)).then(b.tried.cmp(&a.tried)));
    order
}

/// The fastest sets.
pub fn fastest(cells: &[CellRow], top: f64) -> String {
    let mut out = String::from(
        "<table class=\"mix\"><thead><tr><th>Fastest sets</th><th>GFLOPS</th><th>Correct</th></tr></thead><tbody>",
    );
    let mut any = false;
    for cell in by_speed(cells).into_iter().take(FASTEST) {
        let Some(best) = cell.best_gflops else {
            continue;
        };
        any = true;
        out.push_str(&format!(
            "<tr><th scope=\"row\"><i class=\"swatch h{}\"></i>{}</th><td>{}</td><td>{} of {}</td></tr>",
            heat::shade(best, top),
            escape(&heat::name(cell.techniques)),
            number(best),
            count(cell.correct),
            count(cell.tried)
        ));
    }
    out.push_str("</tbody></table>");
    if any { out } else { String::new() }
}

/// Every cell with what was found in it, fastest first.
pub fn cells(cells: &[CellRow], top: f64) -> String {
    if cells.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<div class=\"scroll\"><table class=\"cells\"><thead><tr><th>Techniques</th><th>Best GFLOPS</th><th>× reference</th>\
         <th>Correct</th><th>Tried</th></tr></thead><tbody>",
    );
    for cell in by_speed(cells) {
        let best = cell.best_gflops.map_or_else(
            || "–".to_owned(),
            |g| {
                format!(
                    "<i class=\"swatch h{}\"></i>{}",
                    heat::shade(g, top),
                    number(g)
                )
            },
        );
        let interval = cell.interval.map_or_else(
            || "–".to_owned(),
            |i| format!("{}–{}", number(i.low), number(i.high)),
        );
        let code = cell.source.as_deref().map_or_else(String::new, |s| {
            format!(
                "<details><summary>source</summary>{}</details>",
                source::html(s)
            )
        });
        out.push_str(&format!(
            "<tr id=\"{}\"><th scope=\"row\">{}{code}</th><td>{best}</td><td>{interval}</td><td>{}</td><td>{}</td></tr>",
            heat::anchor(cell.techniques),
            escape(&heat::name(cell.techniques)),
            count(cell.correct),
            count(cell.tried)
        ));
    }
    out.push_str("</tbody></table></div>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_points_or_factors() {
        assert_eq!(change(0.38, 0.96, true), "+58 points");
        assert_eq!(change(4.0, 28.0, false), "×7.00");
        assert_eq!(change(0.0, 28.0, false), "–");
        assert_eq!(change(f64::NAN, 1.0, true), "–");
    }

    #[test]
    fn a_run_that_was_cut_short_shows_its_start() {
        let start = Moment {
            samples: 64,
            correct_rate: 0.4,
            ..Moment::default()
        };
        let page = start_to_end(Some(&start), None);
        assert!(page.contains("<td>40 %</td><td>–</td><td>–</td>"), "{page}");
        assert_eq!(start_to_end(None, Some(&start)), "");
    }

    #[test]
    fn the_fastest_cell_comes_first() {
        let cell = |g: f64, t: &str| CellRow {
            techniques: t.parse().unwrap_or_default(),
            best_gflops: Some(g),
            tried: 1,
            ..CellRow::default()
        };
        let page = cells(&[cell(3.0, "unroll"), cell(30.0, "simd")], 50.0);
        assert!(page.find(">simd") < page.find(">unroll"), "{page}");
    }
}
