//! Verifier: compiled → verified, or an outcome.
//!
//! Programs that are about to become elites are looked at once more, with sanitizers ([`LastLook`]): here, because this
//! is the last stage that may run beside others, and a slow one.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use async_trait::async_trait;
use flopsmith_bench::{Checked, Failure, Report, Thoroughness};
use flopsmith_bus::{Delivery, Worker};
use flopsmith_protocol::{CandidateRef, Compiled, Purpose, Technique, Verified, subjects};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::Role;
use crate::error::Error;
use crate::mishap::Mishap;
use crate::node::{Context, Decided};
use crate::trace::candidate_span;

/// What verifies: [`flopsmith_bench::Verifier`], and in tests what fails as they need it.
pub trait Stage: Send + 'static {
    /// Checks one compiled candidate with the secret cases that `rng_seed` chooses.
    fn verify(
        &mut self,
        object: &[u8],
        rng_seed: u64,
        thoroughness: Thoroughness,
    ) -> Result<Report, Failure>;
}

impl Stage for flopsmith_bench::Verifier {
    fn verify(
        &mut self,
        object: &[u8],
        rng_seed: u64,
        thoroughness: Thoroughness,
    ) -> Result<Report, Failure> {
        self.verify_to(object, rng_seed, thoroughness)
    }
}

/// What looks at programs that are about to become elites: [`flopsmith_bench::Sanitizers`], and in tests what finds as they
/// need it.
pub trait LastLook: Send + Sync + 'static {
    /// Looks at a verified program; `openmp` says whether it uses OpenMP.
    fn check(&self, source: &str, openmp: bool) -> Result<Checked, Failure>;
}

impl LastLook for flopsmith_bench::Sanitizers {
    fn check(&self, source: &str, openmp: bool) -> Result<Checked, Failure> {
        flopsmith_bench::Sanitizers::check(self, source, openmp)
    }
}

type Stages = Arc<Mutex<Vec<Box<dyn Stage>>>>;

/// Verifies compiled candidates, one per core at a time.
pub struct Verifier {
    context: Arc<Context>,
    stages: Stages,
    slots: usize,
    last_look: Option<Arc<dyn LastLook>>,
}

impl Verifier {
    /// A verifier that runs as many jobs at once as it has stages.
    pub fn new<S: Stage>(context: Arc<Context>, stages: Vec<S>) -> Self {
        let slots = stages.len();
        let stages: Vec<Box<dyn Stage>> = stages
            .into_iter()
            .map(|stage| Box::new(stage) as Box<dyn Stage>)
            .collect();
        Self {
            context,
            stages: Arc::new(Mutex::new(stages)),
            slots,
            last_look: None,
        }
    }

    /// Has programs that are about to become elites looked at once more.
    pub fn with_last_look(mut self, last_look: Arc<dyn LastLook>) -> Self {
        self.last_look = Some(last_look);
        self
    }
}

/// Is this program measured once more because it would become an elite?
fn is_about_to_be_elite(candidate: &CandidateRef) -> bool {
    candidate.purpose == Purpose::Certify && candidate.remeasures.is_some()
}

/// A fresh program gets the cheap look; what is measured once more is to count, as an elite or in a report.
fn thoroughness(candidate: &CandidateRef) -> Thoroughness {
    match candidate.purpose {
        Purpose::Certify => Thoroughness::Full,
        _ => Thoroughness::Screening,
    }
}

#[async_trait]
impl Role for Verifier {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let mut worker: Worker<Compiled> = self
            .context
            .worker(&subjects::verify("cpu"), self.slots)
            .await?;
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(result) = running.next(), if !running.is_empty() => { let () = result?; }
                delivery = worker.next(), if running.len() < self.slots => {
                    let Some(delivery) = delivery else { break };
                    let span = span_of(&delivery);
                    let last_look = self
                        .last_look
                        .clone()
                        .filter(|_| is_about_to_be_elite(&delivery.message().candidate));
                    let (context, stages) = (Arc::clone(&self.context), Arc::clone(&self.stages));
                    let work = verify(context, stages, last_look, delivery);
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
    context: Arc<Context>,
    stages: Stages,
    last_look: Option<Arc<dyn LastLook>>,
    delivery: Delivery<Compiled>,
) -> Result<(), Error> {
    let message = delivery.message().clone();
    let mut seconds = 0.0;
    match judge(&context, stages, last_look, &message, &mut seconds).await {
        Ok(report) => {
            Span::current().record("seconds", report.seconds);
            let verified = Verified {
                worst_error_share: report.worst_error_share,
                cases: report.cases,
                verify_seconds: report.seconds as f32,
                node: context.node.clone(),
                compiled: message,
            };
            let class = &verified.compiled.candidate.machine_class;
            context
                .bus
                .publish(&subjects::time(class), &verified)
                .await?;
            delivery.done().await?;
        }
        Err(mishap) if mishap.try_again(delivery.failures() + 1, context.attempts) => {
            tracing::warn!(verdict = ?mishap.verdict, candidate = %message.candidate.id, "verify stage failed; trying again");
            delivery.retry(mishap.class).await?;
        }
        Err(mishap) => {
            let decided = Decided {
                candidate: &message.candidate,
                source: &message.source,
                techniques: Some(message.techniques),
                vector_bits: message.vector_bits,
                verdict: mishap.verdict,
                stage_seconds: [message.compile_seconds, seconds, 0.0],
            };
            context.publish_outcome(decided).await?;
            delivery.done().await?;
        }
    }
    Ok(())
}

/// Reads the object and verifies it on a thread for blocking work; where that is wanted, the last look comes after it. What
/// it took is in `seconds` however it ends.
async fn judge(
    context: &Context,
    stages: Stages,
    last_look: Option<Arc<dyn LastLook>>,
    message: &Compiled,
    seconds: &mut f32,
) -> Result<Report, Mishap> {
    let object = context.store.get(&message.object).await?;
    let _lease = context.cores.one("verify").await;
    let seed = rand_seed();
    let thoroughness = thoroughness(&message.candidate);
    let began = Instant::now();
    let work = tokio::task::spawn_blocking(move || {
        let taken = stages
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .pop();
        let mut stage = taken.expect("as many stages as slots");
        // A stage that panicked serves the next candidate as well: each has a process of its own, and the cases are only read.
        let report = catch_unwind(AssertUnwindSafe(|| {
            stage.verify(&object, seed, thoroughness)
        }));
        stages
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(stage);
        report.unwrap_or_else(|panic| resume_unwind(panic))
    });
    let report = work.await;
    *seconds = began.elapsed().as_secs_f32();
    let mut report = report??;
    if let Some(last_look) = last_look {
        let source = message.source.clone();
        let openmp = message.techniques.contains(Technique::Openmp);
        let look = tokio::task::spawn_blocking(move || last_look.check(&source, openmp));
        let checked = look.await;
        *seconds = began.elapsed().as_secs_f32();
        let checked = checked??;
        report.seconds += checked.seconds;
        tracing::debug!(candidate = %message.candidate.id, seconds = checked.seconds, left_out = ?checked.left_out, "sanitizers found nothing");
    }
    Ok(report)
}

/// The verifier's seeds are secrets, not part of a run's reproducible seed.
fn rand_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}
