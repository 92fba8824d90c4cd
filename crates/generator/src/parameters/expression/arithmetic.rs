//! Python's operators and functions on values.

use std::cmp::Ordering;

use super::{Comparison, Function, Operator, Result, Sign, Value, no_value, truth};

/// Greatest number of elements of a list.
const LONGEST: usize = 100_000;

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

pub(super) fn signed(sign: Sign, value: &Value) -> Result<Value> {
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

pub(super) fn between(operator: Operator, left: &Value, right: &Value) -> Result<Value> {
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

pub(super) fn of_integers(operator: Operator, left: i64, right: i64) -> Result<Value> {
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

pub(super) fn compare(comparison: Comparison, left: &Value, right: &Value) -> Result<bool> {
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

pub(super) fn call(function: Function, arguments: &[Value]) -> Result<Value> {
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
