//! The course of a run: evaluate, train while the budget lasts, evaluate again. Pure.

use flopsmith_config::Job;
use flopsmith_protocol::Purpose;
use serde::{Deserialize, Serialize};

/// Where a run stands. Saved with the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Course {
    job: Job,
    /// The current step and its purpose; none before the first and after the last.
    current: Option<(u64, Purpose)>,
    next_step: u64,
    trained: u64,
    finished: bool,
    /// Seconds that steps took lately, newest last.
    durations: Vec<f64>,
    /// Seconds the evaluation at the start took.
    evaluation: f64,
    /// Training or search steps in a row, up to now, in which programs were judged and none was correct.
    fruitless: u64,
}

/// The limits of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Seconds in all.
    pub seconds: f64,
    /// Training (or search) steps at most; 0 is no limit.
    pub steps: u64,
    /// Steps in a row without a correct program after which no further step begins; 0 is no limit.
    pub fruitless: u64,
    /// True if the source can write no further program, because its own budget is spent.
    pub exhausted: bool,
}

impl Budget {
    /// The share that is spent after `seconds` and `steps`, 0 to 1: the larger one of the shares of time and of steps.
    pub fn spent(&self, seconds: f64, steps: u64) -> f64 {
        let of_time = seconds / self.seconds.max(f64::MIN_POSITIVE);
        let of_steps = match self.steps {
            0 => 0.0,
            most => steps as f64 / most as f64,
        };
        of_time.max(of_steps).clamp(0.0, 1.0)
    }
}

/// The duration of another step is estimated by the median of this many steps before it.
const MEMORY: usize = 8;

impl Course {
    /// The course of a new run.
    pub fn new(job: Job) -> Self {
        Self {
            job,
            current: None,
            next_step: 0,
            trained: 0,
            finished: false,
            durations: Vec::new(),
            evaluation: 0.0,
            fruitless: 0,
        }
    }

    /// Notes how many programs of the current step were judged, and how many of these were correct. Called once, before
    /// the course continues.
    pub fn judged(&mut self, judged: u64, correct: u64) {
        let counts = matches!(self.current, Some((_, Purpose::Train | Purpose::Search)));
        if counts && judged > 0 {
            self.fruitless = if correct > 0 { 0 } else { self.fruitless + 1 };
        }
    }

    /// The current step.
    pub fn current(&self) -> Option<(u64, Purpose)> {
        self.current
    }

    /// Training steps done; also the policy version that the next step needs.
    pub fn trained(&self) -> u64 {
        self.trained
    }

    /// True if the run is over.
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// Ends the current step, which took `seconds`, and returns the next one, `elapsed` seconds into the run; none
    /// after the last.
    pub fn advance(
        &mut self,
        elapsed: f64,
        seconds: f64,
        budget: Budget,
    ) -> Option<(u64, Purpose)> {
        match self.current {
            Some((_, Purpose::Train | Purpose::Search)) => {
                self.trained += 1;
                self.durations.push(seconds);
                if self.durations.len() > MEMORY {
                    self.durations.remove(0);
                }
            }
            Some((_, Purpose::EvaluateStart)) => self.evaluation = seconds,
            _ => {}
        }
        let next = match (self.job, self.current.map(|c| c.1)) {
            (_, Some(Purpose::EvaluateEnd)) => None,
            (Job::Train, None) if !self.finished => Some(Purpose::EvaluateStart),
            (Job::Train, _) => {
                let fits = self.fits(elapsed, budget);
                Some(if fits {
                    Purpose::Train
                } else {
                    Purpose::EvaluateEnd
                })
            }
            (Job::Search, _) => self.fits(elapsed, budget).then_some(Purpose::Search),
        };
        self.current = next.map(|purpose| (self.next_step, purpose));
        match next {
            Some(_) => self.next_step += 1,
            None => self.finished = true,
        }
        self.current
    }

    fn fits(&self, elapsed: f64, budget: Budget) -> bool {
        let reached = |limit: u64, count: u64| limit > 0 && count >= limit;
        if budget.exhausted
            || reached(budget.steps, self.trained)
            || reached(budget.fruitless, self.fruitless)
        {
            return false;
        }
        // The median of the latest steps: one delayed step (a busy disk, a sleeping laptop) must not end the run.
        let mut sorted = self.durations.clone();
        sorted.sort_by(f64::total_cmp);
        let usual = sorted
            .get(sorted.len() / 2)
            .copied()
            .unwrap_or(self.evaluation);
        // Training makes programs correct, and correct programs take longer to evaluate: the last evaluation is
        // estimated like a step.
        let after = if self.job == Job::Train { usual } else { 0.0 };
        elapsed + usual + after <= budget.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(job: Job, budget: Budget, mut seconds: impl FnMut(u64) -> f64) -> (Vec<Purpose>, f64) {
        let mut course = Course::new(job);
        let (mut elapsed, mut last, mut seen) = (0.0, 0.0, Vec::new());
        while let Some((step, purpose)) = course.advance(elapsed, last, budget) {
            assert_eq!(step, seen.len() as u64);
            seen.push(purpose);
            last = seconds(step);
            elapsed += last;
        }
        assert!(course.finished());
        (seen, elapsed)
    }

    proptest! {
        #[test]
        fn a_training_run_begins_and_ends_with_an_evaluation_and_keeps_its_budget(
            budget in 10.0f64..1000.0, step in 0.5f64..20.0, most in 0u64..30
        ) {
            let budgeted = Budget { seconds: budget, steps: most, fruitless: 0, exhausted: false };
            let (seen, elapsed) = run(Job::Train, budgeted, |_| step);
            prop_assert_eq!(seen[0], Purpose::EvaluateStart);
            prop_assert_eq!(*seen.last().expect("not empty"), Purpose::EvaluateEnd);
            let trained = seen.iter().filter(|p| **p == Purpose::Train).count();
            prop_assert_eq!(trained, seen.len() - 2);
            prop_assert!(most == 0 || trained as u64 <= most);
            prop_assert!(elapsed <= budget.max(2.0 * step) + 1e-9, "{} of {}", elapsed, budget);
            if most == 0 {
                prop_assert!(elapsed + step > budget - step, "no time is left unused");
            }
        }

        #[test]
        fn a_search_is_nothing_but_search(budget in 10.0f64..1000.0, step in 0.5f64..20.0) {
            let budgeted = Budget { seconds: budget, steps: 0, fruitless: 0, exhausted: false };
            let (seen, elapsed) = run(Job::Search, budgeted, |_| step);
            prop_assert!(seen.iter().all(|p| *p == Purpose::Search));
            // The first step is always taken: how long it takes cannot be known before.
            prop_assert!(elapsed <= budget.max(step) + 1e-9);
        }
    }

    /// The purposes of a run of which so many programs of each training step are judged and correct.
    fn judged(job: Job, limit: u64, steps: &[(u64, u64)]) -> Vec<Purpose> {
        let mut course = Course::new(job);
        let budget = Budget {
            seconds: 1e9,
            steps: 0,
            fruitless: limit,
            exhausted: false,
        };
        let (mut seen, mut of_step) = (Vec::new(), steps.iter());
        while let Some((_, purpose)) = course.advance(0.0, 1.0, budget) {
            seen.push(purpose);
            // Nothing is correct before training.
            let counts = match purpose {
                Purpose::Train | Purpose::Search => of_step.next(),
                _ => Some(&(8, 0)),
            };
            let Some((judged, correct)) = counts else {
                break;
            };
            course.judged(*judged, *correct);
        }
        seen
    }

    #[test]
    fn a_run_whose_steps_have_no_correct_program_ends_after_so_many_in_a_row() {
        use Purpose::{EvaluateEnd, EvaluateStart, Search, Train};
        let nothing = [(8, 0); 9];
        assert_eq!(
            judged(Job::Train, 3, &nothing),
            [EvaluateStart, Train, Train, Train, EvaluateEnd]
        );
        assert_eq!(judged(Job::Search, 2, &nothing), [Search, Search]);
        // A correct program begins the count anew; a step without judged programs does not count.
        let some = [(8, 0), (8, 1), (8, 0), (0, 0), (8, 0), (8, 0)];
        assert_eq!(judged(Job::Search, 2, &some).len(), 5);
        // Without a limit it continues: ten are begun, and nine are judged.
        assert_eq!(judged(Job::Search, 0, &nothing).len(), 10);
    }

    #[test]
    fn a_search_whose_source_is_exhausted_ends_after_its_step() {
        let mut course = Course::new(Job::Search);
        let budget = |exhausted| Budget {
            seconds: 1e9,
            steps: 0,
            fruitless: 0,
            exhausted,
        };
        assert_eq!(
            course.advance(0.0, 0.0, budget(false)),
            Some((0, Purpose::Search))
        );
        assert_eq!(
            course.advance(1.0, 1.0, budget(false)),
            Some((1, Purpose::Search))
        );
        assert_eq!(course.advance(2.0, 1.0, budget(true)), None);
        assert!(course.finished());
    }

    #[test]
    fn the_spent_share_is_that_of_whatever_runs_out_first() {
        let budget = |steps| Budget {
            seconds: 100.0,
            steps,
            fruitless: 0,
            exhausted: false,
        };
        assert_eq!(budget(0).spent(25.0, 7), 0.25);
        assert_eq!(budget(10).spent(25.0, 7), 0.7);
        assert_eq!(budget(10).spent(80.0, 7), 0.8);
        assert_eq!(budget(0).spent(300.0, 7), 1.0);
    }

    #[test]
    fn the_last_step_leads_to_the_last_evaluation() {
        let mut course = Course::new(Job::Train);
        let budget = Budget {
            seconds: 1e9,
            steps: 1,
            fruitless: 0,
            exhausted: false,
        };
        course.advance(0.0, 0.0, budget);
        course.advance(1.0, 1.0, budget);
        assert_eq!(
            course.advance(2.0, 1.0, budget).map(|c| c.1),
            Some(Purpose::EvaluateEnd)
        );
        assert_eq!(course.advance(3.0, 1.0, budget), None);
        assert_eq!(course.trained(), 1);
    }
}
