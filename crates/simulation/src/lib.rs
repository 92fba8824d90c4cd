//! The protocol between the roles in virtual time: what `flopsmith-bus` and `flopsmith-actors` promise each other, without a socket, a clock or a
//! thread, under faults that a real cluster sees once a year, thousands of seeds a minute.
//!
//! A [run](simulate) is a cluster of [any size](Config): a broker that behaves as JetStream does where the bus relies on it, an artifact
//! store, and nodes with the rules of the real roles: generator → compiler → verifier → timer → archive → learner. All chance comes from
//! one seed. Processes are killed or stand still, nodes are cut off, packets and the word that they arrived are lost, late or doubled, the broker is killed
//! between a write and its confirmation, disks are full. After every event the invariants are judged, by somebody who sees what the
//! broker stored and what the roles did and believes none of them. A seed that breaks one is [told](Violation) with the last events and the command that
//! shows it again; the same seed gives the same events. `examples/explore.rs` looks through many.
//!
//! What is modelled, and after which files:
//!
//! - the work stream with a consumer for each queue, ack waits, signs of life, hold limit, naks with a delay, attempts, dead letters, slots and standing requests
//!   (`bus::{worker, take, delivery, dead}`); logs, ids and their window; keys with revisions, and the look after a write without an answer
//!   (`bus::{publish, log, kv}`); connections that are lost, and what is stale then. A killed broker keeps what was on disk, whether it said so
//!   or not; it forgets the ids of work that was worked off, who held what, and that a message left a moment ago;
//! - what equal programs share (`actors::outcome_cache`), offices with their terms (`actors::role_lease`), checkpoints by term, tasks that go out again after a
//!   restart, what is given up for lost (`actors::role::archive`), complete steps (`actors::ledger`, `batches`), groups that are drawn again (`actors::dynamic_sampling`), versions; mishaps and restarts
//!   (`actors::{mishap, supervisor}`).
//!
//! # Invariants
//!
//! One function each in `invariants.rs`, by whose name a violation is told: no sample is lost, none counts twice, and the first outcome is the
//! one that counts; acknowledged work has its stored effect; one holder writes an office's record, and each state rests on the one before; versions
//! are monotonic, saved before they are told, learn from steps that are over and from each sample at most once; tasks rest on a saved step, rollouts come before
//! candidates, and what is learnt of a sample is of the program that its tokens say; what is given up has a letter, and each outcome without a result its cause; what is in flight is bounded by slots; confirmed
//! writes survive, an id is stored once; work is taken from nobody who gives signs of life, and from everybody who holds it for too long; who is done
//! with a message knows that it left. At the end: after the last fault everything ends within [`Config::patience`] and no queue keeps anything, and
//! outcomes and cells are those of a run that nothing befell.
//!
//! [`Mutation`]s are mistakes that such a protocol is easily made with; a test has each of them found out.
//!
//! # What it deliberately does not do
//!
//! It does not run the real code: the rules are written down once more, and a change of theirs has to be made here as well. There are no bytes
//! (codecs have tests of their own), no spans, no cores and no quarantine, no elites that are measured again, no evaluation steps, no recorder and
//! onlooker, one run at a time, and no drain: processes end by being killed. Checkpoints are never damaged and never removed. Acknowledgements are
//! confirmed one by one, which is what `bus::acknowledge` falls back to. The broker is one server: elections among several are the outage of one. Tasks do not carry
//! elites, so that programs depend on nothing that was given up.

mod broker;
mod config;
mod event;
mod fact;
mod faults;
mod invariants;
mod judge;
mod message;
mod node;
mod program;
mod random;
mod run;
mod store;
mod world;

pub use config::{Config, Mutation};
pub use faults::Kind;
pub use message::{Cause, Micros, SECOND, Sample, Verdict};
pub use run::{Line, Report, Violation, caught, simulate};
pub use world::Losses;
