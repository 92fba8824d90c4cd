//! The outcome of a candidate.

use flopsmith_measure::stats::Burst;
use flopsmith_measure::time::Finished;
use flopsmith_protocol::{CandidateFault, StopReason, TechniqueSet};
use serde::Serialize;

use crate::check::Refusal;
use crate::gpu::CompiledKernel;

/// A failure that is the candidate's fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The fault.
    pub fault: CandidateFault,
    /// The rule of the check that refused it; none if the program was built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The finding in words.
    pub detail: String,
}

impl Failure {
    /// A failure of a program that was built.
    pub(crate) fn new(fault: CandidateFault, detail: impl Into<String>) -> Self {
        Failure {
            fault,
            rule: None,
            detail: detail.into(),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure {
            fault: refusal.fault(),
            detail: match refusal.line {
                0 => refusal.detail,
                line => format!("line {line}: {}", refusal.detail),
            },
            rule: Some(refusal.rule),
        }
    }
}

/// The speed relative to one baseline at one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Speed {
    /// The name of the [`Baseline`](crate::Baseline).
    pub baseline: &'static str,
    /// Time of the baseline divided by that of the candidate.
    pub speedup: f64,
    /// The lower end of the 95 % interval.
    pub low: f64,
    /// The upper end of the 95 % interval.
    pub high: f64,
    /// Standard error of ln(speedup), with the error of the hand-shake.
    pub log_se: f64,
    /// Seconds of a call of the candidate.
    pub candidate_seconds: f64,
    /// Seconds of a call of the baseline.
    pub baseline_seconds: f64,
    /// Number of rounds, each with a burst of both sides.
    pub rounds: u32,
    /// The reason why the measurement ended.
    pub stop: StopReason,
    /// The timed calls.
    #[serde(skip)]
    pub samples: Samples,
}

/// The timed calls behind a speed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Samples {
    /// The candidate's.
    pub candidate: Vec<Burst>,
    /// The baseline's.
    pub baseline: Vec<Burst>,
    /// Number of outlying rounds, which had no weight.
    pub outlying: u32,
}

impl Speed {
    /// Reads a finished measurement whose comparison hides an error of `hidden` (standard error of ln(ratio)).
    pub(crate) fn of(baseline: &'static str, finished: &Finished, hidden: f64) -> Self {
        let estimate = finished.estimate;
        let log_se = estimate.log_se.hypot(hidden);
        Speed {
            baseline,
            speedup: estimate.log_ratio.exp(),
            low: (estimate.log_ratio - HALF * log_se).exp(),
            high: (estimate.log_ratio + HALF * log_se).exp(),
            log_se,
            candidate_seconds: estimate.candidate,
            baseline_seconds: estimate.baseline,
            rounds: estimate.rounds,
            stop: finished.stop,
            samples: Samples {
                candidate: finished.candidate.clone(),
                baseline: finished.baseline.clone(),
                outlying: estimate.outlying,
            },
        }
    }
}

/// Half of a 95 % interval, in standard errors.
const HALF: f64 = 1.96;

/// The speeds at one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timed {
    /// The workload.
    pub workload: String,
    /// The speed relative to each baseline.
    pub speeds: Vec<Speed>,
}

impl Timed {
    /// The speed relative to the fastest baseline: the lowest speedup.
    pub fn against_best(&self) -> Option<&Speed> {
        let by_speedup = |a: &&Speed, b: &&Speed| a.speedup.total_cmp(&b.speedup);
        self.speeds.iter().min_by(by_speedup)
    }
}

/// The verdict on a candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Verdict {
    /// It was verified and timed.
    Measured {
        /// Geometric mean over the workloads of the speedups relative to the fastest baseline of each.
        speedup: f64,
        /// The lower end of the 95 % interval of `speedup`.
        low: f64,
        /// The upper end of the 95 % interval of `speedup`.
        high: f64,
        /// The workloads.
        workloads: Vec<Timed>,
    },
    /// Its results were verified and its kernels compiled, but it has no speed: it was not timed.
    Verified {
        /// The reason why it was not timed: [`NOT_TIMED`] or [`TO_BE_TIMED`].
        detail: &'static str,
        /// The kernels as verification launched them, for each architecture.
        kernels: Vec<CompiledKernel>,
    },
    /// Its kernels were compiled. It is neither right nor wrong: nothing of it ran.
    Compiled {
        /// The reason why it was not verified: [`NOT_VERIFIED`].
        detail: &'static str,
        /// The kernels for each architecture.
        kernels: Vec<CompiledKernel>,
    },
    /// It was refused, or it failed.
    Refused(Failure),
}

/// The verdict on a candidate that was verified and is to be timed later.
pub const TO_BE_TIMED: &str = "verified, not timed yet";

/// The verdict on kernels of Triton, which no GPU has run.
pub const NOT_TIMED: &str = "verified, not timed: needs a GPU";

/// The verdict on kernels in CUDA C++, for which there is no interpreter.
pub const NOT_VERIFIED: &str = "compiled, not verified: needs a GPU";

impl Verdict {
    /// The verdict on timed workloads; none without any.
    pub(crate) fn of(workloads: Vec<Timed>) -> Option<Self> {
        let best: Vec<&Speed> = workloads.iter().filter_map(Timed::against_best).collect();
        if best.is_empty() || best.len() != workloads.len() {
            return None;
        }
        let n = best.len() as f64;
        let log = best.iter().map(|s| s.speedup.ln()).sum::<f64>() / n;
        let squares: f64 = best.iter().map(|s| s.log_se * s.log_se).sum();
        let half = HALF * squares.sqrt() / n;
        Some(Verdict::Measured {
            speedup: log.exp(),
            low: (log - half).exp(),
            high: (log + half).exp(),
            workloads,
        })
    }
}

/// The outcome of one candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The techniques that were detected in an accepted source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub techniques: Option<TechniqueSet>,
    /// Seconds that extensions or kernels took to compile.
    pub compile_seconds: f64,
    /// The largest error seen in verification, as a share of the permitted one; none if nothing was verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_error: Option<f64>,
}

impl Outcome {
    /// The outcome before anything was evaluated.
    pub(crate) fn unevaluated() -> Self {
        Outcome {
            verdict: Verdict::Refused(Failure::new(CandidateFault::Format, "it was not evaluated")),
            techniques: None,
            compile_seconds: 0.0,
            largest_error: None,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::*;

    fn speed(baseline: &'static str, speedup: f64, log_se: f64) -> Speed {
        Speed {
            baseline,
            speedup,
            low: speedup,
            high: speedup,
            log_se,
            candidate_seconds: 1.0,
            baseline_seconds: speedup,
            rounds: 10,
            stop: StopReason::Precise,
            samples: Samples::default(),
        }
    }

    #[test]
    fn the_fastest_baseline_counts_at_each_workload() {
        let timed = |eager, inductor| Timed {
            workload: "w".into(),
            speeds: vec![
                speed("eager", eager, 0.01),
                speed("inductor", inductor, 0.01),
            ],
        };
        let verdict = Verdict::of(vec![timed(8.0, 2.0), timed(0.5, 4.0)]).unwrap();
        let Verdict::Measured {
            speedup, low, high, ..
        } = verdict
        else {
            panic!("it was measured");
        };
        assert!((speedup - 1.0).abs() < 1e-12, "{speedup}");
        let half = 1.96 * 0.01 / 2f64.sqrt();
        assert!((low.ln() + half).abs() < 1e-9 && (high.ln() - half).abs() < 1e-9);
        assert_eq!(Verdict::of(Vec::new()), None);
    }

    #[test]
    fn a_verified_or_compiled_program_has_no_speed() {
        let kernels = Vec::new();
        let verified = Verdict::Verified {
            detail: NOT_TIMED,
            kernels: kernels.clone(),
        };
        let compiled = Verdict::Compiled {
            detail: NOT_VERIFIED,
            kernels,
        };
        for (verdict, name, detail) in [
            (verified, "verified", "verified, not timed: needs a GPU"),
            (compiled, "compiled", "compiled, not verified: needs a GPU"),
        ] {
            let shown = serde_json::to_value(verdict).unwrap();
            assert_eq!(shown["outcome"], name);
            assert_eq!(shown["detail"], detail);
            assert_eq!(shown.get("speedup"), None);
        }
    }

    #[test]
    fn a_refusal_names_its_rule_and_line() {
        let failure = Failure::from(Refusal {
            rule: "import".into(),
            line: 3,
            detail: "`import os` is not permitted".into(),
        });
        assert_eq!(failure.fault, CandidateFault::ForbiddenInclude);
        assert_eq!(failure.rule.as_deref(), Some("import"));
        assert!(failure.detail.starts_with("line 3: "));
        let verdict = serde_json::to_value(Verdict::Refused(failure)).unwrap();
        assert_eq!(verdict["outcome"], "refused");
        assert_eq!(verdict["fault"], "forbidden_include");
    }
}
