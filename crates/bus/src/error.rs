//! Why an operation on the bus failed.

use flopsmith_protocol::codec;

/// What async-nats said.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Result of an operation on the bus.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on the bus failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers there, or it is no NATS server.
    #[error("no NATS server can be reached at {url}: is it running, and is the address right?")]
    Connect {
        /// Where it should be.
        url: String,
        /// What async-nats said.
        #[source]
        source: Cause,
    },
    /// A file that is to prove who one is cannot be used.
    #[error("{} cannot be used to prove who this is", path.display())]
    KeyFile {
        /// Which file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        #[source]
        source: Cause,
    },
    /// The credentials are not accepted.
    #[error("the NATS server at {url} refuses these credentials")]
    Unauthorized {
        /// Where it is.
        url: String,
        /// What async-nats said.
        #[source]
        source: Cause,
    },
    /// The server lacks what the work queues need.
    #[error(
        "the NATS server at {url} is version {found}, and {needed} or newer is needed: update it"
    )]
    ServerTooOld {
        /// Where it is.
        url: String,
        /// Its version.
        found: String,
        /// The oldest that will do.
        needed: &'static str,
    },
    /// The server runs without JetStream, or this account may not use it.
    #[error(
        "the NATS server at {url} has JetStream off: start it with `-js`, or enable `jetstream` in its configuration and account"
    )]
    NoJetStream {
        /// Where it is.
        url: String,
        /// What async-nats said.
        #[source]
        source: Cause,
    },
    /// A stream cannot be made or changed.
    #[error("stream {name} cannot be set up")]
    Stream {
        /// Its name.
        name: &'static str,
        /// What async-nats said.
        #[source]
        source: Cause,
    },
    /// There is a server, and nobody has set up a cluster on it.
    #[error(
        "the bus at {url} has no stream {missing}: is it the right one? `flopsmith cluster init --nats URL` sets it up, once and before the first worker; then start this again"
    )]
    MissingStreams {
        /// Where it is.
        url: String,
        /// Names of streams.
        missing: String,
        /// What async-nats said of the last one.
        #[source]
        source: Cause,
    },
    /// A work queue's consumer cannot be made or changed.
    #[error("work queue `{durable}` on {subject} cannot be set up")]
    Consumer {
        /// Its durable name.
        durable: String,
        /// What it takes.
        subject: String,
        /// What async-nats said.
        #[source]
        source: Cause,
    },
    /// Two work queues want the same messages.
    #[error(
        "{subject} is already worked off under another name than `{durable}`: workers that share a subject share its durable name"
    )]
    QueueTaken {
        /// The name asked for.
        durable: String,
        /// What it would take.
        subject: String,
        /// What async-nats said.
        #[source]
        source: Cause,
    },
    /// Worker options that cannot work.
    #[error("worker on `{subject}`: {why}")]
    WorkerOptions {
        /// What it takes.
        subject: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A message cannot be written.
    #[error("a `{kind}` message for {subject} cannot be written")]
    Encode {
        /// Kind of the message.
        kind: &'static str,
        /// Where it should go.
        subject: String,
        /// What is wrong with it.
        #[source]
        source: codec::Error,
    },
    /// A message is larger than the server takes.
    #[error(
        "a `{kind}` message of {size} bytes is too large for {subject} (the server takes {limit}): put what is large into the artifact store"
    )]
    TooLarge {
        /// Kind of the message.
        kind: &'static str,
        /// Where it should go.
        subject: String,
        /// Its size in bytes.
        size: usize,
        /// What the server takes, in bytes.
        limit: usize,
    },
    /// No stream takes the subject.
    #[error("no stream takes {subject}: were the streams set up on this server?")]
    NoStream {
        /// Where the message should go.
        subject: String,
        /// What async-nats said.
        #[source]
        source: Cause,
    },
    /// The server has no room for the message.
    #[error(
        "the NATS server cannot store a message for {subject}: its disk or a storage limit is full (`max_file_store` of its configuration, or the account's): make room on its disk or raise the limit; `flopsmith cluster init --keep-logs TIME` has a shared server keep less"
    )]
    StoreFull {
        /// Where the message should go.
        subject: String,
        /// What the server said.
        #[source]
        source: Cause,
    },
    /// A dead letter has no message that could be given out again.
    #[error(
        "dead letter {sequence} (`{subject}`) cannot be given out again: its message was too large to be kept, or it is not known where it was"
    )]
    NotCopied {
        /// The letter.
        sequence: u64,
        /// Where its message was.
        subject: String,
    },
    /// The message was not confirmed in time; it may or may not be stored, and may be published again.
    #[error("a message for {subject} was not confirmed")]
    Publish {
        /// Where the message should go.
        subject: String,
        /// What async-nats said.
        #[source]
        source: Cause,
    },
    /// An acknowledgement was not confirmed: the message may be given out again.
    #[error("the acknowledgement of a message from {subject} was not confirmed")]
    Acknowledge {
        /// Where the message came from.
        subject: String,
        /// What async-nats said.
        #[source]
        source: Cause,
    },
    /// A log cannot be read.
    #[error("the log {subject} cannot be read")]
    Log {
        /// Its subject.
        subject: String,
        /// What async-nats said.
        #[source]
        source: Cause,
    },
    /// A bucket or key cannot be read or written.
    #[error("key `{key}` of bucket `{bucket}` cannot be read or written")]
    Kv {
        /// The bucket.
        bucket: String,
        /// The key; empty for the bucket itself.
        key: String,
        /// What async-nats said.
        #[source]
        source: Cause,
    },
    /// Somebody else wrote first.
    #[error(
        "key `{key}` of bucket `{bucket}` is no longer at revision {expected}: another writer was faster"
    )]
    Conflict {
        /// The bucket.
        bucket: String,
        /// The key.
        key: String,
        /// The revision that was expected; 0 means that the key should not exist.
        expected: u64,
    },
    /// The bus was drained or closed.
    #[error("the bus is closed")]
    Closed,
    /// Draining took longer than it may.
    #[error(
        "{held} messages were still in work when the bus was drained; they will be given out again"
    )]
    DrainTimeout {
        /// Messages still in somebody's hands.
        held: usize,
    },
}
