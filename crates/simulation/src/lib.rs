//! A simulation of the protocol between the roles in virtual time. It checks the guarantees of `flopsmith-bus` and
//! `flopsmith-actors` without a socket, a clock or a thread, under faults that a real cluster sees once a year, for
//! thousands of seeds a minute.
//!
//! A [run](simulate) is a cluster of [any size](Config): a broker that behaves as JetStream does where the bus relies
//! on it, an artifact store, and nodes with the rules of the real roles: generator → compiler → verifier → timer →
//! archive → learner. All random choices come from one seed. Processes are killed or suspended. Nodes are cut off.
//! Packets and confirmations are lost, late or duplicated. The broker is killed between a write and its confirmation.
//! Disks are full. After every event an observer checks the invariants. The observer sees the broker's stored messages
//! and the roles' actions, and does not rely on a role's own statements. A seed that breaks an invariant gives a
//! [`Violation`] with the last events and the command that replays the run; the same seed gives the same events.
//! `examples/explore.rs` searches many seeds.
//!
//! The model covers these parts, after these files:
//!
//! - The work stream with a consumer for each queue, ack waits, signs of life, the hold limit, naks with a delay,
//!   attempts, dead letters, slots and standing requests (`bus::{worker, take, delivery, dead}`).
//! - Logs, message ids and their dedupe window; keys with revisions, and the check after a write without an answer
//!   (`bus::{publish, log, kv}`).
//! - Lost connections, and the deliveries that become stale with them.
//! - A killed broker. It keeps the writes that were on disk, confirmed or not. It forgets the ids of finished work, the
//!   holders of messages, and the removal of messages a moment earlier.
//! - The cache of outcomes that identical programs share (`actors::outcome_cache`), leases with their terms
//!   (`actors::role_lease`), checkpoints by term, tasks that the archive publishes again after a restart, samples that
//!   the archive gives up as lost (`actors::role::archive`), complete steps (`actors::batches`), groups that are drawn
//!   again (`coordination::sampling`, `actors::rounds`), policy versions, and stage failures and restarts
//!   (`actors::{stage_failure, supervisor}`).
//!
//! # Invariants
//!
//! Each invariant is one function in `invariants.rs`; a violation reports the function's name.
//!
//! - No sample is lost, none counts twice, and the first outcome counts.
//! - Acknowledged work has its stored effect.
//! - Only the holder writes the record of a lease, and each state is made from the previous one.
//! - Policy versions are monotonic and are saved before they are published. They learn from complete steps only, and
//!   from each sample at most once.
//! - Tasks belong to a saved step. Rollouts come before candidates. The learner pairs a sample's tokens with the
//!   outcome of the program that these tokens form.
//! - Work that is given up has a dead letter, and each outcome without a result has a cause.
//! - The slots bound the number of messages in flight.
//! - Confirmed writes survive, and an id is stored once.
//! - A worker that gives signs of life keeps its message, until the hold limit. A worker that regards a message as done
//!   knows that the message left its queue.
//!
//! At the end, after the last fault, everything ends within [`Config::patience`] and no queue keeps a message. Outcomes
//! and cells are those of an undisturbed run.
//!
//! [`Mutation`]s are typical mistakes of such a protocol. A test shows that the invariants detect each of them.
//!
//! # Deliberate omissions
//!
//! The decisions (leases, duplicates, delivery, complete steps, groups that are drawn again, restarts) are those of
//! `flopsmith-coordination`, which the real roles call too. The order in which a role performs them, and what it asks of
//! bus and store, is written here a second time (`node/`), and a change of it has to be made here as well. The simulation
//! leaves out bytes (codecs have tests of their own), spans, cores and quarantine, elites that
//! are measured again, evaluation steps, the recorder and the follower, several runs at a time, and draining: processes
//! end by being killed. Checkpoints are never damaged and never removed. Acknowledgements are confirmed one by one, as
//! `bus::acknowledge` does after a failed batch. The broker is one server: an election among several servers is
//! modelled as an outage of one. Tasks do not carry elites, so that programs do not depend on samples that were given
//! up.

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
