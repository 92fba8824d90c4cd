//! Measures how often the ranking of two kernels that are one per cent apart is right.
//!
//! `order [--percent 1] [--pairs 100] [--busy] [--seed 1] [--json FILE]`: the same kernel with and without additional
//! work, which takes this share of its time. Two long certifications measure their true difference. Then it measures
//! both repeatedly like ranked programs (at most 0.6 s of calls), in random order.
#![expect(clippy::print_stdout, reason = "a report for people")]

#[expect(dead_code, reason = "each of the programs needs a part of it")]
mod laboratory;

use std::time::{Duration, Instant};

use flopsmith_measure::{Limits, PADDINGS, Purpose, Timer};
use flopsmith_problem::Language;
use laboratory::again::Again;
use laboratory::words::{Words, keep};
use laboratory::{Done, Laboratory, kernels, numbers};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

const USAGE: &str = "order [--percent 1] [--pairs 100] [--busy] [--seed 1] [--json FILE]";

/// Number of steps in the faster one, so that the two differ in one number only.
const STEPS: u64 = 16;
/// Number of times that the work is sized anew until the difference is the requested one.
const ATTEMPTS: u32 = 4;
/// The difference may differ by this share from the requested one.
const NEAR: f64 = 0.15;
/// Budget for the true difference of the two.
const LONG: Limits = Limits {
    min: Duration::from_secs(4),
    max: Duration::from_secs(8),
    target_log_se: 0.0005,
    usable_log_se: 0.002,
};
/// A measurement may take this long, including the start of processes.
const AT_MOST: f64 = 1.0;

/// The two kernels.
struct Pair {
    slow_steps: u64,
    /// Additional time of the slow one, in %.
    percent: f64,
    /// Standard error of the additional time.
    percent_se: f64,
}

fn main() -> Done {
    let mut words = Words::of_this_call();
    let percent: f64 = words.value("--percent", 1.0)?;
    let pairs: u64 = words.value("--pairs", 100)?;
    let seed: u64 = words.value("--seed", 1)?;
    let busy = words.flag("--busy");
    let json: String = words.value("--json", String::new())?;
    words.nothing_else(USAGE)?;

    let laboratory = Laboratory::new()?;
    let source = kernels::FAST.render();
    let mut timer = laboratory.timer()?;
    timer.set_limits(Purpose::Certify, LONG);
    let mut again = Again::default();
    let pair = construct(&laboratory, &mut timer, &mut again, &source, percent)?;
    eprintln!(
        "the slow one lasts {:.3} % ± {:.3} longer; now {pairs} pairs",
        pair.percent,
        1.96 * pair.percent_se
    );
    let busy = if busy { Some(laboratory.busy()?) } else { None };
    let objects = [STEPS, pair.slow_steps]
        .map(|steps| kernels::delayed(&source, steps).and_then(|text| laboratory.compile(&text)));
    let [fast, slow] = objects;
    let (fast, slow) = (fast?, slow?);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut right, mut apart, mut apart_wrong) = (0u32, 0u32, 0u32);
    let (mut walls, mut raw) = (Vec::new(), Vec::new());
    for n in 0..pairs {
        let fast_first: bool = rng.random();
        let mut one = |object: &[u8]| -> Done<(f64, f64)> {
            // Start of the counted try.
            let mut start = Instant::now();
            let m = again
                .measured(|| {
                    start = Instant::now();
                    timer.measure(object, Purpose::Rank, n, None)
                })?
                .measurement;
            walls.push(start.elapsed().as_secs_f64());
            Ok((m.ratio.ln(), m.log_ratio_se))
        };
        let (of_fast, of_slow) = if fast_first {
            let of_fast = one(&fast)?;
            (of_fast, one(&slow)?)
        } else {
            let of_slow = one(&slow)?;
            (one(&fast)?, of_slow)
        };
        let difference = of_fast.0 - of_slow.0;
        let told_apart = difference.abs() > 1.96 * of_fast.1.hypot(of_slow.1);
        right += u32::from(difference > 0.0);
        apart += u32::from(told_apart);
        apart_wrong += u32::from(told_apart && difference < 0.0);
        raw.push(json!({ "fast_first": fast_first, "fast": of_fast, "slow": of_slow }));
        if (n + 1).is_multiple_of(10) {
            eprintln!("{} of {pairs}: {right} right", n + 1);
        }
    }
    println!(
        "two kernels {:.2} % apart (± {:.2}), measured as ranked{}: {right} of {pairs} pairs in the right order",
        pair.percent,
        1.96 * pair.percent_se,
        if busy.is_some() {
            ", another core busy"
        } else {
            ""
        }
    );
    let long = walls.iter().filter(|wall| **wall > AT_MOST).count();
    println!(
        "  {apart} pairs are told apart (95 %), {apart_wrong} of them the wrong way round; a measurement takes {:.2} s at the \
         median, {:.2} s at most, {long} of {} more than {AT_MOST} s",
        numbers::median(&walls),
        numbers::largest(&walls),
        walls.len()
    );
    again.print();
    let about = timer.attestation().to_json();
    keep(
        &json,
        &json!({
            "program": "order", "percent": pair.percent, "percent_se": pair.percent_se, "busy": busy.is_some(), "seed": seed,
            "right": right, "pairs": pairs, "apart": apart, "apart_wrong": apart_wrong, "wall_seconds": walls,
            "made_again": again.count,
            "log_ratios_and_errors": raw, "attestation": serde_json::from_str::<serde_json::Value>(&about)?,
        }),
    )
}

/// Sizes the additional work by long measurements, until the slow kernel is as much slower as requested.
fn construct(
    laboratory: &Laboratory,
    timer: &mut Timer,
    again: &mut Again,
    source: &str,
    percent: f64,
) -> Done<Pair> {
    let step = kernels::seconds_per_step(laboratory, timer, again, source)?;
    let (seconds, fast, fast_se) = truth(laboratory, timer, again, source, STEPS)?;
    let mut more = seconds * percent / 100.0 / step;
    for _ in 0..ATTEMPTS {
        let slow_steps = STEPS + more.round().max(1.0) as u64;
        let (_, slow, slow_se) = truth(laboratory, timer, again, source, slow_steps)?;
        let found = ((fast - slow).exp() - 1.0) * 100.0;
        eprintln!(
            "with {slow_steps} steps of {:.2} ns: {found:.3} % longer",
            step * 1e9
        );
        if (found - percent).abs() <= NEAR * percent {
            return Ok(Pair {
                slow_steps,
                percent: found,
                percent_se: fast_se.hypot(slow_se) * 100.0,
            });
        }
        // A tiny difference gives an imprecise estimate of the missing work.
        more *= (percent / found.max(percent / 4.0)).clamp(0.25, 4.0);
    }
    Err(format!("no kernel {percent} % slower could be made: this machine is too noisy").into())
}

/// Seconds of a call, ln of the ratio, and its standard error, over five layouts.
fn truth(
    laboratory: &Laboratory,
    timer: &mut Timer,
    again: &mut Again,
    source: &str,
    steps: u64,
) -> Done<(f64, f64, f64)> {
    let text = kernels::delayed(source, steps)?;
    let layouts =
        laboratory
            .compiler
            .layouts(Language::C, &laboratory.problem, &text, &PADDINGS)?;
    let m = again
        .measured(|| timer.certify(&layouts, steps))?
        .measurement;
    Ok((m.seconds_per_call, m.ratio.ln(), m.log_ratio_se))
}
