//! Publishing, confirmed and safe to repeat.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, ErrorCode};
use bytes::Bytes;
use flopsmith_protocol::{Message, codec};
use tokio::time::Instant;

use crate::connect::Bus;
use crate::error::{Cause, Error, Result};

/// Messages of [`Bus::publish_many`] that are under way at a time.
const WINDOW: usize = 1024;

/// After a reconnect an answer to what was sent before is still possible, if
/// the message had not left this process; but it does not take long.
const GRACE: Duration = Duration::from_millis(300);

/// For so long a missing stream may be one that the server has not opened yet.
const STREAM_GRACE: Duration = Duration::from_secs(2);

/// What became of a published message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Where it stands in its stream.
    pub sequence: u64,
    /// True when its id had been stored before; nothing was stored now.
    pub duplicate: bool,
}

/// A message on its way.
pub(crate) struct Outgoing {
    pub subject: String,
    pub kind: &'static str,
    /// The dedupe key.
    pub id: String,
    /// Headers beside that: the trace, and what dead letters say of themselves.
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

    /// Made anew for each try: a map is dear to copy, and hardly anything is tried twice.
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

    /// Like [`Bus::publish`], and says where the message stands and whether it was known.
    pub async fn publish_acked<M: Message>(&self, subject: &str, message: &M) -> Result<Published> {
        let outgoing = Outgoing::of(subject, message)?;
        self.store(&outgoing).await
    }

    /// Like [`Bus::publish`], under another name for the server than the message's own: where one of that name was stored that is of no use
    /// to anybody, this one must not be taken for it. Whoever reads them still finds one id.
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

    /// Publishes messages to one subject, in order where nothing has to be sent again and without waiting for each;
    /// returns when all are stored. After an error some may be stored; repeat them all.
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

    /// The server's answer; none when the connection it would come on was lost.
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
        tokio::time::timeout(GRACE, ack).await.ok()
    }
}

enum Fate {
    /// Nothing was said, or nothing final.
    Again,
    /// No stream takes it, perhaps not yet.
    NoStream,
    /// No room.
    Full,
    /// It will not get better.
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

/// Does the server say that it has no room?
pub(crate) fn is_full(error: &jetstream::Error) -> bool {
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

/// The server's own error inside async-nats' one.
pub(crate) fn jetstream_error<'a>(
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
