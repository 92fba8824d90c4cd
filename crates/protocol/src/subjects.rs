//! NATS subjects: what a worker needs stands in the name.

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

/// Tokens of a subject must not contain dots.
fn token(text: &str) -> String {
    text.replace('.', "_")
}

/// Work for a generator of `policy` (`policy`, `schedule`, …).
pub fn generate(policy: &str) -> String {
    format!("fs.v1.work.generate.{}", token(policy))
}

/// Work for a compiler of `target` (`cpu`).
pub fn compile(target: &str) -> String {
    format!("fs.v1.work.compile.{}", token(target))
}

/// Work for a verifier of `target`.
pub fn verify(target: &str) -> String {
    format!("fs.v1.work.verify.{}", token(target))
}

/// Work for a timer of a machine class.
pub fn time(class: &MachineClass) -> String {
    format!("fs.v1.work.time.{}", token(class.as_str()))
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

/// Where a message goes that nobody could work off; `subject` is where it had been.
pub fn dead(subject: &str) -> String {
    format!("fs.v1.dead.{}", token(subject))
}

/// The machines of a run.
pub fn machine(run: &RunId) -> String {
    format!("fs.v1.event.{}.machine", token(run.as_str()))
}
