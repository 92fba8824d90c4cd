//! Messages as [`flopsmith_coordination::ledger`] sees them.

use flopsmith_coordination::ledger::{self, Samples};
use flopsmith_coordination::steps::Steps;
use flopsmith_protocol::{CandidateId, CandidateRef, GroupId, Outcome, Purpose, Rollout};

/// The outcomes and rollouts of training samples.
pub struct Messages;

/// The ledger of a learner.
pub type Ledger = ledger::Ledger<Messages>;
/// A sample of a complete step.
pub type Sample = ledger::Sample<Outcome, Rollout>;
/// The samples of a complete step, group by group.
pub type Groups = ledger::Groups<Outcome, Rollout>;

impl Samples for Messages {
    type Id = CandidateId;
    type Group = GroupId;
    type Outcome = Outcome;
    type Rollout = Rollout;

    fn of_outcome(outcome: &Outcome) -> (CandidateId, u64, u64) {
        let candidate = &outcome.candidate;
        (candidate.id.clone(), candidate.step, expected(candidate))
    }

    fn of_rollout(rollout: &Rollout) -> (CandidateId, u64) {
        (rollout.candidate.id.clone(), rollout.candidate.step)
    }

    fn group(outcome: &Outcome) -> GroupId {
        outcome.candidate.group.clone()
    }

    /// True if a policy wrote the sample and the outcome says something about it, or later turns of its conversation do.
    fn teaches(outcome: &Outcome) -> bool {
        let says = outcome.verdict.counts() || outcome.asked().is_some();
        outcome.candidate.policy.is_some() && says
    }

    fn belongs(rollout: &Rollout, outcome: &Outcome) -> bool {
        rollout.source == outcome.answer_digest()
    }
}

/// Outcomes of the candidate's step, as far as the candidate's task knows.
fn expected(candidate: &CandidateRef) -> u64 {
    u64::from(candidate.tasks_in_step) * u64::from(candidate.group_size)
}

/// Notes the outcome of a candidate. True if it is a first measurement, new, and of an open step.
pub(crate) fn note(steps: &mut Steps<CandidateId>, candidate: &CandidateRef) -> bool {
    candidate.purpose != Purpose::Certify
        && steps.note(candidate.step, expected(candidate), candidate.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_protocol::{Digest, InfrastructureCause, Request};
    use flopsmith_test_support::{asked, candidate, infrastructure, outcome, rollout, wrong};
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
        assert!(ledger.is_empty());
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
    fn steps_trained_before_are_skipped() {
        let mut ledger = Ledger::starting_at(2);
        for item in everything() {
            match item {
                Read::Outcome(outcome) => assert!(!ledger.outcome(outcome)),
                Read::Rollout(rollout) => ledger.rollout(rollout),
            }
        }
        assert_eq!(ledger.complete(), None);
        assert!(ledger.is_empty());
    }

    #[test]
    fn a_request_is_learnt_from_with_its_own_tokens_alone() {
        let read = |document: &str| {
            let document = document.to_owned();
            asked(candidate(1, 0, 0), Request::Read { document })
        };
        let known = read("gemm.md");
        assert!(Messages::teaches(&known));
        assert!(Messages::belongs(&rollout(&known), &known));
        // A generator that died may have answered its task once more with another request, or with no program.
        let mut nothing = outcome(candidate(1, 0, 0), wrong());
        nothing.source.clear();
        for other in [read("tiles.md"), nothing] {
            assert!(!Messages::belongs(&rollout(&other), &known));
        }
        // A request beside the verdict on a program is none, whichever node published it.
        let lost = infrastructure(InfrastructureCause::Jail);
        let forged = Outcome {
            request: known.request.clone(),
            ..outcome(candidate(1, 0, 0), lost)
        };
        assert!(!Messages::teaches(&forged));
        assert!(!Messages::belongs(&rollout(&known), &forged));
    }

    proptest! {
        /// The two logs are read side by side, and after a restart from their beginnings: any mixture gives the same step.
        #[test]
        fn the_order_of_arrival_does_not_matter(order in Just(everything()).prop_shuffle()) {
            prop_assert_eq!(read(order), read(everything()));
        }
    }
}
