//! The best program at each of several workloads, as a table.

use flopsmith_protocol::WorkloadMeasurement;

use crate::clock::Clock;
use crate::model::{RunReport, WorkloadRoof};
use crate::text::{escape, number, share};

/// A row for each workload; nothing where there is one workload only.
pub fn html(report: &RunReport) -> String {
    let Some(best) = report.best.as_ref().filter(|b| !b.workloads.is_empty()) else {
        return String::new();
    };
    let mut out = String::from(
        "<div class=\"scroll\"><table><thead><tr><th>Workload</th><th>GFLOPS</th><th>× reference</th><th>95 % interval</th>\
         <th>Call</th><th>Min</th><th>Median</th><th>Spread</th><th>Of the peak</th><th>Of the roof</th></tr></thead><tbody>",
    );
    let worst = best
        .workloads
        .iter()
        .min_by(|a, b| a.ratio.total_cmp(&b.ratio))
        .map(|worst| worst.name.as_str());
    let roofs = report.roofline.as_ref().map(|roofline| &roofline.workloads);
    for workload in &best.workloads {
        let mut known = roofs.into_iter().flatten();
        let roof = known.find(|roof| roof.name == workload.name);
        row(
            &mut out,
            workload,
            roof,
            worst == Some(workload.name.as_str()),
        );
    }
    out.push_str("</tbody></table></div>");
    out
}

fn row(
    out: &mut String,
    workload: &WorkloadMeasurement,
    roof: Option<&WorkloadRoof>,
    is_worst: bool,
) {
    let moved = workload.gb_per_second.map_or_else(String::new, |gb| {
        format!("<small>{} GB/s</small>", number(gb))
    });
    let roof = roof.map_or_else(
        || "–".to_owned(),
        |roof| {
            format!(
                "{}<small>{}</small>",
                escape(&share(workload.gflops / roof.roof_gflops)),
                escape(&roof.bound)
            )
        },
    );
    let [call, minimum, median, spread] = Clock::of_workload(workload).cells();
    out.push_str(&format!(
        "<tr><th scope=\"row\">{}{}</th><td>{}{moved}</td><td>{}</td><td>{}–{}</td><td>{call}</td><td>{minimum}</td>\
         <td>{median}</td><td>{spread}</td><td>{}</td><td>{roof}</td></tr>",
        escape(&workload.name),
        if is_worst { "<small>the worst</small>" } else { "" },
        number(workload.gflops),
        number(workload.ratio),
        number(workload.interval.low),
        number(workload.interval.high),
        escape(&share(workload.share_of_peak))
    ));
}

/// Says that numbers are means, for sentences about the best program.
pub fn words(report: &RunReport) -> String {
    match report.best.as_ref().map_or(0, |best| best.workloads.len()) {
        0 => String::new(),
        count => format!(" All speeds are geometric means over {count} workloads."),
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_protocol::{Interval, StopReason, TechniqueSet};

    use super::*;
    use crate::model::{Best, Roofline};

    fn workload(name: &str, ratio: f64) -> WorkloadMeasurement {
        WorkloadMeasurement {
            name: name.into(),
            gflops: 2.0 * ratio,
            seconds_per_call: 1e-3,
            minimum_seconds: Some(0.99e-3),
            median_seconds: Some(1.5e-3),
            ratio,
            interval: Interval {
                low: 0.99 * ratio,
                high: 1.01 * ratio,
                confidence: 0.95,
            },
            log_ratio_se: 0.005,
            share_of_peak: 0.5,
            gb_per_second: Some(12.5),
            stop: StopReason::Precise,
            calls: 32,
            mdape: 0.01,
            certificate: None,
        }
    }

    fn report(workloads: Vec<WorkloadMeasurement>) -> RunReport {
        RunReport {
            best: Some(Best {
                gflops: 40.0,
                ratio: 20.0,
                interval: Interval {
                    low: 19.0,
                    high: 21.0,
                    confidence: 0.95,
                },
                techniques: TechniqueSet::EMPTY,
                vector_bits: None,
                step: None,
                measured_again: true,
                samples: None,
                source: String::new(),
                workloads,
                sizes: None,
                call: None,
                gb_per_second: None,
            }),
            roofline: Some(Roofline {
                workloads: vec![WorkloadRoof {
                    name: "n<8".into(),
                    intensity: Some(2.0),
                    roof_gflops: 40.0,
                    bound: "memory".into(),
                    best_gflops: Some(20.0),
                }],
                ..Roofline::default()
            }),
            ..RunReport::default()
        }
    }

    #[test]
    fn each_workload_has_a_row_and_the_worst_is_marked() {
        let two = report(vec![workload("n<8", 10.0), workload("n=16", 40.0)]);
        let page = html(&two);
        for part in [
            "n&lt;8<small>the worst</small>",
            "<td>20.0<small>12.5 GB/s</small></td><td>10.0</td>",
            "<td>1.000 ms</td><td>990.0 µs</td><td>—</td><td>1.00 %</td>",
            "<small>memory</small>",
            "<th scope=\"row\">n=16</th>",
            "<td>–</td></tr></tbody>",
        ] {
            assert!(page.contains(part), "`{part}` is missing in {page}");
        }
        assert!(words(&two).contains("over 2 workloads"));
        let one = report(Vec::new());
        assert_eq!((html(&one), words(&one)), (String::new(), String::new()));
        assert_eq!(html(&RunReport::default()), "");
    }
}
