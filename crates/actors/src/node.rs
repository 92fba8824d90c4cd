//! A node: the state that its roles share, and how they are started.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flopsmith_endpoint::Spending;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{CandidateRef, Digest, MachineFacts, ProblemId, RunId, subjects};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::host::Host;
use crate::outcome_cache::{ComparabilityKey, key};
use crate::peaks::Peaks;
use crate::stage_failure::StageFailure;
use crate::supervisor::{Limits, Spec, Supervised, supervise};
use flopsmith_config::Settings;

/// State that the roles of one run share on a node. All other facts reach the roles over the bus.
pub struct Context {
    /// The run.
    pub run: RunId,
    /// The run's settings.
    pub settings: Settings,
    /// The run's folder on this node.
    pub folder: PathBuf,
    /// Compiler, version and flags.
    pub toolchain: Digest,
    /// The node: its bus, store and cores.
    pub host: Host,
    first: OfProblem,
    others: Vec<OfProblem>,
    asked: Mutex<Asked>,
}

/// The requests of a run to an endpoint, so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    /// Requests that ended, and what they cost; none if the run asks no endpoint.
    pub spending: Option<Spending>,
    /// The last failure that a request is repeated for; empty once one is answered.
    pub trouble: String,
    /// True if the budget of the endpoint has no room for another request.
    pub exhausted: bool,
}

/// A problem of a run, and what this node knows of it.
pub struct OfProblem {
    /// The problem.
    pub problem: Arc<Problem>,
    comparability_key: ComparabilityKey,
    best: Mutex<Option<f64>>,
}

/// The parts of a [`Context`].
pub struct Parts {
    /// The run.
    pub run: RunId,
    /// The run's settings.
    pub settings: Settings,
    /// The run's folder on this node.
    pub folder: PathBuf,
    /// The run's first problem.
    pub problem: Arc<Problem>,
    /// Its other problems.
    pub others: Vec<Arc<Problem>>,
    /// Compiler, version and flags.
    pub toolchain: Digest,
    /// The node.
    pub host: Host,
}

impl Context {
    /// Builds a context from its parts.
    pub fn new(parts: Parts) -> Arc<Self> {
        let of = |problem| OfProblem::new(problem, &parts.toolchain);
        Arc::new(Self {
            first: of(parts.problem),
            others: parts.others.into_iter().map(of).collect(),
            run: parts.run,
            settings: parts.settings,
            folder: parts.folder,
            toolchain: parts.toolchain,
            host: parts.host,
            asked: Mutex::default(),
        })
    }

    /// The run's first problem. A node that evaluates programs has a context for each problem.
    pub fn first(&self) -> &OfProblem {
        &self.first
    }

    /// The run's problems, in the order in which its tasks take turns.
    pub fn problems(&self) -> impl Iterator<Item = &OfProblem> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The problem of this name; none if this node does not have it for the run.
    pub fn of(&self, problem: &ProblemId) -> Option<&OfProblem> {
        let mut problems = self.problems();
        problems.find(|of| of.problem.id == *problem)
    }

    /// The failure of a node that does not have a problem of the run; another node may have it.
    pub(crate) fn lacks(&self, problem: &ProblemId) -> StageFailure {
        StageFailure::other_node(format!(
            "this node does not have problem {problem} for run {}",
            self.run
        ))
    }

    /// The floating-point peaks of this machine class, as the first of its nodes published them; a node publishes
    /// its peak before it times anything. Later sessions and other nodes measure slightly different peaks; rewards use
    /// one peak of each problem for the whole run.
    pub async fn machine_peaks(&self) -> Result<Peaks, Error> {
        let said = self.machine_facts().await?.into_iter();
        Ok(Peaks::of(said, &self.host.machine_class))
    }

    /// All facts that the run's timing nodes have published about their machines, the earliest first.
    pub(crate) async fn machine_facts(&self) -> Result<Vec<MachineFacts>, Error> {
        let subject = subjects::machine(&self.run);
        let mut log = self.host.bus.log::<MachineFacts>(&subject, 0).await?;
        let said = log.replay().await?.into_iter().map(|(_, facts)| facts);
        Ok(said.collect())
    }

    /// The requests to the endpoint so far.
    pub fn asked(&self) -> Asked {
        self.asked
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// Notes requests to the endpoint.
    pub fn note_asked(&self, note: impl FnOnce(&mut Asked)) {
        note(
            &mut self
                .asked
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        );
    }

    /// Programs that this node timed while other processes were at work on its cores.
    pub fn disturbed(&self) -> u64 {
        self.host.disturbed.load(Ordering::Relaxed)
    }

    /// Notes that `programs` more are about to be timed in this way.
    pub fn note_disturbed(&self, programs: usize) {
        let programs = u64::try_from(programs).unwrap_or(u64::MAX);
        self.host.disturbed.fetch_add(programs, Ordering::Relaxed);
    }
}

impl OfProblem {
    fn new(problem: Arc<Problem>, toolchain: &Digest) -> Self {
        Self {
            comparability_key: ComparabilityKey::of(&problem, toolchain),
            problem,
            best: Mutex::new(None),
        }
    }

    /// The key under which the outcome of a program may be reused.
    pub fn key(&self, source: &str, candidate: &CandidateRef) -> Digest {
        key(source, candidate, &self.comparability_key)
    }

    /// The language of a candidate's program.
    pub fn language(&self, candidate: &CandidateRef) -> Language {
        candidate.language.unwrap_or(self.problem.language)
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
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// A running node.
pub struct Node {
    /// The shared state of its roles.
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
        let excuse = context.host.outage();
        let supervised = supervise(specs, Limits::default(), excuse, stop).await?;
        Ok(Self {
            context,
            supervised,
        })
    }

    /// Waits for the roles to end by themselves.
    pub async fn wait(&mut self) -> crate::supervisor::RoleState {
        self.supervised.wait().await
    }

    /// Drains the roles.
    pub async fn close(self, grace: Duration) -> crate::supervisor::RoleState {
        self.supervised.close(grace).await
    }
}
