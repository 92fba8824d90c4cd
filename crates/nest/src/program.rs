//! A program of affine loop nests: arrays, statements with their iterations, and the order in which they run.

use flopsmith_problem::Element;

use crate::affine::{Affine, System, Var};
use crate::poly::Poly;

/// A function whose loops are affine.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The name of the function.
    pub entry: String,
    /// Its prototype, without the semicolon.
    pub prototype: String,
    /// The names of all variables; the first ones are the parameters.
    pub names: Vec<String>,
    /// Number of parameters.
    pub parameters: usize,
    /// The ranges of the parameters: each is at least as large as the problem says.
    pub context: System,
    /// All arrays.
    pub arrays: Vec<Array>,
    /// All statements in the order of the text.
    pub statements: Vec<Statement>,
}

/// An array.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Its name.
    pub name: String,
    /// Type of its elements as C spells it.
    pub c_type: &'static str,
    /// True for numbers with a fraction.
    pub floats: bool,
    /// Bytes of an element.
    pub bytes: u32,
    /// Distance of neighbours in each dimension, in elements; the last is 1.
    pub strides: Vec<Poly>,
    /// Extents in each dimension as far as they are known.
    pub extents: Vec<Option<Affine>>,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where an array comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// An argument that may only be read.
    Input,
    /// An argument that is written.
    Output,
    /// Memory of the program itself.
    Scratch,
}

impl Array {
    /// The number of elements of a scratch array, if all extents are known.
    pub fn count(&self) -> Option<Poly> {
        let mut product = Poly::constant(1);
        for extent in &self.extents {
            product = product.times(&Poly::of(extent.as_ref()?))?;
        }
        Some(product)
    }
}

/// The C type of an element, whether it has a fraction, and its bytes. None for types that no loop nest computes with.
pub fn c_type(element: Element) -> Option<(&'static str, bool, u32)> {
    match element {
        Element::F64 => Some(("double", true, 8)),
        Element::F32 => Some(("float", true, 4)),
        Element::I32 => Some(("int", false, 4)),
        Element::I64 => Some(("long", false, 8)),
        // Vectors of the others compute something else than C does.
        Element::U8 | Element::C64 | Element::C128 | Element::F16 | Element::Bf16 => None,
    }
}

/// An element of an array.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// The number of the array.
    pub array: usize,
    /// A subscript for each dimension.
    pub subscripts: Vec<Affine>,
}

impl Access {
    /// The access with every variable replaced where `value` gives one.
    #[must_use]
    pub fn replaced(&self, value: &impl Fn(Var) -> Option<Affine>) -> Self {
        Self {
            array: self.array,
            subscripts: self.subscripts.iter().map(|s| s.replaced(value)).collect(),
        }
    }
}

/// An operation of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The sum.
    Add,
    /// The difference.
    Sub,
    /// The product.
    Mul,
    /// The quotient.
    Div,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
}

/// A comparison of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
}

impl Comparison {
    /// Its C operator.
    pub fn text(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::Equal => "==",
            Self::NotEqual => "!=",
        }
    }
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A number as the source spells it.
    Number(String),
    /// A scalar argument.
    Scalar(String),
    /// An integer made of variables.
    Index(Affine),
    /// An element of an array.
    Read(Access),
    /// The negative.
    Negative(Box<Expr>),
    /// Two values combined.
    Binary(Operation, Box<Expr>, Box<Expr>),
    /// A function of the C library.
    Call(String, Vec<Expr>),
    /// The third value if the comparison of the first two holds, otherwise the fourth.
    Select(Comparison, Box<[Expr; 4]>),
}

impl Expr {
    /// Two values combined.
    pub fn binary(operation: Operation, a: Expr, b: Expr) -> Self {
        Self::Binary(operation, Box::new(a), Box::new(b))
    }

    /// Calls `see` for every access.
    pub fn accesses<'a>(&'a self, see: &mut impl FnMut(&'a Access)) {
        match self {
            Self::Number(_) | Self::Scalar(_) | Self::Index(_) => {}
            Self::Read(access) => see(access),
            Self::Negative(a) => a.accesses(see),
            Self::Binary(_, a, b) => {
                a.accesses(see);
                b.accesses(see);
            }
            Self::Call(_, all) => all.iter().for_each(|e| e.accesses(see)),
            Self::Select(_, all) => all.iter().for_each(|e| e.accesses(see)),
        }
    }

    /// All accesses.
    pub fn reads(&self) -> Vec<&Access> {
        let mut all = Vec::new();
        self.accesses(&mut |access| all.push(access));
        all
    }

    /// The value with every access, index and scalar replaced by what `change` gives; it gives none for those that stay.
    #[must_use]
    pub fn changed(&self, change: &impl Fn(&Expr) -> Option<Expr>) -> Expr {
        if let Some(new) = change(self) {
            return new;
        }
        match self {
            Self::Number(_) | Self::Scalar(_) | Self::Index(_) | Self::Read(_) => self.clone(),
            Self::Negative(a) => Self::Negative(Box::new(a.changed(change))),
            Self::Binary(op, a, b) => Self::binary(*op, a.changed(change), b.changed(change)),
            Self::Call(name, all) => Self::Call(
                name.clone(),
                all.iter().map(|e| e.changed(change)).collect(),
            ),
            Self::Select(how, all) => {
                Self::Select(*how, Box::new(all.each_ref().map(|e| e.changed(change))))
            }
        }
    }

    /// The value with every variable replaced where `value` gives one.
    #[must_use]
    pub fn replaced(&self, value: &impl Fn(Var) -> Option<Affine>) -> Expr {
        self.changed(&|e| match e {
            Expr::Read(access) => Some(Expr::Read(access.replaced(value))),
            Expr::Index(affine) => Some(Expr::Index(affine.replaced(value))),
            _ => None,
        })
    }

    /// The number of values around its innermost one, and that one.
    pub fn depth(&self) -> usize {
        let inner = match self {
            Self::Number(_) | Self::Scalar(_) | Self::Index(_) | Self::Read(_) => None,
            Self::Negative(a) => Some(a.depth()),
            Self::Binary(_, a, b) => Some(a.depth().max(b.depth())),
            Self::Call(_, all) => all.iter().map(Self::depth).max(),
            Self::Select(_, all) => all.iter().map(Self::depth).max(),
        };
        inner.unwrap_or(0) + 1
    }

    /// True if a function is called.
    pub fn has_call(&self) -> bool {
        match self {
            Self::Call(..) => true,
            Self::Number(_) | Self::Scalar(_) | Self::Index(_) | Self::Read(_) => false,
            Self::Negative(a) => a.has_call(),
            Self::Binary(_, a, b) => a.has_call() || b.has_call(),
            Self::Select(_, all) => all.iter().any(Self::has_call),
        }
    }

    /// True if a comparison decides between values.
    pub fn has_select(&self) -> bool {
        match self {
            Self::Select(..) => true,
            Self::Binary(Operation::Min | Operation::Max, ..) => true,
            Self::Number(_) | Self::Scalar(_) | Self::Index(_) | Self::Read(_) => false,
            Self::Negative(a) => a.has_select(),
            Self::Binary(_, a, b) => a.has_select() || b.has_select(),
            Self::Call(_, all) => all.iter().any(Self::has_select),
        }
    }

    /// Calls `see` for every integer that is a value, outside of subscripts.
    pub fn indices<'a>(&'a self, see: &mut impl FnMut(&'a Affine)) {
        match self {
            Self::Index(affine) => see(affine),
            Self::Number(_) | Self::Scalar(_) | Self::Read(_) => {}
            Self::Negative(a) => a.indices(see),
            Self::Binary(_, a, b) => {
                a.indices(see);
                b.indices(see);
            }
            Self::Call(_, all) => all.iter().for_each(|e| e.indices(see)),
            Self::Select(_, all) => all.iter().for_each(|e| e.indices(see)),
        }
    }
}

/// The kind of an update that may be made in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Terms are added or subtracted.
    Sum,
    /// Factors are multiplied.
    Product,
    /// The least or the greatest remains.
    Extreme(Operation),
}

/// `target = value`, or `target = target operation value`.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// Its iterators, the outermost first.
    pub iterators: Vec<Var>,
    /// Its place among its neighbours at each depth: one more number than iterators.
    pub place: Vec<u32>,
    /// The constraints that its iterations satisfy.
    pub domain: System,
    /// The element that it writes.
    pub target: Access,
    /// How it combines the old value of the target with `value`; none if it overwrites it.
    pub update: Option<Operation>,
    /// The value.
    pub value: Expr,
}

impl Statement {
    /// The kind of its update, if the order of the updates does not matter.
    pub fn kind(&self) -> Option<Kind> {
        match self.update? {
            Operation::Add | Operation::Sub => Some(Kind::Sum),
            Operation::Mul => Some(Kind::Product),
            Operation::Div => None,
            extreme @ (Operation::Min | Operation::Max) => Some(Kind::Extreme(extreme)),
        }
    }

    /// The elements that it reads. The old value of an updated target is the last.
    pub fn reads(&self) -> Vec<&Access> {
        let mut all = self.value.reads();
        all.extend(self.update.map(|_| &self.target));
        all
    }

    /// Number of loops that it shares with `other`.
    pub fn common(&self, other: &Self) -> usize {
        let pairs = self.iterators.iter().zip(&other.iterators);
        pairs.take_while(|(a, b)| a == b).count()
    }

    /// The statement with other iterators.
    #[must_use]
    pub fn replaced(&self, value: &impl Fn(Var) -> Option<Affine>) -> Self {
        Self {
            iterators: self.iterators.clone(),
            place: self.place.clone(),
            domain: self.domain.replaced(value),
            target: self.target.replaced(value),
            update: self.update,
            value: self.value.replaced(value),
        }
    }
}

impl Program {
    /// A new variable.
    pub fn fresh(&mut self, name: &str) -> Var {
        self.names.push(name.to_owned());
        (self.names.len() - 1) as Var
    }

    /// The name of a variable.
    pub fn name(&self, var: Var) -> &str {
        self.names.get(var as usize).map_or("?", String::as_str)
    }

    /// True if `var` is a parameter.
    pub fn is_parameter(&self, var: Var) -> bool {
        (var as usize) < self.parameters
    }

    /// The domain of a statement and what is known of the parameters.
    pub fn domain(&self, statement: &Statement) -> System {
        let mut all = self.context.clone();
        all.and(&statement.domain);
        all
    }
}
