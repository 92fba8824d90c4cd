//! The arguments of the entry function, as a definition gives them.

use serde::Deserialize;
use toml::Spanned;

use crate::mistakes::Check;
use crate::{Arg, ArgKind, Content, Element, Params, Role};

#[derive(Deserialize)]
pub(crate) struct RawEntry {
    pub name: Spanned<String>,
    pub prototype: Spanned<String>,
    args: Spanned<Vec<Spanned<RawArg>>>,
}

#[derive(Deserialize)]
struct RawArg {
    name: String,
    int: Option<Spanned<String>>,
    element: Option<Element>,
    role: Option<Role>,
    shape: Option<Vec<Spanned<String>>>,
    align: Option<Spanned<usize>>,
    content: Option<Spanned<RawContent>>,
    graded: Option<Spanned<bool>>,
}

#[derive(Deserialize)]
struct RawContent {
    kind: String,
    low: Option<Spanned<String>>,
    high: Option<Spanned<String>>,
    total: Option<Spanned<String>>,
}

/// Reads and checks the arguments.
pub(crate) fn read(check: &mut Check<'_>, entry: &RawEntry, timed: &Params) -> Vec<Arg> {
    let mut args = Vec::new();
    let mut outputs = 0;
    for spanned in entry.args.get_ref() {
        let raw = spanned.get_ref();
        let kind = match (&raw.int, raw.element, raw.role, &raw.shape) {
            (Some(value), None, None, None) => match check.formula(value, timed) {
                Some(value) => ArgKind::Int { value },
                None => continue,
            },
            (None, Some(element), Some(role), Some(shape)) => {
                outputs += usize::from(role == Role::Output);
                let align = raw.align.as_ref().map_or(64, |a| *a.get_ref());
                if !(align.is_power_of_two() && align <= 4096) {
                    check.wrong(
                        spanned,
                        format!("`align = {align}` must be a power of two up to 4096"),
                    );
                }
                if let (Role::Output, Some(content)) = (role, &raw.content) {
                    check.wrong(
                        content,
                        format!(
                            "`{}` is an output: it has no content before a call",
                            raw.name
                        ),
                    );
                }
                if let Some(graded) = &raw.graded {
                    let uniform = raw
                        .content
                        .as_ref()
                        .is_none_or(|c| c.get_ref().kind == "uniform");
                    let rows = shape.len() >= 2;
                    if role == Role::Output || element == Element::I32 || !rows || !uniform {
                        check.wrong(
                            graded,
                            format!(
                                "`{}` cannot be graded: that is for inputs of floats with rows, two extents at least, and uniform content",
                                raw.name
                            ),
                        );
                    }
                }
                ArgKind::Array {
                    element,
                    role,
                    shape: shape
                        .iter()
                        .filter_map(|f| check.formula(f, timed))
                        .collect(),
                    align,
                    content: raw
                        .content
                        .as_ref()
                        .map(|c| content(check, c, element, shape, timed))
                        .unwrap_or_default(),
                    graded: raw.graded.as_ref().is_some_and(|g| *g.get_ref()),
                }
            }
            _ => {
                check.wrong(spanned, format!("argument `{}` is either `int = \"PARAMETER\"` or has `element`, `role` and `shape`", raw.name));
                continue;
            }
        };
        args.push(Arg {
            name: raw.name.clone(),
            kind,
        });
    }
    if outputs == 0 {
        check.wrong(
            &entry.args,
            "no argument has `role = \"output\"`: nothing could be verified",
        );
    }
    let prototype = entry.prototype.get_ref();
    if !prototype.contains(&format!("{}(", entry.name.get_ref()))
        || !prototype.trim_end().ends_with(';')
    {
        check.wrong(
            &entry.prototype,
            format!(
                "`prototype` must declare `{}(…)` and end with `;`",
                entry.name.get_ref()
            ),
        );
    }
    args
}

/// What an input holds. A mistake leaves it uniform, and the definition is refused anyway.
fn content(
    check: &mut Check<'_>,
    at: &Spanned<RawContent>,
    element: Element,
    shape: &[Spanned<String>],
    timed: &Params,
) -> Content {
    let raw = at.get_ref();
    let extents = shape.len();
    let square = match shape {
        [.., rows, columns] => rows.get_ref().trim() == columns.get_ref().trim(),
        _ => false,
    };
    let floats = element != Element::I32;
    match (raw.kind.as_str(), &raw.low, &raw.high, &raw.total) {
        ("uniform", None, None, None) => Content::Uniform,
        ("range", Some(low), Some(high), None) => {
            let (Some(low), Some(high)) = (check.formula(low, timed), check.formula(high, timed))
            else {
                return Content::Uniform;
            };
            if let (Ok(least), Ok(most)) = (low.value(timed), high.value(timed)) {
                let whole = |x: f64| {
                    x.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&x)
                };
                if !(floats || whole(least) && whole(most)) {
                    check.wrong(at, "`low` and `high` of integers must be whole numbers");
                } else if least.is_nan() || most.is_nan() || least > most {
                    check.wrong(at, format!("`low` is {least} and `high` {most}"));
                }
            }
            Content::Range { low, high }
        }
        ("dominant", None, None, None) => {
            if !floats || !square {
                check.wrong(at, "`dominant` is for square matrices of floats");
            }
            Content::Dominant
        }
        ("offsets", None, None, Some(total)) => {
            if floats || extents != 1 {
                check.wrong(at, "`offsets` is for one row of i32");
            }
            match check.formula(total, timed) {
                Some(total) => Content::Offsets { total },
                None => Content::Uniform,
            }
        }
        (kind, ..) => {
            check.wrong(
                at,
                format!(
                    "content `{kind}` is unknown or has other keys; known are `uniform`, `range` with `low` and `high`, `dominant`, and `offsets` with `total`"
                ),
            );
            Content::Uniform
        }
    }
}
