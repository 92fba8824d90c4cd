//! The archive, rebuilt from the outcomes of a run.
//!
//! This module follows the archive's own rule: a program counts once its measurement was repeated, with the speed of
//! the second measurement. The first measurement made the program stand out *because* the speed was high, so the first
//! speed is biased upwards.

use std::collections::{BTreeMap, HashMap, HashSet};

use flopsmith_archive::{Archive, Counts, Elite};
use flopsmith_protocol::{CandidateId, Measurement, Outcome, Purpose, TechniqueSet, Verdict};
use flopsmith_report::{ArchiveStats, CellRow};

/// Technique sets with a verified program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// A measurement of at least one of the set's programs was repeated.
    pub confirmed: u64,
    /// The set's programs were measured only once.
    pub unconfirmed: u64,
}

fn repeats(outcome: &Outcome) -> bool {
    outcome.candidate.purpose == Purpose::Certify
}

/// Programs whose measurement was repeated, each with its technique set and its second measurement.
fn confirmed(outcomes: &[Outcome]) -> Vec<(TechniqueSet, Elite)> {
    let firsts: HashMap<&CandidateId, &Outcome> = outcomes
        .iter()
        .filter(|o| !repeats(o))
        .map(|o| (&o.candidate.id, o))
        .collect();
    outcomes
        .iter()
        .filter(|o| repeats(o))
        .filter_map(|again| {
            // A verdict from the cache is no second measurement, and a measurement that did not converge confirms
            // nothing.
            let measurement = again.verdict.measurement();
            let measurement = measurement.filter(|m| !m.reused && m.converged())?;
            let first: &Outcome = firsts.get(again.candidate.remeasures.as_ref()?)?;
            let elite = Elite::from_outcome(first)?.measured_again(measurement)?;
            Some((first.techniques?, elite))
        })
        .collect()
}

/// The fastest first measurement of each technique set, without programs that failed their second measurement.
fn measured_once(outcomes: &[Outcome]) -> BTreeMap<TechniqueSet, (&Outcome, &Measurement)> {
    let refuted: HashSet<&str> = outcomes
        .iter()
        .filter(|o| repeats(o) && matches!(o.verdict, Verdict::Rejected { .. }))
        .map(|o| o.source.as_str())
        .collect();
    let mut fastest: BTreeMap<TechniqueSet, (&Outcome, &Measurement)> = BTreeMap::new();
    for outcome in outcomes
        .iter()
        .filter(|o| !repeats(o) && !refuted.contains(o.source.as_str()))
    {
        let (Some(techniques), Some(measurement)) =
            (outcome.techniques, outcome.verdict.measurement())
        else {
            continue;
        };
        let best = fastest.entry(techniques).or_insert((outcome, measurement));
        if best.1.compare(measurement).is_lt() {
            *best = (outcome, measurement);
        }
    }
    fastest
}

/// Counts technique sets with a verified program.
pub fn coverage(outcomes: &[Outcome]) -> Coverage {
    let confirmed: HashSet<TechniqueSet> = confirmed(outcomes).into_iter().map(|c| c.0).collect();
    let once = measured_once(outcomes);
    Coverage {
        confirmed: confirmed.len() as u64,
        unconfirmed: once.keys().filter(|t| !confirmed.contains(*t)).count() as u64,
    }
}

/// The QD-score: the sum over technique sets of the speed of the best program whose measurement was repeated, GFLOPS.
pub fn qd_score(outcomes: &[Outcome]) -> f64 {
    let archive = archive(outcomes, TechniqueSet::all());
    // A sum over nothing is -0.
    archive.map_or(0.0, |archive| archive.stats().qd_score + 0.0)
}

/// The archive over the subsets of `pool`, with the best program of each; none before the first outcome.
pub fn archive(outcomes: &[Outcome], pool: TechniqueSet) -> Option<Archive> {
    let first = &outcomes.first()?.candidate;
    let (problem, class) = (first.problem.clone(), first.machine_class.clone());
    let mut archive = Archive::new(problem, class, pool, 1);
    for outcome in outcomes
        .iter()
        .filter(|o| !repeats(o) && !o.candidate.exploration && o.verdict.counts())
    {
        let Some(techniques) = outcome.techniques else {
            continue;
        };
        let counts = Counts {
            tried: 1,
            correct: u64::from(outcome.verdict.measurement().is_some()),
            ..Counts::default()
        };
        archive.count(techniques, &outcome.candidate.run, counts);
    }
    for (techniques, elite) in confirmed(outcomes) {
        // Gain and floor only decide which programs deserve a second measurement; these programs already have one.
        archive.insert(techniques, elite, 0.0, 0.0);
    }
    Some(archive)
}

/// The cells of `archive` for the report. A set without a confirmed program shows its single measurement in separate
/// columns.
pub fn rows(archive: &Archive, outcomes: &[Outcome]) -> Vec<CellRow> {
    let once = measured_once(outcomes);
    let by_id: HashMap<&CandidateId, &Outcome> =
        outcomes.iter().map(|o| (&o.candidate.id, o)).collect();
    archive
        .cells()
        .map(|(techniques, cell)| {
            let counts = cell.counts();
            let row = CellRow {
                techniques,
                tried: counts.tried,
                correct: counts.correct,
                ..CellRow::default()
            };
            match (cell.best(), once.get(&techniques)) {
                (Some(best), _) => CellRow {
                    best_gflops: Some(best.gflops),
                    interval: Some(best.interval),
                    vector_bits: by_id.get(&best.candidate).and_then(|o| o.vector_bits),
                    source: Some(best.source.clone()),
                    ..row
                },
                (None, Some((outcome, measurement))) => CellRow {
                    unconfirmed_gflops: Some(measurement.gflops),
                    interval: Some(measurement.interval),
                    vector_bits: outcome.vector_bits,
                    source: Some(outcome.source.clone()),
                    ..row
                },
                (None, None) => row,
            }
        })
        .collect()
}

/// The statistics of the archive.
pub fn stats(archive: &Archive) -> ArchiveStats {
    let stats = archive.stats();
    ArchiveStats {
        filled: stats.filled as u64,
        cells: stats.cells as u64,
        coverage: stats.coverage,
        qd_score: stats.qd_score,
        norm_qd_score: stats.norm_qd_score,
        objective_max: stats.objective_max,
        objective_mean: stats.objective_mean,
        tried: stats.tried,
        correct: stats.correct,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use flopsmith_test_support::{Measured, again, first, measured, wrong};

    fn set(text: &str) -> TechniqueSet {
        text.parse().unwrap()
    }

    fn row(rows: &[CellRow], techniques: &str) -> CellRow {
        let techniques = set(techniques);
        rows.iter()
            .find(|r| r.techniques == techniques)
            .unwrap()
            .clone()
    }

    #[test]
    fn a_cell_shows_the_second_measurement_and_apart_what_was_measured_once() {
        let lucky = first(0, "lucky", "simd", measured(50.0));
        let outcomes = [
            again(&lucky, measured(40.0)),
            lucky,
            first(1, "lucky once more", "simd", measured(60.0)),
            first(2, "alone", "unroll", measured(30.0)),
            first(3, "wrong", "simd", wrong()),
        ];
        let archive = archive(&outcomes, TechniqueSet::all()).unwrap();
        let rows = rows(&archive, &outcomes);
        let simd = row(&rows, "simd");
        assert_eq!((simd.tried, simd.correct), (3, 2));
        assert_eq!(simd.best_gflops, Some(40.0));
        assert_eq!(simd.unconfirmed_gflops, None);
        assert_eq!(simd.source.as_deref(), Some("lucky"));
        assert_eq!(simd.vector_bits, Some(256));
        let unroll = row(&rows, "unroll");
        assert_eq!(unroll.best_gflops, None);
        assert_eq!(unroll.unconfirmed_gflops, Some(30.0));
        assert_eq!(unroll.source.as_deref(), Some("alone"));
        assert_eq!(
            coverage(&outcomes),
            Coverage {
                confirmed: 1,
                unconfirmed: 1
            }
        );
        let stats = stats(&archive);
        assert_eq!(
            (stats.filled, stats.cells),
            (1, 1 << TechniqueSet::all().len())
        );
        assert_eq!((stats.tried, stats.correct), (4, 3));
        assert_eq!((stats.qd_score, stats.objective_max), (40.0, Some(40.0)));
        assert_eq!(qd_score(&outcomes), 40.0);
        assert!(qd_score(&[]).is_sign_positive());
    }

    #[test]
    fn programs_that_failed_a_remeasurement_leave_their_cell() {
        let unsteady = first(0, "unsteady", "simd", measured(50.0));
        let outcomes = [
            first(1, "unsteady", "simd", measured(55.0)),
            again(&unsteady, wrong()),
            unsteady,
        ];
        let archive = archive(&outcomes, TechniqueSet::all()).unwrap();
        let simd = row(&rows(&archive, &outcomes), "simd");
        assert_eq!((simd.best_gflops, simd.unconfirmed_gflops), (None, None));
        assert_eq!((simd.tried, simd.correct), (2, 2));
        assert_eq!(
            coverage(&outcomes),
            Coverage {
                confirmed: 0,
                unconfirmed: 0
            }
        );
    }

    #[test]
    fn a_result_that_was_looked_up_confirms_nothing() {
        let program = first(0, "program", "simd", measured(50.0));
        let looked_up = Measured::at(50.0).reused().verdict();
        let outcomes = [again(&program, looked_up), program];
        assert_eq!(
            coverage(&outcomes),
            Coverage {
                confirmed: 0,
                unconfirmed: 1
            }
        );
        assert_eq!(archive(&[], TechniqueSet::all()), None);
    }

    #[test]
    fn a_measurement_that_did_not_converge_confirms_nothing() {
        let program = first(0, "program", "simd", measured(50.0));
        let unsure = Measured::at(50.0).se(0.2).unconverged().verdict();
        let outcomes = [again(&program, unsure), program];
        let expected = Coverage {
            confirmed: 0,
            unconfirmed: 1,
        };
        assert_eq!(coverage(&outcomes), expected);
    }

    #[test]
    fn of_two_confirmed_programs_the_archives_own_order_chooses() {
        let slow = first(0, "slow", "simd", measured(20.0));
        let fast = first(1, "fast", "simd", measured(19.0));
        let outcomes = [
            again(&slow, measured(10.0)),
            again(&fast, measured(30.0)),
            slow,
            fast,
        ];
        let archive = archive(&outcomes, TechniqueSet::all()).unwrap();
        let simd = row(&rows(&archive, &outcomes), "simd");
        assert_eq!(simd.best_gflops, Some(30.0));
        assert_eq!(simd.source.as_deref(), Some("fast"));
    }
}
