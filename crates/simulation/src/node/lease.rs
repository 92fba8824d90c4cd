//! The leases of the single roles: which process holds one, and which saved state is committed. An [`Lease`] is one
//! lease as its candidate or holder sees it. Follows `flopsmith_actors::role_lease`.

use flopsmith_coordination::lease::{Claim, Held, Refused, Waiting, left};

use super::{Response, Then};
use crate::broker::Request;
use crate::config::{Mutation, terms};
use crate::event::{Ask, Timer};
use crate::message::{Holder, Key, Micros, Name, NodeId, Record, Single, Value, micros, span};
use crate::store::{Saved, State};
use crate::world::World;
use std::rc::Rc;

#[derive(Debug)]
pub(crate) struct Lease {
    single: Single,
    waiting: Waiting,
    /// None while this process does not hold the lease.
    held: Option<Held<Option<Holder>, Name>>,
    /// When the broker last confirmed the lease.
    confirmed: Micros,
    /// True while a write is under way. The next write waits for it.
    busy: bool,
    /// A state to commit after the write that is under way, and whether the run is over with it.
    wanted: Option<(Name, bool)>,
    saved: u32,
}

/// True if a write changes more than the sign of life.
fn commits(before: &Record, after: &Record) -> bool {
    before.head != after.head || before.over != after.over
}

impl Lease {
    /// The term, if this process holds the lease.
    pub fn term(&self) -> Option<u64> {
        self.held.as_ref().map(|held| held.record().term)
    }

    pub fn head(&self) -> Option<Name> {
        self.held.as_ref().and_then(|held| held.record().head)
    }
}

impl World {
    pub(crate) fn seek_lease(&mut self, node: NodeId, single: Single) {
        self.node_mut(node).lease = Some(Lease {
            single,
            waiting: Waiting::default(),
            held: None,
            confirmed: 0,
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

    pub(crate) fn on_seek(&mut self, node: NodeId, response: Response) {
        let Response::Value(value) = response else {
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
        let claim = lease.waiting.read(
            &record,
            revision,
            &Some(holder),
            span(now),
            false,
            &terms::LEASE,
        );
        let Claim::Take { record, .. } = claim else {
            self.set(node, micros(terms::LEASE.look()), Timer::Beat);
            return;
        };
        let key = Key::Lease(lease.single);
        let value = Value::Lease(record.clone());
        self.write(node, key, value, revision, Then::Take(record));
    }

    pub(crate) fn on_take(&mut self, node: NodeId, record: Record, response: Response) {
        let now = self.now;
        match response {
            Response::Written(revision) => {
                let head = record.head;
                let Some(lease) = &mut self.node_mut(node).lease else {
                    return;
                };
                lease.held = Some(Held::new(record, revision));
                lease.confirmed = now;
                let single = lease.single;
                self.set(node, 0, Timer::Beat);
                let forgets = self.config.has(Mutation::TakeOverWithoutJournal);
                match head.filter(|_| !forgets) {
                    Some(name) => self.ask_store(node, Ask::Load(single, name), Then::Restore),
                    None => self.restore(node, None),
                }
            }
            Response::Conflict => self.look_at_lease(node),
            _ => self.role_failed(node),
        }
    }

    /// A renewal, or another check of the lease, is due.
    pub(crate) fn on_beat(&mut self, node: NodeId) {
        let now = self.now;
        let Some(lease) = &self.node(node).lease else {
            return;
        };
        let Some(held) = &lease.held else {
            self.look_at_lease(node);
            return;
        };
        // After a longer silence another process may have taken the lease. The holder gives the lease up without a
        // further renewal.
        if left(span(lease.confirmed), span(now), &terms::LEASE).is_none() {
            self.replaced(node, false);
            return;
        }
        if !lease.busy {
            let after = held.record().clone().renewed();
            self.renew(node, after);
        }
        self.set(node, micros(terms::LEASE.beat), Timer::Beat);
    }

    fn renew(&mut self, node: NodeId, after: Record) {
        let Some(lease) = &mut self.node_mut(node).lease else {
            return;
        };
        let Some(held) = &lease.held else {
            return;
        };
        let (key, revision) = (Key::Lease(lease.single), held.revision());
        lease.busy = true;
        let value = Value::Lease(after.clone());
        self.write(node, key, value, revision, Then::Renew(after));
    }

    pub(crate) fn on_renew(&mut self, node: NodeId, after: Record, response: Response) {
        let now = self.now;
        let Some(lease) = &mut self.node_mut(node).lease else {
            return;
        };
        let Some(held) = &mut lease.held else {
            return;
        };
        lease.busy = false;
        let commits = commits(held.record(), &after);
        match response {
            Response::Written(revision) => {
                held.written(after, revision);
                if commits {
                    self.on_committed(node);
                } else {
                    lease.confirmed = now;
                }
            }
            // The cause is not always another process: an earlier write of this process may have arrived late.
            Response::Conflict => {
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
    pub(crate) fn on_adopt(&mut self, node: NodeId, after: Record, response: Response) {
        let now = self.now;
        let Some(lease) = &mut self.node_mut(node).lease else {
            return;
        };
        let Some(held) = &mut lease.held else {
            return;
        };
        lease.busy = false;
        let commits = commits(held.record(), &after);
        match response {
            Response::Value(Some((Value::Lease(found), revision))) => {
                match held.refused(&after, found, revision) {
                    Refused::Replaced => {
                        self.replaced(node, true);
                        return;
                    }
                    Refused::Stored if commits => {
                        lease.confirmed = now;
                        self.on_committed(node);
                    }
                    Refused::Again if commits => {
                        lease.confirmed = now;
                        if let Some(name) = after.head {
                            self.commit(node, name, after.over);
                            return;
                        }
                    }
                    Refused::Stored | Refused::Again => lease.confirmed = now,
                    // The simulated broker is one server, so no read lags behind a write.
                    Refused::Lagging => {}
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
        let Some(held) = &lease.held else {
            return;
        };
        let after = held.record().clone().committed(name, over);
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
