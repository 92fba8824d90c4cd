//! One message in somebody's hands.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::client::{Request, RequestErrorKind};
use async_nats::jetstream::AckKind;
use async_nats::subject::Subject;
use bytes::Bytes;
use flopsmith_telemetry::TraceContext;
use tokio::time::Instant;

use crate::backoff::ErrorClass;
use crate::dead::Unprocessable;
use crate::error::{Error, Result};
use crate::streams::stream;
use crate::worker::Shared;

/// One try of an acknowledgement.
pub(crate) const ACK_TRY: Duration = Duration::from_secs(1);
/// All tries together, on a connection that holds.
const ACK_LIMIT: Duration = Duration::from_secs(15);
/// A server that was started again does not answer what its predecessor asked.
const STALE_ACK_LIMIT: Duration = Duration::from_millis(500);

/// Where a delivery came from and how to answer it.
pub(crate) struct Ticket {
    pub subject: String,
    pub reply: Subject,
    pub sequence: u64,
    pub attempt: u32,
    pub payload: Bytes,
    pub trace: TraceContext,
    /// The connection it came on.
    pub epoch: u64,
}

/// A message to work on. It stays ours, by signs of life to the server, until
/// it is [done](Delivery::done), [given back](Delivery::retry), [dead](Delivery::dead)
/// or dropped, which gives it back as well.
#[must_use = "a dropped delivery is given back"]
pub struct Delivery<M> {
    message: M,
    ticket: Ticket,
    shared: Arc<Shared>,
    key: u64,
    decided: bool,
}

impl<M: fmt::Debug> fmt::Debug for Delivery<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("subject", &self.ticket.subject)
            .field("attempt", &self.ticket.attempt)
            .field("message", &self.message)
            .finish()
    }
}

impl<M> Delivery<M> {
    pub(crate) fn new(message: M, ticket: Ticket, shared: Arc<Shared>) -> Self {
        let key = shared.hold(ticket.reply.clone(), ticket.sequence);
        Self {
            message,
            ticket,
            shared,
            key,
            decided: false,
        }
    }

    /// The message.
    pub fn message(&self) -> &M {
        &self.message
    }

    /// How often it has been given out, this time included, to whoever was interrupted as well.
    pub fn attempt(&self) -> u32 {
        self.ticket.attempt
    }

    /// How often this process failed at it before. Not what was interrupted, here or elsewhere.
    pub fn failures(&self) -> u32 {
        self.shared.failures(self.ticket.sequence)
    }

    /// Would giving it back end among the dead letters?
    pub fn is_last_attempt(&self) -> bool {
        self.failures() + 1 >= self.shared.options.max_deliver
    }

    /// Where it was published.
    pub fn subject(&self) -> &str {
        &self.ticket.subject
    }

    /// Where it stands in the work stream; the same for every attempt.
    pub fn sequence(&self) -> u64 {
        self.ticket.sequence
    }

    /// The trace it belongs to, for links where many samples flow together.
    pub fn trace(&self) -> &TraceContext {
        &self.ticket.trace
    }

    /// Makes a span, which must not have been entered, a child of the span that
    /// published this message. Instrument the work with what comes back; note
    /// the attempt as one of its fields.
    pub fn continue_trace(&self, span: tracing::Span) -> tracing::Span {
        flopsmith_telemetry::child_of(span, &self.ticket.trace)
    }

    /// Says whether it only waits for somebody else, and so leaves its slot to another message
    /// as long as no more than [`WorkerOptions::parked`](crate::WorkerOptions::parked) do.
    pub fn park(&self, parked: bool) {
        self.shared.park(self.key, parked);
    }

    /// Worked off: the message leaves its queue. Publish the results first, and
    /// wait until they are stored.
    ///
    /// When the server was lost since it gave the message out, nobody may be
    /// left to take the answer. Then the message is given out again, which does
    /// no harm as every effect carries an id, and this is no error.
    ///
    /// # Errors
    /// [`Error::Acknowledge`] when the server is there and does not answer.
    pub async fn done(mut self) -> Result<()> {
        let known = !self.is_stale()
            && self
                .shared
                .acknowledger
                .acknowledge(&self.ticket.reply)
                .await;
        let result = match known {
            true => Ok(()),
            false => self.settle(b"+ACK").await,
        };
        self.decided = true;
        self.shared.settled(self.ticket.sequence);
        result
    }

    /// Gives the message back; somebody takes it again after the delay of this
    /// class. On the last attempt it goes to the dead letters instead, except
    /// for classes that do not count.
    pub async fn retry(mut self, class: ErrorClass) -> Result<()> {
        if class.counts() && self.is_last_attempt() {
            let reason = format!(
                "given back for {class:?} on attempt {}, the last one",
                self.failures() + 1
            );
            return self.dead(&reason).await;
        }
        if class.counts() {
            self.shared.failed(self.ticket.sequence);
        }
        // What counts as no failure is waited for by how often it was given out: that, too, has an end.
        let attempt = if class.counts() {
            self.failures()
        } else {
            self.ticket.attempt
        };
        let delay = self.shared.options.backoff.delay(class, attempt);
        self.decided = true;
        let sent = self
            .shared
            .bus
            .client()
            .publish(self.ticket.reply.clone(), AckKind::Nak(Some(delay)).into())
            .await;
        sent.map_err(|source| self.unacknowledged(source.into()))
    }

    /// Nobody can work this off: it goes to the dead letters with the reason.
    pub async fn dead(mut self, reason: &str) -> Result<()> {
        self.shared
            .bus
            .dead_letter(Unprocessable {
                stream: stream::WORK,
                subject: &self.ticket.subject,
                sequence: self.ticket.sequence,
                reason,
                attempts: self.ticket.attempt,
                payload: self.ticket.payload.clone(),
                trace: &self.ticket.trace,
            })
            .await?;
        tracing::warn!(
            subject = self.ticket.subject,
            reason,
            "a message went to the dead letters"
        );
        let result = self.settle(b"+TERM").await;
        self.decided = true;
        self.shared.settled(self.ticket.sequence);
        result
    }

    /// Was the connection that it came on lost?
    pub(crate) fn is_stale(&self) -> bool {
        *self.shared.bus.epoch().borrow() != self.ticket.epoch
    }

    /// Gives the message back at once and without a word to the caller; for the end of a worker.
    pub(crate) fn give_back(mut self) {
        self.decided = true;
        self.shared.nak(self.ticket.reply.clone(), Duration::ZERO);
    }

    /// Sends a final answer and waits until the server has it.
    async fn settle(&self, answer: &'static [u8]) -> Result<()> {
        settle(&self.shared, &self.ticket, answer)
            .await
            .map_err(|source| self.unacknowledged(source))
    }

    fn unacknowledged(&self, source: crate::error::Cause) -> Error {
        Error::Acknowledge {
            subject: self.ticket.subject.clone(),
            source,
        }
    }
}

/// Sends a final answer until the server confirms it, or until it is clear that
/// the server which asked is gone.
pub(crate) async fn settle(
    shared: &Shared,
    ticket: &Ticket,
    answer: &'static [u8],
) -> Result<(), crate::error::Cause> {
    let started = Instant::now();
    let mut epoch = shared.bus.epoch();
    let mut stale_since = (*epoch.borrow_and_update() != ticket.epoch).then_some(started);
    loop {
        let limit = if stale_since.is_some() {
            STALE_ACK_LIMIT
        } else {
            ACK_TRY
        };
        let request = Request::new()
            .payload(Bytes::from_static(answer))
            .timeout(Some(limit));
        let answered = tokio::select! {
            answered = shared.bus.client().send_request(ticket.reply.clone(), request) => answered,
            // The answer would come on a connection that is no more.
            changed = epoch.changed(), if stale_since.is_none() => {
                changed?;
                stale_since = Some(Instant::now());
                continue;
            }
        };
        let source = match answered {
            Ok(_) => return Ok(()),
            Err(source) => source,
        };
        if stale_since.is_some_and(|since| since.elapsed() >= STALE_ACK_LIMIT) {
            tracing::warn!(
                subject = ticket.subject,
                sequence = ticket.sequence,
                "the server that gave out this message is gone; it may be given out again"
            );
            return Ok(());
        }
        let hopeless = shared.bus.stop().is_cancelled() && !shared.bus.is_connected();
        let over = hopeless || started.elapsed() >= ACK_LIMIT;
        match source.kind() {
            RequestErrorKind::TimedOut if !over => {}
            // The server is there and its queues are not yet.
            RequestErrorKind::NoResponders if !over => {
                tokio::time::sleep(Duration::from_millis(50)).await
            }
            _ => return Err(source.into()),
        }
    }
}

impl<M> Drop for Delivery<M> {
    fn drop(&mut self) {
        if !self.decided {
            // What is dropped because the server is away has failed at nothing of its own.
            if self.shared.bus.is_connected() {
                self.shared.failed(self.ticket.sequence);
            }
            let backoff = &self.shared.options.backoff;
            let delay = backoff.delay(ErrorClass::Dropped, self.failures());
            self.shared.nak(self.ticket.reply.clone(), delay);
        }
        self.shared.release(self.key);
    }
}
