//! The leases of the single roles: which process holds one, and which saved state is committed. An [`Lease`] is one
//! lease as its candidate or holder sees it. Follows `flopsmith_actors::role_lease`.

use super::{Heard, Then};
use crate::broker::Request;
use crate::config::{Mutation, terms};
use crate::event::{Ask, Timer};
use crate::message::{Key, Micros, Name, NodeId, Record, Single, Value};
use crate::store::{Saved, State};
use crate::world::World;
use std::rc::Rc;

#[derive(Debug)]
pub(crate) struct Lease {
    single: Single,
    /// The revision that was read last, and when it was first read.
    seen: Option<(u64, Micros)>,
    /// The record that was written last, and its revision. None while this process does not hold the lease.
    written: Option<(Record, u64)>,
    /// When the broker last confirmed the lease.
    heard: Micros,
    /// True while a write is under way. The next write waits for it.
    busy: bool,
    /// A state to commit after the write that is under way, and whether the run is over with it.
    wanted: Option<(Name, bool)>,
    saved: u32,
}

impl Lease {
    /// The term, if this process holds the lease.
    pub fn term(&self) -> Option<u32> {
        self.written.as_ref().map(|(record, _)| record.term)
    }

    pub fn head(&self) -> Option<Name> {
        self.written.as_ref().and_then(|(record, _)| record.head)
    }
}

impl World {
    pub(crate) fn seek_lease(&mut self, node: NodeId, single: Single) {
        self.node_mut(node).lease = Some(Lease {
            single,
            seen: None,
            written: None,
            heard: 0,
            busy: false,
            wanted: None,
            saved: 0,
        });
        self.look_at_lease(node);
    }

    fn look_at_lease(&mut self, node: NodeId) {
        if let Some(single) = self.single(node) {
            self.ask(node, Request::Get(Key::Lease(single)), Then::Seek);
        }
    }

    pub(crate) fn single(&self, node: NodeId) -> Option<Single> {
        self.node(node).lease.as_ref().map(|lease| lease.single)
    }

    pub(crate) fn on_seek(&mut self, node: NodeId, heard: Heard) {
        let Heard::Value(value) = heard else {
            self.role_failed(node);
            return;
        };
        let (record, revision) = match value {
            Some((Value::Lease(record), revision)) => (record, revision),
            _ => (Record::default(), 0),
        };
        let (now, holder) = (self.now, self.node(node).holder());
        let Some(lease) = &mut self.node_mut(node).lease else {
            return;
        };
        let silent = match lease.seen {
            Some((last, since)) if last == revision => now - since >= terms::PATIENCE,
            _ => {
                lease.seen = Some((revision, now));
                false
            }
        };
        let free = record.holder.is_none_or(|other| other == holder);
        if !free && !silent {
            self.set(node, terms::BEAT / 2, Timer::Beat);
            return;
        }
        let key = Key::Lease(lease.single);
        let ours = Record {
            holder: Some(holder),
            term: record.term + 1,
            beat: 0,
            ..record
        };
        let value = Value::Lease(ours.clone());
        self.write(node, key, value, revision, Then::Take(ours));
    }

    pub(crate) fn on_take(&mut self, node: NodeId, record: Record, heard: Heard) {
        let now = self.now;
        match heard {
            Heard::Written(revision) => {
                let head = record.head;
                let Some(lease) = &mut self.node_mut(node).lease else {
                    return;
                };
                lease.written = Some((record, revision));
                lease.heard = now;
                let single = lease.single;
                self.set(node, 0, Timer::Beat);
                let forgets = self.config.has(Mutation::TakeOverWithoutJournal);
                match head.filter(|_| !forgets) {
                    Some(name) => self.ask_store(node, Ask::Load(single, name), Then::Restore),
                    None => self.restore(node, None),
                }
            }
            Heard::Conflict => self.look_at_lease(node),
            _ => self.role_failed(node),
        }
    }

    /// A renewal, or another check of the lease, is due.
    pub(crate) fn on_beat(&mut self, node: NodeId) {
        let now = self.now;
        let Some(lease) = &self.node(node).lease else {
            return;
        };
        let Some((record, _)) = &lease.written else {
            self.look_at_lease(node);
            return;
        };
        // After a longer silence another process may have taken the lease. The holder gives the lease up without a
        // further renewal.
        if now - lease.heard >= terms::GIVE_UP {
            self.replaced(node, false);
            return;
        }
        if !lease.busy {
            let after = Record {
                beat: record.beat + 1,
                ..record.clone()
            };
            self.renew(node, after);
        }
        self.set(node, terms::BEAT, Timer::Beat);
    }

    fn renew(&mut self, node: NodeId, after: Record) {
        let Some(lease) = &mut self.node_mut(node).lease else {
            return;
        };
        let Some((_, revision)) = &lease.written else {
            return;
        };
        let (key, revision) = (Key::Lease(lease.single), *revision);
        lease.busy = true;
        let value = Value::Lease(after.clone());
        self.write(node, key, value, revision, Then::Renew(after));
    }

    pub(crate) fn on_renew(&mut self, node: NodeId, after: Record, heard: Heard) {
        let now = self.now;
        let Some(lease) = &mut self.node_mut(node).lease else {
            return;
        };
        let Some((before, _)) = &lease.written else {
            return;
        };
        lease.busy = false;
        let commits = before.head != after.head || before.over != after.over;
        match heard {
            Heard::Written(revision) => {
                lease.written = Some((after, revision));
                if commits {
                    self.on_committed(node);
                } else {
                    lease.heard = now;
                }
            }
            // The cause is not always another process: an earlier write of this process may have arrived late.
            Heard::Conflict => {
                lease.busy = true;
                let key = Key::Lease(lease.single);
                self.ask(node, Request::Get(key), Then::Adopt(after));
                return;
            }
            // The state is saved but not committed. The role restarts from the committed state.
            _ if commits => {
                self.role_failed(node);
                return;
            }
            // Either the broker answers again before the silence limit, or the holder gives up the lease.
            _ => {}
        }
        self.commit_what_waits(node);
    }

    /// Handles the record that was found after the write of `after` was refused.
    pub(crate) fn on_adopt(&mut self, node: NodeId, after: Record, heard: Heard) {
        let now = self.now;
        let Some(lease) = &mut self.node_mut(node).lease else {
            return;
        };
        let Some((before, _)) = lease.written.clone() else {
            return;
        };
        lease.busy = false;
        let commits = before.head != after.head || before.over != after.over;
        match heard {
            Heard::Value(Some((Value::Lease(found), revision))) => {
                // Every change of the holder has a term of its own.
                if found.holder != before.holder || found.term != before.term {
                    self.replaced(node, true);
                    return;
                }
                lease.heard = now;
                let there = found.head == after.head && found.over == after.over;
                lease.written = Some((found, revision));
                match after.head {
                    Some(_) if commits && there => self.on_committed(node),
                    Some(name) if commits => {
                        self.commit(node, name, after.over);
                        return;
                    }
                    _ => {}
                }
            }
            _ if commits => {
                self.role_failed(node);
                return;
            }
            _ => {}
        }
        self.commit_what_waits(node);
    }

    fn commit_what_waits(&mut self, node: NodeId) {
        let lease = self.node_mut(node).lease.as_mut();
        if let Some((name, over)) = lease.and_then(|lease| lease.wanted.take()) {
            self.commit(node, name, over);
        }
    }

    /// Saves a state. The state is not used before it is committed.
    pub(crate) fn save(&mut self, node: NodeId, steps: u32, state: State) -> Option<Name> {
        let lease = self.node_mut(node).lease.as_mut()?;
        let name = Name {
            steps,
            term: lease.term()?,
            attempt: lease.saved,
        };
        lease.saved += 1;
        let saved = Saved {
            parent: lease.head(),
            state,
        };
        let ask = Ask::Save(lease.single, name, Rc::new(saved));
        self.ask_store(node, ask, Then::Save);
        Some(name)
    }

    /// Commits a saved state: a new holder continues from it.
    pub(crate) fn commit(&mut self, node: NodeId, name: Name, over: bool) {
        let Some(lease) = &mut self.node_mut(node).lease else {
            return;
        };
        if lease.busy {
            lease.wanted = Some((name, over));
            return;
        }
        let Some((record, _)) = &lease.written else {
            return;
        };
        let after = Record {
            head: Some(name),
            over,
            ..record.clone()
        };
        self.renew(node, after);
    }

    fn on_committed(&mut self, node: NodeId) {
        match self.single(node) {
            Some(Single::Archive) => self.step_committed(node),
            Some(Single::Learner) => self.lesson_committed(node),
            None => {}
        }
    }

    pub(crate) fn restore(&mut self, node: NodeId, saved: Option<Rc<Saved>>) {
        let state = saved.map(|saved| saved.state.clone());
        match (self.single(node), state) {
            (Some(Single::Archive), Some(State::Archive(book))) => {
                self.open_archive(node, book);
            }
            (Some(Single::Archive), _) => self.open_archive(node, Default::default()),
            (Some(Single::Learner), Some(State::Learner(lessons))) => {
                self.open_learner(node, lessons);
            }
            (Some(Single::Learner), _) => self.open_learner(node, Default::default()),
            (None, _) => {}
        }
    }
}
