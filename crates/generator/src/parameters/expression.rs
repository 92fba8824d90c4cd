//! Expressions in Python's syntax, as Kernel Tuner writes conditions and lists of values.
//!
//! The subset: numbers, strings, `True` and `False`, names of parameters, lists and tuples, arithmetic (`+ - * / // % **`), operators on
//! bits, comparisons in chains, `in`, `and`, `or`, `not`, `… if … else …`, and the functions `abs`, `bool`, `float`, `int`, `len`,
//! `list`, `max`, `min`, `range`, `sum`, `tuple`. Values and operators mean what they mean in Python, except that whole numbers have
//! 64 bits.

use std::fmt;

mod arithmetic;
mod lexer;
mod parser;

pub use arithmetic::equal;
use arithmetic::{between, call, compare, signed};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// `True` or `False`.
    Bool(bool),
    /// A text.
    Text(String),
    /// A list, a tuple or a range.
    List(Vec<Value>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(n) => write!(f, "{n}"),
            Value::Float(x) => write!(f, "{x:?}"),
            Value::Bool(true) => f.write_str("True"),
            Value::Bool(false) => f.write_str("False"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::List(all) => {
                f.write_str("[")?;
                for (n, value) in all.iter().enumerate() {
                    write!(f, "{}{value}", if n > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
        }
    }
}

/// The failure of an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is no expression of the subset.
    #[error("{0}")]
    Syntax(String),
    /// It names something that is no parameter.
    #[error("it names `{0}`, which is no parameter")]
    Unknown(String),
    /// It has no value.
    #[error("{0}")]
    Value(String),
}

type Result<T> = std::result::Result<T, Error>;

fn syntax<T>(words: impl Into<String>) -> Result<T> {
    Err(Error::Syntax(words.into()))
}

fn no_value<T>(words: impl Into<String>) -> Result<T> {
    Err(Error::Value(words.into()))
}

/// An expression over parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    root: Node,
}

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Abs,
    Bool,
    Float,
    Int,
    Len,
    List,
    Max,
    Min,
    Range,
    Sum,
}

impl Function {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "abs" => Self::Abs,
            "bool" => Self::Bool,
            "float" => Self::Float,
            "int" => Self::Int,
            "len" => Self::Len,
            "list" | "tuple" => Self::List,
            "max" => Self::Max,
            "min" => Self::Min,
            "range" => Self::Range,
            "sum" => Self::Sum,
            _ => return None,
        })
    }
}

/// An operator between two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
    ShiftLeft,
    ShiftRight,
    BitAnd,
    BitOr,
    BitXor,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    In,
    NotIn,
}

/// A sign before a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
    Invert,
    Not,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Constant(Value),
    /// A parameter, by its number.
    Parameter(usize),
    List(Vec<Node>),
    Signed(Sign, Box<Node>),
    Between(Operator, Box<Node>, Box<Node>),
    Compared(Box<Node>, Vec<(Comparison, Node)>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    /// Condition, value if it holds, value if not.
    Choice(Box<Node>, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
}

impl Expression {
    /// Reads an expression over parameters of these names.
    ///
    /// # Errors
    /// [`Error::Syntax`] for a text outside the subset, and [`Error::Unknown`] for a name that is none of `names`.
    pub fn parse(text: &str, names: &[&str]) -> Result<Self> {
        let root = parser::parse(text, names)?;
        Ok(Self { root })
    }

    /// The numbers of the parameters that it names, in ascending order.
    pub fn parameters(&self) -> Vec<usize> {
        let mut found = Vec::new();
        self.root.parameters(&mut found);
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Its value, given the value of each parameter.
    ///
    /// # Errors
    /// [`Error::Value`], as for a division by zero.
    pub fn value(&self, of: &dyn Fn(usize) -> Value) -> Result<Value> {
        self.root.value(of)
    }

    /// True if its value counts as true in Python.
    ///
    /// # Errors
    /// As for [`Self::value`].
    pub fn holds(&self, of: &dyn Fn(usize) -> Value) -> Result<bool> {
        Ok(truth(&self.value(of)?))
    }
}

impl Node {
    fn parameters(&self, found: &mut Vec<usize>) {
        match self {
            Node::Constant(_) => {}
            Node::Parameter(number) => found.push(*number),
            Node::List(all) | Node::Call(_, all) => {
                all.iter().for_each(|node| node.parameters(found));
            }
            Node::Signed(_, inner) => inner.parameters(found),
            Node::Between(_, left, right) | Node::And(left, right) | Node::Or(left, right) => {
                left.parameters(found);
                right.parameters(found);
            }
            Node::Compared(first, chain) => {
                first.parameters(found);
                chain.iter().for_each(|(_, node)| node.parameters(found));
            }
            Node::Choice(condition, value, otherwise) => {
                condition.parameters(found);
                value.parameters(found);
                otherwise.parameters(found);
            }
        }
    }

    fn value(&self, of: &dyn Fn(usize) -> Value) -> Result<Value> {
        Ok(match self {
            Node::Constant(value) => value.clone(),
            Node::Parameter(number) => of(*number),
            Node::List(all) => Value::List(values(all, of)?),
            Node::Signed(sign, inner) => signed(*sign, &inner.value(of)?)?,
            Node::Between(operator, left, right) => {
                between(*operator, &left.value(of)?, &right.value(of)?)?
            }
            Node::Compared(first, chain) => {
                let mut left = first.value(of)?;
                for (comparison, node) in chain {
                    let right = node.value(of)?;
                    if !compare(*comparison, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Value::Bool(true)
            }
            // Both yield one of their values, and the second one is only looked at where it decides.
            Node::And(left, right) => {
                let left = left.value(of)?;
                if truth(&left) { right.value(of)? } else { left }
            }
            Node::Or(left, right) => {
                let left = left.value(of)?;
                if truth(&left) { left } else { right.value(of)? }
            }
            Node::Choice(condition, value, otherwise) => {
                if truth(&condition.value(of)?) {
                    value.value(of)?
                } else {
                    otherwise.value(of)?
                }
            }
            Node::Call(function, arguments) => call(*function, &values(arguments, of)?)?,
        })
    }
}

fn values(all: &[Node], of: &dyn Fn(usize) -> Value) -> Result<Vec<Value>> {
    all.iter().map(|node| node.value(of)).collect()
}

fn truth(value: &Value) -> bool {
    match value {
        Value::Int(n) => *n != 0,
        Value::Float(x) => *x != 0.0,
        Value::Bool(holds) => *holds,
        Value::Text(text) => !text.is_empty(),
        Value::List(all) => !all.is_empty(),
    }
}

#[cfg(test)]
mod tests;
