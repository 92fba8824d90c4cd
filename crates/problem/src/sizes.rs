//! Sizes that candidates are not told.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::Params;
use crate::mistakes::Check;

/// Where the values of one parameter come from in hidden cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HiddenSizes {
    /// The parameter that varies.
    pub param: String,
    /// Sizes are multiples of this.
    #[serde(default = "one")]
    pub multiple_of: i64,
    /// Sizes are powers of two.
    #[serde(default)]
    pub power_of_two: bool,
    /// Smallest.
    pub min: i64,
    /// Largest.
    pub max: i64,
}

/// Sizes of one parameter at most: they are listed where one is drawn.
const MOST: i64 = 1 << 24;

fn one() -> i64 {
    1
}

/// One table or several.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    One(HiddenSizes),
    Many(Vec<HiddenSizes>),
}

impl HiddenSizes {
    /// Is `size` one of them, its range aside?
    pub fn fits(&self, size: i64) -> bool {
        size > 0
            && if self.power_of_two {
                size & (size - 1) == 0
            } else {
                self.multiple_of > 0 && size % self.multiple_of == 0
            }
    }

    /// The sizes from `low` to `high` that lie in the range; the nearest one above `low`, or else the largest, where there is none.
    pub fn between(&self, low: i64, high: i64) -> Vec<i64> {
        let within = |low: i64, high: i64| -> Vec<i64> {
            let (low, high) = (low.max(self.min), high.min(self.max));
            if self.power_of_two {
                return (0..62)
                    .map(|e| 1i64 << e)
                    .filter(|s| (low..=high).contains(s))
                    .collect();
            }
            let step = self.multiple_of.max(1);
            (low.div_euclid(step) + i64::from(low.rem_euclid(step) > 0)..=high.div_euclid(step))
                .map(|n| n * step)
                .collect()
        };
        let wanted = within(low, high);
        if !wanted.is_empty() {
            return wanted;
        }
        match within(low, self.max).first() {
            Some(next) => vec![*next],
            None => vec![self.max],
        }
    }

    /// How many different sizes there are.
    pub fn count(&self) -> usize {
        self.between(self.min, self.max).len()
    }
}

/// Checks the table or tables of hidden sizes.
pub(crate) fn read(
    check: &mut Check<'_>,
    at: &Spanned<OneOrMany>,
    timed: &Params,
) -> Vec<HiddenSizes> {
    let all = match at.get_ref() {
        OneOrMany::One(one) => vec![one.clone()],
        OneOrMany::Many(many) => many.clone(),
    };
    if all.is_empty() {
        check.wrong(at, "`verify.hidden` is empty: name at least one parameter");
    }
    for (n, hidden) in all.iter().enumerate() {
        let HiddenSizes {
            param, min, max, ..
        } = hidden;
        if !timed.contains_key(param) {
            check.wrong(
                at,
                format!("`verify.hidden.param` is `{param}`, which [timed] does not have"),
            );
        }
        if all[..n].iter().any(|other| other.param == *param) {
            check.wrong(at, format!("`verify.hidden` names `{param}` twice"));
        }
        if !(hidden.fits(*min) && hidden.fits(*max) && min <= max) {
            let kind = if hidden.power_of_two {
                "powers of two"
            } else {
                "positive multiples of `multiple_of`"
            };
            check.wrong(
                at,
                format!("`verify.hidden`: min and max must be {kind}, and min must not exceed max"),
            );
        } else if !hidden.power_of_two && (max - min) / hidden.multiple_of >= MOST {
            check.wrong(
                at,
                format!("`verify.hidden` has more than {MOST} sizes of `{param}`; choose a larger `multiple_of`"),
            );
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sizes_between_two_bounds_are_legal_and_never_empty(
            step in 1i64..70, least in 1i64..9, more in 0i64..30, powers: bool, low in -5i64..3000, high in -5i64..3000
        ) {
            let (min, max) = if powers { (1 << (least / 2), 1 << (least / 2 + more / 4)) } else { (least * step, (least + more) * step) };
            let hidden = HiddenSizes { param: "n".into(), multiple_of: step, power_of_two: powers, min, max };
            let found = hidden.between(low, high);
            prop_assert!(!found.is_empty());
            for size in &found {
                prop_assert!(hidden.fits(*size) && (min..=max).contains(size), "{size}");
            }
            let all = hidden.between(min, max);
            prop_assert_eq!(hidden.count(), all.len());
            // Against looking at every number.
            let slow: Vec<i64> = (min..=max).filter(|s| hidden.fits(*s) && (low..=high).contains(s)).collect();
            if !slow.is_empty() {
                prop_assert_eq!(found, slow);
            }
        }
    }
}
