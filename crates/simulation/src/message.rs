//! The messages on the bus, reduced to the fields that matter to the protocol.

use std::time::Duration;

use flopsmith_coordination::{duplicates, lease};

/// Virtual time since the beginning of a run, microseconds.
pub type Micros = u64;

/// A length of virtual time as `flopsmith_coordination` has it.
pub(crate) const fn span(time: Micros) -> Duration {
    Duration::from_micros(time)
}

/// A length of time in virtual time.
pub(crate) const fn micros(time: Duration) -> Micros {
    time.as_micros() as Micros
}

/// A second of virtual time.
pub const SECOND: Micros = 1_000_000;
/// A millisecond of virtual time.
pub const MILLI: Micros = 1_000;

/// A node: a process that is connected to the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// A sample, numbered through all steps of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample(pub u32);

/// A source text. Equal programs have equal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Program(pub u32);

/// A work queue: one consumer of the work stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Queue {
    /// Tasks.
    Generate,
    /// Candidates.
    Compile,
    /// Compiled candidates.
    Verify,
    /// Verified candidates.
    Time,
}

impl Queue {
    /// All queues, in the order in which a sample passes through them.
    pub const ALL: [Self; 4] = [Self::Generate, Self::Compile, Self::Verify, Self::Time];
}

/// A stream that keeps its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Log {
    /// Outcomes.
    Outcome,
    /// Rollouts.
    Rollout,
    /// Policy versions.
    Policy,
    /// Dead letters.
    Dead,
}

/// The cause of an outcome without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A stage failed at the sample as often as a sample may fail.
    StageFailure,
    /// The sample's work is among the dead letters.
    DeadLetter,
    /// The archive received no outcome of the sample, and the sample was in no queue.
    Lost,
}

/// The result of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The program is at fault.
    Rejected,
    /// The program is right and has this speed.
    Measured(u32),
    /// An infrastructure failure, which says nothing about the program. Never a reward.
    Infrastructure(Cause),
}

/// A message of the work stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Its queue.
    pub queue: Queue,
    /// The task's number in [`Queue::Generate`], otherwise the sample's number.
    pub number: u32,
    /// The program. Meaningless for a task.
    pub program: Program,
}

impl Work {
    /// Work on a sample.
    pub fn on(queue: Queue, sample: Sample, program: Program) -> Self {
        Self {
            queue,
            number: sample.0,
            program,
        }
    }

    /// The sample. None for a task.
    pub fn sample(&self) -> Option<Sample> {
        (self.queue != Queue::Generate).then_some(Sample(self.number))
    }

    /// The message id under which it is published.
    pub fn id(&self) -> MessageId {
        match self.queue {
            Queue::Generate => MessageId::Task(self.number),
            Queue::Compile => MessageId::Candidate(self.number),
            Queue::Verify => MessageId::Compiled(self.number),
            Queue::Time => MessageId::Verified(self.number),
        }
    }
}

/// A message of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// The outcome of a sample.
    Outcome(Sample, Program, Verdict),
    /// The rollout of a sample.
    Rollout(Sample, Program),
    /// A policy version and the digest of its weights.
    Version(u32, u64),
    /// A dead letter: the sequence of the work that left its queue without a result, and the work.
    Dead(u64, Work),
}

impl Entry {
    /// The log it belongs to.
    pub fn log(&self) -> Log {
        match self {
            Self::Outcome(..) => Log::Outcome,
            Self::Rollout(..) => Log::Rollout,
            Self::Version(..) => Log::Policy,
            Self::Dead(..) => Log::Dead,
        }
    }

    /// The message id under which it is published.
    pub fn id(&self) -> MessageId {
        match self {
            Self::Outcome(sample, ..) => MessageId::Outcome(sample.0),
            Self::Rollout(sample, _) => MessageId::Rollout(sample.0),
            Self::Version(version, _) => MessageId::Version(*version),
            Self::Dead(sequence, _) => MessageId::Dead(*sequence),
        }
    }
}

/// A published message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// To the work stream.
    Work(Work),
    /// To a log.
    Entry(Entry),
}

impl Body {
    /// The message id under which it is published.
    pub fn id(&self) -> MessageId {
        match self {
            Self::Work(work) => work.id(),
            Self::Entry(entry) => entry.id(),
        }
    }
}

/// The key by which a stream recognizes a duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageId {
    Task(u32),
    Candidate(u32),
    Compiled(u32),
    Verified(u32),
    Outcome(u32),
    Rollout(u32),
    Version(u32),
    Dead(u64),
}

/// The roles of which a run has only one holder at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Single {
    /// Keeps the book of outcomes.
    Archive,
    /// Makes policy versions.
    Learner,
}

/// The record of a lease.
pub type Record = lease::Record<Option<Holder>, Name>;

/// A process of a node. A restarted process is another holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The node.
    pub node: NodeId,
    /// The number of the node's process.
    pub process: u32,
}

/// Name of a checkpoint: a step, saved in a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Number of steps in the checkpoint.
    pub steps: u32,
    /// The term in which it was saved.
    pub term: u64,
    /// The number of the save within the term, so that no two saves have the same name.
    pub attempt: u32,
}

/// The shared cache entry of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// The sample whose evaluation of the program is under way.
    pub holder: duplicates::Holder<Sample>,
    /// The verdict on the program.
    pub verdict: Option<Verdict>,
}

/// A key of the bus's buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The record of a lease.
    Lease(Single),
    /// The cache entry of a program.
    Result(Program),
}

/// A value of the bus's buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The value of a [`Key::Lease`].
    Lease(Record),
    /// The value of a [`Key::Result`].
    Result(Known),
}
