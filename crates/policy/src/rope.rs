//! Rotary frequencies, and the methods that extend them to longer sequences than those of the model's first training.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// The change of a model's rotary frequencies from `theta^(−2j/d)`, as `rope_parameters` (or, in older files,
/// `rope_scaling`) sets it.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(tag = "rope_type", rename_all = "lowercase")]
pub enum Rope {
    /// No change.
    #[default]
    Default,
    /// Positions are divided by a factor (Chen et al., 2023, arXiv:2306.15595).
    Linear {
        /// The factor.
        factor: f64,
    },
    /// The base grows with the sequence once it is longer than `max_position_embeddings`. Sequences end at that length
    /// here, so nothing changes.
    Dynamic {
        /// The factor.
        factor: f64,
    },
    /// High frequencies stay, low ones are divided, frequencies between are blended, and attention is sharpened (Peng
    /// et al., 2023, arXiv:2309.00071).
    Yarn(Yarn),
    /// High frequencies stay, low ones are divided, and frequencies between are blended by their wavelength (Llama
    /// 3.1).
    Llama3 {
        /// Divisor of low frequencies.
        factor: f64,
        /// Wavelengths above `original / low_freq_factor` are divided.
        low_freq_factor: f64,
        /// Wavelengths below `original / high_freq_factor` stay.
        high_freq_factor: f64,
        /// Number of positions that the model was first trained on.
        original: f64,
    },
}

/// The parameters of YaRN.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Yarn {
    /// Divisor of low frequencies.
    pub factor: f64,
    /// Number of positions that the model was first trained on.
    pub original: f64,
    /// Frequencies with more rotations than this over `original` stay.
    pub beta_fast: f64,
    /// Frequencies with fewer rotations than this are divided.
    pub beta_slow: f64,
    /// Factor of queries and keys.
    pub attention_factor: f64,
    /// True if the bounds between the two are rounded to whole pairs.
    pub truncate: bool,
}

/// The fields that describe the stretching of frequencies, in the order of reading: newer files have the first.
const FIELDS: [&str; 2] = ["rope_parameters", "rope_scaling"];

fn refuse<T>(field: &'static str, reason: String) -> Result<T> {
    Err(Error::Config { field, reason })
}

/// Reads a field of a configuration: the base of the frequencies if the field names it, and how the frequencies are
/// stretched.
pub(crate) fn read(other: &Map<String, Value>, positions: i64) -> Result<(Option<f64>, Rope)> {
    let mut theta = None;
    let mut rope = Rope::Default;
    for field in FIELDS {
        let Some(Value::Object(map)) = other.get(field) else {
            continue;
        };
        theta = theta.or_else(|| map.get("rope_theta").and_then(Value::as_f64));
        // If both fields are present they agree.
        if rope == Rope::Default {
            rope = stretched(map, field, positions)?;
        }
    }
    Ok((theta, rope))
}

fn stretched(map: &Map<String, Value>, field: &'static str, positions: i64) -> Result<Rope> {
    let kind = map.get("rope_type").or_else(|| map.get("type"));
    let kind = kind.and_then(Value::as_str).unwrap_or("default");
    let number = |name: &str| map.get(name).and_then(Value::as_f64);
    let above_0 = |name: &str, otherwise: Option<f64>| match number(name).or(otherwise) {
        Some(value) if value.is_finite() && value > 0.0 => Ok(value),
        Some(value) => refuse(
            field,
            format!("has `{name}` {value}, which must be above 0"),
        ),
        None => refuse(field, format!("has no `{name}`, which `{kind}` needs")),
    };
    if number("partial_rotary_factor").is_some_and(|share| share != 1.0) {
        return refuse(
            field,
            "has a `partial_rotary_factor`; only whole heads can be rotated".into(),
        );
    }
    let positions = Some(positions as f64);
    Ok(match kind {
        "default" => Rope::Default,
        "linear" => Rope::Linear {
            factor: above_0("factor", None)?,
        },
        "dynamic" => Rope::Dynamic {
            factor: above_0("factor", None)?,
        },
        "yarn" => {
            let original = above_0("original_max_position_embeddings", positions)?;
            let factor = above_0("factor", positions.map(|p| p / original))?;
            let scale = |by: f64| match factor > 1.0 {
                true => 0.1 * by * factor.ln() + 1.0,
                false => 1.0,
            };
            let usual = match (number("mscale"), number("mscale_all_dim")) {
                (Some(some), Some(all)) if some != 0.0 && all != 0.0 => scale(some) / scale(all),
                _ => scale(1.0),
            };
            Rope::Yarn(Yarn {
                factor,
                original,
                beta_fast: above_0("beta_fast", Some(32.0))?,
                beta_slow: above_0("beta_slow", Some(1.0))?,
                attention_factor: above_0("attention_factor", Some(usual))?,
                truncate: map.get("truncate") != Some(&Value::Bool(false)),
            })
        }
        "llama3" => {
            let (low, high) = (
                above_0("low_freq_factor", None)?,
                above_0("high_freq_factor", None)?,
            );
            if low >= high {
                return refuse(
                    field,
                    format!(
                        "has `low_freq_factor` {low}, which must be below `high_freq_factor` {high}"
                    ),
                );
            }
            Rope::Llama3 {
                factor: above_0("factor", None)?,
                low_freq_factor: low,
                high_freq_factor: high,
                original: above_0("original_max_position_embeddings", positions)?,
            }
        }
        other => {
            return refuse(
                field,
                format!(
                    "asks for rotary scaling `{other}`, which is not supported (supported: default, linear, dynamic, yarn, llama3)"
                ),
            );
        }
    })
}

impl Rope {
    /// Radians per position of each pair of a head of width `d`, and the factor of queries and keys.
    ///
    /// The computation is in single precision, as in transformers; otherwise long positions would differ.
    pub(crate) fn frequencies(&self, theta: f64, d: i64) -> (Vec<f32>, f32) {
        let base = theta as f32;
        let plain = (0..d / 2).map(|j| 1.0 / base.powf((2 * j) as f32 / d as f32));
        match self {
            Rope::Default | Rope::Dynamic { .. } => (plain.collect(), 1.0),
            Rope::Linear { factor } => (plain.map(|f| f / *factor as f32).collect(), 1.0),
            Rope::Yarn(yarn) => {
                let (low, high) = yarn.bounds(theta, d);
                let blended = plain.enumerate().map(|(j, f)| {
                    let divided = ((j as f64 - low) / (high - low)).clamp(0.0, 1.0) as f32;
                    f / yarn.factor as f32 * divided + f * (1.0 - divided)
                });
                (blended.collect(), yarn.attention_factor as f32)
            }
            Rope::Llama3 {
                factor,
                low_freq_factor: low,
                high_freq_factor: high,
                original,
            } => {
                let (factor, low, high) = (*factor as f32, *low as f32, *high as f32);
                let original = *original as f32;
                let blended = plain.map(|f| {
                    let wavelength = std::f32::consts::TAU / f;
                    if wavelength > original / low {
                        f / factor
                    } else if wavelength < original / high {
                        f
                    } else {
                        let kept = (original / wavelength - low) / (high - low);
                        (1.0 - kept) * f / factor + kept * f
                    }
                });
                (blended.collect(), 1.0)
            }
        }
    }

    /// The method's name, unless it is the default.
    pub fn name(&self) -> Option<&'static str> {
        match self {
            Rope::Default => None,
            Rope::Linear { .. } => Some("linear"),
            Rope::Dynamic { .. } => Some("dynamic"),
            Rope::Yarn(_) => Some("yarn"),
            Rope::Llama3 { .. } => Some("llama3"),
        }
    }

    /// The configuration entries of this method.
    pub(crate) fn to_map(&self, theta: f64) -> Map<String, Value> {
        let mut map = Map::new();
        let mut put = |name: &str, value: Value| {
            map.insert(name.to_owned(), value);
        };
        put("rope_theta", json!(theta));
        match self {
            Rope::Default => put("rope_type", json!("default")),
            Rope::Linear { factor } => {
                put("rope_type", json!("linear"));
                put("factor", json!(factor));
            }
            Rope::Dynamic { factor } => {
                put("rope_type", json!("dynamic"));
                put("factor", json!(factor));
            }
            Rope::Yarn(yarn) => {
                put("rope_type", json!("yarn"));
                put("factor", json!(yarn.factor));
                put("original_max_position_embeddings", whole(yarn.original));
                put("beta_fast", json!(yarn.beta_fast));
                put("beta_slow", json!(yarn.beta_slow));
                put("attention_factor", json!(yarn.attention_factor));
                put("truncate", json!(yarn.truncate));
            }
            Rope::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original,
            } => {
                put("rope_type", json!("llama3"));
                put("factor", json!(factor));
                put("low_freq_factor", json!(low_freq_factor));
                put("high_freq_factor", json!(high_freq_factor));
                put("original_max_position_embeddings", whole(*original));
            }
        }
        map
    }
}

/// Positions are integers in every file, and other programs check that.
fn whole(positions: f64) -> Value {
    json!(positions as i64)
}

impl Yarn {
    /// The pairs of a head of width `d` between which frequencies are blended.
    fn bounds(&self, theta: f64, d: i64) -> (f64, f64) {
        let d = d as f64;
        let pair = |rotations: f64| {
            d * (self.original / (rotations * std::f64::consts::TAU)).ln() / (2.0 * theta.ln())
        };
        let (mut low, mut high) = (pair(self.beta_fast), pair(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        (low, high) = (low.max(0.0), high.min(d - 1.0));
        if low == high {
            // Prevents a division by zero; no pair lies between the two bounds.
            high += 0.001;
        }
        (low, high)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn read_one(rope: Value) -> Result<Rope> {
        let other = Map::from_iter([("rope_scaling".to_owned(), rope)]);
        Ok(read(&other, 64)?.1)
    }

    #[test]
    fn a_written_rope_configuration_is_read_back() {
        for rope in [
            json!({"rope_type": "default"}),
            json!({"type": "linear", "factor": 4.0}),
            json!({"type": "dynamic", "factor": 2.0}),
            json!({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}),
            json!({"type": "yarn", "mscale": 0.7, "mscale_all_dim": 1.0, "original_max_position_embeddings": 16, "truncate": false}),
            json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}),
        ] {
            let first = read_one(rope).unwrap();
            let other = Map::from_iter([(
                "rope_parameters".to_owned(),
                Value::Object(first.to_map(500.0)),
            )]);
            assert_eq!(read(&other, 64).unwrap(), (Some(500.0), first));
        }
    }

    #[test]
    fn impossible_rope_configurations_are_refused_by_name() {
        for (rope, words) in [
            (json!({"type": "longrope", "factor": 4.0}), "`longrope`"),
            (json!({"type": "linear"}), "has no `factor`"),
            (
                json!({"type": "linear", "factor": 2, "partial_rotary_factor": 0.5}),
                "whole heads",
            ),
            (json!({"type": "linear", "factor": 0}), "above 0"),
            (
                json!({"type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0}),
                "must be below",
            ),
        ] {
            let error = read_one(rope).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
