//! What the roles of a node have, whatever run they work for.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use flopsmith_bus::{Bus, Delivery, ErrorClass, Worker, WorkerOptions};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    ArtifactRef, CandidateRef, Digest, MachineClass, Message, NodeId, Outcome, TechniqueSet,
    Verdict, subjects,
};
use flopsmith_store::Store;

use crate::circuit_breaker::CircuitBreaker;
use crate::cores::Cores;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::node::unix_ms;
use crate::outcome_cache::Results;
use crate::settings::Settings;
use crate::stage_failure::StageFailure;
use crate::supervisor::Excuse;

/// A job of a stage that is held for longer than this hangs: many times what it takes, and what it may wait for cores.
const HOLD_LIMIT: Duration = Duration::from_secs(15 * 60);

/// A node: its place on the bus, its store and its cores. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    /// This node.
    pub node: NodeId,
    /// Its machine class.
    pub machine_class: MachineClass,
    /// The message bus.
    pub bus: Bus,
    /// The artifact store.
    pub store: Store,
    /// The processor cores.
    pub cores: Cores,
    /// What is known of programs that were tried before.
    pub results: Results,
    /// What is counted.
    pub metrics: Metrics,
    /// Whether its stages are to be trusted with work.
    pub standing: CircuitBreaker,
    /// Failures of one message before its failure is final.
    pub attempts: u32,
    /// Tells this process from all others, also from an earlier one of the same node.
    pub instance: String,
}

/// A decision about a candidate, to be published.
pub struct Decided<'a> {
    /// Which candidate.
    pub candidate: &'a CandidateRef,
    /// Its source.
    pub source: &'a str,
    /// Its techniques, once known.
    pub techniques: Option<TechniqueSet>,
    /// Width of the widest vector register in its object, once known.
    pub vector_bits: Option<u32>,
    /// The verdict.
    pub verdict: Verdict,
    /// Seconds of compile, verify, time.
    pub stage_seconds: [f32; 3],
    /// What it was compiled to, once it was.
    pub object: Option<&'a ArtifactRef>,
    /// Under which equal programs find the outcome; none where nobody is to find it.
    pub key: Option<&'a Digest>,
}

impl Host {
    /// A node with these parts.
    pub fn new(
        node: NodeId,
        machine_class: MachineClass,
        bus: Bus,
        store: Store,
        cores: Cores,
    ) -> Self {
        Self {
            results: Results::new(bus.clone()),
            metrics: Metrics::default(),
            standing: CircuitBreaker::default(),
            instance: format!("{node}/{:016x}", RandomState::new().build_hasher().finish()),
            node,
            machine_class,
            bus,
            store,
            cores,
            attempts: 3,
        }
    }

    /// Cores that sampling and training each take of a run with these settings: all of them, one after the other, but where they are to go on side by side in
    /// this process. On a bus that nodes share they are meant to be on nodes of their own.
    pub fn policy_cores(&self, settings: &Settings) -> u32 {
        match settings.generator.steps_ahead > 0 && self.bus.is_private() {
            true => (self.cores.total() / 2).max(1),
            false => self.cores.total(),
        }
    }

    /// Says whether the bus is away at a moment: whatever fails then is not to blame.
    pub fn outage(&self) -> Excuse {
        let bus = self.bus.clone();
        Arc::new(move || !bus.is_connected())
    }

    /// A pull worker with at most `slots` messages in hand. Its queue's consumer has the subject's name: two classes of machines that shared
    /// one would take each other's work.
    pub async fn worker<M: Message + Send + Sync + 'static>(
        &self,
        subject: &str,
        slots: usize,
    ) -> Result<Worker<M>, Error> {
        self.worker_that(WorkerOptions::new(subject, slots)).await
    }

    /// The same for a stage whose jobs are short: one that is held for longer is given to others, as its holder hangs. `parked` more
    /// may be held that only wait for another one.
    pub(crate) async fn stage_worker<M: Message + Send + Sync + 'static>(
        &self,
        queue: &Queue,
        slots: usize,
        parked: usize,
    ) -> Result<Worker<M>, Error> {
        let options = WorkerOptions {
            parked,
            hold_limit: HOLD_LIMIT,
            ..WorkerOptions::new(queue.all(), slots)
        };
        self.worker_that(options).await
    }

    /// The same for work of one run, whose queue's consumer ends some time after it.
    pub async fn own_worker<M: Message + Send + Sync + 'static>(
        &self,
        subject: &str,
        slots: usize,
    ) -> Result<Worker<M>, Error> {
        let options = WorkerOptions {
            forget_after: Some(Duration::from_secs(3600)),
            ..WorkerOptions::new(subject, slots)
        };
        self.worker_that(options).await
    }

    async fn worker_that<M: Message + Send + Sync + 'static>(
        &self,
        options: WorkerOptions,
    ) -> Result<Worker<M>, Error> {
        let options = WorkerOptions {
            ack_wait: Duration::from_secs(10),
            ..options
        };
        Ok(self.bus.worker(options).await?)
    }

    /// Publishes an outcome, and notes it in the span of the work that led to it.
    ///
    /// Equal programs find it afterwards. Where that cannot be noted they are tried themselves, after a while, so it is no failure.
    pub async fn publish_outcome(&self, decided: Decided<'_>) -> Result<(), Error> {
        self.publish_outcome_as(decided, None).await
    }

    /// [`Host::publish_outcome`] for what others may have published an outcome of that nobody can read: `instead` tells it apart from that.
    pub(crate) async fn publish_outcome_as(
        &self,
        decided: Decided<'_>,
        instead: Option<&str>,
    ) -> Result<(), Error> {
        let span = tracing::Span::current();
        span.record("verdict", decided.verdict.kind());
        if let Some(techniques) = decided.techniques {
            span.record("techniques", tracing::field::display(techniques));
        }
        let outcome = Outcome {
            candidate: decided.candidate.clone(),
            source: decided.source.to_owned(),
            techniques: decided.techniques,
            vector_bits: decided.vector_bits,
            verdict: decided.verdict,
            stage_seconds: decided.stage_seconds,
            node: self.node.clone(),
            // Whoever decided it, it may enter the cells of the machines that were asked for only.
            machine_class: decided.candidate.machine_class.clone(),
            decided_unix_ms: unix_ms(),
        };
        let subject = subjects::outcome(&outcome.candidate.run);
        match instead {
            Some(name) => self.bus.publish_instead(&subject, &outcome, name).await?,
            None => self.bus.publish(&subject, &outcome).await?,
        }
        self.metrics
            .decided(&outcome.verdict, outcome.stage_seconds);
        if let Some(key) = decided.key {
            self.results.note(key, &outcome, decided.object).await;
        }
        Ok(())
    }

    /// Has a stage take no work for a while where it failed again and again, so that other nodes have it. A run's own
    /// broker has no other nodes.
    pub(crate) fn rest_if_due<M>(&self, stage: &'static str, worker: &mut Worker<M>) {
        let Some(rest) = self.standing.rest(stage) else {
            return;
        };
        if !self.bus.is_private() {
            let seconds = rest.as_secs();
            tracing::warn!(
                stage,
                seconds,
                "program after program fails here through no fault of its own: this node takes none for a while"
            );
            worker.rest(rest);
        }
    }

    /// What becomes of work that met a stage failure: it is tried again, here or elsewhere, or what `decided` makes of the verdict is its
    /// outcome. `stage` says whose work it is, for people.
    pub(crate) async fn give_up_or_retry<'a, M>(
        &self,
        stage: &'static str,
        delivery: Delivery<M>,
        stage_failure: StageFailure,
        decided: impl FnOnce(Verdict) -> Decided<'a>,
    ) -> Result<(), Error> {
        let again = stage_failure.try_again(delivery.failures() + 1, self.attempts);
        let stopping = stage_failure.class == ErrorClass::Shutdown;
        let class = match again {
            true => stage_failure.class,
            false => ErrorClass::Elsewhere,
        };
        // A stage that panicked or hung says nothing of the program either.
        let ours = stage_failure.concerns_the_stage();
        let alone = self.bus.is_private();
        let decided = decided(stage_failure.verdict.clone());
        let id = &decided.candidate.id;
        match ours {
            _ if stopping => {}
            true => self.standing.failed(stage, id),
            false => self.standing.worked(stage),
        }
        let decides = stage_failure.decides(alone, self.standing.vouches(stage, id));
        if again || !decides {
            tracing::warn!(stage, verdict = ?decided.verdict, candidate = %id, "the stage failed; trying again");
            self.metrics.retried(stage);
            return Ok(delivery.retry(class).await?);
        }
        self.publish_outcome(decided).await?;
        Ok(delivery.done().await?)
    }
}
