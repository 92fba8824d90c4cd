//! Roles against a real nats-server, one of its own for every test.
#![expect(clippy::unwrap_used, reason = "tests")]

mod archive;
mod generator;
mod learner;
mod recorder;
mod stages;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flopsmith_actors::node::{Context, Parts};
use flopsmith_actors::role::Role;
use flopsmith_actors::settings::GeneratorKind;
use flopsmith_actors::{Cores, Error, Settings};
use flopsmith_bus::{Bus, RunSetup, Server, ServerOptions};
use flopsmith_problem::Problem;
use flopsmith_protocol::{
    CandidateFault, CandidateId, CandidateRef, Digest, GroupId, Interval, MachineClass,
    Measurement, Message, NodeId, Outcome, PolicyVersion, Purpose, Rollout, RunId, Sampling,
    StopReason, Task, TaskId, TechniqueSet, Verdict,
};
use flopsmith_store::Store;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// No wait in these tests is longer.
const LIMIT: Duration = Duration::from_secs(30);

/// A run with its broker and its store.
struct World {
    _server: Server,
    bus: Bus,
    store: Store,
    folder: TempDir,
}

impl World {
    async fn new() -> Self {
        Self::with(&RunSetup::default()).await
    }

    async fn with(setup: &RunSetup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let nats = folder.path().join("nats");
        let server = Server::start(None, &nats, ServerOptions::default())
            .await
            .unwrap();
        let bus = Bus::connect(&server).await.unwrap();
        bus.ensure_streams(setup).await.unwrap();
        let store = folder.path().join("store");
        Self {
            _server: server,
            bus,
            store: Store::open(store.to_str().unwrap()).unwrap(),
            folder,
        }
    }

    fn context(&self, settings: Settings) -> Arc<Context> {
        let problem = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
        Context::new(Parts {
            run: run_id(),
            settings,
            folder: self.folder.path().to_owned(),
            node: NodeId::new("n").unwrap(),
            problem: Arc::new(Problem::load(&problem).unwrap()),
            toolchain: Digest::of(b"gcc"),
            bus: self.bus.clone(),
            store: self.store.clone(),
            cores: Cores::new(2),
        })
        .unwrap()
    }

    /// Everything in a log by now.
    async fn log<M: Message>(&self, subject: &str) -> Vec<M> {
        let mut log = soon(self.bus.log::<M>(subject, 0)).await.unwrap();
        let all = soon(log.replay()).await.unwrap();
        all.into_iter().map(|(_, message)| message).collect()
    }
}

/// A role at work.
struct Working {
    stop: CancellationToken,
    ended: tokio::task::JoinHandle<Result<(), Error>>,
}

fn start(mut role: impl Role) -> Working {
    let stop = CancellationToken::new();
    let told = stop.clone();
    Working {
        stop,
        ended: tokio::spawn(async move { role.run(told).await }),
    }
}

impl Working {
    async fn end(self) -> Result<(), Error> {
        self.stop.cancel();
        soon(self.ended).await.unwrap()
    }
}

/// Small settings: two tasks of two samples, and one step of them.
fn settings() -> Settings {
    let mut settings = Settings {
        tasks: 2,
        group_size: 2,
        max_steps: 1,
        ..Settings::default()
    };
    settings.generator.kind = GeneratorKind::Schedule;
    settings
}

fn run_id() -> RunId {
    RunId::new("r").unwrap()
}

/// The tasks that these settings make of a step.
fn task(step: u64, number: u32, purpose: Purpose) -> Task {
    let id = TaskId::of(&run_id(), step, number);
    Task {
        group: GroupId::of(&id),
        id,
        run: run_id(),
        step,
        tasks_in_step: 2,
        group_size: 2,
        problem: flopsmith_protocol::ProblemId::new("dgemm").unwrap(),
        stage: 0,
        permitted: TechniqueSet::EMPTY,
        elite: None,
        purpose,
        sampling: Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_tokens: 8,
        },
        seed: 1,
        machine_class: MachineClass::new("local").unwrap(),
        min_policy: PolicyVersion(0),
    }
}

/// A sample of such a task.
fn candidate(step: u64, number: u32, sample: u32, purpose: Purpose) -> CandidateRef {
    let task = task(step, number, purpose);
    CandidateRef {
        id: CandidateId::of(&task.id, sample),
        run: task.run,
        task: task.id,
        step,
        tasks_in_step: task.tasks_in_step,
        group: task.group,
        group_size: task.group_size,
        sample,
        problem: task.problem,
        stage: task.stage,
        permitted: task.permitted,
        purpose,
        policy: (purpose == Purpose::Train).then_some(PolicyVersion(step)),
        remeasures: None,
        machine_class: task.machine_class,
    }
}

fn outcome(candidate: CandidateRef, verdict: Verdict) -> Outcome {
    Outcome {
        source: format!("program of {}", candidate.id),
        candidate,
        techniques: None,
        vector_bits: None,
        verdict,
        stage_seconds: [0.0; 3],
        node: NodeId::new("n").unwrap(),
        machine_class: MachineClass::new("local").unwrap(),
        decided_unix_ms: 0,
    }
}

fn wrong() -> Verdict {
    Verdict::Rejected {
        fault: CandidateFault::WrongResult,
        detail: String::new(),
    }
}

fn measurement() -> Measurement {
    Measurement {
        gflops: 10.0,
        seconds_per_call: 0.001,
        ratio: 10.0,
        interval: Interval {
            low: 9.0,
            high: 11.0,
            confidence: 0.95,
        },
        log_ratio_se: 0.01,
        calls: 64,
        blocks: 8,
        mdape: 0.01,
        stop: StopReason::Precise,
        samples: None,
        attestation: Digest::of(b"machine"),
        share_of_peak: 0.2,
        reused: false,
    }
}

/// An outcome of a verified program without techniques.
fn measured(candidate: CandidateRef) -> Outcome {
    let measurement = measurement();
    Outcome {
        techniques: Some(TechniqueSet::EMPTY),
        ..outcome(candidate, Verdict::Measured { measurement })
    }
}

fn rollout(outcome: &Outcome) -> Rollout {
    Rollout {
        candidate: outcome.candidate.clone(),
        source: Digest::of(outcome.source.as_bytes()),
        prompt_tokens: vec![1],
        tokens: vec![2],
        logprobs: vec![-0.5],
        finished: true,
    }
}

/// Waits for a future, but not for ever.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future)
        .await
        .expect("it takes too long")
}
