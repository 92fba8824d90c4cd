//! A form in which nests are equal that differ in their spelling alone.
//!
//! Names, element types, the values of numbers, constants in subscripts, the signs of terms and the extents of loops are left
//! out; the order of factors and of summands does not matter, nor does that of the loops of a statement. So the product of
//! two matrices has one form, whatever its sizes, its precision and its names. The form tells whether a model has seen a nest:
//! leaving out much makes more nests equal, and a held-out nest is then kept out in all its variants.

use crate::affine::{Affine, Var};
use crate::program::{Access, Expr, Operation, Program, Statement};

/// Longer sums and products are sorted instead of tried in every order.
const MOST_ORDERED: usize = 4;
/// Namings that give the same text and are followed at the same time.
const MOST_TIES: usize = 16;

/// The form of a program.
pub fn canonical(program: &Program) -> String {
    let mut ways = vec![Way::default()];
    for statement in &program.statements {
        let value = Term::of(&statement.value);
        ways = best(ways.iter().flat_map(|way| {
            let mut way = way.clone();
            // The iterators of different statements are different ones.
            way.iterators.clear();
            way.access(program, &statement.target);
            way.text += match statement.update {
                None => " = ",
                Some(Operation::Add | Operation::Sub) => " += ",
                Some(Operation::Mul) => " *= ",
                Some(Operation::Div) => " /= ",
                Some(Operation::Min) => " min= ",
                Some(Operation::Max) => " max= ",
            };
            let ways = value.ways(program, &way);
            ways.into_iter()
                .map(move |way| way.ended(program, statement))
        }));
    }
    ways.into_iter().next().unwrap_or_default().text
}

/// A value whose operands have no order.
#[derive(Debug, Clone)]
enum Term<'a> {
    /// A number, whatever its value.
    Number,
    Scalar(&'a str),
    Index(&'a Affine),
    Read(&'a Access),
    /// Operands in any order.
    Any(&'static str, Vec<Term<'a>>),
    /// Operands in this order.
    Ordered(String, Vec<Term<'a>>),
}

impl<'a> Term<'a> {
    fn of(value: &'a Expr) -> Self {
        let ordered = |name: &str, all: &[&'a Expr]| {
            Self::Ordered(name.to_owned(), all.iter().copied().map(Self::of).collect())
        };
        match value {
            Expr::Number(_) => Self::Number,
            Expr::Scalar(name) => Self::Scalar(name),
            Expr::Index(index) => Self::Index(index),
            Expr::Read(access) => Self::Read(access),
            Expr::Negative(a) => Self::of(a),
            Expr::Binary(operation, a, b) => {
                let name = match operation {
                    Operation::Add | Operation::Sub => "sum",
                    Operation::Mul => "product",
                    Operation::Min => "min",
                    Operation::Max => "max",
                    Operation::Div => return ordered("quotient", &[a, b]),
                };
                let mut operands = Vec::new();
                for operand in [Self::of(a), Self::of(b)] {
                    match operand {
                        Self::Any(of, inner) if of == name => operands.extend(inner),
                        other => operands.push(other),
                    }
                }
                Self::Any(name, operands)
            }
            Expr::Call(name, all) => ordered(name, &all.iter().collect::<Vec<_>>()),
            Expr::Select(how, all) => ordered(how.text(), &all.iter().collect::<Vec<_>>()),
        }
    }

    /// The ways to go on with this value that give the least text.
    fn ways(&self, program: &Program, from: &Way<'a>) -> Vec<Way<'a>> {
        let mut way = from.clone();
        let operands = match self {
            Self::Number => {
                way.text.push('#');
                return vec![way];
            }
            Self::Scalar(name) => {
                let number = number(&mut way.scalars, name);
                way.text += &format!("s{number}");
                return vec![way];
            }
            Self::Index(index) => {
                way.index(program, index);
                return vec![way];
            }
            Self::Read(access) => {
                way.access(program, access);
                return vec![way];
            }
            Self::Any(name, operands) => {
                way.text += name;
                orders(program, operands, from)
            }
            Self::Ordered(name, operands) => {
                way.text += name;
                vec![operands.iter().collect()]
            }
        };
        way.text.push('(');
        let all = operands.into_iter().flat_map(|order: Vec<&Term<'a>>| {
            let mut ways = vec![way.clone()];
            for operand in order {
                ways = best(ways.iter().flat_map(|way| operand.ways(program, way)));
                ways.iter_mut().for_each(|way| way.text.push(','));
            }
            ways
        });
        let mut all = best(all);
        all.iter_mut().for_each(|way| way.text.push(')'));
        all
    }
}

/// The orders in which operands are tried. Many operands are sorted by their own text with the names known so far.
fn orders<'t, 'a>(
    program: &Program,
    operands: &'t [Term<'a>],
    from: &Way<'a>,
) -> Vec<Vec<&'t Term<'a>>> {
    if operands.len() > MOST_ORDERED {
        let alone = Way {
            text: String::new(),
            ..from.clone()
        };
        let text = |term: &Term<'a>| {
            let ways = term.ways(program, &alone);
            ways.into_iter().next().unwrap_or_default().text
        };
        let mut sorted: Vec<&Term<'a>> = operands.iter().collect();
        sorted.sort_by_cached_key(|term| text(term));
        return vec![sorted];
    }
    let mut all: Vec<Vec<&Term<'a>>> = vec![Vec::new()];
    for operand in operands {
        all = all
            .iter()
            .flat_map(|order| {
                (0..=order.len()).map(|at| {
                    let mut longer = order.clone();
                    longer.insert(at, operand);
                    longer
                })
            })
            .collect();
    }
    all
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
    /// The iterators of an affine expression; parameters and constants are left out.
    fn index(&mut self, program: &Program, index: &Affine) {
        let mut terms: Vec<(usize, i64)> = index
            .terms()
            .filter(|(var, _)| !program.is_parameter(*var))
            .map(|(var, factor)| (number(&mut self.iterators, &var), factor))
            .collect();
        terms.sort_unstable();
        let terms: Vec<String> = terms.iter().map(|(n, by)| format!("{by}i{n}")).collect();
        self.text += &terms.join("+");
    }

    fn access(&mut self, program: &Program, access: &Access) {
        let number = number(&mut self.arrays, &access.array);
        self.text += &format!("a{number}[");
        for subscript in &access.subscripts {
            self.index(program, subscript);
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

/// The ways with the least text, each once.
fn best<'a>(ways: impl Iterator<Item = Way<'a>>) -> Vec<Way<'a>> {
    let mut best: Vec<Way<'a>> = Vec::new();
    for way in ways {
        match best.first().map(|other| way.text.cmp(&other.text)) {
            Some(std::cmp::Ordering::Greater) => {}
            Some(std::cmp::Ordering::Equal) => {
                if best.len() < MOST_TIES && !best.contains(&way) {
                    best.push(way);
                }
            }
            Some(std::cmp::Ordering::Less) | None => best = vec![way],
        }
    }
    best
}

#[cfg(test)]
mod tests;
