//! Writes expressions of Fortran as C.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::expressions::Expr;
use super::symbols::{Bounds, Symbols};

/// Deeper expressions are not printed, because every level uses stack. An expression has at most 600 nodes. With the
/// bounds of the arrays that it names it may be deeper, and those may name each other in a circle.
const DEEPEST: u32 = 700;

/// The square of a longer factor is a call, because each square doubles the text.
const LONGEST_FACTOR: usize = 2000;

/// Takes work from what is left. False if too little is left.
pub(super) fn spend(left: &Cell<usize>, work: usize) -> bool {
    let rest = left.get().checked_sub(work);
    left.set(rest.unwrap_or(0));
    rest.is_some()
}

/// The dummy arguments of a procedure of the program.
#[derive(Debug, Clone, Default)]
pub(super) struct Signature {
    pub dummies: Vec<Dummy>,
}

/// The form in which an argument is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dummy {
    Array,
    /// A number that the procedure does not change.
    Value,
    /// A number that the procedure changes.
    Changed,
}

/// A loop over a section of an array.
#[derive(Debug, Clone)]
pub(super) struct Over {
    pub variable: String,
    pub low: Expr,
    pub high: Expr,
    pub step: Option<Expr>,
}

/// The names that are known at a place in a procedure.
pub(super) struct Printer<'p> {
    pub symbols: &'p Symbols,
    pub procedures: &'p BTreeMap<String, Signature>,
    /// Dummy arguments of the procedure and of the procedures around it.
    pub dummies: &'p BTreeMap<String, Dummy>,
    /// The loops over the sections of the statement.
    pub over: &'p [Over],
    /// The name of the function, which is also that of its result; empty for others.
    pub function: &'p str,
    /// Bytes that the rest of the program may be printed to, with the parts of every expression counted again.
    pub left: &'p Cell<usize>,
    /// Expressions around the one that is printed.
    pub depth: u32,
}

/// Words of C that Fortran may use as names.
const TAKEN: [&str; 24] = [
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
    "enum", "float", "for", "goto", "if", "int", "long", "return", "short", "sizeof", "static",
    "switch", "void", "while",
];

/// A name as C permits it.
pub(super) fn name_in_c(name: &str) -> String {
    if TAKEN.contains(&name) {
        format!("{name}_")
    } else {
        name.to_owned()
    }
}

impl Printer<'_> {
    /// A name in C. A function's result has another name than the function, which would seem to call itself.
    pub fn plain(&self, name: &str) -> String {
        if name == self.function {
            format!("{name}__result")
        } else {
            name_in_c(name)
        }
    }

    /// The expression in C; none if it is not understood.
    pub fn print(&self, expr: &Expr) -> Option<String> {
        if self.depth >= DEEPEST {
            return None;
        }
        let within = Printer {
            depth: self.depth + 1,
            ..*self
        };
        let text = within.print_inside(expr)?;
        spend(self.left, text.len()).then_some(text)
    }

    fn print_inside(&self, expr: &Expr) -> Option<String> {
        Some(match expr {
            Expr::Integer(value) if *value < 0 => format!("({value})"),
            Expr::Integer(value) => value.to_string(),
            Expr::Other => "0.5".to_owned(),
            Expr::Name(name) => self.name(name)?,
            Expr::Apply(base, arguments) => self.apply(base, arguments)?,
            Expr::Member(base, name) => format!("{}.{}", self.print(base)?, name_in_c(name)),
            Expr::Unary(sign, inner) => format!("{sign}{}", self.factor(inner)?),
            Expr::Binary("**", base, exponent) => match **exponent {
                Expr::Integer(2) => match self.factor(base)? {
                    long if long.len() > LONGEST_FACTOR => format!("pow({long}, 2)"),
                    base => format!("({base} * {base})"),
                },
                _ => format!("pow({}, {})", self.print(base)?, self.print(exponent)?),
            },
            Expr::Binary(sign, left, right) => {
                let sign = match *sign {
                    "/=" => "!=",
                    "//" => "+",
                    sign => sign,
                };
                let (left, right) = (
                    self.operand(left, sign, true)?,
                    self.operand(right, sign, false)?,
                );
                format!("{left} {sign} {right}")
            }
            Expr::Section(..) => return None,
            Expr::Keyword(_, value) => self.print(value)?,
        })
    }

    /// An operand, with parentheses unless C needs none.
    fn operand(&self, expr: &Expr, sign: &str, is_left: bool) -> Option<String> {
        let text = self.print(expr)?;
        let level = |sign: &str| match sign {
            "*" | "/" => 3,
            "+" | "-" => 2,
            _ => 1,
        };
        Some(match expr {
            Expr::Binary("**", ..) => text,
            Expr::Binary(inner, ..) => {
                let plain = level(sign) > 1
                    && (level(inner) > level(sign) || (is_left && level(inner) == level(sign)));
                if plain { text } else { format!("({text})") }
            }
            _ => text,
        })
    }

    fn name(&self, name: &str) -> Option<String> {
        let plain = self.plain(name);
        if let Some(variable) = self.symbols.array(name) {
            if self.over.is_empty() {
                // A whole array as an argument.
                let first = vec!["[0]"; self.nested_dims(name)].concat();
                return Some(if first.len() > 3 {
                    format!("&{plain}{first}")
                } else {
                    plain
                });
            }
            let all = vec![Expr::Section(None, None, None); variable.dims.len()];
            return self.element(name, &all);
        }
        Some(match self.dummies.get(name) {
            Some(Dummy::Changed) => format!("(*{plain})"),
            _ => plain,
        })
    }

    fn apply(&self, base: &Expr, arguments: &[Expr]) -> Option<String> {
        let Expr::Name(name) = base else {
            let inner = self.print(base)?;
            let printed: Option<Vec<String>> = arguments
                .iter()
                .rev()
                .map(|a| Some(format!("[{}]", self.print(a)?)))
                .collect();
            return Some(format!("{inner}{}", printed?.concat()));
        };
        if name.is_empty() {
            return Some("0.5".to_owned());
        }
        let pointer = self.symbols.variables.get(name).is_some_and(|v| v.pointer);
        if self.symbols.array(name).is_some() || pointer {
            return self.element(name, arguments);
        }
        if let Some(procedure) = self.procedures.get(name) {
            return self.call(name, procedure, arguments);
        }
        self.intrinsic(name, arguments)
    }

    /// A call of a procedure of the program.
    pub fn call(&self, name: &str, procedure: &Signature, arguments: &[Expr]) -> Option<String> {
        let mut printed = Vec::with_capacity(arguments.len());
        for (at, argument) in arguments.iter().enumerate() {
            let kind = procedure.dummies.get(at).copied().unwrap_or(Dummy::Value);
            let plain = Printer { over: &[], ..*self };
            printed.push(match kind {
                Dummy::Value => self.print(argument)?,
                Dummy::Array => plain.first_element(argument)?,
                Dummy::Changed => match plain.print(argument)? {
                    text if text.starts_with("(*") => text.trim_matches(['(', '*', ')']).to_owned(),
                    text => format!("&{text}"),
                },
            });
        }
        Some(format!("{}({})", name_in_c(name), printed.join(", ")))
    }

    /// A pointer to the first element of an array, or of a section.
    fn first_element(&self, argument: &Expr) -> Option<String> {
        match argument {
            Expr::Apply(base, subscripts) => {
                let Expr::Name(name) = &**base else {
                    return self.print(argument);
                };
                let dims = self.symbols.array(name).map(|v| v.dims.clone());
                let first = |(at, subscript): (usize, &Expr)| match subscript {
                    Expr::Section(Some(low), ..) => (**low).clone(),
                    Expr::Section(None, ..) => dims
                        .as_ref()
                        .and_then(|d| d.get(at))
                        .map_or(Expr::Integer(1), |b| b.low.clone()),
                    other => other.clone(),
                };
                let place: Vec<Expr> = subscripts.iter().enumerate().map(first).collect();
                let is_array =
                    dims.is_some() || self.symbols.variables.get(name).is_some_and(|v| v.pointer);
                let text = self.apply(base, &place)?;
                Some(if is_array { format!("&{text}") } else { text })
            }
            other => self.print(other),
        }
    }

    /// Number of subscripts in C of an array of the procedure's own.
    fn nested_dims(&self, name: &str) -> usize {
        let known = self.symbols.array(name).map_or(&[][..], |v| &v.dims);
        if self.dummies.contains_key(name) {
            // The extents of an assumed shape are those of the actual argument.
            let assumed = known.len() > 1 && known.iter().all(|b| b.high.is_none());
            return if assumed { known.len() } else { 1 };
        }
        let whole = known.iter().all(|b| b.high.is_some());
        if whole { known.len().max(1) } else { 1 }
    }

    /// An element of an array.
    fn element(&self, name: &str, subscripts: &[Expr]) -> Option<String> {
        let plain = self.plain(name);
        let dims: &[Bounds] = self.symbols.array(name).map_or(&[], |v| &v.dims);
        let mut sections = self.over.iter();
        let mut offsets = Vec::with_capacity(subscripts.len());
        let one = Expr::Integer(1);
        for (at, subscript) in subscripts.iter().enumerate() {
            let low = dims.get(at).map_or(&one, |b| &b.low);
            let place = match subscript {
                Expr::Section(first, _, step) => {
                    let over = sections.next()?;
                    section_place(first.as_deref().unwrap_or(low), step.as_deref(), over)
                }
                // A vector of subscripts chooses elements that no loop moves along.
                Expr::Name(other) if self.symbols.array(other).is_some() => {
                    let _ = sections.next()?;
                    Expr::Other
                }
                other => other.clone(),
            };
            offsets.push(Expr::binary("-", place, low.clone()));
        }
        if self.nested_dims(name) == offsets.len() && offsets.len() > 1 {
            let printed: Option<Vec<String>> = offsets
                .iter()
                .rev()
                .map(|o| Some(format!("[{}]", self.print(o)?)))
                .collect();
            return Some(format!("{plain}{}", printed?.concat()));
        }
        // The first subscript is the contiguous one.
        let mut stride: Option<Expr> = None;
        let mut terms = Vec::with_capacity(offsets.len());
        for (at, offset) in offsets.iter().enumerate() {
            let offset = self.factor(offset)?;
            terms.push(match &stride {
                None => offset,
                Some(stride) => format!("{offset} * {}", self.factor(stride)?),
            });
            if at + 1 < offsets.len() {
                let extent = extent(dims.get(at)?)?;
                stride = Some(match stride {
                    None => extent,
                    Some(stride) => Expr::binary("*", stride, extent),
                });
            }
        }
        Some(format!("{plain}[{}]", terms.join(" + ")))
    }

    /// A factor of a subscript. A name in parentheses would look like a type.
    fn factor(&self, expr: &Expr) -> Option<String> {
        let text = self.print(expr)?;
        Some(match expr {
            Expr::Binary(..) | Expr::Unary(..) => format!("({text})"),
            _ => text,
        })
    }

    fn intrinsic(&self, name: &str, arguments: &[Expr]) -> Option<String> {
        let array = |at: usize| match arguments.get(at) {
            Some(Expr::Name(name)) => self.symbols.array(name),
            _ => None,
        };
        let dim = match arguments.get(1) {
            Some(Expr::Integer(dim)) => usize::try_from(dim - 1).ok(),
            None => Some(0),
            Some(_) => None,
        };
        let bound = || array(0)?.dims.get(dim?);
        match name {
            "size" | "ubound" | "lbound" if bound().is_some() => {
                let bound = bound()?;
                let value = match name {
                    "size" => extent(bound)?,
                    "ubound" => bound.high.clone()?,
                    _ => bound.low.clone(),
                };
                return self.factor(&value);
            }
            "mod" | "modulo" => {
                let [a, b] = arguments else { return None };
                return Some(format!("({} % {})", self.factor(a)?, self.factor(b)?));
            }
            "merge" => {
                let [yes, no, mask] = arguments else {
                    return None;
                };
                return Some(format!(
                    "({} ? {} : {})",
                    self.factor(mask)?,
                    self.factor(yes)?,
                    self.factor(no)?
                ));
            }
            "real" | "dble" | "float" | "sngl" | "int" | "nint" | "logical" => {
                return self.factor(arguments.first()?);
            }
            "transpose" => {
                let [a] = arguments else { return None };
                let [first, second] = self.over else {
                    return None;
                };
                let over = [second.clone(), first.clone()];
                return Printer {
                    over: &over,
                    ..*self
                }
                .print(a);
            }
            // These change the shape of arrays in ways that are not followed.
            "reshape" | "spread" | "matmul" | "cshift" | "eoshift" | "pack" | "unpack" => {
                return None;
            }
            _ => {}
        }
        let printed: Option<Vec<String>> = arguments.iter().map(|a| self.print(a)).collect();
        Some(format!("{}({})", name_in_c(name), printed?.join(", ")))
    }
}

/// The subscript at which a loop over a section is.
fn section_place(first: &Expr, step: Option<&Expr>, over: &Over) -> Expr {
    let variable = Expr::Name(over.variable.clone());
    if *first == over.low && step == over.step.as_ref() {
        return variable;
    }
    let moved = Expr::binary("-", variable, over.low.clone());
    let moved = match (step, &over.step) {
        (Some(step), None) => Expr::binary("*", step.clone(), moved),
        _ => moved,
    };
    Expr::binary("+", first.clone(), moved)
}

/// The number of elements along a dimension.
pub(super) fn extent(bounds: &Bounds) -> Option<Expr> {
    let high = bounds.high.clone()?;
    Some(match &bounds.low {
        Expr::Integer(1) => high,
        low => {
            let length = Expr::binary("-", high, low.clone());
            // `0 : n - 1` has n elements.
            match length {
                Expr::Binary("-", n, one) if *one == Expr::Integer(1) => *n,
                length => Expr::binary("+", length, Expr::Integer(1)),
            }
        }
    })
}
