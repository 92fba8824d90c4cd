//! Why the private server does not run.

use std::io;
use std::path::PathBuf;

/// Why the private server does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No nats-server was found.
    #[error(
        "nats-server (2.10 or newer) was not found in .flopsmith/bin beside the checkout nor on the PATH: run `make setup`, or install it from https://github.com/nats-io/nats-server/releases, or name it in FLOPSMITH_NATS_SERVER"
    )]
    Missing,
    /// The named program does not exist.
    #[error(
        "there is no nats-server at {path}: correct the path, or leave it out to use the one that `make setup` installs"
    )]
    NotThere {
        /// The named path.
        path: PathBuf,
    },
    /// The program does not start.
    #[error(
        "{path} cannot be run: check that it is executable, and that it is a nats-server for this machine"
    )]
    Unusable {
        /// The program.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The program starts and is no nats-server.
    #[error("{path} does not report a version as nats-server does; it prints `{output}`")]
    NoServer {
        /// The program.
        path: PathBuf,
        /// The beginning of the program's output.
        output: String,
    },
    /// The server is too old.
    #[error(
        "{path} is version {found}, but {needed} or newer is needed: run `make setup`, or name a newer one in FLOPSMITH_NATS_SERVER"
    )]
    TooOld {
        /// The program.
        path: PathBuf,
        /// The version of the program.
        found: String,
        /// The oldest version that works.
        needed: &'static str,
    },
    /// The folder of the message store cannot be created or written.
    #[error("the message store {path} cannot be used")]
    Store {
        /// The folder, or the file in it.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The disk has too little room for messages.
    #[error("the disk of the message store {path} has {} MiB left, but a run needs at least {} MiB: make room, or put the run on another disk", free >> 20, needed >> 20)]
    StoreFull {
        /// The folder.
        path: PathBuf,
        /// Free bytes.
        free: u64,
        /// Required bytes.
        needed: u64,
    },
    /// Another run uses the message store.
    #[error(
        "the message store {path} is in use by another process: check whether this run is already running"
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// Another program listens on the port.
    #[error(
        "port {port} on 127.0.0.1 is taken by another program: choose another port, or leave the port out to let the system choose"
    )]
    PortBusy {
        /// The port.
        port: u16,
    },
    /// The server starts, but JetStream does not.
    #[error("JetStream does not start with the message store {path}: {said}")]
    JetStream {
        /// The folder of the message store.
        path: PathBuf,
        /// The last message of the server.
        said: String,
    },
    /// The server started and ended at once.
    #[error("nats-server ended at once ({status}): {said}")]
    Ended {
        /// The exit status.
        status: String,
        /// The last message of the server.
        said: String,
    },
    /// The server started and did not become ready in time.
    #[error("nats-server was not ready after {seconds} s: {said}")]
    Slow {
        /// The time limit in seconds.
        seconds: u64,
        /// The last message of the server.
        said: String,
    },
    /// The server died repeatedly and is no longer restarted.
    #[error("nats-server died {times} times within a minute and is not restarted: {said}")]
    GivenUp {
        /// Number of deaths.
        times: u32,
        /// The last message of the server.
        said: String,
    },
    /// The process cannot be started.
    #[error("nats-server at {path} cannot be started")]
    Spawn {
        /// The program.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The system provides no random bytes for the token.
    #[error("cannot read a random token from /dev/urandom")]
    Random {
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}
