//! What is said on the bus, reduced to what the protocol turns on.

/// Virtual time since the beginning of a run, microseconds.
pub type Micros = u64;

/// A second of virtual time.
pub const SECOND: Micros = 1_000_000;
/// A millisecond of virtual time.
pub const MILLI: Micros = 1_000;

/// Whoever is connected to the bus.
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
    /// What was compiled.
    Verify,
    /// What was verified.
    Time,
}

impl Queue {
    /// All of them, in the order in which a sample passes through.
    pub const ALL: [Self; 4] = [Self::Generate, Self::Compile, Self::Verify, Self::Time];
}

/// A stream that keeps what it is given.
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

/// Why there is an outcome without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A stage failed at it as often as it may.
    Mishap,
    /// Its work is among the dead letters.
    DeadLetter,
    /// Nothing was heard of it, and it was in no queue.
    Lost,
}

/// What became of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The program's own fault.
    Rejected,
    /// Its speed.
    Measured(u32),
    /// Nobody's knowledge of the program: never a reward.
    Infrastructure(Cause),
}

/// A message of the work stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Its queue.
    pub queue: Queue,
    /// The task's number in [`Queue::Generate`], else the sample's.
    pub number: u32,
    /// The program, once there is one.
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

    /// The sample; none of a task.
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
    /// A sample was decided.
    Outcome(Sample, Program, Verdict),
    /// A sample was written.
    Rollout(Sample, Program),
    /// There are new weights; the second number is their digest.
    Version(u32, u64),
    /// Work that left its queue undone, and where it had stood.
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

/// What is published.
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

/// The key by which a stream knows a message again.
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

/// The roles of which a run has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Single {
    /// Keeps the book.
    Archive,
    /// Makes policy versions.
    Learner,
}

/// The record of an office.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Process that holds it; none when nobody does.
    pub holder: Option<Holder>,
    /// Grows with every change of hands.
    pub term: u32,
    /// Grows with every sign of life.
    pub beat: u32,
    /// Name of the checkpoint to go on from.
    pub head: Option<Name>,
    /// Nothing is left to do in it.
    pub over: bool,
}

/// A process of a node: its second life is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The node.
    pub node: NodeId,
    /// Which of its processes.
    pub process: u32,
}

/// Name of a checkpoint: a step, saved in a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Steps that are in it.
    pub steps: u32,
    /// The term in which it was saved.
    pub term: u32,
    /// Number of those of the term: no two are written to one place.
    pub attempt: u32,
}

/// What all nodes know of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// The sample that is on its way with it.
    pub holder: Option<Sample>,
    /// Its verdict.
    pub verdict: Option<Verdict>,
}

/// A key of the bus's buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Who has an office.
    Office(Single),
    /// What is known of a program.
    Result(Program),
}

/// A value of the bus's buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Of [`Key::Office`].
    Office(Record),
    /// Of [`Key::Result`].
    Result(Known),
}
