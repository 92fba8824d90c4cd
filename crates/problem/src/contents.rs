//! The contents of inputs, as a definition gives them.

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

/// The kinds with the keys that belong to them, for people.
const KNOWN: &str = "known are `uniform`, `range`, `magnitudes`, `steps` and `repeating` with `low` and `high`, `shifted` with `low`, `high` and `by`, `dominant`, `distances` with `high`, and `offsets` with `total`";

/// The content of an input. A mistake leaves it uniform, and the definition is refused anyway.
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
    let floats = element != Element::I32;
    let kind = raw.kind.as_str();
    match (kind, &raw.low, &raw.high, &raw.by, &raw.total) {
        ("uniform", None, None, None, None) => Some(Content::Uniform),
        ("range", Some(low), Some(high), None, None) => {
            let (low, high) = (check.formula(low, timed)?, check.formula(high, timed)?);
            ordered(check, at, &low, &high, floats, timed);
            Some(Content::Range { low, high })
        }
        ("shifted", Some(low), Some(high), Some(by), None) => {
            let (low, high) = (check.formula(low, timed)?, check.formula(high, timed)?);
            let by = check.formula(by, timed)?;
            ordered(check, at, &low, &high, floats, timed);
            if !floats || by.value(timed).is_ok_and(|by| by < 0.0 || by.is_nan()) {
                check.wrong(at, "`shifted` is for floats, and `by` must not be negative");
            }
            Some(Content::Shifted { low, high, by })
        }
        ("magnitudes", Some(low), Some(high), None, None) => {
            let (low, high) = (check.formula(low, timed)?, check.formula(high, timed)?);
            if let (Ok(least), Ok(most)) = (low.value(timed), high.value(timed)) {
                let power =
                    |x: f64| x.log2().fract() == 0.0 && (floats || x >= 1.0 && x <= 2f64.powi(31));
                if !(power(least) && power(most) && least < most) {
                    check.wrong(at, "`low` and `high` of `magnitudes` must be powers of two, for integers from 1 to 2147483648, and `low` must be the smaller one");
                }
            }
            Some(Content::Magnitudes { low, high })
        }
        ("steps", Some(low), Some(high), None, None) => {
            let (low, high) = (check.formula(low, timed)?, check.formula(high, timed)?);
            ordered(check, at, &low, &high, floats, timed);
            let wide = |(least, most): (f64, f64)| most - least > f64::from(i32::MAX);
            if floats
                || low
                    .value(timed)
                    .ok()
                    .zip(high.value(timed).ok())
                    .is_some_and(wide)
            {
                check.wrong(
                    at,
                    "`steps` is for i32, and `high` must lie at most 2147483647 above `low`",
                );
            }
            Some(Content::Steps { low, high })
        }
        ("repeating", Some(low), Some(high), None, None) => {
            let (low, high) = (check.formula(low, timed)?, check.formula(high, timed)?);
            ordered(check, at, &low, &high, floats, timed);
            if floats {
                check.wrong(at, "`repeating` is for i32");
            }
            Some(Content::Repeating { low, high })
        }
        ("distances", None, Some(high), None, None) => {
            let high = check.formula(high, timed)?;
            let most = high.value(timed).unwrap_or(f64::NAN);
            let fits = most >= 1.0 && (floats || most <= f64::from(i32::MAX));
            if !square || !fits {
                check.wrong(at, "`distances` is for square matrices, and `high` must be at least 1 and fit the type");
            }
            Some(Content::Distances { high })
        }
        ("dominant", None, None, None, None) => {
            if !floats || !square {
                check.wrong(at, "`dominant` is for square matrices of floats");
            }
            Some(Content::Dominant)
        }
        ("offsets", None, None, None, Some(total)) => {
            if floats || shape.len() != 1 {
                check.wrong(at, "`offsets` is for one row of i32");
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
    floats: bool,
    timed: &Params,
) {
    let (Ok(least), Ok(most)) = (low.value(timed), high.value(timed)) else {
        return;
    };
    let whole =
        |x: f64| x.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&x);
    if !(floats || whole(least) && whole(most)) {
        check.wrong(at, "`low` and `high` of integers must be whole numbers");
    } else if least.is_nan() || most.is_nan() || least > most {
        check.wrong(
            at,
            format!("`low` is {least} and `high` is {most}: `low` must not exceed `high`"),
        );
    }
}
