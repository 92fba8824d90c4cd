//! Dynamic sampling (Yu et al., 2025): groups whose rewards are all equal teach nothing. Other groups are drawn in
//! their place, until every group of a round has a spread or the limit of rounds is reached.
//!
//! The archive gives out tasks and the learner trains on them. Both decide by themselves which tasks a step has, and
//! have to agree. Tasks are numbered round by round. A round is decided once all its outcomes are there; the next round
//! has as many tasks as this one had groups without a spread.

/// The number of tasks of a step, as far as the step's known outcomes decide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Tasks of all rounds so far.
    pub tasks: u32,
    /// The last of these rounds; the first is 0.
    pub round: u32,
    /// True if every outcome of these tasks is there and no group is drawn again.
    pub settled: bool,
}

/// The tasks of a step that began with `first` tasks and has at most `rounds` further rounds. `flat` returns whether
/// the rewards of a task's group are all equal; none if outcomes of the group are missing.
pub fn asked(first: u32, rounds: u32, flat: impl Fn(u32) -> Option<bool>) -> Asked {
    let mut from = 0;
    let mut asked = Asked {
        tasks: first,
        round: 0,
        settled: false,
    };
    loop {
        let found: Option<Vec<bool>> = (from..asked.tasks).map(&flat).collect();
        let Some(found) = found else { return asked };
        let again = found.into_iter().filter(|flat| *flat).count() as u32;
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
        fn what_is_asked_for_only_grows(
            first in 1u32..6, rounds in 0u32..4, flats in proptest::collection::vec(any::<bool>(), 40),
            hidden in proptest::collection::btree_set(0u32..40, 0..20)
        ) {
            let all: BTreeMap<u32, bool> = (0..).zip(flats).collect();
            let known = |number: u32| all.get(&number).copied().or(Some(false));
            let whole = asked(first, rounds, known);
            let part = asked(first, rounds, |n| known(n).filter(|_| !hidden.contains(&n)));
            prop_assert!(whole.settled);
            prop_assert!(part.tasks <= whole.tasks && part.round <= whole.round);
            prop_assert!(!part.settled || part == whole);
            prop_assert!(whole.tasks <= first * (rounds + 1));
        }
    }
}
