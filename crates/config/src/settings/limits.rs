//! Limits of single settings, checked in the reader so that an error names the line.

use serde::{Deserialize, Deserializer};

/// A number above 0. The check is in the reader, so that the error names the line.
pub(super) fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if number.is_finite() && number > 0.0 {
        Ok(number)
    } else {
        Err(serde::de::Error::custom(format!(
            "{number} is no number above 0"
        )))
    }
}

/// A whole number from 1 on, checked in the reader.
pub(super) fn at_least_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        0 => Err(serde::de::Error::custom("0 is no number from 1 on")),
        number => Ok(number),
    }
}

/// An optional whole number from 1 on, checked in the reader.
pub(super) fn some_from_one<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u32>, D::Error> {
    match Option::<u32>::deserialize(deserializer)? {
        Some(0) => Err(serde::de::Error::custom("0 is no number from 1 on")),
        number => Ok(number),
    }
}

/// A number from 0 on, checked in the reader.
pub(super) fn not_negative<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if number.is_finite() && number >= 0.0 {
        Ok(number)
    } else {
        Err(serde::de::Error::custom(format!(
            "{number} is not a number of 0 or more"
        )))
    }
}
