//! Whether a node is to be trusted with work: one that fails at program after program takes none for a while. Pure.
//!
//! A farm has nodes without a compiler, with a full disk, a clock that is wrong or a jail that no longer begins. Such a node fails
//! fast, so it takes more work than all others and gives it back; and where it decided that a program cannot be worked off, it would decide
//! for all nodes. So it rests, longer each time, and tries again by itself: one program that goes well and it is as good as any. And
//! its failures say something of a program only where others went well here meanwhile.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flopsmith_protocol::CandidateId;

/// So many programs in a row fail at a stage before it rests.
const FAILURES: usize = 3;
/// How long it rests the first time; each further time twice as long.
const FIRST_REST: Duration = Duration::from_secs(10);
/// It never rests for longer.
const LONGEST_REST: Duration = Duration::from_secs(300);
/// Programs that failed here are remembered up to this number.
const REMEMBERED: usize = 10_000;

/// How the stages of a node stand. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct CircuitBreaker(Arc<Mutex<HashMap<&'static str, Stage>>>);

#[derive(Debug, Default)]
struct Stage {
    /// How often something went well.
    successes: u64,
    /// Programs that failed, and how often something had gone well when each did so first.
    failed: BTreeMap<CandidateId, u64>,
    /// Those that failed since something went well, or since it last rested.
    in_a_row: BTreeSet<CandidateId>,
    /// How often it has rested since something went well.
    rests: u32,
    /// Is it to rest now, for how long?
    due: Option<Duration>,
    /// Does it wait until its machine is as it was?
    waits: bool,
}

impl CircuitBreaker {
    fn with<T>(&self, stage: &'static str, change: impl FnOnce(&mut Stage) -> T) -> T {
        let mut stages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(stages.entry(stage).or_default())
    }

    /// A stage did its work, whatever it found of the program.
    pub fn worked(&self, stage: &'static str) {
        self.with(stage, |stage| {
            stage.successes += 1;
            stage.in_a_row.clear();
            stage.rests = 0;
            stage.due = None;
        });
    }

    /// A stage failed at a program through no fault of that.
    pub fn failed(&self, stage: &'static str, candidate: &CandidateId) {
        self.with(stage, |stage| {
            if stage.failed.len() >= REMEMBERED {
                stage.failed.clear();
            }
            let successes = stage.successes;
            stage.failed.entry(candidate.clone()).or_insert(successes);
            // The same one again may be its own doing.
            let another = stage.in_a_row.insert(candidate.clone());
            if !another && stage.rests == 0 {
                return;
            }
            // Who has rested has to show one that goes well.
            let enough = if stage.rests > 0 { 1 } else { FAILURES };
            if stage.in_a_row.len() >= enough && stage.due.is_none() {
                let doubled = FIRST_REST.saturating_mul(1 << stage.rests.min(16));
                stage.due = Some(doubled.min(LONGEST_REST));
                stage.in_a_row.clear();
                stage.rests += 1;
            }
        });
    }

    /// Do the failures of this stage say something of a program? They do where others went well here since it first failed.
    pub fn vouches(&self, stage: &'static str, candidate: &CandidateId) -> bool {
        self.with(stage, |stage| {
            let first = stage.failed.get(candidate);
            first.is_none_or(|first| *first < stage.successes)
        })
    }

    /// Is the stage to take no more work, and for how long? Said once.
    pub fn rest(&self, stage: &'static str) -> Option<Duration> {
        self.with(stage, |stage| stage.due.take())
    }

    /// A stage waits until its machine is as it was, or no longer does.
    pub fn waits(&self, stage: &'static str, waits: bool) {
        self.with(stage, |stage| stage.waits = waits);
    }

    /// The stages, and whether each has rested and not yet shown that it can work, or waits.
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
    use flopsmith_test_support::candidate;
    use proptest::prelude::*;

    fn program(number: u32) -> CandidateId {
        candidate(0, number, 0).id
    }

    fn rests(standing: &CircuitBreaker, programs: impl IntoIterator<Item = u32>) -> Vec<u64> {
        let rest = |number| {
            standing.failed("time", &program(number));
            standing.rest("time").map(|rest| rest.as_secs())
        };
        programs.into_iter().filter_map(rest).collect()
    }

    #[test]
    fn what_fails_in_a_row_rests_longer_each_time_and_forgets_it_once_it_works() {
        let standing = CircuitBreaker::default();
        assert_eq!(rests(&standing, 0..2), [0; 0]);
        assert_eq!(rests(&standing, 2..9), [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(
            standing.rest("compile"),
            None,
            "each stage stands for itself"
        );
        assert_eq!(standing.doubtful().len(), 2);
        standing.worked("time");
        assert!(standing.doubtful().iter().all(|(_, doubtful)| !doubtful));
        assert_eq!(rests(&standing, 20..23), [10]);
        standing.waits("compile", true);
        assert!(standing.doubtful().contains(&("compile", true)));
        standing.waits("compile", false);
        assert!(standing.doubtful().contains(&("compile", false)));
    }

    #[test]
    fn one_program_that_fails_again_and_again_is_no_reason_to_rest_until_another_one_does() {
        let standing = CircuitBreaker::default();
        assert_eq!(rests(&standing, [7; 20]), [0; 0]);
        assert!(!standing.vouches("time", &program(7)), "it may be the node");
        standing.worked("time");
        assert!(standing.vouches("time", &program(7)));
        standing.failed("time", &program(7));
        assert!(
            standing.vouches("time", &program(7)),
            "others went well meanwhile"
        );
        standing.failed("time", &program(8));
        assert!(!standing.vouches("time", &program(8)));
    }

    proptest! {
        /// Whatever it was like before, a stage of which every third program at least goes well never rests.
        #[test]
        fn now_and_then_a_failure_is_nothing(failures in proptest::collection::vec(0u32..3, 0..60)) {
            let standing = CircuitBreaker::default();
            let mut number = 0;
            for count in failures {
                prop_assert!(rests(&standing, number..number + count).is_empty());
                number += count;
                standing.worked("time");
            }
        }
    }
}
