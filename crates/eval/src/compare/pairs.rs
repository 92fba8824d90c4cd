//! Comparisons of several pairs of models of one evaluation.

use std::path::Path;

use anyhow::Result;
use flopsmith_reward::metrics::{Metric, holm};
use serde::{Deserialize, Serialize};

use super::{Named, REAL, compared};

/// A metric of two models of one evaluation, over all problems on one number of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The first model.
    pub a: String,
    /// The second model.
    pub b: String,
    /// The metric.
    pub metric: String,
    /// Number of threads.
    pub threads: u32,
    /// The number of the second model less that of the first.
    pub difference: f64,
    /// Lower end of the difference's 95 % interval.
    pub low: f64,
    /// Upper end of the difference's 95 % interval.
    pub high: f64,
    /// The chance of so large a difference between equal models, corrected for the comparisons of the call.
    pub chance: f64,
    /// True if the difference is real.
    pub real: bool,
}

/// Compares pairs of models of the evaluation in a folder by `pass@1` and `speedup_n@1` over all problems. The chances are
/// corrected for all of these comparisons together.
///
/// # Errors
/// Wrong usage: the folder has no evaluation, or a model is not in it.
pub fn of_pairs(folder: &Path, pairs: &[(&str, &str)]) -> Result<Vec<Verdict>> {
    let metrics = [Metric::Pass(1), Metric::Speedup(1)].map(Metric::name);
    let named = |model: &str| Named::read(&format!("{}#{model}", folder.display()));
    let mut found = Vec::new();
    for (a, b) in pairs {
        let compared = compared(&named(a)?, &named(b)?)?;
        let over_all = compared.comparisons.into_iter();
        let over_all = over_all.filter(|c| c.problem.is_none() && metrics.contains(&c.metric));
        found.extend(over_all.map(|c| Verdict {
            a: (*a).to_owned(),
            b: (*b).to_owned(),
            metric: c.metric,
            threads: c.threads,
            difference: c.difference,
            low: c.low,
            high: c.high,
            chance: c.chance,
            real: false,
        }));
    }
    let chances: Vec<f64> = found.iter().map(|v| v.chance).collect();
    for (verdict, corrected) in found.iter_mut().zip(holm(&chances)) {
        verdict.chance = corrected;
        verdict.real = corrected <= REAL;
    }
    Ok(found)
}
