//! Nodes: their connections, requests and roles.

use std::collections::BTreeMap;

use flopsmith_coordination::restart::Failures;

use crate::broker::{Reply, Request};
use crate::config::Role;
use crate::event::Packet;
use crate::message::{Entry, Holder, Log, Micros, NodeId, Program, Record, Sample, Value, Verdict};
use crate::store::Saved;
use std::rc::Rc;

mod archive;
mod bench;
mod generator;
mod job;
mod learner;
mod lease;
mod requests;

pub(crate) use archive::Archive;
pub(crate) use generator::Generator;
pub(crate) use job::Job;
pub(crate) use learner::Learner;
pub(crate) use lease::Lease;

/// The purpose of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Then {
    /// The answer goes to a job.
    Job(u32),
    /// An outcome is written to the cache for duplicates; then the job continues.
    Note {
        job: Option<u32>,
        program: Program,
        sample: Sample,
        verdict: Verdict,
    },
    /// Reads the holder of the lease.
    Seek,
    /// Takes the lease.
    Take(Record),
    /// Renews the lease or commits a state.
    Renew(Record),
    /// Reads the record after a refused write.
    Adopt(Record),
    /// Loads the state from which the role continues.
    Restore,
    /// Saves a state.
    Save,
    /// Reads a log from its beginning.
    Replay(Log),
    /// Follows a log.
    Follow(Log),
    /// Stores one of several messages.
    Part,
    /// Stores the outcome of a dead-lettered or lost sample.
    Decided(Sample, Program, Verdict),
    /// Counts the queued messages.
    Count,
    /// Publishes a version.
    Told,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Response {
    Stored,
    Answered,
    /// The server that gave out the message is gone and may give the message out again.
    Stale,
    Entries(Vec<(u64, Entry)>, usize),
    Value(Option<(Value, u64)>),
    Written(u64),
    Conflict,
    Count(usize),
    Found(Rc<Saved>),
    /// No answer came, or a refusal.
    Failed,
}

#[derive(Debug)]
enum Asked {
    Bus(Request),
    Store,
}

#[derive(Debug)]
struct Pending {
    asked: Asked,
    then: Then,
    since: Micros,
    due: Micros,
    /// The connection on which the request was first sent.
    epoch: u32,
    stale_since: Option<Micros>,
    /// A write that got no answer and whose key is read to see whether the write happened. The value, and the revision
    /// before it.
    unsure: Option<(Value, u64)>,
}

/// A cut of a node's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub number: u32,
    pub until: Micros,
    /// True if packets during the cut and the connection are lost. Otherwise the packets arrive late.
    pub loses: bool,
}

/// The state of a role.
pub(crate) enum Mind {
    Worker,
    Generator(Generator),
    Archive(Archive),
    Learner(Learner),
}

pub(crate) struct Node {
    pub id: NodeId,
    pub role: Role,
    pub up: bool,
    /// Number of starts of the role. Events for an earlier start are void.
    pub life: u32,
    /// Number of the node's process, which grows with every new process.
    pub process: u32,
    pub connected: bool,
    /// Number of the connection, which grows with every reconnect.
    pub epoch: u32,
    pub cut: Option<Cut>,
    pub cuts: u32,
    /// Before this time the client has not noticed the lost connection, and packets are lost. Later packets are kept in
    /// `unsent`.
    pub unnoticed_until: Micros,
    /// Packets that were sent while the client knew that it had no connection.
    pub unsent: Vec<Packet>,
    pub stands_until: Micros,
    pub inbox: u32,
    pub outstanding: usize,
    pub jobs: BTreeMap<u32, Job>,
    next_job: u32,
    pending: BTreeMap<u64, Pending>,
    next_request: u64,
    /// Number of failures of this process at each message.
    pub failures: BTreeMap<u64, u32>,
    /// Moments of the role's latest failures.
    pub fell: Failures,
    pub lease: Option<Lease>,
    pub mind: Mind,
}

impl Node {
    pub fn new(id: NodeId, role: Role) -> Self {
        Self {
            id,
            role,
            up: true,
            life: 0,
            process: 0,
            connected: true,
            epoch: 0,
            cut: None,
            cuts: 0,
            unnoticed_until: 0,
            unsent: Vec::new(),
            stands_until: 0,
            inbox: 0,
            outstanding: 0,
            jobs: BTreeMap::new(),
            next_job: 0,
            pending: BTreeMap::new(),
            next_request: 0,
            failures: BTreeMap::new(),
            fell: Failures::default(),
            lease: None,
            mind: Mind::Worker,
        }
    }

    /// True if the role runs and is in this life.
    pub fn is(&self, life: u32) -> bool {
        self.up && self.life == life
    }

    pub fn holder(&self) -> Holder {
        Holder {
            node: self.id,
            process: self.process,
        }
    }

    /// Begins a process, which knows nothing of the failures of the process before it.
    pub fn new_process(&mut self) {
        self.process += 1;
        self.failures.clear();
        self.fell = Failures::default();
    }

    /// Forgets the state of the role, which the next life does not have.
    pub fn forget_role(&mut self) {
        self.life += 1;
        self.inbox += 1;
        self.outstanding = 0;
        self.jobs.clear();
        self.pending.clear();
        self.lease = None;
        self.mind = Mind::Worker;
    }
}

impl From<Reply> for Response {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Stored => Self::Stored,
            Reply::Full => Self::Failed,
            Reply::Answered => Self::Answered,
            Reply::Entries(entries, pending) => Self::Entries(entries, pending),
            Reply::Value(value) => Self::Value(value),
            Reply::Written(revision) => Self::Written(revision),
            Reply::Conflict => Self::Conflict,
            Reply::Count(count) => Self::Count(count),
        }
    }
}
