//! Searches many seeds for one that breaks an invariant.
//!
//! ```text
//! cargo run --release -p flopsmith-simulation --example explore -- --seeds 10000 --workers 1000
//! ```
//!
//! - `--from`: the first seed;
//! - `--workers`: the number of evaluating nodes (`--nodes` and `--step` set nodes and samples of a step separately);
//! - `--steps`: the number of training steps;
//! - `--seconds`: the time during which faults strike;
//! - `--only`: the kinds of faults (`--only list` names them);
//! - `--patience`: the seconds after the last fault within which the run must be complete;
//! - `--mutation`: a mutation of the protocol (`--mutation list` names them);
//! - `--trace`: prints the last events of the found seed.
//!
//! Exit code 1 means that a seed was found, 2 that the arguments are invalid.
#![expect(clippy::print_stdout, reason = "a program for the command line")]

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;

use flopsmith_simulation::{Config, Kind, Mutation, SECOND, simulate};

struct Arguments {
    seeds: u64,
    from: u64,
    trace: bool,
    config: Config,
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{name}: `{text}` is not a number"))
}

fn read(arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut read = Arguments {
        seeds: 1000,
        from: 0,
        trace: false,
        config: Config::small(),
    };
    let mut arguments = arguments;
    while let Some(name) = arguments.next() {
        if name == "--trace" {
            read.trace = true;
            continue;
        }
        let value = arguments
            .next()
            .ok_or_else(|| format!("{name} needs a value"))?;
        let config = &mut read.config;
        match name.as_str() {
            "--seeds" => read.seeds = number(&name, &value)?,
            "--from" => read.from = number(&name, &value)?,
            "--steps" => config.steps = number(&name, &value)?,
            "--patience" => config.patience = number::<u64>(&name, &value)? * SECOND,
            "--seconds" => config.faults_for = number::<u64>(&name, &value)? * SECOND,
            "--workers" => {
                let workers: u32 = number(&name, &value)?;
                *config = Config {
                    steps: config.steps,
                    faults_for: config.faults_for,
                    mutation: config.mutation,
                    only: config.only.clone(),
                    ..Config::with_workers(workers)
                };
            }
            "--nodes" => {
                let counts: Result<Vec<u32>, String> =
                    value.split(',').map(|text| number(&name, text)).collect();
                let [generators, compilers, verifiers, timers, singles] = counts?[..] else {
                    return Err("--nodes takes five numbers: generators, compilers, verifiers, timers, nodes for each lease".to_owned());
                };
                *config = Config {
                    generators,
                    compilers,
                    verifiers,
                    timers,
                    singles,
                    ..config.clone()
                };
            }
            "--step" => {
                let (tasks, group) = value
                    .split_once('x')
                    .ok_or("--step takes tasks x samples, such as 3x4")?;
                config.tasks = number(&name, tasks)?;
                config.group = number(&name, group)?;
            }
            "--rounds" => config.rounds = number(&name, &value)?,
            "--ahead" => config.ahead = number(&name, &value)?,
            "--only" => {
                let named = |told: &str| {
                    let mut kinds = Kind::ALL.iter().copied();
                    let found = kinds.find(|kind| format!("{kind:?}") == told);
                    found.ok_or_else(|| format!("faults: {:?}", Kind::ALL))
                };
                config.only = value.split(',').map(named).collect::<Result<_, _>>()?;
            }
            "--mutation" => {
                let names = || Mutation::ALL.iter().map(|m| m.name()).collect::<Vec<_>>();
                let unknown = || format!("mutations: {}", names().join(", "));
                config.mutation = Some(Mutation::named(&value).ok_or_else(unknown)?);
            }
            _ => return Err(format!("unknown argument {name}")),
        }
    }
    Ok(read)
}

fn main() -> ExitCode {
    let Arguments {
        seeds,
        from,
        trace,
        mut config,
    } = match read(std::env::args().skip(1)) {
        Ok(read) => read,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    config.trace = if trace { 80 } else { 0 };
    let began = Instant::now();
    let (mut events, mut given_up, mut samples, mut lasted) = (0, 0, 0, 0);
    let (mut lost, mut to_nobody, mut to_its_own, mut taken_over) = (0, 0, 0, 0);
    let (mut role_failures, mut longest) = (0, 0);
    let mut faults = vec![0; Kind::ALL.len()];
    let mut found = None;
    let shows = std::io::stderr().is_terminal();
    for seed in from..from.saturating_add(seeds) {
        match simulate(&config, seed) {
            Ok(report) => {
                events += report.events;
                given_up += report.given_up();
                samples += report.outcomes.len();
                lasted += report.lasted;
                lost += report.losses.leases;
                to_nobody += report.losses.to_nobody;
                to_its_own += report.losses.to_its_own_write;
                taken_over += report.taken_over;
                longest = longest.max(report.lasted);
                role_failures += report.role_failures;
                for (sum, (_, count)) in faults.iter_mut().zip(&report.faults) {
                    *sum += count;
                }
            }
            Err(violation) => {
                events += violation.events;
                found = Some(violation);
                break;
            }
        }
        if shows && (seed - from) % 20 == 0 {
            eprint!("\r{} of {seeds} seeds", seed - from + 1);
        }
    }
    if shows {
        eprint!("\r\x1b[K");
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{events} events in {seconds:.1} s: {:.0} events a second",
        events as f64 / seconds
    );
    println!(
        "{samples} samples, {given_up} of them given up; {} s of virtual time, {} of them in the longest run",
        lasted / SECOND,
        longest / SECOND
    );
    println!(
        "{role_failures} failures of roles; {taken_over} leases taken over; {lost} lost by the living, {to_nobody} of them to nobody, {to_its_own} of these to a write of their own"
    );
    for (kind, count) in Kind::ALL.iter().zip(&faults) {
        println!("{count:10} {}", kind.told());
    }
    match found {
        Some(violation) => {
            println!("{violation}");
            ExitCode::FAILURE
        }
        None => {
            println!("every invariant held under all {seeds} seeds");
            ExitCode::SUCCESS
        }
    }
}
