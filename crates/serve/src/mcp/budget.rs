//! Budgets of clients: how many programs may be evaluated, and for how long. Pure: time comes in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::results::Left;
use crate::auth::Holder;
use crate::job::lock;

/// The limits of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Number of programs; none without a limit.
    pub evaluations: Option<u64>,
    /// Time of evaluations; none without a limit.
    pub time: Option<Duration>,
}

/// The part of a budget that a call is going to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Number of programs whose result is not known.
    pub programs: u64,
    /// Expected time of their evaluations.
    pub time: Duration,
}

#[derive(Debug, Default)]
struct Used {
    /// Programs, with those whose evaluation has not ended.
    evaluations: u64,
    /// Time of the calls that have ended.
    time: Duration,
    /// Expected time of the calls under way.
    reserved: Duration,
}

/// A budget.
#[derive(Debug, Default)]
pub struct Budget {
    limits: Limits,
    used: Mutex<Used>,
}

/// The budgets of all clients: each token has one of its own, and clients without a token share one.
#[derive(Debug, Default)]
pub struct Budgets {
    limits: Limits,
    /// The tokens of a service are bounded, and so is this.
    by: Mutex<HashMap<Holder, Arc<Budget>>>,
}

impl Budgets {
    /// Budgets with these limits, of which nothing is used.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            by: Mutex::default(),
        }
    }

    /// The budget of a client.
    pub fn of(&self, holder: Holder) -> Arc<Budget> {
        let mut by = lock(&self.by);
        let budget = by.entry(holder);
        Arc::clone(budget.or_insert_with(|| Arc::new(Budget::new(self.limits))))
    }
}

/// The share of a call outside the queue. The end of this value settles it.
pub struct Reserved {
    budget: Arc<Budget>,
    share: Share,
    used: Share,
}

impl Reserved {
    /// Reserves the share of a call.
    ///
    /// # Errors
    /// As [`Budget::take`].
    pub fn of(budget: &Arc<Budget>, share: Share) -> Result<Self, String> {
        budget.take(share)?;
        Ok(Self {
            budget: Arc::clone(budget),
            share,
            used: Share::default(),
        })
    }

    /// Settles with what the call used. Without this the call used nothing.
    pub fn settle(mut self, used: Share) {
        self.used = used;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let Share { programs, time } = self.used;
        self.budget.settle(self.share, programs, time);
    }
}

/// The advice to an agent whose budget does not suffice.
const GO_ON: &str = "go on with the results that you have (best_programs shows them, and programs that were evaluated before cost nothing), or ask your user for a larger budget";

impl Budget {
    /// A budget of which nothing is used.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            used: Mutex::default(),
        }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        lock(&self.used)
    }

    /// Reserves the share of a call. Programs that are known need no budget.
    ///
    /// # Errors
    /// A sentence, if the budget does not suffice beside the calls under way.
    pub fn take(&self, share: Share) -> Result<(), String> {
        let mut used = self.used();
        let evaluations = used.evaluations.saturating_add(share.programs);
        if let Some(most) = self.limits.evaluations
            && evaluations > most
            && share.programs > 0
        {
            return Err(format!(
                "the budget is used up: {} of {most} evaluations are used or under way, and this call needs {}; {GO_ON}",
                used.evaluations, share.programs
            ));
        }
        let before = used.time.saturating_add(used.reserved);
        if let Some(most) = self.limits.time
            && before.saturating_add(share.time) > most
            && !share.time.is_zero()
        {
            let (before, most) = (before.as_secs_f64(), most.as_secs_f64());
            return Err(if before >= most {
                format!(
                    "the budget is used up: evaluations took, or are going to take, {before:.0} of {most:.0} seconds; {GO_ON}"
                )
            } else {
                format!(
                    "the budget does not suffice: this call is expected to take {:.1} seconds, and {:.1} of {most:.0} are left; send fewer programs or ask for a quicker purpose, {GO_ON}",
                    share.time.as_secs_f64(),
                    most - before
                )
            });
        }
        used.evaluations = evaluations;
        used.reserved = used.reserved.saturating_add(share.time);
        Ok(())
    }

    /// Checks a call under way: `time` is the time that its evaluations have taken and those that have to come next are
    /// going to take. Calls that have ended may have used more than they reserved.
    ///
    /// # Errors
    /// A sentence, if the time is used up.
    pub fn check(&self, time: Duration) -> Result<(), String> {
        let used = self.used().time;
        match self.limits.time {
            Some(most) if used.saturating_add(time) > most => Err(format!(
                "the budget is used up: evaluations took {:.0} of {:.0} seconds, and the rest of this call needs more than that leaves; results so far are kept; {GO_ON}",
                used.as_secs_f64(),
                most.as_secs_f64()
            )),
            _ => Ok(()),
        }
    }

    /// A call has ended that reserved `share`: it used `programs` of it, in this time.
    pub fn settle(&self, share: Share, programs: u64, time: Duration) {
        let mut used = self.used();
        let unused = share.programs.saturating_sub(programs);
        used.evaluations = used.evaluations.saturating_sub(unused);
        used.reserved = used.reserved.saturating_sub(share.time);
        used.time = used.time.saturating_add(time);
    }

    /// The rest; none without a limit.
    pub fn left(&self) -> Option<Left> {
        let Limits { evaluations, time } = self.limits;
        if evaluations.is_none() && time.is_none() {
            return None;
        }
        let used = self.used();
        Some(Left {
            evaluations: evaluations.map(|most| most.saturating_sub(used.evaluations)),
            seconds: time.map(|most| {
                let left = most.saturating_sub(used.time);
                left.saturating_sub(used.reserved).as_secs_f64()
            }),
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::auth::Token;

    fn share(programs: u64, seconds: u64) -> Share {
        Share {
            programs,
            time: Duration::from_secs(seconds),
        }
    }

    fn within(seconds: u64) -> Budget {
        Budget::new(Limits {
            evaluations: None,
            time: Some(Duration::from_secs(seconds)),
        })
    }

    #[test]
    fn programs_that_cost_nothing_are_given_back() {
        let budget = Budget::new(Limits {
            evaluations: Some(3),
            time: None,
        });
        budget.take(share(2, 0)).unwrap();
        let error = budget.take(share(2, 0)).unwrap_err();
        assert!(error.contains("2 of 3 evaluations"), "{error}");
        budget.settle(share(2, 0), 1, Duration::from_secs(5));
        budget.take(share(2, 0)).unwrap();
        assert_eq!(budget.left().unwrap().evaluations, Some(0));
        assert!(budget.take(share(1, 0)).is_err());
        // A known program is no evaluation.
        budget.take(share(0, 0)).unwrap();
    }

    #[test]
    fn a_call_whose_expected_time_does_not_fit_is_not_begun() {
        let budget = within(10);
        let error = budget.take(share(6, 12)).unwrap_err();
        assert!(error.contains("take 12.0 seconds, and 10.0 of"), "{error}");
        assert_eq!(budget.left().unwrap().seconds, Some(10.0));
        budget.take(share(3, 6)).unwrap();
        // The first call is under way, so its time is not there for another one.
        assert!(budget.take(share(3, 6)).is_err());
        budget.take(share(2, 4)).unwrap();
        assert_eq!(budget.left().unwrap().seconds, Some(0.0));
        let error = budget.take(share(1, 1)).unwrap_err();
        assert!(error.contains("used up"), "{error}");
        budget.settle(share(3, 6), 3, Duration::from_secs(1));
        budget.take(share(2, 5)).unwrap();
    }

    #[test]
    fn a_call_that_takes_longer_than_expected_leaves_nothing_to_others() {
        let budget = within(10);
        budget.take(share(1, 1)).unwrap();
        budget.take(share(1, 2)).unwrap();
        budget.settle(share(1, 1), 1, Duration::from_secs(9));
        // The second call waits, and does not fit any more.
        let error = budget.check(Duration::from_secs(2)).unwrap_err();
        assert!(error.contains("9 of 10 seconds"), "{error}");
        assert_eq!(budget.check(Duration::from_secs(1)), Ok(()));
        budget.settle(share(1, 2), 0, Duration::from_secs(9));
        let error = budget.take(share(1, 1)).unwrap_err();
        assert!(error.contains("18 of 10 seconds"), "{error}");
        assert_eq!(budget.left().unwrap().seconds, Some(0.0));
        // Known results need no time.
        budget.take(share(0, 0)).unwrap();
        assert_eq!(Budget::default().left(), None);
    }

    #[test]
    fn a_token_has_a_budget_of_its_own() {
        let limits = Limits {
            evaluations: Some(1),
            time: None,
        };
        let budgets = Budgets::new(limits);
        let tokens = Token::new("0123456789abcdef\nfedcba9876543210").unwrap();
        let holder = |header: &str| tokens.holder(Some(header.as_bytes())).unwrap();
        let first = holder("Bearer 0123456789abcdef");
        let second = holder("Bearer fedcba9876543210");
        for holder in [first, second, Holder::default()] {
            budgets.of(holder).take(share(1, 0)).unwrap();
            assert!(budgets.of(holder).take(share(1, 0)).is_err());
        }
    }

    #[test]
    fn a_reserved_share_that_is_not_used_is_given_back() {
        let budget = Arc::new(Budget::new(Limits {
            evaluations: Some(1),
            time: Some(Duration::from_secs(10)),
        }));
        let reserved = Reserved::of(&budget, share(1, 4)).unwrap();
        assert!(Reserved::of(&budget, share(1, 0)).is_err());
        drop(reserved);
        let reserved = Reserved::of(&budget, share(1, 4)).unwrap();
        reserved.settle(share(1, 3));
        let left = budget.left().unwrap();
        assert_eq!((left.evaluations, left.seconds), (Some(0), Some(7.0)));
    }

    proptest! {
        #[test]
        fn no_order_of_calls_exceeds_the_number(calls in prop::collection::vec((1u64..5, 0u64..5), 0..40), most in 0u64..20) {
            let budget = Budget::new(Limits { evaluations: Some(most), time: None });
            let mut used = 0;
            for (programs, of_them) in calls {
                if budget.take(share(programs, 0)).is_ok() {
                    let of_them = of_them.min(programs);
                    used += of_them;
                    budget.settle(share(programs, 0), of_them, Duration::ZERO);
                }
                prop_assert!(used <= most);
                prop_assert_eq!(budget.left().unwrap().evaluations, Some(most - used));
            }
        }

        #[test]
        fn calls_that_take_what_was_expected_stay_within_the_time(calls in prop::collection::vec((1u64..9, any::<bool>()), 0..40), most in 0u64..30) {
            let budget = within(most);
            let (mut spent, mut under_way) = (0, Vec::new());
            for (seconds, ends_one) in calls {
                if budget.take(share(1, seconds)).is_ok() {
                    under_way.push(seconds);
                }
                if ends_one && let Some(seconds) = under_way.pop() {
                    spent += seconds;
                    budget.settle(share(1, seconds), 1, Duration::from_secs(seconds));
                }
                let all = spent + under_way.iter().sum::<u64>();
                prop_assert!(all <= most, "{all} of {most}");
            }
        }
    }
}
