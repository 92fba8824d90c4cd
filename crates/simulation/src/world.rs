//! The whole cluster: the agenda, the network, and the delivery of events to nodes, broker and store.

use crate::broker::{Broker, Out, Request};
use crate::config::{Config, Role, terms};
use crate::event::{Agenda, Ask, Event, Packet, Timer, ToNode};
use crate::fact::Fact;
use crate::faults::Faults;
use crate::message::{Log, MILLI, Micros, NodeId, Queue};
use crate::node::{Node, Response, Then};
use crate::random::Chance;
use crate::store::Store;

/// Leases that a running process lost. A killed process does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Number of lost leases.
    pub leases: u64,
    /// Losses in which no other process held the lease by then. Either no sign of life arrived for too long, or the
    /// process took its own earlier write for the write of another process.
    pub to_nobody: u64,
    /// Losses of the second kind.
    pub to_its_own_write: u64,
}

/// The state of a cluster.
pub(crate) struct World {
    pub config: Config,
    pub seed: u64,
    pub now: Micros,
    pub agenda: Agenda,
    pub chance: Chance,
    pub broker: Broker,
    pub store: Store,
    pub nodes: Vec<Node>,
    pub faults: Faults,
    /// The facts of the current event.
    pub facts: Vec<Fact>,
    pub role_failures: u64,
    pub losses: Losses,
}

impl World {
    pub fn new(config: Config, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let faults = Faults::drawn(&config, seed, &mut chance);
        let roles = config.roles();
        let nodes: Vec<Node> = (0..)
            .zip(&roles)
            .map(|(number, role)| Node::new(NodeId(number), *role))
            .collect();
        let mut world = Self {
            broker: Broker::new(nodes.len(), faults.window),
            config,
            seed,
            now: 0,
            agenda: Agenda::default(),
            chance,
            store: Store::new(),
            nodes,
            faults,
            facts: Vec::new(),
            role_failures: 0,
            losses: Losses::default(),
        };
        for node in 0..roles.len() {
            let node = NodeId(node as u32);
            let at = world.chance.between(0, 200 * MILLI);
            world.agenda.plan(at, Event::Start { node, life: 0 });
        }
        world.await_fault();
        world
    }

    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.0 as usize]
    }

    pub fn node_mut(&mut self, node: NodeId) -> &mut Node {
        &mut self.nodes[node.0 as usize]
    }

    /// Plans `timer` for a node. The timer is void if the node's role restarts before the timer fires.
    pub fn set(&mut self, node: NodeId, after: Micros, timer: Timer) {
        let life = self.node(node).life;
        let event = Event::Timer { node, life, timer };
        self.agenda.plan(self.now + after, event);
    }

    /// Processes one event. False if the event was postponed because the node's process is suspended.
    pub fn happen(&mut self, event: Event) -> bool {
        if let Some(node) = event.node()
            && self.node(node).stands_until > self.now
        {
            let until = self.node(node).stands_until;
            self.facts.push(Fact::Disturbed { node });
            self.agenda.plan(until, event);
            return false;
        }
        match event {
            Event::AtBroker {
                from,
                generation,
                packet,
            } => self.at_broker(from, generation, packet),
            Event::AtNode {
                to,
                life,
                epoch,
                message,
            } => {
                let there = self.node(to);
                if there.is(life) && there.epoch == epoch && there.connected {
                    match message {
                        ToNode::Reply(id, reply) => self.on_reply(to, id, reply),
                        ToNode::Delivery(delivery) => self.on_delivery(to, delivery),
                    }
                }
            }
            Event::AtStore {
                from,
                life,
                id,
                ask,
            } => self.at_store(from, life, id, ask),
            Event::FromStore {
                to,
                life,
                id,
                found,
            } => {
                if self.node(to).is(life) {
                    let response = found.map_or(Response::Stored, Response::Found);
                    self.on_store_reply(to, id, response);
                }
            }
            Event::Sync { generation } => {
                if generation == self.broker.generation && self.broker.up {
                    self.with_broker(|broker, now, out| broker.on_sync(now, out));
                }
            }
            Event::AckWait {
                sequence,
                token,
                generation,
            } => {
                if generation == self.broker.generation && self.broker.up {
                    self.with_broker(|broker, now, out| {
                        broker.work.on_ack_wait(now, sequence, token, out);
                    });
                }
            }
            Event::Return {
                sequence,
                token,
                generation,
            } => {
                if generation == self.broker.generation && self.broker.up {
                    self.with_broker(|broker, now, out| {
                        broker.work.on_return(now, sequence, token, out);
                    });
                }
            }
            Event::Timer { node, life, timer } => {
                if self.node(node).is(life) {
                    self.on_timer(node, timer);
                }
            }
            Event::Start { node, life } => {
                if self.node(node).life == life {
                    self.start(node);
                }
            }
            Event::Fault => self.strike(),
            Event::BrokerUp => self.broker_up(),
            Event::StoreUp => self.store.up = true,
            Event::DiskFree => self.broker.full = false,
            Event::Heal { node, cut } => self.heal(node, cut),
            Event::Reconnect { node } => self.reconnect(node),
        }
        true
    }

    fn with_broker(&mut self, act: impl FnOnce(&mut Broker, Micros, &mut Vec<Out>)) {
        let mut out = Vec::new();
        act(&mut self.broker, self.now, &mut out);
        self.perform(out);
    }

    fn start(&mut self, node: NodeId) {
        self.node_mut(node).up = true;
        match self.node(node).role {
            Role::Worker(queue) => {
                self.set(node, terms::ACK_WAIT / 3, Timer::Signs);
                if queue == Queue::Generate {
                    self.start_generator(node);
                }
                self.ask_for_work(node);
            }
            Role::Lease(single) => self.seek_lease(node, single),
        }
    }

    fn on_timer(&mut self, node: NodeId, timer: Timer) {
        match timer {
            Timer::Limit(id) => self.on_limit(node, id),
            Timer::Signs => self.give_signs(node),
            Timer::Job(job) => self.on_job_timer(node, job),
            Timer::Beat => self.on_beat(node),
            Timer::Clock => self.on_clock(node),
            Timer::Begin => self.answer_tasks(node),
            Timer::Written => self.programs_written(node),
            Timer::Trained => self.trained(node),
            Timer::Silence(step) => self.on_silence(node, step),
        }
    }

    /// Passes the result of a request to the code that made the request.
    pub fn on_response(&mut self, node: NodeId, then: Then, response: Response) {
        match then {
            Then::Job(job) => {
                if !self.on_job(node, job, &response) {
                    match self.node(node).role {
                        Role::Worker(Queue::Generate) => self.on_task(node, job, &response),
                        _ => self.on_stage(node, job, response),
                    }
                }
            }
            Then::Note {
                job,
                program,
                sample,
                verdict,
            } => self.on_note(node, (job, program, sample, verdict), response),
            Then::Seek => self.on_seek(node, response),
            Then::Take(record) => self.on_take(node, record, response),
            Then::Renew(record) => self.on_renew(node, record, response),
            Then::Adopt(record) => self.on_adopt(node, record, response),
            Then::Restore => match response {
                Response::Found(saved) => self.restore(node, Some(saved)),
                _ => self.role_failed(node),
            },
            Then::Save => match response {
                Response::Stored => {
                    self.book_saved(node);
                    self.lessons_saved(node);
                }
                _ => self.role_failed(node),
            },
            Then::Replay(log) => self.on_replay(node, log, response),
            Then::Follow(log) => {
                let Response::Entries(entries, pending) = response else {
                    return;
                };
                match (self.node(node).role, log) {
                    (Role::Worker(_), _) => self.on_versions(node, &entries),
                    (Role::Lease(crate::message::Single::Learner), _) => {
                        self.on_lessons(node, log, &entries);
                    }
                    (_, Log::Dead) => self.on_letters(node, &entries),
                    _ => self.on_outcomes(node, &entries, pending),
                }
            }
            Then::Part => self.on_part(node, &response),
            Then::Decided(sample, key, verdict) => {
                self.on_decided(node, (sample, key, verdict), &response);
            }
            Then::Count => self.on_queued(node, &response),
            Then::Told => self.on_told(node, &response),
        }
    }

    /// Sends a packet to the broker.
    pub fn send_to_broker(&mut self, from: NodeId, packet: Packet) {
        let there = self.node(from);
        if !there.connected {
            if self.now >= there.unnoticed_until {
                self.node_mut(from).unsent.push(packet);
            }
            return;
        }
        let begins = there.cut.map_or(self.now, |cut| cut.until);
        // A connection keeps its packets in order or is lost as a whole. Only packets that the protocol itself may
        // repeat arrive twice.
        let repeated = !matches!(
            packet,
            Packet::Request(_, Request::Write { .. })
                | Packet::Notice(crate::broker::Notice::Pull { .. })
        );
        let lossy = matches!(
            packet,
            Packet::Request(_, Request::Publish { .. } | Request::Answer { .. })
        );
        if lossy && self.faults.loses(self.now, &mut self.chance) {
            self.facts.push(Fact::Disturbed { node: from });
            return;
        }
        let times = 1 + usize::from(repeated && self.faults.repeats(self.now, &mut self.chance));
        let generation = self.broker.generation;
        for _ in 0..times {
            let late = self.faults.delays(self.now, &mut self.chance);
            if late.is_some() {
                self.facts.push(Fact::Disturbed { node: from });
            }
            let at = begins + late.unwrap_or(0) + self.chance.between(50, 600);
            let packet = packet.clone();
            self.agenda.plan(
                at,
                Event::AtBroker {
                    from,
                    generation,
                    packet,
                },
            );
        }
    }

    /// Sends the packets that were kept while there was no connection, in their order.
    pub fn flush(&mut self, node: NodeId) {
        let generation = self.broker.generation;
        let kept = std::mem::take(&mut self.node_mut(node).unsent);
        for (after, packet) in (100..).zip(kept) {
            let from = node;
            self.agenda.plan(
                self.now + after,
                Event::AtBroker {
                    from,
                    generation,
                    packet,
                },
            );
        }
    }

    fn send_to_node(&mut self, to: NodeId, message: ToNode) {
        let there = self.node(to);
        if !there.connected {
            return;
        }
        let begins = there.cut.map_or(self.now, |cut| cut.until);
        let (life, epoch) = (there.life, there.epoch);
        let is_reply = matches!(message, ToNode::Reply(..));
        if is_reply && self.faults.loses(self.now, &mut self.chance) {
            self.facts.push(Fact::Disturbed { node: to });
            return;
        }
        let late = self.faults.delays(self.now, &mut self.chance);
        if late.is_some() {
            self.facts.push(Fact::Disturbed { node: to });
        }
        let at = begins + late.unwrap_or(0) + self.chance.between(50, 600);
        self.agenda.plan(
            at,
            Event::AtNode {
                to,
                life,
                epoch,
                message,
            },
        );
    }

    fn at_broker(&mut self, from: NodeId, generation: u32, packet: Packet) {
        if generation != self.broker.generation || !self.broker.up {
            return;
        }
        let mut out = Vec::new();
        match packet {
            Packet::Request(id, request) => {
                let (broker, chance) = (&mut self.broker, &mut self.chance);
                broker.on_request(self.now, from, id, request, chance, &mut out);
            }
            Packet::Notice(notice) => self.broker.on_notice(self.now, from, notice, &mut out),
        }
        self.perform(out);
    }

    /// Performs the actions that the broker requests.
    pub fn perform(&mut self, out: Vec<Out>) {
        let generation = self.broker.generation;
        for one in out {
            match one {
                Out::Reply { to, id, reply } => self.send_to_node(to, ToNode::Reply(id, reply)),
                Out::Deliver { to, delivery } => self.send_to_node(to, ToNode::Delivery(delivery)),
                Out::AckWait {
                    at,
                    sequence,
                    token,
                } => self.agenda.plan(
                    at,
                    Event::AckWait {
                        sequence,
                        token,
                        generation,
                    },
                ),
                Out::Return {
                    at,
                    sequence,
                    token,
                } => self.agenda.plan(
                    at,
                    Event::Return {
                        sequence,
                        token,
                        generation,
                    },
                ),
                Out::Sync { at } => self.agenda.plan(at, Event::Sync { generation }),
                Out::Fact(fact) => self.facts.push(fact),
            }
        }
    }

    fn at_store(&mut self, from: NodeId, life: u32, id: u64, ask: Ask) {
        if !self.store.up {
            return;
        }
        let found = match ask {
            Ask::Save(single, name, saved) => {
                self.store.save(single, name, saved);
                None
            }
            Ask::Load(single, name) => match self.store.load(single, name) {
                Some(saved) => Some(std::rc::Rc::clone(saved)),
                None => return,
            },
        };
        let at = self.now + self.chance.between(500, 20 * MILLI);
        let to = from;
        self.agenda.plan(
            at,
            Event::FromStore {
                to,
                life,
                id,
                found,
            },
        );
    }
}
