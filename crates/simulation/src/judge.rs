//! The record of a run as an outside observer sees it. The invariants compare new facts with this record.

use std::collections::{BTreeMap, BTreeSet};

use crate::broker::Broker;
use crate::config::{Config, terms};
use crate::fact::Fact;
use crate::message::{
    Body, Entry, Log, MessageId, Micros, Name, NodeId, Program, Queue, Record, Sample, Single,
    Verdict, Work,
};
use crate::node::Node;
use crate::store::{Book, Lessons, State, Store};
use crate::world::World;

/// The current state that an invariant checks.
pub(crate) struct View<'a> {
    pub now: Micros,
    pub world: &'a World,
}

impl View<'_> {
    pub fn config(&self) -> &Config {
        &self.world.config
    }

    pub fn broker(&self) -> &Broker {
        &self.world.broker
    }

    pub fn store(&self) -> &Store {
        &self.world.store
    }

    pub fn node(&self, node: NodeId) -> &Node {
        self.world.node(node)
    }

    /// The archive's saved state with this name, and its parent.
    pub fn book(&self, name: Name) -> Option<(&Book, Option<Name>)> {
        match &self.store().load(Single::Archive, name)?.as_ref() {
            crate::store::Saved {
                state: State::Archive(book),
                parent,
            } => Some((book, *parent)),
            _ => None,
        }
    }

    /// The learner's saved state with this name, and its parent.
    pub fn lessons(&self, name: Name) -> Option<(&Lessons, Option<Name>)> {
        match &self.store().load(Single::Learner, name)?.as_ref() {
            crate::store::Saved {
                state: State::Learner(lessons),
                parent,
            } => Some((lessons, *parent)),
            _ => None,
        }
    }
}

/// The record of all facts so far.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// When an id was last stored, and in which generation of the broker.
    pub stored: BTreeMap<MessageId, (Micros, u32)>,
    /// Sequences of work whose storing was confirmed and that has not left its queue since.
    pub confirmed_work: BTreeSet<u64>,
    /// Sequences of work that left its queue at any time.
    pub settled: BTreeSet<u64>,
    pub confirmed_entries: BTreeMap<(Log, u64), Entry>,
    /// All work that was ever in a queue.
    pub queued: BTreeSet<(Queue, u32)>,
    pub first_outcomes: BTreeMap<Sample, Verdict>,
    /// The program of each sample's first outcome.
    pub written: BTreeMap<Sample, Program>,
    /// The program of each sample's first rollout.
    pub rollouts: BTreeMap<Sample, Program>,
    /// Work sequences that have a dead letter.
    pub letters: BTreeSet<u64>,
    /// When the first dead letter for each sample was stored.
    pub given_up: BTreeMap<Sample, Micros>,
    /// Number of failures at each sample.
    pub failures: BTreeMap<Sample, u32>,
    pub versions: BTreeMap<u32, u64>,
    pub learnt: BTreeSet<Sample>,
    /// Gradient steps in the learner's committed state.
    pub lessons: u32,
    /// The step of the archive's committed state. None before the first.
    pub step: Option<u32>,
    /// Number of tasks of that step.
    pub tasks: u32,
    pub over: bool,
    /// Number of times that a lease went from one node to another.
    pub taken_over: u64,
    pub evaluated: BTreeMap<(Queue, Sample), u32>,
    /// Until when a node is excused for missing signs of life.
    disturbed: BTreeMap<NodeId, Micros>,
}

impl Judge {
    /// Records a fact after the invariants have checked it.
    pub fn note(&mut self, view: &View<'_>, fact: &Fact) {
        match fact {
            Fact::Stored { body, .. } => self.note_stored(view, body),
            Fact::Confirmed { body, sequence } => match body {
                // A duplicate is confirmed with the sequence of the first copy, which may have left its queue.
                Body::Work(_) => {
                    if !self.settled.contains(sequence) {
                        self.confirmed_work.insert(*sequence);
                    }
                }
                Body::Entry(entry) => {
                    self.confirmed_entries
                        .entry((entry.log(), *sequence))
                        .or_insert(*entry);
                }
            },
            Fact::Settled { sequence, .. } => {
                self.confirmed_work.remove(sequence);
                self.settled.insert(*sequence);
            }
            Fact::Failed { sample } => *self.failures.entry(*sample).or_default() += 1,
            Fact::Evaluated { sample, queue } => {
                *self.evaluated.entry((*queue, *sample)).or_default() += 1;
            }
            Fact::Lease {
                single,
                before,
                after,
                ..
            } => {
                let node = |record: &Record| record.holder.map(|holder| holder.node);
                self.taken_over += u64::from(node(before).is_some() && node(before) != node(after));
                self.note_lease(view, *single, after);
            }
            Fact::Disturbed { node } => {
                let there = view.node(*node);
                let cut = there.cut.map_or(0, |cut| cut.until);
                let until = view.now.max(cut).max(there.stands_until);
                // A late packet arrives within eight seconds, and an ack wait runs from the last sign of life.
                let until = until + 2 * terms::ACK_WAIT;
                let noted = self.disturbed.entry(*node).or_default();
                *noted = (*noted).max(until);
            }
            Fact::Returned { sequence } => {
                self.confirmed_work.insert(*sequence);
            }
            Fact::Restarted
            | Fact::TakenBack { .. }
            | Fact::Alive { .. }
            | Fact::Hand { .. }
            | Fact::Done { .. }
            | Fact::Counted { .. } => {}
        }
    }

    fn note_stored(&mut self, view: &View<'_>, body: &Body) {
        let life = view.broker().generation;
        self.stored.insert(body.id(), (view.now, life));
        match *body {
            Body::Work(work) => {
                self.queued.insert((work.queue, work.number));
            }
            Body::Entry(Entry::Outcome(sample, program, verdict)) => {
                self.first_outcomes.entry(sample).or_insert(verdict);
                self.written.entry(sample).or_insert(program);
            }
            Body::Entry(Entry::Rollout(sample, program)) => {
                self.rollouts.entry(sample).or_insert(program);
            }
            Body::Entry(Entry::Version(version, weights)) => {
                self.versions.insert(version, weights);
            }
            Body::Entry(Entry::Dead(place, work)) => {
                self.letters.insert(place);
                for sample in samples_of(view.config(), &work) {
                    self.given_up.entry(sample).or_insert(view.now);
                }
            }
        }
    }

    fn note_lease(&mut self, view: &View<'_>, single: Single, after: &Record) {
        let Some(head) = after.head else { return };
        match single {
            Single::Archive => {
                if let Some((book, _)) = view.book(head) {
                    self.step = book.step;
                    self.tasks = book.tasks;
                    self.over = after.over;
                }
            }
            Single::Learner => {
                if let Some((lessons, _)) = view.lessons(head) {
                    self.lessons = lessons.steps;
                    self.learnt
                        .extend(lessons.learnt.iter().map(|(sample, _)| *sample));
                }
            }
        }
    }

    /// True if a disturbance outside the node explains missing signs of life.
    pub fn is_excused(&self, node: NodeId, now: Micros) -> bool {
        self.disturbed.get(&node).is_some_and(|until| *until >= now)
    }

    /// True if the run is complete and no work is left.
    pub fn is_over(&self, view: &View<'_>) -> bool {
        self.over
            && view.broker().work.len() == 0
            && self.versions.contains_key(&view.config().steps)
    }
}

/// The samples that have no outcome if this work is given up.
pub(crate) fn samples_of(config: &Config, work: &Work) -> Vec<Sample> {
    match work.sample() {
        Some(sample) => vec![sample],
        None => config.samples_of_task(work.number).collect(),
    }
}
