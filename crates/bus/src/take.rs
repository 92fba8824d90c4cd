//! The task behind a worker that asks for messages and reads them.

use std::sync::Arc;
use std::time::Duration;

use flopsmith_protocol::{Message, decode};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::backoff::{doubled, jittered};
use crate::dead::Corpse;
use crate::delivery::{Delivery, Ticket, settle};
use crate::error::Error;
use crate::pull::{Event, Place, Pull, trace_of};
use crate::streams::stream;
use crate::worker::{Shared, chain, ensure_consumer};

/// Asks for as many messages as there are free slots, and hands over what comes.
pub(crate) async fn take<M: Message>(
    shared: Arc<Shared>,
    sender: mpsc::UnboundedSender<Delivery<M>>,
    stop: CancellationToken,
) {
    let options = &shared.options;
    let mut failures = 0;
    let mut consumer_is_there = true;
    while !stop.is_cancelled() {
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
                let why = work(&shared, &mut pull, &sender, &stop, &mut failures).await;
                for message in pull.close().await {
                    if let Some(reply) = message.reply {
                        shared.nak(reply, Duration::ZERO);
                    }
                }
                if let Some(why) = why {
                    tracing::info!(subject = options.subject, why, "asking for work anew");
                }
            }
            Err(error) => {
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

/// One pull, until it is lost (and why) or the worker stops.
async fn work<M: Message>(
    shared: &Arc<Shared>,
    pull: &mut Pull,
    sender: &mpsc::UnboundedSender<Delivery<M>>,
    stop: &CancellationToken,
    failures: &mut u32,
) -> Option<String> {
    loop {
        let wanted = shared.free().saturating_sub(pull.outstanding());
        // A standing request brings work as soon as there is some; only when it
        // is used up, or when asking pays, is another one worth a message.
        if wanted > 0
            && (pull.outstanding() == 0 || wanted * 2 >= shared.options.slots)
            && let Err(error) = pull.request(wanted).await
        {
            return Some(error.to_string());
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            event = pull.next() => match event {
                Event::Message(message) => {
                    *failures = 0;
                    if let Some(delivery) = accept(shared, message).await {
                        // The receiver closes only when the worker stops; then the delivery gives itself back.
                        if let Err(mpsc::error::SendError(delivery)) = sender.send(delivery) {
                            delivery.give_back();
                        }
                    }
                }
                Event::Expired => {}
                Event::Lost(why) => return Some(why),
            },
            () = shared.freed.notified() => {}
        }
    }
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
    let buried = shared
        .bus
        .bury(Corpse {
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
    let ended = match buried {
        Ok(()) => settle(shared, &ticket, b"+TERM")
            .await
            .map_err(|e| e.to_string()),
        Err(error) => Err(chain(&error)),
    };
    if let Err(error) = ended {
        // It comes again after the ack wait, and is buried under the same id.
        tracing::warn!(
            subject = ticket.subject,
            sequence,
            error,
            "a dead message could not be taken out of its queue"
        );
    }
    None
}
