//! NATS subjects: their names hold all that a worker selects by.

use crate::ids::{MachineClass, RunId};

/// All subjects of this protocol version.
pub const ALL: &str = "fs.v1.>";
/// All work queues.
pub const WORK: &str = "fs.v1.work.>";
/// Outcomes of every run.
pub const OUTCOMES: &str = "fs.v1.outcome.*";
/// Rollouts of every run.
pub const ROLLOUTS: &str = "fs.v1.rollout.*";
/// Policy versions and stage changes of every run.
pub const EVENTS: &str = "fs.v1.event.*.*";
/// Dead letters.
pub const DEAD: &str = "fs.v1.dead.>";
const PREFIX: &str = "fs.v1.";
const DEAD_PREFIX: &str = "fs.v1.dead.";
/// All of [`room`].
pub const ROOM: &str = "fs.v1.room.>";

/// Tokens of a subject must not contain dots.
fn token(text: &str) -> String {
    text.replace('.', "_")
}

/// The subjects of the work queues. Each queue has the work of all runs, and the subject of every message names its
/// run: so a run's remaining work in the queues can be counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Queue(String);

impl Queue {
    fn new(kind: &str, target: &str) -> Self {
        Self(format!("fs.v1.work.{kind}.{}", token(target)))
    }

    /// For a generator of `policy` (`policy`, `schedule`, …).
    pub fn generate(policy: &str) -> Self {
        Self::new("generate", policy)
    }

    /// For a compiler of a machine class: objects are built for the processor they will be timed on.
    pub fn compile(class: &MachineClass) -> Self {
        Self::new("compile", class.as_str())
    }

    /// For a verifier of a machine class.
    pub fn verify(class: &MachineClass) -> Self {
        Self::new("verify", class.as_str())
    }

    /// For a timer of a machine class.
    pub fn time(class: &MachineClass) -> Self {
        Self::new("time", class.as_str())
    }

    /// The subject on which a run publishes work for it.
    pub fn of(&self, run: &RunId) -> String {
        format!("{}.{}", self.0, token(run.as_str()))
    }

    /// The subject filter of its workers: the work of all runs.
    pub fn all(&self) -> String {
        format!("{}.*", self.0)
    }
}

impl std::fmt::Display for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// True if the subject is one of a run's work.
pub fn is_work_of(subject: &str, run: &RunId) -> bool {
    subject
        .strip_prefix("fs.v1.work.")
        .and_then(|rest| rest.rsplit_once('.'))
        .is_some_and(|(queue, whose)| queue.contains('.') && whose == token(run.as_str()))
}

/// All work of a run, in all queues.
pub fn work_of(run: &RunId) -> String {
    format!("fs.v1.work.*.*.{}", token(run.as_str()))
}

/// The outcome log of a run.
pub fn outcome(run: &RunId) -> String {
    format!("fs.v1.outcome.{}", token(run.as_str()))
}

/// The rollouts of a run.
pub fn rollout(run: &RunId) -> String {
    format!("fs.v1.rollout.{}", token(run.as_str()))
}

/// The policy versions of a run.
pub fn policy(run: &RunId) -> String {
    format!("fs.v1.event.{}.policy", token(run.as_str()))
}

/// The stage changes of a run.
pub fn stage(run: &RunId) -> String {
    format!("fs.v1.event.{}.stage", token(run.as_str()))
}

/// The subject of a dead letter; `subject` is the message's own. Its parts stay apart, so that a key for one queue
/// cannot dead-letter work of another.
pub fn dead(subject: &str) -> String {
    format!(
        "{DEAD_PREFIX}{}",
        subject.strip_prefix(PREFIX).unwrap_or(subject)
    )
}

/// The own subject of the message of the dead letter at `dead`: one of work or outcomes. None if `dead` is not the
/// subject of a dead letter.
pub fn died_in(dead: &str) -> Option<String> {
    let rest = dead.strip_prefix(DEAD_PREFIX)?;
    let known = ["work.", "outcome."].iter().any(|of| rest.starts_with(of));
    known.then(|| format!("{PREFIX}{rest}"))
}

/// The subject on which a queue tells its workers that it has room for their requests; `durable` is the name of the
/// queue's consumer. No stream stores it.
pub fn room(durable: &str) -> String {
    format!("fs.v1.room.{}", token(durable))
}

/// The machines of a run.
pub fn machine(run: &RunId) -> String {
    format!("fs.v1.event.{}.machine", token(run.as_str()))
}
