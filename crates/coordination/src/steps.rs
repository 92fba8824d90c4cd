//! Decides which step is complete: counts each outcome once, by id.

use std::collections::{BTreeMap, BTreeSet};

/// The outcomes seen of each step that is still open.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps<Id> {
    open: BTreeMap<u64, Step<Id>>,
    /// Steps below this are done; late outcomes of these steps are ignored.
    first: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct Step<Id> {
    expected: u64,
    seen: BTreeSet<Id>,
}

impl<Id: Ord> Steps<Id> {
    /// Steps below `first` are done already.
    pub fn starting_at(first: u64) -> Self {
        Self {
            open: BTreeMap::new(),
            first,
        }
    }

    /// Notes an outcome of `step`, which has at least `expected` of them: tasks that are drawn later carry the larger
    /// number, which includes the earlier ones. True when the outcome is new and its step is open.
    pub fn note(&mut self, step: u64, expected: u64, id: Id) -> bool {
        if self.closed(step) {
            return false;
        }
        let step = self.open.entry(step).or_insert_with(|| Step {
            expected: 0,
            seen: BTreeSet::new(),
        });
        step.expected = step.expected.max(expected);
        step.seen.insert(id)
    }

    /// True if this outcome has been noted already, or if its step is closed.
    pub fn knows(&self, step: u64, id: &Id) -> bool {
        let open = self.open.get(&step);
        self.closed(step) || open.is_some_and(|step| step.seen.contains(id))
    }

    /// True if `step` is done, so that no further outcome of it counts.
    pub fn closed(&self, step: u64) -> bool {
        step < self.first
    }

    /// True if all outcomes of `step` are here.
    pub fn complete(&self, step: u64) -> bool {
        let open = self.open.get(&step);
        self.closed(step) || open.is_some_and(|step| step.seen.len() as u64 >= step.expected)
    }

    /// How many outcomes of `step` are here.
    pub fn seen(&self, step: u64) -> usize {
        self.open.get(&step).map_or(0, |step| step.seen.len())
    }

    /// Forgets `step` and everything before it.
    pub fn close(&mut self, step: u64) {
        self.first = self.first.max(step + 1);
        self.open = self.open.split_off(&self.first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A step is complete exactly when every id was seen, in any order and with any number of repetitions.
        #[test]
        fn duplicates_and_order_do_not_matter(arrivals in proptest::collection::vec(0u32..12, 0..60)) {
            let mut steps = Steps::starting_at(1);
            let mut oracle = std::collections::HashSet::new();
            for id in arrivals {
                prop_assert_eq!(steps.note(1, 12, id), oracle.insert(id));
                prop_assert!(steps.knows(1, &id));
                prop_assert_eq!(steps.complete(1), oracle.len() == 12);
            }
            steps.close(1);
            prop_assert!(steps.complete(1) && steps.knows(1, &99));
            prop_assert!(!steps.note(1, 12, 0), "late outcomes of a closed step do not count");
        }
    }
}
