//! Decides whether a node is trusted with work: a node that fails at program after program takes no work for a while.
//!
//! A cluster may have nodes without a compiler, with a full disk, with a wrong clock or with a jail that no longer
//! starts. Such a node fails fast, so it takes more work than the others and gives it back. If such a node decided that
//! a program cannot be processed, it would decide for all nodes. Therefore the node rests, longer each time, and then
//! tries again by itself; one program that goes well restores full trust. A failure on the node counts against a
//! program only if other programs went well on the node meanwhile.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::delivery::doubled;

/// This many programs in a row fail at a stage before the stage rests.
const FAILURES: usize = 3;
/// Length of the first rest; each further rest is twice as long.
const FIRST_REST: Duration = Duration::from_secs(10);
/// No rest is longer than this.
const LONGEST_REST: Duration = Duration::from_secs(300);
/// Number of failed programs that are remembered.
const REMEMBERED: usize = 10_000;

/// The state of the stages of a node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CircuitBreaker<Id>(Arc<Mutex<HashMap<&'static str, Stage<Id>>>>);

#[derive(Debug)]
struct Stage<Id> {
    /// Number of successes.
    successes: u64,
    /// Failed programs, each with the number of successes at its first failure.
    failed: BTreeMap<Id, u64>,
    /// Programs that failed since the last success or the last rest.
    in_a_row: BTreeSet<Id>,
    /// Number of rests since the last success.
    rests: u32,
    /// The rest that is due now, if one is.
    due: Option<Duration>,
    /// True while the stage waits for its machine to be as before.
    waits: bool,
}

impl<Id> Default for CircuitBreaker<Id> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<Id> Default for Stage<Id> {
    fn default() -> Self {
        Self {
            successes: 0,
            failed: BTreeMap::new(),
            in_a_row: BTreeSet::new(),
            rests: 0,
            due: None,
            waits: false,
        }
    }
}

impl<Id: Ord + Clone> CircuitBreaker<Id> {
    fn with<T>(&self, stage: &'static str, change: impl FnOnce(&mut Stage<Id>) -> T) -> T {
        let mut stages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(stages.entry(stage).or_default())
    }

    /// Notes that a stage did its work, whether the program passed or not.
    pub fn worked(&self, stage: &'static str) {
        self.with(stage, |stage| {
            stage.successes += 1;
            stage.in_a_row.clear();
            stage.rests = 0;
            stage.due = None;
        });
    }

    /// Notes that a stage failed at a program through no fault of the program.
    pub fn failed(&self, stage: &'static str, candidate: &Id) {
        self.with(stage, |stage| {
            if stage.failed.len() >= REMEMBERED {
                stage.failed.clear();
            }
            let successes = stage.successes;
            stage.failed.entry(candidate.clone()).or_insert(successes);
            // A repeated failure of the same program may be that program's own doing.
            let another = stage.in_a_row.insert(candidate.clone());
            if !another && stage.rests == 0 {
                return;
            }
            // After a rest the stage has to succeed first: a single failure leads to the next rest.
            let enough = if stage.rests > 0 { 1 } else { FAILURES };
            if stage.in_a_row.len() >= enough && stage.due.is_none() {
                stage.due = Some(doubled(FIRST_REST, stage.rests, LONGEST_REST));
                stage.in_a_row.clear();
                stage.rests += 1;
            }
        });
    }

    /// True if a failure of this stage says something of a program: other programs went well here since that program
    /// first failed.
    pub fn vouches(&self, stage: &'static str, candidate: &Id) -> bool {
        self.with(stage, |stage| {
            let first = stage.failed.get(candidate);
            first.is_none_or(|first| *first < stage.successes)
        })
    }

    /// How long the stage is to take no more work, if a rest is due. Returned once.
    pub fn rest(&self, stage: &'static str) -> Option<Duration> {
        self.with(stage, |stage| stage.due.take())
    }

    /// Notes whether a stage waits for its machine to be as before.
    pub fn waits(&self, stage: &'static str, waits: bool) {
        self.with(stage, |stage| stage.waits = waits);
    }

    /// The stages. The value is true for a stage that waits, or that has rested and has had no success since.
    pub fn doubtful(&self) -> Vec<(&'static str, bool)> {
        let stages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let doubtful = stages
            .iter()
            .map(|(name, s)| (*name, s.rests > 0 || s.waits));
        doubtful.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rests(breaker: &CircuitBreaker<u32>, programs: impl IntoIterator<Item = u32>) -> Vec<u64> {
        let rest = |number| {
            breaker.failed("time", &number);
            breaker.rest("time").map(|rest| rest.as_secs())
        };
        programs.into_iter().filter_map(rest).collect()
    }

    #[test]
    fn rests_grow_with_failures_in_a_row_and_a_success_resets_them() {
        let breaker = CircuitBreaker::default();
        assert_eq!(rests(&breaker, 0..2), [0; 0]);
        assert_eq!(rests(&breaker, 2..9), [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(
            breaker.rest("compile"),
            None,
            "each stage stands for itself"
        );
        assert_eq!(breaker.doubtful().len(), 2);
        breaker.worked("time");
        assert!(breaker.doubtful().iter().all(|(_, doubtful)| !doubtful));
        assert_eq!(rests(&breaker, 20..23), [10]);
        breaker.waits("compile", true);
        assert!(breaker.doubtful().contains(&("compile", true)));
        breaker.waits("compile", false);
        assert!(breaker.doubtful().contains(&("compile", false)));
    }

    #[test]
    fn one_program_that_fails_again_and_again_is_no_reason_to_rest_until_another_one_does() {
        let breaker = CircuitBreaker::default();
        assert_eq!(rests(&breaker, [7; 20]), [0; 0]);
        assert!(!breaker.vouches("time", &7), "it may be the node");
        breaker.worked("time");
        assert!(breaker.vouches("time", &7));
        breaker.failed("time", &7);
        assert!(breaker.vouches("time", &7), "others went well meanwhile");
        breaker.failed("time", &8);
        assert!(!breaker.vouches("time", &8));
    }

    proptest! {
        /// A stage at which at least every third program goes well never rests, whatever happened before.
        #[test]
        fn now_and_then_a_failure_is_nothing(failures in proptest::collection::vec(0u32..3, 0..60)) {
            let breaker = CircuitBreaker::default();
            let mut number = 0;
            for count in failures {
                prop_assert!(rests(&breaker, number..number + count).is_empty());
                number += count;
                breaker.worked("time");
            }
        }
    }
}
