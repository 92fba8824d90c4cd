//! JetStream as the bus uses it: a work-queue stream, logs, buckets.
//!
//! Sans IO: packets go in, [`Out`]s come out. Writes are applied in the order of their arrival. Each write is applied
//! and confirmed once it is on disk. A kill loses writes that were not on disk; for other writes it may lose only the
//! confirmation.

use std::collections::VecDeque;

use crate::fact::Fact;
use crate::message::{Body, Entry, Key, Log, MILLI, MessageId, Micros, NodeId, Queue, Value, Work};
use crate::random::Chance;

mod kv;
mod logs;
mod work;

pub(crate) use kv::Kv;
pub(crate) use logs::Logs;
pub(crate) use work::WorkStream;

/// A message of a node that expects an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Request {
    Publish {
        id: Option<MessageId>,
        body: Body,
    },
    Answer {
        sequence: u64,
        token: u64,
        terminate: bool,
    },
    /// Stands until there is an entry at or after `from`.
    Read {
        log: Log,
        from: u64,
        /// Answers at once, with all entries.
        all: bool,
    },
    Get(Key),
    /// Writes only at this revision. Without a revision the write is unconditional, which no correct role requests.
    Write {
        key: Key,
        value: Value,
        revision: Option<u64>,
    },
    /// Asks for the number of messages in the work queues.
    Count,
}

/// A message of a node that gets no answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Notice {
    Pull {
        queue: Queue,
        inbox: u32,
        count: usize,
    },
    Nak {
        sequence: u64,
        token: u64,
        delay: Micros,
    },
    Progress {
        sequence: u64,
        token: u64,
    },
}

/// An answer of the broker.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    Stored,
    Full,
    Answered,
    /// Entries with their sequences, and the number of entries that follow them.
    Entries(Vec<(u64, Entry)>, usize),
    Value(Option<(Value, u64)>),
    Written(u64),
    Conflict,
    Count(usize),
}

/// A message for a worker.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Delivery {
    pub inbox: u32,
    pub sequence: u64,
    pub token: u64,
    pub attempt: u32,
    pub work: Work,
}

/// An action that the world performs for the broker.
#[derive(Debug)]
pub(crate) enum Out {
    Reply {
        to: NodeId,
        id: u64,
        reply: Reply,
    },
    Deliver {
        to: NodeId,
        delivery: Delivery,
    },
    /// Checks the ack wait of a delivery at this time.
    AckWait {
        at: Micros,
        sequence: u64,
        token: u64,
    },
    /// A message that was given back may be given out again at this time.
    Return {
        at: Micros,
        sequence: u64,
        token: u64,
    },
    /// A write is on disk at this time.
    Sync {
        at: Micros,
    },
    Fact(Fact),
}

#[derive(Debug)]
struct Unsynced {
    from: NodeId,
    id: u64,
    request: Request,
}

/// Number of confirmed messages that a kill removes from each stream. Only a mutated broker loses confirmed messages.
const FORGETS: usize = 4;

#[derive(Debug)]
pub(crate) struct Broker {
    pub up: bool,
    /// Number of kills so far. A connection ends with its generation.
    pub generation: u32,
    /// True if the broker's disk is full.
    pub full: bool,
    unsynced: VecDeque<Unsynced>,
    last_sync: Micros,
    pub work: WorkStream,
    pub logs: Logs,
    pub kv: Kv,
}

impl Broker {
    pub fn new(nodes: usize, window: Micros) -> Self {
        Self {
            up: true,
            generation: 0,
            full: false,
            unsynced: VecDeque::new(),
            last_sync: 0,
            work: WorkStream::new(nodes, window),
            logs: Logs::new(window),
            kv: Kv::default(),
        }
    }

    pub fn on_request(
        &mut self,
        now: Micros,
        from: NodeId,
        id: u64,
        request: Request,
        chance: &mut Chance,
        out: &mut Vec<Out>,
    ) {
        match request {
            Request::Publish { .. } | Request::Write { .. } => {
                self.last_sync = self.last_sync.max(now) + chance.between(10, 200);
                out.push(Out::Sync { at: self.last_sync });
                self.unsynced.push_back(Unsynced { from, id, request });
            }
            Request::Answer {
                sequence,
                token,
                terminate,
            } => {
                if self.work.answer(now, sequence, token, terminate, out) {
                    let reply = Reply::Answered;
                    out.push(Out::Reply {
                        to: from,
                        id,
                        reply,
                    });
                }
            }
            Request::Read {
                log,
                from: place,
                all,
            } => self.logs.read(log, place, all, (from, id), out),
            Request::Get(key) => {
                let reply = Reply::Value(self.kv.get(key));
                out.push(Out::Reply {
                    to: from,
                    id,
                    reply,
                });
            }
            Request::Count => {
                let reply = Reply::Count(self.work.len());
                out.push(Out::Reply {
                    to: from,
                    id,
                    reply,
                });
            }
        }
    }

    pub fn on_notice(&mut self, now: Micros, from: NodeId, notice: Notice, out: &mut Vec<Out>) {
        match notice {
            Notice::Pull {
                queue,
                inbox,
                count,
            } => self.work.pull(now, queue, from, inbox, count, out),
            Notice::Nak {
                sequence,
                token,
                delay,
            } => self.work.nak(now, sequence, token, delay, out),
            Notice::Progress { sequence, token } => self.work.progress(now, sequence, token, out),
        }
    }

    /// The oldest write has reached the disk.
    pub fn on_sync(&mut self, now: Micros, out: &mut Vec<Out>) {
        if let Some(write) = self.unsynced.pop_front() {
            self.apply(now, write, true, out);
        }
    }

    fn apply(&mut self, now: Micros, write: Unsynced, confirmed: bool, out: &mut Vec<Out>) {
        let Unsynced { from, id, request } = write;
        let reply = match request {
            _ if self.full => Reply::Full,
            Request::Publish { id, body } => {
                let (sequence, new) = match body {
                    Body::Work(work) => self.work.store(now, work, id, out),
                    Body::Entry(entry) => self.logs.store(now, entry, id, out),
                };
                if new {
                    let by = from;
                    out.push(Out::Fact(Fact::Stored { by, body }));
                }
                if confirmed {
                    out.push(Out::Fact(Fact::Confirmed { body, sequence }));
                }
                Reply::Stored
            }
            Request::Write {
                key,
                value,
                revision,
            } => match self.kv.write(key, value, revision, from, out) {
                Some(revision) => Reply::Written(revision),
                None => Reply::Conflict,
            },
            _ => return,
        };
        if confirmed {
            out.push(Out::Reply {
                to: from,
                id,
                reply,
            });
        }
    }

    /// Kills the broker. Of the writes that were on their way to the disk, a random prefix survives without a
    /// confirmation.
    pub fn kill(&mut self, now: Micros, forgets: bool, chance: &mut Chance, out: &mut Vec<Out>) {
        let kept = chance.below(self.unsynced.len() + 1);
        for write in std::mem::take(&mut self.unsynced).into_iter().take(kept) {
            self.apply(now, write, false, out);
        }
        // Replies are dropped, because the connections end with the kill.
        out.retain(|out| matches!(out, Out::Fact(_)));
        self.up = false;
        self.generation += 1;
        self.logs.kill();
        let heard_of = chance.one_in_million(500_000);
        // The broker records the removal of a message up to 5 ms after it answered.
        self.work.kill(now.saturating_sub(5 * MILLI), heard_of, out);
        if forgets {
            self.work.forget(FORGETS);
            self.logs.forget(FORGETS);
        }
    }

    /// Restarts the broker. No node is connected yet.
    pub fn restart(&mut self, now: Micros, out: &mut Vec<Out>) {
        self.up = true;
        self.last_sync = now;
        self.work.restart(now, out);
        out.push(Out::Fact(Fact::Restarted));
    }
}
