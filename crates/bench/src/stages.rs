//! The stages that evaluate every program: one verifier, and one timer for each number of threads.
//!
//! A timer measures peak and reference as soon as it is made, so it waits for a quiet machine first. The timers of an order
//! are made when the first program can be timed: a program that cannot be built, or is wrong, is refused without a wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Result;
use flopsmith_evaluate::{Evaluated, Evaluator, Look, Prepared, compares_openblas, cores_to_watch};
use flopsmith_machine::openblas;
use flopsmith_machine::roofline::Place;
use flopsmith_measure::ranking::{LogRatio, placement_log_se};
use flopsmith_measure::{Chains, Purpose, Timer, Verifier};
use flopsmith_problem::{Params, Problem};
use flopsmith_protocol::{Measurement, TechniqueSet, Verdict};
use flopsmith_run::console::say;
use flopsmith_run::evaluator;
use flopsmith_run::idle_wait::{self, Patience, Waited};
use tokio_util::sync::CancellationToken;

use crate::Order;
use crate::compare::Compare;
use crate::inputs::Program;
use crate::progress::Progress;
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
    /// Numbers of threads, at least one.
    threads: Vec<u32>,
    /// The timer of each; none before a program can be timed.
    clocks: Vec<Clock>,
    purpose: Purpose,
    /// True if the reference is measured at length.
    refine_reference: bool,
    /// The timed size, or that of each workload.
    sizes: Vec<Params>,
    /// Compiled and verified programs that may be timed again.
    ready: BTreeMap<String, Prepared>,
    /// True if programs may be timed again, as in a ranking and while files are watched.
    again: bool,
    /// Time left to wait for a quiet machine.
    patience: Patience,
    stopped: CancellationToken,
    progress: Progress,
    /// The saved result that must be one of this machine.
    compare: Option<Arc<Compare>>,
    /// True if advice about the machine is printed once it is attested.
    advises: bool,
}

/// The timer of one number of threads.
struct Clock {
    threads: u32,
    timer: Timer,
    /// The disturbance while the timer measured its reference.
    reference_busy: Option<String>,
    machine: Arc<Machine>,
    /// OpenBLAS, measured next to the timer, if it solves the problem and numbers are certified.
    openblas: Option<openblas::Best>,
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
    /// OpenBLAS, if it solves the problem and was measured.
    pub openblas: Option<openblas::Best>,
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
    /// The stages of an order. Their timers are made when the first program can be timed.
    ///
    /// # Errors
    /// Wrong usage, and failures that keep this machine from compiling and verifying programs of the problem.
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
        let progress = Progress::new(order.programs.len() == 1 && order.against.is_none());
        let patience = Patience::new(order.wait);
        let mut stages = Self::without_timers(&setup, problem, patience, stopped, progress)?;
        stages.compare = order.compare.clone();
        stages.advises = true;
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
        patience: Patience,
        stopped: CancellationToken,
    ) -> Result<Self> {
        let progress = Progress::new(false);
        let mut stages = Self::without_timers(setup, problem, patience, stopped, progress)?;
        stages.make_timers()?;
        Ok(stages)
    }

    fn without_timers(
        setup: &Setup<'_>,
        problem: &Arc<Problem>,
        patience: Patience,
        stopped: CancellationToken,
        progress: Progress,
    ) -> Result<Self> {
        let mut evaluator =
            evaluator::open(Arc::clone(problem), setup.compiler, setup.allow_weaker_jail)?
                .telling(progress.listener());
        if let Some(permitted) = setup.permitted {
            evaluator = evaluator.permitting(permitted);
        }
        let most = setup.threads.iter().copied().max().unwrap_or(1);
        let evaluator = if setup.sanitize {
            evaluator.with_sanitizers(most)
        } else {
            evaluator
        };
        let timed_with = setup.threads.iter().copied();
        let verifier = timed_with.fold(evaluator.verifier(most)?, Verifier::for_threads);
        Ok(Self {
            evaluator,
            verifier,
            threads: setup.threads.to_vec(),
            clocks: Vec::new(),
            purpose: setup.purpose,
            refine_reference: setup.refine_reference,
            sizes: problem.params_of_each(),
            ready: BTreeMap::new(),
            again: setup.again,
            patience,
            stopped,
            progress,
            compare: None,
            advises: false,
        })
    }

    /// Makes the timer of each number of threads, on a quiet machine if it becomes quiet in time.
    fn make_timers(&mut self) -> Result<()> {
        let mut clocks = Vec::with_capacity(self.threads.len());
        for threads in self.threads.clone() {
            clocks.push(self.make_clock(threads)?);
        }
        self.progress.clear();
        self.clocks = clocks;
        if let Some(compare) = &self.compare {
            for clock in &self.clocks {
                let problem = &self.evaluator.problem;
                compare.check(problem, clock.threads, &clock.machine)?;
            }
        }
        if self.advises {
            for line in self.advice() {
                say(&line);
            }
        }
        Ok(())
    }

    fn make_clock(&mut self, threads: u32) -> Result<Clock> {
        // A timer measures peak and reference as soon as it is made, and every ratio is based on them. So the wait comes
        // first.
        let cores = cores_to_watch(threads);
        self.progress.clear();
        let mut busy = self
            .patience
            .wait(|| idle_wait::used(&cores), &self.stopped)
            .go_on()?;
        self.progress.on(self.named(threads));
        // OpenBLAS is measured before the timer exists, whose baseline runs on the same cores.
        let mut openblas = None;
        if self.purpose == Purpose::Certify && compares_openblas(&self.evaluator.problem) {
            self.progress.tell("measuring OpenBLAS");
            openblas = self.evaluator.openblas(threads);
            if let (None, Some(why)) = (&openblas, openblas::unusable()) {
                self.progress.clear();
                say(&format!("OpenBLAS is not compared: {why}"));
            }
        }
        self.progress.tell("measuring the peak of this machine");
        let mut timer = self.evaluator.timer(threads)?;
        if self.refine_reference {
            self.progress.clear();
            let now = self
                .patience
                .wait(|| idle_wait::look(&mut timer), &self.stopped)
                .go_on()?;
            busy = busy.or(now);
            timer.refine_reference()?;
        }
        let mut clock = Clock::new(timer, threads, busy)?;
        clock.openblas = openblas;
        Ok(clock)
    }

    /// The number of threads where it has to be named, since there are several.
    fn named(&self, threads: u32) -> Option<u32> {
        (self.threads.len() > 1).then_some(threads)
    }

    /// Compiles and verifies a program once, and times it at each number of threads. `None` if a stop was requested
    /// before the end.
    ///
    /// # Errors
    /// Failures that keep this machine from timing programs of the problem, once a program can be timed; and wrong usage: a
    /// saved result of another machine.
    pub fn measure(&mut self, program: &Program) -> Result<Option<Measured>> {
        let measured = self.evaluate(program);
        self.progress.on(None);
        self.progress.clear();
        match measured {
            // Ctrl-c also reaches the measured process, so a failure after a stop request has no meaning.
            Err(_) if self.stopped.is_cancelled() => Ok(None),
            measured => measured,
        }
    }

    fn evaluate(&mut self, program: &Program) -> Result<Option<Measured>> {
        let language = program.language.unwrap_or(self.evaluator.problem.language);
        // A screening saves time with the clock only: what `bench` prints was verified in full.
        let look = Look::from(self.purpose).max(Look::Full);
        self.progress.tell(match look.verifies_layouts() {
            true => "compiling and verifying, also in five layouts of its code",
            false => "compiling and verifying",
        });
        let verifier = &mut self.verifier;
        let prepared = self
            .evaluator
            .prepare(language, &program.source, verifier, look);
        self.progress.clear();
        for why in prepared.checked().into_iter().flat_map(|c| &c.left_out) {
            say(&format!("warning: sanitizers left out: {why}"));
        }
        let mut busy = None;
        if prepared.can_be_timed() {
            if self.clocks.is_empty() {
                self.make_timers()?;
            }
            let Ok(found) = self.wait().go_on() else {
                return Ok(None);
            };
            busy = found;
        }
        let mut rows = Vec::new();
        let several = self.clocks.len() > 1;
        for clock in &mut self.clocks {
            self.progress.on(several.then_some(clock.threads));
            let done = clock.time(&prepared, self.purpose, busy.clone());
            let mut row = clock.row(&program.name, &self.sizes, done);
            row.placement_log_se = placement_log_se(self.purpose);
            rows.push(row);
        }
        if let (true, Some(failure)) = (self.clocks.is_empty(), prepared.failure()) {
            for threads in &self.threads {
                let done = prepared.failed(failure.clone());
                rows.push(Row::new(&program.name, *threads, &self.sizes, done));
            }
        }
        let object = prepared.object().map(<[u8]>::to_vec);
        if self.again {
            self.ready.insert(program.name.clone(), prepared);
        }
        Ok(Some(Measured { rows, object }))
    }

    /// True once there are timers: then rows name their machine.
    pub fn are_timing(&self) -> bool {
        !self.clocks.is_empty()
    }

    /// Times a program once more. `None` if the program is unknown, or if a stop was requested before the timing.
    pub fn again(&mut self, file: &str, threads: u32) -> Option<Evaluated> {
        let busy = self.wait().go_on().ok()?;
        let prepared = self.ready.get(file)?;
        let clock = self.clocks.iter_mut().find(|c| c.threads == threads)?;
        let done = clock.time(prepared, self.purpose, busy);
        self.progress.clear();
        Some(done)
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
            openblas: None,
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
        let mut row = Row::new(file, self.threads, sizes, done);
        self.renew(&mut row, None);
        row
    }

    /// Tells a row the machine and what belongs to it.
    fn introduce(&self, row: &mut Row) {
        let bytes = self.timer.bytes_per_operation();
        row.bytes_per_operation = Some(bytes).filter(|b| b.is_finite() && *b > 0.0);
        row.resolution = self.timer.resolution();
        let openblas = self.openblas.as_ref();
        row.openblas_gflops = openblas.map(|best| best.gflops);
        row.openblas_version = openblas.and_then(|best| best.version.clone());
        row.machine = Some(Arc::clone(&self.machine));
    }

    fn renew(&self, row: &mut Row, measurement: Option<Measurement>) {
        // A program that was refused before there was a timer has a row without a machine.
        if row.machine.is_none() {
            self.introduce(row);
        }
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
            openblas: self.openblas.clone(),
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
