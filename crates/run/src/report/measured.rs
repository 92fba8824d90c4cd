//! How a run measured: the noise of its measurements, and the sizes of its problem.

use flopsmith_config::Settings;
use flopsmith_problem::{Problem, prompt};
use flopsmith_protocol::{Measurement, Outcome};
use flopsmith_report::{Noise, Sizes};

use crate::summary::Summary;

/// The noise of these outcomes, which are those of the summary; none without a measurement.
pub(super) fn noise(outcomes: &[Outcome], summary: &Summary, settings: &Settings) -> Option<Noise> {
    let measured = outcomes.iter().filter_map(|o| o.verdict.measurement());
    // A cached measurement was made earlier, perhaps by another machine.
    let own: Vec<&Measurement> = measured.filter(|m| !m.reused).collect();
    if own.is_empty() {
        return None;
    }
    let deviations = own.iter().map(|m| m.mdape).filter(|d| d.is_finite());
    let mut deviations: Vec<f64> = deviations.collect();
    deviations.sort_by(f64::total_cmp);
    let sum = |of: fn(&Measurement) -> u32| -> u64 { own.iter().map(|m| u64::from(of(m))).sum() };
    let evaluate = &settings.evaluate;
    let timed_here = !evaluate.workers && !evaluate.replays();
    Some(Noise {
        measurements: own.len() as u64,
        unconverged: own.iter().filter(|m| !m.converged()).count() as u64,
        deviation: deviations.get(deviations.len() / 2).copied(),
        rounds: sum(|m| m.rounds),
        outlying: sum(|m| m.outlying),
        disturbed: timed_here.then_some(summary.disturbed),
        waited_seconds: summary.quarantine_seconds,
        best_disturbed: summary
            .best
            .as_ref()
            .and_then(|best| best.machine_busy.clone()),
    })
}

/// The sizes of a problem, in the words of its prompt.
pub(super) fn sizes(problem: &Problem) -> Sizes {
    Sizes {
        timed: prompt::timed(problem),
        hidden: prompt::hidden(problem),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::{Measured, candidate, outcome, shipped, wrong};

    use super::*;
    use crate::summary::{Facts, summarise};

    #[test]
    fn the_noise_of_a_run_is_that_of_its_own_measurements() {
        let folder = tempfile::tempdir().unwrap();
        let facts = Facts {
            disturbed: 3,
            ..Facts::default()
        };
        let summary = summarise("r", folder.path(), &facts).unwrap();
        let of = |sample, measured: Measured| measured.outcome(candidate(1, 0, sample));
        let mut outcomes = vec![
            of(0, Measured::at(40.0)),
            of(1, Measured::at(41.0).unconverged()),
            of(2, Measured::at(42.0).reused()),
            outcome(candidate(1, 0, 3), wrong()),
        ];
        let mut settings = Settings::default();
        let found = noise(&outcomes, &summary, &settings).unwrap();
        let expected = Noise {
            measurements: 2,
            unconverged: 1,
            deviation: Some(0.01),
            rounds: 24,
            outlying: 0,
            disturbed: Some(3),
            waited_seconds: 0.0,
            best_disturbed: None,
        };
        assert_eq!(found, expected);
        settings.evaluate.workers = true;
        let found = noise(&outcomes, &summary, &settings).unwrap();
        assert_eq!(found.disturbed, None);
        outcomes.drain(..2);
        assert_eq!(noise(&outcomes, &summary, &settings), None);
    }

    #[test]
    fn sizes_are_named_as_a_prompt_names_them() {
        let problem = Problem::load(&shipped::at("dgemm"))
            .unwrap()
            .select(&["n=256"])
            .unwrap();
        let expected = Sizes {
            timed: "n = 256".into(),
            hidden: "n from 64 to 512, multiples of 64".into(),
        };
        assert_eq!(sizes(&problem), expected);
    }
}
