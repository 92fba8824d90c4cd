//! Verifier: compiled → verified, or an outcome.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use flopsmith_bench::{Failure, Verifier as Stage};
use flopsmith_bus::{Delivery, ErrorClass, Worker};
use flopsmith_protocol::{Compiled, Verified, subjects};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::Role;
use crate::error::Error;
use crate::node::{Context, Decided};
use crate::trace::candidate_span;

/// Verifies compiled candidates, one per core at a time.
pub struct Verifier {
    context: Arc<Context>,
    stages: Arc<Mutex<Vec<Stage>>>,
    slots: usize,
}

impl Verifier {
    /// A verifier that runs as many jobs at once as it has stages.
    pub fn new(context: Arc<Context>, stages: Vec<Stage>) -> Self {
        let slots = stages.len();
        Self {
            context,
            stages: Arc::new(Mutex::new(stages)),
            slots,
        }
    }
}

#[async_trait]
impl Role for Verifier {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let mut worker: Worker<Compiled> = self
            .context
            .worker(&subjects::verify("cpu"), "verifier", self.slots)
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
                    let work = verify(Arc::clone(&self.context), Arc::clone(&self.stages), delivery);
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
    stages: Arc<Mutex<Vec<Stage>>>,
    delivery: Delivery<Compiled>,
) -> Result<(), Error> {
    let message = delivery.message().clone();
    let object = match context.store.get(&message.object).await {
        Ok(object) => object,
        Err(error) if delivery.attempt() < context.attempts => {
            tracing::warn!(%error, "the object could not be read; trying again");
            return Ok(delivery.retry(ErrorClass::Infrastructure).await?);
        }
        Err(error) => return Err(error.into()),
    };
    let lease = context.cores.one("verify").await;
    let seed = rand_seed();
    let work = tokio::task::spawn_blocking(move || {
        let taken = stages
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .pop();
        let mut stage = taken.expect("as many stages as slots");
        let report = stage.verify(&object, seed);
        stages
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(stage);
        report
    });
    let report = work.await.map_err(|_| Error::Thread("verifier"))?;
    drop(lease);
    match report {
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
        Err(Failure::Infrastructure { cause, detail }) if delivery.attempt() < context.attempts => {
            tracing::warn!(%cause, detail, candidate = %message.candidate.id, "verify stage failed; trying again");
            delivery.retry(ErrorClass::Infrastructure).await?;
        }
        Err(failure) => {
            let decided = Decided {
                candidate: &message.candidate,
                source: &message.source,
                techniques: Some(message.techniques),
                verdict: failure.into(),
                stage_seconds: [message.compile_seconds, 0.0, 0.0],
            };
            context.publish_outcome(decided).await?;
            delivery.done().await?;
        }
    }
    Ok(())
}

/// The verifier's seeds are secrets, not part of a run's reproducible seed.
fn rand_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}
