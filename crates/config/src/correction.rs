//! Corrections for samples that another policy drew.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Corrections for the difference between samplers and learner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Correction {
    /// `token_truncate` if the learner's weights are in half precision, whose rounding alone moves ratios by some
    /// hundredths for each token; else `none`.
    #[default]
    Auto,
    /// No correction: ratios are those to the policy that drew the tokens, and only clipping bounds them.
    None,
    /// Each token has its own weight; a weight above the cap is set to the cap.
    TokenTruncate,
    /// Each token has its own weight; a token with a weight above the cap has weight 0.
    TokenMask,
    /// All tokens of a sequence have the product of their weights; a product above the cap is set to the cap.
    SequenceTruncate,
    /// All tokens of a sequence have the product of their weights; with a product above the cap they have weight 0.
    SequenceMask,
}

impl Correction {
    /// The correction for weights in half precision or not: never [`Correction::Auto`].
    pub fn for_weights(self, half: bool) -> Self {
        match self {
            Correction::Auto if half => Correction::TokenTruncate,
            Correction::Auto => Correction::None,
            chosen => chosen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_corrected_unless_the_settings_say_otherwise() {
        assert_eq!(
            Correction::Auto.for_weights(true),
            Correction::TokenTruncate
        );
        assert_eq!(Correction::None.for_weights(true), Correction::None);
        assert_eq!(Correction::Auto.for_weights(false), Correction::None);
        let chosen = Correction::SequenceMask;
        assert_eq!(chosen.for_weights(false), chosen);
    }
}
