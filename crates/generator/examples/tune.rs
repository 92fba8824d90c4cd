//! Times programs of the schedule space with plain gcc on this machine, without a jail, since they are our own.
//!
//! `cargo run --release -p flopsmith-generator --example tune -- corpus 400` prints speed and length of programs of the
//! default corpus. `-- search 300 unroll+packing 1` searches for that many seconds, from that seed, among the programs
//! that use only the named techniques (`all`: every technique except threads).
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use flopsmith_generator::corpus::{self, CorpusConfig};
use flopsmith_generator::schedule::{Search, Share, Space};
use flopsmith_protocol::{Technique, TechniqueSet};

type Failure = Box<dyn std::error::Error>;

const DRIVER: &str = r#"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
void dgemm(int n, const double *A, const double *B, double *C);
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
int main(void) {
    int n = 256, m = n * n;
    double *A = aligned_alloc(64, m * 8), *B = aligned_alloc(64, m * 8), *C = aligned_alloc(64, m * 8), *R = calloc(m, 8);
    for (int i = 0; i < m; i++) A[i] = drand48() - .5, B[i] = drand48() - .5, C[i] = NAN;
    for (int i = 0; i < n; i++) for (int k = 0; k < n; k++) for (int j = 0; j < n; j++) R[i * n + j] += A[i * n + k] * B[k * n + j];
    dgemm(n, A, B, C);
    for (int i = 0; i < m; i++) if (!(fabs(C[i] - R[i]) < 1e-11)) return 1;
    double best = 1e9, start = now();
    for (int i = 0; i < 200 && (i < 3 || now() - start < .1); i++) {
        double t = now();
        dgemm(n, A, B, C);
        t = now() - t;
        if (t < best) best = t;
    }
    printf("%.3f\n", 2.0 * n * n * n / best / 1e9);
}
"#;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let dir = std::env::temp_dir().join(format!("flopsmith-tune-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    std::fs::write(dir.join("driver.c"), DRIVER)?;
    let done = match words.as_slice() {
        ["corpus", count] => measure_corpus(&dir, count.parse()?),
        ["search", seconds, permitted, seed] => {
            search(&dir, seconds.parse()?, permitted, seed.parse()?)
        }
        _ => Err("usage: tune corpus COUNT | tune search SECONDS TECHNIQUES SEED".into()),
    };
    std::fs::remove_dir_all(&dir)?;
    done
}

/// GFLOPS at n = 256 on one thread; none if the result is wrong.
fn gflops(dir: &Path, source: &str) -> Result<Option<f64>, Failure> {
    std::fs::write(dir.join("program.c"), source)?;
    let flags = [
        "-w",
        "-O3",
        "-march=native",
        "-fopenmp",
        "-falign-functions=64",
        "-falign-loops=64",
    ];
    let built = Command::new("gcc")
        .current_dir(dir)
        .args(flags)
        .args(["program.c", "driver.c", "-o", "program"])
        .output()?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned().into());
    }
    let ran = Command::new(dir.join("program"))
        .env("OMP_NUM_THREADS", "1")
        .output()?;
    Ok(String::from_utf8(ran.stdout)?
        .trim()
        .parse()
        .ok()
        .filter(|_| ran.status.success()))
}

fn measure_corpus(dir: &Path, count: usize) -> Result<(), Failure> {
    let config = CorpusConfig::default();
    let examples = corpus::build(&Space::dgemm(), 1, &config);
    let mut bytes: Vec<usize> = examples.iter().map(|e| e.program.len()).collect();
    bytes.sort_unstable();
    let mean = bytes.iter().sum::<usize>() as f64 / bytes.len() as f64;
    println!(
        "{} examples, {} distinct of {} that may be shown; bytes: mean {mean:.0}, median {}, longest {}",
        examples.len(),
        corpus::distinct(&examples).len(),
        corpus::shown(&Space::dgemm(), &config).count(),
        bytes[bytes.len() / 2],
        bytes[bytes.len() - 1]
    );
    let mut speeds = Vec::new();
    for example in examples.iter().take(count) {
        let speed =
            gflops(dir, &example.program)?.ok_or_else(|| format!("wrong:\n{}", example.program))?;
        speeds.push((speed, example));
    }
    speeds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean = speeds.iter().map(|s| s.0).sum::<f64>() / speeds.len() as f64;
    let at = |share: f64| speeds[((speeds.len() - 1) as f64 * share) as usize].0;
    println!(
        "GFLOPS: mean {mean:.2}; quantiles 10 % {:.2}, 50 % {:.2}, 90 % {:.2}",
        at(0.1),
        at(0.5),
        at(0.9)
    );
    for (speed, example) in speeds.iter().rev().take(8) {
        println!("{speed:.2} {}", example.techniques);
    }
    if let Some((_, example)) = speeds.last() {
        println!("{}{}", example.prompt, example.program);
    }
    Ok(())
}

fn search(dir: &Path, seconds: u64, permitted: &str, seed: u64) -> Result<(), Failure> {
    let permitted: TechniqueSet = match permitted {
        "all" => TechniqueSet::all().without(Technique::Openmp),
        names => names.parse()?,
    };
    let start = Instant::now();
    let mut search = Search::new(Space::dgemm(), seed);
    let (mut best, mut trials) = (0.0, 0);
    while start.elapsed() < Duration::from_secs(seconds) {
        for schedule in search.propose(8, permitted, Share::ALL) {
            let speed = gflops(dir, &schedule.render())?;
            search.report(&schedule, speed);
            trials += 1;
            if let Some(speed) = speed.filter(|s| *s > best) {
                best = speed;
                println!(
                    "{:4.0} s, trial {trials}: {speed:.2} {schedule:?}",
                    start.elapsed().as_secs_f64()
                );
            }
        }
    }
    println!("{trials} trials");
    Ok(())
}
