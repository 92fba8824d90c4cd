//! Leaves out samples that count in their groups but are not trained on: answers that were cut off, and answers of a
//! policy that is too old. Pure.

use flopsmith_protocol::PolicyVersion;

use crate::advantages::Credited;
use flopsmith_config::{Advantage, Overlong};

/// The samples on which the policy of version `now` is trained, and the number of samples that were left out.
///
/// Best answers stay, because they were not drawn for this step.
pub fn taught(
    credited: Vec<Credited>,
    settings: &Advantage,
    now: PolicyVersion,
) -> (Vec<Credited>, u32) {
    let all = credited.len();
    let teaches = |sample: &Credited| {
        let rollout = &sample.rollout;
        let cut = settings.overlong == Overlong::LeaveOut && !rollout.finished;
        let limit = u64::from(settings.max_staleness);
        let stale = limit > 0
            && rollout
                .candidate
                .policy
                .is_some_and(|by| now.0.saturating_sub(by.0) > limit);
        rollout.logprobs.is_empty() || !(cut || stale)
    };
    let kept: Vec<Credited> = credited.into_iter().filter(teaches).collect();
    let left = (all - kept.len()) as u32;
    (kept, left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_test_support::{candidate, outcome, rollout, wrong};

    fn credited(policy: Option<u64>, finished: bool, drawn: bool) -> Credited {
        let mut rollout = rollout(&outcome(candidate(0, 0, 0), wrong()));
        rollout.candidate.policy = policy.map(PolicyVersion);
        rollout.finished = finished;
        if !drawn {
            rollout.logprobs.clear();
        }
        Credited {
            rollout,
            advantage: 1.0,
        }
    }

    #[test]
    fn what_was_cut_off_or_is_too_old_is_left_out_where_that_is_asked_for() {
        let samples = || {
            vec![
                credited(Some(7), true, true),
                credited(Some(7), false, true),
                credited(Some(4), true, true),
                credited(Some(5), true, true),
                credited(None, true, true),
                credited(Some(1), false, false),
            ]
        };
        let left = |overlong, max_staleness| {
            let settings = Advantage {
                overlong,
                max_staleness,
                ..Advantage::default()
            };
            let (kept, left) = taught(samples(), &settings, PolicyVersion(7));
            assert_eq!(kept.len() + left as usize, 6);
            left
        };
        assert_eq!(left(Overlong::Train, 0), 0);
        assert_eq!(left(Overlong::LeaveOut, 0), 1);
        assert_eq!(left(Overlong::Train, 2), 1);
        assert_eq!(left(Overlong::Train, 1), 2);
        assert_eq!(left(Overlong::LeaveOut, 1), 3);
    }
}
