//! The results of a walk through a program: its loops, and the writes that happen inside them.

use std::collections::{BTreeMap, BTreeSet};

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
    /// An integer argument of the entry, by its position.
    Argument(usize),
    /// An integer of unknown value. It may be as large as a size.
    Unknown,
}

/// The origin of an array's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// An input of the problem, by its position among the arguments.
    Input(usize),
    /// An output of the problem, by its position among the arguments.
    Output(usize),
    /// Memory of the program: automatic, static or allocated.
    Local,
}

impl Origin {
    /// The position of the argument.
    pub fn argument(self) -> Option<usize> {
        match self {
            Origin::Input(at) | Origin::Output(at) => Some(at),
            Origin::Local => None,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Array {
    pub origin: Origin,
    pub name: String,
    /// Declared extents. The target of a pointer has one unknown extent.
    pub dims: Vec<Option<i64>>,
    /// The loops around the declaration.
    pub declared: Vec<LoopId>,
    /// The arguments whose values the array holds.
    pub sources: BTreeSet<usize>,
    /// True if results of reductions are collected in the array.
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
    /// The loops around the last assignment that did not depend on the previous value.
    pub set: Vec<LoopId>,
    pub sources: BTreeSet<usize>,
    pub accumulates: bool,
    /// Accumulators whose results entered the scalar.
    pub accs: BTreeSet<Place>,
    /// Elements that entered the scalar.
    pub reads: Vec<Place>,
    /// True if the scalar was computed from several elements or by a function.
    pub computed: bool,
}

impl Scalar {
    /// True if values of arrays entered the scalar.
    pub fn has_data(&self) -> bool {
        !self.reads.is_empty() || !self.sources.is_empty() || !self.accs.is_empty()
    }
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
    /// The step, if it is known.
    pub pace: Option<Poly>,
    /// True if the loop multiplies or divides its variable.
    pub geometric: bool,
    /// The number of loops around the loop.
    pub depth: usize,
    pub line: u32,
}

impl Loop {
    /// True if the loop has few iterations, and their number is a constant.
    pub fn is_short(&self) -> bool {
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

/// A write of a value to a place.
#[derive(Debug, Clone)]
pub(super) struct Write {
    pub stack: Vec<LoopId>,
    pub target: Place,
    /// True if the new value depends on the previous one, as in a sum or a running minimum.
    pub carries: bool,
    /// True if the write is a step of a reduction over elements.
    pub updates: bool,
    /// The elements and scalars that enter the value.
    pub reads: Vec<Place>,
    /// The arguments whose values enter the value, without the target.
    pub sources: BTreeSet<usize>,
    /// Accumulators of finished reductions that enter the value, without the target.
    pub accs: BTreeSet<Place>,
    /// True if the value is an element and not computed from several.
    pub copies: bool,
    /// True if one call copies many elements.
    pub block: bool,
    /// True if the write stands under a condition inside of the innermost loop around it.
    pub conditional: bool,
    pub line: u32,
}

/// All results of a walk.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub meanings: Vec<Meaning>,
    pub arrays: Vec<Array>,
    pub scalars: Vec<Scalar>,
    pub loops: Vec<Loop>,
    pub writes: Vec<Write>,
    /// Symbols of integers that are computed by operations without a polynomial, so that equal expressions have equal
    /// symbols.
    pub derived: BTreeMap<(String, Poly, Poly), Symbol>,
    /// True if the source nests deeper than the walk permits.
    pub too_deep: bool,
    /// True if the walk reached one of its limits.
    pub cut: bool,
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

    pub fn origin(&self, place: &Place) -> Origin {
        match place {
            Place::Scalar(_) => Origin::Local,
            Place::Element(array, _) => self.arrays[*array].origin,
        }
    }

    pub fn is_output(&self, place: &Place) -> bool {
        matches!(self.origin(place), Origin::Output(_))
    }

    pub fn accumulates(&self, place: &Place) -> bool {
        match place {
            Place::Scalar(scalar) => self.scalars[*scalar].accumulates,
            Place::Element(array, _) => self.arrays[*array].accumulates,
        }
    }

    /// The loops around the declaration of a place in the program's own memory.
    pub fn declared(&self, place: &Place) -> &[LoopId] {
        match place {
            Place::Scalar(scalar) => &self.scalars[*scalar].declared,
            Place::Element(array, _) => &self.arrays[*array].declared,
        }
    }
}
