//! Acknowledgements, sent in batches.
//!
//! The worker must know that each acknowledgement has arrived: if one is lost, the server gives the message out again
//! and the work is done twice. A server reads a connection in order, and the acknowledgements of one consumer form one
//! queue. If the server confirms the last of several acknowledgements, all that were sent before it have arrived as
//! well. The task therefore sends together all acknowledgements that came while the previous batch was under way, and
//! waits for one answer. If that answer fails, each caller sends its own acknowledgement again.
//!
//! A separate task sends the acknowledgements. A caller's future may remain unpolled for a while, so no caller's
//! acknowledgement may depend on the future of another caller.

use async_nats::client::Request;
use async_nats::subject::Subject;
use bytes::Bytes;
use flopsmith_coordination::limits;
use tokio::sync::{mpsc, oneshot};

use crate::connect::Bus;

const ACK: &[u8] = b"+ACK";

/// Sends acknowledgements of one worker's messages. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledger(mpsc::UnboundedSender<Asked>);

/// An acknowledgement to send.
#[derive(Debug)]
struct Asked {
    reply: Subject,
    /// Receives true if the acknowledgement is known to have arrived.
    told: oneshot::Sender<bool>,
}

impl Acknowledger {
    /// Starts the sending task, which ends when no sender is left.
    pub(crate) fn start(bus: &Bus) -> Self {
        let (sender, asked) = mpsc::unbounded_channel();
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends with the worker and its deliveries, who alone ask it"
        )]
        tokio::spawn(run(bus.clone(), asked));
        Self(sender)
    }

    /// Acknowledges the delivery with this `reply` subject. True if the acknowledgement is known to have arrived;
    /// otherwise the caller must send it again.
    pub(crate) async fn acknowledge(&self, reply: &Subject) -> bool {
        let (told, answer) = oneshot::channel();
        let reply = reply.clone();
        self.0.send(Asked { reply, told }).is_ok() && answer.await.unwrap_or(false)
    }
}

async fn run(bus: Bus, mut asked: mpsc::UnboundedReceiver<Asked>) {
    let mut together = Vec::new();
    while asked.recv_many(&mut together, usize::MAX).await > 0 {
        // Callers that are ready now join this batch.
        tokio::task::yield_now().await;
        while let Ok(more) = asked.try_recv() {
            together.push(more);
        }
        let arrived = send(&bus, &together).await;
        for one in together.drain(..) {
            // A caller that dropped its receiver no longer waits.
            let _gone = one.told.send(arrived);
        }
    }
}

/// Sends all acknowledgements and waits for the answer to the last one.
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
            .timeout(Some(limits::ACK_TRY));
        let answered = client.send_request(last.reply.clone(), request).await;
        answered.is_ok()
    };
    tokio::select! {
        arrived = all => arrived && !epoch.has_changed().unwrap_or(true),
        // The answer would come on the lost connection.
        _ = epoch.changed() => false,
    }
}
