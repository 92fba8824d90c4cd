//! The bus against a real nats-server, a separate one for every test.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![expect(
    clippy::disallowed_methods,
    reason = "tasks whose handles the tests await"
)]

mod kv;
mod log;
mod process;
mod server;
mod trace;
mod work;

use std::time::Duration;

use flopsmith_bus::{Bus, Options, RunSetup, Server, ServerOptions};
use flopsmith_protocol::Message;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

/// Longest wait of these tests.
const LIMIT: Duration = Duration::from_secs(20);

const COMPILE: &str = "fs.v1.work.compile.local";
const OUTCOME: &str = "fs.v1.outcome.r1";

/// A message type of the tests, so that they do not change with the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct Job {
    id: String,
    text: String,
}

impl Message for Job {
    const KIND: &'static str = "job";
    fn id(&self) -> String {
        format!("job/{}", self.id)
    }
}

fn job(number: usize) -> Job {
    Job {
        id: format!("j{number}"),
        text: "work".to_owned(),
    }
}

/// A server, a bus with its streams, and the folder of both.
struct World {
    server: Server,
    bus: Bus,
    folder: TempDir,
}

impl World {
    async fn new() -> Self {
        Self::with(&RunSetup::default(), ServerOptions::default()).await
    }

    async fn with(setup: &RunSetup, options: ServerOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(None, folder.path(), options)
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        let bus = Bus::connect(&server).await.unwrap();
        bus.ensure_streams(setup).await.unwrap();
        Self {
            server,
            bus,
            folder,
        }
    }

    /// A separate bus whose requests for messages expire after a moment.
    async fn impatient(&self) -> Bus {
        let mut options = Options::from(&self.server);
        options.poll_limit = Duration::from_millis(300);
        Bus::connect(options).await.unwrap()
    }
}

/// Waits for a future, with a limit.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future)
        .await
        .expect("it takes too long")
}

/// True if nothing arrives for this time.
async fn nothing<T>(millis: u64, future: impl Future<Output = T>) -> bool {
    tokio::time::timeout(Duration::from_millis(millis), future)
        .await
        .is_err()
}

/// Waits until something holds.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + LIMIT;
    while !condition() {
        assert!(
            std::time::Instant::now() < deadline,
            "not within the limit: {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}
