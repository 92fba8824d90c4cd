//! Curves over the steps of a run.

use std::collections::BTreeMap;
use std::io;

use crate::index::Raw;
use crate::totals::{Step, Totals};
use crate::watched::Snapshot;

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

/// The mean reward of each trained step, of all steps of the run.
///
/// # Errors
/// The index of the learner's log cannot be read.
pub fn mean_reward(training: &Snapshot) -> io::Result<Points> {
    let mut steps: BTreeMap<u32, f32> = BTreeMap::new();
    if let Some(view) = &training.view {
        view.forward(0, |_, bytes| {
            let raw = Raw(bytes);
            // A step that was trained again after a stop has its last reward.
            steps.insert(raw.step(), raw.gflops());
            true
        })?;
    }
    let points = steps.into_iter();
    let points = points.map(|(step, reward)| (f64::from(step), f64::from(reward)));
    Ok(points.collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use crate::runs::Runs;

    #[test]
    fn the_curve_of_the_reward_has_every_step_of_a_long_run() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("r");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), "").unwrap();
        let weights = "0".repeat(700);
        let line = |step: u32, reward: f64| {
            format!(
                "{{\"step\":{step},\"weights\":\"{weights}\",\"metrics\":{{\"mean_reward\":{reward}}}}}\n"
            )
        };
        let mut log = String::from("{\"step\":0,\"metrics\":null}\n");
        for step in 0..4000 {
            log += &line(step, f64::from(step) / 4.0);
        }
        // The last step was trained again after a stop.
        log += &line(3999, -1.0);
        assert!(log.len() > 2 << 20);
        std::fs::write(folder.join("training.jsonl"), log).unwrap();
        let runs = Runs::new(place.path().to_owned(), None).unwrap();
        let runs = runs.patient(Duration::from_secs(30));
        let run = runs.get("r").unwrap();
        let points = super::mean_reward(&runs.read(&run.training, runs.page_ends())).unwrap();
        assert_eq!(points.len(), 4000);
        assert_eq!(points[..2], [(0.0, 0.0), (1.0, 0.25)]);
        assert_eq!(points.last(), Some(&(3999.0, -1.0)));
    }
}
