//! Measures how well a measurement repeats, compared with usual methods.
//!
//! `repeat [--number 30] [--minutes 20] [--seconds 0.5] [--busy] [--fresh] [--json FILE]`: measures one kernel this
//! many times, spread over this many minutes: by Flopsmith, as the fastest of a hundred calls in a plain process, and
//! by Google Benchmark if it is installed, in the same minutes and on the same core. `--busy` keeps another core busy
//! all the time; `--fresh` makes a new timer each time, with its own baseline, buffers and reference, like separate
//! calls of the program.
#![expect(clippy::print_stdout, reason = "a report for people")]

#[expect(dead_code, reason = "each of the programs needs a part of it")]
mod laboratory;

use std::time::{Duration, Instant};

use flopsmith_measure::{Limits, Purpose, Timer};
use laboratory::again::Again;
use laboratory::peers::Peers;
use laboratory::words::{Words, keep};
use laboratory::{Done, Laboratory, kernels, numbers};
use serde_json::json;

const USAGE: &str =
    "repeat [--number 30] [--minutes 20] [--seconds 0.5] [--busy] [--fresh] [--json FILE]";

/// One quantity, once for each measurement.
struct Series {
    name: &'static str,
    values: Vec<f64>,
}

impl Series {
    fn of(name: &'static str) -> Self {
        let values = Vec::new();
        Self { name, values }
    }

    fn print(&self) {
        if self.values.is_empty() {
            return;
        }
        println!(
            "  {:<44} cv {:>7.3} %   mean {:>9.4}   {:.4} to {:.4}",
            self.name,
            numbers::variation_percent(&self.values),
            numbers::mean(&self.values),
            numbers::smallest(&self.values),
            numbers::largest(&self.values)
        );
    }
}

fn main() -> Done {
    let mut words = Words::of_this_call();
    let number: u32 = words.value("--number", 30)?;
    let minutes: f64 = words.value("--minutes", 20.0)?;
    let seconds: f64 = words.value("--seconds", 0.5)?;
    let (busy, fresh) = (words.flag("--busy"), words.flag("--fresh"));
    let json: String = words.value("--json", String::new())?;
    words.nothing_else(USAGE)?;

    let laboratory = Laboratory::new()?;
    let source = kernels::FAST.render();
    let object = laboratory.compile(&source)?;
    let peers = Peers::build(&laboratory, &source)?;
    let busy = if busy { Some(laboratory.busy()?) } else { None };
    // Measures for the requested time, independent of the samples.
    let time = Duration::try_from_secs_f64(seconds)?;
    let limits = Limits {
        min: time,
        max: time,
        target_log_se: 0.0,
        usable_log_se: f64::INFINITY,
    };
    let mut timer = timer_with(&laboratory, limits)?;
    let mut all = [
        Series::of("here: ratio to the baseline"),
        Series::of("here: ratio to the plain reference"),
        Series::of("here: GFLOPS"),
        Series::of("fastest of 100 calls, plain process: GFLOPS"),
        Series::of("median of 100 calls, plain process: GFLOPS"),
        Series::of("Google Benchmark: GFLOPS"),
    ];
    let [to_baseline, to_reference, here, fastest, median, google] = &mut all;
    let mut walls = Vec::new();
    let mut again = Again::default();
    let gflops = |seconds: f64| laboratory.flops() / seconds / 1e9;
    let between = Duration::try_from_secs_f64(minutes * 60.0 / f64::from(number.max(1)))?;
    let start = Instant::now();
    for n in 0..number {
        let due = start + between * n;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if fresh && n > 0 {
            drop(timer);
            timer = timer_with(&laboratory, limits)?;
        }
        // The first method alternates.
        for turn in 0..3 {
            match (n + turn) % 3 {
                0 => {
                    // Start of the counted try.
                    let mut began = Instant::now();
                    let timed = again.measured(|| {
                        began = Instant::now();
                        timer.measure(&object, Purpose::Rank, u64::from(n), None)
                    })?;
                    walls.push(began.elapsed().as_secs_f64());
                    let m = timed.measurement;
                    let chain = timer.chain();
                    to_baseline
                        .values
                        .push((m.ratio.ln() - chain.log_ratio).exp());
                    to_reference.values.push(m.ratio);
                    here.values.push(m.gflops);
                }
                1 => {
                    let calls = peers.plain()?;
                    fastest.values.push(gflops(calls.minimum));
                    median.values.push(gflops(calls.median));
                }
                _ => google.values.extend(peers.google()?.map(gflops)),
            }
        }
        eprintln!("{} of {number}", n + 1);
    }
    let took = start.elapsed().as_secs_f64() / 60.0;
    let beside = busy.as_ref().map_or_else(
        || "nothing of ours beside it".to_owned(),
        |b| format!("a busy loop on core {}", b.core),
    );
    println!(
        "one kernel {number} times in {took:.1} minutes, {seconds} s of calls each ({:.2} s in all at the median), {beside}:",
        numbers::median(&walls)
    );
    for series in &all {
        series.print();
    }
    again.print();
    if let Some(why) = peers.without_google() {
        println!("  Google Benchmark is left out: {why}");
    }
    let series: serde_json::Map<String, serde_json::Value> = all
        .iter()
        .map(|s| (s.name.to_owned(), json!(s.values)))
        .collect();
    let about = timer.attestation().to_json();
    keep(
        &json,
        &json!({
            "program": "repeat", "number": number, "minutes": took, "seconds": seconds, "busy": busy.is_some(), "fresh": fresh,
            "wall_seconds": walls, "made_again": again.count, "series": series,
            "attestation": serde_json::from_str::<serde_json::Value>(&about)?,
        }),
    )
}

fn timer_with(laboratory: &Laboratory, limits: Limits) -> Done<Timer> {
    let mut timer = laboratory.timer()?;
    timer.set_limits(Purpose::Rank, limits);
    Ok(timer)
}
