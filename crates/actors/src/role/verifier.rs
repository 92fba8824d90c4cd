//! Verifier: compiled → verified, or an outcome.
//!
//! Programs that are about to count, as elites or in a report, are checked once more, with sanitizers ([`LastLook`]).
//! The check is done here because this is the last stage that may run at the same time as others, and the check is
//! slow. If the sanitizers are usable and cannot check a program, the program does not count.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use flopsmith_bus::{Delivery, Worker};
use flopsmith_evaluate::{Look, random};
use flopsmith_measure::{Checked, Report, Thoroughness};
use flopsmith_problem::Language;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{CandidateRef, Compiled, Failure, Purpose, Technique, Verified};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::Role;
use crate::error::Error;
use crate::host::{Decided, Host};
use crate::node::Context;
use crate::pool::{Lease, Pool};
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
    /// Checks a verified program in this language; `openmp` is true if the program uses OpenMP.
    fn check(&self, language: Language, source: &str, openmp: bool) -> Result<Checked, Failure>;
}

impl LastLook for flopsmith_measure::Sanitizers {
    fn check(&self, language: Language, source: &str, openmp: bool) -> Result<Checked, Failure> {
        self.check_as(language, source, openmp)
    }
}

/// The stages of a context. Each serves one job at a time.
struct Stages {
    /// The stages that are free.
    free: Mutex<Vec<Box<dyn Stage>>>,
    /// As many permits as there are free stages.
    permits: Arc<Semaphore>,
}

impl Stages {
    fn new(stages: Vec<Box<dyn Stage>>) -> Arc<Self> {
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(stages.len())),
            free: Mutex::new(stages),
        })
    }

    fn free(&self) -> MutexGuard<'_, Vec<Box<dyn Stage>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a free stage, and then for a core. A job that waits for a stage keeps no core from others: all slots of a
    /// node share the one stage of a module, and a role that failed may have left stages at work.
    async fn take(self: &Arc<Self>, cores: &Pool) -> (Taken, Lease) {
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        let taken = Taken {
            stage: self.free().pop(),
            stages: Arc::clone(self),
            _permit: permit,
        };
        let lease = cores.one("verify").await;
        (taken, lease)
    }
}

/// A stage that serves one job. Dropping it gives the stage back.
struct Taken {
    /// Present until it is given back.
    stage: Option<Box<dyn Stage>>,
    stages: Arc<Stages>,
    /// Dropped after the stage was given back.
    _permit: OwnedSemaphorePermit,
}

impl Taken {
    /// Verifies one candidate and gives the stage back. A stage that panicked can serve the next candidate, too: each
    /// candidate has a process of its own, and the cases are only read.
    fn verify(
        mut self,
        object: &[u8],
        seed: u64,
        thoroughness: Thoroughness,
    ) -> Result<Report, Failure> {
        let stage = self.stage.as_mut().expect("a permit stands for a stage");
        stage.verify(object, seed, thoroughness)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.stages.free().extend(self.stage.take());
    }
}

/// The stage context that verifies candidates for the first problem of its context.
pub struct StageContext {
    context: Arc<Context>,
    stages: Arc<Stages>,
    last_look: Option<Arc<dyn LastLook>>,
}

impl StageContext {
    /// A stage context with these stages, each of which serves one job at a time. Kernels have as many as the node has
    /// cores, or as its verifier has slots; a module has one.
    pub fn new<S: Stage>(context: Arc<Context>, stages: Vec<S>) -> Self {
        let stages = stages.into_iter().map(|stage| Box::new(stage) as _);
        Self {
            context,
            stages: Stages::new(stages.collect()),
            last_look: None,
        }
    }

    /// Adds a last check for programs that are about to become elites.
    #[must_use]
    pub fn with_last_look(mut self, last_look: Arc<dyn LastLook>) -> Self {
        self.last_look = Some(last_look);
        self
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
        let slots = stage_context.stages.permits.available_permits();
        Self {
            slots,
            host: context.host.clone(),
            stage_contexts: Arc::new(Only::new(run, problem, stage_context)),
        }
    }

    /// A verifier for all runs that have work for this node, which takes as many jobs at once as the node has cores.
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
    let (stage, _lease) = stage_context.stages.take(&host.cores).await;
    // The seeds are secrets, and no part of a run's reproducible seed.
    let seed = random();
    let look = look_at(&message.candidate);
    let thoroughness = look.thoroughness();
    let began = Instant::now();
    let work = tokio::task::spawn_blocking(move || stage.verify(&object, seed, thoroughness));
    let report = work.await;
    *seconds = began.elapsed().as_secs_f32();
    let mut report = report??;
    if look.sanitizes()
        && let Some(last_look) = stage_context.last_look.clone()
    {
        let (context, problem) = (&stage_context.context, &message.candidate.problem);
        let of = context.of(problem).ok_or_else(|| context.lacks(problem))?;
        let language = of.language(&message.candidate);
        let source = message.source.clone();
        let openmp = message.techniques.contains(Technique::Openmp);
        let check = tokio::task::spawn_blocking(move || last_look.check(language, &source, openmp));
        let checked = check.await;
        *seconds = began.elapsed().as_secs_f32();
        let checked = checked??;
        report.seconds += checked.seconds;
        tracing::debug!(candidate = %message.candidate.id, seconds = checked.seconds, left_out = ?checked.left_out, "sanitizers found nothing");
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use futures::FutureExt;

    use super::*;

    /// Cannot digest an empty program.
    struct Fake;

    impl Stage for Fake {
        fn verify(&mut self, object: &[u8], _: u64, _: Thoroughness) -> Result<Report, Failure> {
            assert!(!object.is_empty(), "indigestible");
            Ok(Report {
                cases: 1,
                sizes: None,
                worst_error_share: 0.0,
                seconds: 0.0,
            })
        }
    }

    #[tokio::test]
    async fn a_job_that_waits_for_a_stage_leaves_the_cores_to_others() {
        let cores = Pool::new(2);
        let stages = Stages::new(vec![Box::new(Fake)]);
        let first = stages.take(&cores).await;
        let mut second = Box::pin(stages.take(&cores));
        assert!((&mut second).now_or_never().is_none(), "one stage");
        let other = cores.one("compile").now_or_never();
        assert!(other.is_some(), "the waiting job holds the other core");
        drop(first);
        let (stage, _lease) = second.await;
        assert!(stage.verify(b"object", 0, Thoroughness::Full).is_ok());
    }

    #[tokio::test]
    async fn a_stage_is_free_again_after_a_panic_and_after_a_job_that_gave_up() {
        let cores = Pool::new(1);
        let stages = Stages::new(vec![Box::new(Fake)]);
        let (stage, lease) = stages.take(&cores).await;
        let verify = || stage.verify(b"", 0, Thoroughness::Full);
        assert!(catch_unwind(AssertUnwindSafe(verify)).is_err());
        // This job has the stage and waits for the core when it is dropped.
        assert!(stages.take(&cores).now_or_never().is_none());
        drop(lease);
        assert!(stages.take(&cores).now_or_never().is_some());
    }
}
