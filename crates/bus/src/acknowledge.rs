//! Acknowledgements, many at a time.
//!
//! Each has to be known to have arrived: what was worked off and is given out
//! again is work done twice. But a server reads a connection in order, and a
//! consumer's acknowledgements are one queue: when the last of several is
//! confirmed, those that were sent before it have arrived as well. So all that
//! came while the ones before were under way are sent together, and one answer
//! does for all of them. Where it fails each one goes on by itself.
//!
//! A task of its own sends them. Whoever waits for one may be a future that
//! nobody polls for a while, so nothing of one's acknowledgement may be in the
//! hands of another who waits.

use async_nats::client::Request;
use async_nats::subject::Subject;
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::connect::Bus;
use crate::delivery::ACK_TRY;

const ACK: &[u8] = b"+ACK";

/// Sends acknowledgements of one worker's messages. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledger(mpsc::UnboundedSender<Asked>);

/// One that is to be sent.
#[derive(Debug)]
struct Asked {
    reply: Subject,
    /// Told whether it is known to have arrived.
    told: oneshot::Sender<bool>,
}

impl Acknowledger {
    /// Begins to send; ends once nobody is left who could ask.
    pub(crate) fn start(bus: &Bus) -> Self {
        let (sender, asked) = mpsc::unbounded_channel();
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends with the worker and its deliveries, who alone ask it"
        )]
        tokio::spawn(run(bus.clone(), asked));
        Self(sender)
    }

    /// Acknowledges what `reply` answers. True once it is known to have arrived; else it has to be said again.
    pub(crate) async fn acknowledge(&self, reply: &Subject) -> bool {
        let (told, answer) = oneshot::channel();
        let reply = reply.clone();
        self.0.send(Asked { reply, told }).is_ok() && answer.await.unwrap_or(false)
    }
}

async fn run(bus: Bus, mut asked: mpsc::UnboundedReceiver<Asked>) {
    let mut together = Vec::new();
    while asked.recv_many(&mut together, usize::MAX).await > 0 {
        // Whoever is ready now is sent with it.
        tokio::task::yield_now().await;
        while let Ok(more) = asked.try_recv() {
            together.push(more);
        }
        let arrived = send(&bus, &together).await;
        for one in together.drain(..) {
            // Who does not wait any more has given up.
            let _gone = one.told.send(arrived);
        }
    }
}

/// Sends them all and waits for the answer to the last one.
async fn send(bus: &Bus, together: &[Asked]) -> bool {
    let Some((last, others)) = together.split_last() else {
        return true;
    };
    let client = bus.client();
    let mut epoch = bus.epoch();
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
        let answered = client.send_request(last.reply.clone(), request).await;
        answered.is_ok()
    };
    tokio::select! {
        arrived = all => arrived && !epoch.has_changed().unwrap_or(true),
        // The answer would come on a connection that is no more.
        _ = epoch.changed() => false,
    }
}
