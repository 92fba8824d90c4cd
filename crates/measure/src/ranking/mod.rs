//! The order of programs that one timer measured, and which of them can be told apart.
//!
//! A place in the order is a claim, so it goes by the lower end of a program's interval, which the measurement
//! supports. The largest of many estimates is mostly one that noise made large. A program whose measurement did not
//! converge gets no place: its number may be off by any factor. Everything here is pure.

pub mod letters;
mod ratio;

pub use ratio::{Compared, LogRatio};

use crate::time::Purpose;

/// Standard error of ln(ratio) that the placement of pages adds where a single process of each side was measured. No
/// scatter of its calls shows it, and two copies of one program differ by it.
const PLACEMENT_LOG_SE: f64 = 0.02;

/// Standard error of ln(ratio) that the placement of pages adds to a measurement for this purpose, which has a process of its
/// own ([`LogRatio::lacks`] for several). A certification measures many processes, and its interval contains their differences.
pub fn placement_log_se(purpose: Purpose) -> f64 {
    match purpose {
        Purpose::Certify => 0.0,
        Purpose::Screen | Purpose::Rank => PLACEMENT_LOG_SE,
    }
}

/// The measured speed of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// Its speed relative to the baseline.
    pub own: LogRatio,
    /// A standard error that `own` does not contain, of the placement of pages ([`placement_log_se`]). Letters count it,
    /// the order does not.
    pub placement_log_se: f64,
    /// True if the measurement is as precise as the target asked for.
    pub converged: bool,
}

impl Entry {
    /// True if the program can have a place.
    fn is_known(self) -> bool {
        self.converged && self.own.value.is_finite() && self.own.se.is_finite()
    }
}

/// The place of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The rank, from 1.
    pub rank: u32,
    /// The letters the program shares with those it cannot be told from ([`letters::letters`]).
    pub group: String,
}

/// Programs in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranking {
    /// Numbers of the programs, the first place first; programs without a place follow, also by the lower end of their
    /// intervals.
    pub order: Vec<usize>,
    /// The place of each program, by its number.
    pub places: Vec<Option<Place>>,
}

/// Ranks programs. `looks` is the total number of times that the caller may rank them with more measurements each time,
/// see [`letters::letters`].
///
/// If two programs have places and their intervals do not overlap, the faster program stands first. Programs that are
/// told apart stand in the order of their speeds: an interval that ends lower in spite of a larger estimate is wider by
/// more than the difference.
pub fn rank(entries: &[Entry], looks: usize) -> Ranking {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (entries[a], entries[b]);
        let low = |entry: Entry| match entry.own.low() {
            low if low.is_nan() => f64::NEG_INFINITY,
            low => low,
        };
        let known = b.is_known().cmp(&a.is_known());
        let lower = known.then(low(b).total_cmp(&low(a)));
        lower.then(b.own.value.total_cmp(&a.own.value))
    });
    let known: Vec<usize> = order
        .iter()
        .copied()
        .filter(|&n| entries[n].is_known())
        .collect();
    let placed = |&n: &usize| entries[n].own.widened(entries[n].placement_log_se);
    let ratios: Vec<LogRatio> = known.iter().map(placed).collect();
    let mut places = vec![None; entries.len()];
    let groups = letters::letters(&ratios, looks);
    for ((rank, number), group) in (1u32..).zip(known).zip(groups) {
        places[number] = Some(Place { rank, group });
    }
    Ranking { order, places }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(value: f64, se: f64, converged: bool) -> Entry {
        Entry {
            own: LogRatio { value, se },
            placement_log_se: 0.0,
            converged,
        }
    }

    fn ranks(ranking: &Ranking) -> Vec<Option<u32>> {
        let places = ranking.places.iter();
        places.map(|p| p.as_ref().map(|p| p.rank)).collect()
    }

    #[test]
    fn unconverged_programs_have_no_rank_at_any_speed() {
        // 189.8 times and hardly known, 115 times and known.
        let entries = [
            entry(189.8f64.ln(), 0.3, false),
            entry(115f64.ln(), 0.002, true),
            entry(20f64.ln(), 0.002, true),
            entry(1e3f64.ln(), f64::NAN, true),
            entry(1e3f64.ln(), f64::INFINITY, true),
        ];
        let ranking = rank(&entries, 1);
        assert_eq!(ranking.order, [1, 2, 0, 3, 4]);
        assert_eq!(ranks(&ranking), [None, Some(1), Some(2), None, None]);
        let group = |n: usize| ranking.places[n].as_ref().map(|p| p.group.as_str());
        assert_eq!((group(1), group(2)), (Some("a"), Some("b")));
        assert!(rank(&[], 1).order.is_empty());
    }

    #[test]
    fn the_first_place_goes_to_what_is_known_to_be_fast() {
        let entries = [entry(0.05, 0.05, true), entry(0.0, 0.001, true)];
        let ranking = rank(&entries, 1);
        assert_eq!(ranking.order, [1, 0]);
        let places: Vec<&Place> = ranking.places.iter().flatten().collect();
        assert!(places.iter().all(|place| place.group == "a"), "{places:?}");
    }

    #[test]
    fn the_placement_of_a_process_tells_no_programs_apart() {
        let placed = |difference: f64, placement_log_se: f64| {
            let entries = [difference, 0.0].map(|value| Entry {
                placement_log_se,
                ..entry(value, 0.002, true)
            });
            let places = rank(&entries, 1).places;
            let groups: Vec<String> = places.into_iter().flatten().map(|p| p.group).collect();
            groups.concat()
        };
        let once = placement_log_se(Purpose::Rank);
        assert_eq!(placed(0.05, 0.0), "ab");
        assert_eq!(placed(0.05, once), "aa");
        assert_eq!(placed(0.06, once), "ab");
        // Eight processes show what one cannot.
        let eight = [LogRatio {
            value: 0.0,
            se: 0.002,
        }; 8];
        assert_eq!(placed(0.05, LogRatio::lacks(&eight, once)), "ab");
        assert!(placement_log_se(Purpose::Certify) <= 0.0);
    }

    proptest! {
        #[test]
        fn ranks_contradict_neither_intervals_nor_letters(
            all in prop::collection::vec((0.0f64..0.3, 0.0008f64..0.1, prop::bool::weighted(0.8)), 0..14),
            placement_log_se in 0.0f64..0.03,
        ) {
            let entry = |(v, se, c)| Entry { placement_log_se, ..entry(v, se, c) };
            let entries: Vec<Entry> = all.into_iter().map(entry).collect();
            let ranking = rank(&entries, 1);
            let mut numbers = ranking.order.clone();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..entries.len()).collect::<Vec<_>>());
            for (a, one) in ranking.places.iter().enumerate() {
                prop_assert_eq!(one.is_some(), entries[a].converged);
                for (b, other) in ranking.places.iter().enumerate() {
                    let (Some(one), Some(other)) = (one, other) else { continue };
                    let apart = entries[a].own.is_apart_from(entries[b].own);
                    let told = !letters::share(&one.group, &other.group);
                    if (apart || told) && entries[a].own.value > entries[b].own.value {
                        prop_assert!(one.rank < other.rank);
                    }
                }
            }
        }
    }
}
