//! The outcomes and rollouts of a training step, independent of the order in which their logs are read.

use std::collections::BTreeMap;

use crate::steps::Steps;

/// The properties of outcomes and rollouts that the ledger needs.
pub trait Samples {
    /// Names a candidate.
    type Id: Ord + Clone;
    /// Names a group of candidates, whose rewards are compared.
    type Group: Ord;
    /// An outcome of a candidate.
    type Outcome;
    /// The tokens of a candidate.
    type Rollout;

    /// The candidate and the step of an outcome, and the number of outcomes that its step has at least.
    fn of_outcome(outcome: &Self::Outcome) -> (Self::Id, u64, u64);
    /// The candidate and the step of a rollout.
    fn of_rollout(rollout: &Self::Rollout) -> (Self::Id, u64);
    /// The group of an outcome.
    fn group(outcome: &Self::Outcome) -> Self::Group;
    /// True if something can be learnt from the tokens of this outcome's program.
    fn teaches(outcome: &Self::Outcome) -> bool;
    /// True if the rollout's tokens form the program of the outcome.
    fn belongs(rollout: &Self::Rollout, outcome: &Self::Outcome) -> bool;
}

/// A sample of a complete step.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<O, R> {
    /// Its outcome.
    pub outcome: O,
    /// The tokens from which its source was extracted. None if nothing can be learnt from it (no policy wrote it, or
    /// its outcome says nothing about it). None also if the candidate's rollout belongs to another source: a generator
    /// that dies between rollouts and candidates may answer its task once more with other programs.
    pub rollout: Option<R>,
}

/// The samples of a complete step, group by group.
pub type Groups<O, R> = Vec<Vec<Sample<O, R>>>;

/// The outcomes and rollouts of the steps that are still open. The first outcome and the first rollout of a candidate
/// count.
pub struct Ledger<S: Samples> {
    steps: Steps<S::Id>,
    outcomes: BTreeMap<u64, BTreeMap<S::Id, S::Outcome>>,
    rollouts: BTreeMap<u64, BTreeMap<S::Id, S::Rollout>>,
}

impl<S: Samples> Ledger<S> {
    /// Steps below `first` are trained already.
    pub fn starting_at(first: u64) -> Self {
        Self {
            steps: Steps::starting_at(first),
            outcomes: BTreeMap::new(),
            rollouts: BTreeMap::new(),
        }
    }

    /// Notes an outcome of a training sample. True if it counts: each outcome of an open step counts once.
    pub fn outcome(&mut self, outcome: S::Outcome) -> bool {
        let (id, step, expected) = S::of_outcome(&outcome);
        let counts = self.steps.note(step, expected, id.clone());
        if counts {
            self.outcomes.entry(step).or_default().insert(id, outcome);
        }
        counts
    }

    /// Notes a rollout of a training sample. Only rollouts of open steps count.
    pub fn rollout(&mut self, rollout: S::Rollout) {
        let (id, step) = S::of_rollout(&rollout);
        if !self.steps.closed(step) {
            let step = self.rollouts.entry(step).or_default();
            step.entry(id).or_insert(rollout);
        }
    }

    /// The first step of which every outcome is here.
    pub fn complete(&self) -> Option<u64> {
        let mut steps = self.outcomes.keys().copied();
        steps.find(|step| self.steps.complete(*step))
    }

    /// The outcome of a candidate of an open step, if it is here.
    pub fn known(&self, step: u64, id: &S::Id) -> Option<&S::Outcome> {
        self.outcomes.get(&step)?.get(id)
    }

    /// The outcomes of `step` so far.
    pub fn outcomes(&self, step: u64) -> impl Iterator<Item = &S::Outcome> {
        self.outcomes
            .get(&step)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Candidates of `step` with an outcome to learn from whose rollout is still to be read.
    pub fn awaited(&self, step: u64) -> impl Iterator<Item = &S::Id> {
        let rollouts = self.rollouts.get(&step);
        self.outcomes
            .get(&step)
            .into_iter()
            .flatten()
            .filter(|(_, outcome)| S::teaches(outcome))
            .map(|(id, _)| id)
            .filter(move |id| rollouts.is_none_or(|rollouts| !rollouts.contains_key(*id)))
    }

    /// Takes a step out and closes it. The step should be [complete](Ledger::complete), with no rollout
    /// [awaited](Ledger::awaited).
    pub fn take(&mut self, step: u64) -> Groups<S::Outcome, S::Rollout> {
        let outcomes = self.outcomes.remove(&step).unwrap_or_default();
        let mut rollouts = self.rollouts.remove(&step).unwrap_or_default();
        self.steps.close(step);
        self.outcomes = self.outcomes.split_off(&step);
        self.rollouts = self.rollouts.split_off(&step);
        let mut groups: BTreeMap<S::Group, Vec<_>> = BTreeMap::new();
        for (id, outcome) in outcomes {
            let rollout = rollouts
                .remove(&id)
                .filter(|rollout| S::teaches(&outcome) && S::belongs(rollout, &outcome));
            let group = groups.entry(S::group(&outcome)).or_default();
            group.push(Sample { outcome, rollout });
        }
        groups.into_values().collect()
    }

    /// True if nothing is kept of any step.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty() && self.rollouts.is_empty()
    }
}
