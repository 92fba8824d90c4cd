//! Verifier: compiled → verified, or an outcome.
//!
//! Programs that are about to count, as elites or in a report, are checked once more, with sanitizers ([`LastLook`]).
//! The check is done here because this is the last stage that may run at the same time as others, and the check is
//! slow. If the sanitizers are usable and cannot check a program, the program does not count.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use flopsmith_bus::{Delivery, Worker};
use flopsmith_evaluate::{Look, random};
use flopsmith_measure::{Checked, Report, Thoroughness};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{CandidateRef, Compiled, Failure, Purpose, Technique, Verified};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::Role;
use crate::error::Error;
use crate::host::{Decided, Host};
use crate::node::Context;
use crate::runs::{Only, Runs};
use crate::stage_failure::StageFailure;
use crate::trace::candidate_span;

/// A verifying stage: [`flopsmith_measure::Verifier`], or in tests a stage that fails as they need it.
pub trait Stage: Send + 'static {
    /// Checks one compiled candidate with the secret cases that `rng_seed` chooses.
    fn verify(
        &mut self,
        object: &[u8],
        rng_seed: u64,
        thoroughness: Thoroughness,
    ) -> Result<Report, Failure>;
}

impl Stage for flopsmith_measure::Verifier {
    fn verify(
        &mut self,
        object: &[u8],
        rng_seed: u64,
        thoroughness: Thoroughness,
    ) -> Result<Report, Failure> {
        self.verify_to(object, rng_seed, thoroughness)
    }
}

/// Checks programs that are about to become elites: [`flopsmith_measure::Sanitizers`], or in tests a check that finds
/// what they need.
pub trait LastLook: Send + Sync + 'static {
    /// Checks a verified program; `openmp` is true if the program uses OpenMP.
    fn check(&self, source: &str, openmp: bool) -> Result<Checked, Failure>;
}

impl LastLook for flopsmith_measure::Sanitizers {
    fn check(&self, source: &str, openmp: bool) -> Result<Checked, Failure> {
        flopsmith_measure::Sanitizers::check(self, source, openmp)
    }
}

/// The stage context that verifies candidates for the first problem of its context.
pub struct StageContext {
    context: Arc<Context>,
    /// The stages that are free.
    stages: Mutex<Vec<Box<dyn Stage>>>,
    /// Notified when a stage becomes free.
    back: Condvar,
    last_look: Option<Arc<dyn LastLook>>,
}

impl StageContext {
    /// A stage context with these stages, each of which serves one job at a time. There are as many as the node has
    /// cores, or as its verifier has slots.
    pub fn new<S: Stage>(context: Arc<Context>, stages: Vec<S>) -> Self {
        let stages = stages.into_iter().map(|stage| Box::new(stage) as _);
        Self {
            context,
            stages: Mutex::new(stages.collect()),
            back: Condvar::new(),
            last_look: None,
        }
    }

    /// Adds a last check for programs that are about to become elites.
    #[must_use]
    pub fn with_last_look(mut self, last_look: Arc<dyn LastLook>) -> Self {
        self.last_look = Some(last_look);
        self
    }

    fn stages(&self) -> MutexGuard<'_, Vec<Box<dyn Stage>>> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free stage. There are as many stages as slots, but a role that failed may have left some at work.
    fn take(&self) -> Box<dyn Stage> {
        let mut stages = self.stages();
        loop {
            match stages.pop() {
                Some(stage) => return stage,
                None => {
                    stages = self
                        .back
                        .wait(stages)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn verify(
        &self,
        object: &[u8],
        seed: u64,
        thoroughness: Thoroughness,
    ) -> Result<Report, Failure> {
        let mut stage = self.take();
        // A stage that panicked can serve the next candidate: each candidate has a process of its own, and the cases
        // are only read.
        let report = catch_unwind(AssertUnwindSafe(|| {
            stage.verify(object, seed, thoroughness)
        }));
        self.stages().push(stage);
        self.back.notify_one();
        report.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Verifies compiled candidates, one per core at a time.
pub struct Verifier {
    host: Host,
    stage_contexts: Arc<dyn Runs<StageContext>>,
    slots: usize,
}

impl Verifier {
    /// A verifier for one run, which runs as many jobs at once as its stage context has stages.
    pub fn new(stage_context: StageContext) -> Self {
        let context = Arc::clone(&stage_context.context);
        let (run, problem) = (context.run.clone(), context.first().problem.id.clone());
        let slots = stage_context.stages().len();
        Self {
            slots,
            host: context.host.clone(),
            stage_contexts: Arc::new(Only::new(run, problem, stage_context)),
        }
    }

    /// A verifier for all runs that have work for this node. Each stage context has as many stages as the node has
    /// cores.
    pub fn for_runs(host: Host, stage_contexts: Arc<dyn Runs<StageContext>>) -> Self {
        Self {
            slots: host.cores.total() as usize,
            host,
            stage_contexts,
        }
    }
}

/// A new program gets a first look. A program that is measured once more is to count, as an elite or in a report, so it
/// gets a full one. Other code layouts are built and verified by the timer, if it certifies.
fn look_at(candidate: &CandidateRef) -> Look {
    if candidate.purpose == Purpose::Certify || candidate.finalist {
        Look::Full
    } else {
        Look::Screening
    }
}

#[async_trait]
impl Role for Verifier {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let queue = Queue::verify(&self.host.machine_class);
        let mut worker: Worker<Compiled> = self.host.stage_worker(&queue, self.slots, 0).await?;
        let mut running = FuturesUnordered::new();
        loop {
            self.host.rest_if_due("verify", &mut worker);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(result) = running.next(), if !running.is_empty() => { let () = result?; }
                delivery = worker.next(), if running.len() < self.slots => {
                    let Some(delivery) = delivery else { break };
                    let span = span_of(&delivery);
                    let work = verify(self.host.clone(), Arc::clone(&self.stage_contexts), delivery);
                    running.push(work.instrument(span));
                }
            }
        }
        while let Some(result) = running.next().await {
            let () = result?;
        }
        Ok(())
    }
}

fn span_of(delivery: &Delivery<Compiled>) -> Span {
    let candidate = &delivery.message().candidate;
    let span = candidate_span!("verify", candidate, attempt = delivery.attempt());
    delivery.continue_trace(span)
}

async fn verify(
    host: Host,
    stage_contexts: Arc<dyn Runs<StageContext>>,
    delivery: Delivery<Compiled>,
) -> Result<(), Error> {
    let message = delivery.message().clone();
    let mut seconds = 0.0;
    let judged = match stage_contexts.of(&message.candidate).await {
        Ok(stage_context) => judge(stage_context, &message, &mut seconds).await,
        Err(stage_failure) => Err(stage_failure),
    };
    match judged {
        Ok(report) => {
            Span::current().record("seconds", report.seconds);
            let verified = Verified {
                worst_error_share: report.worst_error_share,
                cases: report.cases,
                sizes: report.sizes,
                verify_seconds: report.seconds as f32,
                node: host.node.clone(),
                compiled: message,
            };
            let candidate = &verified.compiled.candidate;
            let subject = Queue::time(&candidate.machine_class).of(&candidate.run);
            host.bus.publish(&subject, &verified).await?;
            host.circuit_breaker.worked("verify");
            Ok(delivery.done().await?)
        }
        Err(stage_failure) => {
            let decided = |verdict| Decided {
                candidate: &message.candidate,
                source: &message.source,
                techniques: Some(message.techniques),
                vector_bits: message.vector_bits,
                verdict,
                stage_seconds: [message.compile_seconds, seconds, 0.0],
                object: Some(&message.object),
                key: message.key.as_ref(),
            };
            host.give_up_or_retry("verify", delivery, stage_failure, decided)
                .await
        }
    }
}

/// Reads the object and verifies it on a thread for blocking work; the last check follows if it is wanted. `seconds`
/// gets the time that both took, even after a failure.
async fn judge(
    stage_context: Arc<StageContext>,
    message: &Compiled,
    seconds: &mut f32,
) -> Result<Report, StageFailure> {
    let host = &stage_context.context.host;
    let object = host.store.get(&message.object).await?;
    let _lease = host.cores.one("verify").await;
    // The seeds are secrets, and no part of a run's reproducible seed.
    let seed = random();
    let look = look_at(&message.candidate);
    let thoroughness = look.thoroughness();
    let began = Instant::now();
    let work = {
        let stage_context = Arc::clone(&stage_context);
        tokio::task::spawn_blocking(move || stage_context.verify(&object, seed, thoroughness))
    };
    let report = work.await;
    *seconds = began.elapsed().as_secs_f32();
    let mut report = report??;
    if look.sanitizes()
        && let Some(last_look) = stage_context.last_look.clone()
    {
        let source = message.source.clone();
        let openmp = message.techniques.contains(Technique::Openmp);
        let check = tokio::task::spawn_blocking(move || last_look.check(&source, openmp));
        let checked = check.await;
        *seconds = began.elapsed().as_secs_f32();
        let checked = checked??;
        report.seconds += checked.seconds;
        tracing::debug!(candidate = %message.candidate.id, seconds = checked.seconds, left_out = ?checked.left_out, "sanitizers found nothing");
    }
    Ok(report)
}
