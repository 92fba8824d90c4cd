//! Decides which step is complete: counts each outcome once, by id. Pure.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_protocol::{CandidateId, CandidateRef, Purpose};

/// The outcomes seen of each step that is still open.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Steps {
    open: BTreeMap<u64, Step>,
    /// Steps below this are done; late outcomes of these steps are ignored.
    first: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Step {
    expected: u64,
    seen: BTreeSet<CandidateId>,
}

impl Steps {
    /// Steps below `first` are done already.
    pub fn starting_at(first: u64) -> Self {
        Self {
            open: BTreeMap::new(),
            first,
        }
    }

    /// Notes an outcome. True when it is new and belongs to an open step.
    pub fn note(&mut self, candidate: &CandidateRef) -> bool {
        if candidate.step < self.first || candidate.purpose == Purpose::Certify {
            return false;
        }
        let step = self.open.entry(candidate.step).or_default();
        // Tasks that were drawn later carry the larger number, which includes them.
        let expected = u64::from(candidate.tasks_in_step) * u64::from(candidate.group_size);
        step.expected = step.expected.max(expected);
        step.seen.insert(candidate.id.clone())
    }

    /// True if `candidate` has been noted already (or its step is closed).
    pub fn knows(&self, candidate: &CandidateRef) -> bool {
        candidate.step < self.first
            || self
                .open
                .get(&candidate.step)
                .is_some_and(|s| s.seen.contains(&candidate.id))
    }

    /// True if `step` is done, so that no further outcome of it counts.
    pub fn closed(&self, step: u64) -> bool {
        step < self.first
    }

    /// True if all outcomes of `step` are here.
    pub fn complete(&self, step: u64) -> bool {
        step < self.first
            || self
                .open
                .get(&step)
                .is_some_and(|s| s.seen.len() as u64 >= s.expected)
    }

    /// How many outcomes of `step` are here.
    pub fn seen(&self, step: u64) -> usize {
        self.open.get(&step).map_or(0, |s| s.seen.len())
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
    use flopsmith_test_support::candidate;
    use proptest::prelude::*;

    /// A sample of a step of three groups of four.
    fn of_twelve(group: u32, sample: u32) -> CandidateRef {
        CandidateRef {
            tasks_in_step: 3,
            group_size: 4,
            ..candidate(1, group, sample)
        }
    }

    proptest! {
        /// A step is complete exactly when every id was seen, in any order and with any number of repetitions.
        #[test]
        fn duplicates_and_order_do_not_matter(
            arrivals in proptest::collection::vec((0u32..3, 0u32..4), 0..60)
        ) {
            let mut steps = Steps::starting_at(1);
            let mut oracle = std::collections::HashSet::new();
            for (group, sample) in arrivals {
                let c = of_twelve(group, sample);
                prop_assert_eq!(steps.note(&c), oracle.insert((group, sample)));
                prop_assert!(steps.knows(&c));
                prop_assert_eq!(steps.complete(1), oracle.len() == 12);
            }
            steps.close(1);
            prop_assert!(steps.complete(1));
            prop_assert!(!steps.note(&of_twelve(0, 0)), "late outcomes of a closed step do not count");
        }
    }
}
