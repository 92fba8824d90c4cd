//! Asking a consumer for messages, as many as one can use.
//!
//! The client library's own streams ask for a fixed number ahead of need, and
//! its batches sleep through heartbeats. Here the caller says how many it wants
//! beside those already asked for, and learns when the requests are lost.

use std::time::Duration;

use async_nats::{Client, Message, StatusCode, Subscriber};
use flopsmith_telemetry::TraceContext;
use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::connect::Bus;
use crate::error::Cause;

/// While a request stands, the server gives a sign of life this often.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Two signs missed: the server, the consumer or the request is gone.
const SILENCE: Duration = Duration::from_secs(11);

/// Why a pull is void whose consumer is as it was.
pub(crate) const CONNECTION_LOST: &str = "the connection was lost";

/// What the server says where as many requests wait as the consumer allows.
const CROWDED: &str = "Exceeded MaxWaiting";

/// What came.
pub(crate) enum Event {
    /// A message of the stream.
    Message(Message),
    /// The standing requests are void: open another pull, perhaps after making the consumer again.
    Lost(String),
    /// The last standing request ended in its time: ask again.
    Expired,
    /// So many others wait for work of this kind that the server kept no further request: ask again after a while.
    Crowded,
}

/// Requests to one consumer, and what they bring.
pub(crate) struct Pull {
    client: Client,
    subject: String,
    inbox: String,
    subscriber: Subscriber,
    outstanding: usize,
    /// Of these the latest request asked for so many.
    latest: usize,
    expires: Duration,
    epoch: watch::Receiver<u64>,
    heard: Instant,
}

impl Pull {
    /// Listens for what `consumer` of `stream` will send; asks for nothing yet.
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

    /// How many messages were asked for and have not come.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Asks for `more` messages beside the outstanding ones. Cancelling it asks for nothing.
    pub(crate) async fn request(&mut self, more: usize) -> Result<(), Cause> {
        let body = format!(
            r#"{{"batch":{more},"expires":{},"idle_heartbeat":{}}}"#,
            self.expires.as_nanos(),
            // The server takes at most half the time a request stands.
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

    /// Waits for the next message. Cancelling it loses nothing.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            let silent = tokio::time::sleep_until(self.heard + SILENCE);
            tokio::select! {
                // What has arrived counts before what is missing.
                biased;
                message = self.subscriber.next() => {
                    let Some(message) = message else {
                        return Event::Lost("the subscription was closed".to_owned());
                    };
                    self.heard = Instant::now();
                    if let Some(event) = self.read(message) {
                        return event;
                    }
                    // Nothing stands any more: waiting on would be waiting for ever.
                    if self.outstanding == 0 {
                        return Event::Expired;
                    }
                }
                changed = self.epoch.changed() => {
                    let why = if changed.is_ok() { CONNECTION_LOST } else { "the bus was closed" };
                    return Event::Lost(why.to_owned());
                }
                () = silent, if self.outstanding > 0 => {
                    return Event::Lost("the server gave no sign of life".to_owned());
                }
            }
        }
    }

    /// Messages that have arrived already; for the end.
    pub(crate) fn leftovers(&mut self) -> Vec<Message> {
        let mut left = Vec::new();
        while let Some(Some(message)) = self.subscriber.next().now_or_never() {
            if let Some(Event::Message(message)) = self.read(message) {
                left.push(message);
            }
        }
        left
    }

    /// Takes no more: the server drops what was asked for, as nobody listens.
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
                // A request that ended says how many messages it did not bring.
                let unserved = message
                    .headers
                    .as_ref()
                    .and_then(|headers| headers.get("Nats-Pending-Messages"))
                    .and_then(|value| value.as_str().parse::<usize>().ok());
                match unserved {
                    Some(unserved) => {
                        self.outstanding = self.outstanding.saturating_sub(unserved);
                        // Ended before its time: it will not get better by asking the same again.
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

/// The trace that a message carries.
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

/// What the subject that a delivery is answered on says of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where it stands in its stream.
    pub sequence: u64,
    /// How often it has been given out.
    pub attempt: u32,
}

impl Place {
    /// Reads `$JS.ACK.…` in both forms that servers write: with the names of domain and account before those of stream and
    /// consumer, and without. None where it is something else.
    pub(crate) fn of(reply: &str) -> Option<Self> {
        let rest = reply.strip_prefix("$JS.ACK.")?;
        // Stream, consumer, times given out, place in the stream, place among what was given out, time, number of those left.
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
