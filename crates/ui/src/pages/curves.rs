//! Curves over the steps of a run.

use flopsmith_protocol::PolicyPublished;

use crate::totals::{Step, Totals};

/// Points over steps.
pub type Points = Vec<(f64, f64)>;

/// The best value of all steps so far, from the first step that has one.
pub fn best_so_far(totals: &Totals, of: fn(&Step) -> f32) -> Points {
    let mut best = 0.0f32;
    let steps = totals.steps.iter().map(|(number, step)| {
        best = best.max(of(step));
        (f64::from(*number), f64::from(best))
    });
    steps.filter(|(_, best)| *best > 0.0).collect()
}

/// The share of correct programs of each step with a sample.
pub fn correct_rate(totals: &Totals) -> Points {
    let steps = totals.steps.iter();
    let steps = steps.filter_map(|(number, step)| Some((f64::from(*number), step.correct_rate()?)));
    steps.collect()
}

/// The mean speed of each step with a sample.
pub fn mean_gflops(totals: &Totals) -> Points {
    let steps = totals.steps.iter();
    let steps = steps.filter_map(|(number, step)| Some((f64::from(*number), step.mean_gflops()?)));
    steps.collect()
}

/// The mean reward of each trained step.
pub fn mean_reward(trained: &[PolicyPublished]) -> Points {
    let points = trained.iter().filter_map(|published| {
        let metrics = published.metrics.as_ref()?;
        Some((published.step as f64, metrics.mean_reward))
    });
    let mut points: Points = points.collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}
