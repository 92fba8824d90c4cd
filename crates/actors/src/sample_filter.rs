//! Leaves out samples that count in their groups but are not trained on: answers that were cut off, and answers of a
//! policy that is too old. Pure.

use flopsmith_protocol::PolicyVersion;

use crate::advantages::Advantaged;
use flopsmith_config::{Advantage, Overlong};

/// The samples on which the policy of version `now` is trained, and the number of samples that were left out.
///
/// Best answers stay, because they were not drawn for this step.
pub fn filter(
    samples: Vec<Advantaged>,
    settings: &Advantage,
    now: PolicyVersion,
) -> (Vec<Advantaged>, u32) {
    let all = samples.len();
    let keeps = |sample: &Advantaged| {
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
    let kept: Vec<Advantaged> = samples.into_iter().filter(keeps).collect();
    let filtered = (all - kept.len()) as u32;
    (kept, filtered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_test_support::{candidate, outcome, rollout, wrong};

    fn sample(policy: Option<u64>, finished: bool, drawn: bool) -> Advantaged {
        let mut rollout = rollout(&outcome(candidate(0, 0, 0), wrong()));
        rollout.candidate.policy = policy.map(PolicyVersion);
        rollout.finished = finished;
        if !drawn {
            rollout.logprobs.clear();
        }
        Advantaged {
            rollout,
            advantage: 1.0,
        }
    }

    #[test]
    fn truncated_and_stale_samples_are_left_out_on_request() {
        let samples = || {
            vec![
                sample(Some(7), true, true),
                sample(Some(7), false, true),
                sample(Some(4), true, true),
                sample(Some(5), true, true),
                sample(None, true, true),
                sample(Some(1), false, false),
            ]
        };
        let filtered = |overlong, max_staleness| {
            let settings = Advantage {
                overlong,
                max_staleness,
                ..Advantage::default()
            };
            let (kept, filtered) = filter(samples(), &settings, PolicyVersion(7));
            assert_eq!(kept.len() + filtered as usize, 6);
            filtered
        };
        assert_eq!(filtered(Overlong::Train, 0), 0);
        assert_eq!(filtered(Overlong::LeaveOut, 0), 1);
        assert_eq!(filtered(Overlong::Train, 2), 1);
        assert_eq!(filtered(Overlong::Train, 1), 2);
        assert_eq!(filtered(Overlong::LeaveOut, 1), 3);
    }
}
