//! The results of a walk through a program: its loops, and the values that move inside them.

use std::collections::BTreeSet;

use super::poly::{Poly, Symbol};

pub(super) type LoopId = usize;
pub(super) type ArrayId = usize;
pub(super) type ScalarId = usize;

/// A loop whose number of iterations is a compile-time constant of at most this value is part of a tile, not a loop
/// over data.
pub(super) const TILE: i64 = 16;

/// The meaning of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The variable of a loop.
    Loop,
    /// A parameter, or an integer of unknown value. It may be as large as a size.
    Size,
}

/// The origin of an array's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The n-th input of the problem.
    Input(usize),
    /// An output of the problem.
    Output,
    /// Memory of the program: automatic, static or allocated.
    Local,
}

#[derive(Debug, Clone)]
pub(super) struct Array {
    pub origin: Origin,
    pub name: String,
    /// Declared extents. The target of a pointer has one unknown extent.
    pub dims: Vec<Option<i64>>,
    /// The loops around the declaration.
    pub declared: Vec<LoopId>,
    /// The inputs whose values the array holds.
    pub sources: BTreeSet<usize>,
    /// True if products are summed in the array.
    pub accumulates: bool,
}

impl Array {
    /// Number of elements; none unless all extents are constants.
    pub fn elements(&self) -> Option<i64> {
        self.dims
            .iter()
            .try_fold(1_i64, |product, d| product.checked_mul((*d)?))
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Scalar {
    pub declared: Vec<LoopId>,
    pub sources: BTreeSet<usize>,
    pub accumulates: bool,
    /// Accumulators whose sums entered the scalar.
    pub accs: BTreeSet<Place>,
    /// Elements that entered the scalar.
    pub reads: Vec<Place>,
}

/// A storage location of a number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Scalar(ScalarId),
    Element(ArrayId, Vec<Poly>),
}

#[derive(Debug, Clone)]
pub(super) struct Loop {
    pub symbol: Symbol,
    pub start: Poly,
    pub limit: Option<Poly>,
    /// Limit minus start, if the difference is a constant.
    pub extent: Option<i64>,
    /// The step, if it is a constant.
    pub step: Option<i64>,
    pub line: u32,
}

impl Loop {
    /// True if the loop is part of a tile and not a loop over data.
    pub fn is_tile(&self) -> bool {
        self.extent.is_some_and(|e| e <= TILE)
    }

    /// Number of iterations, if it is a constant.
    pub fn rounds(&self) -> Option<i64> {
        let step = self.step?.checked_abs().filter(|s| *s > 0)?;
        let extent = self.extent?;
        Some(
            extent
                .div_euclid(step)
                .saturating_add(i64::from(extent % step != 0)),
        )
    }
}

/// A product of inputs that is added to a place.
#[derive(Debug, Clone)]
pub(super) struct Update {
    pub stack: Vec<LoopId>,
    pub target: Place,
    pub sources: BTreeSet<usize>,
    pub reads: Vec<Place>,
    pub line: u32,
}

/// A store of a value to an output, or to an array that holds sums before they are stored to an output.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub stack: Vec<LoopId>,
    pub array: ArrayId,
    pub index: Vec<Poly>,
    /// The accumulators in the value.
    pub accs: BTreeSet<Place>,
}

/// A copy of input values into an array of the program.
#[derive(Debug, Clone)]
pub(super) struct Fill {
    pub array: ArrayId,
    pub stack: Vec<LoopId>,
    pub line: u32,
}

/// A statement that computes or stores elements, with its text without constants.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub stack: Vec<LoopId>,
    pub text: String,
    pub terms: Vec<String>,
    pub target: Place,
    pub line: u32,
}

/// All results of a walk.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub meanings: Vec<Meaning>,
    pub arrays: Vec<Array>,
    pub scalars: Vec<Scalar>,
    pub loops: Vec<Loop>,
    pub updates: Vec<Update>,
    pub flows: Vec<Flow>,
    pub fills: Vec<Fill>,
    pub statements: Vec<Statement>,
    /// True if the source nests deeper than the walk permits.
    pub too_deep: bool,
    /// The line of a loop that combines several loops, and the counter that the loop resets.
    pub wraps: Option<(u32, String)>,
}

impl Facts {
    pub fn new_symbol(&mut self, meaning: Meaning) -> Symbol {
        self.meanings.push(meaning);
        (self.meanings.len() - 1) as Symbol
    }

    pub fn is_loop(&self, symbol: Symbol) -> bool {
        self.meanings[symbol as usize] == Meaning::Loop
    }

    pub fn is_output(&self, place: &Place) -> bool {
        matches!(place, Place::Element(array, _) if self.arrays[*array].origin == Origin::Output)
    }

    pub fn accumulates(&self, place: &Place) -> bool {
        match place {
            Place::Scalar(scalar) => self.scalars[*scalar].accumulates,
            Place::Element(array, _) => self.arrays[*array].accumulates,
        }
    }
}
