//! The reward ladder: a rung for each kind of failure, and the measured speed above all of them.

use flopsmith_protocol::{FaultClass, Measurement};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::reward::{Context, Error, positive};

/// How the speed of a verified program becomes the success rung of the [`Ladder`].
///
/// `g` is the measured speed in GFLOPS. Every scale is positive for `g > 0`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum SuccessScale {
    /// `g` itself.
    #[serde(deserialize_with = "no_fields")]
    Gflops,
    /// `scale · g / peak`, with the machine's peak from the [`Context`].
    ///
    /// The peak is one number for the machine and not the peak at the
    /// measurement's own thread count: otherwise two threads that make a
    /// program 1.5 times as fast would lower its reward.
    ShareOfPeak {
        /// Reward at the peak.
        scale: f64,
    },
    /// `scale · ln(1 + g)`: the same factor of speed is worth about the same everywhere.
    Log1p {
        /// Reward of one e-fold of speed.
        scale: f64,
    },
    /// `scale · g / best`, with the best of the stage from the [`Context`]. As long as the stage has none, the peak stands for it.
    RelativeToStageBest {
        /// Reward of a program as fast as the stage's best.
        scale: f64,
    },
}

/// Reads an empty object and refuses fields: serde itself accepts any field next to the tag of a unit variant.
pub(crate) fn no_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    Nothing::deserialize(deserializer).map(|Nothing {}| ())
}

impl SuccessScale {
    /// The reward of `g` GFLOPS and its derivative by ln g.
    fn value_and_slope(self, g: f64, own_share: f64, ctx: &Context) -> (f64, f64) {
        let linear = |value: f64| (value, value);
        let of_peak = |scale: f64| match ctx.peak_gflops.and_then(positive) {
            Some(peak) => scale * g / peak,
            // The timer always states the share of a peak.
            None => scale * own_share,
        };
        match self {
            SuccessScale::Gflops => linear(g),
            SuccessScale::ShareOfPeak { scale } => linear(of_peak(scale)),
            SuccessScale::Log1p { scale } => (scale * g.ln_1p(), scale * g / (1.0 + g)),
            SuccessScale::RelativeToStageBest { scale } => {
                linear(match ctx.stage_best_gflops.and_then(positive) {
                    Some(best) => scale * g / best,
                    None => of_peak(scale),
                })
            }
        }
    }

    fn check(self) -> Result<(), Error> {
        match self {
            SuccessScale::Gflops => Ok(()),
            SuccessScale::ShareOfPeak { scale }
            | SuccessScale::Log1p { scale }
            | SuccessScale::RelativeToStageBest { scale } => match positive(scale) {
                Some(_) => Ok(()),
                None => Err(Error::Scale(scale)),
            },
        }
    }
}

/// The reward ladder (Mikasa et al., arXiv 2602.12049; the rungs as reviews of the paper give them).
///
/// [`Ladder::default`] has the published rungs, −100 to −10 for failures and
/// raw GFLOPS for success. Within a group whose rewards are divided by their
/// standard deviation, one violation at −100 then makes the differences among
/// verified programs vanish. [`Ladder::scaled`] keeps the order and the
/// distances of the rungs in [−1, 0) and puts success in (0, 1], so that speed
/// weighs as much as correctness.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ladder {
    /// Format, library or technique violations.
    pub violation: f64,
    /// It does not build.
    pub compile: f64,
    /// It does not end.
    pub timeout: f64,
    /// It dies.
    pub runtime: f64,
    /// It computes something else.
    pub wrong: f64,
    /// It is right: the reward of its speed.
    pub success: SuccessScale,
}

impl Default for Ladder {
    fn default() -> Self {
        Self {
            violation: -100.0,
            compile: -40.0,
            timeout: -30.0,
            runtime: -20.0,
            wrong: -10.0,
            success: SuccessScale::Gflops,
        }
    }
}

impl Ladder {
    /// The same ladder with failures in [−1, 0) and success as the share of the machine's peak (our own normalisation,
    /// not the paper's).
    pub fn scaled() -> Self {
        let raw = Self::default();
        let unit = -raw.violation;
        Self {
            violation: raw.violation / unit,
            compile: raw.compile / unit,
            timeout: raw.timeout / unit,
            runtime: raw.runtime / unit,
            wrong: raw.wrong / unit,
            success: SuccessScale::ShareOfPeak { scale: 1.0 },
        }
    }

    /// The rung of a failure.
    pub fn rung(&self, class: FaultClass) -> f64 {
        match class {
            FaultClass::Violation => self.violation,
            FaultClass::Compile => self.compile,
            FaultClass::Timeout => self.timeout,
            FaultClass::Runtime => self.runtime,
            FaultClass::Wrong => self.wrong,
        }
    }

    pub(crate) fn success(&self, m: &Measurement, ctx: &Context) -> (f64, f64) {
        let (value, slope) = self.success.value_and_slope(m.gflops, m.share_of_peak, ctx);
        // A success with the smallest reward still ranks above the highest rung of failure, which is below zero.
        (value.max(0.0), slope)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let rungs = [
            ("violation", self.violation),
            ("compile", self.compile),
            ("timeout", self.timeout),
            ("runtime", self.runtime),
            ("wrong", self.wrong),
        ];
        for (name, value) in rungs {
            if !(value.is_finite() && value < 0.0) {
                return Err(Error::Rung { name, value });
            }
        }
        for pair in rungs.windows(2) {
            if pair[0].1 > pair[1].1 {
                return Err(Error::Order {
                    worse: pair[0].0,
                    better: pair[1].0,
                });
            }
        }
        self.success.check()
    }
}
