//! The budget of a session: how many programs may be evaluated, and for how long. Pure: time comes in.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::results::Left;

/// The limits of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Number of programs; none without a limit.
    pub evaluations: Option<u64>,
    /// Time of evaluations; none without a limit.
    pub time: Option<Duration>,
}

#[derive(Debug, Default)]
struct Used {
    /// Programs, with those whose evaluation has not ended.
    evaluations: u64,
    time: Duration,
}

/// A budget.
#[derive(Debug, Default)]
pub struct Budget {
    limits: Limits,
    used: Mutex<Used>,
}

impl Budget {
    /// A budget of which nothing is used.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            used: Mutex::default(),
        }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves the evaluation of so many programs.
    ///
    /// # Errors
    /// A sentence, if the budget does not suffice.
    pub fn take(&self, programs: u64) -> Result<(), String> {
        let mut used = self.used();
        if let Some(most) = self.limits.evaluations
            && used.evaluations.saturating_add(programs) > most
        {
            return Err(format!(
                "the budget is used up: {} of {most} evaluations are used or under way, and this call needs {programs}; go on with the results that you have (best_programs shows them), or ask your user for a larger budget",
                used.evaluations
            ));
        }
        self.within(&used)?;
        used.evaluations = used.evaluations.saturating_add(programs);
        Ok(())
    }

    /// Checks that time is left. Calls that wait check it again: those before them may have used it.
    ///
    /// # Errors
    /// A sentence, if no time is left.
    pub fn check_time(&self) -> Result<(), String> {
        self.within(&self.used())
    }

    fn within(&self, used: &Used) -> Result<(), String> {
        match self.limits.time {
            Some(most) if used.time >= most => Err(format!(
                "the budget is used up: evaluations took {:.0} of {:.0} seconds; go on with the results that you have (best_programs shows them), or ask your user for a larger budget",
                used.time.as_secs_f64(),
                most.as_secs_f64()
            )),
            _ => Ok(()),
        }
    }

    /// A call has ended that reserved `taken` programs: it used `programs` of them, in this time.
    pub fn settle(&self, taken: u64, programs: u64, time: Duration) {
        let mut used = self.used();
        used.evaluations = used
            .evaluations
            .saturating_sub(taken.saturating_sub(programs));
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
            seconds: time.map(|most| most.saturating_sub(used.time).as_secs_f64()),
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn programs_that_cost_nothing_are_given_back() {
        let budget = Budget::new(Limits {
            evaluations: Some(3),
            time: None,
        });
        budget.take(2).unwrap();
        let error = budget.take(2).unwrap_err();
        assert!(error.contains("2 of 3 evaluations"), "{error}");
        budget.settle(2, 1, Duration::from_secs(5));
        budget.take(2).unwrap();
        assert_eq!(budget.left().unwrap().evaluations, Some(0));
        assert!(budget.take(1).is_err());
    }

    #[test]
    fn time_is_spent_once_an_evaluation_has_ended() {
        let budget = Budget::new(Limits {
            evaluations: None,
            time: Some(Duration::from_secs(10)),
        });
        budget.take(1).unwrap();
        budget.settle(1, 1, Duration::from_secs(9));
        assert_eq!(budget.left().unwrap().seconds, Some(1.0));
        budget.take(1).unwrap();
        assert_eq!(budget.check_time(), Ok(()));
        budget.settle(1, 1, Duration::from_secs(9));
        assert!(budget.check_time().is_err());
        let error = budget.take(1).unwrap_err();
        assert!(error.contains("18 of 10 seconds"), "{error}");
        assert_eq!(budget.left().unwrap().seconds, Some(0.0));
        assert_eq!(Budget::default().left(), None);
    }

    proptest! {
        #[test]
        fn no_order_of_calls_exceeds_the_number(calls in prop::collection::vec((1u64..5, 0u64..5), 0..40), most in 0u64..20) {
            let budget = Budget::new(Limits { evaluations: Some(most), time: None });
            let mut used = 0;
            for (programs, of_them) in calls {
                if budget.take(programs).is_ok() {
                    let of_them = of_them.min(programs);
                    used += of_them;
                    budget.settle(programs, of_them, Duration::ZERO);
                }
                prop_assert!(used <= most);
                prop_assert_eq!(budget.left().unwrap().evaluations, Some(most - used));
            }
        }
    }
}
