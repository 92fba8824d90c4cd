//! Nodes: connections, requests and the roles behind them.

use std::collections::{BTreeMap, VecDeque};

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
mod office;
mod requests;

pub(crate) use archive::Archive;
pub(crate) use generator::Generator;
pub(crate) use job::Job;
pub(crate) use learner::Learner;
pub(crate) use office::Office;

/// What a request is for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Then {
    /// A job goes on.
    Job(u32),
    /// What became of a program is noted, for its duplicates; then a job goes on.
    Note {
        job: Option<u32>,
        program: Program,
        sample: Sample,
        verdict: Verdict,
    },
    /// Who has the office?
    Seek,
    /// It is taken.
    Take(Record),
    /// It is kept, or changed.
    Renew(Record),
    /// It was refused: who has it now?
    Adopt(Record),
    /// The state to go on from.
    Restore,
    /// A state is saved.
    Save,
    /// A log is read from its beginning.
    Replay(Log),
    /// A log is followed.
    Follow(Log),
    /// One of several messages is stored.
    Part,
    /// What nobody could work off was decided.
    Decided(Sample, Program, Verdict),
    /// How much is queued?
    Count,
    /// A version is told.
    Told,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Heard {
    Stored,
    Answered,
    /// The server that gave the message out is gone, and may give it out again.
    Stale,
    Entries(Vec<(u64, Entry)>, usize),
    Value(Option<(Value, u64)>),
    Written(u64),
    Conflict,
    Count(usize),
    Found(Rc<Saved>),
    /// Nothing came, or no.
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
    /// The connection it was first sent on.
    epoch: u32,
    stale_since: Option<Micros>,
    /// A write that got no answer: look whether it happened.
    unsure: Option<(Value, u64)>,
}

/// How a node is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub number: u32,
    pub until: Micros,
    /// What is sent meanwhile is lost, and the connection with it; else it comes late.
    pub loses: bool,
}

/// What a role has in mind.
#[derive(Debug)]
pub(crate) enum Mind {
    Worker,
    Generator(Generator),
    Archive(Archive),
    Learner(Learner),
}

#[derive(Debug)]
pub(crate) struct Node {
    pub id: NodeId,
    pub role: Role,
    pub up: bool,
    /// Counts the starts of the role: what was meant for an earlier one is void.
    pub life: u32,
    /// Counts the processes.
    pub process: u32,
    pub connected: bool,
    /// Counts the connections.
    pub epoch: u32,
    pub cut: Option<Cut>,
    pub cuts: u32,
    /// What is sent before this is lost; later on it is known that the connection is, and it is kept.
    pub unnoticed_until: Micros,
    /// What was sent while it was known that there is no connection.
    pub unsent: Vec<Packet>,
    pub stands_until: Micros,
    pub inbox: u32,
    pub outstanding: usize,
    pub jobs: BTreeMap<u32, Job>,
    next_job: u32,
    pending: BTreeMap<u64, Pending>,
    next_request: u64,
    /// How often this process failed at a message.
    pub failures: BTreeMap<u64, u32>,
    /// When its role failed lately.
    pub fell: VecDeque<Micros>,
    pub office: Option<Office>,
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
            fell: VecDeque::new(),
            office: None,
            mind: Mind::Worker,
        }
    }

    /// Is its role in this life, and alive?
    pub fn is(&self, life: u32) -> bool {
        self.up && self.life == life
    }

    pub fn holder(&self) -> Holder {
        Holder {
            node: self.id,
            process: self.process,
        }
    }

    /// Forgets what only lived in the role; its next life begins without it.
    pub fn forget_role(&mut self) {
        self.life += 1;
        self.inbox += 1;
        self.outstanding = 0;
        self.jobs.clear();
        self.pending.clear();
        self.office = None;
        self.mind = Mind::Worker;
    }
}

impl From<Reply> for Heard {
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
