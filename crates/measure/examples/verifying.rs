//! Measures the cost of a verification.
//!
//! `verifying [--number 3] [--problems dgemm,dot]`: verifies the baseline of each problem (default: all shipped ones)
//! like a screening, in full, and in another layout. Prints the median milliseconds of each, and the number of sizes of
//! the full one.
#![expect(clippy::print_stdout, reason = "a report for people")]

#[expect(dead_code, reason = "each of the programs needs a part of it")]
mod laboratory;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use flopsmith_measure::Thoroughness;
use flopsmith_problem::Problem;
use flopsmith_protocol::TechniqueSet;
use flopsmith_test_support::shipped;
use laboratory::words::Words;
use laboratory::{Done, Laboratory, numbers};

const USAGE: &str = "verifying [--number 3] [--problems dgemm,dot]";

fn main() -> Done {
    let mut words = Words::of_this_call();
    let number: u64 = words.value("--number", 3)?;
    let named: String = words.value("--problems", String::new())?;
    words.nothing_else(USAGE)?;
    let named = named.split(',').filter(|name| !name.is_empty());
    let mut folders: Vec<PathBuf> = named.map(shipped::problem).collect();
    if folders.is_empty() {
        folders = shipped::problems();
    }
    let laboratory = Laboratory::new()?;
    for folder in folders {
        let name = shipped::name(&folder);
        let problem = Arc::new(Problem::load(&folder)?.only_first());
        let baseline = problem.baseline_source.as_ref();
        let source = baseline.unwrap_or(&problem.reference_source);
        let built = laboratory
            .compiler
            .compile(&problem, source, TechniqueSet::all())?;
        let mut verifier = laboratory.verifier_of(Arc::clone(&problem))?;
        let mut milliseconds = [const { Vec::new() }; 3];
        let mut met = String::new();
        for seed in 0..number.max(1) {
            for (thoroughness, of) in [
                Thoroughness::Screening,
                Thoroughness::OtherLayout,
                Thoroughness::Full,
            ]
            .into_iter()
            .zip(&mut milliseconds)
            {
                let began = Instant::now();
                let report = verifier.verify_to(&built.object, seed, thoroughness)?;
                of.push(began.elapsed().as_secs_f64() * 1e3);
                if let Some(sizes) = report.sizes {
                    met = sizes.to_string();
                }
            }
        }
        let [screening, other_layout, full] = milliseconds.map(|of| numbers::median(&of));
        println!(
            "{name}: screening {screening:.0} ms, other layout {other_layout:.0} ms, in full {full:.0} ms; {met}"
        );
    }
    Ok(())
}
