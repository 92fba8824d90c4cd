//! A form in which nests are equal that differ in their spelling alone.
//!
//! Names, element types, the values of numbers, constants in subscripts, the signs of terms and the extents of loops are left
//! out; the order of factors and of summands does not matter, nor does that of the loops of a statement. `x = x + e` and
//! `x += e` are equal, and so are the other updates. So the product of two matrices has one form, whatever its sizes, its
//! precision and its names. The form tells whether a model has seen a nest: leaving out much makes more nests equal, and a
//! held-out nest is then kept out in all its variants.

use crate::affine::{Affine, Var};
use crate::program::{Access, Expr, Operation, Program, Statement};

/// Namings that give the same text and are followed at the same time.
const MOST_TIES: usize = 64;

/// The form of a program.
pub fn canonical(program: &Program) -> String {
    let mut ways = vec![Way::default()];
    for statement in program.statements.iter().filter(|s| !is_idle(s)) {
        let (sign, value) = Term::of_statement(program, statement).into_update();
        let target = subscripts(program, &statement.target);
        let all = ways.iter().flat_map(|way| {
            let mut way = way.clone();
            // The iterators of different statements are different ones.
            way.iterators.clear();
            way.access(statement.target.array, &target);
            way.text += sign;
            let ways = value.ways(&way);
            ways.into_iter()
                .map(move |way| way.ended(program, statement))
        });
        ways = best(all, |way| &way.text);
    }
    ways.into_iter().next().unwrap_or_default().text
}

/// True for `x = x`, which is left of a sum that begins with the old value in a local number.
fn is_idle(statement: &Statement) -> bool {
    let is_old = matches!(&statement.value, Expr::Read(access) if *access == statement.target);
    statement.update.is_none() && is_old
}

/// Iterators with their factors: an affine expression without parameters and constants.
type Index = Vec<(Var, i64)>;

fn index(program: &Program, affine: &Affine) -> Index {
    let terms = affine.terms();
    terms
        .filter(|(var, _)| !program.is_parameter(*var))
        .collect()
}

fn subscripts(program: &Program, access: &Access) -> Vec<Index> {
    let each = access.subscripts.iter();
    each.map(|subscript| index(program, subscript)).collect()
}

/// A value whose operands have no order.
#[derive(Debug, Clone, PartialEq)]
enum Term<'a> {
    /// A number, whatever its value.
    Number,
    Scalar(&'a str),
    Index(Index),
    /// An element of the array of this number. The old value of the statement's own target is marked: other elements may
    /// have the same subscripts but for constants.
    Read {
        array: usize,
        subscripts: Vec<Index>,
        is_old: bool,
    },
    /// Operands in any order.
    Any(&'static str, Vec<Term<'a>>),
    /// Operands in this order.
    Ordered(String, Vec<Term<'a>>),
}

impl<'a> Term<'a> {
    /// The whole value that a statement assigns, with the old value of an updated target.
    fn of_statement(program: &Program, statement: &'a Statement) -> Self {
        let of = |value: &'a Expr| Self::of(program, &statement.target, value);
        let value = of(&statement.value);
        match statement.update {
            None => value,
            Some(operation) => {
                let old = Self::Read {
                    array: statement.target.array,
                    subscripts: subscripts(program, &statement.target),
                    is_old: true,
                };
                Self::combined(operation, old, value)
            }
        }
    }

    fn of(program: &Program, target: &Access, value: &'a Expr) -> Self {
        let of = |value: &'a Expr| Self::of(program, target, value);
        match value {
            Expr::Number(_) => Self::Number,
            Expr::Scalar(name) => Self::Scalar(name),
            Expr::Index(affine) => Self::Index(index(program, affine)),
            Expr::Read(access) => Self::Read {
                array: access.array,
                subscripts: subscripts(program, access),
                is_old: access == target,
            },
            Expr::Negative(a) => of(a),
            Expr::Binary(operation, a, b) => Self::combined(*operation, of(a), of(b)),
            Expr::Call(name, all) => Self::Ordered(name.clone(), all.iter().map(of).collect()),
            Expr::Select(how, all) => {
                Self::Ordered(how.text().to_owned(), all.iter().map(of).collect())
            }
        }
    }

    /// Two values combined; operands of the same operation become operands of the whole.
    fn combined(operation: Operation, a: Self, b: Self) -> Self {
        let name = match operation {
            Operation::Add | Operation::Sub => "sum",
            Operation::Mul => "product",
            Operation::Min => "min",
            Operation::Max => "max",
            Operation::Div => return Self::Ordered("quotient".to_owned(), vec![a, b]),
        };
        let mut operands = Vec::new();
        for operand in [a, b] {
            match operand {
                Self::Any(of, inner) if of == name => operands.extend(inner),
                other => operands.push(other),
            }
        }
        Self::Any(name, operands)
    }

    fn is_old(&self) -> bool {
        matches!(self, Self::Read { is_old: true, .. })
    }

    /// The sign between the target and the rest of the value: that of an update if the old value of the target is an operand.
    fn into_update(self) -> (&'static str, Self) {
        match self {
            Self::Any(name, mut operands) => {
                let Some(at) = operands.iter().position(Self::is_old) else {
                    return (" = ", Self::Any(name, operands));
                };
                operands.remove(at);
                let sign = match name {
                    "sum" => " += ",
                    "product" => " *= ",
                    "min" => " min= ",
                    _ => " max= ",
                };
                let rest = match operands.len() {
                    1 => operands.remove(0),
                    _ => Self::Any(name, operands),
                };
                (sign, rest)
            }
            Self::Ordered(name, mut operands)
                if name == "quotient" && operands.first().is_some_and(Self::is_old) =>
            {
                (" /= ", operands.pop().unwrap_or(Self::Number))
            }
            other => (" = ", other),
        }
    }

    /// The ways to go on with this value that give the least text.
    fn ways(&self, from: &Way<'a>) -> Vec<Way<'a>> {
        let mut way = from.clone();
        match self {
            Self::Number => way.text.push('#'),
            Self::Scalar(name) => {
                let number = number(&mut way.scalars, name);
                way.text += &format!("s{number}");
            }
            Self::Index(index) => way.index(index),
            Self::Read {
                array, subscripts, ..
            } => way.access(*array, subscripts),
            Self::Any(name, operands) => {
                way.text += name;
                way.text.push('(');
                return ended(in_any_order(operands, way));
            }
            Self::Ordered(name, operands) => {
                way.text += name;
                way.text.push('(');
                let mut ways = vec![way];
                for operand in operands {
                    let all = ways.iter().flat_map(|way| operand.ways(way));
                    ways = best(all, |way| &way.text);
                    ways.iter_mut().for_each(|way| way.text.push(','));
                }
                return ended(ways);
            }
        }
        vec![way]
    }
}

/// The ways behind the last operand.
fn ended(mut ways: Vec<Way<'_>>) -> Vec<Way<'_>> {
    ways.iter_mut().for_each(|way| way.text.push(')'));
    ways
}

/// The ways to go on with all operands. The one with the least text is the next; operands that are alike count as one.
fn in_any_order<'a>(operands: &[Term<'a>], from: Way<'a>) -> Vec<Way<'a>> {
    let alike = |operand: &Term<'a>| operands.iter().position(|other| other == operand);
    let mut left: Vec<usize> = operands.iter().filter_map(alike).collect();
    left.sort_unstable();
    let mut ways = vec![(from, left)];
    for _ in operands {
        let mut all = Vec::new();
        for (way, left) in &ways {
            for (at, which) in left.iter().enumerate() {
                if at > 0 && left[at - 1] == *which {
                    continue;
                }
                let mut others = left.clone();
                others.remove(at);
                for mut way in operands[*which].ways(way) {
                    way.text.push(',');
                    all.push((way, others.clone()));
                }
            }
        }
        ways = best(all.into_iter(), |(way, _)| &way.text);
    }
    ways.into_iter().map(|(way, _)| way).collect()
}

/// A text with the numbers that it gives to names, in the order in which they occur.
#[derive(Debug, Clone, Default, PartialEq)]
struct Way<'a> {
    text: String,
    iterators: Vec<Var>,
    arrays: Vec<usize>,
    scalars: Vec<&'a str>,
}

/// The number of a name; a new name gets the next one.
fn number<T: PartialEq + Copy>(known: &mut Vec<T>, name: &T) -> usize {
    match known.iter().position(|other| other == name) {
        Some(at) => at,
        None => {
            known.push(*name);
            known.len() - 1
        }
    }
}

impl Way<'_> {
    fn index(&mut self, index: &[(Var, i64)]) {
        let numbered = index
            .iter()
            .map(|(var, factor)| (number(&mut self.iterators, var), *factor));
        let mut terms: Vec<(usize, i64)> = numbered.collect();
        terms.sort_unstable();
        let terms: Vec<String> = terms.iter().map(|(n, by)| format!("{by}i{n}")).collect();
        self.text += &terms.join("+");
    }

    fn access(&mut self, array: usize, subscripts: &[Index]) {
        let number = number(&mut self.arrays, &array);
        self.text += &format!("a{number}[");
        for subscript in subscripts {
            self.index(subscript);
            self.text.push(';');
        }
        self.text.push(']');
    }

    /// The text with the loops whose ends depend on other loops, and with the number of loops that no subscript names.
    fn ended(mut self, program: &Program, statement: &Statement) -> Self {
        let mut pairs: Vec<Vec<usize>> = Vec::new();
        for constraint in statement.domain.inequalities() {
            let vars = constraint.terms().map(|(var, _)| var);
            let mut among: Vec<usize> = vars
                .filter(|var| !program.is_parameter(*var))
                .map(|var| number(&mut self.iterators, &var))
                .collect();
            among.sort_unstable();
            if among.len() > 1 && !pairs.contains(&among) {
                pairs.push(among);
            }
        }
        pairs.sort();
        self.text += &format!(" {pairs:?} of {}\n", statement.iterators.len());
        self
    }
}

/// Those with the least text, each once.
fn best<T: PartialEq>(all: impl Iterator<Item = T>, text: impl Fn(&T) -> &String) -> Vec<T> {
    let mut best: Vec<T> = Vec::new();
    for one in all {
        match best.first().map(|other| text(&one).cmp(text(other))) {
            Some(std::cmp::Ordering::Greater) => {}
            Some(std::cmp::Ordering::Equal) => {
                if best.len() < MOST_TIES && !best.contains(&one) {
                    best.push(one);
                }
            }
            Some(std::cmp::Ordering::Less) | None => best = vec![one],
        }
    }
    best
}

#[cfg(test)]
mod tests;
