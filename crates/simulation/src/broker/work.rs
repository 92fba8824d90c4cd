//! The work-queue stream: a message is removed when a worker has acknowledged or terminated it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Delivery, Out};
use crate::config::terms::ACK_WAIT;
use crate::fact::Fact;
use crate::message::{MessageId, Micros, NodeId, Queue, Work};

#[derive(Debug, Clone)]
struct Stored {
    work: Work,
    id: Option<MessageId>,
    at: Micros,
    deliveries: u32,
}

#[derive(Debug, Clone)]
struct Held {
    node: NodeId,
    token: u64,
    deadline: Micros,
    since: Micros,
}

#[derive(Debug)]
struct Asked {
    node: NodeId,
    inbox: u32,
    count: usize,
}

#[derive(Debug, Default)]
struct Consumer {
    ready: BTreeSet<u64>,
    held: BTreeMap<u64, Held>,
    /// Messages that were given back and may not be given out yet, each with the token of that delivery.
    delayed: BTreeMap<u64, u64>,
    waiting: VecDeque<Asked>,
}

#[derive(Debug)]
pub(crate) struct WorkStream {
    messages: BTreeMap<u64, Stored>,
    last: u64,
    ids: BTreeMap<MessageId, (Micros, u64)>,
    consumers: BTreeMap<Queue, Consumer>,
    /// The current inbox of each node. Requests from an earlier inbox are void.
    inboxes: Vec<u32>,
    tokens: u64,
    /// Deliveries with a token below this belong to a consumer state that the server has lost.
    unknown: u64,
    window: Micros,
    /// Messages that were removed lately, with the time. A kill may undo the removal.
    left: VecDeque<(Micros, u64, Stored)>,
}

impl WorkStream {
    pub fn new(nodes: usize, window: Micros) -> Self {
        Self {
            messages: BTreeMap::new(),
            last: 0,
            ids: BTreeMap::new(),
            consumers: Queue::ALL.map(|queue| (queue, Consumer::default())).into(),
            inboxes: vec![0; nodes],
            tokens: 0,
            unknown: 0,
            window,
            left: VecDeque::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.messages.len()
    }

    pub fn contains(&self, sequence: u64) -> bool {
        self.messages.contains_key(&sequence)
    }

    pub fn works(&self) -> impl Iterator<Item = &Work> {
        self.messages.values().map(|stored| &stored.work)
    }

    /// The sequence of the message, and whether the message is new.
    pub fn store(
        &mut self,
        now: Micros,
        work: Work,
        id: Option<MessageId>,
        out: &mut Vec<Out>,
    ) -> (u64, bool) {
        if let Some(id) = id
            && let Some((at, sequence)) = self.ids.get(&id)
            && now.saturating_sub(*at) < self.window
        {
            return (*sequence, false);
        }
        self.last += 1;
        let sequence = self.last;
        if let Some(id) = id {
            self.ids.insert(id, (now, sequence));
        }
        let stored = Stored {
            work,
            id,
            at: now,
            deliveries: 0,
        };
        self.messages.insert(sequence, stored);
        self.consumer(work.queue).ready.insert(sequence);
        self.give_out(now, work.queue, out);
        (sequence, true)
    }

    /// A node requests work. A new inbox makes the node's earlier requests void.
    pub fn pull(
        &mut self,
        now: Micros,
        queue: Queue,
        node: NodeId,
        inbox: u32,
        count: usize,
        out: &mut Vec<Out>,
    ) {
        let there = self.inbox(node);
        if inbox < there {
            return;
        }
        self.listen(node, inbox);
        let asked = Asked { node, inbox, count };
        self.consumer(queue).waiting.push_back(asked);
        self.give_out(now, queue, out);
    }

    /// Sets the inbox of a node. The end of a connection tells the server that the earlier inbox has no subscriber.
    pub fn listen(&mut self, node: NodeId, inbox: u32) {
        if let Some(there) = self.inboxes.get_mut(node.0 as usize) {
            *there = inbox;
        }
    }

    fn inbox(&self, node: NodeId) -> u32 {
        self.inboxes.get(node.0 as usize).copied().unwrap_or(0)
    }

    /// A final answer. False if the server does not know the delivery, so that the node gets no reply.
    pub fn answer(
        &mut self,
        now: Micros,
        sequence: u64,
        token: u64,
        terminated: bool,
        out: &mut Vec<Out>,
    ) -> bool {
        if token < self.unknown {
            return false;
        }
        // The server also accepts a late answer: a token is no fence.
        if let Some(stored) = self.messages.remove(&sequence) {
            let work = stored.work;
            let consumer = self.consumer(work.queue);
            consumer.ready.remove(&sequence);
            consumer.held.remove(&sequence);
            consumer.delayed.remove(&sequence);
            self.left.push_back((now, sequence, stored));
            if self.left.len() > 256 {
                self.left.pop_front();
            }
            out.push(Out::Fact(Fact::Settled {
                sequence,
                work,
                terminated,
            }));
        }
        true
    }

    pub fn nak(
        &mut self,
        now: Micros,
        sequence: u64,
        token: u64,
        delay: Micros,
        out: &mut Vec<Out>,
    ) {
        let Some(consumer) = self.holding(sequence, token) else {
            return;
        };
        consumer.held.remove(&sequence);
        consumer.delayed.insert(sequence, token);
        let at = now + delay;
        out.push(Out::Return {
            at,
            sequence,
            token,
        });
    }

    pub fn progress(&mut self, now: Micros, sequence: u64, token: u64, out: &mut Vec<Out>) {
        if let Some(consumer) = self.holding(sequence, token)
            && let Some(held) = consumer.held.get_mut(&sequence)
        {
            held.deadline = now + ACK_WAIT;
            let (node, held) = (held.node, now - held.since);
            out.push(Out::Fact(Fact::Alive { node, held }));
        }
    }

    pub fn on_ack_wait(&mut self, now: Micros, sequence: u64, token: u64, out: &mut Vec<Out>) {
        let Some(consumer) = self.holding(sequence, token) else {
            return;
        };
        let Some(held) = consumer.held.get(&sequence) else {
            return;
        };
        if held.deadline > now {
            let at = held.deadline;
            out.push(Out::AckWait {
                at,
                sequence,
                token,
            });
            return;
        }
        let node = held.node;
        consumer.held.remove(&sequence);
        consumer.ready.insert(sequence);
        out.push(Out::Fact(Fact::TakenBack { node, token }));
        self.give_out_of(now, sequence, out);
    }

    pub fn on_return(&mut self, now: Micros, sequence: u64, token: u64, out: &mut Vec<Out>) {
        let Some(queue) = self.messages.get(&sequence).map(|s| s.work.queue) else {
            return;
        };
        let consumer = self.consumer(queue);
        if consumer.delayed.get(&sequence) == Some(&token) {
            consumer.delayed.remove(&sequence);
            consumer.ready.insert(sequence);
            self.give_out(now, queue, out);
        }
    }

    /// The consumer, if exactly this delivery holds the message.
    fn holding(&mut self, sequence: u64, token: u64) -> Option<&mut Consumer> {
        let queue = self.messages.get(&sequence)?.work.queue;
        let consumer = self.consumer(queue);
        let held = consumer.held.get(&sequence)?;
        (held.token == token).then_some(consumer)
    }

    fn consumer(&mut self, queue: Queue) -> &mut Consumer {
        self.consumers.entry(queue).or_default()
    }

    fn give_out_of(&mut self, now: Micros, sequence: u64, out: &mut Vec<Out>) {
        if let Some(queue) = self.messages.get(&sequence).map(|s| s.work.queue) {
            self.give_out(now, queue, out);
        }
    }

    fn give_out(&mut self, now: Micros, queue: Queue, out: &mut Vec<Out>) {
        let Some(consumer) = self.consumers.get_mut(&queue) else {
            return;
        };
        while let Some(sequence) = consumer.ready.first().copied() {
            let Some(mut asked) = consumer.waiting.pop_front() else {
                return;
            };
            if self.inboxes.get(asked.node.0 as usize) != Some(&asked.inbox) {
                continue;
            }
            consumer.ready.remove(&sequence);
            let Some(stored) = self.messages.get_mut(&sequence) else {
                consumer.waiting.push_front(asked);
                continue;
            };
            stored.deliveries += 1;
            self.tokens += 1;
            let token = self.tokens;
            let deadline = now + ACK_WAIT;
            let (node, inbox) = (asked.node, asked.inbox);
            let held = Held {
                node,
                token,
                deadline,
                since: now,
            };
            consumer.held.insert(sequence, held);
            out.push(Out::AckWait {
                at: deadline,
                sequence,
                token,
            });
            let delivery = Delivery {
                inbox,
                sequence,
                token,
                attempt: stored.deliveries,
                work: stored.work,
            };
            out.push(Out::Deliver { to: node, delivery });
            asked.count -= 1;
            if asked.count > 0 {
                consumer.waiting.push_back(asked);
            }
        }
    }

    /// Messages that were removed since `noted` are restored. The holders of messages are kept or forgotten.
    pub fn kill(&mut self, noted: Micros, holders_kept: bool, out: &mut Vec<Out>) {
        for (at, sequence, stored) in std::mem::take(&mut self.left) {
            if at >= noted {
                self.consumer(stored.work.queue).ready.insert(sequence);
                self.messages.insert(sequence, stored);
                out.push(Out::Fact(Fact::Returned { sequence }));
            }
        }
        // The server rebuilds the ids from the messages that exist, so it forgets the ids of removed messages.
        self.ids = self
            .messages
            .iter()
            .filter_map(|(sequence, stored)| Some((stored.id?, (stored.at, *sequence))))
            .collect();
        for consumer in self.consumers.values_mut() {
            consumer.waiting.clear();
            consumer.ready.extend(consumer.delayed.keys());
            consumer.delayed.clear();
            if !holders_kept {
                consumer.ready.extend(consumer.held.keys());
                consumer.held.clear();
            }
        }
        if !holders_kept {
            self.unknown = self.tokens + 1;
        }
    }

    /// All ack waits begin again.
    pub fn restart(&mut self, now: Micros, out: &mut Vec<Out>) {
        for consumer in self.consumers.values_mut() {
            for (sequence, held) in &mut consumer.held {
                held.deadline = now + ACK_WAIT;
                out.push(Out::AckWait {
                    at: held.deadline,
                    sequence: *sequence,
                    token: held.token,
                });
            }
        }
    }

    /// Loses the last messages. Only a mutated broker does this.
    pub fn forget(&mut self, count: usize) {
        for _ in 0..count {
            if let Some((sequence, stored)) = self.messages.pop_last() {
                let consumer = self.consumer(stored.work.queue);
                consumer.ready.remove(&sequence);
                consumer.held.remove(&sequence);
                if let Some(id) = stored.id {
                    self.ids.remove(&id);
                }
            }
        }
    }
}
