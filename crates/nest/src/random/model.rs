//! The parts of a random nest: sizes, arrays, scalars, and statements with their loops.

use flopsmith_problem::{Element, Role};

/// A nest, as its problem states it.
#[derive(Debug, Clone)]
pub(super) struct Nest {
    /// The type of all numbers.
    pub element: Element,
    /// The parameters.
    pub sizes: Vec<Size>,
    /// The names of the iterators, the outermost first.
    pub iterators: [&'static str; 4],
    /// The name of the local number that takes a sum.
    pub local: &'static str,
    /// Numbers that are passed by value.
    pub scalars: Vec<&'static str>,
    /// All arrays.
    pub arrays: Vec<Array>,
    /// All statements, in the order in which they run.
    pub statements: Vec<Statement>,
}

/// A parameter.
#[derive(Debug, Clone)]
pub(super) struct Size {
    pub name: &'static str,
    /// True for the length of a window, which stays small.
    pub window: bool,
    /// Its value at the first timed size is at most this.
    pub cap: i64,
    /// Its value at the first timed size.
    pub even: i64,
    /// Its value at the second timed size.
    pub odd: i64,
    /// Its largest value.
    pub most: i64,
}

/// An array.
#[derive(Debug, Clone)]
pub(super) struct Array {
    pub name: &'static str,
    pub role: Role,
    pub extents: Vec<Extent>,
    /// True if its rows differ by powers of two in timed calls.
    pub graded: bool,
}

/// The extent of an array in one dimension: a size and what lies beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// The number of the size.
    pub size: usize,
    pub more: More,
}

/// Elements beyond a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    Nothing,
    /// One before and one behind, for the neighbours of the first and the last element.
    Halo,
    /// One less than the size of this number, for a window that begins at the last element.
    Window(usize),
}

/// A loop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loop {
    /// The number of its size.
    pub size: usize,
    /// The loop whose iterator is the last value instead.
    pub up_to: Option<usize>,
}

/// An element of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Access {
    /// The number of the array.
    pub array: usize,
    pub subscripts: Vec<Subscript>,
}

/// A subscript: the iterator of a loop plus something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subscript {
    /// The loop.
    pub over: usize,
    pub plus: Plus,
}

/// The number or iterator that is added to an iterator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plus {
    Nothing,
    Number(i64),
    /// The iterator of this loop.
    Loop(usize),
}

impl Subscript {
    /// The iterator of a loop.
    pub fn of(over: usize) -> Self {
        Self {
            over,
            plus: Plus::Nothing,
        }
    }
}

impl Access {
    /// True if the element moves with this loop.
    pub fn moves(&self, with: usize) -> bool {
        let mut all = self.subscripts.iter();
        all.any(|s| s.over == with || s.plus == Plus::Loop(with))
    }
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Term {
    /// A number as C spells it in double precision.
    Number(&'static str),
    /// The scalar of this number.
    Scalar(usize),
    Read(Access),
    Plus(Box<Term>, Box<Term>),
    Minus(Box<Term>, Box<Term>),
    Times(Box<Term>, Box<Term>),
}

impl Term {
    pub fn plus(self, other: Term) -> Self {
        Self::Plus(Box::new(self), Box::new(other))
    }

    pub fn minus(self, other: Term) -> Self {
        Self::Minus(Box::new(self), Box::new(other))
    }

    pub fn times(self, other: Term) -> Self {
        Self::Times(Box::new(self), Box::new(other))
    }

    /// The number of operations.
    pub fn operations(&self) -> u32 {
        match self {
            Self::Number(_) | Self::Scalar(_) | Self::Read(_) => 0,
            Self::Plus(a, b) | Self::Minus(a, b) | Self::Times(a, b) => {
                1 + a.operations() + b.operations()
            }
        }
    }

    /// Calls `see` for every access.
    pub fn accesses<'a>(&'a self, see: &mut impl FnMut(&'a Access)) {
        match self {
            Self::Number(_) | Self::Scalar(_) => {}
            Self::Read(access) => see(access),
            Self::Plus(a, b) | Self::Minus(a, b) | Self::Times(a, b) => {
                a.accesses(see);
                b.accesses(see);
            }
        }
    }
}

/// How a statement treats the old value of its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Update {
    /// It overwrites it.
    Set,
    /// It adds to it.
    Add,
    /// It multiplies it by the scalar of this number and adds to that.
    Scale(usize),
}

/// Where a sum grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// In a local number.
    Local,
    /// In the element of the result.
    Memory,
}

/// A statement with its loops.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    /// The outermost first.
    pub loops: Vec<Loop>,
    /// How many of the loops, the innermost ones, sum up the value.
    pub sums: usize,
    /// True if it shares its loops with the statement before it.
    pub shares: bool,
    pub target: Access,
    pub update: Update,
    /// The scalar of this number times the whole sum.
    pub whole: Option<usize>,
    pub style: Style,
    pub value: Term,
}

impl Statement {
    /// The number of loops over elements of the result.
    pub fn outer(&self) -> usize {
        self.loops.len() - self.sums
    }

    /// The sizes of the loops that sum up, in order.
    pub fn summed(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self
            .loops
            .iter()
            .skip(self.outer())
            .map(|l| l.size)
            .collect();
        sizes.sort_unstable();
        sizes
    }
}

impl Nest {
    /// True for numbers with a fraction.
    pub fn floats(&self) -> bool {
        self.element.is_float()
    }

    /// The statements by the loops that they share.
    pub fn groups(&self) -> Vec<&[Statement]> {
        self.statements.chunk_by(|_, next| next.shares).collect()
    }

    /// Iterations of all statements at the first timed size, as if each loop had all iterations.
    pub fn iterations(&self) -> i64 {
        let each = self.statements.iter().map(|s| {
            let sizes = s.loops.iter().map(|l| self.sizes[l.size].even);
            sizes.product::<i64>()
        });
        each.sum()
    }

    /// The number of elements of an array for these values of the sizes.
    pub fn elements(&self, array: &Array, value: impl Fn(&Size) -> i64) -> i64 {
        let extents = array.extents.iter().map(|extent| {
            let more = match extent.more {
                More::Nothing => 0,
                More::Halo => 2,
                More::Window(size) => value(&self.sizes[size]) - 1,
            };
            value(&self.sizes[extent.size]) + more
        });
        extents.product()
    }
}
