//! Timer: verified → outcome. Has every core of its node while it measures.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use flopsmith_bench::{Failure, Purpose as Measure, Timer as Stage};
use flopsmith_bus::{Delivery, ErrorClass, Worker};
use flopsmith_protocol::{Purpose, Verdict, Verified, subjects};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::Role;
use crate::error::Error;
use crate::node::{Context, Decided};
use crate::settings::Standard;
use crate::trace::candidate_span;

/// At most this many programs are timed under one lease of the cores.
const BATCH: usize = 32;

/// Times verified candidates, one after the other.
pub struct Timer {
    context: Arc<Context>,
    stage: Arc<Mutex<Stage>>,
}

impl Timer {
    /// A timer with a running baseline.
    pub fn new(context: Arc<Context>, stage: Arc<Mutex<Stage>>) -> Self {
        Self { context, stage }
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
        let subject = subjects::time(&self.context.machine_class);
        let mut worker: Worker<Verified> = self.context.worker(&subject, "timer", BATCH).await?;
        let mut batch: Vec<Delivery<Verified>> = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                delivery = worker.next(), if batch.len() < BATCH => {
                    let Some(delivery) = delivery else { break };
                    batch.push(delivery);
                }
                // With work in hand: begin once nobody compiles any more, or after a while.
                () = self.context.cores.quiet(Duration::from_millis(15), Duration::from_secs(4)), if !batch.is_empty() => {
                    self.time(std::mem::take(&mut batch), &stop).await?;
                }
            }
        }
        for delivery in batch {
            delivery.retry(ErrorClass::Shutdown).await?;
        }
        Ok(())
    }
}

impl Timer {
    async fn time(
        &mut self,
        batch: Vec<Delivery<Verified>>,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let mut objects = Vec::with_capacity(batch.len());
        for delivery in &batch {
            objects.push(
                self.context
                    .store
                    .get(&delivery.message().compiled.object)
                    .await,
            );
        }
        let lease = self.context.cores.all("time").await;
        for (delivery, object) in batch.into_iter().zip(objects) {
            if stop.is_cancelled() {
                delivery.retry(ErrorClass::Shutdown).await?;
                continue;
            }
            let object = match object {
                Ok(object) => object,
                Err(error) if delivery.attempt() < self.context.attempts => {
                    tracing::warn!(%error, "the object could not be read; trying again");
                    delivery.retry(ErrorClass::Infrastructure).await?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let span = span_of(&delivery);
            self.measure(delivery, object).instrument(span).await?;
        }
        drop(lease);
        Ok(())
    }

    /// Times one program; the cores are leased.
    async fn measure(
        &self,
        delivery: Delivery<Verified>,
        object: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<(), Error> {
        let message = delivery.message().clone();
        let compiled = &message.compiled;
        let stage = Arc::clone(&self.stage);
        let certify = compiled.candidate.purpose == Purpose::Certify;
        let evaluate = &self.context.settings.evaluate;
        let standard = purpose(if certify {
            evaluate.again
        } else {
            evaluate.purpose
        });
        let best = self.context.best_known();
        let seed = seed_of(&compiled.object.digest);
        let started = std::time::Instant::now();
        let work = tokio::task::spawn_blocking(move || {
            let mut stage = stage
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            stage.measure(object.as_ref(), standard, seed, best)
        });
        let timed = work.await.map_err(|_| Error::Thread("timer"))?;
        let seconds = started.elapsed().as_secs_f32();
        Span::current().record("seconds", f64::from(seconds));
        let verdict = match timed {
            Ok(timed) => {
                let mut measurement = timed.measurement;
                measurement.samples = Some(self.context.store.put(timed.raw).await?);
                self.context.note_best(measurement.gflops);
                Verdict::Measured { measurement }
            }
            Err(Failure::Infrastructure { cause, detail })
                if delivery.attempt() < self.context.attempts =>
            {
                tracing::warn!(%cause, detail, candidate = %compiled.candidate.id, "timing failed; trying again");
                return Ok(delivery.retry(ErrorClass::Infrastructure).await?);
            }
            Err(failure) => failure.into(),
        };
        let decided = Decided {
            candidate: &compiled.candidate,
            source: &compiled.source,
            techniques: Some(compiled.techniques),
            verdict,
            stage_seconds: [compiled.compile_seconds, message.verify_seconds, seconds],
        };
        self.context.publish_outcome(decided).await?;
        Ok(delivery.done().await?)
    }
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
