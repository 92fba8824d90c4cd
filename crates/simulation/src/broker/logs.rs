//! Streams that keep their entries.

use std::collections::BTreeMap;

use super::{Out, Reply};
use crate::message::{Entry, Log, MessageId, Micros, NodeId};

/// Number of entries in one answer.
const BATCH: usize = 256;

#[derive(Debug, Default)]
struct Stream {
    /// The first entry has sequence 1.
    entries: Vec<Entry>,
    ids: BTreeMap<MessageId, (Micros, u64)>,
    /// Reads that wait for the next entry, with their start sequence.
    waiting: BTreeMap<(NodeId, u64), u64>,
}

#[derive(Debug)]
pub(crate) struct Logs {
    streams: BTreeMap<Log, Stream>,
    window: Micros,
}

impl Logs {
    pub fn new(window: Micros) -> Self {
        Self {
            streams: BTreeMap::new(),
            window,
        }
    }

    pub fn entries(&self, log: Log) -> &[Entry] {
        self.streams
            .get(&log)
            .map_or(&[], |stream| stream.entries.as_slice())
    }

    /// The sequence of the entry, and whether the entry is new.
    pub fn store(
        &mut self,
        now: Micros,
        entry: Entry,
        id: Option<MessageId>,
        out: &mut Vec<Out>,
    ) -> (u64, bool) {
        let stream = self.streams.entry(entry.log()).or_default();
        if let Some(id) = id
            && let Some((at, sequence)) = stream.ids.get(&id)
            && now.saturating_sub(*at) < self.window
        {
            return (*sequence, false);
        }
        stream.entries.push(entry);
        let sequence = stream.entries.len() as u64;
        if let Some(id) = id {
            stream.ids.insert(id, (now, sequence));
        }
        for ((to, id), from) in std::mem::take(&mut stream.waiting) {
            let reply = stream.answer(from, BATCH);
            out.push(Out::Reply { to, id, reply });
        }
        (sequence, true)
    }

    /// Answers with the entries from sequence `from` on.
    pub fn read(
        &mut self,
        log: Log,
        from: u64,
        all: bool,
        (to, id): (NodeId, u64),
        out: &mut Vec<Out>,
    ) {
        let stream = self.streams.entry(log).or_default();
        if all || from.max(1) <= stream.entries.len() as u64 {
            let limit = if all { usize::MAX } else { BATCH };
            let reply = stream.answer(from, limit);
            out.push(Out::Reply { to, id, reply });
        } else {
            // A node has at most one waiting read: a new one replaces the earlier one.
            stream.waiting.retain(|(node, _), _| *node != to);
            stream.waiting.insert((to, id), from);
        }
    }

    pub fn kill(&mut self) {
        for stream in self.streams.values_mut() {
            stream.waiting.clear();
        }
    }

    /// Loses the last entries. Only a mutated broker does this.
    pub fn forget(&mut self, count: usize) {
        for stream in self.streams.values_mut() {
            let left = stream.entries.len().saturating_sub(count);
            stream.entries.truncate(left);
            stream
                .ids
                .retain(|_, (_, sequence)| *sequence <= left as u64);
        }
    }
}

impl Stream {
    fn answer(&self, from: u64, limit: usize) -> Reply {
        let first = from.max(1);
        let skipped = usize::try_from(first - 1).unwrap_or(usize::MAX);
        let behind = self.entries.len().saturating_sub(skipped);
        let entries: Vec<(u64, Entry)> = (first..)
            .zip(self.entries.iter().skip(skipped).take(limit).copied())
            .collect();
        let pending = behind - entries.len();
        Reply::Entries(entries, pending)
    }
}
