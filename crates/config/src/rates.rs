//! Step sizes over the course of a training.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Curves by which a step size falls with the share of the budget that is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fall {
    /// In proportion to the share.
    #[default]
    Linear,
    /// Along half a cosine wave (Loshchilov & Hutter, 2017): slowly at first and at the end.
    Cosine,
}

impl Fall {
    /// Factor of the step size at `progress` (0 to 1) on the way from 1 to `last`.
    pub fn factor(self, progress: f64, last: f64) -> f64 {
        let left = match self {
            Fall::Linear => 1.0 - progress,
            Fall::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
        };
        last + (1.0 - last) * left
    }
}

/// Schedules of the step size after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// The step size stays.
    Constant,
    /// The step size falls to a tenth along half a cosine wave.
    #[default]
    Cosine,
}

/// Step size of update `step` (from 0) of `steps`: a linear warm-up, then the schedule.
pub fn rate(largest: f64, warmup: u64, schedule: Schedule, step: u64, steps: u64) -> f64 {
    if step < warmup {
        return largest * warm(step, warmup);
    }
    match schedule {
        Schedule::Constant => largest,
        Schedule::Cosine => {
            let length = steps.saturating_sub(warmup).max(1);
            let done = ((step - warmup) as f64 / length as f64).min(1.0);
            largest * schedule.factor(done)
        }
    }
}

impl Schedule {
    /// Factor of the step size after the share `done` (0 to 1) of the updates that follow the warm-up.
    pub fn factor(self, done: f64) -> f64 {
        match self {
            Schedule::Constant => 1.0,
            Schedule::Cosine => Fall::Cosine.factor(done, 0.1),
        }
    }
}

/// Share of the step size in update `step` (from 0) of a linear warm-up. The first update is not lost: its share is
/// 1 / `warmup`.
pub fn warm(step: u64, warmup: u64) -> f64 {
    if step >= warmup {
        1.0
    } else {
        (step + 1) as f64 / warmup as f64
    }
}
