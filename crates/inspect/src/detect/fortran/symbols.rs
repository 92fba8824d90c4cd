//! The declarations of a procedure in Fortran.

use std::collections::BTreeMap;

use super::expressions::{Expr, parse, parse_list};
use super::{closing, outside, text};
use crate::scan::{Statement, Token};

/// The bounds of one dimension; the upper one is none if the text does not say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bounds {
    pub low: Expr,
    pub high: Option<Expr>,
}

/// A variable or constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    pub integer: bool,
    /// Empty for a scalar.
    pub dims: Vec<Bounds>,
    /// The value of a constant.
    pub value: Option<Expr>,
    pub parameter: bool,
    pub pointer: bool,
}

impl Variable {
    /// A variable without a declaration: its first letter says its type.
    fn implicit(name: &str) -> Self {
        Variable {
            integer: name.starts_with(|c: char| ('i'..='n').contains(&c)),
            dims: Vec::new(),
            value: None,
            parameter: false,
            pointer: false,
        }
    }
}

/// The names that a procedure declares or uses.
#[derive(Debug, Clone, Default)]
pub(super) struct Symbols {
    pub variables: BTreeMap<String, Variable>,
    /// The names in the order of their declarations.
    pub order: Vec<String>,
}

impl Symbols {
    pub fn array(&self, name: &str) -> Option<&Variable> {
        self.variables.get(name).filter(|v| !v.dims.is_empty())
    }

    pub fn is_integer(&self, name: &str) -> bool {
        match self.variables.get(name) {
            Some(variable) => variable.integer,
            None => Variable::implicit(name).integer,
        }
    }

    pub fn insert(&mut self, name: String, variable: Variable) {
        if self.variables.insert(name.clone(), variable).is_none() {
            self.order.push(name);
        }
    }

    /// Adds a variable that is used without a declaration.
    pub fn imply(&mut self, name: &str) {
        if !self.variables.contains_key(name) {
            self.insert(name.to_owned(), Variable::implicit(name));
        }
    }

    /// Reads a statement if it declares something.
    pub fn declare(&mut self, statement: &Statement) -> bool {
        let tokens = &statement.tokens;
        let Some((integer, mut at)) = type_of(tokens) else {
            return self.attribute(tokens);
        };
        let rest = tokens.get(at..).unwrap_or_default();
        let colons = outside(rest)
            .find(|p| text(tokens, at + p) == ":" && text(tokens, at + p + 1) == ":")
            .map(|p| at + p);
        let mut dims = Vec::new();
        let mut constant = false;
        let mut pointer = false;
        if let Some(colons) = colons {
            let mut place = at;
            while place < colons {
                match text(tokens, place) {
                    "dimension" => {
                        if let Some(close) = closing(tokens, place + 1) {
                            dims = bounds(&tokens[place + 2..close]);
                            place = close;
                        }
                    }
                    "parameter" => constant = true,
                    "pointer" | "allocatable" => pointer = true,
                    _ => {}
                }
                place += 1;
            }
            at = colons + 2;
        }
        self.entities(tokens, at, |name, own, _| {
            let declared = Variable::implicit(name);
            Variable {
                integer,
                dims: if own.is_empty() { dims.clone() } else { own },
                parameter: constant,
                pointer,
                ..declared
            }
        });
        true
    }

    /// `dimension a(n)`, `parameter (n = 4)`, and statements about other properties.
    fn attribute(&mut self, tokens: &[Token]) -> bool {
        match text(tokens, 0) {
            "dimension" | "allocatable" | "pointer" | "target" | "save" | "common"
            | "contiguous" | "volatile" => {
                let from = 1 + 2 * usize::from(text(tokens, 1) == ":");
                self.entities(tokens, from, |name, own, known| {
                    let mut variable = known.cloned().unwrap_or_else(|| Variable::implicit(name));
                    if !own.is_empty() {
                        variable.dims = own;
                    }
                    variable
                });
                true
            }
            "parameter" => {
                let end = closing(tokens, 1).unwrap_or(tokens.len());
                let inner = tokens.get(2..end).unwrap_or_default();
                for item in parse_list(inner).unwrap_or_default() {
                    if let Expr::Keyword(name, value) = item {
                        self.imply(&name);
                        if let Some(of) = self.variables.get_mut(&name) {
                            of.value = Some(*value);
                            of.parameter = true;
                        }
                    }
                }
                true
            }
            "implicit" | "intent" | "value" | "intrinsic" | "optional" | "external" | "private"
            | "public" | "data" | "equivalence" | "sequence" | "use" => true,
            _ => false,
        }
    }

    /// Reads the names of a declaration, with their own dimensions and values. `make` gets the variable that a name has
    /// so far.
    fn entities(
        &mut self,
        tokens: &[Token],
        from: usize,
        make: impl Fn(&str, Vec<Bounds>, Option<&Variable>) -> Variable,
    ) {
        let mut at = from;
        while at < tokens.len() {
            let name = text(tokens, at).to_owned();
            let mut next = at + 1;
            let mut own = Vec::new();
            if text(tokens, next) == "("
                && let Some(close) = closing(tokens, next)
            {
                own = bounds(&tokens[next + 1..close]);
                next = close + 1;
            }
            let mut variable = make(&name, own, self.variables.get(&name));
            let rest = tokens.get(next..).unwrap_or_default();
            let comma = outside(rest).find(|p| text(rest, *p) == ",");
            let end = comma.map_or(tokens.len(), |comma| next + comma);
            if text(tokens, next) == "=" {
                variable.value = parse(&tokens[(next + 1).min(end)..end]);
            }
            if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                self.insert(name, variable);
            }
            at = end + 1;
        }
    }
}

/// True for an integer type, and the index of the token behind the type.
pub(super) fn type_of(tokens: &[Token]) -> Option<(bool, usize)> {
    let (integer, mut at) = match (text(tokens, 0), text(tokens, 1)) {
        ("integer" | "logical", _) => (true, 1),
        ("real" | "complex" | "doubleprecision" | "character", _) => (false, 1),
        ("double", "precision" | "complex") => (false, 2),
        ("type" | "class", "(") => (false, 1),
        _ => return None,
    };
    match text(tokens, at) {
        "*" => at += 2,
        "(" => at = closing(tokens, at)? + 1,
        _ => {}
    }
    Some((integer, at))
}

fn bounds(tokens: &[Token]) -> Vec<Bounds> {
    bounds_of(parse_list(tokens).unwrap_or_default())
}

pub(super) fn bounds_of(items: Vec<Expr>) -> Vec<Bounds> {
    items
        .into_iter()
        .map(|item| match item {
            Expr::Section(low, high, _) => Bounds {
                low: low.map_or(Expr::Integer(1), |low| *low),
                high: high.map(|high| *high),
            },
            extent => Bounds {
                low: Expr::Integer(1),
                high: Some(extent),
            },
        })
        .collect()
}
