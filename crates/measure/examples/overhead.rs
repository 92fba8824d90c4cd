//! Measures the cost of a jail, and counts its leftovers.
//!
//! `overhead [--number 200] [--jobs 0] [--json FILE]`: measures the whole life of a jailed program that returns at
//! once, and of the same program without a jail, in turns; then that of jail and harness, in a verification of small
//! calls and in a screening less its calls. With `--jobs 10000` it runs so many jobs that end in every possible way, a
//! fifth of them verifications ([`SHARES`]), and counts all resources of this process and of the machine before and
//! after.
#![expect(clippy::print_stdout, reason = "a report for people")]

#[expect(dead_code, reason = "each of the programs needs a part of it")]
mod laboratory;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flopsmith_sandbox::{Exit, Job, Kind, Sandbox};
use flopsmith_test_support::traces::{self, Traces};
use laboratory::harnessed::Harnessed;
use laboratory::words::{Words, keep};
use laboratory::{Done, Laboratory, numbers};
use serde_json::json;

const USAGE: &str = "overhead [--number 200] [--jobs 0] [--json FILE]";

/// The jails, and their names.
const KINDS: [(&str, Kind); 2] = [
    ("run", Kind::Run { threads: 1 }),
    ("compile", Kind::Compile),
];
/// Of a thousand jobs of the leak run, the numbers of jobs through the harness and through the compiler; the rest are
/// jails only.
const SHARES: &str = "of a thousand jobs 150 are verifications, 50 of programs that die, 20 screenings, 10 compilations, 1 is a new timer";
/// Path of the program in the jail.
const INSIDE: &str = "/program";
/// After this many jobs, everything that is made once exists.
const FIRST: u64 = 40;

fn main() -> Done {
    let mut words = Words::of_this_call();
    let number: u32 = words.value("--number", 200)?;
    let jobs: u64 = words.value("--jobs", 0)?;
    let json: String = words.value("--json", String::new())?;
    words.nothing_else(USAGE)?;

    let folder = tempfile::tempdir()?;
    let program = folder.path().join("program");
    build(folder.path(), &program)?;
    let laboratory = Laboratory::new()?;
    let mut all = Vec::new();
    for (name, kind) in KINDS {
        all.push(beside_bare(name, &program, number, |_| {
            let start = Instant::now();
            let finished = laboratory.sandbox.run(&job(kind, &program))?;
            let whole = start.elapsed().as_secs_f64();
            if !finished.exit.success() {
                return Err(format!("the program in the jail ended as {:?}", finished.exit).into());
            }
            Ok(whole)
        })?);
    }
    let mut harnessed = Harnessed::new(&laboratory)?;
    let verification = |seed| harnessed.verification(seed);
    all.push(beside_bare("verification", &program, number, verification)?);
    let screening = |seed| harnessed.screening(seed);
    all.push(beside_bare("screening", &program, number, screening)?);
    drop(harnessed);
    let leaks = if jobs > 0 {
        leak_run(laboratory, &program, jobs)?
    } else {
        serde_json::Value::Null
    };
    keep(
        &json,
        &json!({ "program": "overhead", "number": number, "kinds": all, "leaks": leaks }),
    )
}

/// The cost of one kind of job, compared with the bare process in turns. `run` returns the seconds of a job.
fn beside_bare(
    name: &str,
    program: &Path,
    number: u32,
    mut run: impl FnMut(u64) -> Done<f64>,
) -> Done<serde_json::Value> {
    let (mut jailed, mut bare) = (Vec::new(), Vec::new());
    for n in 0..=number {
        let plain = bare_seconds(program)?;
        let whole = run(u64::from(n))?;
        // The first job finds cold caches.
        if n > 0 {
            jailed.push(whole * 1e3);
            bare.push(plain * 1e3);
        }
    }
    let more: Vec<f64> = jailed.iter().zip(&bare).map(|(j, b)| j - b).collect();
    println!(
        "a {name} job costs {:.2} ms more than the bare process at the median, {:.2} ms at 95 % (a job {:.2} ms, the process {:.2} ms; n = {number})",
        numbers::median(&more),
        numbers::quantile(&more, 0.95),
        numbers::median(&jailed),
        numbers::median(&bare)
    );
    Ok(json!({ "kind": name, "jailed_ms": jailed, "bare_ms": bare }))
}

/// A program that returns at once.
fn build(folder: &Path, program: &Path) -> Done {
    let source = folder.join("program.c");
    // It runs for long if requested, so that it can be killed.
    std::fs::write(
        &source,
        "int main(int argc, char **argv) { if (argc < 2) return 0; if (argv[1][0] == 'l') for (;;) ; return 3; }\n",
    )?;
    let built = Command::new("gcc")
        .args(["-O1", "-o"])
        .args([program, source.as_path()])
        .status()?;
    if built.success() {
        Ok(())
    } else {
        Err("gcc could not build a program of one line".into())
    }
}

fn job(kind: Kind, program: &Path) -> Job {
    let mut job = Job::new(kind, [INSIDE]);
    job.read_only = vec![(program.to_owned(), INSIDE.into())];
    job
}

/// Time from start to end without a jail.
fn bare_seconds(program: &Path) -> Done<f64> {
    let start = Instant::now();
    let status = Command::new(program)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    let seconds = start.elapsed().as_secs_f64();
    if status.success() {
        Ok(seconds)
    } else {
        Err(format!("the bare program ended as {status}").into())
    }
}

/// One job of the leak run, see [`SHARES`].
fn one_of_all(harnessed: &mut Harnessed<'_>, sandbox: &Sandbox, program: &Path, n: u64) -> Done {
    match (n % 1000, n % 100, n % 50, n % 20) {
        (14, ..) => harnessed.another_timer(),
        (_, 24, ..) => harnessed.compilation(),
        (_, _, 4, _) => harnessed.screening(n).map(|_seconds| ()),
        (.., 3 | 13 | 16) => harnessed.verification(n).map(|_seconds| ()),
        (.., 6) => harnessed.death(n),
        _ => jail_alone(sandbox, program, n),
    }
}

/// A job without the harness: most end by themselves, some are killed, some cannot be started.
fn jail_alone(sandbox: &Sandbox, program: &Path, n: u64) -> Done {
    let (_, kind) = KINDS[usize::from(n.is_multiple_of(4))];
    let mut job = job(kind, program);
    let expected = match n % 10 {
        7 => {
            job.program.push("other".into());
            Exit::Code(3)
        }
        8 => {
            job.program.push("long".into());
            job.limits.wall = Duration::from_millis(5);
            Exit::WallTimeout
        }
        9 => {
            job.program = vec!["/no/such".into()];
            return match sandbox.run(&job) {
                Err(_) => Ok(()),
                Ok(finished) => {
                    Err(format!("nothing was started, and it ended as {:?}", finished.exit).into())
                }
            };
        }
        _ => Exit::Code(0),
    };
    let found = sandbox.run(&job)?.exit;
    if found == expected {
        Ok(())
    } else {
        Err(format!("job {n} ended as {found:?} instead of {expected:?}").into())
    }
}

/// Runs this many jobs and reports which resources grew. Stages and sandbox end before the last count, with their
/// resources.
fn leak_run(laboratory: Laboratory, program: &Path, jobs: u64) -> Done<serde_json::Value> {
    let mut harnessed = Harnessed::new(&laboratory)?;
    let mut one = |n| one_of_all(&mut harnessed, &laboratory.sandbox, program, n);
    for n in 0..FIRST {
        one(n)?;
    }
    let before = traces::take();
    let start = Instant::now();
    for n in 0..jobs {
        one(n)?;
        if (n + 1).is_multiple_of(1000) {
            eprintln!("{} of {jobs} jobs", n + 1);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let after = traces::take();
    drop(harnessed);
    drop(laboratory);
    let without = traces::take();
    println!(
        "{jobs} jobs in {seconds:.0} s ({:.2} ms each; {SHARES}):",
        seconds / jobs as f64 * 1e3
    );
    println!(
        "  {:<44}{:>10}{:>10}{:>10}{:>18}",
        "", "before", "after", "more", "without sandbox"
    );
    for (((what, before), (_, after)), (_, without)) in before.iter().zip(&after).zip(&without) {
        let more = *after as i64 - *before as i64;
        println!("  {what:<44}{before:>10}{after:>10}{more:>+10}{without:>18}");
    }
    let object = |traces: &Traces| -> serde_json::Map<String, serde_json::Value> {
        traces
            .iter()
            .map(|(what, count)| ((*what).to_owned(), json!(count)))
            .collect()
    };
    Ok(json!({
        "jobs": jobs, "seconds": seconds, "shares": SHARES,
        "before": object(&before), "after": object(&after), "without_sandbox": object(&without),
    }))
}
