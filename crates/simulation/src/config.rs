//! The size of a simulated cluster, its faults, and its mutation.

use flopsmith_coordination::delivery::Room;
use flopsmith_coordination::sampling::{Asked, asked};

use crate::faults::Kind;
use crate::message::{MILLI, Micros, NodeId, Queue, SECOND, Sample, Verdict, micros};

/// A cluster and its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Training steps.
    pub steps: u32,
    /// Tasks in a step.
    pub tasks: u32,
    /// Samples of a task.
    pub group: u32,
    /// Largest number of tasks of a step that are drawn in place of tasks with only right or only wrong samples.
    pub rounds: u32,
    /// Steps that generators may be ahead of the learner.
    pub ahead: u32,
    /// Nodes that generate.
    pub generators: u32,
    /// Nodes that compile.
    pub compilers: u32,
    /// Nodes that verify.
    pub verifiers: u32,
    /// Nodes that time.
    pub timers: u32,
    /// Number of nodes that hold, or wait for, the archive's lease, and of as many for the learner's.
    pub singles: u32,
    /// Time during which faults strike; none at 0.
    pub faults_for: Micros,
    /// The only kinds of faults; if empty, each seed draws its own.
    pub only: Vec<Kind>,
    /// The run must be complete this long after the last fault, and after the start.
    pub patience: Micros,
    /// The mutation of the protocol.
    pub mutation: Option<Mutation>,
    /// Number of the last events that are kept for people.
    pub trace: usize,
}

/// The terms of the real roles in virtual time. The hold limit is shorter here: the real one would be most of a run.
pub(crate) mod terms {
    use super::{Micros, SECOND, micros};
    use flopsmith_coordination::{delivery, duplicates, lease, limits, restart};

    pub use delivery::{ATTEMPTS, MAX_DELIVER};
    pub const ACK_WAIT: Micros = micros(delivery::ACK_WAIT);
    pub const HOLD_LIMIT: Micros = 120 * SECOND;
    pub const ACK_TRY: Micros = micros(limits::ACK_TRY);
    pub const ACK_LIMIT: Micros = micros(limits::ACK);
    pub const STALE_ACK_LIMIT: Micros = micros(limits::STALE_ACK);
    pub const REQUEST_LIMIT: Micros = micros(limits::REQUEST);
    pub const PUBLISH_LIMIT: Micros = 30 * SECOND;
    pub const GRACE: Micros = micros(limits::GRACE);
    pub const SILENCE: Micros = micros(limits::SILENCE);
    pub const LEASE: lease::Terms = lease::Terms::DEFAULT;
    pub const DUPLICATE_TAKEOVER: Micros = micros(duplicates::TAKEOVER_AFTER);
    pub const FIRST_PAUSE: Micros = micros(duplicates::FIRST_PAUSE);
    pub const LOST_AFTER: Micros = 150 * SECOND;
    pub const ROLLOUT_SILENCE: Micros = micros(limits::ROLLOUT);
    /// Wait of a process whose role was replaced or failed too often.
    pub const PAUSE: Micros = micros(limits::ROLE_PAUSE);
    pub const ROLES: restart::Limits = restart::Limits::DEFAULT;
}

/// The role of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Takes work from a queue.
    Worker(Queue),
    /// Holds a lease, or waits for it.
    Lease(crate::message::Single),
}

impl Config {
    /// A few nodes and some dozens of samples.
    pub fn small() -> Self {
        Self {
            steps: 3,
            tasks: 3,
            group: 4,
            rounds: 0,
            ahead: 0,
            generators: 2,
            compilers: 2,
            verifiers: 2,
            timers: 2,
            singles: 2,
            faults_for: 60 * SECOND,
            only: Vec::new(),
            patience: 900 * SECOND,
            mutation: None,
            trace: 60,
        }
    }

    /// A cluster with this many evaluating nodes, and a step of about as many samples.
    pub fn with_workers(workers: u32) -> Self {
        let third = (workers / 3).max(1);
        let small = Self::small();
        Self {
            tasks: (workers / 8).max(small.tasks),
            group: if workers > 24 { 8 } else { small.group },
            generators: (workers / 100).max(small.generators),
            compilers: third,
            verifiers: third,
            timers: workers.saturating_sub(2 * third).max(1),
            // A message that kills each worker that takes it is delivered a hundred times.
            patience: small.patience * 2,
            ..small
        }
    }

    /// The same with a mutation.
    #[must_use]
    pub fn mutated(self, mutation: Mutation) -> Self {
        Self {
            mutation: Some(mutation),
            ..self
        }
    }

    /// The same without faults.
    #[must_use]
    pub fn undisturbed(self) -> Self {
        Self {
            faults_for: 0,
            ..self
        }
    }

    pub(crate) fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Largest number of tasks of a step: each has its numbers, whether they are used or not.
    fn slots(&self) -> u32 {
        self.tasks * (1 + self.rounds)
    }

    /// Largest number of samples of a step.
    pub(crate) fn samples_in_step(&self) -> u32 {
        self.slots() * self.group
    }

    pub(crate) fn samples_of_task(&self, task: u32) -> impl Iterator<Item = Sample> + use<> {
        (task * self.group..(task + 1) * self.group).map(Sample)
    }

    /// The first sample of a step.
    pub(crate) fn first_of_step(&self, step: u32) -> Sample {
        Sample(step * self.samples_in_step())
    }

    /// The samples of the first tasks of a step.
    pub(crate) fn samples_of(&self, step: u32, tasks: u32) -> impl Iterator<Item = Sample> + use<> {
        let first = self.first_of_step(step).0;
        (first..first + tasks * self.group).map(Sample)
    }

    /// The next tasks of a step, after those that were drawn before.
    pub(crate) fn tasks_of(&self, step: u32, given: std::ops::Range<u32>) -> std::ops::Range<u32> {
        let first = step * self.slots();
        first + given.start..first + given.end
    }

    /// The tasks of a step, as far as the known outcomes determine them.
    pub(crate) fn asked(&self, step: u32, outcome: impl Fn(Sample) -> Option<Verdict>) -> Asked {
        let first = self.tasks_of(step, 0..0).start;
        asked(self.tasks, self.rounds, |task| {
            let group = self.samples_of_task(first + task).map(&outcome);
            let group: Option<Vec<Verdict>> = group.collect();
            group.map(|group| u32::from(is_flat(&group)))
        })
    }

    pub(crate) fn step_of(&self, sample: Sample) -> u32 {
        sample.0 / self.samples_in_step()
    }

    pub(crate) fn step_of_task(&self, task: u32) -> u32 {
        task / self.slots()
    }

    /// The policies that may answer a step's tasks: the one after the previous step, or one of this many before it.
    pub(crate) fn versions_of_step(&self, step: u32) -> std::ops::RangeInclusive<u32> {
        step.saturating_sub(self.ahead)..=step
    }

    pub(crate) fn task_of(&self, sample: Sample) -> u32 {
        sample.0 / self.group
    }

    /// The role of each node, by the node's number. Nodes with leases come first.
    pub(crate) fn roles(&self) -> Vec<Role> {
        use crate::message::Single;
        let many = |role, count: u32| std::iter::repeat_n(role, count as usize);
        many(Role::Lease(Single::Archive), self.singles)
            .chain(many(Role::Lease(Single::Learner), self.singles))
            .chain(many(Role::Worker(Queue::Generate), self.generators))
            .chain(many(Role::Worker(Queue::Compile), self.compilers))
            .chain(many(Role::Worker(Queue::Verify), self.verifiers))
            .chain(many(Role::Worker(Queue::Time), self.timers))
            .collect()
    }

    /// Nodes with roles that a run has once or a few times: faults strike these most.
    pub(crate) fn rare(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.singles * 2 + self.generators).map(NodeId)
    }
}

/// True if all samples of a group are right, or all are wrong. A sample that the infrastructure failed is neither.
fn is_flat(group: &[Verdict]) -> bool {
    let judged = group.iter().filter_map(|verdict| match verdict {
        Verdict::Measured(_) => Some(true),
        Verdict::Rejected => Some(false),
        Verdict::Infrastructure(_) => None,
    });
    let judged: Vec<bool> = judged.collect();
    judged.windows(2).all(|pair| pair[0] == pair[1])
}

/// Number of messages that a node takes at a time, and number of those it works on at once.
pub(crate) fn room(queue: Queue) -> (Room, usize) {
    let (slots, most) = match queue {
        Queue::Generate => (16, 16),
        // Waiting duplicates keep a slot each.
        Queue::Compile => (8, 2),
        Queue::Verify => (2, 2),
        Queue::Time => (4, 1),
    };
    (Room { slots, parked: 0 }, most)
}

macro_rules! mutations {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// A typical mistake in such a protocol. The simulation has to detect each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutation { $($(#[doc = $doc])+ $name,)+ }

        impl Mutation {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The name that `--mutation` takes.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }
        }
    };
}

mutations! {
    /// Roles acknowledge work before they publish its result.
    AcknowledgeBeforePublish,
    /// Messages carry no id, so a repeated message is stored again.
    NoMessageId,
    /// The archive counts every entry that it reads, also a sample's second one.
    NoDedupeAtArchive,
    /// Processes write the record of a lease at any revision.
    FenceWithoutRevision,
    /// A worker treats an acknowledgement without a confirmation as confirmed.
    AcknowledgementNotRetried,
    /// The outcome that was read last counts, not the first.
    LaterResultOverwrites,
    /// The archive ignores dead letters.
    DeadLetterWithoutOutcome,
    /// A message that fails too often is removed from its queue without a dead letter.
    LostWithoutDeadLetter,
    /// Work that takes longer than the ack wait gets no more signs of life.
    SignsOfLifeStopEarly,
    /// Work that hangs gets signs of life without limit.
    HoldLimitIgnored,
    /// A process that takes over a lease starts from nothing instead of the saved state.
    TakeOverWithoutJournal,
    /// A killed broker loses its latest confirmed messages.
    BrokerForgetsConfirmed,
    /// The learner publishes a version before it commits its state.
    PublishedBeforeCommit,
    /// The archive publishes tasks before it saves the step.
    TasksBeforeSave,
    /// A worker requests more messages than it can hold.
    AsksForTooMuch,
    /// The generator publishes candidates before their rollouts.
    CandidatesBeforeRollouts,
    /// After a restart the learner trains again on earlier samples.
    LearnsAgainAfterRestart,
    /// After a restart the archive waits for tasks that it may not have published.
    TasksNotToldAgain,
    /// A worker whose connection was lost waits for the messages that it requested on the old one.
    DoesNotAskAnew,
    /// A generator answers tasks before it has the required policy.
    AnswersWithOldPolicy,
    /// The learner regards a step as complete once it has the outcomes of its first tasks.
    LearnsBeforeDrawnAgain,
    /// The archive publishes further tasks of a step before it saves them.
    DrawsAgainBeforeSave,
    /// The learner pairs the tokens that it has of a sample with an outcome of another program.
    LearnsFromOtherTokens,
}

impl Mutation {
    /// The mutation of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|m| m.name() == name)
    }
}

/// Longest time between two checks of an empty queue, half a second. This much virtual time may pass unnoticed.
pub(crate) const CLOCK: Micros = 500 * MILLI;
