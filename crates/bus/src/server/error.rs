//! Why the private server does not run.

use std::io;
use std::path::PathBuf;

/// Why the private server does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nowhere to be found.
    #[error(
        "nats-server (2.10 or newer) was not found in .flopsmith/bin beside the checkout nor on the PATH: run `make setup`, or install it from https://github.com/nats-io/nats-server/releases, or name it in FLOPSMITH_NATS_SERVER"
    )]
    Missing,
    /// The one that was named does not exist.
    #[error(
        "there is no nats-server at {path}: correct the path, or leave it out to use the one that `make setup` installs"
    )]
    NotThere {
        /// Where it should be.
        path: PathBuf,
    },
    /// It does not start.
    #[error("{path} cannot be run: is it a nats-server for this machine, and executable?")]
    Unusable {
        /// The program.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It starts and is something else.
    #[error("{path} does not say its version as nats-server does, but `{output}`")]
    NoServer {
        /// The program.
        path: PathBuf,
        /// The beginning of what it said.
        output: String,
    },
    /// Too old.
    #[error(
        "{path} is version {found}, and {needed} or newer is needed: run `make setup`, or name a newer one in FLOPSMITH_NATS_SERVER"
    )]
    TooOld {
        /// The program.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The oldest that will do.
        needed: &'static str,
    },
    /// The store's folder cannot be made or written.
    #[error("the message store {path} cannot be used")]
    Store {
        /// The folder, or the file in it.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No room for messages.
    #[error("the disk of the message store {path} has {} MiB left, and a run needs at least {} MiB: make room, or put the run elsewhere", free >> 20, needed >> 20)]
    StoreFull {
        /// The folder.
        path: PathBuf,
        /// Bytes left.
        free: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// Another run has it.
    #[error("the message store {path} is in use by another process: is this run going on already?")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// Somebody else listens there.
    #[error(
        "port {port} on 127.0.0.1 is taken by another program: choose another one, or none to let the system choose"
    )]
    PortBusy {
        /// The port.
        port: u16,
    },
    /// The server can be started and cannot do its work.
    #[error("JetStream does not start over {path}: {said}")]
    JetStream {
        /// The store.
        path: PathBuf,
        /// What the server said.
        said: String,
    },
    /// It was started and ended again.
    #[error("nats-server ended at once ({status}): {said}")]
    Ended {
        /// How it ended.
        status: String,
        /// The last it said.
        said: String,
    },
    /// It was started and nothing more was heard.
    #[error("nats-server was not ready after {seconds} s: {said}")]
    Slow {
        /// How long it had.
        seconds: u64,
        /// The last it said.
        said: String,
    },
    /// It keeps dying.
    #[error("nats-server died {times} times within a minute and is given up: {said}")]
    GivenUp {
        /// How often.
        times: u32,
        /// The last it said.
        said: String,
    },
    /// The process cannot be started.
    #[error("nats-server at {path} cannot be started")]
    Spawn {
        /// The program.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No randomness for the token.
    #[error("no random token can be made from /dev/urandom")]
    Random {
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
