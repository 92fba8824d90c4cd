//! The text below a table: the references of its numbers, and the meaning of its marks.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_report::text::openblas;
use flopsmith_run::digits::{counted, four, time};

use crate::rate::{Unit, common_unit};
use crate::rows::Row;
use crate::table::{certificate, cold};
use crate::workloads;

/// The lines below these rows. `against` is the program that all are compared with, if there is one.
pub fn legend(rows: &[Row], against: Option<&str>) -> Vec<String> {
    let mut lines = reference_lines(rows);
    lines.extend(marks(&rows.iter().collect::<Vec<_>>(), against));
    lines
}

/// The meaning of the marks of these rows.
fn marks(rows: &[&Row], against: Option<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    let unsure_when_cold = |row: &Row| {
        let certificate = certificate(row).filter(|c| c.cold_ratio.is_some());
        certificate.is_some_and(|c| !c.cold_converged())
    };
    let measurements = || rows.iter().filter_map(|r| r.done.verdict.measurement());
    if measurements().any(|m| !m.converged()) || rows.iter().copied().any(unsure_when_cold) {
        lines.push(
            "~: did not converge, its time ended before it was precise enough (`flopsmith bench --help` gives the limits); it has no rank"
                .to_owned(),
        );
    }
    if let Some(row) = rows.iter().find(|r| r.is_hidden()) {
        lines.push(format!(
            "?: most of a call is the hand-shake with its process ({}), so programs can hardly be told apart: enlarge [timed] in problem.toml, or pass a larger --size",
            time(row.resolution.hand_shake_seconds)
        ));
    }
    if rows.iter().filter(|r| r.rank.is_some()).count() > 1 {
        lines.push("rank: by the lower end of the interval".to_owned());
    }
    let disturbed = |row: &&&Row| row.done.verdict.measurement().is_some();
    let reasons: BTreeSet<&str> = rows
        .iter()
        .filter(disturbed)
        .filter_map(|row| row.done.busy.as_deref())
        .collect();
    if let Some(why) = reasons.first() {
        let more = match reasons.len() {
            1 => String::new(),
            several => format!(" (and {} like it)", counted(several as u64 - 1, "note")),
        };
        lines.push(format!(
            "!: measured while the machine was busy: {why}{more}"
        ));
    }
    if rows.iter().any(|r| workloads::worst(r).is_some()) {
        lines.push(
            "worst: the workload with the lowest ratio, that ratio, and its 95 % interval; all other numbers are geometric means over the workloads, but spread is the largest, and --format json has each"
                .to_owned(),
        );
    }
    if rows.iter().any(|r| cold(r).is_some()) {
        lines.push(
            "cold: the same ratio for calls that find none of their arrays in a cache".to_owned(),
        );
    }
    if let Some(against) = against {
        lines.push(format!("vs: times as fast as {against}"));
    }
    if rows.iter().filter(|r| r.group.is_some()).count() > 1 {
        lines.push("group: programs that share a letter cannot be told apart".to_owned());
    }
    lines
}

/// The speeds that ratios and shares refer to, for each number of threads, so that a reader can check the numbers; none
/// before a machine was measured.
fn reference_lines(rows: &[Row]) -> Vec<String> {
    let common = common_unit(rows.iter());
    let unit = common.unwrap_or(Unit::Gflops);
    let of = |gflops: &dyn Fn(&Row) -> Option<f64>| by_threads(rows, unit, gflops);
    let both = common.is_none() && rows.iter().any(|r| r.gb_per_second().is_some());
    let told = if both {
        "GFLOPS and GB/s".to_owned()
    } else {
        unit.to_string()
    };
    let reference = of(&|row| row.reference_gflops);
    if reference.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!(
        "{RATIO} ({reference}); {told} are the ratio times those of the reference"
    )];
    lines.extend(TIMES.map(str::to_owned));
    if common.is_none() {
        let peaks = of(&|row| row.peak_gflops);
        lines.push(format!("{PEAK} ({peaks})"));
    }
    let roofs = of(&|row| row.place.as_ref().map(|place| place.roof_gflops));
    if !roofs.is_empty() {
        lines.push(format!("{ROOF} ({roofs}) {ROOF_CONTINUED}"));
    }
    let library = of(&|row| row.openblas_gflops);
    if !library.is_empty() {
        let version = rows.iter().find_map(|row| row.openblas_version.as_deref());
        lines.push(format!("for comparison, {}: {library}", openblas(version)));
    }
    lines
}

/// The meaning of the columns and marks of several sizes, whose references stand above each table.
pub fn of_all_sizes(rows: &[&Row], against: Option<&str>) -> Vec<String> {
    let mut lines = vec![RATIO.to_owned()];
    lines.extend(TIMES.map(str::to_owned));
    if rows
        .iter()
        .any(|row| row.done.verdict.measurement().is_some() && row.place.is_none())
    {
        lines.push(PEAK.to_owned());
    }
    if rows.iter().any(|row| row.place.is_some()) {
        lines.push(format!("{ROOF} {ROOF_CONTINUED}"));
    }
    lines.extend(marks(rows, against));
    lines
}

const RATIO: &str = "ratio: times as fast as the plain reference";
const TIMES: [&str; 2] = [
    "call: the time of an undisturbed call, computed from the ratio",
    "min, median: of the timed calls by the clock, — where not converged or more than 5 % from call; spread: their median deviation from the median",
];
const PEAK: &str = "peak: share of the measured floating-point peak";
const ROOF: &str = "roof: share of the roof";
const ROOF_CONTINUED: &str = "that compute and memory permit (the roofline), and which of them binds; data that fit a cache may exceed a memory roof";

/// A speed for each number of threads in this unit, of the first row that has it.
pub fn by_threads(rows: &[Row], unit: Unit, gflops: &dyn Fn(&Row) -> Option<f64>) -> String {
    let mut of: BTreeMap<u32, Option<f64>> = BTreeMap::new();
    for row in rows {
        let known = of.entry(row.threads).or_default();
        *known = known.or_else(|| row.told_in(unit, gflops(row)?));
    }
    let several = of.len() > 1;
    let shown = of.into_iter().filter_map(|(threads, speed)| {
        let speed = format!("{} {unit}", four(speed?));
        Some(if several {
            format!("{speed} on {}", counted(threads.into(), "thread"))
        } else {
            speed
        })
    });
    shown.collect::<Vec<_>>().join(", ")
}
