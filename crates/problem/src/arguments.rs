//! The arguments of the entry function, as a definition gives them.

use serde::Deserialize;
use toml::Spanned;

use crate::contents::{RawContent, content};
use crate::mistakes::Check;
use crate::{Arg, ArgKind, Element, Params, Role};

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
    element: Option<Element>,
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
                    if role == Role::Output || element == Element::I32 || !rows || !uniform {
                        check.wrong(
                            graded,
                            format!(
                                "`{}` cannot be graded: `graded` needs an input of floats with at least two extents and uniform content",
                                raw.name
                            ),
                        );
                    }
                    if graded.get_ref().binades() > GRADES {
                        check.wrong(
                            graded,
                            format!(
                                "`graded` must be `true` or a number of binades up to {GRADES}"
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
                    graded: raw.graded.as_ref().map_or(0, |g| g.get_ref().binades()),
                }
            }
            _ => {
                check.wrong(spanned, format!("argument `{}` must have either `int = \"PARAMETER\"` or `element`, `role` and `shape`", raw.name));
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
