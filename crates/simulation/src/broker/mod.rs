//! JetStream as the bus uses it: a work-queue stream, logs, buckets.
//!
//! Sans IO: packets go in, [`Out`]s come out. Writes are applied in the order in which they arrived, each once it is on disk, and confirmed
//! then. A kill loses what was not on disk, or only the word of it.

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

/// What a node asks for and waits for.
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
    /// Stands until there is something behind `from`.
    Read {
        log: Log,
        from: u64,
        /// Answers at once, and with everything.
        all: bool,
    },
    Get(Key),
    /// Written only at this revision; whatever it is where there is none, which no real role asks for.
    Write {
        key: Key,
        value: Value,
        revision: Option<u64>,
    },
    /// How many messages are in the work queues?
    Count,
}

/// What a node says without waiting.
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

/// What the broker says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    Stored,
    Full,
    Answered,
    /// Entries with their places, and how many stand behind them.
    Entries(Vec<(u64, Entry)>, usize),
    Value(Option<(Value, u64)>),
    Written(u64),
    Conflict,
    Count(usize),
}

/// A message on its way to a worker.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Delivery {
    pub inbox: u32,
    pub sequence: u64,
    pub token: u64,
    pub attempt: u32,
    pub work: Work,
}

/// What the broker wants done.
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
    /// Look at the ack wait of a delivery then.
    AckWait {
        at: Micros,
        sequence: u64,
        token: u64,
    },
    /// A message that was given back may be given out again then.
    Return {
        at: Micros,
        sequence: u64,
        token: u64,
    },
    /// A write is on disk then.
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

/// What the broker lost, though it had confirmed it, is gone with a kill; only a mutated one does that.
const FORGETS: usize = 4;

#[derive(Debug)]
pub(crate) struct Broker {
    pub up: bool,
    /// Which of its lives this is: connections end with it.
    pub generation: u32,
    /// Is there no room on its disk?
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

    /// It is killed. Of what was on its way to the disk, a beginning is there afterwards.
    pub fn kill(&mut self, now: Micros, forgets: bool, chance: &mut Chance, out: &mut Vec<Out>) {
        let kept = chance.below(self.unsynced.len() + 1);
        for write in std::mem::take(&mut self.unsynced).into_iter().take(kept) {
            self.apply(now, write, false, out);
        }
        // Nobody hears what it would have said.
        out.retain(|out| matches!(out, Out::Fact(_)));
        self.up = false;
        self.generation += 1;
        self.logs.kill();
        let heard_of = chance.one_in_million(500_000);
        // That a message left is noted a moment after it was answered.
        self.work.kill(now.saturating_sub(5 * MILLI), heard_of, out);
        if forgets {
            self.work.forget(FORGETS);
            self.logs.forget(FORGETS);
        }
    }

    /// It is there again: nobody is connected yet.
    pub fn restart(&mut self, now: Micros, out: &mut Vec<Out>) {
        self.up = true;
        self.last_sync = now;
        self.work.restart(now, out);
        out.push(Out::Fact(Fact::Restarted));
    }
}
