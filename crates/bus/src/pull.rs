//! Requests messages from a consumer, as many as the caller can use.
//!
//! The streams of the client library request a fixed number ahead of need, and its batches do not react to missing
//! heartbeats. Here the caller sets how many messages it wants in addition to those already requested, and learns when
//! the requests are lost.

use std::time::Duration;

use async_nats::{Client, Message, StatusCode, Subscriber};
use flopsmith_coordination::limits;
use flopsmith_telemetry::TraceContext;
use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::connect::Bus;
use crate::error::Cause;

/// The server sends a heartbeat at this interval while a request stands.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// The reason for a void pull whose consumer still exists.
pub(crate) const CONNECTION_LOST: &str = "the connection was lost";

/// The server's answer if as many requests wait as the consumer allows.
const CROWDED: &str = "Exceeded MaxWaiting";

/// An event of a pull.
pub(crate) enum Event {
    /// A message of the stream.
    Message(Message),
    /// The standing requests are void. The caller opens another pull, and may have to create the consumer again first.
    Lost(String),
    /// The last standing request reached its time limit. The caller requests again.
    Expired,
    /// So many other workers wait at this queue that the server kept no further request. The caller requests again
    /// after a while.
    Crowded,
}

/// Requests to one consumer, and the messages that they bring.
pub(crate) struct Pull {
    client: Client,
    subject: String,
    inbox: String,
    subscriber: Subscriber,
    outstanding: usize,
    /// The number of messages in the latest request.
    latest: usize,
    expires: Duration,
    epoch: watch::Receiver<u64>,
    heard: Instant,
}

impl Pull {
    /// Subscribes to the messages that `consumer` of `stream` will send. Requests nothing yet.
    pub(crate) async fn open(bus: &Bus, stream: &str, consumer: &str) -> Result<Self, Cause> {
        let client = bus.client().clone();
        let epoch = bus.epoch();
        let inbox = client.new_inbox();
        let subscriber = client.subscribe(inbox.clone()).await?;
        Ok(Self {
            client,
            subject: format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"),
            inbox,
            subscriber,
            outstanding: 0,
            latest: 0,
            expires: bus.options().poll_limit,
            epoch,
            heard: Instant::now(),
        })
    }

    /// Number of messages that were requested and have not arrived.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Requests `more` messages in addition to the outstanding ones. A cancelled call requests nothing.
    pub(crate) async fn request(&mut self, more: usize) -> Result<(), Cause> {
        let body = format!(
            r#"{{"batch":{more},"expires":{},"idle_heartbeat":{}}}"#,
            self.expires.as_nanos(),
            // The server accepts a heartbeat interval of at most half the request's time limit.
            HEARTBEAT.min(self.expires / 3).as_nanos()
        );
        self.client
            .publish_with_reply(self.subject.clone(), self.inbox.clone(), body.into())
            .await?;
        if self.outstanding == 0 {
            self.heard = Instant::now();
        }
        self.outstanding += more;
        self.latest = more;
        Ok(())
    }

    /// Waits for the next event. A cancelled call loses nothing.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            let silent = tokio::time::sleep_until(self.heard + limits::SILENCE);
            tokio::select! {
                // Arrived messages come before a timeout or a lost connection.
                biased;
                message = self.subscriber.next() => {
                    let Some(message) = message else {
                        return Event::Lost("the subscription was closed".to_owned());
                    };
                    self.heard = Instant::now();
                    if let Some(event) = self.read(message) {
                        return event;
                    }
                    // No request stands any more, so no further message would arrive.
                    if self.outstanding == 0 {
                        return Event::Expired;
                    }
                }
                changed = self.epoch.changed() => {
                    let why = if changed.is_ok() { CONNECTION_LOST } else { "the bus was closed" };
                    return Event::Lost(why.to_owned());
                }
                () = silent, if self.outstanding > 0 => {
                    return Event::Lost("the server sent no heartbeat in time".to_owned());
                }
            }
        }
    }

    /// Returns the messages that have arrived already. Used when the pull ends.
    pub(crate) fn leftovers(&mut self) -> Vec<Message> {
        let mut left = Vec::new();
        while let Some(Some(message)) = self.subscriber.next().now_or_never() {
            if let Some(Event::Message(message)) = self.read(message) {
                left.push(message);
            }
        }
        left
    }

    /// Ends the subscription. The server drops the requests, because it has no subscriber to answer.
    pub(crate) async fn close(&mut self) -> Vec<Message> {
        let left = self.leftovers();
        let _ = self.subscriber.unsubscribe().await;
        left
    }

    fn read(&mut self, message: Message) -> Option<Event> {
        match message.status {
            None | Some(StatusCode::OK) => {
                self.outstanding = self.outstanding.saturating_sub(1);
                Some(Event::Message(message))
            }
            Some(StatusCode::IDLE_HEARTBEAT) => None,
            Some(_) if message.description.as_deref() == Some(CROWDED) => {
                self.outstanding = self.outstanding.saturating_sub(self.latest);
                self.latest = 0;
                Some(Event::Crowded)
            }
            Some(status) => {
                // A request that ended states how many messages it did not bring.
                let unserved = message
                    .headers
                    .as_ref()
                    .and_then(|headers| headers.get("Nats-Pending-Messages"))
                    .and_then(|value| value.as_str().parse::<usize>().ok());
                match unserved {
                    Some(unserved) => {
                        self.outstanding = self.outstanding.saturating_sub(unserved);
                        // The request ended before its time limit. The same request would fail again.
                        let gone = message.description.as_deref().is_some_and(|d| {
                            d.contains("Deleted")
                                || d.contains("Leadership")
                                || d.contains("Shutdown")
                        });
                        gone.then(|| Event::Lost(describe(status, &message)))
                    }
                    None => Some(Event::Lost(describe(status, &message))),
                }
            }
        }
    }
}

/// The trace context of a message.
pub(crate) fn trace_of(message: &Message) -> TraceContext {
    let Some(headers) = &message.headers else {
        return TraceContext::default();
    };
    flopsmith_telemetry::extract(
        headers
            .iter()
            .filter_map(|(name, values)| Some((name.as_ref(), values.first()?.as_str()))),
    )
}

/// The fields of a delivery's reply subject.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The message's number in its stream.
    pub sequence: u64,
    /// How often the message has been given out.
    pub attempt: u32,
}

impl Place {
    /// Parses `$JS.ACK.…` in both forms that servers write: with the domain and the account before the stream and the
    /// consumer, and without them. None for another subject.
    pub(crate) fn of(reply: &str) -> Option<Self> {
        let rest = reply.strip_prefix("$JS.ACK.")?;
        // Fields: stream, consumer, delivery count, stream sequence, consumer sequence, time, number of pending
        // messages.
        let named = match rest.split('.').count() {
            7 => 2,
            9.. => 4,
            _ => return None,
        };
        let mut numbers = rest.split('.').skip(named);
        let delivered: u64 = numbers.next()?.parse().ok()?;
        Some(Self {
            attempt: u32::try_from(delivered).unwrap_or(u32::MAX),
            sequence: numbers.next()?.parse().ok()?,
        })
    }
}

fn describe(status: StatusCode, message: &Message) -> String {
    match &message.description {
        Some(description) => format!("{status}: {description}"),
        None => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_delivery_is_read_in_both_forms_and_nothing_else_is() {
        let place = |sequence, attempt| Some(Place { sequence, attempt });
        let read = Place::of;
        assert_eq!(
            read("$JS.ACK.WORK.timer.2.417.9.1700000000000000000.3"),
            place(417, 2)
        );
        let long = "$JS.ACK.hub.ACHASH.WORK.timer.1.5.5.1700000000000000000.0";
        assert_eq!(read(long), place(5, 1));
        assert_eq!(read(&format!("{long}.random")), place(5, 1));
        let many = "$JS.ACK.WORK.timer.99999999999.1.1.1.1";
        assert_eq!(read(many), place(1, u32::MAX));
        for other in [
            "_INBOX.abc",
            "$JS.ACK.WORK.timer",
            "$JS.ACK.WORK.timer.x.1.1.1.1",
            "$JS.ACK.WORK.timer.1..1.1.1",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
