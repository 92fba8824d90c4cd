//! Reads a log from any place, and then follows it as it grows.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use flopsmith_coordination::delivery::doubled;
use flopsmith_protocol::{Message, decode};
use flopsmith_telemetry::TraceContext;

use crate::backoff::jittered;
use crate::connect::Bus;
use crate::dead::{Unprocessable, unix_ms};
use crate::error::{Cause, Error, Result};
use crate::pull::{Event, Pull, trace_of};
use crate::streams::stream_of;
use crate::worker::chain;

/// Number of messages per request. No timer runs for messages that wait here.
const BATCH: usize = 256;

/// A message of a stream that is not decoded yet.
pub(crate) struct Raw {
    pub sequence: u64,
    /// When the server stored it, milliseconds since 1970.
    pub unix_ms: u64,
    pub message: async_nats::Message,
}

/// Every message of a subject, each once and in order.
pub(crate) struct RawLog {
    bus: Bus,
    subject: String,
    stream: &'static str,
    /// The number of the last returned message.
    last: u64,
    pending: u64,
    state: State,
}

struct Open {
    pull: Pull,
    /// Counts the messages that the server sent. A gap shows that one was lost on the way.
    sent: u64,
    pending: u64,
}

enum State {
    Reading(Box<Open>),
    // Kept across calls, so that a caller that cancels repeatedly still makes progress.
    Opening(Pin<Box<dyn Future<Output = Open> + Send>>),
}

impl RawLog {
    pub(crate) async fn open(bus: &Bus, subject: &str, from: u64) -> Result<Self> {
        let failed = |source| Error::Log {
            subject: subject.to_owned(),
            source,
        };
        let stream = stream_of(subject).ok_or_else(|| failed("it belongs to no stream".into()))?;
        if bus.stop().is_cancelled() {
            return Err(Error::Closed);
        }
        let last = from.saturating_sub(1);
        let open = open(bus, stream, subject, last).await.map_err(failed)?;
        let pending = open.pending;
        Ok(Self {
            bus: bus.clone(),
            subject: subject.to_owned(),
            stream,
            last,
            pending,
            state: State::Reading(Box::new(open)),
        })
    }

    pub(crate) fn pending(&self) -> u64 {
        self.pending
    }

    pub(crate) fn place(&self) -> u64 {
        self.last
    }

    /// A cancelled call loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Raw> {
        let stop = self.bus.stop().clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(Error::Closed),
            raw = self.read() => Ok(raw),
        }
    }

    async fn read(&mut self) -> Raw {
        loop {
            let open = match &mut self.state {
                State::Reading(open) => open,
                State::Opening(opening) => {
                    let open = opening.await;
                    self.pending = open.pending;
                    self.state = State::Reading(Box::new(open));
                    continue;
                }
            };
            if open.pull.outstanding() <= BATCH / 2
                && let Err(error) = open.pull.request(BATCH).await
            {
                self.reopen(&error.to_string());
                continue;
            }
            let message = match open.pull.next().await {
                Event::Message(message) => message,
                Event::Expired | Event::Crowded => continue,
                Event::Lost(why) => {
                    self.reopen(&why);
                    continue;
                }
            };
            open.sent += 1;
            let message = async_nats::jetstream::Message {
                message,
                context: self.bus.jetstream().clone(),
            };
            let Ok(info) = message.info() else { continue };
            let (sent, sequence, pending) =
                (info.consumer_sequence, info.stream_sequence, info.pending);
            let unix_ms = unix_ms(info.published.unix_timestamp_nanos());
            if sent != open.sent {
                self.reopen("a message was lost on the way");
                continue;
            }
            self.last = sequence;
            self.pending = pending;
            return Raw {
                sequence,
                unix_ms,
                message: message.message,
            };
        }
    }

    fn reopen(&mut self, why: &str) {
        tracing::info!(
            subject = self.subject,
            why,
            "reading the log again, from the entry after the last one read"
        );
        let (bus, stream, subject, last) = (
            self.bus.clone(),
            self.stream,
            self.subject.clone(),
            self.last,
        );
        self.state = State::Opening(Box::pin(async move {
            let mut tries = 0;
            loop {
                match open(&bus, stream, &subject, last).await {
                    Ok(open) => return open,
                    Err(error) => {
                        tracing::warn!(subject, error = %chain(error.as_ref()), "the log cannot be read; trying again");
                    }
                }
                tokio::time::sleep(jittered(doubled(
                    Duration::from_millis(100),
                    tries,
                    Duration::from_secs(5),
                )))
                .await;
                tries += 1;
            }
        }));
    }
}

async fn open(bus: &Bus, stream: &'static str, subject: &str, last: u64) -> Result<Open, Cause> {
    let config = pull::Config {
        deliver_policy: match last {
            0 => DeliverPolicy::All,
            last => DeliverPolicy::ByStartSequence {
                start_sequence: last + 1,
            },
        },
        ack_policy: AckPolicy::None,
        filter_subject: subject.to_owned(),
        memory_storage: true,
        num_replicas: 1,
        inactive_threshold: Duration::from_secs(120),
        ..pull::Config::default()
    };
    let consumer = bus
        .jetstream()
        .create_consumer_on_stream(config, stream)
        .await?;
    let info = consumer.cached_info();
    let pull = Pull::open(bus, stream, &info.name).await?;
    Ok(Open {
        pull,
        sent: 0,
        pending: info.num_pending,
    })
}

/// A log of messages: first the stored ones, then new ones as they arrive. The reader returns each id once, however
/// often it was published.
pub struct LogReader<M> {
    raw: RawLog,
    seen: Seen,
    trace: TraceContext,
    skipped: u64,
    message: PhantomData<fn() -> M>,
}

/// An entry of a log that is no message of the expected kind and version.
#[derive(Debug, Clone)]
pub struct Unreadable {
    /// The subject of the log.
    pub subject: String,
    /// The entry's number in the stream.
    pub sequence: u64,
    /// Why the entry cannot be read.
    pub reason: String,
    payload: bytes::Bytes,
    trace: TraceContext,
}

/// The next entry of a log.
#[derive(Debug)]
pub enum LogEntry<M> {
    /// A message and its number in the stream.
    Message(u64, M),
    /// Bytes of another kind or version.
    Unreadable(Unreadable),
}

impl Bus {
    /// Copies an unreadable entry to the dead letters, so that its loss is noticed. The entry stays in its log. Safe to
    /// repeat.
    ///
    /// # Errors
    /// The errors of [`Bus::publish`].
    pub async fn dead_letter_entry(&self, entry: &Unreadable) -> Result<()> {
        self.keep_dead_letter(Unprocessable {
            stream: stream_of(&entry.subject).unwrap_or_default(),
            subject: &entry.subject,
            sequence: entry.sequence,
            reason: &entry.reason,
            attempts: 1,
            payload: entry.payload.clone(),
            trace: &entry.trace,
        })
        .await
    }

    /// Reads `subject` from `sequence` on; 0 reads it from its start.
    ///
    /// A reader recognizes duplicates only of ids that it returned itself. A reader that starts in the middle does not
    /// know the earlier ids.
    pub async fn log<M: Message>(&self, subject: &str, sequence: u64) -> Result<LogReader<M>> {
        Ok(LogReader {
            raw: RawLog::open(self, subject, sequence).await?,
            seen: Seen::default(),
            trace: TraceContext::default(),
            skipped: 0,
            message: PhantomData,
        })
    }
}

impl<M: Message> LogReader<M> {
    /// The next message and its number in the stream. A cancelled call loses nothing. The call waits while the
    /// connection or the server is lost.
    ///
    /// Bytes that are no message of this kind and version stay in the log. The reader logs them,
    /// [counts](LogReader::skipped) them and passes over them.
    ///
    /// # Errors
    /// [`Error::Closed`] once the bus is drained.
    pub async fn next(&mut self) -> Result<(u64, M)> {
        loop {
            if let LogEntry::Message(sequence, message) = self.entry().await? {
                return Ok((sequence, message));
            }
        }
    }

    /// Like [`LogReader::next`], but also returns unreadable entries.
    ///
    /// # Errors
    /// [`Error::Closed`] once the bus is drained.
    pub async fn entry(&mut self) -> Result<LogEntry<M>> {
        loop {
            if let Some(entry) = self.step().await? {
                return Ok(entry);
            }
        }
    }

    /// All messages that are stored by now, in order.
    pub async fn replay(&mut self) -> Result<Vec<(u64, M)>> {
        let mut all = Vec::new();
        while let Some(entry) = self.stored().await? {
            all.push(entry);
        }
        Ok(all)
    }

    /// The next of the messages that are stored by now, and its number in the stream; none if there is none.
    ///
    /// # Errors
    /// [`Error::Closed`] once the bus is drained.
    pub async fn stored(&mut self) -> Result<Option<(u64, M)>> {
        while self.pending() > 0 {
            if let Some(LogEntry::Message(sequence, message)) = self.step().await? {
                return Ok(Some((sequence, message)));
            }
        }
        Ok(None)
    }

    /// Number of messages that are known to follow the last returned one. Zero means that the next message will be new.
    pub fn pending(&self) -> u64 {
        self.raw.pending()
    }

    /// The number of the last entry that was read, including entries that were passed over.
    pub fn place(&self) -> u64 {
        self.raw.place()
    }

    /// The trace of the last returned message.
    pub fn trace(&self) -> &TraceContext {
        &self.trace
    }

    /// Makes a span, which must not have been entered, a child of the span that
    /// published the last returned message.
    pub fn continue_trace(&self, span: tracing::Span) -> tracing::Span {
        flopsmith_telemetry::child_of(span, &self.trace)
    }

    /// Number of entries that were no message of this kind and version.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Reads one entry. None for a message whose id was returned before.
    async fn step(&mut self) -> Result<Option<LogEntry<M>>> {
        let raw = self.raw.next().await?;
        let message: M = match decode(&raw.message.payload) {
            Ok(message) => message,
            Err(error) => {
                self.skipped += 1;
                let reason = chain(&error);
                tracing::error!(
                    subject = self.raw.subject,
                    sequence = raw.sequence,
                    error = reason,
                    "an entry of the log cannot be decoded; skipping it"
                );
                return Ok(Some(LogEntry::Unreadable(Unreadable {
                    subject: raw.message.subject.to_string(),
                    sequence: raw.sequence,
                    reason,
                    trace: trace_of(&raw.message),
                    payload: raw.message.payload,
                })));
            }
        };
        if !self.seen.is_new(&message.id()) {
            return Ok(None);
        }
        self.trace = trace_of(&raw.message);
        Ok(Some(LogEntry::Message(raw.sequence, message)))
    }
}

/// The returned ids, as 16-byte hashes.
#[derive(Default)]
struct Seen {
    keys: (RandomState, RandomState),
    seen: HashSet<(u64, u64)>,
}

impl Seen {
    fn is_new(&mut self, id: &str) -> bool {
        let hash = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            hasher.write(id.as_bytes());
            hasher.finish()
        };
        self.seen.insert((hash(&self.keys.0), hash(&self.keys.1)))
    }
}
