//! Expressions in Python's syntax, as Kernel Tuner writes conditions and lists of values.
//!
//! The subset: numbers, strings, `True` and `False`, names of parameters, lists and tuples, arithmetic (`+ - * / // % **`), operators on
//! bits, comparisons in chains, `in`, `and`, `or`, `not`, `… if … else …`, and the functions `abs`, `bool`, `float`, `int`, `len`,
//! `list`, `max`, `min`, `range`, `sum`, `tuple`. Values and operators mean what they mean in Python, except that whole numbers have
//! 64 bits.

use std::cmp::Ordering;
use std::fmt;

mod lexer;

use lexer::{Token, tokens};

/// Greatest depth of an expression.
const DEEPEST: usize = 60;
/// Greatest number of operators between values.
const MOST_LINKS: usize = 500;
/// Greatest number of elements of a list.
const LONGEST: usize = 100_000;

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
        let mut parser = Parser {
            tokens: tokens(text)?,
            at: 0,
            depth: 0,
            links: 0,
            names,
        };
        let root = parser.expression()?;
        match parser.peek() {
            None => Ok(Self { root }),
            Some(token) => syntax(format!("`{token}` is not expected here")),
        }
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

struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// Operators between values so far.
    links: usize,
    names: &'a [&'a str],
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Takes the next token if it is this sign or word.
    fn takes(&mut self, wanted: &str) -> bool {
        let found = match self.peek() {
            Some(Token::Sign(sign)) => *sign == wanted,
            Some(Token::Word(word)) => word == wanted,
            _ => false,
        };
        self.at += usize::from(found);
        found
    }

    fn needs(&mut self, wanted: &str) -> Result<()> {
        if self.takes(wanted) {
            return Ok(());
        }
        match self.peek() {
            Some(token) => syntax(format!("`{wanted}` is expected before `{token}`")),
            None => syntax(format!("`{wanted}` is missing at the end")),
        }
    }

    fn expression(&mut self) -> Result<Node> {
        self.deeper(|parser| {
            let value = parser.or()?;
            if !parser.takes("if") {
                return Ok(value);
            }
            let condition = parser.or()?;
            parser.needs("else")?;
            let otherwise = parser.expression()?;
            Ok(Node::Choice(
                Box::new(condition),
                Box::new(value),
                Box::new(otherwise),
            ))
        })
    }

    /// Keeps a text of many brackets or signs from overflowing the stack.
    fn deeper(&mut self, inner: impl FnOnce(&mut Self) -> Result<Node>) -> Result<Node> {
        if self.depth == DEEPEST {
            return syntax("it is nested too deeply");
        }
        self.depth += 1;
        let node = inner(self);
        self.depth -= 1;
        node
    }

    /// Keeps the tree of a long sum from overflowing the stack.
    fn linked(&mut self) -> Result<()> {
        self.links += 1;
        match self.links > MOST_LINKS {
            true => syntax("it is too long"),
            false => Ok(()),
        }
    }

    fn or(&mut self) -> Result<Node> {
        let mut node = self.and()?;
        while self.takes("or") {
            self.linked()?;
            node = Node::Or(Box::new(node), Box::new(self.and()?));
        }
        Ok(node)
    }

    fn and(&mut self) -> Result<Node> {
        let mut node = self.not()?;
        while self.takes("and") {
            self.linked()?;
            node = Node::And(Box::new(node), Box::new(self.not()?));
        }
        Ok(node)
    }

    fn not(&mut self) -> Result<Node> {
        if self.takes("not") {
            let inner = self.deeper(Self::not)?;
            return Ok(Node::Signed(Sign::Not, Box::new(inner)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Node> {
        let first = self.between(0)?;
        let mut chain = Vec::new();
        loop {
            let comparison = if self.takes("<=") {
                Comparison::LessOrEqual
            } else if self.takes("<") {
                Comparison::Less
            } else if self.takes(">=") {
                Comparison::GreaterOrEqual
            } else if self.takes(">") {
                Comparison::Greater
            } else if self.takes("==") {
                Comparison::Equal
            } else if self.takes("!=") {
                Comparison::NotEqual
            } else if self.takes("in") {
                Comparison::In
            } else if self.takes("not") {
                self.needs("in")?;
                Comparison::NotIn
            } else {
                break;
            };
            chain.push((comparison, self.between(0)?));
        }
        Ok(match chain.is_empty() {
            true => first,
            false => Node::Compared(Box::new(first), chain),
        })
    }

    /// Operators from the level of precedence `level` on; those of a later level bind more tightly.
    fn between(&mut self, level: usize) -> Result<Node> {
        const LEVELS: [&[(&str, Operator)]; 6] = [
            &[("|", Operator::BitOr)],
            &[("^", Operator::BitXor)],
            &[("&", Operator::BitAnd)],
            &[("<<", Operator::ShiftLeft), (">>", Operator::ShiftRight)],
            &[("+", Operator::Add), ("-", Operator::Subtract)],
            &[
                ("*", Operator::Multiply),
                ("//", Operator::FloorDivide),
                ("/", Operator::Divide),
                ("%", Operator::Remainder),
            ],
        ];
        let Some(operators) = LEVELS.get(level) else {
            return self.signed();
        };
        let mut node = self.between(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.takes(sign)) {
            self.linked()?;
            let right = self.between(level + 1)?;
            node = Node::Between(*operator, Box::new(node), Box::new(right));
        }
        Ok(node)
    }

    fn signed(&mut self) -> Result<Node> {
        let sign = if self.takes("-") {
            Sign::Minus
        } else if self.takes("+") {
            Sign::Plus
        } else if self.takes("~") {
            Sign::Invert
        } else {
            return self.power();
        };
        let inner = self.deeper(Self::signed)?;
        Ok(Node::Signed(sign, Box::new(inner)))
    }

    fn power(&mut self) -> Result<Node> {
        let base = self.atom()?;
        if !self.takes("**") {
            return Ok(base);
        }
        // The power binds more tightly than a sign before it, and less tightly than one behind it.
        let exponent = self.deeper(Self::signed)?;
        Ok(Node::Between(
            Operator::Power,
            Box::new(base),
            Box::new(exponent),
        ))
    }

    fn atom(&mut self) -> Result<Node> {
        let Some(token) = self.peek().cloned() else {
            return syntax("a value is missing at the end");
        };
        self.at += 1;
        match token {
            Token::Value(value) => Ok(Node::Constant(value)),
            Token::Word(word) => self.word(word),
            Token::Sign("(") => {
                if self.takes(")") {
                    return Ok(Node::List(Vec::new()));
                }
                let first = self.expression()?;
                if self.takes(")") {
                    return Ok(first);
                }
                let mut all = vec![first];
                while self.takes(",") {
                    if self.takes(")") {
                        return Ok(Node::List(all));
                    }
                    all.push(self.expression()?);
                }
                self.needs(")")?;
                Ok(Node::List(all))
            }
            Token::Sign("[") => Ok(Node::List(self.elements("]")?)),
            Token::Sign(sign) => syntax(format!("`{sign}` is not expected here")),
        }
    }

    fn word(&mut self, word: String) -> Result<Node> {
        if word == "True" || word == "False" {
            return Ok(Node::Constant(Value::Bool(word == "True")));
        }
        // A parameter may have the name of a function.
        if let Some(number) = self.names.iter().position(|name| *name == word) {
            return Ok(Node::Parameter(number));
        }
        match Function::of(&word) {
            Some(function) => {
                self.needs("(")?;
                Ok(Node::Call(function, self.elements(")")?))
            }
            None if ["and", "or", "in", "if", "else", "for", "lambda", "is"].contains(&&*word) => {
                syntax(format!("`{word}` is not expected here"))
            }
            None => Err(Error::Unknown(word)),
        }
    }

    /// Expressions up to the bracket that ends them.
    fn elements(&mut self, end: &str) -> Result<Vec<Node>> {
        let mut all = Vec::new();
        while !self.takes(end) {
            all.push(self.expression()?);
            if !self.takes(",") {
                self.needs(end)?;
                break;
            }
        }
        Ok(all)
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

/// A number, as arithmetic takes it: `True` is 1.
#[derive(Clone, Copy)]
enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    fn of(value: &Value) -> Result<Self> {
        match value {
            Value::Int(n) => Ok(Self::Int(*n)),
            Value::Bool(holds) => Ok(Self::Int(i64::from(*holds))),
            Value::Float(x) => Ok(Self::Float(*x)),
            other => no_value(format!("{other} is no number")),
        }
    }

    fn float(self) -> f64 {
        match self {
            Self::Int(n) => n as f64,
            Self::Float(x) => x,
        }
    }
}

fn signed(sign: Sign, value: &Value) -> Result<Value> {
    Ok(match (sign, value) {
        (Sign::Not, value) => Value::Bool(!truth(value)),
        (_, value) => match (sign, Number::of(value)?) {
            (Sign::Minus, Number::Int(n)) => Value::Int(whole(n.checked_neg())?),
            (Sign::Minus, Number::Float(x)) => Value::Float(-x),
            (Sign::Invert, Number::Int(n)) => Value::Int(!n),
            (Sign::Invert, Number::Float(_)) => return no_value("`~` takes whole numbers"),
            (_, Number::Int(n)) => Value::Int(n),
            (_, Number::Float(x)) => Value::Float(x),
        },
    })
}

/// A whole number that fits.
fn whole(number: Option<i64>) -> Result<i64> {
    number.map_or_else(|| no_value("a whole number is beyond 64 bits"), Ok)
}

fn between(operator: Operator, left: &Value, right: &Value) -> Result<Value> {
    match (operator, left, right) {
        (Operator::Add, Value::List(left), Value::List(right)) => {
            return list(left.iter().chain(right).cloned().collect());
        }
        (Operator::Add, Value::Text(left), Value::Text(right)) => {
            return Ok(Value::Text(format!("{left}{right}")));
        }
        _ => {}
    }
    match (Number::of(left)?, Number::of(right)?) {
        (Number::Int(left), Number::Int(right)) => of_integers(operator, left, right),
        (left, right) => of_floats(operator, left.float(), right.float()).map(Value::Float),
    }
}

fn of_integers(operator: Operator, left: i64, right: i64) -> Result<Value> {
    let by_zero = || no_value("division by zero");
    let shift = |n: i64| match u32::try_from(n) {
        Ok(n) if n < 64 => Ok(n),
        _ => no_value(format!("a number cannot be shifted by {n} bits")),
    };
    let number = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide if right == 0 => return by_zero(),
        Operator::Divide => return Ok(Value::Float(left as f64 / right as f64)),
        Operator::FloorDivide | Operator::Remainder if right == 0 => return by_zero(),
        Operator::FloorDivide => floor_divided(left, right),
        // The remainder has the sign of the divisor; of the smallest number and -1 it is 0.
        Operator::Remainder => {
            let rest = left.checked_rem(right).unwrap_or(0);
            let other = rest != 0 && (rest < 0) != (right < 0);
            Some(if other { rest + right } else { rest })
        }
        Operator::Power => match u32::try_from(right) {
            Ok(right) => left.checked_pow(right),
            Err(_) if right < 0 && left == 0 => return by_zero(),
            Err(_) if right < 0 => return Ok(Value::Float((left as f64).powf(right as f64))),
            // Only these numbers have such powers within 64 bits.
            Err(_) => match left {
                0 | 1 => Some(left),
                -1 => Some(1 - 2 * (right % 2)),
                _ => None,
            },
        },
        Operator::ShiftLeft => {
            let by = shift(right)?;
            i64::try_from(i128::from(left) << by).ok()
        }
        Operator::ShiftRight => Some(left >> shift(right)?),
        Operator::BitAnd => Some(left & right),
        Operator::BitOr => Some(left | right),
        Operator::BitXor => Some(left ^ right),
    };
    Ok(Value::Int(whole(number)?))
}

/// The quotient, rounded down; none if it does not fit.
fn floor_divided(left: i64, right: i64) -> Option<i64> {
    let quotient = left.checked_div(right)?;
    let inexact = left % right != 0;
    Some(quotient - i64::from(inexact && (left < 0) != (right < 0)))
}

fn of_floats(operator: Operator, left: f64, right: f64) -> Result<f64> {
    let divides = matches!(
        operator,
        Operator::Divide | Operator::FloorDivide | Operator::Remainder
    );
    if divides && right == 0.0 {
        return no_value("division by zero");
    }
    let number = match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        Operator::FloorDivide => (left / right).floor(),
        Operator::Remainder => left - right * (left / right).floor(),
        Operator::Power => left.powf(right),
        _ => return no_value("operators on bits take whole numbers"),
    };
    match number.is_finite() {
        true => Ok(number),
        false => no_value("the value is no finite number"),
    }
}

/// The order of two values, if they have one.
fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        (Value::List(left), Value::List(right)) => {
            for (a, b) in left.iter().zip(right) {
                if !equal(a, b) {
                    return order(a, b);
                }
            }
            Some(left.len().cmp(&right.len()))
        }
        _ => match (Number::of(left).ok()?, Number::of(right).ok()?) {
            (Number::Int(left), Number::Int(right)) => Some(left.cmp(&right)),
            (left, right) => left.float().partial_cmp(&right.float()),
        },
    }
}

/// True for values that are equal in Python: 1, 1.0 and `True` are.
pub fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::List(left), Value::List(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| equal(a, b))
        }
        _ => order(left, right) == Some(Ordering::Equal),
    }
}

fn compare(comparison: Comparison, left: &Value, right: &Value) -> Result<bool> {
    let contains = || match (left, right) {
        (_, Value::List(all)) => Ok(all.iter().any(|value| equal(value, left))),
        (Value::Text(part), Value::Text(text)) => Ok(text.contains(part.as_str())),
        _ => no_value(format!("`in` needs a list behind it, and {right} is none")),
    };
    let ordered = || {
        order(left, right).map_or_else(|| no_value(format!("{left} and {right} have no order")), Ok)
    };
    Ok(match comparison {
        Comparison::Equal => equal(left, right),
        Comparison::NotEqual => !equal(left, right),
        Comparison::In => contains()?,
        Comparison::NotIn => !contains()?,
        Comparison::Less => ordered()?.is_lt(),
        Comparison::LessOrEqual => ordered()?.is_le(),
        Comparison::Greater => ordered()?.is_gt(),
        Comparison::GreaterOrEqual => ordered()?.is_ge(),
    })
}

fn list(all: Vec<Value>) -> Result<Value> {
    match all.len() > LONGEST {
        true => no_value(format!("a list has more than {LONGEST} elements")),
        false => Ok(Value::List(all)),
    }
}

fn call(function: Function, arguments: &[Value]) -> Result<Value> {
    let one = || match arguments {
        [value] => Ok(value),
        _ => no_value("a function of one value has another number of values"),
    };
    let elements = |value: &Value| match value {
        Value::List(all) => Ok(all.clone()),
        other => no_value(format!("{other} is no list")),
    };
    let extreme = |wanted: Comparison| {
        let all = match arguments {
            [value] => elements(value)?,
            several => several.to_vec(),
        };
        let mut found: Option<Value> = None;
        for value in all {
            let better = match &found {
                None => true,
                Some(best) => compare(wanted, &value, best)?,
            };
            if better {
                found = Some(value);
            }
        }
        found.map_or_else(|| no_value("the extreme of nothing"), Ok)
    };
    match function {
        Function::Abs => match Number::of(one()?)? {
            Number::Int(n) => Ok(Value::Int(whole(n.checked_abs())?)),
            Number::Float(x) => Ok(Value::Float(x.abs())),
        },
        Function::Bool => Ok(Value::Bool(truth(one()?))),
        Function::Float => Ok(Value::Float(Number::of(one()?)?.float())),
        Function::Int => match Number::of(one()?)? {
            Number::Int(n) => Ok(Value::Int(n)),
            Number::Float(x) if x.abs() < 9.0e18 => Ok(Value::Int(x.trunc() as i64)),
            Number::Float(_) => Ok(Value::Int(whole(None)?)),
        },
        Function::Len => {
            let length = match one()? {
                Value::Text(text) => text.chars().count(),
                other => elements(other)?.len(),
            };
            Ok(Value::Int(length as i64))
        }
        Function::List => Ok(Value::List(elements(one()?)?)),
        Function::Max => extreme(Comparison::Greater),
        Function::Min => extreme(Comparison::Less),
        Function::Range => range(arguments),
        Function::Sum => {
            let all = elements(one()?)?;
            let add = |sum: Value, value: &Value| between(Operator::Add, &sum, value);
            all.iter().try_fold(Value::Int(0), add)
        }
    }
}

fn range(arguments: &[Value]) -> Result<Value> {
    let whole_number = |value: &Value| match value {
        Value::Int(n) => Ok(*n),
        other => no_value(format!("`range` takes whole numbers, and {other} is none")),
    };
    let (from, to, step) = match arguments {
        [to] => (0, whole_number(to)?, 1),
        [from, to] => (whole_number(from)?, whole_number(to)?, 1),
        [from, to, step] => (whole_number(from)?, whole_number(to)?, whole_number(step)?),
        _ => return no_value("`range` takes one to three numbers"),
    };
    if step == 0 {
        return no_value("the step of `range` is 0");
    }
    let mut all = Vec::new();
    let mut next = Some(from);
    while let Some(n) = next.filter(|n| if step > 0 { *n < to } else { *n > to }) {
        if all.len() == LONGEST {
            return no_value(format!("a list has more than {LONGEST} elements"));
        }
        all.push(Value::Int(n));
        next = n.checked_add(step);
    }
    Ok(Value::List(all))
}

#[cfg(test)]
mod tests;
