//! The fields of a request's body, read one after the other.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::refusal::Refusal;

/// The fields that are not read yet. A field that is null counts as missing.
pub struct Fields(Map<String, Value>);

impl Fields {
    /// The fields of a JSON object.
    ///
    /// # Errors
    /// If the bytes are no JSON object.
    pub fn of(bytes: &[u8]) -> Result<Self, Refusal> {
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(_) => Err(Refusal::malformed("the body has to be a JSON object")),
            Err(error) => Err(Refusal::malformed(format!("the body is no JSON: {error}"))),
        }
    }

    /// The fields of an object within the body.
    pub fn within(object: Map<String, Value>) -> Self {
        Self(object)
    }

    /// The value of a field.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    /// A field with a text.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Refusal::invalid(name, format!("`{name}` has to be a text"))),
        }
    }

    /// A field with true or false; false if it is missing.
    pub fn flag(&mut self, name: &str) -> Result<bool, Refusal> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(Refusal::invalid(
                name,
                format!("`{name}` has to be true or false"),
            )),
        }
    }

    /// A field with a whole number of this range.
    pub fn whole(
        &mut self,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, Refusal> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let number = value.as_i64().filter(|number| range.contains(number));
        number.map(Some).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            let message = format!("`{name}` has to be a whole number from {least} to {most}");
            Refusal::invalid(name, message)
        })
    }

    /// A field with a number of this range.
    pub fn number(
        &mut self,
        name: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f32>, Refusal> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let number = value.as_f64().filter(|number| range.contains(number));
        let number = number.map(|number| Some(number as f32));
        number.ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            let message = format!("`{name}` has to be a number from {least} to {most}");
            Refusal::invalid(name, message)
        })
    }

    /// The seed of the draws: any whole number of 64 bits.
    pub fn seed(&mut self) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.take("seed") else {
            return Ok(None);
        };
        let signed = || value.as_i64().map(i64::cast_unsigned);
        let seed = value.as_u64().or_else(signed);
        seed.map(Some).ok_or_else(|| {
            Refusal::invalid("seed", "`seed` has to be a whole number of at most 64 bits")
        })
    }

    /// Reads fields that have no influence on the answer.
    pub fn ignore(&mut self, names: &[&str]) {
        for name in names {
            self.0.remove(*name);
        }
    }

    /// Reads a field whose meaning this service does not have. Only the given values, which change nothing, are taken.
    pub fn only(&mut self, name: &str, neutral: &[Value]) -> Result<(), Refusal> {
        match self.take(name) {
            Some(value) if !neutral.iter().any(|n| equal(n, &value)) => {
                let message = format!("this service does not know `{name}`; leave it out");
                Err(Refusal::invalid(name, message))
            }
            _ => Ok(()),
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// If a field is left.
    pub fn end(self, within: &str) -> Result<(), Refusal> {
        match self.0.into_iter().find(|(_, value)| !value.is_null()) {
            Some((name, _)) => {
                let name = format!("{within}{name}");
                let message = format!("this service does not know `{name}`; leave it out");
                Err(Refusal::invalid(&name, message))
            }
            None => Ok(()),
        }
    }
}

/// Equality for which 0 and 0.0 are the same number.
fn equal(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}
