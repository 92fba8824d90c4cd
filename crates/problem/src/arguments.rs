//! The arguments of the entry function, as a definition gives them.

use serde::Deserialize;
use toml::Spanned;

use crate::contents::{RawContent, content};
use crate::mistakes::Check;
use crate::{Arg, ArgKind, Element, Language, MAX_ARGUMENTS, MAX_SCALARS, Params, Role, prototype};

/// Binades between the largest and the smallest row of an input with `graded = true`.
const GRADES: u32 = 31;

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
    scalar: Option<Spanned<Element>>,
    low: Option<Spanned<String>>,
    high: Option<Spanned<String>>,
    element: Option<Spanned<Element>>,
    role: Option<Role>,
    shape: Option<Vec<Spanned<String>>>,
    align: Option<Spanned<usize>>,
    content: Option<Spanned<RawContent>>,
    graded: Option<Spanned<Graded>>,
}

/// `graded = true`, or the number of binades.
#[derive(Deserialize)]
#[serde(untagged)]
enum Graded {
    Said(bool),
    Binades(u32),
}

impl Graded {
    fn binades(&self) -> u32 {
        match *self {
            Self::Said(true) => GRADES,
            Self::Said(false) => 0,
            Self::Binades(binades) => binades,
        }
    }
}

/// Reads and checks the arguments of an entry whose candidates are in `language`.
pub(crate) fn read(
    check: &mut Check<'_>,
    entry: &RawEntry,
    timed: &Params,
    language: Language,
) -> Vec<Arg> {
    let mut args = Vec::new();
    for spanned in entry.args.get_ref() {
        let raw = spanned.get_ref();
        if raw.scalar.is_none()
            && let Some(bound) = raw.low.as_ref().or(raw.high.as_ref())
        {
            check.wrong(
                bound,
                format!(
                    "`low` and `high` of `{}` belong to a scalar; an array has them in its `content`",
                    raw.name
                ),
            );
        }
        let kind = match (&raw.int, &raw.scalar, &raw.element, raw.role, &raw.shape) {
            (Some(value), None, None, None, None) => int(check, &raw.name, value, timed),
            (None, Some(element), None, None, None) => scalar(check, raw, element, timed),
            (None, None, Some(element), Some(role), Some(shape)) => {
                if language.is_fortran() && *element.get_ref() == Element::F16 {
                    check.wrong(
                        element,
                        "no kind of Fortran holds the elements of an `f16` array: `language` must be `c` or `c++`",
                    );
                }
                let element = *element.get_ref();
                Some(array(check, spanned, element, role, shape, timed))
            }
            _ => {
                check.wrong(spanned, format!("argument `{}` must have either `int = \"PARAMETER\"`, or `scalar`, `low` and `high`, or `element`, `role` and `shape`", raw.name));
                None
            }
        };
        args.extend(kind.map(|kind| Arg {
            name: raw.name.clone(),
            kind,
        }));
    }
    count(check, entry, &args);
    // After a mistake in an argument, the rest would be compared with the wrong parameters.
    if args.len() == entry.args.get_ref().len() {
        prototype::check(check, entry, &args);
    }
    args
}

/// Reports arguments that the harness cannot pass, and entries without a result.
fn count(check: &mut Check<'_>, entry: &RawEntry, args: &[Arg]) {
    let all = entry.args.get_ref().len();
    if all > MAX_ARGUMENTS {
        check.wrong(
            &entry.args,
            format!("the entry has {all} arguments, and at most {MAX_ARGUMENTS} can be passed"),
        );
    }
    let of = |kind: fn(&ArgKind) -> bool| args.iter().filter(|arg| kind(&arg.kind)).count();
    let scalars = of(|kind| matches!(kind, ArgKind::Scalar { .. }));
    if scalars > MAX_SCALARS {
        check.wrong(
            &entry.args,
            format!(
                "the entry has {scalars} scalars, and at most {MAX_SCALARS} can be passed in registers: put them into an array"
            ),
        );
    }
    let results = of(|kind| matches!(kind, ArgKind::Array { role, .. } if role.is_written()));
    if results == 0 {
        check.wrong(
            &entry.args,
            "no argument has `role = \"output\"` or `role = \"inout\"`: nothing could be verified",
        );
    }
}

/// A C `int` that is passed by value.
fn int(
    check: &mut Check<'_>,
    name: &str,
    text: &Spanned<String>,
    timed: &Params,
) -> Option<ArgKind> {
    let value = check.formula(text, timed)?;
    if let Some(why) = value.value(timed).ok().and_then(|v| no_int(name, v)) {
        check.wrong(text, why);
    }
    Some(ArgKind::Int { value })
}

/// Why a timed size cannot be passed, if it is no C `int`.
pub(crate) fn no_int(name: &str, value: f64) -> Option<String> {
    let fits = value.fract() == 0.0 && value.abs() <= f64::from(i32::MAX);
    (!fits).then(|| {
        format!(
            "`{name}` is {value} at the timed size, which a C `int` cannot hold: time a size at which it is a whole number up to {}",
            i32::MAX
        )
    })
}

/// A floating-point argument that is passed by value.
fn scalar(
    check: &mut Check<'_>,
    raw: &RawArg,
    element: &Spanned<Element>,
    timed: &Params,
) -> Option<ArgKind> {
    let name = &raw.name;
    let (Some(low), Some(high)) = (&raw.low, &raw.high) else {
        check.wrong(
            element,
            format!("the scalar `{name}` needs `low` and `high`, between which its value is drawn"),
        );
        return None;
    };
    let at = element;
    let element = *element.get_ref();
    if !matches!(element, Element::F64 | Element::F32) {
        check.wrong(
            at,
            format!("the scalar `{name}` must be `f64` or `f32`; `int` passes a parameter"),
        );
    }
    if raw.align.is_some() || raw.content.is_some() || raw.graded.is_some() {
        check.wrong(
            at,
            format!("the scalar `{name}` cannot have `align`, `content` or `graded`"),
        );
    }
    let (low, high) = (check.formula(low, timed)?, check.formula(high, timed)?);
    if let (Ok(least), Ok(most)) = (low.value(timed), high.value(timed)) {
        let (smallest, largest) = element.range();
        let within = |x: f64| (smallest..=largest).contains(&x);
        let apart = match element {
            Element::F32 => (least as f32) < most as f32,
            _ => least < most,
        };
        if !(within(least) && within(most) && apart) {
            check.wrong(
                at,
                format!(
                    "`low` of the scalar `{name}` is {least} and `high` is {most}: `low` must be less than `high`, and both must fit the type"
                ),
            );
        }
    }
    Some(ArgKind::Scalar { element, low, high })
}

fn array(
    check: &mut Check<'_>,
    spanned: &Spanned<RawArg>,
    element: Element,
    role: Role,
    shape: &[Spanned<String>],
    timed: &Params,
) -> ArgKind {
    let raw = spanned.get_ref();
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
                "`{}` is an output, and it has no content before a call: remove `content`",
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
        // Rows that are 2^-31 as large would be zero in binary16.
        let floats = element.is_float() && element != Element::F16;
        if !role.is_read() || !floats || !rows || !uniform {
            check.wrong(
                graded,
                format!(
                    "`{}` cannot be graded: `graded` needs an input of floats (not f16) with at least two extents and uniform content",
                    raw.name
                ),
            );
        }
        if graded.get_ref().binades() > GRADES {
            check.wrong(
                graded,
                format!("`graded` must be `true` or a number of binades up to {GRADES}"),
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
        graded: raw.graded.as_ref().map_or(0, |g| g.get_ref().binades()),
    }
}
