//! The single workloads of a program, where its problem has several: their numbers, and how they are shown.

use flopsmith_machine::roofline::Place;
use flopsmith_measure::ranking::LogRatio;
use flopsmith_measure::stats::SYSTEMATIC_LOG_SE;
use flopsmith_measure::{Chains, Limits};
use flopsmith_protocol::{Interval, Measurement, WorkloadMeasurement, geometric};
use flopsmith_run::digits::{between, four, share};
use flopsmith_run::roofline;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::resolve::stop;
use crate::rows::Row;
use crate::table::Grid;

/// Each workload over several measurements of one program by one timer. Each measurement has the weight that it has in the
/// mean of the whole ([`LogRatio::mean`]), so that the ratio of the whole stays the geometric mean over the workloads.
pub fn means(
    all: &[Measurement],
    chains: &Chains,
    limits: &Limits,
) -> Option<Vec<WorkloadMeasurement>> {
    let first = all.first()?;
    let count = first.workloads.len();
    if count == 0 || all.iter().any(|m| m.workloads.len() != count) {
        return Some(Vec::new());
    }
    let whole = chains.whole();
    let weights: Vec<f64> = all
        .iter()
        .map(|m| LogRatio::of(m, &whole).se.powi(-2))
        .collect();
    // The workloads share the precision of the whole as a timer shares its time.
    let root = (count as f64).sqrt();
    let limits = Limits {
        target_log_se: root * limits.target_log_se,
        usable_log_se: root * limits.usable_log_se,
        ..*limits
    };
    let chains = chains.each().iter().enumerate().take(count);
    let means = chains.map(|(n, chain)| {
        let here: Vec<&WorkloadMeasurement> = all.iter().map(|m| &m.workloads[n]).collect();
        let mean =
            |value: fn(&WorkloadMeasurement) -> f64| geometric(here.iter().map(|w| value(w)));
        let sum: f64 = weights.iter().sum();
        let pairs = || weights.iter().zip(&here);
        let value = pairs().map(|(x, w)| x * w.ratio.ln()).sum::<f64>() / sum;
        let squares: f64 = pairs().map(|(x, w)| (x * w.log_ratio_se).powi(2)).sum();
        let se = (squares.sqrt() / sum).max(SYSTEMATIC_LOG_SE);
        let half = 1.96 * se.hypot(chain.log_se);
        let medians: Option<Vec<f64>> = here.iter().map(|w| w.median_seconds).collect();
        let moved: Option<Vec<f64>> = here.iter().map(|w| w.gb_per_second).collect();
        Some(WorkloadMeasurement {
            gflops: mean(|w| w.gflops)?,
            seconds_per_call: mean(|w| w.seconds_per_call)?,
            minimum_seconds: here
                .iter()
                .map(|w| w.minimum_seconds)
                .try_fold(f64::INFINITY, |least, seconds| Some(least.min(seconds?))),
            median_seconds: medians.and_then(|all| geometric(all.into_iter())),
            ratio: value.exp(),
            interval: Interval {
                low: (value - half).exp(),
                high: (value + half).exp(),
                confidence: 0.95,
            },
            log_ratio_se: se,
            share_of_peak: mean(|w| w.share_of_peak)?,
            gb_per_second: moved.and_then(|all| geometric(all.into_iter())),
            stop: stop(&limits, se),
            calls: here.iter().map(|w| w.calls).sum(),
            mdape: here.iter().map(|w| w.mdape).fold(0.0, f64::max),
            ..first.workloads[n].clone()
        })
    });
    means.collect()
}

/// The workloads of a row as JSON objects, each with its place under the roofline; none where there is one workload.
pub fn objects(row: &Row) -> Vec<Value> {
    let measurement = row.done.verdict.measurement();
    let workloads = measurement.map(|m| &m.workloads[..]).unwrap_or_default();
    let each = workloads.iter().enumerate().map(|(n, workload)| {
        let mut object = json!(workload);
        let clock = Clock::of_workload(workload);
        object["minimum_seconds"] = json!(clock.minimum);
        object["median_seconds"] = json!(clock.median);
        object["params"] = json!(row.sizes.get(n));
        object["roofline"] = json!(row.places.get(n));
        object
    });
    each.collect()
}

/// The worst workload of a row, its ratio and the interval of that, as a cell of a table: `n=1024 31.20 [31.02, 31.38]`.
pub fn worst(row: &Row) -> Option<String> {
    let worst = row.done.verdict.measurement()?.worst()?;
    let interval = between(&worst.interval);
    Some(format!("{} {} {interval}", worst.name, ratio(worst)))
}

/// The ratio at a workload, with a mark if it did not converge.
fn ratio(workload: &WorkloadMeasurement) -> String {
    let mark = if workload.converged() { "" } else { "~" };
    format!("{mark}{}", four(workload.ratio))
}

/// The numbers of each workload of the measured rows as a table; none where there is one workload.
pub fn grid(rows: &[Row]) -> Option<Grid> {
    let measured = || {
        let all = rows.iter();
        all.filter_map(|row| Some((row, row.done.verdict.measurement()?)))
    };
    if measured().all(|(_, m)| m.workloads.is_empty()) {
        return None;
    }
    let threads = rows.iter().any(|row| row.threads != 1);
    let mut columns = vec![("file", false)];
    if threads {
        columns.push(("threads", true));
    }
    columns.extend([
        ("workload", false),
        ("GFLOPS", true),
        ("GB/s", true),
        ("call", true),
        ("min", true),
        ("median", true),
        ("spread", true),
        ("ratio", true),
        ("95 % interval", false),
        ("peak", true),
        ("roof", false),
    ]);
    let cells = |row: &Row, n: usize, workload: &WorkloadMeasurement| {
        let mut cells = vec![row.file.clone()];
        if threads {
            cells.push(row.threads.to_string());
        }
        let place = row.places.get(n).and_then(Option::as_ref);
        cells.extend([
            workload.name.clone(),
            four(workload.gflops),
            workload.gb_per_second.map_or_else(String::new, four),
        ]);
        cells.extend(Clock::of_workload(workload).cells());
        cells.extend([
            ratio(workload),
            between(&workload.interval),
            share(workload.share_of_peak),
            place.map_or_else(String::new, roofline::short),
        ]);
        cells
    };
    let rows = measured().flat_map(|(row, m)| {
        let each = m.workloads.iter().enumerate();
        each.map(move |(n, workload)| (row, n, workload))
    });
    Some(Grid {
        rows: rows
            .map(|(row, n, workload)| cells(row, n, workload))
            .collect(),
        columns,
    })
}

/// A line about each workload, for people.
pub fn lines(row: &Row) -> Vec<String> {
    let Some(measurement) = row.done.verdict.measurement() else {
        return Vec::new();
    };
    let worst = measurement.worst().map(|worst| worst.name.as_str());
    let each = measurement.workloads.iter().enumerate();
    each.map(|(n, workload)| {
        let place = row.places.get(n).and_then(Option::as_ref);
        line(workload, place, worst == Some(workload.name.as_str()))
    })
    .collect()
}

fn line(workload: &WorkloadMeasurement, place: Option<&Place>, is_worst: bool) -> String {
    let mut line = format!(
        "  {}: {} GFLOPS, {}× the plain reference, 95 % interval {}, {}, {} of the peak",
        workload.name,
        four(workload.gflops),
        ratio(workload),
        between(&workload.interval),
        Clock::of_workload(workload).words(workload.gb_per_second),
        share(workload.share_of_peak)
    );
    if let Some(place) = place {
        line.push_str(&format!("; {} of its roof", roofline::short(place)));
    }
    if is_worst {
        line.push_str(" (the worst)");
    }
    line
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(super) mod tests {
    use flopsmith_measure::{Chain, Purpose};
    use flopsmith_problem::Params;
    use flopsmith_protocol::Verdict;
    use flopsmith_test_support::Measured;

    use super::*;
    use crate::resolve::mean;
    use crate::rows::tests::{by_memory, row};

    /// A row of a program that is 20 and 80 times as fast as the reference, at two workloads.
    pub fn over_two(file: &str) -> Row {
        let measurement = Measured::at(40.0)
            .se(0.002)
            .over(&[("n=8", 0.5), ("n=16", 2.0)]);
        let mut row = row(file, 1, Verdict::Measured { measurement });
        let sizes = [8, 16].iter();
        row.sizes = sizes
            .map(|n| Params::from([("n".to_owned(), *n)]))
            .collect();
        row.places = vec![None, Some(by_memory())];
        row
    }

    #[test]
    fn the_worst_workload_is_named_and_each_has_a_line() {
        let row = over_two("a.c");
        let m = row.done.verdict.measurement().unwrap();
        assert!((m.ratio - 40.0).abs() < 1e-9);
        assert_eq!(worst(&row).as_deref(), Some("n=8 20.00 [19.92, 20.08]"));
        let lines = lines(&row);
        assert_eq!(lines.len(), 2);
        let begins = "  n=8: 20.00 GFLOPS, 20.00× the plain reference, 95 % interval [";
        assert!(lines[0].starts_with(begins), "{lines:?}");
        assert!(lines[0].ends_with(" (the worst)"), "{lines:?}");
        assert!(lines[1].ends_with("50.0 % memory of its roof"), "{lines:?}");
        let call = Clock::of_workload(&m.workloads[1]).words(None);
        assert!(lines[1].contains(&call), "{lines:?}");
        let one = crate::rows::tests::fast("a.c", 1, 40.0);
        assert_eq!((worst(&one), self::lines(&one).len()), (None, 0));
        assert!(objects(&one).is_empty());
    }

    #[test]
    fn an_object_of_a_workload_has_its_place() {
        let objects = objects(&over_two("a.c"));
        assert_eq!(objects[0]["name"], "n=8");
        assert_eq!(objects[0]["roofline"], Value::Null);
        assert_eq!(objects[0]["params"]["n"], 8);
        assert_eq!(objects[1]["roofline"]["bound"], "memory");
    }

    #[test]
    fn workloads_have_a_table_where_there_are_several() {
        let one = crate::rows::tests::fast("a.c", 1, 40.0);
        assert!(grid(std::slice::from_ref(&one)).is_none());
        let grid = grid(&[over_two("a.c"), one]).unwrap();
        assert!(
            grid.rows
                .iter()
                .all(|cells| cells.len() == grid.columns.len())
        );
        assert_eq!(grid.rows.len(), 2);
        assert_eq!(grid.rows[0][..3], ["a.c", "n=8", "20.00"]);
        assert_eq!(grid.rows[1][11], "50.0 % memory");
    }

    #[test]
    fn workloads_are_restated_like_the_whole() {
        let mut row = over_two("a.c");
        row.reference_of_workloads = vec![2.0, 8.0];
        row.tell_in(4.0, 100.0);
        let m = row.done.verdict.measurement().unwrap();
        let gflops: Vec<f64> = m.workloads.iter().map(|w| w.gflops).collect();
        assert!((gflops[0] - 40.0).abs() < 1e-9 && (gflops[1] - 640.0).abs() < 1e-9);
        assert!((m.gflops - (gflops[0] * gflops[1]).sqrt()).abs() < 1e-9);
        assert!((m.workloads[0].share_of_peak - 0.4).abs() < 1e-9);
    }

    #[test]
    fn several_measurements_have_means_of_each_workload() {
        let chain = Chain {
            log_ratio: 0.0,
            log_se: 0.003,
            reference_seconds: 1.0,
            baseline_seconds: 1.0,
        };
        let at = |gflops: f64, se: f64, times: f64| {
            Measured::at(gflops)
                .se(se)
                .over(&[("a", 1.0), ("b", times)])
        };
        // The second one is less sure, and the workloads differ in it.
        let all = [at(40.0, 0.004, 3.0), at(40.4, 0.006, 3.1)];
        let chains = Chains::of_each(&[chain, chain]).unwrap();
        let found = mean(&all, &chains, &Purpose::Rank.limits()).unwrap();
        let names: Vec<&str> = found.workloads.iter().map(|w| w.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let product: f64 = found.workloads.iter().map(|w| w.ratio).product();
        assert!(
            (product.sqrt() / found.ratio - 1.0).abs() < 1e-9,
            "{found:?}"
        );
        for workload in &found.workloads {
            assert!(workload.log_ratio_se < 0.004, "{workload:?}");
            assert_eq!(workload.calls, 128);
            let half = (workload.interval.high / workload.ratio).ln();
            let expected = 1.96 * workload.log_ratio_se.hypot(0.003);
            assert!((half - expected).abs() < 1e-9, "{workload:?}");
        }
    }
}
