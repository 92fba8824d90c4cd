//! Further rounds of a step, which follow from the outcomes of the round before.
//!
//! Dynamic sampling (Yu et al., 2025) draws other groups in place of those whose rewards are all equal, since these
//! teach nothing. Conversations go on with another answer to each answer that can be continued.
//!
//! The archive gives out tasks and the learner trains on them. Both decide by themselves which tasks a step has, and
//! have to agree. Tasks are numbered round by round. A round is decided once all its outcomes are there.

/// The number of tasks of a step, as far as the step's known outcomes decide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Tasks of all rounds so far.
    pub tasks: u32,
    /// The last of these rounds; the first is 0.
    pub round: u32,
    /// True if every outcome of these tasks is there and no round follows.
    pub settled: bool,
}

/// The tasks of a step that began with `first` tasks and has at most `rounds` further rounds. `following` returns how
/// many tasks of the next round a task's outcomes ask for; none if outcomes of the task are missing.
pub fn asked(first: u32, rounds: u32, following: impl Fn(u32) -> Option<u32>) -> Asked {
    let mut from = 0;
    let mut asked = Asked {
        tasks: first,
        round: 0,
        settled: false,
    };
    loop {
        let again: Option<u32> = (from..asked.tasks).map(&following).sum();
        let Some(again) = again else { return asked };
        if again == 0 || asked.round == rounds {
            asked.settled = true;
            return asked;
        }
        from = asked.tasks;
        asked.tasks += again;
        asked.round += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A reader of a part of a step's outcomes comes to the same tasks as a reader of all outcomes, or to fewer.
        #[test]
        fn a_reader_of_part_of_the_outcomes_asks_for_no_more_tasks(
            first in 1u32..6, rounds in 0u32..4, following in proptest::collection::vec(0u32..3, 40),
            hidden in proptest::collection::btree_set(0u32..40, 0..20)
        ) {
            let all: BTreeMap<u32, u32> = (0..).zip(following).collect();
            let known = |number: u32| all.get(&number).copied().or(Some(0));
            let whole = asked(first, rounds, known);
            let part = asked(first, rounds, |n| known(n).filter(|_| !hidden.contains(&n)));
            prop_assert!(whole.settled);
            prop_assert!(part.tasks <= whole.tasks && part.round <= whole.round);
            prop_assert!(!part.settled || part == whole);
            prop_assert!(whole.tasks <= first * (0..=rounds).map(|round| 2u32.pow(round)).sum::<u32>());
        }
    }
}
