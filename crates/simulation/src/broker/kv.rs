//! Key-value buckets: values with revisions.

use std::collections::BTreeMap;

use super::Out;
use crate::fact::Fact;
use crate::message::{Key, NodeId, Record, Single, Value};

#[derive(Debug, Default)]
pub(crate) struct Kv {
    entries: BTreeMap<Key, (Value, u64)>,
    revision: u64,
}

impl Kv {
    pub fn get(&self, key: Key) -> Option<(Value, u64)> {
        self.entries.get(&key).cloned()
    }

    /// The record of a lease. Without an entry, the record of a run that begins.
    pub fn record(&self, single: Single) -> Record {
        match self.entries.get(&Key::Lease(single)) {
            Some((Value::Lease(record), _)) => record.clone(),
            _ => Record::default(),
        }
    }

    /// The new revision. None if the entry's revision differs from `revision`.
    pub fn write(
        &mut self,
        key: Key,
        value: Value,
        revision: Option<u64>,
        by: NodeId,
        out: &mut Vec<Out>,
    ) -> Option<u64> {
        let there = self.entries.get(&key).map_or(0, |(_, revision)| *revision);
        if revision.is_some_and(|revision| revision != there) {
            return None;
        }
        if let (Key::Lease(single), Value::Lease(after)) = (key, &value) {
            let (before, after) = (self.record(single), after.clone());
            out.push(Out::Fact(Fact::Lease {
                single,
                by,
                before,
                after,
            }));
        }
        self.revision += 1;
        self.entries.insert(key, (value, self.revision));
        Some(self.revision)
    }
}
