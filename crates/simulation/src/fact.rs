//! What happened in an event, as the invariants look at it.

use crate::message::{Body, Micros, NodeId, Queue, Record, Sample, Single, Verdict, Work};

/// One thing that happened. Facts are collected while an event is worked off, and judged after it.
#[derive(Debug, Clone)]
pub(crate) enum Fact {
    /// The broker stored a message that it did not know.
    Stored { by: NodeId, body: Body },
    /// The broker said so to whoever published it.
    Confirmed { body: Body, sequence: u64 },
    /// A message left its queue.
    Settled {
        sequence: u64,
        work: Work,
        terminated: bool,
    },
    /// The broker was killed before it had noted that a message left: it is there again.
    Returned { sequence: u64 },
    /// The broker is there again after a kill.
    Restarted,
    /// The ack wait of a message passed.
    TakenBack { node: NodeId, token: u64 },
    /// A sign of life was accepted for a message that somebody has had for so long.
    Alive { node: NodeId, held: Micros },
    /// An office's record was written.
    Office {
        single: Single,
        by: NodeId,
        before: Record,
        after: Record,
    },
    /// A node has so many messages in hand or asked for.
    Hand {
        node: NodeId,
        held: usize,
        slots: usize,
    },
    /// A node is done with a message and says that the broker knows.
    Done { sequence: u64 },
    /// An archive counted an outcome, which was new to it or not.
    Counted {
        node: NodeId,
        sample: Sample,
        verdict: Verdict,
        new: bool,
    },
    /// A process failed at a sample, and it will be tried again or not.
    Failed { sample: Sample },
    /// A worker began to evaluate a program.
    Evaluated { sample: Sample, queue: Queue },
    /// A node was held up: killed, cut off, stopped, or a packet of its was lost or late.
    Disturbed { node: NodeId },
}
