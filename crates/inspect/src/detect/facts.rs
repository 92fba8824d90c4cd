//! What a walk through a program leaves behind: loops, and which values move where inside them.

use std::collections::BTreeSet;

use super::poly::{Poly, Symbol};

pub(super) type LoopId = usize;
pub(super) type ArrayId = usize;
pub(super) type ScalarId = usize;

/// Loops of at most this many rounds, known when compiling, are parts of a tile and not loops over data.
pub(super) const TILE: i64 = 16;

/// What a symbol stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The variable of a loop.
    Loop,
    /// A parameter, or an integer that is not understood: as large as a size may be.
    Size,
}

/// Where an array's memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The n-th input of the problem.
    Input(usize),
    /// An output of the problem.
    Output,
    /// The program's own: automatic, static or allocated.
    Local,
}

#[derive(Debug, Clone)]
pub(super) struct Array {
    pub origin: Origin,
    pub name: String,
    /// Extents as declared; one unknown extent for what a pointer points at.
    pub dims: Vec<Option<i64>>,
    /// The loops around its declaration.
    pub declared: Vec<LoopId>,
    /// The inputs whose values it holds.
    pub sources: BTreeSet<usize>,
    /// Products are summed in it.
    pub accumulates: bool,
}

impl Array {
    /// Number of elements, if declared with constants.
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
    /// Accumulators whose sums have flown into it.
    pub accs: BTreeSet<Place>,
    /// Elements that were read into it.
    pub reads: Vec<Place>,
}

/// Something that holds a number.
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
    /// Limit less start, if that is a constant.
    pub extent: Option<i64>,
    /// Constant step.
    pub step: Option<i64>,
    pub line: u32,
}

impl Loop {
    /// Is it a part of a tile, and no loop over data?
    pub fn is_tile(&self) -> bool {
        self.extent.is_some_and(|e| e <= TILE)
    }

    /// Rounds, if constant.
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

/// A product of inputs that is added to something.
#[derive(Debug, Clone)]
pub(super) struct Update {
    pub stack: Vec<LoopId>,
    pub target: Place,
    pub sources: BTreeSet<usize>,
    pub reads: Vec<Place>,
    pub line: u32,
}

/// A value that is stored to an output, or to an array on its way there.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub stack: Vec<LoopId>,
    pub array: ArrayId,
    pub index: Vec<Poly>,
    /// The accumulators in the value.
    pub accs: BTreeSet<Place>,
}

/// Values of inputs that are copied into an array of the program's own.
#[derive(Debug, Clone)]
pub(super) struct Fill {
    pub array: ArrayId,
    pub stack: Vec<LoopId>,
    pub line: u32,
}

/// A statement that computes or stores elements, with its text less constants.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub stack: Vec<LoopId>,
    pub text: String,
    pub terms: Vec<String>,
    pub target: Place,
    pub line: u32,
}

/// Everything a walk found.
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
    /// The source nests deeper than anything a person would write.
    pub too_deep: bool,
    /// The line of a loop that is several in one, and the counter that it sets back.
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
