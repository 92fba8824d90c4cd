//! A node: what its roles share, and how they are started.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flopsmith_bus::{Bus, Worker, WorkerOptions};
use flopsmith_problem::Problem;
use flopsmith_protocol::{
    CandidateRef, Digest, MachineClass, MachineFacts, Message, NodeId, Outcome, RunId,
    TechniqueSet, Verdict, subjects,
};
use flopsmith_store::Store;
use tokio_util::sync::CancellationToken;

use crate::cores::Cores;
use crate::error::Error;
use crate::results::{Yardstick, key};
use crate::settings::Settings;
use crate::supervisor::{Limits, Spec, Supervised, supervise};

/// What the roles of one node share. Everything else they learn from the bus.
pub struct Context {
    /// The run.
    pub run: RunId,
    /// The run's settings.
    pub settings: Settings,
    /// The run's folder on this node.
    pub folder: PathBuf,
    /// This node.
    pub node: NodeId,
    /// Its machine class.
    pub machine_class: MachineClass,
    /// The problem of the run.
    pub problem: Arc<Problem>,
    /// Compiler, version and flags.
    pub toolchain: Digest,
    /// The message bus.
    pub bus: Bus,
    /// The artifact store.
    pub store: Store,
    /// The processor cores.
    pub cores: Cores,
    /// Deliveries of one message before its failure is final.
    pub attempts: u32,
    yardstick: Yardstick,
    best: Mutex<Option<f64>>,
    disturbed: AtomicU64,
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
}

/// What a [`Context`] is made of.
pub struct Parts {
    /// The run.
    pub run: RunId,
    /// The run's settings.
    pub settings: Settings,
    /// The run's folder on this node.
    pub folder: PathBuf,
    /// This node.
    pub node: NodeId,
    /// The problem.
    pub problem: Arc<Problem>,
    /// Compiler, version and flags.
    pub toolchain: Digest,
    /// The message bus.
    pub bus: Bus,
    /// The artifact store.
    pub store: Store,
    /// Cores of this node.
    pub cores: Cores,
}

impl Context {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Result<Arc<Self>, Error> {
        let machine_class = MachineClass::new(&parts.settings.machine_class)
            .map_err(|e| Error::Settings(e.to_string()))?;
        Ok(Arc::new(Self {
            run: parts.run,
            settings: parts.settings,
            folder: parts.folder,
            node: parts.node,
            machine_class,
            yardstick: Yardstick::of(&parts.problem, &parts.toolchain),
            problem: parts.problem,
            toolchain: parts.toolchain,
            bus: parts.bus,
            store: parts.store,
            cores: parts.cores,
            attempts: 3,
            best: Mutex::new(None),
            disturbed: AtomicU64::new(0),
        }))
    }

    /// A pull worker with at most `slots` messages in hand. Its queue's consumer has the subject's name: two classes of machines that shared
    /// one would take each other's work.
    pub async fn worker<M: Message + Send + Sync + 'static>(
        &self,
        subject: &str,
        slots: usize,
    ) -> Result<Worker<M>, Error> {
        let options = WorkerOptions {
            subject: subject.to_owned(),
            slots,
            ack_wait: Duration::from_secs(10),
            ..WorkerOptions::default()
        };
        Ok(self.bus.worker(options).await?)
    }

    /// The key under which the outcome of a program may be reused.
    pub fn key(&self, source: &str, candidate: &CandidateRef) -> Digest {
        key(source, candidate, &self.yardstick)
    }

    /// Publishes an outcome, and notes it in the span of the work that led to it.
    pub async fn publish_outcome(&self, decided: Decided<'_>) -> Result<(), Error> {
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
            machine_class: self.machine_class.clone(),
            decided_unix_ms: unix_ms(),
        };
        self.bus
            .publish(&subjects::outcome(&self.run), &outcome)
            .await?;
        Ok(())
    }

    /// The floating-point peak of this machine class, GFLOPS, as the first of its nodes said it, which it does before it
    /// times anything. Later sittings and other nodes measure slightly different ones; rewards go by one for the whole run.
    pub async fn machine_peak(&self) -> Result<Option<f64>, Error> {
        let subject = subjects::machine(&self.run);
        let mut log = self.bus.log::<MachineFacts>(&subject, 0).await?;
        let said = log.replay().await?.into_iter().map(|(_, facts)| facts);
        Ok(said
            .filter(|facts| facts.machine_class == self.machine_class)
            .map(|facts| facts.peak_gflops)
            .find(|peak| *peak > 0.0))
    }

    /// The best speed measured so far on this node, for screening.
    pub fn best_known(&self) -> Option<f64> {
        *self
            .best
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Notes a measured speed.
    pub fn note_best(&self, gflops: f64) {
        let mut best = self
            .best
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *best = Some(best.map_or(gflops, |b| b.max(gflops)));
    }

    /// Programs that this node timed while others were at work on its cores.
    pub fn disturbed(&self) -> u64 {
        self.disturbed.load(Ordering::Relaxed)
    }

    /// Notes that so many more are about to be timed so.
    pub fn note_disturbed(&self, programs: usize) {
        let programs = u64::try_from(programs).unwrap_or(u64::MAX);
        self.disturbed.fetch_add(programs, Ordering::Relaxed);
    }
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// A running node.
pub struct Node {
    /// What its roles share.
    pub context: Arc<Context>,
    supervised: Supervised,
}

impl Node {
    /// Starts `specs` under supervision.
    pub async fn start(
        context: Arc<Context>,
        specs: Vec<Spec>,
        stop: CancellationToken,
    ) -> Result<Self, Error> {
        let supervised = supervise(specs, Limits::default(), stop).await?;
        Ok(Self {
            context,
            supervised,
        })
    }

    /// Waits for the roles to end by themselves.
    pub async fn wait(&mut self) -> crate::supervisor::Standing {
        self.supervised.wait().await
    }

    /// Drains the roles.
    pub async fn close(self, grace: Duration) -> crate::supervisor::Standing {
        self.supervised.close(grace).await
    }
}
