//! Checks of the ranges of numbers.

/// A setting has a value without meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("setting `{field}` {reason}")]
pub struct OutOfRange {
    /// The setting's name.
    pub field: &'static str,
    /// The fault of the value.
    pub reason: String,
}

pub(crate) fn at_least(field: &'static str, value: f64, least: f64) -> Result<(), OutOfRange> {
    if value >= least && value.is_finite() {
        Ok(())
    } else {
        Err(bad(field, value, "0 or more"))
    }
}

pub(crate) fn positive(field: &'static str, value: u64) -> Result<(), OutOfRange> {
    if value > 0 {
        Ok(())
    } else {
        Err(OutOfRange {
            field,
            reason: "is 0; it must be 1 or more".into(),
        })
    }
}

pub(crate) fn bad(field: &'static str, value: f64, wanted: &str) -> OutOfRange {
    OutOfRange {
        field,
        reason: format!("is {value}; it must be {wanted}"),
    }
}
