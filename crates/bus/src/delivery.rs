//! One message that a worker holds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::client::{Request, RequestErrorKind};
use async_nats::jetstream::AckKind;
use async_nats::subject::Subject;
use bytes::Bytes;
use flopsmith_coordination::delivery::{ErrorClass, Return, give_back};
use flopsmith_coordination::limits;
use flopsmith_telemetry::TraceContext;
use tokio::time::Instant;

use crate::dead::Unprocessable;
use crate::error::{Error, Result};
use crate::streams::stream;
use crate::worker::Shared;

/// Where a delivery came from and how to answer it.
pub(crate) struct Ticket {
    pub subject: String,
    pub reply: Subject,
    pub sequence: u64,
    pub attempt: u32,
    pub payload: Bytes,
    pub trace: TraceContext,
    /// Number of the connection on which the delivery came (`Bus::epoch`).
    pub epoch: u64,
}

/// A message to work on. The worker sends signs of life to the server, which keep the message with this process until
/// the delivery is [done](Delivery::done), [given back](Delivery::retry), [dead](Delivery::dead) or dropped. A dropped
/// delivery is given back as well.
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

    /// How often the message has been given out, this time included. Deliveries that were interrupted count.
    pub fn attempt(&self) -> u32 {
        self.ticket.attempt
    }

    /// How often this process failed at the message before. Interrupted deliveries do not count, nor do failures of
    /// other processes.
    pub fn failures(&self) -> u32 {
        self.shared.failures(self.ticket.sequence)
    }

    /// The subject on which the message was published.
    pub fn subject(&self) -> &str {
        &self.ticket.subject
    }

    /// The message's number in the work stream. Every attempt has the same number.
    pub fn sequence(&self) -> u64 {
        self.ticket.sequence
    }

    /// The trace of the message, for links where many samples are processed together.
    pub fn trace(&self) -> &TraceContext {
        &self.ticket.trace
    }

    /// Makes a span, which must not have been entered, a child of the span that published this message. Instrument the
    /// work with the returned span, and record the attempt as one of its fields.
    pub fn continue_trace(&self, span: tracing::Span) -> tracing::Span {
        flopsmith_telemetry::child_of(span, &self.ticket.trace)
    }

    /// Marks the delivery as waiting for another process, or as no longer waiting. A waiting delivery frees its slot
    /// for another message, for at most [`WorkerOptions::parked`](crate::WorkerOptions::parked) deliveries at a time.
    pub fn park(&self, parked: bool) {
        self.shared.park(self.key, parked);
    }

    /// Marks the work as finished: the message leaves its queue. Publish the results first, and wait until they are
    /// stored.
    ///
    /// If the connection was lost after the server gave the message out, the server may no longer accept the
    /// acknowledgement. The server then gives the message out again. That is no error and does no harm, because every
    /// effect carries an id.
    ///
    /// # Errors
    /// [`Error::Acknowledge`] if the server is reachable and does not answer.
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

    /// Gives the message back. A worker takes it again after the delay of this class. The last attempt sends the
    /// message to the dead letters instead, except for classes that do not count.
    pub async fn retry(mut self, class: ErrorClass) -> Result<()> {
        let (options, failures) = (&self.shared.options, self.failures());
        let attempt = self.ticket.attempt;
        let decided = give_back(
            &options.backoff,
            class,
            failures,
            attempt,
            options.max_deliver,
        );
        let Return::Again(delay) = decided else {
            let attempt = failures + 1;
            let reason = format!(
                "a worker gave the message back for {class:?} on attempt {attempt}, the last one"
            );
            return self.dead(&reason).await;
        };
        if class.counts() {
            self.shared.failed(self.ticket.sequence);
        }
        self.decided = true;
        let sent = self
            .shared
            .bus
            .client()
            .publish(self.ticket.reply.clone(), AckKind::Nak(Some(delay)).into())
            .await;
        sent.map_err(|source| self.unacknowledged(source.into()))
    }

    /// Sends the message to the dead letters with the reason, because no worker can finish it.
    pub async fn dead(mut self, reason: &str) -> Result<()> {
        self.shared
            .bus
            .keep_dead_letter(Unprocessable {
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

    /// True if the connection on which the delivery came was lost.
    pub(crate) fn is_stale(&self) -> bool {
        *self.shared.bus.epoch().borrow() != self.ticket.epoch
    }

    /// Gives the message back at once and without an answer to the caller. Used at the end of a worker.
    pub(crate) fn give_back(mut self) {
        self.decided = true;
        self.shared.nak(self.ticket.reply.clone(), Duration::ZERO);
    }

    /// Sends a final answer and waits until the server has confirmed it.
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

/// Sends a final answer until the server confirms it, or until the server that gave out the message is known to be
/// gone.
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
            limits::STALE_ACK
        } else {
            limits::ACK_TRY
        };
        let request = Request::new()
            .payload(Bytes::from_static(answer))
            .timeout(Some(limit));
        let answered = tokio::select! {
            answered = shared.bus.client().send_request(ticket.reply.clone(), request) => answered,
            // The answer would come on the lost connection.
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
        if stale_since.is_some_and(|since| since.elapsed() >= limits::STALE_ACK) {
            tracing::warn!(
                subject = ticket.subject,
                sequence = ticket.sequence,
                "the server that gave out this message is gone; the message may be given out again"
            );
            return Ok(());
        }
        let hopeless = shared.bus.stop().is_cancelled() && !shared.bus.is_connected();
        let over = hopeless || started.elapsed() >= limits::ACK;
        match source.kind() {
            RequestErrorKind::TimedOut if !over => {}
            // The server is running and its streams are not open yet.
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
            // A delivery that is dropped while the server is unreachable does not count as a failure.
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
