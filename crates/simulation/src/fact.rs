//! Facts: the occurrences that the invariants check.

use crate::message::{Body, Micros, NodeId, Queue, Record, Sample, Single, Verdict, Work};

/// One occurrence. The world collects facts while it processes an event, and the invariants check them after the event.
#[derive(Debug, Clone)]
pub(crate) enum Fact {
    /// The broker stored a message that was new to it.
    Stored { by: NodeId, body: Body },
    /// The broker confirmed to the publisher that it stored the message.
    Confirmed { body: Body, sequence: u64 },
    /// A message left its queue.
    Settled {
        sequence: u64,
        work: Work,
        terminated: bool,
    },
    /// The broker was killed before it had recorded the removal of a message. The message is in its queue again.
    Returned { sequence: u64 },
    /// The broker restarted after a kill.
    Restarted,
    /// The ack wait of a message passed.
    TakenBack { node: NodeId, token: u64 },
    /// The broker accepted a sign of life for a message that the node has held for this time.
    Alive { node: NodeId, held: Micros },
    /// A node wrote the record of a lease.
    Lease {
        single: Single,
        by: NodeId,
        before: Record,
        after: Record,
    },
    /// The number of messages that a node holds or has requested, and its slots.
    Hand {
        node: NodeId,
        held: usize,
        slots: usize,
    },
    /// A node regards a message as done and as acknowledged by the broker.
    Done { sequence: u64 },
    /// An archive counted an outcome. `new` tells whether the sample was new to the archive.
    Counted {
        node: NodeId,
        sample: Sample,
        verdict: Verdict,
        new: bool,
    },
    /// A process failed at a sample. The sample may or may not be tried again.
    Failed { sample: Sample },
    /// A worker began to evaluate a program.
    Evaluated { sample: Sample, queue: Queue },
    /// A node was disturbed: killed, cut off or suspended, or one of its packets was lost or late.
    Disturbed { node: NodeId },
}
