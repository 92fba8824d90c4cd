//! The tables of the page.

use crate::model::{ArchiveStats, CellRow, Moment, RunReport};
use crate::text::{count, escape, number, percent};
use crate::{heat, source, text};

/// The policy at the start and at the end.
pub fn start_to_end(start: Option<&Moment>, end: Option<&Moment>, with_speeds: bool) -> String {
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
    if with_speeds {
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
    }
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
        return if !p.is_finite() {
            "–".into()
        } else if p != 0.0 && p.abs() < 9.95 {
            format!("{p:+.1} points")
        } else {
            format!("{p:+.0} points")
        };
    }
    let factor = after / before;
    if factor.is_finite() && before > 0.0 {
        format!("×{}", number(factor))
    } else {
        "–".into()
    }
}

/// The best program and the speeds it is compared with, as bars.
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
        let name = text::openblas(openblas.version.as_deref());
        rows.push((format!("{}{core}", escape(&name)), openblas.gflops, ""));
    }
    if let Some(corpus) = report.corpus_best_gflops {
        rows.push((
            "Fastest program tried of the starter's corpus".into(),
            corpus,
            "",
        ));
    }
    if let Some(start) = report.start_gflops {
        rows.push(("Your program".into(), start, ""));
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

/// Number of sets in the table next to the archive view.
const FASTEST: usize = 9;

fn by_speed(cells: &[CellRow]) -> Vec<&CellRow> {
    let mut order: Vec<&CellRow> = cells.iter().collect();
    // Unconfirmed programs come after all confirmed ones.
    let best = |cell: &CellRow| cell.best_gflops.unwrap_or(-1.0);
    let once = |cell: &CellRow| cell.unconfirmed_gflops.unwrap_or(-1.0);
    order.sort_by(|a, b| {
        best(b)
            .total_cmp(&best(a))
            .then(once(b).total_cmp(&once(a)))
            .then(b.tried.cmp(&a.tried))
    });
    order
}

/// The archive in numbers.
pub fn archive(stats: &ArchiveStats) -> String {
    let gflops = |value: Option<f64>| {
        value.map_or_else(|| "–".to_owned(), |v| format!("{} GFLOPS", number(v)))
    };
    let rows = [
        (
            "Sets with a confirmed program",
            "coverage, of all subsets of the techniques",
            format!(
                "{} of {} ({})",
                count(stats.filled),
                count(stats.cells),
                percent(stats.coverage)
            ),
        ),
        (
            "QD score",
            "sum of the best speeds of all sets",
            gflops(Some(stats.qd_score)),
        ),
        (
            "QD score for each set",
            "sets without a program count 0",
            gflops(Some(stats.norm_qd_score)),
        ),
        (
            "Mean of the best speeds",
            "over sets with a program",
            gflops(stats.objective_mean),
        ),
        ("Fastest", "", gflops(stats.objective_max)),
        (
            "Programs whose techniques are known",
            "correct at their first measurement",
            format!("{} of {}", count(stats.correct), count(stats.tried)),
        ),
    ];
    let mut out = String::from("<table class=\"mix numbers\"><tbody>");
    for (name, note, value) in rows {
        let note = if note.is_empty() {
            String::new()
        } else {
            format!("<small>{note}</small>")
        };
        out.push_str(&format!(
            "<tr><th scope=\"row\">{name}{note}</th><td>{value}</td></tr>"
        ));
    }
    out.push_str("</tbody></table>");
    out
}

/// The fastest confirmed sets.
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

/// Every cell with its programs, fastest first.
pub fn cells(cells: &[CellRow], top: f64) -> String {
    if cells.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<div class=\"scroll\"><table class=\"cells\"><thead><tr><th>Techniques</th><th>Best GFLOPS</th><th>× reference</th>\
         <th>Vectors</th><th>Correct</th><th>Tried</th></tr></thead><tbody>",
    );
    for cell in by_speed(cells) {
        let best = match (cell.best_gflops, cell.unconfirmed_gflops) {
            (Some(g), _) => format!(
                "<i class=\"swatch h{}\"></i>{}",
                heat::shade(g, top),
                number(g)
            ),
            (None, Some(g)) => format!(
                "<i class=\"swatch once\"></i>{}<small>measured once</small>",
                number(g)
            ),
            (None, None) => "–".to_owned(),
        };
        let vectors = cell
            .vector_bits
            .map_or_else(|| "–".to_owned(), |bits| format!("{bits} bits"));
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
            "<tr id=\"{}\"><th scope=\"row\">{}{code}</th><td>{best}</td><td>{interval}</td><td>{vectors}</td><td>{}</td><td>{}</td></tr>",
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
        assert_eq!(change(0.5, 0.496, true), "-0.4 points");
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
        let page = start_to_end(Some(&start), None, true);
        assert!(page.contains("<td>40 %</td><td>–</td><td>–</td>"), "{page}");
        assert_eq!(start_to_end(None, Some(&start), true), "");
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

    #[test]
    fn cells_measured_once_come_last_with_a_note() {
        let once = CellRow {
            techniques: "packing".parse().unwrap_or_default(),
            unconfirmed_gflops: Some(90.0),
            vector_bits: Some(512),
            tried: 1,
            ..CellRow::default()
        };
        let slow = CellRow {
            techniques: "unroll".parse().unwrap_or_default(),
            best_gflops: Some(3.0),
            tried: 1,
            ..CellRow::default()
        };
        let rows = [once, slow];
        let page = cells(&rows, 50.0);
        assert!(page.find(">unroll") < page.find(">packing"), "{page}");
        assert!(page.contains("90.0<small>measured once</small>"), "{page}");
        assert!(page.contains("<td>512 bits</td>"), "{page}");
        assert!(!fastest(&rows, 50.0).contains("packing"));
    }

    #[test]
    fn the_archive_in_numbers() {
        let page = archive(&ArchiveStats {
            filled: 64,
            cells: 256,
            coverage: 0.25,
            qd_score: 640.0,
            norm_qd_score: 2.5,
            objective_max: Some(41.0),
            objective_mean: Some(20.0),
            tried: 900,
            correct: 700,
        });
        for part in [
            "64 of 256 (25 %)",
            "640 GFLOPS",
            "2.50 GFLOPS",
            "20.0 GFLOPS",
            "41.0 GFLOPS",
            "700 of 900",
        ] {
            assert!(page.contains(part), "`{part}` is missing in {page}");
        }
    }
}
