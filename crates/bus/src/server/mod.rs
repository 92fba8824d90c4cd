//! A private nats-server for a run on one machine.
//!
//! The server listens on loopback only, on a port that the system chooses, and requires a token that only this process
//! knows. Its messages are stored in the run's folder. The supervisor restarts a server that dies. The kernel kills the
//! server when its owner ends, in whatever way the owner ends. The server inherits the lock on the store, so the lock
//! is free again only when the server is really gone.

mod error;
mod supervisor;

use std::fs::{File, TryLockError};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::time::Instant;

pub use error::Error;
use supervisor::{Plan, Supervisor};

use crate::binary;
use crate::connect::{Auth, Options};

/// How long to wait until an earlier server on the same folder has ended.
const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// When stored messages are forced to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// At this interval. A confirmed message has been written to the operating system; a power failure loses at most
    /// one interval. The server writes the holders of messages a moment later: a killed server has forgotten some of
    /// them, and gives those messages out again after their ack wait.
    Every(Duration),
    /// Before each confirmation. Survives a power failure, and costs a disk write per message.
    Always,
}

/// How to run a private server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// When stored messages are forced to the disk. A local run loses no message if its processes are killed. After a
    /// power failure the run resumes from its checkpoints.
    pub sync: Sync,
    /// The port on loopback; none lets the system choose.
    pub port: Option<u16>,
    /// The free bytes that the store needs; with less the run does not begin.
    pub min_free_bytes: u64,
    /// The largest size of the store in bytes. None leaves the server's default, three quarters of the free disk space.
    pub max_store_bytes: Option<u64>,
    /// How long the server may take to be ready.
    pub start_limit: Duration,
    /// Number of restarts within a minute before the supervisor gives the server up.
    pub restarts_per_minute: u32,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            sync: Sync::Every(Duration::from_secs(10)),
            port: None,
            min_free_bytes: 64 << 20,
            max_store_bytes: None,
            start_limit: Duration::from_secs(30),
            restarts_per_minute: 5,
        }
    }
}

/// A running private server. Dropping it ends it.
pub struct Server {
    port: u16,
    token: String,
    version: String,
    fresh: Arc<AtomicBool>,
    supervisor: Supervisor,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server(version {}, {})", self.version, self.url())
    }
}

impl Server {
    /// Starts the server on `store_dir` and returns when it is ready. Uses `binary`, or the program found through
    /// `FLOPSMITH_NATS_SERVER`, `.flopsmith/bin` or the `PATH`.
    pub async fn start(
        binary: Option<PathBuf>,
        store_dir: &Path,
        options: ServerOptions,
    ) -> Result<Self, Error> {
        let binary = binary::find(binary)?;
        let version = binary::check(&binary).await?;
        let store = prepare(store_dir, options.min_free_bytes)?;
        let lock = lock(&store).await?;
        let token = random_token().map_err(|source| Error::Random { source })?;
        write_config(&store, &options)?;
        let plan = Plan {
            binary,
            store,
            token: token.clone(),
            port: options.port,
            lock,
            restarts_per_minute: options.restarts_per_minute,
        };
        let (supervisor, port) = Supervisor::start(plan, options.start_limit).await?;
        tracing::debug!(version, port, "the private server is ready");
        Ok(Self {
            port,
            token,
            version,
            fresh: Arc::new(AtomicBool::new(true)),
            supervisor,
        })
    }

    /// The program that [`Server::start`] would run, and its version. Runs the program only with `--version`.
    pub async fn installed(binary: Option<PathBuf>) -> Result<(PathBuf, String), Error> {
        let binary = binary::find(binary)?;
        let version = binary::check(&binary).await?;
        Ok((binary, version))
    }

    /// The address of the server.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The options with which this process connects to the server.
    pub fn connect_options(&self) -> Options {
        let mut options = Options::new(self.url());
        options.auth = Auth::Token(self.token.clone());
        options.private = Some(Arc::clone(&self.fresh));
        options
    }

    /// The version of the server.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The id of the server's process, if one runs now.
    pub fn pid(&self) -> Option<u32> {
        self.supervisor.pid()
    }

    /// How often the server died and was restarted.
    pub fn restarts(&self) -> u32 {
        self.supervisor.restarts()
    }

    /// Waits until the supervisor gives the server up, and returns the reason. Pends while the server works.
    pub async fn failed(&self) -> Error {
        self.supervisor.failed().await
    }

    /// Stops the server in order, within a few seconds.
    pub async fn stop(self) {
        let supervisor = self.supervisor;
        // Joining the thread here would block the runtime.
        let _ = tokio::task::spawn_blocking(move || supervisor.stop()).await;
    }
}

/// Creates the store's folder and checks that it can be used.
fn prepare(store: &Path, min_free_bytes: u64) -> Result<PathBuf, Error> {
    let unusable = |source| Error::Store {
        path: store.to_owned(),
        source,
    };
    std::fs::create_dir_all(store).map_err(unusable)?;
    let store = store.canonicalize().map_err(unusable)?;
    let probe = store.join(".probe");
    std::fs::write(&probe, b"probe").map_err(unusable)?;
    std::fs::remove_file(&probe).map_err(unusable)?;
    let space = nix::sys::statvfs::statvfs(&store).map_err(|errno| unusable(errno.into()))?;
    let free = space.blocks_available() * space.fragment_size();
    if free < min_free_bytes {
        return Err(Error::StoreFull {
            path: store,
            free,
            needed: min_free_bytes,
        });
    }
    Ok(store)
}

async fn lock(store: &Path) -> Result<File, Error> {
    let path = store.join("lock");
    let unusable = |source| Error::Store {
        path: path.clone(),
        source,
    };
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(unusable)?;
    let deadline = Instant::now() + LOCK_LIMIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Error::InUse {
                    path: store.to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
    }
}

fn random_token() -> std::io::Result<String> {
    let mut bytes = [0; 24];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// Writes the configuration. The server reads the token from the environment, so that neither a file nor the process
/// list shows it.
fn write_config(store: &Path, options: &ServerOptions) -> Result<(), Error> {
    let limit = options
        .max_store_bytes
        .map_or_else(String::new, |bytes| format!(", max_file_store: {bytes}"));
    let sync = match options.sync {
        Sync::Always => "always".to_owned(),
        Sync::Every(every) => format!("\"{}ms\"", every.as_millis().max(1)),
    };
    let config = format!(
        "# Written at every start of the run's private server.\n\
         authorization {{ token: ${TOKEN_VARIABLE} }}\n\
         jetstream {{ max_memory_store: 64MB, sync_interval: {sync}{limit} }}\n"
    );
    let path = store.join(CONFIG);
    std::fs::write(&path, config).map_err(|source| Error::Store { path, source })
}

const TOKEN_VARIABLE: &str = "FLOPSMITH_NATS_TOKEN";
const CONFIG: &str = "nats-server.conf";
