//! Measures how much a number depends on the addresses of the code.
//!
//! `layouts [--pairs 5] [--seed 1] [--json FILE]`: certifies two copies of a kernel with code at different addresses
//! one after the other: each copy with one layout, and with five layouts around its own, like reports. The code is
//! identical, so every difference of the two is an error. Then it certifies one of them with the other as its baseline,
//! so that their calls alternate and disturbances affect both.
#![expect(clippy::print_stdout, reason = "a report for people")]

#[expect(dead_code, reason = "each of the programs needs a part of it")]
mod laboratory;

use flopsmith_generator::schedule::{Body, Order, Outer, Pack, Schedule};
use flopsmith_measure::{PADDINGS, Timer};
use flopsmith_problem::Language;
use flopsmith_protocol::Measurement;
use laboratory::again::Again;
use laboratory::words::{Words, keep};
use laboratory::{Done, Laboratory, kernels, numbers};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

const USAGE: &str = "layouts [--pairs 5] [--seed 1] [--json FILE]";

/// Size of a cache line, to which code is aligned.
const LINE: u32 = 64;
/// Number of cache lines in a page.
const LINES: u32 = 64;

/// Plain loops, whose speed depends most on the addresses of code.
const KERNELS: [(&str, Schedule); 4] = [
    (
        "loops interchanged",
        Schedule {
            body: Body::Stream(Order::Ikj),
            ..Schedule::PLAIN
        },
    ),
    ("the plain loops", Schedule::PLAIN),
    (
        "4 × 4 doubles in registers",
        Schedule {
            body: Body::Tile {
                rows: 4,
                columns: 4,
                outer: Outer::Row,
                pack: Pack::No,
            },
            ..Schedule::PLAIN
        },
    ),
    ("vectors, registers and packing", kernels::FAST),
];

/// Difference of two measurements of one kernel, in %.
fn disagreement(one: &Measurement, other: &Measurement) -> f64 {
    ((one.ratio / other.ratio).ln().abs().exp() - 1.0) * 100.0
}

/// Difference of a kernel from its copy that is the timer's baseline, in %.
fn from_its_copy(timer: &Timer, measured: &Measurement) -> f64 {
    ((measured.ratio.ln() - timer.chain().log_ratio).abs().exp() - 1.0) * 100.0
}

fn overlap(one: &Measurement, other: &Measurement) -> bool {
    one.interval.low <= other.interval.high && other.interval.low <= one.interval.high
}

fn main() -> Done {
    let mut words = Words::of_this_call();
    let pairs: u32 = words.value("--pairs", 5)?;
    let seed: u64 = words.value("--seed", 1)?;
    let json: String = words.value("--json", String::new())?;
    words.nothing_else(USAGE)?;

    let laboratory = Laboratory::new()?;
    let mut timer = laboratory.timer()?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut alone, mut certified) = (Vec::new(), Vec::new());
    let (mut alone_in_turn, mut certified_in_turn) = (Vec::new(), Vec::new());
    let mut overlapping = 0;
    let mut again = Again::default();
    let mut raw = Vec::new();
    for (name, schedule) in KERNELS {
        let source = schedule.render();
        let mut beside_itself = laboratory.timer_against(&source)?;
        for _ in 0..pairs {
            let first = rng.random_range(0..LINES) * LINE;
            // Another line of the page.
            let second = (first + rng.random_range(1..LINES) * LINE) % (LINES * LINE);
            let [first_copies, second_copies] = [first, second].map(|base| {
                let places = PADDINGS.map(|padding| base + padding);
                laboratory
                    .compiler
                    .layouts(Language::C, &laboratory.problem, &source, &places)
            });
            let (first_copies, second_copies) = (first_copies?, second_copies?);
            let mut certify =
                |copies: &[Vec<u8>]| again.measured(|| timer.certify(copies, rng.random()));
            let one = certify(&first_copies[..1])?.measurement;
            let other = certify(&second_copies[..1])?.measurement;
            let one_of_five = certify(&first_copies)?.measurement;
            let other_of_five = certify(&second_copies)?.measurement;
            alone.push(disagreement(&one, &other));
            certified.push(disagreement(&one_of_five, &other_of_five));
            overlapping += u32::from(overlap(&one_of_five, &other_of_five));
            // The code of the baseline has the compiler's own address.
            let mut in_turn =
                |copies: &[Vec<u8>]| again.measured(|| beside_itself.certify(copies, rng.random()));
            let beside = in_turn(&second_copies[..1])?.measurement;
            let beside_of_five = in_turn(&second_copies)?.measurement;
            alone_in_turn.push(from_its_copy(&beside_itself, &beside));
            certified_in_turn.push(from_its_copy(&beside_itself, &beside_of_five));
            eprintln!(
                "{name}, {first} and {second} bytes: {:.3} % alone, {:.3} % over five places; in turn {:.3} % and {:.3} %",
                disagreement(&one, &other),
                disagreement(&one_of_five, &other_of_five),
                from_its_copy(&beside_itself, &beside),
                from_its_copy(&beside_itself, &beside_of_five)
            );
            raw.push(json!({
                "kernel": name, "paddings": [first, second], "alone": [one, other], "certified": [one_of_five, other_of_five],
                "in_turn": [beside, beside_of_five], "baseline_log_ratio": beside_itself.chain().log_ratio,
            }));
        }
    }
    println!(
        "{} pairs of copies of {} kernels at different addresses, each copy certified:",
        alone.len(),
        KERNELS.len()
    );
    for (what, all) in [
        ("at its one place", &alone),
        ("at five places around it", &certified),
        ("at its one place, in turn", &alone_in_turn),
        ("at five places, in turn", &certified_in_turn),
    ] {
        println!(
            "  {what:<26} disagreement {:.3} % at the median, {:.3} % at most",
            numbers::median(all),
            numbers::largest(all)
        );
    }
    println!(
        "  the certified intervals overlap in {overlapping} of {} pairs",
        certified.len()
    );
    again.print();
    let about = timer.attestation().to_json();
    keep(
        &json,
        &json!({
            "program": "layouts", "seed": seed, "percent_alone": alone, "percent_certified": certified,
            "percent_alone_in_turn": alone_in_turn, "percent_certified_in_turn": certified_in_turn,
            "overlapping": overlapping, "made_again": again.count, "pairs": raw,
            "attestation": serde_json::from_str::<serde_json::Value>(&about)?,
        }),
    )
}
