//! Publishes messages. Publishing is confirmed and safe to repeat.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, PublishAckFuture, PublishError, PublishErrorKind,
};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, ErrorCode};
use bytes::Bytes;
use flopsmith_coordination::limits;
use flopsmith_protocol::{Message, codec};
use tokio::time::Instant;

use crate::connect::Bus;
use crate::error::{Cause, Error, Result};

/// Number of messages of [`Bus::publish_many`] that may wait for their confirmation at a time.
const WINDOW: usize = 1024;

/// Within this time a missing stream may be one that the server has not opened yet.
const STREAM_GRACE: Duration = Duration::from_secs(2);

/// The result of publishing a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// The message's number in its stream.
    pub sequence: u64,
    /// True if the id had been stored before. The server stored nothing this time.
    pub duplicate: bool,
}

/// A message to publish.
pub(crate) struct Outgoing {
    pub subject: String,
    pub kind: &'static str,
    /// The dedupe key.
    pub id: String,
    /// Other headers: the trace, and the fields of dead letters.
    pub others: Vec<(String, String)>,
    pub payload: Bytes,
}

impl Outgoing {
    fn of<M: Message>(subject: &str, message: &M) -> Result<Self> {
        let payload = codec::encode(message).map_err(|source| Error::Encode {
            kind: M::KIND,
            subject: subject.to_owned(),
            source,
        })?;
        Ok(Self {
            subject: subject.to_owned(),
            kind: M::KIND,
            id: message.id(),
            others: flopsmith_telemetry::inject(),
            payload: payload.into(),
        })
    }

    /// Built for each try, because copying a header map is slow and few messages need a second try.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_MESSAGE_ID, self.id.as_str());
        for (name, value) in &self.others {
            headers.insert(name.as_str(), value.as_str());
        }
        headers
    }

    fn failed(&self, source: Cause) -> Error {
        Error::Publish {
            subject: self.subject.clone(),
            source,
        }
    }
}

impl Bus {
    /// Publishes a message and waits until it is stored.
    ///
    /// Safe to repeat: within the dedupe window the same message id is stored
    /// once. Carries the current span's trace context.
    pub async fn publish<M: Message>(&self, subject: &str, message: &M) -> Result<()> {
        self.publish_acked(subject, message).await.map(drop)
    }

    /// Like [`Bus::publish`], and returns the message's number and whether its id was stored before.
    pub async fn publish_acked<M: Message>(&self, subject: &str, message: &M) -> Result<Published> {
        let outgoing = Outgoing::of(subject, message)?;
        self.store(&outgoing).await
    }

    /// Like [`Bus::publish`], with a dedupe id other than the message's own. Used where a stored message of the same id
    /// is unusable, so that the server does not drop this message as a duplicate. Readers still see one id.
    pub async fn publish_instead<M: Message>(
        &self,
        subject: &str,
        message: &M,
        name: &str,
    ) -> Result<()> {
        let mut outgoing = Outgoing::of(subject, message)?;
        outgoing.id = format!("{}/{name}", outgoing.id);
        self.store(&outgoing).await.map(drop)
    }

    /// Publishes messages to one subject without waiting for each, and returns when all are stored. The messages stay
    /// in order unless one has to be sent again. After an error some may be stored; the caller repeats them all.
    pub async fn publish_many<'a, M: Message + 'a>(
        &self,
        subject: &str,
        messages: impl IntoIterator<Item = &'a M>,
    ) -> Result<()> {
        let mut under_way: VecDeque<(Outgoing, PublishAckFuture)> = VecDeque::new();
        for message in messages {
            let outgoing = Outgoing::of(subject, message)?;
            let first = self.send(&outgoing).await?;
            under_way.push_back((outgoing, first));
            if under_way.len() >= WINDOW
                && let Some((outgoing, first)) = under_way.pop_front()
            {
                self.confirm(&outgoing, first).await?;
            }
        }
        for (outgoing, first) in under_way {
            self.confirm(&outgoing, first).await?;
        }
        Ok(())
    }

    pub(crate) async fn store(&self, outgoing: &Outgoing) -> Result<Published> {
        let first = self.send(outgoing).await?;
        self.confirm(outgoing, first).await
    }

    async fn send(&self, outgoing: &Outgoing) -> Result<PublishAckFuture> {
        let message = PublishMessage::build()
            .headers(outgoing.headers())
            .payload(outgoing.payload.clone());
        self.jetstream()
            .send_publish(outgoing.subject.clone(), message)
            .await
            .map_err(|source| match source.kind() {
                PublishErrorKind::MaxPayloadExceeded => Error::TooLarge {
                    kind: outgoing.kind,
                    subject: outgoing.subject.clone(),
                    size: outgoing.payload.len(),
                    limit: self.client().max_payload(),
                },
                _ if self.stop().is_cancelled() => Error::Closed,
                _ => outgoing.failed(source.into()),
            })
    }

    async fn confirm(&self, outgoing: &Outgoing, first: PublishAckFuture) -> Result<Published> {
        let started = Instant::now();
        let limit = self.options().publish_limit;
        let mut next = Some(first);
        loop {
            let ack = match next.take() {
                Some(ack) => ack,
                None => self.send(outgoing).await?,
            };
            let source = match self.answer(ack).await {
                Some(Ok(ack)) => {
                    return Ok(Published {
                        sequence: ack.sequence,
                        duplicate: ack.duplicate,
                    });
                }
                Some(Err(source)) => source,
                None => PublishError::new(PublishErrorKind::TimedOut),
            };
            let waited = started.elapsed();
            match fate(&source) {
                Fate::Full => {
                    return Err(Error::StoreFull {
                        subject: outgoing.subject.clone(),
                        source: source.into(),
                    });
                }
                Fate::NoStream if waited > STREAM_GRACE => {
                    return Err(Error::NoStream {
                        subject: outgoing.subject.clone(),
                        source: source.into(),
                    });
                }
                Fate::Final => return Err(outgoing.failed(source.into())),
                Fate::Again | Fate::NoStream if waited > limit => {
                    return Err(outgoing.failed(source.into()));
                }
                Fate::Again | Fate::NoStream => {
                    tracing::debug!(subject = outgoing.subject, error = %source, "publishing again");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// The server's answer. None if the connection that would carry it was lost.
    async fn answer(
        &self,
        ack: PublishAckFuture,
    ) -> Option<std::result::Result<jetstream::publish::PublishAck, PublishError>> {
        let mut epoch = self.epoch();
        let mut ack = ack.into_future();
        tokio::select! {
            answer = &mut ack => return Some(answer),
            changed = epoch.changed() => if changed.is_err() { return Some(ack.await) },
        }
        tokio::time::timeout(limits::GRACE, ack).await.ok()
    }
}

enum Fate {
    /// No answer, or no final answer.
    Again,
    /// No stream takes the subject, or none takes it yet.
    NoStream,
    /// The server has no room.
    Full,
    /// A repetition would fail as well.
    Final,
}

fn fate(error: &PublishError) -> Fate {
    match error.kind() {
        PublishErrorKind::TimedOut
        | PublishErrorKind::BrokenPipe
        | PublishErrorKind::MaxAckPending => Fate::Again,
        PublishErrorKind::StreamNotFound => Fate::NoStream,
        _ => match jetstream_error(error) {
            Some(inner) if is_full(inner) => Fate::Full,
            Some(inner) if inner.code() == 503 => Fate::Again,
            Some(_) => Fate::Final,
            None => Fate::Final,
        },
    }
}

/// The error of a server that has no room for `subject`, else the error that `other` makes of the cause.
pub(crate) fn full_or(subject: String, source: Cause, other: impl FnOnce(Cause) -> Error) -> Error {
    match reports_full(&*source) {
        true => Error::StoreFull { subject, source },
        false => other(source),
    }
}

/// True if an error was caused by a server that has no room.
fn reports_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.any(|error| {
        // The error of a stream that cannot be made or changed has the server's error as its kind, not as its source.
        let kind = error.downcast_ref::<CreateStreamError>().map(|e| e.kind());
        match kind {
            Some(CreateStreamErrorKind::JetStream(inner)) => is_full(&inner),
            _ => error
                .downcast_ref::<jetstream::Error>()
                .is_some_and(is_full),
        }
    })
}

/// True if the server reports that it has no room.
fn is_full(error: &jetstream::Error) -> bool {
    matches!(
        error.error_code(),
        ErrorCode::STREAM_STORE_FAILED
            | ErrorCode::INSUFFICIENT_RESOURCES
            | ErrorCode::STORAGE_RESOURCES_EXCEEDED
            | ErrorCode::MEMORY_RESOURCES_EXCEEDED
            | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
            | ErrorCode::STREAM_MAX_STREAM_BYTES_EXCEEDED
    )
}

/// The server's own error inside an async-nats error.
fn jetstream_error<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a jetstream::Error> {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(found) = inner.downcast_ref::<jetstream::Error>() {
            return Some(found);
        }
        source = inner.source();
    }
    None
}
