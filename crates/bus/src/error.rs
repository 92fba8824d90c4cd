//! Why an operation on the bus failed.

use flopsmith_protocol::codec;

/// The error of async-nats.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Result of an operation on the bus.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on the bus failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No server answers at the address, or the server is no NATS server.
    #[error(
        "no NATS server can be reached at {url}: check the address, and that the server is running"
    )]
    Connect {
        /// The address of the server.
        url: String,
        /// The error of async-nats.
        #[source]
        source: Cause,
    },
    /// The address is not that of a NATS server.
    #[error(
        "`{url}` is no address of a NATS server: write nats://HOST:4222, tls://HOST:4222 for a server with TLS, or ws:// or wss:// for one behind a web server; separate several by commas"
    )]
    Address {
        /// The address without credentials.
        url: String,
    },
    /// A file with credentials or certificates cannot be used.
    #[error("{} cannot be used as a file of credentials, keys or certificates", path.display())]
    KeyFile {
        /// The file.
        path: std::path::PathBuf,
        /// Why the file cannot be used.
        #[source]
        source: Cause,
    },
    /// The server does not accept the credentials.
    #[error("the NATS server at {url} refuses these credentials")]
    Unauthorized {
        /// The address of the server.
        url: String,
        /// The error of async-nats.
        #[source]
        source: Cause,
    },
    /// The server is too old for the work queues.
    #[error(
        "the NATS server at {url} is version {found}, but {needed} or newer is needed: update the server"
    )]
    ServerTooOld {
        /// The address of the server.
        url: String,
        /// The version of the server.
        found: String,
        /// The oldest version that works.
        needed: &'static str,
    },
    /// The server runs without JetStream, or this account may not use it.
    #[error(
        "the NATS server at {url} has JetStream off: start it with `-js`, or enable `jetstream` in its configuration and account"
    )]
    NoJetStream {
        /// The address of the server.
        url: String,
        /// The error of async-nats.
        #[source]
        source: Cause,
    },
    /// A stream cannot be made or changed.
    #[error("stream {name} cannot be set up")]
    Stream {
        /// The name of the stream.
        name: &'static str,
        /// The error of async-nats.
        #[source]
        source: Cause,
    },
    /// The server has no Flopsmith streams.
    #[error(
        "the bus at {url} has no stream {missing}: check the address; if it is right, run `flopsmith cluster init --nats URL` once, before the first worker, and then start this again"
    )]
    MissingStreams {
        /// The address of the server.
        url: String,
        /// The names of the missing streams.
        missing: String,
        /// The error of async-nats for the last missing stream.
        #[source]
        source: Cause,
    },
    /// A work queue's consumer cannot be made or changed.
    #[error("work queue `{durable}` on {subject} cannot be set up")]
    Consumer {
        /// The durable name of the consumer.
        durable: String,
        /// The subject that the consumer takes.
        subject: String,
        /// The error of async-nats.
        #[source]
        source: Cause,
    },
    /// Two work queues claim the same messages.
    #[error(
        "{subject} already belongs to another consumer than `{durable}`: give all workers of a subject the same durable name"
    )]
    QueueTaken {
        /// The requested durable name.
        durable: String,
        /// The subject that the requested consumer would take.
        subject: String,
        /// The error of async-nats.
        #[source]
        source: Cause,
    },
    /// The worker options are invalid.
    #[error("worker on `{subject}`: {why}")]
    WorkerOptions {
        /// The subject of the worker.
        subject: String,
        /// Why the options are invalid.
        why: &'static str,
    },
    /// A message cannot be encoded.
    #[error("a `{kind}` message for {subject} cannot be encoded")]
    Encode {
        /// The kind of the message.
        kind: &'static str,
        /// The subject of the message.
        subject: String,
        /// Why the message cannot be encoded.
        #[source]
        source: codec::Error,
    },
    /// A message is larger than the server accepts.
    #[error(
        "a `{kind}` message of {size} bytes is too large for {subject} (the server accepts {limit} bytes): put large data into the artifact store"
    )]
    TooLarge {
        /// The kind of the message.
        kind: &'static str,
        /// The subject of the message.
        subject: String,
        /// The size of the message in bytes.
        size: usize,
        /// The server's limit in bytes.
        limit: usize,
    },
    /// No stream takes the subject.
    #[error("no stream takes {subject}: check that the streams of this server are set up")]
    NoStream {
        /// The subject of the message.
        subject: String,
        /// The error of async-nats.
        #[source]
        source: Cause,
    },
    /// The server has no room for a message, a stream or a bucket.
    #[error(
        "the NATS server has no room for {subject}: its disk or a storage limit is full (`max_file_store` of its configuration, or the account's limit): make room on its disk or raise the limit; to keep logs for a shorter time on a shared server, run `flopsmith cluster init --keep-logs TIME`"
    )]
    StoreFull {
        /// The subject of the message or of the bucket, or the stream.
        subject: String,
        /// The error of the server.
        #[source]
        source: Cause,
    },
    /// A dead letter has no message that could be given out again.
    #[error(
        "dead letter {sequence} (`{subject}`) cannot be delivered again: its message was too large to keep, or the letter does not name the message's subject"
    )]
    NotCopied {
        /// The number of the letter.
        sequence: u64,
        /// The queue or log that held the message.
        subject: String,
    },
    /// The server did not confirm the message in time. The message may or may not be stored, and may be published
    /// again.
    #[error("the server did not confirm a message for {subject}")]
    Publish {
        /// The subject of the message.
        subject: String,
        /// The error of async-nats.
        #[source]
        source: Cause,
    },
    /// The server did not confirm an acknowledgement. The server may give the message out again.
    #[error("the server did not confirm the acknowledgement of a message from {subject}")]
    Acknowledge {
        /// The subject of the message.
        subject: String,
        /// The error of async-nats.
        #[source]
        source: Cause,
    },
    /// The streams cannot all be read.
    #[error("the streams of the bus cannot be read to their end")]
    Scan {
        /// The error of async-nats.
        #[source]
        source: Cause,
    },
    /// A log cannot be read.
    #[error("the log {subject} cannot be read")]
    Log {
        /// The subject of the log.
        subject: String,
        /// The error of async-nats.
        #[source]
        source: Cause,
    },
    /// A bucket or key cannot be read or written.
    #[error("key `{key}` of bucket `{bucket}` cannot be read or written")]
    Kv {
        /// The bucket.
        bucket: String,
        /// The key. Empty for the bucket itself.
        key: String,
        /// The error of async-nats.
        #[source]
        source: Cause,
    },
    /// Another writer changed the key first.
    #[error(
        "key `{key}` of bucket `{bucket}` is no longer at revision {expected}: another writer changed it first"
    )]
    Conflict {
        /// The bucket.
        bucket: String,
        /// The key.
        key: String,
        /// The expected revision; 0 means that the key should not exist.
        expected: u64,
    },
    /// The bus was drained or closed.
    #[error("the bus is closed")]
    Closed,
    /// Draining took longer than it may.
    #[error(
        "workers still held {held} messages at the time limit for draining the bus; the server will give these messages out again"
    )]
    DrainTimeout {
        /// Number of messages that workers still held.
        held: usize,
    },
}
