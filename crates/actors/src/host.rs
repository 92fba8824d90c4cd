//! Parts of a node that its roles share for all runs.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use flopsmith_bus::{Bus, Delivery, ErrorClass, Worker, WorkerOptions};
use flopsmith_coordination::circuit_breaker::CircuitBreaker;
use flopsmith_coordination::delivery::{ACK_WAIT, ATTEMPTS};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    ArtifactRef, CandidateId, CandidateRef, Digest, Failure, MachineClass, Message, NodeId,
    Outcome, Request, TechniqueSet, UnknownCause, Verdict, subjects,
};
use flopsmith_store::Store;

use crate::error::Error;
use crate::metrics::Metrics;
use crate::node::unix_ms;
use crate::outcome_cache::OutcomeCache;
use crate::pool::{Lease, Pool};
use crate::stage_failure::StageFailure;
use crate::supervisor::Excuse;
use flopsmith_config::{Device, Settings};

/// A stage's job that is held for longer than this hangs. The limit is many times what a job takes, waiting for cores
/// included.
const HOLD_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Shares of a GPU, so that sampling and training may use it at the same time.
const GPU_SHARES: u32 = 2;

/// The leases of a role that samples or trains; dropping the value gives them back.
pub struct PolicyLease {
    _gpu: Option<Lease>,
    _cores: Lease,
}

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
    pub cores: Pool,
    /// The GPU on which policies are sampled and trained; none if they are computed on the cores.
    pub gpu: Option<Pool>,
    /// Cached outcomes of programs that were tried before.
    pub outcome_cache: OutcomeCache,
    /// The counters of this process.
    pub metrics: Metrics,
    /// Whether its stages can be trusted with work.
    pub circuit_breaker: CircuitBreaker<CandidateId>,
    /// Failures of one message before its failure is final.
    pub attempts: u32,
    /// Number of programs that this process timed while other processes were at work on its cores.
    pub disturbed: Arc<AtomicU64>,
    /// Identifies this process among all others, including earlier ones of the same node.
    pub instance: String,
}

/// A decision about a candidate, to be published.
pub struct Decided<'a> {
    /// The candidate.
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
    /// The object it was compiled to, once it was compiled.
    pub object: Option<&'a ArtifactRef>,
    /// The key under which identical programs find the outcome; none if they must not find it.
    pub key: Option<&'a Digest>,
}

impl Host {
    /// A node with these parts.
    pub fn new(
        node: NodeId,
        machine_class: MachineClass,
        bus: Bus,
        store: Store,
        cores: Pool,
    ) -> Self {
        Self {
            outcome_cache: OutcomeCache::new(bus.clone()),
            metrics: Metrics::default(),
            circuit_breaker: CircuitBreaker::default(),
            instance: format!("{node}/{:016x}", RandomState::new().build_hasher().finish()),
            node,
            machine_class,
            bus,
            store,
            cores,
            gpu: None,
            attempts: ATTEMPTS,
            disturbed: Arc::default(),
        }
    }

    /// The same node for the queues of another machine class. Its failures there say nothing of its other work.
    #[must_use]
    pub fn for_class(&self, machine_class: MachineClass) -> Self {
        Self {
            machine_class,
            circuit_breaker: CircuitBreaker::default(),
            ..self.clone()
        }
    }

    /// The same node with a GPU on which policies are sampled and trained.
    #[must_use]
    pub fn with_gpu(self) -> Self {
        Self {
            gpu: Some(Pool::new(GPU_SHARES)),
            ..self
        }
    }

    /// Cores that sampling and training each use in a run with these settings.
    pub fn policy_cores(&self, settings: &Settings) -> u32 {
        self.policy_share(settings, &self.cores)
    }

    /// Units of a resource that sampling and training each take in a run with these settings. If both go on at the same
    /// time in this process, each takes half of them; otherwise each takes all in turn. On a bus that nodes share,
    /// sampling and training are meant to be on separate nodes.
    fn policy_share(&self, settings: &Settings, pool: &Pool) -> u32 {
        match settings.generator.steps_ahead > 0 && self.bus.is_private() {
            true => (pool.total() / 2).max(1),
            false => pool.total(),
        }
    }

    /// The units that a role needs to sample or to train a policy: its share of the GPU and one core, or its share of
    /// the cores.
    pub async fn policy_lease(&self, role: &'static str, settings: &Settings) -> PolicyLease {
        let device = match role {
            "learn" => settings.learner.device,
            _ => settings.generator.device,
        };
        let Some(gpu) = self.gpu.as_ref().filter(|_| device != Device::Cpu) else {
            let cores = self.policy_cores(settings);
            return PolicyLease {
                _gpu: None,
                _cores: self.cores.some(role, cores).await,
            };
        };
        // Every role takes the GPU before the core, so no two wait for each other.
        let share = gpu.some(role, self.policy_share(settings, gpu)).await;
        PolicyLease {
            _gpu: Some(share),
            _cores: self.cores.one(role).await,
        }
    }

    /// A check that is true while the bus is away. A failure at such a moment is not the role's fault.
    pub fn outage(&self) -> Excuse {
        let bus = self.bus.clone();
        Arc::new(move || !bus.is_connected())
    }

    /// A pull worker that holds at most `slots` messages. The queue's consumer has the subject's name, because two
    /// machine classes with one consumer would take each other's work.
    pub async fn worker<M: Message + Send + Sync + 'static>(
        &self,
        subject: &str,
        slots: usize,
    ) -> Result<Worker<M>, Error> {
        self.worker_that(WorkerOptions::new(subject, slots)).await
    }

    /// The same for a stage whose jobs are short. A job that is held for longer than [`HOLD_LIMIT`] is given to another
    /// worker, because its holder hangs. The worker may hold `parked` more messages that only wait for another one.
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

    /// The same for work of one run. The server removes the queue's consumer some time after the run.
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
            ack_wait: ACK_WAIT,
            ..options
        };
        Ok(self.bus.worker(options).await?)
    }

    /// Publishes an outcome and notes it in the span of the work that led to it.
    ///
    /// Identical programs find the outcome afterwards. If the outcome cannot be noted for them, they are evaluated
    /// themselves after a while, so this is no failure.
    pub async fn publish_outcome(&self, decided: Decided<'_>) -> Result<(), Error> {
        self.publish_outcome_as(decided, None).await
    }

    /// [`Host::publish_outcome`] for a candidate whose outcome another node may have published in an unreadable form.
    /// `instead` lets the server tell this outcome from the unreadable one.
    pub(crate) async fn publish_outcome_as(
        &self,
        decided: Decided<'_>,
        instead: Option<&str>,
    ) -> Result<(), Error> {
        self.publish(decided, None, instead).await
    }

    /// Publishes the outcome of an answer that makes a request in place of writing a program.
    pub(crate) async fn publish_asked(
        &self,
        candidate: &CandidateRef,
        request: Request,
    ) -> Result<(), Error> {
        let decided = Decided {
            candidate,
            source: "",
            techniques: None,
            vector_bits: None,
            verdict: Failure::unknown(UnknownCause::Asked, request.to_string()).into(),
            stage_seconds: [0.0; 3],
            object: None,
            key: None,
        };
        self.publish(decided, Some(request), None).await
    }

    async fn publish(
        &self,
        decided: Decided<'_>,
        request: Option<Request>,
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
            request,
            stage_seconds: decided.stage_seconds,
            node: self.node.clone(),
            // The outcome may enter only the cells of the machine class that the candidate was meant for, whichever
            // node decided it.
            machine_class: decided.candidate.machine_class.clone(),
            decided_unix_ms: unix_ms(),
        };
        let subject = subjects::outcome(&outcome.candidate.run);
        match instead {
            Some(name) => self.bus.publish_instead(&subject, &outcome, name).await?,
            None => self.bus.publish(&subject, &outcome).await?,
        }
        // A request is no program, and counts in no rate.
        if outcome.request.is_none() {
            self.metrics
                .decided(&outcome.verdict, outcome.stage_seconds);
        }
        if let Some(key) = decided.key {
            self.outcome_cache.note(key, &outcome, decided.object).await;
        }
        Ok(())
    }

    /// Stops a stage from taking work for a while after repeated failures, so that other nodes get the work. A private
    /// broker has no other nodes, so there the stage goes on.
    pub(crate) fn rest_if_due<M>(&self, stage: &'static str, worker: &mut Worker<M>) {
        let Some(rest) = self.circuit_breaker.rest(stage) else {
            return;
        };
        if !self.bus.is_private() {
            let seconds = rest.as_secs();
            tracing::warn!(
                stage,
                seconds,
                "this node fails at program after program, through no fault of theirs; it takes no programs for a while"
            );
            worker.rest(rest);
        }
    }

    /// Handles work that met a stage failure: the work is tried again, here or on another node, or `decided` turns the
    /// verdict into its outcome. `stage` names the stage in logs and metrics.
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
            false => ErrorClass::OtherNode,
        };
        // A stage that panicked or hung says nothing of the program either.
        let ours = stage_failure.concerns_the_stage();
        let did_nothing = stage_failure.did_nothing();
        let alone = self.bus.is_private();
        let decided = decided(stage_failure.verdict.clone());
        let id = &decided.candidate.id;
        match ours {
            _ if stopping || stage_failure.lacks_tool => {}
            true => self.circuit_breaker.failed(stage, id),
            false if did_nothing => {}
            false => self.circuit_breaker.worked(stage),
        }
        let decides = stage_failure.decides(alone, self.circuit_breaker.vouches(stage, id));
        if again || !decides {
            tracing::warn!(stage, verdict = ?decided.verdict, candidate = %id, "the stage failed; trying again");
            self.metrics.retried(stage);
            return Ok(delivery.retry(class).await?);
        }
        self.publish_outcome(decided).await?;
        Ok(delivery.done().await?)
    }
}
