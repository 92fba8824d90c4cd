//! The fastest programs from size to size.
//!
//! At each size the fastest are the first in the ranking and all that share a letter with it, so that two programs which
//! cannot be told apart there are named together. The chance of a wrong separation is 5 % at each size.

use std::collections::BTreeSet;

use flopsmith_measure::ranking::letters;
use flopsmith_run::digits::significant;

use crate::outputs::AtSize;
use crate::rows::Row;
use crate::table::Grid;

/// The fastest programs over neighbouring sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Lead {
    /// The number of threads.
    pub threads: u32,
    /// The first size.
    pub from: String,
    /// The last size.
    pub to: String,
    /// The programs, which cannot be told apart; none where no measurement converged.
    pub fastest: Vec<String>,
    /// How many times as fast as the fastest other program they are: least and most over the sizes.
    pub ahead: Option<(f64, f64)>,
}

/// The fastest programs of each number of threads from size to size; empty if there are no two programs or sizes to
/// compare.
pub fn leads(results: &[AtSize]) -> Vec<Lead> {
    let rows = || results.iter().flat_map(|result| &result.rows);
    let files: BTreeSet<&str> = rows().map(|row| row.file.as_str()).collect();
    if files.len() < 2 || results.len() < 2 {
        return Vec::new();
    }
    let counts: BTreeSet<u32> = rows().map(|row| row.threads).collect();
    let mut leads: Vec<Lead> = Vec::new();
    for threads in counts {
        for result in results {
            let timed: Vec<&Row> = result
                .rows
                .iter()
                .filter(|r| r.threads == threads)
                .collect();
            let (fastest, ahead) = fastest(&timed);
            let size = result.problem.timed_size();
            match leads.last_mut() {
                Some(last) if last.threads == threads && last.fastest == fastest => {
                    last.to = size;
                    last.ahead = match (last.ahead, ahead) {
                        (Some((low, high)), Some(ahead)) => Some((low.min(ahead), high.max(ahead))),
                        (known, ahead) => known.or(ahead.map(|ahead| (ahead, ahead))),
                    };
                }
                _ => leads.push(Lead {
                    threads,
                    from: size.clone(),
                    to: size,
                    fastest,
                    ahead: ahead.map(|ahead| (ahead, ahead)),
                }),
            }
        }
    }
    leads
}

/// The fastest of these programs, in the order of their names, and how many times as fast as the next one they are.
fn fastest(rows: &[&Row]) -> (Vec<String>, Option<f64>) {
    let Some(first) = rows.iter().find(|row| row.rank == Some(1)) else {
        return (Vec::new(), None);
    };
    let together = |row: &&&Row| {
        let groups = row.group.as_ref().zip(first.group.as_ref());
        groups.is_some_and(|(one, other)| letters::share(one, other))
    };
    let (fastest, others): (Vec<&&Row>, Vec<&&Row>) = rows.iter().partition(together);
    let speed = |row: &&&Row| row.own.filter(|_| row.rank.is_some()).map(|own| own.value);
    let next = others.iter().filter_map(speed).max_by(f64::total_cmp);
    let own = first.own.map(|own| own.value);
    let ahead = own.zip(next).map(|(own, next)| (own - next).exp());
    let names: BTreeSet<&str> = fastest.iter().map(|row| row.file.as_str()).collect();
    (names.into_iter().map(str::to_owned).collect(), ahead)
}

/// The table of leads.
pub fn grid(leads: &[Lead]) -> Grid {
    let threads = leads.iter().any(|lead| lead.threads != 1);
    let mut columns = vec![("from", false), ("to", false)];
    if threads {
        columns.push(("threads", true));
    }
    columns.extend([("fastest", false), ("ahead of the next", false)]);
    let rows = leads.iter().map(|lead| {
        let mut cells = vec![lead.from.clone(), lead.to.clone()];
        if threads {
            cells.push(lead.threads.to_string());
        }
        cells.push(match lead.fastest.as_slice() {
            [] => "no measurement converged".into(),
            [one] => one.clone(),
            several => format!("{} (cannot be told apart)", several.join(", ")),
        });
        cells.push(lead.ahead.map_or_else(String::new, |(low, high)| {
            let (low, high) = (significant(low, 3), significant(high, 3));
            if low == high {
                format!("{low} times")
            } else {
                format!("{low} to {high} times")
            }
        }));
        cells
    });
    Grid {
        rows: rows.collect(),
        columns,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flopsmith_test_support::wrong;

    use super::*;
    use crate::rows::arrange;
    use crate::rows::tests::{fast, row, unsure};
    use crate::saved::tests::problem;

    fn at(n: i64, mut rows: Vec<Row>) -> AtSize {
        arrange(&mut rows, 1);
        let problem = problem().timed_at([("n".to_owned(), n)].into());
        AtSize::new(Arc::new(problem), rows)
    }

    #[test]
    fn leaders_are_named_from_size_to_size_and_ties_are_said() {
        let both = |one: f64, other: f64| vec![fast("a.c", 1, one), fast("b.c", 1, other)];
        let leads = leads(&[
            at(64, both(40.0, 20.0)),
            at(128, both(40.0, 32.0)),
            at(256, both(40.0, 40.01)),
            at(512, both(30.0, 45.0)),
            at(1024, vec![unsure("a.c", 40.0), row("b.c", 1, wrong())]),
        ]);
        let table = grid(&leads).lines();
        let expected = [
            "from      to        fastest                          ahead of the next",
            "n = 64    n = 128   a.c                              1.25 to 2.00 times",
            "n = 256   n = 256   a.c, b.c (cannot be told apart)",
            "n = 512   n = 512   b.c                              1.50 times",
            "n = 1024  n = 1024  no measurement converged",
        ];
        assert_eq!(table, expected);
    }

    #[test]
    fn each_number_of_threads_has_its_own_leaders() {
        let of = |n: i64, one: f64| {
            let rows = [(1, one), (2, 40.0)].map(|(threads, gflops)| {
                [fast("a.c", threads, gflops), fast("b.c", threads, 30.0)]
            });
            at(n, rows.into_iter().flatten().collect())
        };
        let leads = leads(&[of(64, 20.0), of(128, 40.0)]);
        let said: Vec<(u32, &str, &str)> = leads
            .iter()
            .map(|l| (l.threads, l.from.as_str(), l.fastest[0].as_str()))
            .collect();
        assert_eq!(
            said,
            [
                (1, "n = 64", "b.c"),
                (1, "n = 128", "a.c"),
                (2, "n = 64", "a.c")
            ]
        );
        assert_eq!(grid(&leads).columns.len(), 5);
    }

    #[test]
    fn one_program_or_one_size_has_no_crossover() {
        let one = |n| at(n, vec![fast("a.c", 1, 40.0)]);
        assert!(leads(&[one(64), one(128)]).is_empty());
        let two = at(64, vec![fast("a.c", 1, 40.0), fast("b.c", 1, 20.0)]);
        assert!(leads(&[two]).is_empty());
        assert!(leads(&[]).is_empty());
    }
}
