//! Measures the cost of each stage.
//!
//! `stages [--number 40] [--programs FOLDER] [--json FILE]`: compiles, verifies and screens three correct programs of
//! dgemm in turns: the plain reference, the baseline and a register-blocked kernel; or the `*.c` of a folder, all of
//! them correct. Prints the milliseconds of each stage, and separately those of a screening's timed calls; for several
//! programs of a folder their means as well.
#![expect(clippy::print_stdout, reason = "a report for people")]

#[expect(dead_code, reason = "each of the programs needs a part of it")]
mod laboratory;

use std::time::Instant;

use flopsmith_measure::Purpose;
use laboratory::words::{Words, keep};
use laboratory::{Done, Laboratory, harnessed, kernels, numbers};
use serde_json::json;

const USAGE: &str = "stages [--number 40] [--programs FOLDER] [--json FILE]";

fn main() -> Done {
    let mut words = Words::of_this_call();
    let number: u32 = words.value("--number", 40)?;
    let folder: String = words.value("--programs", String::new())?;
    let json: String = words.value("--json", String::new())?;
    words.nothing_else(USAGE)?;

    let laboratory = Laboratory::new()?;
    let problem = &laboratory.problem;
    let baseline = problem.baseline_source.as_ref();
    let programs = match folder.as_str() {
        "" => vec![
            ("reference".to_owned(), problem.reference_source.clone()),
            (
                "baseline".to_owned(),
                baseline.unwrap_or(&problem.reference_source).clone(),
            ),
            ("blocked".to_owned(), kernels::FAST.render()),
        ],
        folder => sources(folder)?,
    };
    let mut verifier = laboratory.verifier()?;
    let mut timer = laboratory.timer()?;
    let mut costs: Vec<[Vec<f64>; 4]> = vec![Default::default(); programs.len()];
    for n in 0..=u64::from(number) {
        for ((_, source), costs) in programs.iter().zip(&mut costs) {
            let begin = Instant::now();
            let object = laboratory.compile(source)?;
            let compiled = Instant::now();
            verifier.verify(&object, n)?;
            let verified = Instant::now();
            let timed = timer.measure(&object, Purpose::Screen, n, None)?;
            let screened = verified.elapsed();
            let calls = harnessed::seconds_of_calls(&timed.raw)?;
            let stages = [compiled - begin, verified - compiled, screened];
            // The first job finds cold caches.
            if n == 0 {
                continue;
            }
            for (cost, seconds) in costs
                .iter_mut()
                .zip(stages.map(|s| s.as_secs_f64()).into_iter().chain([calls]))
            {
                cost.push(seconds * 1e3);
            }
        }
    }
    let mut all = Vec::new();
    for ((name, _), [compile, verify, screen, calls]) in programs.iter().zip(&costs) {
        let median = [compile, verify, screen, calls].map(|x| numbers::median(x));
        println!(
            "{name}: compile {:.1} ms, verify {:.1} ms, screen {:.1} ms, of which timed calls {:.1} ms (medians, n = {number})",
            median[0], median[1], median[2], median[3]
        );
        all.push(json!({ "program": name, "compile_ms": compile, "verify_ms": verify, "screen_ms": screen, "calls_ms": calls }));
    }
    if !folder.is_empty() {
        let mean = [0, 1, 2, 3].map(|stage| {
            let of = costs.iter().map(|costs| numbers::median(&costs[stage]));
            of.sum::<f64>() / costs.len().max(1) as f64
        });
        println!(
            "mean of {} programs: compile {:.1} ms, verify {:.1} ms, screen {:.1} ms, of which timed calls {:.1} ms",
            costs.len(),
            mean[0],
            mean[1],
            mean[2],
            mean[3]
        );
    }
    keep(
        &json,
        &json!({ "program": "stages", "number": number, "programs": all }),
    )
}

/// The programs of a folder and their names.
fn sources(folder: &str) -> Done<Vec<(String, String)>> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Done<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|e| e == "c"));
    paths.sort();
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok((name.into_owned(), std::fs::read_to_string(&path)?))
    };
    paths.into_iter().map(read).collect()
}
