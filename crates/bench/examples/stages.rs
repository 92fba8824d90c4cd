//! What does a stage cost?
//!
//! `stages [--number 40] [--json FILE]`: compiles, verifies and screens three correct programs of dgemm in turns: the plain
//! reference, the baseline and a register-blocked kernel. Prints the milliseconds of each stage, those of a screening's timed
//! calls apart.
#![expect(clippy::print_stdout, reason = "a report for people")]

#[expect(dead_code, reason = "each of the programs needs a part of it")]
mod laboratory;

use std::time::Instant;

use flopsmith_bench::Purpose;
use laboratory::words::{Words, keep};
use laboratory::{Done, Laboratory, harnessed, kernels, numbers};
use serde_json::json;

const USAGE: &str = "stages [--number 40] [--json FILE]";

fn main() -> Done {
    let mut words = Words::of_this_call();
    let number: u32 = words.value("--number", 40)?;
    let json: String = words.value("--json", String::new())?;
    words.nothing_else(USAGE)?;

    let laboratory = Laboratory::new()?;
    let problem = &laboratory.problem;
    let baseline = problem.baseline_source.as_ref();
    let programs = [
        ("reference", problem.reference_source.clone()),
        (
            "baseline",
            baseline.unwrap_or(&problem.reference_source).clone(),
        ),
        ("blocked", kernels::FAST.render()),
    ];
    let mut verifier = laboratory.verifier()?;
    let mut timer = laboratory.timer()?;
    let mut costs: [[Vec<f64>; 4]; 3] = Default::default();
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
            // The first one finds nothing in the caches.
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
    keep(
        &json,
        &json!({ "program": "stages", "number": number, "programs": all }),
    )
}
