//! Amounts of money, exact.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Digits after the point.
const DIGITS: usize = 12;
/// Parts of one unit of the currency.
const UNIT: u128 = 1_000_000_000_000;
/// Parts of a millionth of it.
const MICRO: u128 = 1_000_000;
/// Most digits before the point.
const LONGEST: usize = 18;

/// An amount of money in any currency: a whole number of 10⁻¹² units. Prices are whole numbers of 10⁻⁶ units for a million
/// tokens, so the cost of any number of tokens is exact, and so are sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u128);

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// This many millionths of a unit.
    pub const fn micros(micros: u64) -> Self {
        Self(micros as u128 * MICRO)
    }

    /// True if it is a whole number of millionths of a unit.
    pub const fn is_whole_micros(self) -> bool {
        self.0.is_multiple_of(MICRO)
    }

    /// The cost of tokens, if this is the price of a million tokens in whole millionths.
    #[must_use]
    pub const fn times_tokens(self, tokens: u64) -> Self {
        Self((self.0 / MICRO).saturating_mul(tokens as u128))
    }

    /// The sum. It stops at the largest amount.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The rest after `other`; nothing if that is more.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = format!("{:0DIGITS$}", self.0 % UNIT);
        let parts = parts.trim_end_matches('0');
        match parts.is_empty() {
            true => write!(f, "{}", self.0 / UNIT),
            false => write!(f, "{}.{parts}", self.0 / UNIT),
        }
    }
}

/// A text is no amount of money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no amount of money; write a decimal number of 0 or more, e.g. 2.50")]
pub struct NoMoney(String);

impl FromStr for Money {
    type Err = NoMoney;

    fn from_str(text: &str) -> Result<Self, NoMoney> {
        let wrong = || NoMoney(text.to_owned());
        let (whole, parts) = text.split_once('.').unwrap_or((text, ""));
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let fits = (1..=LONGEST).contains(&whole.len()) && parts.len() <= DIGITS;
        let ends = parts.is_empty() != text.contains('.');
        if !(fits && ends && is_number(whole) && is_number(parts)) {
            return Err(wrong());
        }
        let number = |digits: &str| digits.parse::<u128>().map_err(|_| wrong());
        Ok(Self(
            number(whole)? * UNIT + number(&format!("{parts:0<DIGITS$}"))?,
        ))
    }
}

impl JsonSchema for Money {
    fn schema_name() -> Cow<'static, str> {
        "Money".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number"] })
    }
}

/// As text, so that no reader rounds it.
impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amount;
        impl Visitor<'_> for Amount {
            type Value = Money;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount of money such as 2.50")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Money, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: serde::de::Error>(self, units: u64) -> Result<Money, E> {
                self.visit_str(&units.to_string())
            }

            fn visit_i64<E: serde::de::Error>(self, units: i64) -> Result<Money, E> {
                self.visit_str(&units.to_string())
            }

            fn visit_f64<E: serde::de::Error>(self, units: f64) -> Result<Money, E> {
                // The shortest text of a float is the text that was written.
                self.visit_str(&units.to_string())
            }
        }
        deserializer.deserialize_any(Amount)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_read_as_they_are_written() {
        for (text, again) in [
            ("0", "0"),
            ("2.50", "2.5"),
            ("0.000000000001", "0.000000000001"),
            (
                "999999999999999999.999999999999",
                "999999999999999999.999999999999",
            ),
        ] {
            assert_eq!(text.parse::<Money>().unwrap().to_string(), again);
        }
        for wrong in [
            "",
            ".",
            "1.",
            ".5",
            "-1",
            "+1",
            "1e3",
            "1,5",
            "1.0000000000001",
            "NaN",
            "1 ",
        ] {
            assert!(wrong.parse::<Money>().is_err(), "{wrong}");
        }
        for (value, text) in [(json!(0.1), "0.1"), (json!(3), "3"), (json!("0.30"), "0.3")] {
            let read: Money = serde_json::from_value(value).unwrap();
            assert_eq!(read.to_string(), text);
        }
        for wrong in [json!(-1), json!(-0.5), json!(true)] {
            assert!(serde_json::from_value::<Money>(wrong).is_err());
        }
    }

    #[test]
    fn the_cost_of_tokens_is_exact() {
        let price: Money = "0.15".parse().unwrap();
        assert_eq!(price.times_tokens(1).to_string(), "0.00000015");
        assert_eq!(price.times_tokens(1_000_000), price);
        // A tenth has no exact float.
        let tenth: Money = "0.1".parse().unwrap();
        let sum = (0..10).fold(Money::ZERO, |sum, _| sum.plus(tenth));
        assert_eq!(sum, Money::micros(1_000_000));
        assert_eq!(tenth.less(sum), Money::ZERO);
    }

    proptest! {
        #[test]
        fn text_and_amount_are_the_same(whole in 0u64..1_000_000_000_000, parts in 0u64..1_000_000_000_000) {
            let amount = Money(u128::from(whole) * UNIT + u128::from(parts));
            prop_assert_eq!(amount.to_string().parse::<Money>().unwrap(), amount);
        }
    }
}
