//! RecordedEvaluator: candidate → the outcome it had in a recorded run. Replaces compiler, verifier and timer when a
//! run is repeated.

use std::sync::Arc;

use async_trait::async_trait;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{Candidate, InfrastructureCause, Purpose, Verdict};
use tokio_util::sync::CancellationToken;

use super::Role;
use crate::error::Error;
use crate::host::Decided;
use crate::node::Context;
use crate::recorded::Recorded;

/// Candidates that are held at once.
const SLOTS: usize = 16;

/// Answers candidates with their recorded outcomes.
pub struct RecordedEvaluator {
    context: Arc<Context>,
    recorded: Arc<Recorded>,
}

impl RecordedEvaluator {
    /// Answers from `recorded`, for the context's run.
    pub fn new(context: Arc<Context>, recorded: Arc<Recorded>) -> Self {
        Self { context, recorded }
    }

    async fn answer(&self, asked: &Candidate) -> Result<(), Error> {
        let candidate = &asked.candidate;
        // A run waits a limited time for the last of its second measurements, and then ends without them.
        let never = candidate.purpose == Purpose::Certify && !self.recorded.knows(candidate);
        let (techniques, vector_bits, verdict, stage_seconds) = if never {
            let verdict = Verdict::Infrastructure {
                cause: InfrastructureCause::Bus,
                detail: "the recorded run ended before it was measured again".to_owned(),
            };
            (None, None, verdict, [0.0; 3])
        } else {
            let known = self.recorded.outcome(asked)?;
            let verdict = known.verdict.clone();
            (
                known.techniques,
                known.vector_bits,
                verdict,
                known.stage_seconds,
            )
        };
        let decided = Decided {
            candidate,
            source: &asked.source,
            techniques,
            vector_bits,
            verdict,
            stage_seconds,
            object: None,
            key: None,
        };
        self.context.host.publish_outcome(decided).await
    }
}

#[async_trait]
impl Role for RecordedEvaluator {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let host = &self.context.host;
        let queue = Queue::compile(&host.machine_class);
        let mut worker = host.worker::<Candidate>(&queue.all(), SLOTS).await?;
        loop {
            let delivery = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                delivery = worker.next() => match delivery {
                    Some(delivery) => delivery,
                    None => break,
                },
            };
            self.answer(delivery.message()).await?;
            delivery.done().await?;
        }
        Ok(())
    }
}
