//! Results for people: one line for each program, the fastest first, and programs that did not converge below.

use std::collections::BTreeSet;

use flopsmith_measure::ranking::Compared;
use flopsmith_protocol::{Certificate, Interval, Measurement};
use flopsmith_run::console::{Column, table};
use flopsmith_run::digits::{between, four, share};
use flopsmith_run::roofline;

use crate::clock::Clock;
use crate::legend::legend;
use crate::rate::{Unit, common_unit};
use crate::rows::Row;
use crate::workloads;

/// Columns, and the cells of each row.
pub struct Grid {
    /// Headings, and whether the column holds numbers.
    pub columns: Vec<Column<'static>>,
    /// The cells, row by row.
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    /// The lines of a text; none without rows.
    pub fn lines(self) -> Vec<String> {
        // A comparison that is stopped before the first program is done prints nothing.
        if self.rows.is_empty() {
            return Vec::new();
        }
        table(&self.columns, self.rows)
    }
}

/// A table of sorted rows with its legend. `against` is the program that all are compared with, if there is one.
pub fn lines(rows: &[Row], size: &str, against: Option<&str>) -> Vec<String> {
    let mut lines = grid(rows, against).lines();
    lines.extend(below(rows, size, against));
    lines
}

/// The lines below a table of these rows.
fn below(rows: &[Row], size: &str, against: Option<&str>) -> Vec<String> {
    // The legend explains numbers, so it needs at least one.
    let any = rows
        .iter()
        .any(|row| row.done.verdict.measurement().is_some());
    if !any {
        return Vec::new();
    }
    let mut lines = vec![String::new(), format!("timed at {size}")];
    lines.extend(legend(rows, against));
    lines
}

/// The cells of sorted rows.
pub fn grid(rows: &[Row], against: Option<&str>) -> Grid {
    let unit = common_unit(rows.iter());
    let shown = Shown {
        threads: rows.iter().any(|r| r.threads != 1),
        gflops: unit != Some(Unit::GbPerSecond),
        bytes: unit != Some(Unit::Gflops) && rows.iter().any(|r| r.gb_per_second().is_some()),
        peak: unit.is_none(),
        roofs: rows.iter().any(|r| r.place.is_some()),
        cold: rows.iter().any(|r| cold(r).is_some()),
        worst: rows.iter().any(|r| workloads::worst(r).is_some()),
        against: against.is_some(),
    };
    let mut columns: Vec<Column<'static>> = vec![("rank", true), ("file", false)];
    if shown.threads {
        columns.push(("threads", true));
    }
    if shown.gflops {
        columns.push(("GFLOPS", true));
    }
    if shown.bytes {
        columns.push(("GB/s", true));
    }
    columns.extend([
        ("call", true),
        ("min", true),
        ("median", true),
        ("spread", true),
        ("ratio", true),
        ("95 % interval", false),
    ]);
    if shown.peak {
        columns.push(("peak", true));
    }
    if shown.roofs {
        columns.push(("roof", false));
    }
    if shown.worst {
        columns.push(("worst", false));
    }
    if shown.cold {
        columns.extend([("cold", true), ("95 % interval", false)]);
    }
    if shown.against {
        columns.extend([("vs", true), ("95 % interval", false)]);
    }
    columns.extend([("group", false), ("techniques", false)]);
    Grid {
        columns,
        rows: rows.iter().map(|row| cells_of(row, shown)).collect(),
    }
}

/// The optional columns.
#[derive(Clone, Copy)]
struct Shown {
    threads: bool,
    /// Unless memory binds all programs.
    gflops: bool,
    /// Unless compute binds all programs.
    bytes: bool,
    /// Where the roof is not the same for all programs, or is unknown.
    peak: bool,
    roofs: bool,
    worst: bool,
    cold: bool,
    against: bool,
}

fn cells_of(row: &Row, shown: Shown) -> Vec<String> {
    let measurement = row.done.verdict.measurement();
    let rank = match (row.rank, measurement) {
        (Some(rank), _) => rank.to_string(),
        (None, Some(_)) => UNRANKED.into(),
        (None, None) => "-".into(),
    };
    let mut cells = vec![
        rank,
        if row.against {
            format!("{} (against)", row.file)
        } else {
            row.file.clone()
        },
    ];
    if shown.threads {
        cells.push(row.threads.to_string());
    }
    if shown.gflops {
        cells.push(measurement.map_or_else(String::new, |m| four(m.gflops)));
    }
    if shown.bytes {
        cells.push(row.gb_per_second().map_or_else(String::new, four));
    }
    match measurement {
        Some(m) => {
            cells.extend(Clock::of(m).cells());
            cells.extend([marked_ratio(row, m), between(&m.interval)]);
        }
        None => cells.extend(std::iter::repeat_n(String::new(), 6)),
    }
    if shown.peak {
        cells.push(measurement.map_or_else(String::new, |m| share(m.share_of_peak)));
    }
    if shown.roofs {
        let place = row.place.as_ref();
        cells.push(place.map_or_else(String::new, roofline::short));
    }
    if shown.worst {
        cells.push(workloads::worst(row).unwrap_or_default());
    }
    if shown.cold {
        let sure = certificate(row).is_none_or(Certificate::cold_converged);
        let mark = if sure { "" } else { "~" };
        let cold = cold(row);
        let cold = cold.map(|(ratio, all)| [format!("{mark}{}", four(ratio)), between(&all)]);
        cells.extend(cold.unwrap_or_default());
    }
    if shown.against {
        cells.extend(if row.against {
            ["1".to_owned(), String::new()]
        } else {
            vs(row.to_against)
        });
    }
    cells.push(row.group.clone().unwrap_or_default());
    let techniques = || row.done.techniques.map(|t| t.words());
    cells.push(row.refusal().or_else(techniques).unwrap_or_default());
    cells
}

/// Replaces the rank of a program that did not converge.
const UNRANKED: &str = "~";

/// The ratio with the marks of its measurement.
pub(super) fn marked_ratio(row: &Row, measurement: &Measurement) -> String {
    let marks = [busy(row), hidden(row), mark(measurement)];
    format!("{}{}", marks.concat(), four(measurement.ratio))
}

/// The mark before a ratio of calls that consist mostly of the hand-shake.
fn hidden(row: &Row) -> &'static str {
    if row.is_hidden() { "?" } else { "" }
}

/// The mark before a ratio that did not converge.
fn mark(measurement: &Measurement) -> &'static str {
    if measurement.converged() { "" } else { "~" }
}

/// The mark before a ratio that was measured while other processes were at work.
fn busy(row: &Row) -> &'static str {
    if row.done.busy.is_some() { "!" } else { "" }
}

pub(super) fn certificate(row: &Row) -> Option<&Certificate> {
    row.done.verdict.measurement()?.certificate.as_ref()
}

/// The ratio of calls with cold caches, and its interval.
pub(super) fn cold(row: &Row) -> Option<(f64, Interval)> {
    let certificate = certificate(row)?;
    Some((certificate.cold_ratio?, certificate.cold_interval?))
}

fn vs(compared: Option<Compared>) -> [String; 2] {
    compared.map_or_else(Default::default, |c| [four(c.ratio), between(&c.interval)])
}

/// The reasons why programs were refused. A table in a file lacks the messages that were printed during the
/// measurements.
pub fn refusals(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut seen = BTreeSet::new();
    for row in rows {
        let Some(refusal) = row.refusal() else {
            continue;
        };
        let detail = row.detail_for_people();
        let first = detail.lines().next().unwrap_or_default();
        let line = format!("{}: {refusal}: {first}", row.file);
        if !first.is_empty() && seen.insert(line.clone()) {
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use flopsmith_measure::ranking::LogRatio;
    use flopsmith_protocol::{TechniqueSet, Verdict};
    use flopsmith_test_support::wrong;

    use super::*;
    use crate::rows::arrange;
    use crate::rows::tests::hidden as hidden_row;
    use crate::rows::tests::{by_compute, by_memory, certify, fast, row, unsure, unsure_when_cold};
    use crate::workloads::tests::over_two;

    #[test]
    fn the_fastest_program_stands_first_and_refused_ones_last() {
        let mut rows = [
            row("broken.c", 1, wrong()),
            fast("slow.c", 1, 8.0),
            fast("fast.c", 1, 40.0),
        ];
        rows[1].done.techniques = Some(TechniqueSet::EMPTY);
        if let Verdict::Rejected { detail, .. } = &mut rows[0].done.verdict {
            *detail = "n = 64: element 3 is 2 instead of 1\nmore\n".into();
        }
        arrange(&mut rows, 1);
        let lines = lines(&rows, "n = 8", None);
        let expected = "\
rank  file      GFLOPS   GB/s      call       min    median  spread  ratio  95 % interval     peak  group  techniques
   1  fast.c     40.00  5.000  838.9 µs  830.5 µs  847.2 µs  1.00 %  40.00  [39.84, 40.16]  80.0 %  a      unroll+simd
   2  slow.c     8.000  1.000  4.194 ms  4.152 ms  4.236 ms  1.00 %  8.000  [7.969, 8.031]  16.0 %  b      none
   -  broken.c                                                                                             refused: wrong_result
";
        assert_eq!(lines[..4].join("\n") + "\n", expected);
        assert_eq!(
            lines[4..10],
            [
                "",
                "timed at n = 8",
                "ratio: times as fast as the plain reference (1.000 GFLOPS); GFLOPS and GB/s are the ratio times those of the reference",
                "call: the time of an undisturbed call, computed from the ratio",
                "min, median: of the timed calls by the clock, — where not converged or more than 5 % from call; spread: their median deviation from the median",
                "peak: share of the measured floating-point peak (50.00 GFLOPS)",
            ]
        );
        assert_eq!(lines[10], "rank: by the lower end of the interval");
        assert!(lines[11].starts_with("group:"));
        assert_eq!(lines.len(), 12);
        assert_eq!(
            refusals(&rows),
            ["broken.c: refused: wrong_result: n = 64: element 3 is 2 instead of 1"]
        );
    }

    #[test]
    fn the_pages_show_the_columns_of_programs_that_compute_binds() {
        let mut rows = [
            fast("fast.c", 1, 40.0),
            fast("slow.c", 1, 8.0),
            row("broken.c", 1, wrong()),
        ];
        rows[0].place = Some(by_compute());
        rows[1].place = Some(by_compute());
        let columns: Vec<&str> = grid(&rows, None).columns.iter().map(|c| c.0).collect();
        for page in [
            include_str!("../../../docs/tutorials/your-kernel.md"),
            include_str!("../../../docs/reference/bench.md"),
        ] {
            let heading = page.lines().find(|line| line.starts_with("rank  file "));
            let shown = heading.unwrap_or_default().split("  ").map(str::trim);
            let shown: Vec<&str> = shown.filter(|column| !column.is_empty()).collect();
            assert_eq!(shown, columns);
        }
    }

    #[test]
    fn unconverged_programs_are_listed_below_without_a_rank() {
        let mut rows = [fast("good.c", 1, 128.0), unsure("wild.c", 208.0)];
        arrange(&mut rows, 1);
        let lines = lines(&rows, "n = 8", None);
        assert!(lines[1].starts_with("   1  good.c   128.0"), "{lines:?}");
        assert!(lines[2].starts_with("   ~  wild.c   208.0"), "{lines:?}");
        assert!(lines[2].contains("  ~208.0  [171.0, 253.0]"), "{lines:?}");
        assert!(
            lines.iter().any(|l| l.ends_with("it has no rank")),
            "{lines:?}"
        );
    }

    #[test]
    fn calls_that_the_clock_hides_are_said_to_be_so() {
        let mut rows = [hidden_row("t1.c", 1.02), hidden_row("t2.c", 0.98)];
        arrange(&mut rows, 1);
        let lines = lines(&rows, "m = 1, n = 1", None);
        assert!(lines[1].contains("  430.0 ns    —       —  "), "{lines:?}");
        assert!(lines[1].contains("  1.00 %   ?~1.020  ["), "{lines:?}");
        let note = lines.iter().find(|l| l.starts_with("?: "));
        assert!(
            note.is_some_and(|l| l.contains("(400.0 ns)") && l.contains("enlarge [timed]")),
            "{lines:?}"
        );
        assert!(!lines.iter().any(|l| l.starts_with("group")), "{lines:?}");
    }

    #[test]
    fn numbers_that_are_not_there_are_not_explained_and_the_compiler_names_the_users_file() {
        let mut rows = [row("tries/broken.c", 1, wrong())];
        if let Verdict::Rejected { detail, .. } = &mut rows[0].done.verdict {
            *detail = "kernel.c:3:5: error: expected `;`".into();
        }
        let lines = lines(&rows, "n = 8", None);
        assert_eq!(lines.len(), 2, "{lines:?}");
        let refusals = refusals(&rows);
        assert!(
            refusals[0].ends_with("tries/broken.c:3:5: error: expected `;`"),
            "{refusals:?}"
        );
    }

    #[test]
    fn many_notes_of_a_busy_machine_are_one_line() {
        let mut rows = [
            fast("a.c", 1, 40.0),
            fast("b.c", 1, 41.0),
            fast("c.c", 1, 42.0),
        ];
        for (row, share) in rows.iter_mut().zip([12, 30, 31]) {
            row.done.busy = Some(format!("core 1 is used {share} % by others"));
        }
        let lines = lines(&rows, "n = 8", None);
        let notes: Vec<&String> = lines.iter().filter(|l| l.starts_with("!:")).collect();
        assert_eq!(notes.len(), 1, "{lines:?}");
        assert!(
            notes[0].contains("12 %") && notes[0].ends_with("(and 2 notes like it)"),
            "{notes:?}"
        );
    }

    #[test]
    fn without_a_row_there_is_no_table() {
        assert!(lines(&[], "n = 8", Some("best.c")).is_empty());
    }

    #[test]
    fn a_library_that_was_measured_stands_beneath() {
        let mut rows = [fast("a.c", 1, 40.0), fast("a.c", 2, 70.0)];
        rows[0].openblas_gflops = Some(45.5);
        rows[0].openblas_version = Some("0.3.34".into());
        rows[1].openblas_gflops = Some(91.0);
        let expected =
            "for comparison, OpenBLAS 0.3.34: 45.50 GFLOPS on 1 thread, 91.00 GFLOPS on 2 threads";
        assert!(lines(&rows, "n = 8", None).iter().any(|l| l == expected));
        let expected = "for comparison, OpenBLAS 0.3.34: 45.50 GFLOPS";
        assert!(
            lines(&rows[..1], "n = 8", None)
                .iter()
                .any(|l| l == expected)
        );
    }

    #[test]
    fn several_numbers_of_threads_and_another_program_have_columns() {
        let mut rows = [fast("a.c", 1, 40.0), fast("a.c", 2, 70.0)];
        let before = LogRatio {
            value: 35f64.ln(),
            se: 0.002,
        };
        for row in &mut rows {
            row.to_against = row.own.map(|own| own.over(before));
        }
        arrange(&mut rows, 1);
        let lines = lines(&rows, "n = 8", Some("best.c"));
        assert!(lines[0].starts_with("rank  file  threads  GFLOPS"));
        assert!(lines[1].starts_with("   1  a.c         1   40.00"));
        assert!(lines[2].starts_with("   1  a.c         2   70.00"));
        assert!(
            lines[2].contains("  2.000  [1.989, 2.011]  a"),
            "{}",
            lines[2]
        );
        assert!(lines.iter().any(|l| l == "vs: times as fast as best.c"));
        let reference = "ratio: times as fast as the plain reference (1.000 GFLOPS on 1 thread, 1.000 GFLOPS on 2 threads)";
        assert!(lines.iter().any(|l| l.starts_with(reference)), "{lines:?}");
        assert!(!lines.iter().any(|l| l.contains("OpenBLAS")), "{lines:?}");
    }

    #[test]
    fn the_program_all_are_compared_with_has_a_row_that_is_marked() {
        let mut rows = [fast("a.c", 1, 20.0), fast("best.c", 1, 40.0)];
        rows[1].against = true;
        rows[0].to_against = rows[0]
            .own
            .zip(rows[1].own)
            .map(|(own, best)| own.over(best));
        arrange(&mut rows, 1);
        let lines = lines(&rows, "n = 8", Some("best.c"));
        let words = |n: usize| lines[n].split_whitespace().collect::<Vec<_>>();
        assert_eq!(words(1)[..4], ["1", "best.c", "(against)", "40.00"]);
        assert_eq!(words(1)[18..20], ["1", "a"]);
        assert_eq!(words(2)[..3], ["2", "a.c", "20.00"]);
        assert_eq!(words(2)[17], "0.5000");
    }

    #[test]
    fn unconverged_programs_have_a_mark_that_is_explained() {
        let mut rows = [fast("a.c", 1, 40.0), unsure("b.c", 20.0)];
        arrange(&mut rows, 1);
        let marked = lines(&rows, "n = 8", None);
        assert!(marked[1].contains("  40.00  ["), "{}", marked[1]);
        assert!(marked[2].contains("  ~20.00  ["), "{}", marked[2]);
        assert!(marked.iter().any(|l| l.starts_with("~: did not converge")));
        let sure = lines(&rows[..1], "n = 8", None);
        assert!(!sure.iter().any(|l| l.contains('~')), "{sure:?}");
    }

    #[test]
    fn results_from_a_busy_machine_have_a_mark_that_names_the_disturbance() {
        let mut rows = [fast("a.c", 1, 40.0), fast("b.c", 1, 20.0)];
        rows[1].done.busy = Some("core 1 is used 40 % by others".into());
        arrange(&mut rows, 1);
        let marked = lines(&rows, "n = 8", None);
        assert!(marked[1].contains("  40.00  ["), "{}", marked[1]);
        assert!(marked[2].contains("  !20.00  ["), "{}", marked[2]);
        let note = "!: measured while the machine was busy: core 1 is used 40 % by others";
        assert!(marked.iter().any(|l| l == note), "{marked:?}");
        let quiet = lines(&rows[..1], "n = 8", None);
        assert!(!quiet.iter().any(|l| l.contains('!')), "{quiet:?}");
    }

    #[test]
    fn ratios_of_cold_calls_have_a_column_where_there_are_any() {
        let mut rows = [fast("a.c", 1, 40.0), fast("b.c", 1, 20.0)];
        certify(&mut rows[0], None);
        arrange(&mut rows, 1);
        assert!(!lines(&rows, "n = 8", None)[0].contains("cold"));
        certify(&mut rows[0], Some(12.5));
        let shown = lines(&rows, "n = 8", None);
        assert!(shown[0].contains("  cold  95 % interval"), "{}", shown[0]);
        assert!(
            shown[1].contains("12.50  [12.00, 13.00]  a"),
            "{}",
            shown[1]
        );
        assert!(shown.iter().any(|l| l.starts_with("cold: ")));
        assert!(!shown.iter().any(|l| l.contains('~')), "{shown:?}");
        unsure_when_cold(&mut rows[0]);
        let shown = lines(&rows, "n = 8", None);
        assert!(shown[1].contains("  ~12.50  [12.00"), "{}", shown[1]);
        assert!(shown.iter().any(|l| l.starts_with("~: did not converge")));
    }

    #[test]
    fn the_worst_of_several_workloads_has_a_column() {
        let mut rows = [over_two("a.c"), row("b.c", 1, wrong())];
        arrange(&mut rows, 1);
        let lines = lines(&rows, "n = 8; n = 16", None);
        assert!(lines[0].contains("  peak  worst  "), "{}", lines[0]);
        assert!(
            lines[1].contains("  n=8 20.00 [19.92, 20.08]  a "),
            "{}",
            lines[1]
        );
        let has = |part: &str| lines.iter().any(|line| line.starts_with(part));
        assert!(has("timed at n = 8; n = 16"), "{lines:?}");
        let worst = "worst: the workload with the lowest ratio, that ratio, and its 95 % interval; all other numbers are geometric means";
        assert!(has(worst), "{lines:?}");
        let one = [fast("a.c", 1, 40.0)];
        assert!(!self::lines(&one, "n = 8", None)[0].contains("worst"));
    }

    #[test]
    fn places_under_the_roofline_have_a_column_and_speeds_the_unit_of_what_binds() {
        let mut rows = [fast("a.c", 1, 1.25), row("b.c", 1, wrong())];
        rows[0].place = Some(by_memory());
        arrange(&mut rows, 1);
        let by_bytes = lines(&rows, "n = 8", None);
        assert!(
            by_bytes[0].starts_with("rank  file    GB/s "),
            "{}",
            by_bytes[0]
        );
        assert!(by_bytes[0].contains("  95 % interval   roof           group"));
        assert!(
            by_bytes[1].contains("  50.0 % memory  a "),
            "{}",
            by_bytes[1]
        );
        let has = |all: &[String], part: &str| all.iter().any(|l| l.starts_with(part));
        assert!(has(
            &by_bytes,
            "ratio: times as fast as the plain reference (0.1250 GB/s); GB/s are"
        ));
        assert!(
            has(&by_bytes, "roof: share of the roof (0.3125 GB/s)"),
            "{by_bytes:?}"
        );
        assert!(!has(&by_bytes, "peak: "), "{by_bytes:?}");
        rows[0].place = Some(by_compute());
        let by_operations = lines(&rows, "n = 8", None);
        assert!(
            by_operations[0].starts_with("rank  file  GFLOPS "),
            "{}",
            by_operations[0]
        );
        assert!(!by_operations[0].contains("GB/s"), "{}", by_operations[0]);
        assert!(has(
            &by_operations,
            "roof: share of the roof (50.00 GFLOPS)"
        ));
    }
}
