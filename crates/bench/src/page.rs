//! The page of `--report`, made of the results.

use std::collections::BTreeSet;

use flopsmith_measure::Purpose;
use flopsmith_report::Command;
use flopsmith_report::bench::{
    BenchReport, BenchTable, SpeedLine, SpeedPlot, SpeedPoint, html as rendered,
};
use flopsmith_run::digits::counted;

use crate::Order;
use crate::crossover::{self, leads};
use crate::facts;
use crate::legend::legend;
use crate::outputs::AtSize;
use crate::rate::{Unit, common_unit};
use crate::rows::Row;
use crate::table::{self, Grid, refusals};
use crate::workloads;

/// The page of these results.
pub fn html(order: &Order, results: &[AtSize]) -> String {
    let against = order.against.as_ref().map(|program| program.name.as_str());
    let leads = leads(results);
    let compared = order.compare.as_ref().map(|compare| {
        let rows: Vec<&Row> = results.iter().flat_map(|result| &result.rows).collect();
        let (grid, notes) = compare.grid(&rows);
        of_grid(compare.title(), grid, notes)
    });
    let tables = results.iter().flat_map(|result| {
        let mut notes = legend(&result.rows, against);
        notes.extend(refusals(&result.rows));
        let size = result.problem.timed_size();
        let each = workloads::grid(&result.rows);
        let each = each.map(|grid| of_grid("Workloads".to_owned(), grid, Vec::new()));
        let all = of_grid(size, table::grid(&result.rows, against), notes);
        std::iter::once(all).chain(each)
    });
    let mut rows = results.iter().flat_map(|result| &result.rows);
    let machine = rows.find_map(|row| row.machine.as_ref());
    let report = BenchReport {
        title: title(order, results),
        facts: facts(order, results),
        plots: plots(results),
        crossover: (!leads.is_empty())
            .then(|| of_grid(String::new(), crossover::grid(&leads), Vec::new())),
        saved: compared,
        tables: tables.collect(),
        attestation: machine.map_or_else(Default::default, |m| m.attestation.clone()),
        commands: vec![Command {
            what: "The command of these results".into(),
            line: order.command.clone(),
        }],
    };
    rendered(&report)
}

/// Names and values that hold for all results.
pub fn facts(order: &Order, results: &[AtSize]) -> Vec<(String, String)> {
    let mut rows = results.iter().flat_map(|result| &result.rows);
    let machine = rows.find_map(|row| row.machine.as_ref());
    let mut facts = machine.map_or_else(Vec::new, |machine| facts::named(machine));
    let digest = order.problem.digest.short().to_owned();
    facts.extend(
        [
            ("problem", format!("{} ({digest})", order.problem.id)),
            ("purpose", name_of(order.purpose).to_owned()),
            ("Flopsmith", env!("CARGO_PKG_VERSION").to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    facts
}

/// The name of a purpose, as users write it.
pub fn name_of(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Screen => "screen",
        Purpose::Rank => "rank",
        Purpose::Certify => "certify",
    }
}

fn title(order: &Order, results: &[AtSize]) -> String {
    let programs = counted(order.programs.len() as u64, "program");
    match results {
        [one] => format!(
            "{}: {programs} at {}",
            order.problem.id,
            one.problem.timed_size()
        ),
        several => {
            let sizes = counted(several.len() as u64, "size");
            format!("{}: {programs} at {sizes}", order.problem.id)
        }
    }
}

fn of_grid(title: String, grid: Grid, notes: Vec<String>) -> BenchTable {
    let columns = grid.columns.into_iter();
    BenchTable {
        title,
        columns: columns
            .map(|(heading, numbers)| (heading.to_owned(), numbers))
            .collect(),
        rows: grid.rows,
        notes,
    }
}

/// A chart of each number of threads; none with a single size.
fn plots(results: &[AtSize]) -> Vec<SpeedPlot> {
    let Some((axis, sizes)) = axis(results) else {
        return Vec::new();
    };
    let rows = || results.iter().flat_map(|result| &result.rows);
    let counts: BTreeSet<u32> = rows().map(|row| row.threads).collect();
    let plot = |threads: u32| {
        let of_threads = || rows().filter(move |row| row.threads == threads);
        // One unit for all sizes: where compute binds some and memory others, operations show both roofs.
        let unit = common_unit(of_threads()).unwrap_or(Unit::Gflops);
        let at = || results.iter().zip(&sizes);
        let roof = at().filter_map(|(result, size)| {
            let mut rows = result.rows.iter().filter(|row| row.threads == threads);
            Some((*size, rows.find_map(|row| row.roof_in(unit))?))
        });
        let names: BTreeSet<(&str, bool)> = of_threads()
            .map(|row| (row.file.as_str(), row.against))
            .collect();
        let line = |(file, against): (&str, bool)| SpeedLine {
            name: if against {
                format!("{file} (against)")
            } else {
                file.to_owned()
            },
            points: at()
                .filter_map(|(result, size)| {
                    let mut rows = result.rows.iter().filter(|row| row.threads == threads);
                    let row = rows.find(|row| row.file == file && row.against == against)?;
                    let interval = row.rate_interval_in(unit)?;
                    Some(SpeedPoint {
                        size: *size,
                        speed: row.rate_in(unit)?,
                        low: interval.low,
                        high: interval.high,
                    })
                })
                .collect(),
        };
        let mut lines: Vec<SpeedLine> = names.into_iter().map(line).collect();
        let last = |line: &SpeedLine| line.points.last().map_or(0.0, |point| point.speed);
        lines.sort_by(|one, other| last(other).total_cmp(&last(one)));
        SpeedPlot {
            title: format!("{unit} on {}", counted(threads.into(), "thread")),
            unit: unit.to_string(),
            axis: axis.clone(),
            roof: roof.collect(),
            lines,
        }
    };
    counts.into_iter().map(plot).collect()
}

/// The parameter along the axis, and its value for each result. Parameters that vary together with it are named, too.
fn axis(results: &[AtSize]) -> Option<(String, Vec<f64>)> {
    let first = &results.first()?.problem.timed;
    let varies = |name: &&String| {
        let size = first.get(*name);
        results
            .iter()
            .any(|result| result.problem.timed.get(*name) != size)
    };
    let mut names = first.keys().filter(varies);
    let name = names.next()?;
    let values = results
        .iter()
        .map(|result| Some(*result.problem.timed.get(name)? as f64));
    let others: Vec<&str> = names.map(String::as_str).collect();
    let axis = if others.is_empty() {
        name.clone()
    } else {
        format!("{name} (together with {})", others.join(", "))
    };
    Some((axis, values.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flopsmith_problem::Params;

    use super::*;
    use crate::rows::tests::{by_compute, by_memory, fast};
    use crate::saved::tests::problem;

    fn at(params: Params, gflops: [f64; 2]) -> AtSize {
        let rows = gflops.map(|gflops| fast("a.c", 1, gflops));
        let mut rows: Vec<Row> = rows.into();
        rows[1].file = "b.c".into();
        AtSize::new(Arc::new(problem().timed_at(params)), rows)
    }

    fn n(n: i64) -> Params {
        [("n".to_owned(), n)].into()
    }

    #[test]
    fn programs_have_a_line_over_the_sizes_and_the_fastest_at_the_end_is_first() {
        let mut results = [at(n(64), [40.0, 20.0]), at(n(256), [30.0, 45.0])];
        for row in results.iter_mut().flat_map(|result| &mut result.rows) {
            row.place = Some(by_compute());
        }
        let plots = plots(&results);
        assert_eq!(plots.len(), 1);
        assert_eq!((&*plots[0].unit, &*plots[0].axis), ("GFLOPS", "n"));
        assert_eq!(plots[0].title, "GFLOPS on 1 thread");
        assert_eq!(plots[0].roof, [(64.0, 50.0), (256.0, 50.0)]);
        let names: Vec<&str> = plots[0]
            .lines
            .iter()
            .map(|line| line.name.as_str())
            .collect();
        assert_eq!(names, ["b.c", "a.c"]);
        let points: Vec<(f64, f64)> = plots[0].lines[0]
            .points
            .iter()
            .map(|p| (p.size, p.speed))
            .collect();
        assert_eq!(points, [(64.0, 20.0), (256.0, 45.0)]);
    }

    #[test]
    fn bytes_are_drawn_where_memory_binds_all_sizes() {
        let mut results = [at(n(64), [40.0, 20.0]), at(n(256), [30.0, 45.0])];
        for row in results.iter_mut().flat_map(|result| &mut result.rows) {
            row.place = Some(by_memory());
        }
        let drawn = plots(&results);
        assert_eq!(drawn[0].unit, "GB/s");
        assert_eq!(drawn[0].roof, [(64.0, 0.3125), (256.0, 0.3125)]);
        results[0].rows[0].place = Some(by_compute());
        assert_eq!(plots(&results)[0].unit, "GFLOPS");
    }

    #[test]
    fn a_single_size_has_no_chart_and_parameters_that_vary_together_share_an_axis() {
        assert!(plots(&[at(n(64), [40.0, 20.0])]).is_empty());
        assert!(plots(&[]).is_empty());
        let both = |m: i64, n: i64| -> Params {
            [
                ("k".to_owned(), 3),
                ("m".to_owned(), m),
                ("n".to_owned(), n),
            ]
            .into()
        };
        let results = [at(both(8, 16), [1.0, 2.0]), at(both(16, 32), [1.0, 2.0])];
        let expected = ("m (together with n)".to_owned(), vec![8.0, 16.0]);
        assert_eq!(axis(&results), Some(expected));
    }
}
