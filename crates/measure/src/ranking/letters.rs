//! Letters that say which programs can be told apart: two programs that share a letter cannot.
//!
//! Every pair is tested, and the more pairs there are, the more of them differ by chance. Holm's procedure keeps the
//! chance that any pair is wrongly told apart at 5 % (S. Holm, A Simple Sequentially Rejective Multiple Test Procedure,
//! Scandinavian Journal of Statistics 6, 1979). A caller that measures until pairs can be told apart looks several
//! times, and each look is another chance to be wrong: the looks share the 5 % equally (Bonferroni), whatever the
//! reason for another look was. The letters come from the insert-and-absorb algorithm (H.-P. Piepho, An Algorithm for a
//! Letter-Based Representation of All-Pairwise Comparisons, Journal of Computational and Graphical Statistics 13,
//! 2004).

use super::LogRatio;

/// The chance that any pair of equal programs is told apart at any look.
const LEVEL: f64 = 0.05;

/// The letters of each program: `a` for the fastest and for those that cannot be told from it. Two programs share a
/// letter if and only if they do not differ significantly.
///
/// `looks` is the total number of times that the caller may compare the programs, with more measurements each time. The
/// caller settles it before the first look.
pub fn letters(ratios: &[LogRatio], looks: usize) -> Vec<String> {
    let mut order: Vec<usize> = (0..ratios.len()).collect();
    order.sort_by(|&a, &b| ratios[b].value.total_cmp(&ratios[a].value));
    let sorted: Vec<LogRatio> = order.iter().map(|&n| ratios[n]).collect();
    let mut columns = columns(sorted.len(), &different(&sorted, looks));
    // The column of the fastest program first.
    columns.sort_unstable();
    columns.reverse();
    let mut letters = vec![String::new(); ratios.len()];
    for (number, column) in columns.iter().enumerate() {
        for (&place, _) in order.iter().zip(column).filter(|(_, member)| **member) {
            letters[place].push_str(&letter(number));
        }
    }
    letters
}

/// True if two programs with these letters have a letter in common, so that they cannot be told apart.
pub fn share(one: &str, other: &str) -> bool {
    let other = single(other);
    single(one).iter().any(|letter| other.contains(letter))
}

/// The single letters of a text, each with its number.
fn single(letters: &str) -> Vec<&str> {
    let begins = letters
        .char_indices()
        .filter(|(_, c)| !c.is_ascii_digit())
        .map(|(at, _)| at);
    let begins: Vec<usize> = begins.chain([letters.len()]).collect();
    begins
        .windows(2)
        .map(|ends| &letters[ends[0]..ends[1]])
        .collect()
}

/// For each pair of measurements, whether its two sides differ significantly. Holm's procedure keeps the chance that any
/// pair of equal programs is told apart at 5 %, however many pairs there are. `looks` is the number of such calls that
/// share these 5 %.
pub fn told_apart(pairs: &[(LogRatio, LogRatio)], looks: usize) -> Vec<bool> {
    let level = LEVEL / looks.max(1) as f64;
    let chances = pairs.iter().map(|(one, other)| chance(*one, *other));
    let mut apart = vec![false; pairs.len()];
    for number in significant(chances.collect(), level) {
        apart[number] = true;
    }
    apart
}

/// The pairs that differ significantly, at one of `looks` looks.
fn different(ratios: &[LogRatio], looks: usize) -> Vec<(usize, usize)> {
    let level = LEVEL / looks.max(1) as f64;
    let (mut pairs, mut chances) = (Vec::new(), Vec::new());
    for (a, one) in ratios.iter().enumerate() {
        for (b, other) in ratios.iter().enumerate().skip(a + 1) {
            pairs.push((a, b));
            chances.push(chance(*one, *other));
        }
    }
    let numbers = significant(chances, level);
    numbers.into_iter().map(|number| pairs[number]).collect()
}

/// The numbers of the significant `chances` at this level by Holm's procedure, the smallest chance first.
fn significant(chances: Vec<f64>, level: f64) -> Vec<usize> {
    let mut numbered: Vec<(f64, usize)> = chances.into_iter().zip(0..).collect();
    numbered.sort_by(|x, y| x.0.total_cmp(&y.0));
    let count = numbered.len();
    numbered
        .into_iter()
        .enumerate()
        .take_while(|(rank, (chance, _))| *chance <= level / (count - rank) as f64)
        .map(|(_, (_, number))| number)
        .collect()
}

/// The chance that two equal programs differ by so much.
fn chance(one: LogRatio, other: LogRatio) -> f64 {
    let difference = (one.value - other.value).abs();
    if difference > 0.0 {
        two_sided(difference / one.se.hypot(other.se))
    } else {
        1.0
    }
}

/// The chance that a standard normal variable lies further than `z` from 0, to at least twelve digits (M. Abramowitz
/// and I. A. Stegun, Handbook of Mathematical Functions, 7.1.6 and 7.1.14).
fn two_sided(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let root_of_pi = std::f64::consts::PI.sqrt();
    if x < 2.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..60 {
            term *= 2.0 * x * x / f64::from(2 * n + 1);
            sum += term;
        }
        1.0 - 2.0 / root_of_pi * (-x * x).exp() * sum
    } else {
        let fraction = (1..=120).rev().fold(x, |f, k| x + f64::from(k) / 2.0 / f);
        (-x * x).exp() / root_of_pi / fraction
    }
}

/// The sets of programs that get one letter each: no set holds a pair of `different`, and every other pair is in at
/// least one set.
fn columns(programs: usize, different: &[(usize, usize)]) -> Vec<Vec<bool>> {
    let mut columns = vec![vec![true; programs]];
    for &(a, b) in different {
        let (both, rest): (Vec<_>, Vec<_>) = columns.into_iter().partition(|c| c[a] && c[b]);
        columns = rest;
        for column in both {
            for leaver in [a, b] {
                let mut without = column.clone();
                without[leaver] = false;
                absorb(&mut columns, without);
            }
        }
    }
    columns
}

/// Adds a column unless another column contains it, and removes the columns that it contains.
fn absorb(columns: &mut Vec<Vec<bool>>, column: Vec<bool>) {
    let within = |inner: &[bool], outer: &[bool]| inner.iter().zip(outer).all(|(i, o)| *o || !*i);
    if !columns.iter().any(|other| within(&column, other)) {
        columns.retain(|other| !within(other, &column));
        columns.push(column);
    }
}

/// The name of a column: a letter, followed by a number once all letters are taken.
fn letter(number: usize) -> String {
    let alphabet: Vec<char> = ('a'..='z').chain('A'..='Z').collect();
    let letter = alphabet[number % alphabet.len()];
    match number / alphabet.len() {
        0 => letter.to_string(),
        round => format!("{letter}{round}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::time::Resolution;

    fn at(value: f64, se: f64) -> LogRatio {
        LogRatio { value, se }
    }

    #[test]
    fn chances_are_those_of_the_tables() {
        for (z, expected) in [
            (0.0, 1.0),
            (0.674_489_750_196_081_7, 0.5),
            (1.959_963_984_540_054, 0.05),
            (2.575_829_303_548_901, 0.01),
            (2.828, 0.004_683_980_653_645),
            (2.829, 0.004_669_369_895_845),
            (3.290_526_731_491_926, 0.001),
            (4.891_638_475_698_8, 1e-6),
        ] {
            let found = two_sided(z);
            assert!((found / expected - 1.0).abs() < 1e-9, "{z}: {found}");
        }
        assert!(two_sided(50.0) >= 0.0 && two_sided(f64::INFINITY) <= 0.0);
    }

    #[test]
    fn of_many_pairs_each_needs_a_clearer_difference() {
        let pair = |difference: f64| (at(difference, 0.006), at(0.0, 0.008));
        assert_eq!(told_apart(&[pair(0.0195)], 1), [false]);
        assert_eq!(told_apart(&[pair(-0.0197)], 1), [true]);
        assert_eq!(told_apart(&[pair(-0.0197)], 2), [false]);
        // The first of three gets a third of the 5 %, and the next one half of it.
        let three = [pair(0.0), pair(0.0197), pair(0.0)];
        assert_eq!(told_apart(&three, 1), [false; 3]);
        let three = [pair(0.0225), pair(0.0), pair(0.05)];
        assert_eq!(told_apart(&three, 1), [true, false, true]);
        let unknown = (at(1.0, f64::NAN), at(0.0, 0.001));
        assert_eq!(told_apart(&[unknown], 1), [false]);
        assert_eq!(told_apart(&[], 1), Vec::<bool>::new());
    }

    #[test]
    fn a_pair_is_told_apart_by_the_usual_interval_and_more_pairs_by_a_wider_one() {
        let pair = |difference: f64| letters(&[at(0.0, 0.006), at(difference, 0.008)], 1);
        assert_eq!(pair(0.0195), ["a", "a"]);
        assert_eq!(pair(0.0197), ["b", "a"]);
        // Of three pairs the first gets a third of the 5 %.
        let third = |difference: f64| {
            let all = [at(difference, 0.01), at(0.0, 0.0), at(0.0, 0.0)];
            letters(&all, 1)
        };
        assert_eq!(third(0.0239), ["a", "a", "a"]);
        assert_eq!(third(0.0240), ["a", "b", "b"]);
    }

    #[test]
    fn several_looks_share_the_chance_of_one() {
        // Of eight looks each has 0.00625, which are 2.734 standard errors.
        let pair = |difference: f64| letters(&[at(0.0, 0.006), at(difference, 0.008)], 8);
        assert_eq!(pair(0.0273), ["a", "a"]);
        assert_eq!(pair(0.0274), ["b", "a"]);
    }

    #[test]
    fn copies_that_the_clock_cannot_see_share_a_letter() {
        let resolution = Resolution {
            hand_shake_seconds: 5e-6,
            taken_off_seconds: 5e-6,
            error_seconds: 1e-7,
        };
        let baseline = 4e-7;
        // Processes of one program, whose times differ by the error of their hand-shakes.
        let copies: [f64; 4] = [4.6e-7, 3.2e-7, 4.0e-7, 4.9e-7];
        let found = copies.map(|s| at((baseline / s).ln(), resolution.log_se(s, baseline)));
        assert_eq!(letters(&found, 1), ["a"; 4]);
        // By the scatter of their calls alone they would be four programs.
        let scatter = copies.map(|s| at((baseline / s).ln(), 1e-3));
        assert_eq!(letters(&scatter, 1), ["c", "a", "b", "d"]);
    }

    #[test]
    fn a_program_between_two_others_shares_a_letter_with_each() {
        let found = letters(&[at(0.0, 0.01), at(0.02, 0.01), at(0.04, 0.01)], 1);
        assert_eq!(found, ["b", "ab", "a"]);
        assert_eq!(letters(&[at(1.0, 0.01)], 1), ["a"]);
        assert!(letters(&[], 1).is_empty());
    }

    #[test]
    fn there_are_names_for_more_columns_than_letters() {
        assert_eq!([0, 25, 26, 51].map(letter), ["a", "z", "A", "Z"]);
        assert_eq!([52, 104, 155].map(letter), ["a1", "a2", "Z2"]);
        assert_eq!(single("zAa1b12"), ["z", "A", "a1", "b12"]);
        assert!(share("ab", "bc") && !share("a", "a1") && share("xa1", "a1"));
        assert!(single("").is_empty() && !share("", "a"));
        let far: Vec<LogRatio> = (0..60).map(|n| at(f64::from(n), 0.001)).collect();
        let found: BTreeSet<String> = letters(&far, 1).into_iter().collect();
        assert_eq!(found.len(), 60);
    }

    proptest! {
        #[test]
        fn programs_share_a_letter_if_and_only_if_they_do_not_differ(
            ratios in prop::collection::vec((0.0f64..0.06, 0.0008f64..0.01), 0..14)
        ) {
            let ratios: Vec<LogRatio> = ratios.into_iter().map(|(v, se)| at(v, se)).collect();
            let apart: BTreeSet<(usize, usize)> = different(&ratios, 1).into_iter().collect();
            let letters = letters(&ratios, 1);
            for (a, one) in letters.iter().enumerate() {
                prop_assert!(!one.is_empty());
                for (b, other) in letters.iter().enumerate().skip(a + 1) {
                    prop_assert_eq!(!share(one, other), apart.contains(&(a, b)));
                }
            }
        }

        #[test]
        fn any_pairs_can_be_shown(
            programs in 1usize..9,
            pairs in prop::collection::btree_set((0usize..9, 0usize..9), 0..20)
        ) {
            let pairs: Vec<(usize, usize)> = pairs.into_iter().filter(|(a, b)| a < b && *b < programs).collect();
            let columns = columns(programs, &pairs);
            for a in 0..programs {
                for b in a + 1..programs {
                    let together = columns.iter().any(|c| c[a] && c[b]);
                    prop_assert_eq!(together, !pairs.contains(&(a, b)));
                }
            }
            // No column is contained in another one.
            for (n, column) in columns.iter().enumerate() {
                let others = columns.iter().enumerate().filter(|(other, _)| *other != n);
                for (_, other) in others {
                    prop_assert!(column.iter().zip(other).any(|(c, o)| *c && !*o));
                }
            }
        }

        #[test]
        fn fewer_pairs_differ_than_without_the_correction(
            ratios in prop::collection::vec((0.0f64..0.06, 0.0008f64..0.01), 2..10)
        ) {
            let ratios: Vec<LogRatio> = ratios.into_iter().map(|(v, se)| at(v, se)).collect();
            for (a, b) in different(&ratios, 1) {
                let (one, other) = (ratios[a], ratios[b]);
                prop_assert!((one.value - other.value).abs() > 1.9599 * one.se.hypot(other.se));
            }
        }
    }
}
