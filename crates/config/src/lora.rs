//! The shape of a low-rank adapter (LoRA; Hu et al., 2021).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A matrix product of a block that an adapter may change, by PEFT's name.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Target {
    /// The product that makes the queries.
    #[serde(rename = "q_proj")]
    Query,
    /// The product that makes the keys.
    #[serde(rename = "k_proj")]
    Key,
    /// The product that makes the values.
    #[serde(rename = "v_proj")]
    Value,
    /// The output of attention.
    #[serde(rename = "o_proj")]
    Out,
    /// The gate of the feed-forward layer.
    #[serde(rename = "gate_proj")]
    Gate,
    /// The product of the feed-forward layer that the gate multiplies.
    #[serde(rename = "up_proj")]
    Up,
    /// The output of the feed-forward layer.
    #[serde(rename = "down_proj")]
    Down,
}

impl Target {
    /// All targets.
    pub const ALL: [Target; 7] = [
        Target::Query,
        Target::Key,
        Target::Value,
        Target::Out,
        Target::Gate,
        Target::Up,
        Target::Down,
    ];

    /// PEFT's name.
    pub fn name(self) -> &'static str {
        match self {
            Target::Query => "q_proj",
            Target::Key => "k_proj",
            Target::Value => "v_proj",
            Target::Out => "o_proj",
            Target::Gate => "gate_proj",
            Target::Up => "up_proj",
            Target::Down => "down_proj",
        }
    }
}

/// The shape of an adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoraConfig {
    /// r: the rank of A and B. Default 16.
    pub rank: u32,
    /// α: B A x is multiplied by α / r. Default 32.
    pub alpha: f64,
    /// Share of a product's inputs that A does not receive in training, drawn anew for each batch. Default 0.
    pub dropout: f64,
    /// Products to adapt: `q_proj`, `k_proj`, `v_proj`, `o_proj`, `gate_proj`, `up_proj`, `down_proj`. Default: all.
    pub targets: BTreeSet<Target>,
    /// Divide α by √r instead of r (Kalajdzievski, 2023). Default false.
    pub rank_stabilized: bool,
}

impl Default for LoraConfig {
    fn default() -> Self {
        Self {
            rank: 16,
            alpha: 32.0,
            dropout: 0.0,
            targets: Target::ALL.into(),
            rank_stabilized: false,
        }
    }
}

impl LoraConfig {
    /// The factor of B A x.
    pub fn scale(&self) -> f64 {
        let rank = f64::from(self.rank.max(1));
        self.alpha
            / if self.rank_stabilized {
                rank.sqrt()
            } else {
                rank
            }
    }

    /// Checks the ranges of the settings.
    ///
    /// # Errors
    /// The fault.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |what: String| Err(format!("the adapter's {what}"));
        if !(1..=4096).contains(&self.rank) {
            return wrong(format!("rank is {}; it must be 1 to 4096", self.rank));
        }
        if !self.alpha.is_finite() {
            return wrong(format!(
                "alpha is {}, which is not a finite number",
                self.alpha
            ));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return wrong(format!(
                "dropout is {}; it must be at least 0 and below 1",
                self.dropout
            ));
        }
        if self.targets.is_empty() {
            return wrong("targets are empty; name at least one, e.g. \"q_proj\"".into());
        }
        Ok(())
    }
}
