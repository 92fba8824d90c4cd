//! Acknowledgements, many at a time.
//!
//! Each has to be known to have arrived: what was worked off and is given out
//! again is work done twice. But a server reads a connection in order, and a
//! consumer's acknowledgements are one queue: when the last of several is
//! confirmed, those that were sent before it have arrived as well. So whoever
//! comes first sends its own together with those of all who came meanwhile, and
//! one answer does for all of them. Where it fails each one goes on by itself.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_nats::client::Request;
use async_nats::subject::Subject;
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::delivery::ACK_TRY;
use crate::worker::Shared;

const ACK: &[u8] = b"+ACK";

/// Who waits for whom.
#[derive(Debug, Default)]
pub(crate) struct Together(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    led: bool,
    others: Vec<Other>,
}

#[derive(Debug)]
struct Other {
    reply: Subject,
    told: oneshot::Sender<Told>,
}

/// What one of those who wait hears. Nothing, where the one who led has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// It has arrived.
    Arrived,
    /// It may have, or not.
    Unknown,
    /// Nobody has sent it: now it is its turn to lead.
    Lead,
}

impl Together {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None for who leads.
    fn join(&self, reply: &Subject) -> Option<oneshot::Receiver<Told>> {
        let mut waiting = self.waiting();
        if !waiting.led {
            waiting.led = true;
            return None;
        }
        let (told, receiver) = oneshot::channel();
        waiting.others.push(Other {
            reply: reply.clone(),
            told,
        });
        Some(receiver)
    }

    /// Has somebody else lead, if there is anybody.
    fn hand_over(&self) {
        let mut waiting = self.waiting();
        while !waiting.others.is_empty() {
            let next = waiting.others.remove(0);
            if next.told.send(Told::Lead).is_ok() {
                return;
            }
        }
        waiting.led = false;
    }
}

/// Hands over however it ends, also where the one who led is cancelled.
struct Leading<'a>(&'a Together);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.hand_over();
    }
}

/// Acknowledges what `reply` answers, with others of this worker. True once it is known to have arrived; else it has to be said again.
pub(crate) async fn acknowledge(shared: &Shared, reply: &Subject) -> bool {
    let together = &shared.together;
    if let Some(told) = together.join(reply) {
        match told.await {
            Ok(Told::Arrived) => return true,
            Ok(Told::Unknown) | Err(_) => return false,
            Ok(Told::Lead) => {}
        }
    }
    let _leading = Leading(together);
    // Whoever is ready now is sent with it.
    tokio::task::yield_now().await;
    let others = std::mem::take(&mut together.waiting().others);
    let arrived = send(shared, reply, &others).await;
    let what = match arrived {
        true => Told::Arrived,
        false => Told::Unknown,
    };
    for other in others {
        // Who does not wait any more has given up.
        let _gone = other.told.send(what);
    }
    arrived
}

async fn send(shared: &Shared, reply: &Subject, others: &[Other]) -> bool {
    let client = shared.bus.client();
    let mut epoch = shared.bus.epoch();
    let all = async {
        for other in others {
            let sent = client.publish(other.reply.clone(), Bytes::from_static(ACK));
            if sent.await.is_err() {
                return false;
            }
        }
        let request = Request::new()
            .payload(Bytes::from_static(ACK))
            .timeout(Some(ACK_TRY));
        client.send_request(reply.clone(), request).await.is_ok()
    };
    tokio::select! {
        arrived = all => arrived && !epoch.has_changed().unwrap_or(true),
        // The answer would come on a connection that is no more.
        _ = epoch.changed() => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leads_and_the_next_who_still_waits_leads_after_it() {
        let together = Together::default();
        let reply = |n: u32| Subject::from(format!("reply.{n}"));
        assert!(together.join(&reply(0)).is_none());
        let gone = together.join(&reply(1)).expect("it follows");
        let mut next = together.join(&reply(2)).expect("it follows");
        let mut last = together.join(&reply(3)).expect("it follows");
        drop(gone);
        drop(Leading(&together));
        assert_eq!(next.try_recv(), Ok(Told::Lead));
        assert!(last.try_recv().is_err());
        // Its own is not among those it sends besides.
        let others = std::mem::take(&mut together.waiting().others);
        assert_eq!(others.len(), 1);
        drop(others);
        assert!(last.try_recv().is_err());
        drop(Leading(&together));
        assert!(together.join(&reply(4)).is_none());
    }
}
