//! Roles against a real nats-server, a separate one for every test.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::disallowed_methods,
    reason = "a role whose handle the test awaits"
)]

mod archive;
mod circuit_breaker;
mod conversation;
mod dynamic_sampling;
mod endpoint;
#[cfg(feature = "torch")]
mod endpoint_policy;
mod generator;
mod learner;
mod leases;
mod modules;
#[cfg(feature = "torch")]
mod policy;
mod quarantine;
mod recorded_evaluator;
mod recorder;
mod registry;
mod role_lease;
mod runs;
mod stages;
#[cfg(feature = "torch")]
mod training;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flopsmith_actors::node::{Context, Parts};
use flopsmith_actors::role::Role;
use flopsmith_actors::{Error, Host, Pool};
use flopsmith_bus::{Bus, RunSetup, Server, ServerOptions, WorkerOptions};
use flopsmith_config::GeneratorKind;
use flopsmith_config::Settings;
use flopsmith_problem::Problem;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{CandidateRef, Digest, Message, Purpose, Task};
use flopsmith_store::Store;
use flopsmith_test_support::{machine_class, node_id, run_id, sample_of};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Longest wait of these tests.
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
        Self::on(setup, ServerOptions::default()).await
    }

    async fn with_server(options: ServerOptions) -> Self {
        Self::on(&RunSetup::default(), options).await
    }

    async fn on(setup: &RunSetup, options: ServerOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let nats = folder.path().join("nats");
        let server = Server::start(None, &nats, options).await.unwrap();
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
        self.context_of(settings, &[])
    }

    /// A context of `dgemm` and other shipped problems.
    fn context_of(&self, settings: Settings, others: &[&str]) -> Arc<Context> {
        let problem = |name: &str| {
            let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
            Arc::new(Problem::load_any(&problems.join(name)).unwrap())
        };
        Context::new(Parts {
            run: run_id(),
            settings,
            folder: self.folder.path().to_owned(),
            problem: problem("dgemm"),
            others: others.iter().map(|name| problem(name)).collect(),
            toolchain: Digest::of(b"gcc"),
            host: self.host(),
        })
    }

    /// A node.
    fn host(&self) -> Host {
        let (bus, store) = (self.bus.clone(), self.store.clone());
        Host::new(node_id(), machine_class(), bus, store, Pool::new(2))
    }

    /// Puts messages into a queue, and takes each with a worker that cannot process it.
    async fn dead_letter<M: Message + Send + 'static>(
        &self,
        queue: &Queue,
        messages: &[M],
        reason: &str,
    ) {
        let options = WorkerOptions::new(queue.all(), 1);
        let subject = queue.of(&run_id());
        let mut queue = self.bus.worker::<M>(options).await.unwrap();
        self.bus.publish_many(&subject, messages).await.unwrap();
        for _ in messages {
            let delivery = soon(queue.next()).await.unwrap();
            delivery.dead(reason).await.unwrap();
        }
        queue.close();
    }

    /// A plain connection to the server.
    async fn client(&self) -> async_nats::Client {
        let options = self._server.connect_options();
        let flopsmith_bus::Auth::Token(token) = options.auth else {
            unreachable!("its own server has a token")
        };
        async_nats::ConnectOptions::new()
            .token(token)
            .connect(options.url)
            .await
            .unwrap()
    }

    /// Publishes a message like a node of another version: under its own name, and in an envelope that this build does
    /// not know.
    async fn publish_other_version<M: Message>(&self, subject: &str, message: &M) {
        let mut bytes = flopsmith_protocol::encode(message).unwrap();
        let version = bytes.windows(2).position(|w| w == b"\xa1v").unwrap() + 2;
        bytes[version] = 99;
        let client = self.client().await;
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Nats-Msg-Id", message.id());
        let subject = subject.to_owned();
        client
            .publish_with_headers(subject, headers, bytes.into())
            .await
            .unwrap();
        client.flush().await.unwrap();
    }

    /// All current entries of a log.
    async fn log<M: Message>(&self, subject: &str) -> Vec<M> {
        let mut log = soon(self.bus.log::<M>(subject, 0)).await.unwrap();
        let all = soon(log.replay()).await.unwrap();
        all.into_iter().map(|(_, message)| message).collect()
    }
}

/// A running role.
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

/// The tasks that these settings make of a step.
fn task(step: u64, number: u32, purpose: Purpose) -> Task {
    Task {
        purpose,
        ..flopsmith_test_support::task(step, number)
    }
}

/// A sample of such a task.
fn candidate(step: u64, number: u32, sample: u32, purpose: Purpose) -> CandidateRef {
    sample_of(&task(step, number, purpose), sample)
}

/// Waits for a future, with a limit.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future)
        .await
        .expect("it takes too long")
}
