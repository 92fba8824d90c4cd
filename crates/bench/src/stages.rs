//! The stages that evaluate every program: one verifier, and one timer for each number of threads.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_evaluate::{Evaluated, Evaluator, Look, Prepared, cores_to_watch};
use flopsmith_machine::roofline::Place;
use flopsmith_measure::ranking::LogRatio;
use flopsmith_measure::{Chains, Purpose, Timer, Verifier};
use flopsmith_problem::{Params, Problem};
use flopsmith_protocol::{Measurement, TechniqueSet, Verdict};
use flopsmith_run::console::say;
use flopsmith_run::evaluator;
use flopsmith_run::idle_wait::{self, Patience, Waited};
use tokio_util::sync::CancellationToken;

use crate::Order;
use crate::inputs::Program;
use crate::rows::{Machine, Row};

/// How programs are evaluated.
pub struct Setup<'a> {
    /// The compiler, by name or path.
    pub compiler: &'a str,
    /// True if programs run even where the jail gives less than its full protection.
    pub allow_weaker_jail: bool,
    /// Numbers of threads, at least one.
    pub threads: &'a [u32],
    /// Techniques that programs may use; all of the problem if there is none.
    pub permitted: Option<TechniqueSet>,
    /// True if sanitizers check the programs.
    pub sanitize: bool,
    /// The standard of the measurements.
    pub purpose: Purpose,
    /// True if the reference is measured at length, for ratios to it that are quoted.
    pub refine_reference: bool,
    /// True if programs may be timed again.
    pub again: bool,
}

/// The stages of this machine.
pub struct Stages {
    evaluator: Evaluator,
    verifier: Verifier,
    clocks: Vec<Clock>,
    purpose: Purpose,
    /// The timed size, or that of each workload.
    sizes: Vec<Params>,
    /// Compiled and verified programs that may be timed again.
    ready: BTreeMap<String, Prepared>,
    /// True if programs may be timed again, as in a ranking and while files are watched.
    again: bool,
    /// Time left to wait for a quiet machine.
    patience: Patience,
    stopped: CancellationToken,
    /// True if the stages print their progress.
    aloud: bool,
}

/// The timer of one number of threads.
struct Clock {
    threads: u32,
    timer: Timer,
    /// The disturbance while the timer measured its reference.
    reference_busy: Option<String>,
    machine: Arc<Machine>,
    /// OpenBLAS, measured next to the timer, if it solves the problem and numbers are certified.
    openblas_gflops: Option<f64>,
    /// The fastest program so far: a screening may stop as soon as another program is certainly slower.
    best_gflops: Option<f64>,
}

/// A machine at one number of threads, and the speeds that results refer to there.
pub struct ReferenceSpeeds {
    /// Number of threads.
    pub threads: u32,
    /// The attested machine.
    pub machine: Arc<Machine>,
    /// Peak of these threads, in GFLOPS.
    pub peak_gflops: f64,
    /// Speed of the plain reference, in GFLOPS.
    pub reference_gflops: f64,
    /// Speed of OpenBLAS, in GFLOPS, if it solves the problem and was measured.
    pub openblas_gflops: Option<f64>,
    /// The least time between the clock and an empty call, in seconds.
    pub hand_shake_seconds: f64,
}

/// The results of a program.
pub struct Measured {
    /// A row for each number of threads.
    pub rows: Vec<Row>,
    /// Its shared object, if there is one.
    pub object: Option<Vec<u8>>,
}

impl Stages {
    /// The stages of an order, see [`Stages::open`].
    pub fn new(order: &Order, problem: &Arc<Problem>, stopped: CancellationToken) -> Result<Self> {
        let setup = Setup {
            compiler: order.compiler,
            allow_weaker_jail: order.allow_weaker_jail,
            threads: &order.threads,
            permitted: None,
            sanitize: order.sanitize,
            purpose: order.purpose,
            refine_reference: order.purpose == Purpose::Certify,
            again: order.purpose == Purpose::Rank || order.watch,
        };
        let stages = Self::open(&setup, problem, Patience::new(order.wait), stopped)?;
        if let Some(compare) = &order.compare {
            for clock in &stages.clocks {
                compare.check(problem, clock.threads, &clock.machine)?;
            }
        }
        for line in stages.advice() {
            say(&line);
        }
        Ok(stages)
    }

    /// Finds compiler and jail, runs the reference, and measures the speeds that programs are compared with, at the timed
    /// size of `problem`. Waits for a quiet machine as long as `patience` permits; cancelling `stopped` ends the wait.
    ///
    /// # Errors
    /// Wrong usage, and failures that keep this machine from evaluating programs of the problem.
    pub fn open(
        setup: &Setup<'_>,
        problem: &Arc<Problem>,
        mut patience: Patience,
        stopped: CancellationToken,
    ) -> Result<Self> {
        let mut evaluator =
            evaluator::open(Arc::clone(problem), setup.compiler, setup.allow_weaker_jail)?;
        if let Some(permitted) = setup.permitted {
            evaluator = evaluator.permitting(permitted);
        }
        let most = setup.threads.iter().copied().max().unwrap_or(1);
        let evaluator = if setup.sanitize {
            evaluator.with_sanitizers(most)
        } else {
            evaluator
        };
        let verifier = evaluator.verifier(most)?;
        let clocks = setup
            .threads
            .iter()
            .map(|&threads| {
                // A timer measures peak and reference as soon as it is made, and every ratio is based on them. So the
                // wait comes first.
                let cores = cores_to_watch(threads);
                let mut busy = patience
                    .wait(|| idle_wait::used(&cores), &stopped)
                    .go_on()?;
                // OpenBLAS is measured before the timer exists, whose baseline runs on the same cores.
                let openblas = (setup.purpose == Purpose::Certify)
                    .then(|| evaluator.openblas(threads))
                    .flatten();
                let mut timer = evaluator.timer(threads)?;
                if setup.refine_reference {
                    let now = patience
                        .wait(|| idle_wait::look(&mut timer), &stopped)
                        .go_on()?;
                    busy = busy.or(now);
                    timer.refine_reference()?;
                }
                let mut clock = Clock::new(timer, threads, busy)?;
                clock.openblas_gflops = openblas.map(|best| best.gflops);
                Ok(clock)
            })
            .collect::<Result<Vec<Clock>>>()?;
        Ok(Self {
            evaluator,
            verifier,
            clocks,
            purpose: setup.purpose,
            sizes: problem.params_of_each(),
            ready: BTreeMap::new(),
            again: setup.again,
            patience,
            stopped,
            aloud: false,
        })
    }

    /// Prints the progress of a program on a terminal. It is used for one program; several programs have a line each
    /// when they are done.
    pub fn aloud(mut self) -> Self {
        self.aloud = std::io::stderr().is_terminal();
        self
    }

    fn tell(&self, what: &str) {
        if self.aloud {
            say(what);
        }
    }

    /// Compiles and verifies a program once, and times it at each number of threads. `None` if a stop was requested
    /// before the timing.
    pub fn measure(&mut self, program: &Program) -> Option<Measured> {
        let language = program.language.unwrap_or(self.evaluator.problem.language);
        // A screening saves time with the clock only: what `bench` prints was verified in full.
        let look = Look::from(self.purpose).max(Look::Full);
        self.tell(match look.verifies_layouts() {
            true => "compiling and verifying, also in five layouts of its code…",
            false => "compiling and verifying…",
        });
        let verifier = &mut self.verifier;
        let prepared = self
            .evaluator
            .prepare(language, &program.source, verifier, look);
        for why in prepared.checked().into_iter().flat_map(|c| &c.left_out) {
            say(&format!("warning: sanitizers left out: {why}"));
        }
        let busy = if prepared.can_be_timed() {
            self.wait().go_on().ok()?
        } else {
            None
        };
        let mut rows = Vec::new();
        if prepared.can_be_timed() {
            self.tell("timing…");
        }
        for clock in &mut self.clocks {
            let done = clock.time(&prepared, self.purpose, busy.clone());
            rows.push(clock.row(&program.name, &self.sizes, done));
        }
        let object = prepared.object().map(<[u8]>::to_vec);
        if self.again {
            self.ready.insert(program.name.clone(), prepared);
        }
        Some(Measured { rows, object })
    }

    /// Times a program once more. `None` if the program is unknown, or if a stop was requested before the timing.
    pub fn again(&mut self, file: &str, threads: u32) -> Option<Evaluated> {
        let busy = self.wait().go_on().ok()?;
        let prepared = self.ready.get(file)?;
        let clock = self.clocks.iter_mut().find(|c| c.threads == threads)?;
        Some(clock.time(prepared, self.purpose, busy))
    }

    /// Advice that would make this machine time more precisely, without duplicates.
    pub fn advice(&self) -> Vec<String> {
        let clocks = self.clocks.iter();
        advice(clocks.map(|clock| clock.timer.attestation().advice()))
    }

    /// The time that is left to wait for a quiet machine, for the stages of another problem.
    pub fn into_patience(self) -> Patience {
        self.patience
    }

    /// The place of the plain reference under the roofs at this number of threads.
    pub fn reference_place(&self, threads: u32) -> Option<Place> {
        self.clock(threads)?.timer.reference_place()
    }

    /// Restores the full limit of waiting for a quiet machine.
    pub fn renew_patience(&mut self) {
        self.patience.renew();
    }

    /// The chains from the baseline to the plain reference at this number of threads.
    pub fn chains(&self, threads: u32) -> Option<Chains> {
        self.clock(threads).map(|clock| clock.timer.chains())
    }

    /// Replaces a row's measurement, or restates the row's own one with the present measurement of the reference.
    pub fn renew(&self, row: &mut Row, measurement: Option<Measurement>) {
        if let Some(clock) = self.clock(row.threads) {
            clock.renew(row, measurement);
        }
    }

    /// The part of the standard error of ln(ratio) that no further measurement of this program reduces, see
    /// [`Row::hidden_log_se`].
    pub fn hidden_log_se(&self, threads: u32, measurement: &Measurement) -> f64 {
        let clock = self.clock(threads);
        clock.map_or(0.0, |clock| clock.timer.hidden_log_se(measurement))
    }

    /// Machines and reference speeds, by the number of threads.
    pub fn reference_speeds(&self) -> Vec<ReferenceSpeeds> {
        let clocks = self.clocks.iter();
        clocks.map(Clock::reference_speeds).collect()
    }

    fn clock(&self, threads: u32) -> Option<&Clock> {
        self.clocks.iter().find(|clock| clock.threads == threads)
    }

    /// Waits until nothing disturbs a measurement.
    fn wait(&mut self) -> Waited {
        // The timer with the most threads covers the cores of all others, or nearly all.
        let Some(most) = self.clocks.iter().max_by_key(|clock| clock.threads) else {
            return Waited::Idle;
        };
        let cores = most.timer.watched().clone();
        let clocks = &mut self.clocks;
        let look = || {
            let drifted = || {
                clocks
                    .iter_mut()
                    .find_map(|c| idle_wait::drifted(&mut c.timer))
            };
            idle_wait::used(&cores).or_else(drifted)
        };
        self.patience.wait(look, &self.stopped)
    }

    /// The stages of this machine.
    pub fn evaluator(&self) -> &Evaluator {
        &self.evaluator
    }
}

/// Advice that would make this machine time more precisely, without duplicates.
fn advice(clocks: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    clocks
        .flatten()
        .filter(|line| seen.insert(line.clone()))
        .map(|line| format!("advice: {line}"))
        .collect()
}

impl Clock {
    fn new(timer: Timer, threads: u32, reference_busy: Option<String>) -> Result<Self> {
        let machine = Machine::new(timer.attestation().to_json())?;
        Ok(Self {
            threads,
            timer,
            reference_busy,
            machine: Arc::new(machine),
            openblas_gflops: None,
            best_gflops: None,
        })
    }

    /// Times a program; `busy` is the disturbance of the machine, if there is one.
    fn time(&mut self, prepared: &Prepared, purpose: Purpose, busy: Option<String>) -> Evaluated {
        let mut done = prepared.time(&mut self.timer, purpose, self.best_gflops);
        if prepared.can_be_timed() {
            done.busy = idle_wait::resting_on(self.reference_busy.as_deref(), busy);
        }
        if let Some(m) = done.verdict.measurement().filter(|m| m.converged()) {
            self.best_gflops = Some(self.best_gflops.map_or(m.gflops, |best| best.max(m.gflops)));
        }
        done
    }

    fn row(&self, file: &str, sizes: &[Params], done: Evaluated) -> Row {
        let bytes = self.timer.bytes_per_operation();
        let mut row = Row {
            file: file.to_owned(),
            against: false,
            threads: self.threads,
            sizes: sizes.to_vec(),
            own: None,
            to_against: None,
            to_saved: None,
            rank: None,
            group: None,
            peak_gflops: self.timer.peak_gflops(),
            reference_gflops: self.timer.reference_gflops(),
            reference_of_workloads: Vec::new(),
            bytes_per_operation: Some(bytes).filter(|b| b.is_finite() && *b > 0.0),
            resolution: self.timer.resolution(),
            hidden_log_se: 0.0,
            openblas_gflops: self.openblas_gflops,
            place: None,
            places: Vec::new(),
            machine: Arc::clone(&self.machine),
            done,
        };
        self.renew(&mut row, None);
        row
    }

    fn renew(&self, row: &mut Row, measurement: Option<Measurement>) {
        if let Some(measurement) = measurement {
            row.done.verdict = Verdict::Measured { measurement };
        }
        row.reference_of_workloads = self.timer.reference_gflops_of_each();
        row.tell_in(self.timer.reference_gflops(), self.timer.peak_gflops());
        let chain = self.timer.chain();
        let measurement = row.done.verdict.measurement();
        row.own = measurement.map(|m| LogRatio::of(m, &chain));
        row.place = measurement.and_then(|m| self.timer.place(m));
        row.places = measurement
            .map(|m| self.timer.places(m))
            .unwrap_or_default();
        row.hidden_log_se = measurement.map_or(0.0, |m| self.timer.hidden_log_se(m));
    }

    fn reference_speeds(&self) -> ReferenceSpeeds {
        ReferenceSpeeds {
            threads: self.threads,
            machine: Arc::clone(&self.machine),
            peak_gflops: self.timer.peak_gflops(),
            reference_gflops: self.timer.reference_gflops(),
            openblas_gflops: self.openblas_gflops,
            hand_shake_seconds: self.timer.resolution().hand_shake_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_given_once_for_all_numbers_of_threads() {
        let both = [vec!["a".to_owned(), "b".to_owned()], vec!["b".to_owned()]];
        assert_eq!(advice(both.into_iter()), ["advice: a", "advice: b"]);
        assert!(advice(std::iter::empty()).is_empty());
    }
}
