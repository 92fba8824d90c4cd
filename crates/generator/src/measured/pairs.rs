//! Pairs of a fast and a slow program for the same prompt.
//!
//! The fast program is one of the five fastest, the slow program one of the slowest half; in one pair of twenty a wrong
//! program takes the slow one's place (Nichols et al., 2024). Programs that were never run are paired by their writer's
//! ranks.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Group, Program, groups};

/// Share of the timed programs that count as slow.
const SLOWEST: f64 = 0.5;
/// Share of pairs whose slow program is wrong instead.
const WRONG: f64 = 0.05;

/// A pair: one line of a file of pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// Problem that both answers solve.
    pub problem: String,
    /// Prompt of both answers.
    pub prompt: String,
    /// The better answer.
    pub fast: String,
    /// The worse answer.
    pub slow: String,
    /// Time of the better answer, if it was timed, seconds.
    #[serde(default)]
    pub fast_s: Option<f64>,
    /// Time of the worse answer, if it is right and was timed, seconds.
    #[serde(default)]
    pub slow_s: Option<f64>,
    /// True if the worse answer is worse because it is wrong.
    #[serde(default)]
    pub slow_is_wrong: bool,
}

/// At most `most` different pairs of each prompt. The same arguments give the same pairs, for every order of the
/// programs.
pub fn pairs<'a>(
    programs: impl IntoIterator<Item = &'a Program>,
    most: usize,
    seed: u64,
) -> Vec<Pair> {
    let mut all = Vec::new();
    for (stream, group) in groups(programs).iter().enumerate() {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream as u64);
        all.extend(of_group(group, most, &mut random));
    }
    all
}

fn of_group(group: &Group<'_>, most: usize, random: &mut ChaCha8Rng) -> Vec<Pair> {
    let pair = |fast: &Program, slow: &Program| Pair {
        problem: group.problem.to_owned(),
        prompt: group.prompt.to_owned(),
        fast: fast.source.clone(),
        slow: slow.source.clone(),
        fast_s: None,
        slow_s: None,
        slow_is_wrong: false,
    };
    let mut timed = Vec::new();
    for fast in group.fastest() {
        // In a small group the slow half contains fast programs.
        let slower = group.slowest(SLOWEST).iter();
        timed.extend(
            slower
                .filter(|s| s.seconds > fast.seconds)
                .map(|slow| Pair {
                    fast_s: Some(fast.seconds),
                    slow_s: Some(slow.seconds),
                    ..pair(fast.program, slow.program)
                }),
        );
    }
    timed.shuffle(random);
    let wanted = timed.len().min(most);
    let mut wrong: Vec<Pair> = group
        .fastest()
        .iter()
        .flat_map(|fast| group.wrong.iter().map(move |slow| (fast, slow)))
        .map(|(fast, slow)| Pair {
            fast_s: Some(fast.seconds),
            slow_is_wrong: true,
            ..pair(fast.program, slow)
        })
        .collect();
    wrong.shuffle(random);
    // Each pair is drawn independently, which gives small groups their share of wrong programs as well.
    let replaced = (0..wanted).filter(|_| random.random_bool(WRONG)).count();
    wrong.truncate(replaced);
    timed.truncate(wanted - wrong.len());
    let mut written: Vec<Pair> = group
        .fast
        .iter()
        .flat_map(|fast| group.slow.iter().map(move |slow| (fast, slow)))
        .map(|(fast, slow)| pair(fast, slow))
        .collect();
    written.shuffle(random);
    written.truncate(most);
    timed.extend(wrong);
    timed.extend(written);
    timed
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::measured::Rank;
    use crate::measured::tests::{timed, written, wrong};

    #[test]
    fn fast_ones_are_among_the_five_fastest_and_slow_ones_in_the_slow_half() {
        let programs = timed("a", "p", 40);
        let made = pairs(&programs, 1000, 3);
        // Five times twenty.
        assert_eq!(made.len(), 100);
        let different: BTreeSet<_> = made.iter().map(|p| (&p.fast, &p.slow)).collect();
        assert_eq!(different.len(), 100);
        for pair in &made {
            assert!(
                pair.fast_s <= Some(5e-3) && pair.slow_s >= Some(21e-3),
                "{pair:?}"
            );
        }
        assert_eq!(pairs(&programs, 17, 3).len(), 17);
    }

    #[test]
    fn one_pair_in_twenty_is_with_a_wrong_program() {
        let mut programs = Vec::new();
        for problem in 0..400 {
            let own = timed(&problem.to_string(), "p", 8);
            programs.extend((0..10).map(|i| wrong(&own[0], i)));
            programs.extend(own);
        }
        let made = pairs(&programs, 10, 3);
        assert_eq!(made.len(), 4000);
        let wrong = made.iter().filter(|p| p.slow_is_wrong).count();
        assert!((140..260).contains(&wrong), "{wrong} of 4000");
        assert!(made.iter().all(|p| p.slow_is_wrong == p.slow_s.is_none()));
    }

    #[test]
    fn pairs_keep_the_written_source_of_ranked_programs() {
        let programs = [written("s", Rank::Slow), written("s", Rank::Fast)];
        let made = pairs(&programs, 10, 3);
        assert_eq!(made.len(), 1);
        assert!(made[0].fast.starts_with("Fast") && made[0].slow.starts_with("Slow"));
        assert_eq!(
            (made[0].fast_s, made[0].slow_s, made[0].slow_is_wrong),
            (None, None, false)
        );
    }

    #[test]
    fn one_program_makes_no_pair() {
        assert!(pairs(&timed("a", "p", 1), 10, 3).is_empty());
        let one = timed("a", "p", 1).remove(0);
        assert!(pairs(&[wrong(&one, 1), one], 10, 3).is_empty());
    }

    proptest! {
        #[test]
        fn the_fast_one_is_faster(count in 0usize..30, most in 0usize..50, seed: u64) {
            let programs = timed("a", "p", count);
            let made = pairs(&programs, most, seed);
            prop_assert!(made.iter().all(|p| p.fast_s < p.slow_s));
            prop_assert_eq!(made.is_empty(), count < 2 || most == 0);
            let back: Vec<Program> = programs.iter().rev().cloned().collect();
            prop_assert_eq!(made, pairs(&back, most, seed));
        }
    }
}
