//! The messages between Flopsmith's roles.
//!
//! This crate holds the messages, the versioned envelope they travel in, the subjects they travel on, the ids that make
//! every effect idempotent, and the closed sets of outcomes. It also decodes the text that users write ([`text`]),
//! because every crate that reads such text depends on this one. It does no IO and knows no clock: time stamps and
//! randomness come in as arguments.
//!
//! Invariants:
//! - every message is a MessagePack *map* with named fields, so a field can be added without breaking an older reader;
//! - the envelope holds the kind of a message and the version of its schema; an unknown kind or version is a typed
//!   [`codec::Error`], never a panic;
//! - an id is derived from the run, step, group and sample that it names, so work that is done twice carries the same
//!   id twice.

pub mod codec;
mod failure;
#[doc(hidden)]
pub mod fuzz;
pub mod ids;
mod language;
mod messages;
mod outcome;
mod question;
mod run;
pub mod schema;
pub mod subjects;
pub mod technique;
pub mod text;
mod workload;

pub use codec::{Envelope, Message, decode, encode};
pub use failure::{Failure, harmless, ran_out};
pub use ids::{
    CandidateId, Digest, GroupId, MachineClass, NodeId, PolicyVersion, ProblemId, RunId, TaskId,
};
pub use language::Language;
pub use messages::{
    ArtifactRef, Candidate, CandidateRef, Compiled, EliteHint, Exchange, MachineFacts,
    PolicyPublished, PpoMetrics, Purpose, RawAnswer, Rollout, Sampling, StageChanged, StepMetrics,
    Task, Verified,
};
pub use outcome::{
    CandidateFault, Certificate, FaultClass, InfrastructureCause, Interval, Measurement, Outcome,
    StopReason, UnknownCause, Verdict, VerifiedSizes,
};
pub use question::{Question, Request, Requests};
pub use run::{ModelFile, ProblemFiles, RunSpec, Session};
pub use technique::{Technique, TechniqueSet};
pub use workload::{AtWorkload, FIRST_WORKLOAD, WorkloadMeasurement, geometric};
