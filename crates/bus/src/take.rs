//! The task behind a worker that requests messages and reads them.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Subscriber;
use bytes::Bytes;
use flopsmith_coordination::delivery::{doubled, is_dead};
use flopsmith_protocol::{Message, decode, subjects};
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::jittered;
use crate::dead::Unprocessable;
use crate::delivery::{Delivery, Ticket, settle};
use crate::error::Error;
use crate::pull::{CONNECTION_LOST, Event, Place, Pull, trace_of};
use crate::streams::stream;
use crate::worker::{Shared, WorkerOptions, chain, ensure_consumer};

/// The longest pause between two requests after refusals, as a multiple of the first pause. As many workers wait at the
/// server as it allows, so an occasional request is enough; a thousand workers that asked twice a second would
/// themselves load the server.
const CROWDED_MOST: u32 = 16;

/// The reason for a pause that the caller requested with [`Worker::rest`](crate::Worker::rest).
const RESTING: &str = "resting";

/// Requests as many messages as there are free slots, and passes each arrived message to the worker.
pub(crate) async fn take<M: Message>(
    shared: Arc<Shared>,
    sender: mpsc::UnboundedSender<Delivery<M>>,
    stop: CancellationToken,
) {
    let options = &shared.options;
    let _end = Able(&shared);
    let mut failures = 0;
    let mut consumer_is_there = true;
    while !stop.is_cancelled() {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = shared.rested() => {}
        }
        let opened = async {
            if !consumer_is_there {
                ensure_consumer(&shared).await?;
            }
            let pull = Pull::open(&shared.bus, stream::WORK, &options.durable).await;
            pull.map_err(|source| Error::Consumer {
                durable: options.durable.clone(),
                subject: options.subject.clone(),
                source,
            })
        };
        let opened = tokio::select! {
            () = stop.cancelled() => return,
            opened = opened => opened,
        };
        consumer_is_there = false;
        match opened {
            Ok(mut pull) => {
                shared.bus.note_unable(&options.subject, false);
                let why = work(&shared, &mut pull, &sender, &stop, &mut failures).await;
                for message in pull.close().await {
                    if let Some(reply) = message.reply {
                        shared.nak(reply, Duration::ZERO);
                    }
                }
                if why.is_none() || why.as_deref() == Some(RESTING) {
                    leave_room(&shared).await;
                }
                // The caller requested the pause; it is no failure.
                if why.as_deref() == Some(RESTING) {
                    failures = 0;
                    continue;
                }
                // After a lost connection the consumer probably still exists; the first request shows whether it does.
                // If a thousand workers created their consumers anew, they would occupy a restarted broker for many
                // seconds.
                consumer_is_there = why.as_deref() == Some(CONNECTION_LOST);
                if let Some(why) = why {
                    tracing::info!(subject = options.subject, why, "requesting work again");
                }
            }
            Err(error) => {
                shared.bus.note_unable(&options.subject, true);
                tracing::warn!(subject = options.subject, error = %chain(&error), "the work queue cannot be opened; trying again");
            }
        }
        if failures > 0 {
            let wait = jittered(doubled(
                Duration::from_millis(100),
                failures - 1,
                Duration::from_secs(5),
            ));
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
        failures += 1;
    }
}

/// Clears the mark of an unusable queue: a worker that has stopped does not count as one that cannot take work.
struct Able<'a>(&'a Shared);

impl Drop for Able<'_> {
    fn drop(&mut self) {
        self.0.bus.note_unable(&self.0.options.subject, false);
    }
}

/// Runs one pull. Returns the reason if the pull is lost, or none if the worker stops.
async fn work<M: Message>(
    shared: &Arc<Shared>,
    pull: &mut Pull,
    sender: &mpsc::UnboundedSender<Delivery<M>>,
    stop: &CancellationToken,
    failures: &mut u32,
) -> Option<String> {
    let rests = shared.rests();
    tokio::pin!(rests);
    let mut crowd = Crowd::new(&shared.options);
    loop {
        let crowded = shared.free() > pull.outstanding() && crowd.waits();
        if let Some(wanted) = shared.room().request(shared.free(), pull.outstanding())
            && !crowded
            && let Err(error) = pull.request(wanted).await
        {
            return Some(error.to_string());
        }
        let until = crowd.until();
        tokio::select! {
            biased;
            () = stop.cancelled() => {
                crowd.listen_no_more(shared).await;
                return None;
            }
            () = &mut rests => {
                crowd.listen_no_more(shared).await;
                return Some(RESTING.to_owned());
            }
            event = pull.next() => match event {
                Event::Message(message) => {
                    *failures = 0;
                    crowd.was_served(shared).await;
                    if let Some(delivery) = accept(shared, message).await {
                        shared.pass_on(sender, delivery);
                    }
                    if pull.outstanding() == 0 && shared.free() == 0 {
                        leave_room(shared).await;
                    }
                }
                Event::Expired => {}
                Event::Crowded => {
                    *failures = 0;
                    crowd.was_refused(shared).await;
                }
                Event::Lost(why) => return Some(why),
            },
            () = shared.freed.notified() => {}
            () = crowd.heard() => crowd.told(shared).await,
            () = tokio::time::sleep_until(until), if crowded => crowd.listen_no_more(shared).await,
        }
    }
}

/// The state of a worker whose requests the server refuses because too many wait.
///
/// A server goes through all waiting requests for each message, so it limits their number. Up to that limit, workers
/// wait for work at the server. A worker that needs no more work announces the free place, and any one of the refused
/// workers takes it.
struct Crowd {
    subject: String,
    pause: Duration,
    refused: u32,
    /// No request before this time, if the last one was refused.
    ask: Option<Instant>,
    room: Option<Subscriber>,
}

impl Crowd {
    fn new(options: &WorkerOptions) -> Self {
        Self {
            subject: subjects::room(&options.durable),
            pause: options.crowded_pause,
            refused: 0,
            ask: None,
            room: None,
        }
    }

    fn waits(&self) -> bool {
        self.ask.is_some_and(|ask| ask > Instant::now())
    }

    async fn was_refused(&mut self, shared: &Shared) {
        if self.room.is_none() {
            // One subscriber of the queue group receives each announcement. If the subscription fails, the pause passes
            // instead.
            let client = shared.bus.client();
            let heard = client.queue_subscribe(self.subject.clone(), "room".to_owned());
            self.room = heard.await.ok();
            // A place may have been announced before this subscription began, so the worker requests at once.
            if self.room.is_some() {
                self.ask = None;
                return;
            }
        }
        let most = self.pause.saturating_mul(CROWDED_MOST);
        self.ask = Some(Instant::now() + jittered(doubled(self.pause, self.refused, most)));
        self.refused += 1;
    }

    async fn was_served(&mut self, shared: &Shared) {
        self.refused = 0;
        self.ask = None;
        self.listen_no_more(shared).await;
    }

    /// Ends the subscription. Without an explicit end the server could still choose this subscriber for a while.
    /// Announcements that were received and not read are published again for another worker.
    async fn listen_no_more(&mut self, shared: &Shared) {
        let Some(mut room) = self.room.take() else {
            return;
        };
        let _ = room.unsubscribe().await;
        while let Some(Some(_)) = room.next().now_or_never() {
            leave_room(shared).await;
        }
    }

    fn until(&self) -> Instant {
        self.ask.unwrap_or_else(Instant::now)
    }

    /// Waits for the announcement of a free place. A cancelled call loses nothing.
    async fn heard(&mut self) {
        match &mut self.room {
            Some(room) => drop(room.next().await),
            None => std::future::pending().await,
        }
    }

    /// Requests again. If this worker's own request is already kept, announces the place to another worker.
    async fn told(&mut self, shared: &Shared) {
        let waited = self.waits();
        self.listen_no_more(shared).await;
        self.ask = None;
        if !waited {
            leave_room(shared).await;
        }
    }
}

/// Announces a free place to the workers that were refused.
async fn leave_room(shared: &Shared) {
    let subject = subjects::room(&shared.options.durable);
    let _ = shared.bus.client().publish(subject, Bytes::new()).await;
}

/// Decodes a message. A message that cannot be decoded, or was given out too often, goes to the dead letters.
async fn accept<M: Message>(
    shared: &Arc<Shared>,
    message: async_nats::Message,
) -> Option<Delivery<M>> {
    let subject = message.subject.to_string();
    let trace = trace_of(&message);
    let reply = message.reply?;
    let Some(Place { sequence, attempt }) = Place::of(&reply) else {
        tracing::error!(reply = %reply, "the server sent a message that belongs to no stream");
        return None;
    };
    let decoded = decode::<M>(&message.payload);
    let epoch = *shared.bus.epoch().borrow();
    let ticket = Ticket {
        subject,
        reply,
        sequence,
        attempt,
        payload: message.payload,
        trace,
        epoch,
    };
    let reason = match decoded {
        Ok(_)
            if is_dead(
                shared.failures(sequence),
                attempt,
                shared.options.max_deliver,
            ) =>
        {
            format!("given out {} times, and no worker finished it", attempt - 1)
        }
        Ok(body) => return Some(Delivery::new(body, ticket, Arc::clone(shared))),
        Err(error) => chain(&error),
    };
    let dead_lettered = shared
        .bus
        .keep_dead_letter(Unprocessable {
            stream: stream::WORK,
            subject: &ticket.subject,
            sequence,
            reason: &reason,
            attempts: attempt,
            payload: ticket.payload.clone(),
            trace: &ticket.trace,
        })
        .await;
    let ended = match dead_lettered {
        Ok(()) => {
            tracing::warn!(
                subject = ticket.subject,
                sequence,
                reason,
                "a message went to the dead letters"
            );
            settle(shared, &ticket, b"+TERM")
                .await
                .map_err(|e| e.to_string())
        }
        Err(error) => Err(chain(&error)),
    };
    if let Err(error) = ended {
        // The server gives the message out again after the ack wait, and the message becomes a dead letter under the
        // same id.
        tracing::warn!(
            subject = ticket.subject,
            sequence,
            error,
            "an unprocessable message could not be removed from its queue"
        );
    }
    None
}
