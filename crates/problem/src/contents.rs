//! The contents of arrays that candidates read, as a definition gives them.

use serde::Deserialize;
use toml::Spanned;

use crate::mistakes::Check;
use crate::{Content, Element, Formula, Params};

#[derive(Deserialize)]
pub(crate) struct RawContent {
    pub kind: String,
    low: Option<Spanned<String>>,
    high: Option<Spanned<String>>,
    by: Option<Spanned<String>>,
    total: Option<Spanned<String>>,
}

/// Running sums of 64-bit integers lie within this of 0.
const SUMS: f64 = 4_503_599_627_370_496.0;

/// The kinds with the keys that belong to them, for people.
const KNOWN: &str = "known are `uniform`, `range`, `magnitudes`, `steps` and `repeating` with `low` and `high`, `shifted` with `low`, `high` and `by`, `dominant`, `distances` with `high`, and `offsets` with `total`";

/// The content of an array. A mistake leaves it uniform, and the definition is refused anyway.
pub(crate) fn content(
    check: &mut Check<'_>,
    at: &Spanned<RawContent>,
    element: Element,
    shape: &[Spanned<String>],
    timed: &Params,
) -> Content {
    read(check, at, element, shape, timed).unwrap_or_default()
}

fn read(
    check: &mut Check<'_>,
    at: &Spanned<RawContent>,
    element: Element,
    shape: &[Spanned<String>],
    timed: &Params,
) -> Option<Content> {
    let raw = at.get_ref();
    let square = match shape {
        [.., rows, columns] => rows.get_ref().trim() == columns.get_ref().trim(),
        _ => false,
    };
    let floats = element.is_float();
    // Numbers of either sign that are added up or counted with.
    let signed = matches!(element, Element::I32 | Element::I64);
    let kind = raw.kind.as_str();
    match (kind, &raw.low, &raw.high, &raw.by, &raw.total) {
        ("uniform", None, None, None, None) => Some(Content::Uniform),
        ("range", Some(low), Some(high), None, None) => {
            let (low, high) = (check.formula(low, timed)?, check.formula(high, timed)?);
            ordered(check, at, &low, &high, element, timed);
            Some(Content::Range { low, high })
        }
        ("shifted", Some(low), Some(high), Some(by), None) => {
            let (low, high) = (check.formula(low, timed)?, check.formula(high, timed)?);
            let by = check.formula(by, timed)?;
            ordered(check, at, &low, &high, element, timed);
            if !floats || by.value(timed).is_ok_and(|by| by < 0.0 || by.is_nan()) {
                check.wrong(at, "`shifted` is for floats, and `by` must not be negative");
            }
            Some(Content::Shifted { low, high, by })
        }
        ("magnitudes", Some(low), Some(high), None, None) => {
            let (low, high) = (check.formula(low, timed)?, check.formula(high, timed)?);
            if let (Ok(least), Ok(most)) = (low.value(timed), high.value(timed)) {
                // All numbers stay below `high`, which need not fit the type of integers.
                let largest = -element.range().0;
                let fits = |x: f64| x <= largest && (floats || x >= 1.0);
                let power = |x: f64| x.log2().fract() == 0.0 && fits(x);
                if !(power(least) && power(most) && least < most) {
                    check.wrong(at, "`low` and `high` of `magnitudes` must be powers of two that fit the type, for integers from 1 to 2147483648 (i32) or 2^63 (i64), and `low` must be the smaller one");
                }
            }
            if element == Element::U8 {
                check.wrong(
                    at,
                    "`magnitudes` is for numbers of either sign, and a `u8` has none",
                );
            }
            Some(Content::Magnitudes { low, high })
        }
        ("steps", Some(low), Some(high), None, None) => {
            let (low, high) = (check.formula(low, timed)?, check.formula(high, timed)?);
            ordered(check, at, &low, &high, element, timed);
            let bounds = low.value(timed).ok().zip(high.value(timed).ok());
            let fits = |(least, most): (f64, f64)| match element {
                Element::I32 => most - least <= f64::from(i32::MAX),
                // The sums of verified cases are computed in doubles.
                _ => least >= -SUMS && most <= SUMS,
            };
            if !signed || !bounds.is_none_or(fits) {
                check.wrong(
                    at,
                    "`steps` is for i32, where `high` lies at most 2147483647 above `low`, and for i64, where both lie within 2^52 of 0",
                );
            }
            Some(Content::Steps { low, high })
        }
        ("repeating", Some(low), Some(high), None, None) => {
            let (low, high) = (check.formula(low, timed)?, check.formula(high, timed)?);
            ordered(check, at, &low, &high, element, timed);
            if floats {
                check.wrong(at, "`repeating` is for integers");
            }
            Some(Content::Repeating { low, high })
        }
        ("distances", None, Some(high), None, None) => {
            let high = check.formula(high, timed)?;
            let most = high.value(timed).unwrap_or(f64::NAN);
            let fits = most >= 1.0 && most <= element.range().1;
            if !square || !fits || element.is_complex() {
                check.wrong(at, "`distances` is for square matrices of real numbers, and `high` must be at least 1 and fit the type");
            }
            Some(Content::Distances { high })
        }
        ("dominant", None, None, None, None) => {
            if !floats || !square || element.is_complex() {
                check.wrong(at, "`dominant` is for square matrices of real floats");
            }
            Some(Content::Dominant)
        }
        ("offsets", None, None, None, Some(total)) => {
            if !signed || shape.len() != 1 {
                check.wrong(at, "`offsets` is for one row of i32 or i64");
            }
            let total = check.formula(total, timed)?;
            Some(Content::Offsets { total })
        }
        _ => {
            check.wrong(
                at,
                format!("content `{kind}` is unknown or has the wrong keys; {KNOWN}"),
            );
            None
        }
    }
}

/// Reports bounds that are no range of the type.
fn ordered(
    check: &mut Check<'_>,
    at: &Spanned<RawContent>,
    low: &Formula,
    high: &Formula,
    element: Element,
    timed: &Params,
) {
    let (Ok(least), Ok(most)) = (low.value(timed), high.value(timed)) else {
        return;
    };
    let (smallest, largest) = element.range();
    let within = |x: f64| (smallest..=largest).contains(&x);
    if element.is_integer() && !(least.fract() == 0.0 && most.fract() == 0.0) {
        check.wrong(at, "`low` and `high` of integers must be whole numbers");
    } else if least.is_nan() || most.is_nan() || least > most {
        check.wrong(
            at,
            format!("`low` is {least} and `high` is {most}: `low` must not exceed `high`"),
        );
    } else if !(within(least) && within(most)) {
        check.wrong(
            at,
            format!(
                "`low` is {least} and `high` is {most}: both must lie between {smallest} and {largest}, as the numbers of this type do"
            ),
        );
    }
}
