//! Requests, their time limits and the handling of missing answers. Follows `flopsmith-bus` (`publish`,
//! `delivery::settle`, `kv`).

use super::{Asked, Pending, Response, Then};
use crate::broker::{Reply, Request};
use crate::config::{Mutation, terms};
use crate::event::{Ask, Event, Packet, Timer};
use crate::message::{Body, Key, Micros, NodeId, Value};
use crate::world::World;

impl World {
    /// Sends a request to the broker. The answer, or its absence, goes to `then`.
    pub(crate) fn ask(&mut self, node: NodeId, request: Request, then: Then) {
        let limit = limit(&request);
        let id = self.note_request(node, Asked::Bus(request.clone()), then, limit);
        self.send_to_broker(node, Packet::Request(id, request));
    }

    /// Publishes a message and waits until it is stored.
    pub(crate) fn publish(&mut self, node: NodeId, body: Body, then: Then) {
        let id = (!self.config.has(Mutation::NoMessageId)).then(|| body.id());
        self.ask(node, Request::Publish { id, body }, then);
    }

    /// Writes a key at the revision that the writer knows.
    pub(crate) fn write(
        &mut self,
        node: NodeId,
        key: Key,
        value: Value,
        revision: u64,
        then: Then,
    ) {
        let blind = self.config.has(Mutation::FenceWithoutRevision)
            && matches!(key, Key::Lease(_))
            && revision > 0;
        let revision = (!blind).then_some(revision);
        let request = Request::Write {
            key,
            value,
            revision,
        };
        self.ask(node, request, then);
    }

    /// Sends a request to the store.
    pub(crate) fn ask_store(&mut self, node: NodeId, ask: Ask, then: Then) {
        let limit = 2 * terms::REQUEST_LIMIT;
        let id = self.note_request(node, Asked::Store, then, limit);
        let at = self.now + self.chance.between(500, 5_000);
        let (from, life) = (node, self.node(node).life);
        self.agenda.plan(
            at,
            Event::AtStore {
                from,
                life,
                id,
                ask,
            },
        );
    }

    fn note_request(&mut self, node: NodeId, asked: Asked, then: Then, limit: Micros) -> u64 {
        let now = self.now;
        let asker = self.node_mut(node);
        let id = asker.next_request;
        asker.next_request += 1;
        let pending = Pending {
            asked,
            then,
            since: now,
            due: now + limit,
            epoch: asker.epoch,
            stale_since: None,
            unsure: None,
        };
        asker.pending.insert(id, pending);
        self.set(node, limit, Timer::Limit(id));
        id
    }

    /// Handles an answer of the broker. A second answer to the same request is ignored.
    pub(crate) fn on_reply(&mut self, node: NodeId, id: u64, reply: Reply) {
        let Some(mut pending) = self.node_mut(node).pending.remove(&id) else {
            return;
        };
        if pending.unsure.is_some() && !matches!(reply, Reply::Value(_)) {
            // The late answer to the write itself is ignored; the read decides.
            self.node_mut(node).pending.insert(id, pending);
            return;
        }
        if let Some((value, before)) = pending.unsure.take() {
            let response = match reply {
                Reply::Value(Some((there, revision))) if revision > before => {
                    if there == value {
                        Response::Written(revision)
                    } else {
                        Response::Conflict
                    }
                }
                _ => Response::Failed,
            };
            self.on_response(node, pending.then, response);
            return;
        }
        let unwritten = matches!(
            (&pending.asked, &reply),
            (Asked::Bus(Request::Write { .. }), Reply::Full)
        );
        if unwritten {
            self.look_whether_written(node, id, pending);
            return;
        }
        self.on_response(node, pending.then, reply.into());
    }

    /// Handles an answer of the store.
    pub(crate) fn on_store_reply(&mut self, node: NodeId, id: u64, response: Response) {
        if let Some(pending) = self.node_mut(node).pending.remove(&id) {
            self.on_response(node, pending.then, response);
        }
    }

    /// Checks whether the time limit of a request has passed.
    pub(crate) fn on_limit(&mut self, node: NodeId, id: u64) {
        let now = self.now;
        let taken_for_granted = self.config.has(Mutation::AcknowledgementNotRetried);
        let asker = self.node_mut(node);
        let epoch = asker.epoch;
        let Some(pending) = asker.pending.get(&id) else {
            return;
        };
        if pending.due > now {
            return;
        }
        let waited = now - pending.since;
        let over = match &pending.asked {
            Asked::Bus(Request::Publish { .. }) => {
                (waited > terms::PUBLISH_LIMIT).then_some(Response::Failed)
            }
            Asked::Bus(Request::Answer { .. }) if taken_for_granted => Some(Response::Answered),
            Asked::Bus(Request::Answer { .. }) => match pending.stale_since {
                Some(since) if now - since >= terms::STALE_ACK_LIMIT => Some(Response::Stale),
                // The request was sent on a connection that is lost.
                None if pending.epoch != epoch => Some(Response::Stale),
                _ => (waited >= terms::ACK_LIMIT).then_some(Response::Failed),
            },
            Asked::Bus(Request::Read { .. }) => None,
            Asked::Bus(Request::Write { .. }) if pending.unsure.is_none() => {
                if let Some(pending) = self.node_mut(node).pending.remove(&id) {
                    self.look_whether_written(node, id, pending);
                }
                return;
            }
            _ => Some(Response::Failed),
        };
        match over {
            Some(response) => {
                if let Some(pending) = self.node_mut(node).pending.remove(&id) {
                    self.on_response(node, pending.then, response);
                }
            }
            None => self.send_again(node, id),
        }
    }

    /// Marks the latest request as an answer to a delivery of a lost connection.
    pub(crate) fn make_stale(&mut self, node: NodeId) {
        let now = self.now;
        let asker = self.node_mut(node);
        let id = asker.next_request.wrapping_sub(1);
        if let Some(pending) = asker.pending.get_mut(&id) {
            pending.stale_since = Some(now);
            pending.due = now + terms::STALE_ACK_LIMIT;
            self.set(node, terms::STALE_ACK_LIMIT, Timer::Limit(id));
        }
    }

    fn send_again(&mut self, node: NodeId, id: u64) {
        let now = self.now;
        let Some(pending) = self.node_mut(node).pending.get_mut(&id) else {
            return;
        };
        let Asked::Bus(request) = &pending.asked else {
            return;
        };
        let request = request.clone();
        let limit = limit(&request);
        pending.due = now + limit;
        self.set(node, limit, Timer::Limit(id));
        self.send_to_broker(node, Packet::Request(id, request));
    }

    /// Checks whether a write without an answer happened, so that a repeated write does not conflict with the first.
    fn look_whether_written(&mut self, node: NodeId, id: u64, mut pending: Pending) {
        let Asked::Bus(Request::Write {
            key,
            value,
            revision,
        }) = &pending.asked
        else {
            return;
        };
        let request = Request::Get(*key);
        pending.unsure = Some((value.clone(), revision.unwrap_or(0)));
        pending.due = self.now + terms::REQUEST_LIMIT;
        self.node_mut(node).pending.insert(id, pending);
        self.set(node, terms::REQUEST_LIMIT, Timer::Limit(id));
        self.send_to_broker(node, Packet::Request(id, request));
    }

    /// Handles a reconnect: requests of the lost connection get no answer.
    pub(crate) fn resume_requests(&mut self, node: NodeId) {
        let now = self.now;
        let mut again = Vec::new();
        for (id, pending) in &mut self.node_mut(node).pending {
            let wait = match &pending.asked {
                Asked::Bus(Request::Publish { .. }) => terms::GRACE,
                Asked::Bus(Request::Answer { .. }) => {
                    pending.stale_since.get_or_insert(now);
                    terms::STALE_ACK_LIMIT
                }
                Asked::Bus(Request::Read { .. }) => 0,
                _ => continue,
            };
            pending.due = now + wait;
            again.push((*id, wait));
        }
        for (id, wait) in again {
            match wait {
                0 => self.send_again(node, id),
                wait => self.set(node, wait, Timer::Limit(id)),
            }
        }
    }
}

/// How long a request waits for its answer before it is repeated or given up.
fn limit(request: &Request) -> Micros {
    match request {
        Request::Answer { .. } => terms::ACK_TRY,
        Request::Read { .. } => terms::SILENCE,
        _ => terms::REQUEST_LIMIT,
    }
}
