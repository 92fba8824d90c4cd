//! Loops that Fortran leaves to the compiler: assignments of sections, and functions that reduce arrays.

use super::expressions::Expr;
use super::print::{Over, Printer};
use super::symbols::Bounds;

/// Reductions of one statement.
const MOST_REDUCTIONS: usize = 16;

/// The sections of the first array in an expression that has any, as loops. Empty for an expression of numbers.
pub(super) fn loops(expr: &Expr, printer: &Printer<'_>, names: &mut Names) -> Option<Vec<Over>> {
    match expr {
        Expr::Name(name) => match printer.symbols.array(name) {
            Some(variable) => {
                let all = vec![Expr::Section(None, None, None); variable.dims.len()];
                of_subscripts(&all, &variable.dims, names)
            }
            None => Some(Vec::new()),
        },
        Expr::Apply(base, arguments) => {
            if let Expr::Name(name) = &**base
                && let Some(variable) = printer.symbols.array(name)
            {
                return of_subscripts(arguments, &variable.dims, names);
            }
            first(arguments.iter(), printer, names)
        }
        Expr::Unary(_, inner) | Expr::Keyword(_, inner) | Expr::Member(inner, _) => {
            loops(inner, printer, names)
        }
        Expr::Binary(_, left, right) => first([&**left, &**right].into_iter(), printer, names),
        Expr::Integer(_) | Expr::Other | Expr::Section(..) => Some(Vec::new()),
    }
}

fn first<'e>(
    parts: impl Iterator<Item = &'e Expr>,
    printer: &Printer<'_>,
    names: &mut Names,
) -> Option<Vec<Over>> {
    for part in parts {
        let found = loops(part, printer, names)?;
        if !found.is_empty() {
            return Some(found);
        }
    }
    Some(Vec::new())
}

fn of_subscripts(subscripts: &[Expr], dims: &[Bounds], names: &mut Names) -> Option<Vec<Over>> {
    let mut found = Vec::new();
    for (at, subscript) in subscripts.iter().enumerate() {
        let Expr::Section(low, high, step) = subscript else {
            continue;
        };
        let bounds = dims.get(at)?;
        let low = low.as_deref().unwrap_or(&bounds.low).clone();
        let high = match high {
            Some(high) => (**high).clone(),
            // The extents of an assumed shape have no names.
            None => bounds.high.clone().unwrap_or(Expr::name("extent")),
        };
        found.push(Over {
            variable: names.next("section"),
            low,
            high,
            step: step.as_deref().cloned(),
        });
    }
    Some(found)
}

/// Makes names that the program does not use.
#[derive(Debug, Default)]
pub(super) struct Names(usize);

impl Names {
    pub fn next(&mut self, what: &str) -> String {
        self.0 += 1;
        format!("{what}__{}", self.0)
    }
}

/// A function that reduces an array to a number: its variable, its terms and its kind.
pub(super) struct Reduction {
    pub variable: String,
    pub over: Vec<Over>,
    pub kind: Kind,
    pub terms: Expr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sum,
    Product,
    Greatest,
    Least,
}

/// Takes the reductions out of an expression. Each becomes a variable that loops before the statement compute. None if
/// a reduction is not understood.
pub(super) fn take_out(
    expr: Expr,
    printer: &Printer<'_>,
    names: &mut Names,
    found: &mut Vec<Reduction>,
) -> Option<Expr> {
    let mut within = |e: Expr, found: &mut Vec<Reduction>| take_out(e, printer, names, found);
    Some(match expr {
        Expr::Apply(base, arguments) => {
            let mut arguments: Vec<Expr> = arguments
                .into_iter()
                .map(|a| within(a, found))
                .collect::<Option<_>>()?;
            let name = match &*base {
                Expr::Name(name) => name.as_str(),
                _ => "",
            };
            let own =
                printer.symbols.array(name).is_some() || printer.procedures.contains_key(name);
            let kind = match name {
                "sum" | "dot_product" | "count" | "norm2" => Kind::Sum,
                "product" => Kind::Product,
                "maxval" => Kind::Greatest,
                "minval" => Kind::Least,
                _ => return Some(Expr::Apply(base, arguments)),
            };
            if own || name.is_empty() {
                return Some(Expr::Apply(base, arguments));
            }
            let terms = match (name, arguments.len()) {
                ("dot_product", 2) => {
                    let second = arguments.pop()?;
                    Expr::binary("*", arguments.pop()?, second)
                }
                (_, 1) => arguments.pop()?,
                // A sum along one dimension is an array.
                _ => return None,
            };
            let over = loops(&terms, printer, names)?;
            if over.is_empty() || found.len() >= MOST_REDUCTIONS {
                return None;
            }
            let variable = names.next("reduction");
            found.push(Reduction {
                variable: variable.clone(),
                over,
                kind,
                terms,
            });
            Expr::Name(variable)
        }
        Expr::Unary(sign, inner) => Expr::Unary(sign, Box::new(within(*inner, found)?)),
        Expr::Binary(sign, left, right) => Expr::Binary(
            sign,
            Box::new(within(*left, found)?),
            Box::new(within(*right, found)?),
        ),
        Expr::Keyword(name, inner) => Expr::Keyword(name, Box::new(within(*inner, found)?)),
        Expr::Member(inner, name) => Expr::Member(Box::new(within(*inner, found)?), name),
        other => other,
    })
}
