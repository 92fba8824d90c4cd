//! Timer: verified → outcome. Holds every core of its node while it measures.
//!
//! While the machine is in quarantine ([`flopsmith_measure::Quarantine`]), a timer with a private broker keeps its
//! programs, reports to their queue that they are being worked on, and times the baseline alone at intervals. On a bus
//! that nodes share the timer hands its programs back for other nodes. No other role of this node has a core meanwhile:
//! another role's work would be the next disturbance. Also, time in which no role holds a core counts as idle, and
//! after enough idle time samples are given up as lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use flopsmith_bus::{Delivery, ErrorClass, Worker};
use flopsmith_machine::environment;
use flopsmith_measure::{Limits, Purpose as Measure, State, Timed};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    CandidateRef, Failure, InfrastructureCause, Measurement, ProblemId, Purpose, RunId, Verdict,
    Verified,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::Role;
use crate::error::Error;
use crate::host::{Decided, Host};
use crate::node::Context;
use crate::runs::{Only, Runs};
use crate::stage_failure::StageFailure;
use crate::trace::candidate_span;
use flopsmith_config::Standard;

/// At most this many programs are timed under one lease of the cores.
const BATCH: usize = 32;
/// The same limit where other nodes could time the programs meanwhile.
const SHARED_BATCH: usize = 8;
/// Upper limit of a rest that the timer ends by itself.
const REST: Duration = Duration::from_secs(3600);
/// How long the machine is observed before each of these batches: the kernel accounts time in units of a tenth of this.
const LOOK: Duration = Duration::from_millis(100);
/// Pause between two canaries.
const PAUSE: Duration = Duration::from_millis(500);
/// The name under which the node's ledger of cores books the time in quarantine.
pub const QUARANTINE: &str = "quarantine";

/// A measuring stage: [`flopsmith_measure::Timer`], or in tests a stage that fails as they need it.
pub trait Stage: Send + 'static {
    /// Measures a verified candidate; see [`flopsmith_measure::Timer::measure`].
    fn measure(
        &mut self,
        object: &[u8],
        purpose: Measure,
        seed: u64,
        best_gflops_known: Option<f64>,
    ) -> Result<Timed, Failure>;

    /// Measures a verified candidate, of which each of these objects is another code layout; see
    /// [`flopsmith_measure::Timer::certify`].
    fn certify(&mut self, layouts: &[Vec<u8>], seed: u64) -> Result<Timed, Failure>;

    /// Observes the machine while nothing is timed. Returns the reason against timing on it now, if there is one.
    fn look(&mut self) -> Option<String> {
        None
    }

    /// The state of the machine after the last measurement; see [`flopsmith_measure::Timer::quarantine_state`].
    fn quarantine_state(&self) -> State {
        State::Idle
    }

    /// Times the baseline alone and returns the state of the machine then; see [`flopsmith_measure::Timer::canary`].
    fn canary(&mut self) -> Result<State, Failure> {
        Ok(self.quarantine_state())
    }

    /// Ends the quarantine because the timer waits no longer; see [`flopsmith_measure::Timer::go_on`].
    fn go_on(&mut self) {}
}

impl Stage for flopsmith_measure::Timer {
    fn measure(
        &mut self,
        object: &[u8],
        purpose: Measure,
        seed: u64,
        best_gflops_known: Option<f64>,
    ) -> Result<Timed, Failure> {
        flopsmith_measure::Timer::measure(self, object, purpose, seed, best_gflops_known)
    }

    fn certify(&mut self, layouts: &[Vec<u8>], seed: u64) -> Result<Timed, Failure> {
        flopsmith_measure::Timer::certify(self, layouts, seed)
    }

    fn look(&mut self) -> Option<String> {
        let cores = self.watched();
        environment::complaint(&environment::look(cores, LOOK), cores)
    }

    fn quarantine_state(&self) -> State {
        flopsmith_measure::Timer::quarantine_state(self)
    }

    fn canary(&mut self) -> Result<State, Failure> {
        flopsmith_measure::Timer::canary(self)
    }

    fn go_on(&mut self) {
        flopsmith_measure::Timer::go_on(self);
    }
}

/// Builds a program once more with other code layouts and verifies each of them, for certifying.
pub trait Layouts: Send + Sync + 'static {
    /// Objects of a source that was compiled before, each of them verified; see
    /// [`flopsmith_compile::Compiler::layouts`].
    fn layouts(
        &self,
        language: Language,
        problem: &Problem,
        source: &str,
    ) -> Result<Vec<Vec<u8>>, Failure>;
}

/// The stage context that times candidates for the first problem of its context.
pub struct StageContext {
    context: Arc<Context>,
    stage: Arc<Mutex<dyn Stage>>,
    layouts: Option<Arc<dyn Layouts>>,
    /// How long programs of this run have waited for a quiet machine.
    waited: Mutex<Duration>,
}

impl StageContext {
    /// A stage context with a running baseline.
    pub fn new<S: Stage>(context: Arc<Context>, stage: Arc<Mutex<S>>) -> Self {
        Self {
            context,
            stage,
            layouts: None,
            waited: Mutex::default(),
        }
    }

    /// Enables certifying, for which `layouts` builds programs with several code layouts.
    #[must_use]
    pub fn with_layouts(mut self, layouts: Arc<dyn Layouts>) -> Self {
        self.layouts = Some(layouts);
        self
    }
}

/// Times verified candidates, one after the other.
pub struct Timer {
    host: Host,
    stage_contexts: Arc<dyn Runs<StageContext>>,
}

impl Timer {
    /// A timer for one run.
    pub fn new(stage_context: StageContext) -> Self {
        let context = Arc::clone(&stage_context.context);
        let (run, problem) = (context.run.clone(), context.first().problem.id.clone());
        let only = Only::new(run, problem, stage_context);
        Self::for_runs(context.host.clone(), Arc::new(only))
    }

    /// A timer for all runs that have work for this node.
    pub fn for_runs(host: Host, stage_contexts: Arc<dyn Runs<StageContext>>) -> Self {
        Self {
            host,
            stage_contexts,
        }
    }
}

fn purpose(standard: Standard) -> Measure {
    match standard {
        Standard::Screen => Measure::Screen,
        Standard::Rank => Measure::Rank,
        Standard::Certify => Measure::Certify,
    }
}

#[async_trait]
impl Role for Timer {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let queue = Queue::time(&self.host.machine_class);
        let most = if self.host.bus.is_private() {
            BATCH
        } else {
            SHARED_BATCH
        };
        let mut worker: Worker<Verified> = self.host.worker(&queue.all(), most).await?;
        let mut batch: Vec<Delivery<Verified>> = Vec::new();
        loop {
            self.host.rest_if_due("time", &mut worker);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                delivery = worker.next(), if batch.len() < most => {
                    let Some(delivery) = delivery else { break };
                    batch.push(delivery);
                }
                // With held work: begin once no role compiles any more, or after a while.
                () = self.host.cores.wait_until_idle(Duration::from_millis(15), Duration::from_secs(4)), if !batch.is_empty() => {
                    self.time(std::mem::take(&mut batch), &mut worker, &stop).await?;
                }
            }
        }
        for delivery in batch {
            delivery.retry(ErrorClass::Shutdown).await?;
        }
        Ok(())
    }
}

/// A program that is about to be timed, with its stage context and its object, or the failure to get them.
struct Held {
    delivery: Delivery<Verified>,
    stage_context: Result<Arc<StageContext>, StageFailure>,
    object: Result<Bytes, StageFailure>,
}

impl Timer {
    /// Finds the stage context and the object of each program of a batch. The programs are sorted by run and problem,
    /// because each of these has a baseline of its own.
    async fn prepare(&self, mut batch: Vec<Delivery<Verified>>) -> Vec<Held> {
        batch.sort_by(|a, b| baseline_of(a).cmp(&baseline_of(b)));
        let mut held = Vec::with_capacity(batch.len());
        for delivery in batch {
            let stage_context = self.stage_contexts.of(candidate_of(&delivery)).await;
            let object = &delivery.message().compiled.object;
            let object = self.host.store.get(object).await;
            held.push(Held {
                delivery,
                stage_context,
                object: object.map_err(StageFailure::from),
            });
        }
        held
    }

    async fn time(
        &mut self,
        batch: Vec<Delivery<Verified>>,
        worker: &mut Worker<Verified>,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let held = self.prepare(batch).await;
        let mut lease = self.host.cores.all("time").await;
        if !stop.is_cancelled() {
            look(&held).await;
        }
        let mut rest = held.into_iter();
        while let Some(next) = rest.next() {
            if let Ok(stage_context) = &next.stage_context
                && stage_context.is_to_wait()
                && !stop.is_cancelled()
            {
                drop(lease);
                if !self.host.bus.is_private() {
                    let stage_context = Arc::clone(stage_context);
                    return self
                        .leave_to_others(stage_context, next, rest, worker, stop)
                        .await;
                }
                stage_context.idle_wait(stop).await;
                lease = self.host.cores.all("time").await;
            }
            if stop.is_cancelled() {
                next.delivery.retry(ErrorClass::Shutdown).await?;
                continue;
            }
            let span = span_of(&next.delivery);
            let decided = self.decide(next).instrument(span).await;
            if let Err(error) = decided {
                // The role ends with this error, so the other programs go back to their queue at once.
                for held in rest {
                    held.delivery.retry(ErrorClass::Shutdown).await?;
                }
                return Err(error);
            }
        }
        drop(lease);
        Ok(())
    }

    /// Hands back all programs while the machine is not quiet, because another node may have a quiet one.
    async fn leave_to_others(
        &self,
        stage_context: Arc<StageContext>,
        next: Held,
        rest: impl Iterator<Item = Held>,
        worker: &mut Worker<Verified>,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        worker.rest(REST);
        self.host.circuit_breaker.waits("time", true);
        for held in std::iter::once(next).chain(rest) {
            held.delivery.retry(ErrorClass::OtherNode).await?;
        }
        // The wait is counted anew each time, because a node works for a run for days.
        *stage_context.waited() = Duration::ZERO;
        stage_context.idle_wait(stop).await;
        self.host.circuit_breaker.waits("time", false);
        worker.rest(Duration::ZERO);
        Ok(())
    }

    /// Times one program and publishes its outcome; the caller has leased the cores.
    async fn decide(&self, held: Held) -> Result<(), Error> {
        let Held {
            delivery,
            stage_context,
            object,
        } = held;
        let message = delivery.message().clone();
        let compiled = &message.compiled;
        let started = Instant::now();
        let measured = match (stage_context, object) {
            (Ok(stage_context), Ok(object)) => stage_context.measure(&message, object).await,
            (Err(stage_failure), _) | (_, Err(stage_failure)) => Err(stage_failure),
        };
        let seconds = started.elapsed().as_secs_f32();
        Span::current().record("seconds", f64::from(seconds));
        let decided = |verdict| Decided {
            candidate: &compiled.candidate,
            source: &compiled.source,
            techniques: Some(compiled.techniques),
            vector_bits: compiled.vector_bits,
            verdict,
            stage_seconds: [compiled.compile_seconds, message.verify_seconds, seconds],
            object: Some(&compiled.object),
            key: compiled.key.as_ref(),
        };
        match measured {
            Ok(measurement) => {
                let verdict = Verdict::Measured { measurement };
                self.host.publish_outcome(decided(verdict)).await?;
                self.host.circuit_breaker.worked("time");
                Ok(delivery.done().await?)
            }
            Err(stage_failure) => {
                self.host
                    .give_up_or_retry("time", delivery, stage_failure, decided)
                    .await
            }
        }
    }
}

fn candidate_of(delivery: &Delivery<Verified>) -> &CandidateRef {
    &delivery.message().compiled.candidate
}

/// Run and problem, which have one baseline.
fn baseline_of(delivery: &Delivery<Verified>) -> (&RunId, &ProblemId) {
    let candidate = candidate_of(delivery);
    (&candidate.run, &candidate.problem)
}

/// Observes the machine before a batch is timed, and counts and logs disturbances. Our own roles have no core then, so
/// a busy process is a foreign one. The batch does not wait: floors tolerate most disturbances, and the quarantine
/// handles the rest.
async fn look(batch: &[Held]) {
    let stage_contexts: Vec<&Arc<StageContext>> =
        batch.iter().flat_map(|held| &held.stage_context).collect();
    // All stage contexts watch the same cores.
    let Some(first) = stage_contexts.first() else {
        return;
    };
    let programs = stage_contexts.len();
    let stage = Arc::clone(&first.stage);
    let looked = tokio::task::spawn_blocking(move || unharmed(&stage).look());
    match looked.await {
        Ok(Some(why)) => {
            for stage_context in stage_contexts {
                stage_context.context.note_disturbed(1);
            }
            tracing::warn!(programs, %why, "the machine is busy; numbers will be less certain");
        }
        Ok(None) => tracing::info!(programs, "no other process uses the timed cores"),
        // The programs meet the same panic, and their stage failure is handled there.
        Err(panic) => tracing::warn!(programs, %panic, "the machine's load could not be read"),
    }
}

impl StageContext {
    fn waited(&self) -> MutexGuard<'_, Duration> {
        self.waited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_to_wait(&self) -> bool {
        let wanted = self.context.settings.evaluate.quarantine;
        wanted && unharmed(&self.stage).quarantine_state().is_quarantine()
    }

    /// Waits for the end of a quarantine, at most for the limit in the run's settings.
    async fn idle_wait(&self, stop: &CancellationToken) {
        let cores = &self.context.host.cores;
        let _lease = cores.all(QUARANTINE).await;
        let limit = self.context.settings.evaluate.quarantine_limit_seconds;
        let limit = Duration::try_from_secs_f64(limit).unwrap_or(Duration::MAX);
        let before = *self.waited();
        let began = Instant::now();
        if let Some(why) = unharmed(&self.stage).quarantine_state().why() {
            tracing::warn!(%why, "the machine is not quiet; waiting until it is");
        }
        loop {
            let waited = before + began.elapsed();
            *self.waited() = waited;
            let left = limit.saturating_sub(waited);
            if left.is_zero() {
                let waited = waited.as_secs_f64();
                tracing::warn!(waited, "the machine does not become quiet; timing anyway");
                unharmed(&self.stage).go_on();
                return;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(left.min(PAUSE)) => {}
            }
            let stage = Arc::clone(&self.stage);
            let canary = tokio::task::spawn_blocking(move || unharmed(&stage).canary());
            let stands = match canary.await {
                Ok(stands) => stands.map_err(StageFailure::from),
                Err(panic) => Err(StageFailure::from(panic)),
            };
            match stands {
                Ok(stands) if stands.is_quarantine() => {}
                Ok(_) => return,
                Err(stage_failure) => {
                    // The next program meets the same failure, and its stage failure is handled there.
                    tracing::warn!(verdict = ?stage_failure.verdict, "a canary failed; timing continues");
                    return;
                }
            }
        }
    }

    /// Measures on a thread for blocking work and keeps the raw samples.
    async fn measure(
        &self,
        message: &Verified,
        object: Bytes,
    ) -> Result<Measurement, StageFailure> {
        let compiled = &message.compiled;
        let stage = Arc::clone(&self.stage);
        let certify = compiled.candidate.purpose == Purpose::Certify;
        let evaluate = &self.context.settings.evaluate;
        let standard = match (compiled.candidate.finalist, certify) {
            (true, _) => Measure::Certify,
            (false, true) => purpose(evaluate.again),
            (false, false) => purpose(evaluate.purpose),
        };
        let problem = &compiled.candidate.problem;
        let Some(of) = self.context.of(problem) else {
            return Err(self.context.lacks(problem));
        };
        let best = of.best_known();
        let seed = seed_of(&compiled.object.digest);
        let job = Job {
            language: of.language(&compiled.candidate),
            problem: Arc::clone(&of.problem),
            source: compiled.source.clone(),
            layouts: self.layouts.clone(),
            standard,
            again: certify,
            seed,
            best,
        };
        let work = tokio::task::spawn_blocking(move || job.time(&stage, &object));
        let timed = work.await??;
        let mut measurement = timed.measurement;
        measurement.sizes = message.sizes;
        measurement.samples = Some(self.context.host.store.put(timed.raw).await?);
        of.note_best(measurement.known_gflops());
        Ok(measurement)
    }
}

/// One measurement.
struct Job {
    language: Language,
    problem: Arc<Problem>,
    source: String,
    layouts: Option<Arc<dyn Layouts>>,
    standard: Measure,
    /// True if the program is measured once more, because its number is to count.
    again: bool,
    seed: u64,
    best: Option<f64>,
}

impl Job {
    fn time(&self, stage: &Mutex<dyn Stage>, object: &[u8]) -> Result<Timed, Failure> {
        if self.standard == Measure::Certify {
            let Some(layouts) = &self.layouts else {
                return Err(Failure::infrastructure(
                    InfrastructureCause::Harness,
                    "this timer cannot certify: nothing here builds programs in other layouts",
                ));
            };
            let layouts = layouts.layouts(self.language, &self.problem, &self.source)?;
            return unharmed(stage).certify(&layouts, self.seed);
        }
        let mut stage = unharmed(stage);
        let timed = stage.measure(object, self.standard, self.seed, self.best)?;
        // A number that counts has to tell programs apart; a screening suffices only if its standard error is small
        // enough.
        let ranked = Limits::SECOND_LOOK;
        let sure = timed.measurement.log_ratio_se <= ranked.usable_log_se;
        if self.again && self.standard == Measure::Screen && !sure {
            let seed = self.seed.wrapping_add(1);
            return stage.measure(object, Measure::Rank, seed, self.best);
        }
        Ok(timed)
    }
}

/// The stage, even after a panic in it: each measurement begins anew.
fn unharmed<S: Stage + ?Sized>(stage: &Mutex<S>) -> MutexGuard<'_, S> {
    stage.lock().unwrap_or_else(PoisonError::into_inner)
}

fn span_of(delivery: &Delivery<Verified>) -> Span {
    let candidate = &delivery.message().compiled.candidate;
    let span = candidate_span!("time", candidate, attempt = delivery.attempt());
    delivery.continue_trace(span)
}

/// Inputs differ between programs and between the measurements of one; they need not be secret from other programs.
fn seed_of(digest: &flopsmith_protocol::Digest) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write(digest.as_str().as_bytes());
    hasher.finish()
}
