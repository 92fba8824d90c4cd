//! Measures the cost and the errors of screening.
//!
//! `screening [--seed 1] [--json FILE]`: makes a group of 64 programs: 40 correct ones with speeds from 0.5 to 50
//! GFLOPS, as far as this machine permits, and 24 that fail in all usual ways. It times the correct ones like a run, by
//! a screening against the best program so far, and again like elites, by a ranking.
#![expect(clippy::print_stdout, reason = "a report for people")]

#[expect(dead_code, reason = "each of the programs needs a part of it")]
mod laboratory;

use std::collections::BTreeMap;
use std::time::Instant;

use flopsmith_generator::schedule::Space;
use flopsmith_measure::{Purpose, Timer};
use flopsmith_protocol::{Failure, Technique, TechniqueSet};
use laboratory::again::Again;
use laboratory::words::{Words, keep};
use laboratory::{Done, Laboratory, kernels, numbers};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

const USAGE: &str = "screening [--seed 1] [--json FILE]";

const CORRECT: usize = 40;
const FAILING: usize = 24;
/// Speeds of the slowest and the fastest correct program, 10⁹ operations a second.
const SPEEDS: (f64, f64) = (0.5, 50.0);

/// Typical errors in programs of a model: no C, a result that is never written, a result that is wrong in the last
/// term, writes outside the buffers.
const MISTAKES: [&str; 4] = [
    "void dgemm(int n,const double*A,const double*B,double*C){ for(int i=0;i<n;i++ C[i]=A[i]; }\n",
    "void dgemm(int n,const double*A,const double*B,double*C){ }\n",
    "void dgemm(int n,const double*A,const double*B,double*C){\n for(int i=0;i<n;i++)for(int j=0;j<n;j++){\n  double c=0;\n  \
     for(int k=0;k<n-1;k++)c+=A[i*n+k]*B[k*n+j];\n  C[i*n+j]=c;\n }\n}\n",
    "void dgemm(int n,const double*A,const double*B,double*C){\n for(int i=0;i<n*n;i++)C[i]=0;\n \
     for(long i=0;i<1l<<40;i+=4096)C[i]=A[0]*B[0];\n}\n",
];

/// The speed of a program by one standard.
#[derive(Clone, Copy)]
struct Speed {
    log_ratio: f64,
    log_se: f64,
    gflops: f64,
}

fn main() -> Done {
    let mut words = Words::of_this_call();
    let seed: u64 = words.value("--seed", 1)?;
    let json: String = words.value("--json", String::new())?;
    words.nothing_else(USAGE)?;

    let laboratory = Laboratory::new()?;
    let mut timer = laboratory.timer()?;
    let mut verifier = laboratory.verifier()?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut again = Again::default();
    let mut group = spread(&laboratory, &mut timer, &mut again, &mut rng)?;
    let mistakes = MISTAKES.iter().cycle().take(FAILING);
    group.extend(mistakes.map(|source| (*source).to_owned()));
    group.shuffle(&mut rng);

    let (mut compiling, mut verifying) = (0.0, 0.0);
    let mut failed: BTreeMap<String, u32> = BTreeMap::new();
    let mut objects = Vec::new();
    for source in &group {
        let start = Instant::now();
        let built = laboratory
            .compiler
            .compile(&laboratory.problem, source, TechniqueSet::all());
        compiling += start.elapsed().as_secs_f64();
        let start = Instant::now();
        let checked = built.and_then(|built| {
            verifier.verify(&built.object, rng.random())?;
            Ok(built.object)
        });
        verifying += start.elapsed().as_secs_f64();
        match checked {
            Ok(object) => objects.push(object),
            Err(Failure::Candidate { fault, .. }) => {
                *failed.entry(fault.to_string()).or_default() += 1;
            }
            Err(other) => return Err(other.into()),
        }
    }
    if objects.len() != CORRECT {
        return Err(format!(
            "{} programs are correct instead of {CORRECT}",
            objects.len()
        )
        .into());
    }
    let (screened, screening) = time(&mut timer, &mut again, &objects, Purpose::Screen)?;
    let (ranked, ranking) = time(&mut timer, &mut again, &objects, Purpose::Rank)?;
    let (mut clear, mut reversed) = (0u32, 0u32);
    for (i, one) in ranked.iter().enumerate() {
        for (j, other) in ranked.iter().enumerate().skip(i + 1) {
            let apart = one.log_ratio - other.log_ratio;
            if apart.abs() <= 1.96 * (one.log_se + other.log_se) {
                continue;
            }
            clear += 1;
            let screened_apart = screened[i].log_ratio - screened[j].log_ratio;
            reversed += u32::from(screened_apart * apart < 0.0);
        }
    }
    let speeds: Vec<f64> = ranked.iter().map(|speed| speed.gflops).collect();
    let faults: Vec<String> = failed.iter().map(|(f, n)| format!("{n} {f}")).collect();
    println!(
        "a group of {} programs: {CORRECT} correct, {:.1} to {:.1} GFLOPS; {FAILING} not ({})",
        group.len(),
        numbers::smallest(&speeds),
        numbers::largest(&speeds),
        faults.join(", ")
    );
    let before = compiling + verifying;
    println!(
        "  compiling {compiling:.1} s, verifying {verifying:.1} s, screening {screening:.1} s, ranking {ranking:.1} s"
    );
    println!(
        "  screening costs {:.2} of ranking, and {:.2} of the group's whole time instead of {:.2}",
        screening / ranking,
        screening / (before + screening),
        ranking / (before + ranking)
    );
    println!(
        "  of {clear} pairs whose rank intervals do not overlap, screening has {reversed} in the other order"
    );
    let of = |speeds: &[Speed]| -> Vec<[f64; 3]> {
        speeds
            .iter()
            .map(|s| [s.log_ratio, s.log_se, s.gflops])
            .collect()
    };
    again.print();
    let about = timer.attestation().to_json();
    keep(
        &json,
        &json!({
            "program": "screening", "seed": seed, "compile_seconds": compiling, "verify_seconds": verifying,
            "screen_seconds": screening, "rank_seconds": ranking, "clear_pairs": clear, "reversed_pairs": reversed,
            "failed": failed, "made_again": again.count, "screened": of(&screened), "ranked": of(&ranked),
            "attestation": serde_json::from_str::<serde_json::Value>(&about)?,
        }),
    )
}

/// Correct programs of the schedule space, slowed down until their speeds are spread evenly over the decades.
fn spread(
    laboratory: &Laboratory,
    timer: &mut Timer,
    again: &mut Again,
    rng: &mut ChaCha8Rng,
) -> Done<Vec<String>> {
    let space = Space::dgemm();
    // The timer has one core.
    let permitted = TechniqueSet::all().without(Technique::Openmp);
    let mut found: Vec<(f64, String)> = Vec::new();
    while found.len() < CORRECT {
        let source = space.sample(rng, permitted).render();
        if found.iter().any(|(_, known)| *known == source) {
            continue;
        }
        let object = laboratory.compile(&source)?;
        let timed =
            again.measured(|| timer.measure(&object, Purpose::Screen, rng.random(), None))?;
        found.push((timed.measurement.seconds_per_call, source));
    }
    found.sort_by(|x, y| x.0.total_cmp(&y.0));
    let step = kernels::seconds_per_step(laboratory, timer, again, &kernels::FAST.render())?;
    let decades = (SPEEDS.1 / SPEEDS.0).ln();
    // Starting with the fastest, each program becomes as slow as its place requires, unless it is slower already.
    found
        .iter()
        .enumerate()
        .map(|(place, (seconds, source))| {
            let share = place as f64 / (CORRECT - 1) as f64;
            let gflops = SPEEDS.1 * (-decades * share).exp();
            let missing = laboratory.flops() / (gflops * 1e9) - seconds;
            kernels::delayed(source, (missing / step).max(0.0) as u64)
        })
        .collect()
}

/// Times all programs by one standard; returns the results and the seconds.
fn time(
    timer: &mut Timer,
    again: &mut Again,
    objects: &[Vec<u8>],
    purpose: Purpose,
) -> Done<(Vec<Speed>, f64)> {
    let mut best: Option<f64> = None;
    let mut speeds = Vec::with_capacity(objects.len());
    let start = Instant::now();
    for (seed, object) in (0u64..).zip(objects) {
        let m = again
            .measured(|| timer.measure(object, purpose, seed, best))?
            .measurement;
        best = Some(best.map_or(m.gflops, |best| best.max(m.gflops)));
        speeds.push(Speed {
            log_ratio: m.ratio.ln(),
            log_se: m.log_ratio_se,
            gflops: m.gflops,
        });
    }
    Ok((speeds, start.elapsed().as_secs_f64()))
}
