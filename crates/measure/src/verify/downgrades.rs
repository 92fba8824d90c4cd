//! Versions of a reference that have lost digits, or work in an easy range only.
//!
//! If a bound admits one of them, programs can save work by being less exact. All versions are made from the
//! reference's text: a function of the C library is replaced by one with the error of a known short cut, divisions by
//! products with reciprocals that were refined once too seldom, local variables by ones in single precision. A version
//! that does not compile is left out. This module makes texts and runs nothing.

use std::collections::BTreeSet;

/// A version of the reference that should be refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variant {
    /// The change to the reference, in words that follow "the reference with".
    pub name: String,
    /// Its text.
    pub source: String,
    /// True if it is exact for small arguments of a function and wrong for others. If it passes, the inputs are to
    /// blame, and not the bound.
    pub easy: bool,
}

/// A function of the C library, and the short cuts that programs take in it.
struct Function {
    /// Its name for doubles.
    name: &'static str,
    /// The range in which it needs no reduction of its arguments: in words, and as a condition on them.
    easy: Option<(&'static str, &'static str)>,
    /// Changes of its value `v` in double and in single precision: a name for each, and an expression.
    double: &'static [(&'static str, &'static str)],
    single: &'static [(&'static str, &'static str)],
}

/// Relative errors that alternate between both signs as those of a best polynomial do.
const COARSE: &[(&str, &str)] = &[("right to 40 bits", "v * (1 + 0x1p-40 * cos(9 * x))")];
const COARSE_SINGLE: &[(&str, &str)] = &[("right to 16 bits", "v * (1 + 0x1p-16 * cos(9 * x))")];
const COARSE_SINGLE_OF_TWO: &[(&str, &str)] =
    &[("right to 16 bits", "v * (1 + 0x1p-16 * cos(9 * x - y))")];

/// Functions of one argument, `x`.
const FUNCTIONS: &[Function] = &[
    Function {
        name: "exp",
        easy: Some(("within ±ln(2)/2", "x >= -0.347 && x <= 0.347")),
        // The error of the best polynomial of degree n on ±R is R^(n+1) / (2^n·(n+1)!), with R = ln(2)/2.
        double: &[(
            "a polynomial of degree 8",
            "v * (1 + 7.8e-13 * cos(9 * acos((x - rint(x / 0.6931471805599453) * 0.6931471805599453) / 0.35)))",
        )],
        single: &[(
            "a polynomial of degree 4",
            "v * (1 + 2.6e-6 * cos(5 * acos((x - rint(x / 0.6931471805599453) * 0.6931471805599453) / 0.35)))",
        )],
    },
    Function {
        name: "log",
        easy: Some(("between the roots of 1/2 and 2", "x >= 0.707 && x <= 1.415")),
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "erfc",
        easy: Some(("within ±1/2", "x >= -0.5 && x <= 0.5")),
        double: &[
            ("seven digits", "v + 1.5e-7 * cos(9 * x)"),
            ("right to 40 bits", "v * (1 + 0x1p-40 * cos(9 * x))"),
        ],
        single: COARSE_SINGLE,
    },
    Function {
        name: "erf",
        easy: Some(("within ±1/2", "x >= -0.5 && x <= 0.5")),
        double: &[
            ("seven digits", "v + 1.5e-7 * cos(9 * x)"),
            ("right to 40 bits", "v * (1 + 0x1p-40 * cos(9 * x))"),
        ],
        single: COARSE_SINGLE,
    },
    Function {
        name: "sqrt",
        easy: None,
        double: &[
            // Newton's step squares the relative error e of a reciprocal root: 3/2·e². Estimates of processors have 12
            // bits.
            (
                "an estimate refined once",
                "v * (1 - 0x1p-23 * (1 + cos(1e4 * x)))",
            ),
            (
                "an estimate refined twice",
                "v * (1 - 0x1p-45 * (1 + cos(1e4 * x)))",
            ),
        ],
        single: &[(
            "an estimate that is not refined",
            "v * (1 + 0x1p-12 * cos(1e4 * x))",
        )],
    },
    Function {
        name: "exp2",
        easy: Some(("within ±1/2", "x >= -0.5 && x <= 0.5")),
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "sin",
        easy: Some(("within ±π/4", "x >= -0.786 && x <= 0.786")),
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "cos",
        easy: Some(("within ±π/4", "x >= -0.786 && x <= 0.786")),
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "tanh",
        easy: Some(("within ±1/2", "x >= -0.5 && x <= 0.5")),
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "log2",
        easy: Some(("between the roots of 1/2 and 2", "x >= 0.707 && x <= 1.415")),
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "log10",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "cbrt",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "atan",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "tan",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "asin",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "acos",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "sinh",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "cosh",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "asinh",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "acosh",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "atanh",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "expm1",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "log1p",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "tgamma",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
    Function {
        name: "lgamma",
        easy: None,
        double: COARSE,
        single: COARSE_SINGLE,
    },
];

/// Functions of two arguments, `x` and `y` in their order. For results in single precision, a computation in single precision
/// is an honest one.
const OF_TWO: &[Function] = &[
    Function {
        name: "pow",
        easy: None,
        double: &[
            (
                "an exponential and a logarithm in single precision",
                "copysign(exp2f(y * log2f(fabs(x))), v)",
            ),
            ("right to 40 bits", "v * (1 + 0x1p-40 * cos(9 * x - y))"),
        ],
        single: COARSE_SINGLE_OF_TWO,
    },
    Function {
        name: "atan2",
        // There it is the arctangent of the quotient.
        easy: Some(("in the right half-plane", "y > 0")),
        double: &[
            ("one in single precision", "atan2f(x, y)"),
            ("right to 40 bits", "v * (1 + 0x1p-40 * cos(9 * x - y))"),
        ],
        single: COARSE_SINGLE_OF_TWO,
    },
    Function {
        name: "hypot",
        easy: None,
        double: &[
            (
                "a root of unscaled squares in single precision",
                "sqrtf((float)x * (float)x + (float)y * (float)y)",
            ),
            ("right to 40 bits", "v * (1 + 0x1p-40 * cos(9 * x - y))"),
        ],
        single: COARSE_SINGLE_OF_TWO,
    },
    Function {
        name: "fmod",
        // There a subtraction suffices.
        easy: Some(("below twice the divisor", "fabs(x) < 2 * fabs(y)")),
        double: &[
            (
                "a quotient in single precision",
                "x - y * truncf((float)x / (float)y)",
            ),
            ("right to 40 bits", "v * (1 + 0x1p-40 * cos(9 * x - y))"),
        ],
        single: COARSE_SINGLE_OF_TWO,
    },
];

/// The names of the arguments.
const ONE: &[&str] = &["x"];
const TWO: &[&str] = &["x", "y"];

/// Text before a reference whose divisions were replaced: reciprocals from an estimate of 12 bits that was refined once
/// too seldom.
const RECIPROCAL: &str =
    "#include <math.h>\nstatic inline double flopsmith_reciprocal(double x)\n{\n    return";

/// The versions of a reference whose results are floats, of `single` precision or double.
pub(super) fn variants(reference: &str, single: bool) -> Vec<Variant> {
    let called = calls(reference);
    let mut all = Vec::new();
    let of_one = FUNCTIONS.iter().map(|function| (function, ONE));
    let of_two = OF_TWO.iter().map(|function| (function, TWO));
    for (function, parameters) in of_one.chain(of_two) {
        let given = parameters.join(", ");
        let name = function.name;
        if !called.contains(name) && !called.contains(format!("{name}f").as_str()) {
            continue;
        }
        let digits = if single {
            function.single
        } else {
            function.double
        };
        for (what, value) in digits {
            all.push(Variant {
                name: format!("`{name}` by {what}").replace("by right", "right"),
                source: replaced(
                    reference,
                    name,
                    parameters,
                    &format!("double v = {name}({given}); return {value};"),
                ),
                easy: false,
            });
        }
        if let Some((range, condition)) = function.easy {
            all.push(Variant {
                name: format!("`{name}` for arguments {range} only"),
                source: replaced(
                    reference,
                    name,
                    parameters,
                    &format!("return {condition} ? {name}({given}) : 3;"),
                ),
                easy: true,
            });
        }
    }
    let product = multiplied(reference);
    if product != reference {
        let (what, error) = match single {
            true => (
                "estimates that are not refined",
                "(1 + 0x1p-12 * cos(1e4 * x)) / x",
            ),
            false => (
                "estimates refined twice",
                "(1 - 0x1p-45 * (1 + cos(1e4 * x))) / x",
            ),
        };
        all.push(Variant {
            name: format!("reciprocals by {what}"),
            source: format!("{RECIPROCAL} {error};\n}}\n{product}"),
            easy: false,
        });
    }
    if !single {
        let short = in_single_precision(reference);
        if short != reference {
            all.push(Variant {
                name: "its local variables in single precision".to_owned(),
                source: short,
                easy: false,
            });
        }
    }
    all
}

/// The reference with a function of the C library replaced by another one, in either precision.
fn replaced(reference: &str, name: &str, parameters: &[&str], body: &str) -> String {
    let declared: Vec<String> = parameters.iter().map(|x| format!("double {x}")).collect();
    let declared = declared.join(", ");
    format!(
        "#include <math.h>\nstatic inline double flopsmith_{name}({declared})\n{{\n    {body}\n}}\n#define {name} flopsmith_{name}\n#define {name}f flopsmith_{name}\n{reference}"
    )
}

/// True if the byte can be part of a name.
fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The text with comments replaced by blanks, byte by byte, so that the rest stays in its place.
fn without_comments(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while at + 1 < bytes.len() {
        let end: &[u8] = match &bytes[at..at + 2] {
            b"/*" => b"*/",
            b"//" => b"\n",
            _ => {
                at += 1;
                continue;
            }
        };
        let rest = &bytes[at + 2..];
        let length = rest.windows(end.len()).position(|x| x == end);
        let until = length.map_or(bytes.len(), |n| at + 2 + n + end.len());
        bytes[at..until].fill(b' ');
        at = until;
    }
    bytes
}

/// Names in front of a parenthesis.
fn calls(text: &str) -> BTreeSet<String> {
    let bytes = without_comments(text);
    let mut names = BTreeSet::new();
    let mut start = None;
    for (at, byte) in bytes.iter().enumerate() {
        match (start, in_name(*byte)) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                if *byte == b'(' {
                    names.insert(String::from_utf8_lossy(&bytes[from..at]).into_owned());
                }
                start = None;
            }
            _ => {}
        }
    }
    names
}

/// The text with `a / b` replaced by `a * flopsmith_reciprocal(b)`, unless `b` is a number.
fn multiplied(text: &str) -> String {
    let bytes = without_comments(text);
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    let mut at = 0;
    while at < bytes.len() {
        let is_division = bytes[at] == b'/' && bytes.get(at + 1) != Some(&b'=');
        let from = bytes[at..]
            .iter()
            .skip(1)
            .position(|b| !b.is_ascii_whitespace());
        let operand = from.map(|n| at + 1 + n).filter(|_| is_division);
        let Some((from, until)) = operand.and_then(|from| Some((from, operand_end(&bytes, from)?)))
        else {
            at += 1;
            continue;
        };
        out.push_str(&text[done..at]);
        out.push_str("* flopsmith_reciprocal(");
        out.push_str(&text[from..until]);
        out.push(')');
        (done, at) = (until, until);
    }
    out.push_str(&text[done..]);
    out
}

/// The end of the operand that begins at `from`: a name with its arguments or indices, or a parenthesis. None for a
/// number.
fn operand_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    if bytes[at] != b'(' {
        if bytes[at].is_ascii_digit() || !in_name(bytes[at]) {
            return None;
        }
        while at < bytes.len() && in_name(bytes[at]) {
            at += 1;
        }
    }
    while at < bytes.len() && matches!(bytes[at], b'(' | b'[') {
        let mut depth = 0;
        loop {
            match bytes.get(at)? {
                b'(' | b'[' => depth += 1,
                b')' | b']' => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                break;
            }
        }
    }
    Some(at)
}

/// The text with variables and conversions of type `double` in single precision. Pointers keep their type.
fn in_single_precision(text: &str) -> String {
    const DOUBLE: &[u8] = b"double";
    let bytes = without_comments(text);
    let mut out = String::with_capacity(text.len());
    let (mut done, mut at) = (0, 0);
    while at + DOUBLE.len() <= bytes.len() {
        let end = at + DOUBLE.len();
        let word = &bytes[at..end] == DOUBLE
            && (at == 0 || !in_name(bytes[at - 1]))
            && !bytes.get(end).is_some_and(|b| in_name(*b));
        // A declaration ends with a semicolon; a declaration with a pointer stays.
        let stop = bytes[end..]
            .iter()
            .position(|b| matches!(b, b';' | b'=' | b')' | b'{'));
        let pointer = stop.is_none_or(|n| bytes[end..end + n].contains(&b'*'));
        if word && !pointer {
            out.push_str(&text[done..at]);
            out.push_str("float");
            done = end;
        }
        at = if word { end } else { at + 1 };
    }
    out.push_str(&text[done..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_become_products_and_comments_stay() {
        for (text, expected) in [
            ("x = a / b;", "x = a * flopsmith_reciprocal(b);"),
            (
                "x = a/LU[j * n + j] + 1;",
                "x = a* flopsmith_reciprocal(LU[j * n + j]) + 1;",
            ),
            (
                "m[j] / (s * sqrt(s))",
                "m[j] * flopsmith_reciprocal((s * sqrt(s)))",
            ),
            (
                "y / sqrt(v + 1) * g[j]",
                "y * flopsmith_reciprocal(sqrt(v + 1)) * g[j]",
            ),
            ("x / 2 /* a / b */", "x / 2 /* a / b */"),
            ("mean /= n; // c / d", "mean /= n; // c / d"),
        ] {
            assert_eq!(multiplied(text), expected);
        }
    }

    #[test]
    fn variables_become_short_and_pointers_do_not() {
        let text = "void f(int n, const double *x, double *y)\n{\n    double sum = 0, d = x[0];\n    const double *p = x;\n    y[0] = sum * (double)n;\n}\n";
        let expected = text
            .replace("double sum", "float sum")
            .replace("(double)n", "(float)n");
        assert_eq!(in_single_precision(text), expected);
    }

    #[test]
    fn only_functions_that_are_called_are_replaced() {
        let text = "#include <math.h>\n/* log(x) is not called */\ndouble f(double x) { return exp(x) + sqrtf(x); }\n";
        let names = |single| -> Vec<String> {
            variants(text, single).into_iter().map(|v| v.name).collect()
        };
        assert_eq!(
            names(true),
            [
                "`exp` by a polynomial of degree 4",
                "`exp` for arguments within ±ln(2)/2 only",
                "`sqrt` by an estimate that is not refined",
            ]
        );
        assert!(
            names(false)
                .iter()
                .any(|name| name.contains("refined twice"))
        );
        assert!(names(false).iter().all(|name| !name.contains("log")));
        let exp = &variants(text, true)[0].source;
        assert!(exp.contains("#define expf flopsmith_exp\n") && exp.ends_with(text));
    }

    #[test]
    fn functions_without_an_easy_range_lose_digits_in_both_forms() {
        for name in ["asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh"] {
            for form in [name.to_owned(), format!("{name}f")] {
                let text =
                    format!("#include <math.h>\ndouble f(double x) {{ return {form}(x); }}\n");
                for (single, bits) in [(false, 40), (true, 16)] {
                    let found = &variants(&text, single)[0];
                    assert_eq!(found.name, format!("`{name}` right to {bits} bits"));
                    let both = format!("#define {name} flopsmith_{name}\n#define {name}f ");
                    assert!(found.source.contains(&both), "{}", found.source);
                }
            }
        }
    }

    #[test]
    fn functions_of_two_arguments_are_replaced_with_both() {
        let text = "#include <math.h>\ndouble f(double x) { return pow(2, -x) + atan2f(x, 1); }\n";
        let names = |single| -> Vec<String> {
            variants(text, single).into_iter().map(|v| v.name).collect()
        };
        assert_eq!(
            names(true),
            [
                "`pow` right to 16 bits",
                "`atan2` right to 16 bits",
                "`atan2` for arguments in the right half-plane only",
            ]
        );
        assert_eq!(
            names(false)[..3],
            [
                "`pow` by an exponential and a logarithm in single precision",
                "`pow` right to 40 bits",
                "`atan2` by one in single precision",
            ]
        );
        let pow = &variants(text, true)[0].source;
        for part in [
            "double flopsmith_pow(double x, double y)\n",
            "double v = pow(x, y); return v * ",
            "#define pow flopsmith_pow\n#define powf flopsmith_pow\n",
        ] {
            assert!(pow.contains(part), "{part}: {pow}");
        }
        assert!(pow.ends_with(text));
        let half = &variants(text, true)[2].source;
        assert!(half.contains("return y > 0 ? atan2(x, y) : 3;"), "{half}");
    }
}
