//! The outcomes and rollouts of a training step, independent of the order in which their logs are read. Pure.

use std::collections::BTreeMap;

use flopsmith_protocol::{CandidateId, Digest, GroupId, Outcome, Purpose, Rollout};

use crate::steps::Steps;

/// A sample of a complete step.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its outcome.
    pub outcome: Outcome,
    /// The tokens from which its source was extracted. None if nothing can be learnt from it (no policy wrote it, or
    /// its outcome says nothing about it). None also if the candidate's rollout belongs to another source: a generator
    /// that dies between rollouts and candidates may answer its task once more with other programs.
    pub rollout: Option<Rollout>,
}

/// The samples of a complete step, group by group.
pub type Groups = Vec<Vec<Sample>>;

/// The outcomes and rollouts of the steps that are still open. The first outcome and the first rollout of a candidate
/// count.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    steps: Steps,
    outcomes: BTreeMap<u64, BTreeMap<CandidateId, Outcome>>,
    rollouts: BTreeMap<u64, BTreeMap<CandidateId, Rollout>>,
}

impl Ledger {
    /// Steps below `first` are trained already.
    pub fn starting_at(first: u64) -> Self {
        Self {
            steps: Steps::starting_at(first),
            ..Self::default()
        }
    }

    /// Notes an outcome. True if it counts: each outcome of a training sample of an open step counts once.
    pub fn outcome(&mut self, outcome: Outcome) -> bool {
        let candidate = &outcome.candidate;
        if candidate.purpose != Purpose::Train || !self.steps.note(candidate) {
            return false;
        }
        let (step, id) = (candidate.step, candidate.id.clone());
        self.outcomes.entry(step).or_default().insert(id, outcome);
        true
    }

    /// Notes a rollout. Only rollouts of training samples of open steps count.
    pub fn rollout(&mut self, rollout: Rollout) {
        let candidate = &rollout.candidate;
        if candidate.purpose != Purpose::Train || self.steps.closed(candidate.step) {
            return;
        }
        let (step, id) = (candidate.step, candidate.id.clone());
        let step = self.rollouts.entry(step).or_default();
        step.entry(id).or_insert(rollout);
    }

    /// The first step of which every outcome is here.
    pub fn complete(&self) -> Option<u64> {
        let mut steps = self.outcomes.keys().copied();
        steps.find(|step| self.steps.complete(*step))
    }

    /// The outcomes of `step` so far.
    pub fn outcomes(&self, step: u64) -> impl Iterator<Item = &Outcome> {
        self.outcomes
            .get(&step)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Candidates of `step` with an outcome to learn from whose rollout is still to be read.
    pub fn awaited(&self, step: u64) -> impl Iterator<Item = &CandidateId> {
        let rollouts = self.rollouts.get(&step);
        self.outcomes
            .get(&step)
            .into_iter()
            .flatten()
            .filter(|(_, outcome)| teaches(outcome))
            .map(|(id, _)| id)
            .filter(move |id| rollouts.is_none_or(|r| !r.contains_key(*id)))
    }

    /// Takes a step out and closes it. The step should be [complete](Ledger::complete), with no rollout
    /// [awaited](Ledger::awaited).
    pub fn take(&mut self, step: u64) -> Groups {
        let outcomes = self.outcomes.remove(&step).unwrap_or_default();
        let mut rollouts = self.rollouts.remove(&step).unwrap_or_default();
        self.steps.close(step);
        self.outcomes = self.outcomes.split_off(&step);
        self.rollouts = self.rollouts.split_off(&step);
        let mut groups: BTreeMap<GroupId, Vec<Sample>> = BTreeMap::new();
        for (id, outcome) in outcomes {
            let rollout = rollouts
                .remove(&id)
                .filter(|r| teaches(&outcome) && r.source == Digest::of(outcome.source.as_bytes()));
            groups
                .entry(outcome.candidate.group.clone())
                .or_default()
                .push(Sample { outcome, rollout });
        }
        groups.into_values().collect()
    }
}

/// True if a policy wrote the sample and the outcome says something about it.
fn teaches(outcome: &Outcome) -> bool {
    outcome.candidate.policy.is_some() && outcome.verdict.counts()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_protocol::{CandidateRef, InfrastructureCause};
    use flopsmith_test_support::{candidate, infrastructure, outcome, rollout, wrong};
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    #[expect(clippy::large_enum_variant, reason = "a dozen of them, for a moment")]
    enum Read {
        Outcome(Outcome),
        Rollout(Rollout),
    }

    /// Two groups of three: programs that teach, one that the infrastructure failed, one that was lost before a
    /// generator wrote it, and one whose rollout is of another source.
    fn everything() -> Vec<Read> {
        let mut all = Vec::new();
        for (group, sample) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
            let written = CandidateRef {
                group_size: 3,
                ..candidate(1, group, sample)
            };
            let unwritten = CandidateRef {
                policy: None,
                ..written.clone()
            };
            let outcome = match (group, sample) {
                (0, 1) => outcome(written, infrastructure(InfrastructureCause::Jail)),
                (1, 0) => outcome(unwritten, infrastructure(InfrastructureCause::Jail)),
                _ => outcome(written, wrong()),
            };
            if outcome.candidate.policy.is_some() {
                let mut rollout = rollout(&outcome);
                if (group, sample) == (1, 2) {
                    rollout.source = Digest::of(b"something else");
                }
                all.push(Read::Rollout(rollout));
            }
            all.push(Read::Outcome(outcome));
        }
        all
    }

    /// Reads in this order; the groups are taken as soon as they may be.
    fn read(order: impl IntoIterator<Item = Read>) -> Option<Groups> {
        let mut ledger = Ledger::starting_at(1);
        let mut taken = None;
        for item in order {
            match item {
                Read::Outcome(outcome) => assert!(ledger.outcome(outcome)),
                Read::Rollout(rollout) => ledger.rollout(rollout),
            }
            if let Some(step) = ledger.complete()
                && ledger.awaited(step).next().is_none()
            {
                assert!(taken.is_none(), "a step is taken once");
                taken = Some(ledger.take(step));
            }
        }
        assert!(ledger.outcomes.is_empty() && ledger.rollouts.is_empty());
        taken
    }

    #[test]
    fn groups_hold_what_belongs_together() {
        let groups = read(everything()).expect("all is there");
        let tokens = |group: usize| -> Vec<bool> {
            groups[group].iter().map(|s| s.rollout.is_some()).collect()
        };
        assert_eq!(groups.len(), 2);
        assert_eq!(tokens(0), [true, false, true]);
        assert_eq!(tokens(1), [false, true, false]);
        for sample in groups.iter().flatten() {
            if let Some(rollout) = &sample.rollout {
                assert_eq!(rollout.candidate.id, sample.outcome.candidate.id);
            }
        }
    }

    #[test]
    fn a_step_whose_outcomes_came_first_waits_for_its_rollouts() {
        let mut ledger = Ledger::starting_at(1);
        let (outcomes, rollouts): (Vec<Read>, Vec<Read>) = everything()
            .into_iter()
            .partition(|r| matches!(r, Read::Outcome(_)));
        for item in outcomes {
            let Read::Outcome(outcome) = item else {
                continue;
            };
            assert!(ledger.outcome(outcome.clone()));
            assert!(!ledger.outcome(outcome), "each counts once");
        }
        assert_eq!(ledger.complete(), Some(1));
        assert_eq!(ledger.awaited(1).count(), 4);
        for item in rollouts {
            let Read::Rollout(rollout) = item else {
                continue;
            };
            ledger.rollout(rollout);
        }
        assert_eq!(ledger.awaited(1).count(), 0);
    }

    #[test]
    fn what_was_trained_before_is_passed_over() {
        let mut ledger = Ledger::starting_at(2);
        for item in everything() {
            match item {
                Read::Outcome(outcome) => assert!(!ledger.outcome(outcome)),
                Read::Rollout(rollout) => ledger.rollout(rollout),
            }
        }
        assert_eq!(ledger.complete(), None);
        assert!(ledger.outcomes.is_empty() && ledger.rollouts.is_empty());
    }

    proptest! {
        /// The two logs are read side by side, and after a restart from their beginnings: any mixture gives the same step.
        #[test]
        fn the_order_of_arrival_does_not_matter(order in Just(everything()).prop_shuffle()) {
            prop_assert_eq!(read(order), read(everything()));
        }
    }
}
