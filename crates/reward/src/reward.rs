//! The kinds of rewards, and their inputs besides the verdict.

use flopsmith_protocol::{Measurement, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ladder::{Ladder, no_fields};

/// An upper bound far above every real speed; it keeps means and squares of rewards finite.
const LIMIT: f64 = 1e9;

/// Why a reward's settings cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A rung of failure that is not below zero.
    #[error("reward rung `{name}` is {value}: a failure is worth a finite number below zero")]
    Rung {
        /// The rung.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// Two rungs are in the wrong order.
    #[error(
        "reward rung `{worse}` lies above `{better}`: the ladder goes violation, compile, timeout, runtime, wrong from worst to best"
    )]
    Order {
        /// The rung that must not be higher.
        worse: &'static str,
        /// The rung that must not be lower.
        better: &'static str,
    },
    /// A scale that is not positive.
    #[error("reward scale {0} is no finite number above zero")]
    Scale(f64),
    /// An exponent that is not positive.
    #[error("logistic exponent {0} is no finite number above zero")]
    Exponent(f64),
}

/// The inputs of a reward besides the verdict. All samples of a group must have the same context.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Context {
    /// The machine's measured floating-point peak with all the cores that timing may use, in GFLOPS. If it is missing,
    /// the measurement's own share of the peak at its own thread count is used.
    pub peak_gflops: Option<f64>,
    /// The best verified speed of the task's stage before this step, in GFLOPS.
    pub stage_best_gflops: Option<f64>,
}

/// The exponent of the logistic reward.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Logistic {
    /// Steepness; 1 by default.
    pub a: f64,
}

impl Default for Logistic {
    fn default() -> Self {
        Self { a: 1.0 }
    }
}

/// The reward of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reward {
    /// A rung for each way to fail, the speed for success.
    Ladder(Ladder),
    /// −1 for a failure, S − 1 for success, with S = time of the plain reference / candidate time (Nichols et al., equation 4).
    #[serde(deserialize_with = "no_fields")]
    RuntimeRatio,
    /// 0 for a failure, S^a / (1 + S^a) = 1 / (1 + exp(−a ln S)) for success: ½ for a program as fast as the plain reference, or
    /// for a module as fast as the fastest baseline (the form of arXiv 2602.11000; the constants are our own).
    Logistic(Logistic),
}

impl Default for Reward {
    fn default() -> Self {
        Reward::Ladder(Ladder::scaled())
    }
}

impl Reward {
    /// Checks that the settings are usable. The invariants of this crate hold only for usable settings.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Reward::Ladder(ladder) => ladder.check(),
            Reward::RuntimeRatio => Ok(()),
            Reward::Logistic(Logistic { a }) => match positive(*a) {
                Some(_) => Ok(()),
                None => Err(Error::Exponent(*a)),
            },
        }
    }

    /// The reward of a verdict; `None` for an outcome that is not the candidate's fault.
    ///
    /// A measurement that is no positive finite number can only come from a broken timer and gets no reward either.
    pub fn reward(&self, verdict: &Verdict, ctx: &Context) -> Option<f64> {
        match verdict {
            Verdict::Measured { measurement } => {
                usable(measurement).then(|| self.success(measurement, ctx).0)
            }
            Verdict::Rejected { fault, .. } => Some(match self {
                Reward::Ladder(ladder) => ladder.rung(fault.class()),
                Reward::RuntimeRatio => -1.0,
                Reward::Logistic(_) => 0.0,
            }),
            Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => None,
        }
    }

    /// Standard error of [`Reward::reward`] due to the measurement, by the delta method: |dR / d ln S| · se(ln S).
    ///
    /// The error of GFLOPS is taken to equal that of the ratio, since the timer states only the latter. A failure has
    /// no measurement error: its standard error is 0. An unknown error counts as a factor of e. `None` if there is no
    /// reward.
    pub fn reward_se(&self, verdict: &Verdict, ctx: &Context) -> Option<f64> {
        match verdict {
            Verdict::Measured { measurement: m } => usable(m).then(|| {
                let se = if m.log_ratio_se.is_finite() {
                    m.log_ratio_se.max(0.0)
                } else {
                    1.0
                };
                (self.success(m, ctx).1.abs() * se).min(LIMIT)
            }),
            Verdict::Rejected { .. } => Some(0.0),
            Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => None,
        }
    }

    /// Reward of a usable measurement and its derivative by the logarithm of the speed.
    fn success(&self, m: &Measurement, ctx: &Context) -> (f64, f64) {
        let (value, slope) = match self {
            Reward::Ladder(ladder) => ladder.success(m, ctx),
            // The floor keeps the slowest program above a failure when S − 1 rounds to −1.
            Reward::RuntimeRatio => ((m.ratio - 1.0).max(-1.0 + 1e-9), m.ratio),
            Reward::Logistic(Logistic { a }) => {
                let share = (1.0 / (1.0 + m.ratio.powf(-a))).max(f64::MIN_POSITIVE);
                (share, a * share * (1.0 - share))
            }
        };
        (value.min(LIMIT), slope.min(LIMIT))
    }
}

/// True if a working timer could give this measurement.
fn usable(m: &Measurement) -> bool {
    positive(m.gflops).is_some() && positive(m.ratio).is_some()
}

/// `x` if it is finite and above zero.
pub(crate) fn positive(x: f64) -> Option<f64> {
    (x.is_finite() && x > 0.0).then_some(x)
}
