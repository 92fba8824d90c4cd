//! The events of a run and their order in time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;

use crate::broker::{Delivery, Notice, Reply, Request};
use crate::message::{Micros, Name, NodeId, Single};
use crate::store::Saved;

/// A message from a node to the broker.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Packet {
    Request(u64, Request),
    Notice(Notice),
}

/// A message from the broker to a node.
#[derive(Debug, Clone)]
pub(crate) enum ToNode {
    Reply(u64, Reply),
    Delivery(Delivery),
}

/// A request to the artifact store.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    Save(Single, Name, Rc<Saved>),
    Load(Single, Name),
}

/// A timer of a node. Void once the role has restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The time limit of a request.
    Limit(u64),
    /// Signs of life for the held messages are due.
    Signs,
    /// The current stage of a job is over.
    Job(u32),
    /// A renewal of the lease, or another check whether the lease is free, is due.
    Beat,
    /// The archive's periodic check.
    Clock,
    /// The generator's wait for further tasks of the step is over.
    Begin,
    /// The programs for a batch of tasks are written.
    Written,
    /// A gradient step is complete.
    Trained,
    /// The time limit for the missing rollouts of this step is over.
    Silence(u32),
}

#[derive(Debug, Clone)]
pub(crate) enum Event {
    AtBroker {
        from: NodeId,
        generation: u32,
        packet: Packet,
    },
    AtNode {
        to: NodeId,
        life: u32,
        epoch: u32,
        message: ToNode,
    },
    AtStore {
        from: NodeId,
        life: u32,
        id: u64,
        ask: Ask,
    },
    /// The store's answer to a load or a save. None for a save.
    FromStore {
        to: NodeId,
        life: u32,
        id: u64,
        found: Option<Rc<Saved>>,
    },
    Sync {
        generation: u32,
    },
    AckWait {
        sequence: u64,
        token: u64,
        generation: u32,
    },
    Return {
        sequence: u64,
        token: u64,
        generation: u32,
    },
    Timer {
        node: NodeId,
        life: u32,
        timer: Timer,
    },
    /// A role starts, for the first time or again.
    Start {
        node: NodeId,
        life: u32,
    },
    Fault,
    BrokerUp,
    StoreUp,
    DiskFree,
    Heal {
        node: NodeId,
        cut: u32,
    },
    Reconnect {
        node: NodeId,
    },
}

impl Event {
    /// The node to which the event belongs, if there is one.
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::AtNode { to: node, .. }
            | Self::FromStore { to: node, .. }
            | Self::Timer { node, .. }
            | Self::Start { node, .. }
            | Self::Reconnect { node } => Some(*node),
            _ => None,
        }
    }

    /// The event's name, its node and a number, for the trace. Equal names differ in the numbers.
    pub fn told(&self) -> (&'static str, u64, u64) {
        let of = |node: &NodeId| u64::from(node.0);
        match self {
            Self::AtBroker { from, packet, .. } => {
                let (word, number) = match packet {
                    Packet::Request(id, request) => (of_request(request), *id),
                    Packet::Notice(Notice::Pull { count, .. }) => ("asks for work", *count as u64),
                    Packet::Notice(Notice::Nak { sequence, .. }) => ("gives back", *sequence),
                    Packet::Notice(Notice::Progress { sequence, .. }) => {
                        ("is still at work on", *sequence)
                    }
                };
                (word, of(from), number)
            }
            Self::AtNode { to, message, .. } => {
                let (word, number) = match message {
                    ToNode::Reply(id, reply) => (of_reply(reply), *id),
                    ToNode::Delivery(delivery) => ("is given message", delivery.sequence),
                };
                (word, of(to), number)
            }
            Self::AtStore { from, id, ask, .. } => match ask {
                Ask::Save(..) => ("saves a checkpoint", of(from), *id),
                Ask::Load(..) => ("loads a checkpoint", of(from), *id),
            },
            Self::FromStore { to, id, found, .. } => match found {
                Some(_) => ("hears from the store", of(to), *id),
                None => ("hears nothing from the store", of(to), *id),
            },
            Self::Sync { .. } => ("a write is on disk", 0, 0),
            Self::AckWait { sequence, .. } => ("an ack wait passed", 0, *sequence),
            Self::Return { sequence, .. } => ("a message may be given out again", 0, *sequence),
            Self::Timer { node, timer, .. } => {
                let (word, number) = of_timer(timer);
                (word, of(node), number)
            }
            Self::Start { node, life } => ("starts", of(node), u64::from(*life)),
            Self::Fault => ("a fault", 0, 0),
            Self::BrokerUp => ("the broker is back", 0, 0),
            Self::StoreUp => ("the store is back", 0, 0),
            Self::DiskFree => ("the broker's disk has room again", 0, 0),
            Self::Heal { node, .. } => ("is reachable again", of(node), 0),
            Self::Reconnect { node } => ("connects again", of(node), 0),
        }
    }
}

fn of_request(request: &Request) -> &'static str {
    use crate::message::{Body, Log, Queue};
    match request {
        Request::Publish { body, .. } => match body {
            Body::Work(work) => match work.queue {
                Queue::Generate => "publishes a task",
                Queue::Compile => "publishes a candidate",
                Queue::Verify => "publishes what it compiled",
                Queue::Time => "publishes what it verified",
            },
            Body::Entry(entry) => match entry.log() {
                Log::Outcome => "publishes an outcome",
                Log::Rollout => "publishes a rollout",
                Log::Policy => "publishes a version",
                Log::Dead => "publishes a dead letter",
            },
        },
        Request::Answer {
            terminate: false, ..
        } => "acknowledges",
        Request::Answer { .. } => "terminates",
        Request::Read { .. } => "reads a log",
        Request::Get(_) => "reads a key",
        Request::Write { .. } => "writes a key",
        Request::Count => "counts what is queued",
    }
}

fn of_reply(reply: &Reply) -> &'static str {
    match reply {
        Reply::Stored => "hears: stored",
        Reply::Full => "hears: no room",
        Reply::Answered => "hears: acknowledged",
        Reply::Entries(..) => "reads entries",
        Reply::Value(_) => "hears a value",
        Reply::Written(_) => "hears: written",
        Reply::Conflict => "hears: another revision",
        Reply::Count(_) => "hears a count",
    }
}

fn of_timer(timer: &Timer) -> (&'static str, u64) {
    match timer {
        Timer::Limit(id) => ("looks after request", *id),
        Timer::Signs => ("gives signs of life", 0),
        Timer::Job(job) => ("goes on with job", u64::from(*job)),
        Timer::Beat => ("looks after its lease", 0),
        Timer::Clock => ("looks at the clock", 0),
        Timer::Begin => ("begins to answer tasks", 0),
        Timer::Written => ("has written programs", 0),
        Timer::Trained => ("has trained", 0),
        Timer::Silence(steps) => ("misses rollouts of step", u64::from(*steps)),
    }
}

#[derive(Debug)]
struct Due {
    at: Micros,
    /// Breaks ties: the event that was planned first happens first.
    order: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap returns the greatest element first.
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// All planned events, ordered by time.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Due>,
    planned: u64,
}

impl Agenda {
    pub fn plan(&mut self, at: Micros, event: Event) {
        let order = self.planned;
        self.planned += 1;
        self.heap.push(Due { at, order, event });
    }

    pub fn next(&mut self) -> Option<(Micros, Event)> {
        self.heap.pop().map(|due| (due.at, due.event))
    }
}
