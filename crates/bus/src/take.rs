//! The task behind a worker that asks for messages and reads them.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Subscriber;
use bytes::Bytes;
use flopsmith_protocol::{Message, decode, subjects};
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::{doubled, jittered};
use crate::dead::Unprocessable;
use crate::delivery::{Delivery, Ticket, settle};
use crate::error::Error;
use crate::pull::{CONNECTION_LOST, Event, Place, Pull, trace_of};
use crate::streams::stream;
use crate::worker::{Shared, WorkerOptions, chain, ensure_consumer};

/// The longest pause between two requests where the server keeps no more of them, as a multiple of the first. So many wait before that
/// nobody is missed, and a thousand that ask twice a second would be a load of their own.
const CROWDED_MOST: u32 = 16;

/// Why nothing is asked for any more, where somebody said so.
const RESTING: &str = "resting";

/// Asks for as many messages as there are free slots, and hands over what comes.
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
                // It was asked for, and is no failure.
                if why.as_deref() == Some(RESTING) {
                    failures = 0;
                    continue;
                }
                // Whether it really is, the first request shows. A thousand workers that all made theirs anew would keep a broker
                // that has just come back from its work for many seconds.
                consumer_is_there = why.as_deref() == Some(CONNECTION_LOST);
                if let Some(why) = why {
                    tracing::info!(subject = options.subject, why, "asking for work anew");
                }
            }
            Err(error) => {
                shared.bus.note_unable(&options.subject, true);
                tracing::warn!(subject = options.subject, error = %chain(&error), "no work can be taken; trying again");
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

/// Who has stopped is not one that cannot take work.
struct Able<'a>(&'a Shared);

impl Drop for Able<'_> {
    fn drop(&mut self) {
        self.0.bus.note_unable(&self.0.options.subject, false);
    }
}

/// One pull, until it is lost (and why) or the worker stops.
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
        let mut wanted = shared.free().saturating_sub(pull.outstanding());
        let crowded = wanted > 0 && crowd.waits();
        if crowded {
            wanted = 0;
        }
        // A standing request brings work as soon as there is some; only when it
        // is used up, or when asking pays, is another one worth a message.
        if wanted > 0
            && (pull.outstanding() == 0 || wanted * 2 >= shared.options.slots)
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
                        // The receiver closes only when the worker stops; then the delivery gives itself back.
                        if let Err(mpsc::error::SendError(delivery)) = sender.send(delivery) {
                            delivery.give_back();
                        }
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

/// What a worker does whose requests are too many for the server.
///
/// A server goes through all waiting requests for each message, so it keeps some only. As many workers as that wait for work; as soon as
/// one of them has enough, it says so, and one of the others, whichever, takes its place.
struct Crowd {
    subject: String,
    pause: Duration,
    refused: u32,
    /// Not before, where the last request was refused.
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
            // One of those that listen hears it. Where it cannot be listened to, time goes by.
            let client = shared.bus.client();
            let heard = client.queue_subscribe(self.subject.clone(), "room".to_owned());
            self.room = heard.await.ok();
            // Somebody may have left room before this one listened.
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

    /// Dropped, it would still be the server's choice for a while. What it was told and has not heard is for another one.
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

    /// There is room. Cancelling it loses nothing.
    async fn heard(&mut self) {
        match &mut self.room {
            Some(room) => drop(room.next().await),
            None => std::future::pending().await,
        }
    }

    /// Asks again, or tells another one, as its own request is kept.
    async fn told(&mut self, shared: &Shared) {
        let waited = self.waits();
        self.listen_no_more(shared).await;
        self.ask = None;
        if !waited {
            leave_room(shared).await;
        }
    }
}

/// Whoever had no room may ask.
async fn leave_room(shared: &Shared) {
    let subject = subjects::room(&shared.options.durable);
    let _ = shared.bus.client().publish(subject, Bytes::new()).await;
}

/// Given out so often, a message that never fails is taken for one that kills whoever has it.
const MOST: u32 = 100;

/// Reads a message. What cannot be read, or was given out too often, goes to the dead letters.
async fn accept<M: Message>(
    shared: &Arc<Shared>,
    message: async_nats::Message,
) -> Option<Delivery<M>> {
    let subject = message.subject.to_string();
    let trace = trace_of(&message);
    let reply = message.reply?;
    let Some(Place { sequence, attempt }) = Place::of(&reply) else {
        tracing::error!(reply = %reply, "the server sent something that is no message of a stream");
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
        Ok(_) if shared.failures(sequence) >= shared.options.max_deliver || attempt > MOST => {
            format!(
                "given out {} times, and nobody who had it came to an end",
                attempt - 1
            )
        }
        Ok(body) => return Some(Delivery::new(body, ticket, Arc::clone(shared))),
        Err(error) => chain(&error),
    };
    let dead_lettered = shared
        .bus
        .dead_letter(Unprocessable {
            stream: stream::WORK,
            subject: &ticket.subject,
            sequence,
            reason: &reason,
            attempts: attempt,
            payload: ticket.payload.clone(),
            trace: &ticket.trace,
        })
        .await;
    tracing::warn!(
        subject = ticket.subject,
        sequence,
        reason,
        "a message went to the dead letters"
    );
    let ended = match dead_lettered {
        Ok(()) => settle(shared, &ticket, b"+TERM")
            .await
            .map_err(|e| e.to_string()),
        Err(error) => Err(chain(&error)),
    };
    if let Err(error) = ended {
        // It comes again after the ack wait, and becomes a dead letter under the same id.
        tracing::warn!(
            subject = ticket.subject,
            sequence,
            error,
            "a dead message could not be taken out of its queue"
        );
    }
    None
}
