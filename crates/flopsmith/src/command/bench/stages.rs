//! What every program goes through: one verifier, and one timer for each number of threads, shared by all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use flopsmith_bench::roofline::Place;
use flopsmith_bench::{Chain, Purpose, Timer, Verifier, environment};
use flopsmith_sandbox::Sandbox;

use super::Order;
use super::inputs::Program;
use super::ratio::LogRatio;
use super::rows::{Machine, Row};
use crate::evaluator::{Evaluated, Evaluator, Prepared};
use crate::exit::say;

/// How long the cores are looked at before a program is timed: the kernel books a sixteenth of it at a time.
const LOOK: Duration = Duration::from_millis(160);

/// The stages of this machine.
pub struct Stages {
    evaluator: Evaluator,
    verifier: Verifier,
    clocks: Vec<Clock>,
    purpose: Purpose,
    /// Programs of a ranking, which may be timed more than once.
    ready: BTreeMap<String, Prepared>,
}

/// The timer of one number of threads.
struct Clock {
    threads: u32,
    timer: Timer,
    machine: Arc<Machine>,
    /// The fastest program so far: a screening need not be sure how much slower another one is.
    best_gflops: Option<f64>,
}

/// What a program came to.
pub struct Measured {
    /// A row for each number of threads.
    pub rows: Vec<Row>,
    /// Its shared object, if there is one.
    pub object: Option<Vec<u8>>,
}

impl Stages {
    /// Finds compiler and jail, runs the reference, and measures what programs are held against.
    pub fn new(order: &Order) -> Result<Self> {
        let evaluator = Evaluator::new(
            Arc::clone(&order.problem),
            order.compiler,
            order.allow_weaker_jail,
        )?;
        let most = order.threads.iter().copied().max().unwrap_or(1);
        let evaluator = if order.sanitize {
            evaluator.with_sanitizers(most)
        } else {
            evaluator
        };
        let verifier = evaluator.verifier(most)?;
        let clocks = order
            .threads
            .iter()
            .map(|&threads| Clock::new(&evaluator, threads, order.purpose))
            .collect::<Result<Vec<Clock>>>()?;
        for line in advice(
            clocks
                .iter()
                .map(|clock| clock.timer.attestation().advice()),
        ) {
            say(&line);
        }
        Ok(Self {
            evaluator,
            verifier,
            clocks,
            purpose: order.purpose,
            ready: BTreeMap::new(),
        })
    }

    /// Compiles and verifies a program once, and times it at each number of threads.
    pub fn measure(&mut self, program: &Program) -> Measured {
        let language = program.language.unwrap_or(self.evaluator.problem.language);
        let verifier = &mut self.verifier;
        let prepared = self
            .evaluator
            .prepare(language, &program.source, verifier, true);
        for why in prepared.checked().into_iter().flat_map(|c| &c.left_out) {
            say(&format!("warning: sanitizers left out: {why}"));
        }
        if prepared.can_be_timed() {
            self.warn();
        }
        let mut rows = Vec::new();
        for clock in &mut self.clocks {
            let done = clock.time(&prepared, self.purpose);
            rows.push(clock.row(&program.name, done));
        }
        let object = prepared.object().map(<[u8]>::to_vec);
        if self.purpose == Purpose::Rank {
            self.ready.insert(program.name.clone(), prepared);
        }
        Measured { rows, object }
    }

    /// Times a program of a ranking once more. None where it is unknown.
    pub fn again(&mut self, file: &str, threads: u32) -> Option<Evaluated> {
        let prepared = self.ready.get(file)?;
        let clock = self.clocks.iter_mut().find(|c| c.threads == threads)?;
        Some(clock.time(prepared, self.purpose))
    }

    /// The way from the baseline to the plain reference at this number of threads.
    pub fn chain(&self, threads: u32) -> Option<Chain> {
        self.clock(threads).map(|clock| clock.timer.chain())
    }

    /// The place under the roofline of a program of this speed.
    pub fn place(&self, threads: u32, gflops: f64) -> Option<Place> {
        self.clock(threads)?.timer.place(gflops)
    }

    fn clock(&self, threads: u32) -> Option<&Clock> {
        self.clocks.iter().find(|clock| clock.threads == threads)
    }

    /// Says on stderr what speaks against timing now; nothing waits for it to end.
    fn warn(&self) {
        // The timer of the most threads has the cores of all others, or nearly.
        let most = self.clocks.iter().max_by_key(|clock| clock.threads);
        let busy = most.and_then(|clock| {
            let cores = clock.timer.watched();
            environment::complaint(&environment::look(cores, LOOK), cores)
        });
        let drifted = || {
            let states = self.clocks.iter().map(|clock| clock.timer.standing());
            let mut why = states.filter(|s| s.is_quarantine()).filter_map(|s| s.why());
            why.next().map(|why| why.to_string())
        };
        if let Some(why) = busy.or_else(drifted) {
            say(&warning(&why));
        }
    }

    /// The jail.
    pub fn sandbox(&self) -> &Sandbox {
        &self.evaluator.sandbox
    }
}

/// What would make this machine a better stopwatch, each sentence once.
fn advice(clocks: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    clocks
        .flatten()
        .filter(|line| seen.insert(line.clone()))
        .map(|line| format!("advice: {line}"))
        .collect()
}

fn warning(why: &str) -> String {
    format!("warning: the machine is busy: {why}; numbers will be less certain")
}

impl Clock {
    fn new(evaluator: &Evaluator, threads: u32, purpose: Purpose) -> Result<Self> {
        let mut timer = evaluator.timer(threads)?;
        if purpose == Purpose::Certify {
            timer.refine_reference()?;
        }
        let json = timer.attestation().to_json();
        let attestation = serde_json::from_str(&json)?;
        Ok(Self {
            threads,
            timer,
            machine: Arc::new(Machine { attestation, json }),
            best_gflops: None,
        })
    }

    fn time(&mut self, prepared: &Prepared, purpose: Purpose) -> Evaluated {
        let done = prepared.time(&mut self.timer, purpose, self.best_gflops);
        if let Some(m) = done.verdict.measurement().filter(|m| m.converged()) {
            self.best_gflops = Some(self.best_gflops.map_or(m.gflops, |best| best.max(m.gflops)));
        }
        done
    }

    fn row(&self, file: &str, done: Evaluated) -> Row {
        let chain = self.timer.chain();
        let measurement = done.verdict.measurement();
        Row {
            file: file.to_owned(),
            against: false,
            threads: self.threads,
            own: measurement.map(|m| LogRatio::of(m, &chain)),
            to_against: None,
            group: None,
            peak_gflops: self.timer.peak_gflops(),
            place: measurement.and_then(|m| self.timer.place(m.gflops)),
            machine: Arc::clone(&self.machine),
            done,
        }
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_bench::environment::{Found, Watched, complaint};

    use super::*;

    #[test]
    fn advice_is_given_once_for_all_numbers_of_threads() {
        let both = [vec!["a".to_owned(), "b".to_owned()], vec!["b".to_owned()]];
        assert_eq!(advice(both.into_iter()), ["advice: a", "advice: b"]);
        assert!(advice(std::iter::empty()).is_empty());
    }

    #[test]
    fn a_busy_machine_is_said_in_one_line() {
        let cores = Watched {
            kernel: vec![1],
            ..Watched::default()
        };
        let found = Found {
            core: 1,
            others: 0.4,
            stolen: 0.0,
        };
        let why = complaint(&[found], &cores).expect("it is busy");
        assert_eq!(
            warning(&why),
            "warning: the machine is busy: core 1 is used 40 % by others; numbers will be less certain"
        );
    }
}
