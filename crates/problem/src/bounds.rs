//! `[bound]`: how exact results must be.

use serde::Deserialize;
use toml::Spanned;

use crate::mistakes::Check;
use crate::{Arg, ArgKind, Element, ErrorBound, Params, Role};

#[derive(Deserialize)]
pub(crate) struct RawBound {
    kind: Spanned<String>,
    c: Option<Spanned<f64>>,
    operations: Option<Spanned<String>>,
}

/// How exact results must be; none where that is not said rightly.
pub(crate) fn read(
    check: &mut Check<'_>,
    raw: &RawBound,
    has_magnitudes: bool,
    timed: &Params,
    args: &[Arg],
) -> Option<ErrorBound> {
    let mut constant = || match &raw.c {
        Some(c) if c.get_ref().is_finite() && *c.get_ref() > 0.0 => Some(*c.get_ref()),
        Some(c) => {
            check.wrong(c, "`bound.c` must be a positive number");
            None
        }
        None => {
            check.wrong(&raw.kind, "this kind of bound needs a constant `c`");
            None
        }
    };
    match raw.kind.get_ref().as_str() {
        "gemm" => {
            let constant = constant();
            let is_plain = |arg: &Arg| match &arg.kind {
                ArgKind::Int { .. } => true,
                ArgKind::Scalar { .. } => false,
                ArgKind::Array { element, role, .. } => {
                    *element == Element::F64 && *role != Role::InOut
                }
            };
            if !args.iter().all(is_plain) {
                check.wrong(
                    &raw.kind,
                    "a `gemm` bound is for a product of two `f64` inputs that goes into a third array, without scalars: use a `scaled` bound",
                );
            }
            constant.map(|c| ErrorBound::Gemm { c })
        }
        "exact" => Some(ErrorBound::Exact),
        "scaled" => {
            let c = constant();
            let operations = match &raw.operations {
                Some(formula) => check.formula(formula, timed),
                None => {
                    check.wrong(
                        &raw.kind,
                        "a `scaled` bound needs `operations`, the number of roundings on the way to one element",
                    );
                    None
                }
            };
            if !has_magnitudes {
                check.wrong(
                    &raw.kind,
                    "a `scaled` bound needs a file magnitude.c, which computes the magnitude of the terms of each element",
                );
            }
            Some(ErrorBound::Scaled {
                c: c?,
                operations: operations?,
            })
        }
        other => {
            check.wrong(
                &raw.kind,
                format!("unknown bound `{other}`; known are `exact`, `gemm` and `scaled`"),
            );
            None
        }
    }
}
