//! Advantages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Advantages from rewards.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Advantage {
    /// Kind of advantages: mean and deviation, leave-one-out, or measurement-aware.
    pub kind: flopsmith_reward::AdvantageKind,
    /// The divisor of rewards.
    pub scale: flopsmith_reward::Scale,
    /// Fitness sharing: if m samples of a step answer the same prompt with the same program, each keeps m^-sharing of
    /// its reward. 0 shares nothing; 1 divides the reward among them.
    pub sharing: f64,
    /// Number that is added to the advantage of every verified sample; 0 adds nothing. The advantages of a group add up
    /// to 0, so without it properties that right and wrong answers share are never reinforced, and a policy that errs
    /// at one token of a thousand keeps erring. Our own variant, after the likelihood term on right answers of VAPO
    /// (Yue et al., 2025), which makes the policy sure of its right answers. The differences: theirs is a loss beside
    /// the policy's, the mean over the tokens of right answers with a weight of its own, without clipping; here it is a
    /// constant within the advantage, so that ratio, clipping and reduction of the policy's own loss apply to it. While
    /// the ratio is 1 it has the gradient of a likelihood term.
    pub imitation: f64,
    /// Weight of self-imitation, our own variant, after Oh et al. (2018); `best_answers` of the actors lists the
    /// differences. While a step's answers to a prompt fall short of the best answer so far, that best answer takes
    /// part in the step, with this many times the advantage it would have among them. 0 leaves it out. Without it a
    /// much faster program that occurs once in thousands of samples is soon forgotten.
    pub self_imitation: f64,
    /// Treatment of answers that were cut off at `generator.max_tokens`. They count in their groups either way.
    pub overlong: Overlong,
    /// Treatment of groups whose rewards are all equal.
    pub flat_groups: FlatGroups,
    /// Dynamic sampling (Yu et al., 2025): draw other groups in place of training groups whose rewards are all equal,
    /// to other prompts of the same step, in at most this many rounds. Groups that are flat even then are left out,
    /// whatever `flat_groups` says. 0 draws none. A step waits for each round, so it takes as much longer.
    pub dynamic_sampling: u32,
    /// Leave the answers of a policy more than this many versions older than the trained one out of training; 0 is no
    /// limit.
    pub max_staleness: u32,
}

/// Treatments of answers that were cut off.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Default, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlong {
    /// Train on them like on any other answer.
    #[default]
    Train,
    /// Leave them out of training: a cut is no fault of the part of the program that is there (overlong filtering of Yu
    /// et al., 2025).
    LeaveOut,
}

/// Treatments of groups whose rewards are all equal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Default, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlatGroups {
    /// Train on them like on any other group. Their answers have only the advantage that `imitation` adds, and are in
    /// the loss's mean.
    #[default]
    Train,
    /// Leave them out of the batch, as after dynamic sampling (Yu et al., 2025), but draw no others in their place. The
    /// number of such groups then influences neither the size of a step nor, with `scale = "batch"`, the divisor of
    /// rewards.
    LeaveOut,
}

impl Advantage {
    /// True if groups whose rewards are all equal are left out of the batch.
    pub fn leaves_out_flat_groups(&self) -> bool {
        self.dynamic_sampling > 0 || self.flat_groups == FlatGroups::LeaveOut
    }
}

impl Default for Advantage {
    fn default() -> Self {
        Self {
            kind: flopsmith_reward::AdvantageKind::MeasurementAware,
            scale: flopsmith_reward::Scale::Group,
            sharing: 0.0,
            imitation: 0.0,
            self_imitation: 0.0,
            overlong: Overlong::Train,
            flat_groups: FlatGroups::Train,
            dynamic_sampling: 0,
            max_staleness: 0,
        }
    }
}
