//! Prompts for reinforcement, with the time that their answers are compared with.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Program, groups};

/// A prompt to answer: one line of a file of exercises.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exercise {
    /// Problem to solve. If `median_s` is set, answers are run, so this must name a problem definition.
    pub problem: String,
    /// Names of the problem's workloads at which answers are timed; empty for all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// The prompt.
    pub prompt: String,
    /// Median time of the known right programs, seconds; an answer's time is compared with it. Null if there are no
    /// tests; a reward model then judges the answers.
    #[serde(default)]
    pub median_s: Option<f64>,
}

/// An exercise for each problem, its workloads, and prompt.
pub fn exercises<'a>(programs: impl IntoIterator<Item = &'a Program>) -> Vec<Exercise> {
    groups(programs)
        .iter()
        .map(|group| Exercise {
            problem: group.problem.to_owned(),
            workloads: group.workloads.to_vec(),
            prompt: group.prompt.to_owned(),
            median_s: group.median_s(),
        })
        .collect()
}

/// The reward of an answer (Nichols et al., equation 4): −1 if it fails its tests, otherwise `median_s` over its own
/// time less 1. `seconds` is `None` for an answer that fails.
pub fn reward(median_s: f64, seconds: Option<f64>) -> f64 {
    match seconds {
        Some(seconds) => median_s / seconds - 1.0,
        None => -1.0,
    }
}

/// The feedback on an answer before the next one is requested: a correct answer's seconds a call, a failure of its
/// tests, or, without tests, a reward model's score.
pub fn follow_up(seconds: Option<f64>, score: Option<f64>) -> String {
    match (seconds, score) {
        (Some(seconds), _) => {
            format!("This is right and takes {seconds:.3e} s a call. Write a faster one.")
        }
        (None, Some(score)) => {
            format!("This is rated {score:.2}. Write a faster one.")
        }
        (None, None) => {
            "This does not pass its tests. Write one that is right, and fast.".to_owned()
        }
    }
}

/// Indices of the `count` exercises of step `step`, out of `exercises`. The steps pass over all exercises in random
/// orders, one pass after the other. If the number of exercises is no multiple of `count`, some exercises are left out
/// of a pass.
pub fn turn(exercises: usize, count: usize, seed: u64, step: u64) -> Vec<usize> {
    let count = count.min(exercises);
    let in_pass = (exercises / count.max(1)).max(1) as u64;
    let (pass, place) = (step / in_pass, (step % in_pass) as usize);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(pass);
    let mut order: Vec<usize> = (0..exercises).collect();
    order.shuffle(&mut random);
    order[place * count..(place + 1) * count].to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::measured::Rank;
    use crate::measured::tests::{timed, written};

    #[test]
    fn prompts_with_times_have_a_median_and_others_none() {
        let mut programs = timed("a", "p", 5);
        programs.push(written("s", Rank::Fast));
        programs.push(written("s", Rank::Slow));
        let made = exercises(&programs);
        assert_eq!(made.len(), 2);
        assert_eq!(
            (made[0].problem.as_str(), made[0].median_s),
            ("a", Some(3e-3))
        );
        assert_eq!((made[1].problem.as_str(), made[1].median_s), ("s", None));
    }

    #[test]
    fn times_over_other_workloads_are_another_exercise() {
        let mut programs = timed("a", "p", 3);
        programs[2].workloads = vec!["n=256".into()];
        let made = exercises(&programs);
        let of = |n: usize| (made[n].workloads.as_slice(), made[n].median_s);
        assert_eq!(made.len(), 2);
        assert_eq!(of(0), (&[][..], Some(1.5e-3)));
        assert_eq!(of(1), (&["n=256".to_owned()][..], Some(3e-3)));
    }

    #[test]
    fn every_exercise_has_its_turn_in_each_pass() {
        for pass in 0..3u64 {
            let mut seen: Vec<usize> = (0..5)
                .flat_map(|step| turn(20, 4, 7, pass * 5 + step))
                .collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..20).collect::<Vec<_>>());
        }
        assert_ne!(turn(20, 4, 7, 0), turn(20, 4, 8, 0));
        assert_eq!(turn(3, 10, 7, 5).len(), 3);
        assert!(turn(0, 4, 7, 0).is_empty());
    }

    #[test]
    fn an_answer_is_told_what_came_of_it() {
        assert!(follow_up(Some(1.25e-3), None).contains("1.250e-3 s a call"));
        assert!(follow_up(None, None).contains("does not pass"));
        assert!(follow_up(None, Some(0.5)).contains("0.50"));
    }

    proptest! {
        /// A correct program outranks every wrong one, a faster one a slower one, and a program as fast as the median
        /// gets 0.
        #[test]
        fn rewards_are_in_order(median in 1e-6f64..10.0, a in 1e-6f64..10.0, b in 1e-6f64..10.0) {
            prop_assert!(reward(median, Some(a)) > reward(median, None));
            prop_assert_eq!(a < b, reward(median, Some(a)) > reward(median, Some(b)));
            prop_assert_eq!(reward(median, Some(median)), 0.0);
        }
    }
}
