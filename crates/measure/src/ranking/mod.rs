//! The order of programs that one timer measured, and which of them can be told apart.
//!
//! A place in the order is a claim, so it goes by the lower end of a program's interval, which the measurement
//! supports. The largest of many estimates is mostly one that noise made large. A program whose measurement did not
//! converge gets no place: its number may be off by any factor. Everything here is pure.

pub mod letters;
mod ratio;

pub use ratio::{Compared, LogRatio};

/// The measured speed of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// Its speed relative to the baseline.
    pub own: LogRatio,
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
    let ratios: Vec<LogRatio> = known.iter().map(|&n| entries[n].own).collect();
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

    proptest! {
        #[test]
        fn ranks_contradict_neither_intervals_nor_letters(
            all in prop::collection::vec((0.0f64..0.3, 0.0008f64..0.1, prop::bool::weighted(0.8)), 0..14)
        ) {
            let entries: Vec<Entry> = all.into_iter().map(|(v, se, c)| entry(v, se, c)).collect();
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
