#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Write;

use flopsmith_actors::role::recorder::step_lines;
use flopsmith_protocol::{ArtifactRef, CandidateRef, Digest, PolicyVersion};
use flopsmith_test_support::{
    Measured, again, candidate, measured, outcome, problem_id, remeasured, run_id, wrong,
};
use serde::Serialize;

use super::*;

fn value(point: &Point, tag: &str) -> Option<f64> {
    let found = point.values.iter().find(|(name, _)| name == tag)?;
    Some(found.1)
}

fn with(techniques: &str, outcome: Outcome) -> Outcome {
    Outcome {
        techniques: Some(techniques.parse().unwrap()),
        stage_seconds: [1.0, 0.5, 2.0],
        decided_unix_ms: 1000 * outcome.candidate.step,
        ..outcome
    }
}

fn lines(outcomes: &[Outcome]) -> Vec<StepLine> {
    step_lines(outcomes.iter())
}

fn published(step: u64, metrics: Option<StepMetrics>) -> PolicyPublished {
    PolicyPublished {
        run: run_id(),
        version: PolicyVersion(step),
        step,
        weights: ArtifactRef {
            digest: Digest::of(b"weights"),
            size: 7,
        },
        metrics,
    }
}

#[test]
fn a_step_has_the_best_and_the_archive_at_its_last_outcome() {
    let lucky = with("simd", Measured::at(40.0).outcome(candidate(0, 0, 0)));
    let outcomes = [
        lucky.clone(),
        with("simd", outcome(candidate(0, 0, 1), wrong())),
        // The repetition is slower, and counts from the next step on.
        again(&lucky, measured(30.0)),
        with("unroll", Measured::at(35.0).outcome(candidate(1, 0, 0))),
    ];
    let mut scalars = Scalars::new(&[]);
    for outcome in &outcomes {
        scalars.outcome(outcome);
    }
    let lines = lines(&outcomes);
    let points: Vec<Point> = lines.iter().map(|line| scalars.line(line)).collect();
    let both = |tag: &str| [value(&points[0], tag), value(&points[1], tag)];
    assert_eq!(both("best/gflops"), [Some(40.0), Some(30.0)]);
    assert_eq!(both("archive/cells"), [Some(0.0), Some(1.0)]);
    assert_eq!(both("archive/qd_score"), [Some(0.0), Some(30.0)]);
    assert_eq!(both("samples/correct_rate"), [Some(0.5), Some(1.0)]);
    assert_eq!(both("seconds/time"), [Some(4.0), Some(2.0)]);
    assert_eq!(both("outcomes/measured"), [Some(1.0), Some(1.0)]);
    assert_eq!([points[0].unix_ms, points[1].unix_ms], [0, 1000]);
    assert!(scalars.steps.is_empty());
}

#[test]
fn a_run_over_many_problems_has_numbers_for_each_named_one() {
    let of = |problem: ProblemId, sample: u32, gflops: f64| {
        let candidate = CandidateRef {
            problem,
            ..candidate(1, 0, sample)
        };
        with("simd", Measured::at(gflops).ratio(2.0).outcome(candidate))
    };
    let (named, fresh) = (problem_id(), ProblemId::new("fresh-1").unwrap());
    let outcomes = [of(named.clone(), 0, 10.0), of(fresh.clone(), 1, 20.0)];
    let mut scalars = Scalars::new(std::slice::from_ref(&named));
    for outcome in &outcomes {
        scalars.outcome(outcome);
    }
    let point = scalars.line(&lines(&outcomes)[0]);
    let of = |problem: &ProblemId| value(&point, &format!("problem/{problem}/best_ratio"));
    assert_eq!((of(&named), of(&fresh)), (Some(2.0), None));
    assert_eq!(value(&point, "best/gflops"), None);
    // Speeds at different problems cannot be compared.
    assert_eq!(value(&point, "samples/best_gflops"), None);
}

#[test]
fn an_unconverged_measurement_is_never_the_best() {
    let unsure = Measured::at(90.0).unconverged();
    let first = with("simd", Measured::at(20.0).outcome(candidate(1, 0, 0)));
    let outcomes = [
        with("simd", unsure.outcome(candidate(1, 0, 1))),
        with("simd", unsure.outcome(remeasured(&first.candidate, 1))),
        first,
    ];
    let mut scalars = Scalars::new(&[]);
    for outcome in &outcomes {
        scalars.outcome(outcome);
    }
    let point = scalars.line(&lines(&outcomes)[0]);
    assert_eq!(value(&point, "best/gflops"), Some(20.0));
    assert_eq!(value(&point, "archive/cells"), Some(0.0));
}

#[test]
fn a_skipped_update_has_no_loss() {
    let metrics = StepMetrics {
        mean_reward: 0.5,
        learning_rate: Some(0.25),
        ..StepMetrics::default()
    };
    let point = of_training(3, 9, &metrics);
    assert_eq!(value(&point, "learner/learning_rate"), Some(0.25));
    assert_eq!(value(&point, "learner/loss"), Some(0.0));
    let skipped = StepMetrics {
        skipped_updates: 1,
        ..metrics
    };
    let point = of_training(3, 9, &skipped);
    assert_eq!(value(&point, "learner/mean_reward"), Some(0.5));
    assert_eq!(value(&point, "learner/loss"), None);
}

#[test]
fn a_growing_run_gives_each_point_once_and_says_if_a_step_came_late() {
    let folder = tempfile::tempdir().unwrap();
    fn append<T: Serialize>(folder: &Path, file: &str, item: &T) {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .append(true)
            .create(true)
            .open(folder.join(file))
            .unwrap();
        writeln!(file, "{}", serde_json::to_string(item).unwrap()).unwrap();
    }
    let step = |step: u64| {
        let outcome = with("simd", Measured::at(5.0).outcome(candidate(step, 0, 0)));
        append(folder.path(), files::OUTCOMES, &outcome);
        append(folder.path(), files::METRICS, &lines(&[outcome])[0]);
    };
    let mut curves = Curves::of(folder.path(), &[]);
    let steps = |curves: &mut Curves| -> Vec<(u64, u64)> {
        let points = curves.next_points().unwrap();
        points.iter().map(|p| (p.step, p.unix_ms)).collect()
    };
    assert!(steps(&mut curves).is_empty());
    step(0);
    step(1);
    let metrics = StepMetrics {
        seconds: 0.25,
        ..StepMetrics::default()
    };
    append(folder.path(), files::TRAINING, &published(0, None));
    append(folder.path(), files::TRAINING, &published(1, Some(metrics)));
    assert_eq!(steps(&mut curves), [(0, 0), (1, 1000), (1, 1250)]);
    assert!(steps(&mut curves).is_empty());
    step(3);
    assert_eq!(steps(&mut curves), [(3, 3000)]);
    assert_eq!(curves.newest(), Some((3, 3000)));
    assert!(!curves.disordered());
    step(2);
    steps(&mut curves);
    assert!(curves.disordered());
    let mut anew = Curves::of(folder.path(), &[]);
    let all: Vec<u64> = steps(&mut anew).iter().map(|(step, _)| *step).collect();
    assert_eq!(all, [0, 1, 1, 2, 3]);
    assert!(!anew.disordered());
}
