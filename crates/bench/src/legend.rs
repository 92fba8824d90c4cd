//! The text below a table: the references of its numbers, and the meaning of its marks.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_run::digits::{counted, four, time};

use crate::rows::Row;
use crate::table::{certificate, cold};
use crate::workloads;

/// The lines below these rows. `against` is the program that all are compared with, if there is one.
pub fn legend(rows: &[Row], against: Option<&str>) -> Vec<String> {
    let mut lines = reference_lines(rows);
    let unsure_when_cold = |row: &Row| {
        let certificate = certificate(row).filter(|c| c.cold_ratio.is_some());
        certificate.is_some_and(|c| !c.cold_converged())
    };
    let measurements = || rows.iter().filter_map(|r| r.done.verdict.measurement());
    if measurements().any(|m| !m.converged()) || rows.iter().any(unsure_when_cold) {
        lines.push(
            "~: did not converge, its time ended before it was precise enough (`flopsmith bench --help` gives the limits); it has no rank"
                .to_owned(),
        );
    }
    if let Some(row) = rows.iter().find(|r| r.is_hidden()) {
        lines.push(format!(
            "?: most of a call is the hand-shake with its process ({}), so programs can hardly be told apart: enlarge [timed] in problem.toml",
            time(row.resolution.hand_shake_seconds)
        ));
    }
    if rows.iter().filter(|r| r.rank.is_some()).count() > 1 {
        lines.push("rank: by the lower end of the interval".to_owned());
    }
    let disturbed = |row: &&Row| row.done.verdict.measurement().is_some();
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
            "worst: the workload with the lowest ratio, and that ratio; --format json has all workloads"
                .to_owned(),
        );
    }
    if rows.iter().any(|r| cold(r).is_some()) {
        lines.push(
            "cold: the same ratio for calls that find none of their arrays in a cache".to_owned(),
        );
    }
    if rows.iter().any(|r| r.place.is_some()) {
        lines.push(
            "roof: share of what compute and memory permit (the roofline), and which of them binds; data that fit a cache may exceed a memory roof"
                .to_owned(),
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

/// The speeds that ratios and shares refer to, for each number of threads, so that a reader can check the numbers.
fn reference_lines(rows: &[Row]) -> Vec<String> {
    let mut of: BTreeMap<u32, &Row> = BTreeMap::new();
    for row in rows {
        of.entry(row.threads).or_insert(row);
    }
    let speeds = |gflops: &dyn Fn(&Row) -> Option<f64>| {
        let shown = of.iter().filter_map(|(threads, row)| {
            let speed = format!("{} GFLOPS", four(gflops(row)?));
            Some(if of.len() > 1 {
                format!("{speed} on {}", counted((*threads).into(), "thread"))
            } else {
                speed
            })
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    let mut lines = vec![
        format!(
            "ratio: times as fast as the plain reference ({}); GFLOPS{} are the ratio times those of the reference",
            speeds(&|row| Some(row.reference_gflops)),
            if rows.iter().any(|r| r.gb_per_second().is_some()) {
                " and GB/s"
            } else {
                ""
            }
        ),
        "call: the time of an undisturbed call, computed from GFLOPS".to_owned(),
        format!(
            "peak: share of the measured floating-point peak ({})",
            speeds(&|row| Some(row.peak_gflops))
        ),
    ];
    let library = speeds(&|row| row.openblas_gflops);
    if !library.is_empty() {
        lines.push(format!("for comparison, OpenBLAS: {library}"));
    }
    lines
}
