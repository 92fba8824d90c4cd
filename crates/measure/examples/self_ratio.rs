//! Measures how well a measurement repeats: times a kernel against itself repeatedly.
//!
//! `self_ratio [MEASUREMENTS] [screen|rank|certify] [busy] [problem=NAME]`: with `busy`, other work (a compiler run)
//! takes place between the measurements, like in a training run; `raw=FOLDER` keeps the raw samples. Prints the share
//! within 1 % and the spread.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "an example that prints"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use flopsmith_compile::toolchain::Toolchain;
use flopsmith_machine::{Cores, pinning};
use flopsmith_measure::{Purpose, Timer};
use flopsmith_problem::Problem;
use flopsmith_protocol::TechniqueSet;
use flopsmith_sandbox::{Options, Sandbox};
use flopsmith_test_support::shipped;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let count: u64 = words.iter().find_map(|w| w.parse().ok()).unwrap_or(100);
    let purpose = match () {
        () if words.iter().any(|w| w == "screen") => Purpose::Screen,
        () if words.iter().any(|w| w == "certify") => Purpose::Certify,
        () => Purpose::Rank,
    };
    let busy = words.iter().any(|w| w == "busy");

    let named = words.iter().find_map(|w| w.strip_prefix("problem="));
    let root = shipped::problem(named.unwrap_or("dgemm"));
    let problem = Arc::new(Problem::load(&root).unwrap().only_first());
    let sandbox = Arc::new(
        Sandbox::new(Options {
            allow_weaker: true,
            ..Options::default()
        })
        .unwrap(),
    );
    let toolchain = Toolchain::detect(None, &problem).unwrap();
    let harness = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .join("../flopsmith-harness");
    let allowed = pinning::allowed_cores();
    let cores = Cores {
        supervisor: (allowed.len() > 1).then(|| allowed[0]),
        kernel: allowed.last().copied().into_iter().collect(),
    };
    let start = Instant::now();
    let mut timer = Timer::new(
        Arc::clone(&sandbox),
        harness,
        Arc::clone(&problem),
        &toolchain,
        cores,
        1,
    )
    .unwrap();
    println!(
        "timer ready in {:.2} s; peak {:.1}, reference {:.2}, baseline {:.1} GFLOPS",
        start.elapsed().as_secs_f64(),
        timer.peak_gflops(),
        timer.reference_gflops(),
        timer.baseline_gflops()
    );
    for line in timer.attestation().advice() {
        println!("  {line}");
    }
    let source = problem
        .baseline_source
        .as_ref()
        .unwrap_or(&problem.reference_source);
    let object = flopsmith_compile::Compiler::new(sandbox, toolchain)
        .compile(&problem, source, TechniqueSet::all())
        .unwrap()
        .object;
    let mut ratios = Vec::new();
    let (mut covered, mut seconds, mut calls) = (0, 0.0, 0);
    let (mut rounds, mut outlying) = (0, 0);
    for seed in 0..count {
        if busy {
            compile_something();
        }
        let start = Instant::now();
        let timed = timer.measure(&object, purpose, seed, None).unwrap();
        seconds += start.elapsed().as_secs_f64();
        let m = timed.measurement;
        if let Some(folder) = words.iter().find_map(|w| w.strip_prefix("raw=")) {
            std::fs::write(Path::new(folder).join(format!("{seed}.json")), &timed.raw).unwrap();
        }
        calls += m.calls;
        let raw: serde_json::Value = serde_json::from_slice(&timed.raw).unwrap();
        rounds += raw["estimate"]["rounds"].as_u64().unwrap();
        outlying += raw["estimate"]["outlying"].as_u64().unwrap();
        let chain = timer.chain();
        ratios.push((m.ratio.ln() - chain.log_ratio).exp());
        covered += u64::from((m.ratio.ln() - chain.log_ratio).abs() <= 1.96 * m.log_ratio_se);
    }
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let sd = (ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / n).sqrt();
    let within = ratios.iter().filter(|r| (*r - 1.0).abs() <= 0.01).count();
    ratios.sort_by(f64::total_cmp);
    println!(
        "{purpose:?}: {within} of {} within 1 %; mean {mean:.5}, sd {:.3} %, range {:.4} to {:.4}; {covered} intervals cover 1; {:.0} ms and {:.0} calls each of {:.1} µs",
        ratios.len(),
        sd * 100.0,
        ratios.first().copied().unwrap_or(0.0),
        ratios.last().copied().unwrap_or(0.0),
        seconds / n * 1e3,
        f64::from(calls) / n,
        timer.chain().baseline_seconds * 1e6
    );
    println!("{outlying} of {rounds} rounds were too far off to have any weight");
}

/// Work like that between the measurements of a run.
fn compile_something() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/attacks/strassen.c");
    let compiled = Command::new("gcc")
        .args(["-O3", "-march=native", "-c", "-o", "/dev/null"])
        .arg(source)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(compiled.success(), "gcc does not build the program");
}
