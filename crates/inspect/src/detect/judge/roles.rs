//! The role of each loop around a write: which dimensions of the results it runs over, or which sum.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::super::facts::{Facts, LoopId, Origin, Place, Write};
use super::super::poly::{Poly, Symbol};
use super::super::shapes::{Movement, Shapes};

/// Largest number of writes that a value is followed through on its way to an output.
const DEEPEST: u32 = 6;

/// Largest number of readers of a place that are followed.
const MOST_READERS: usize = 48;

/// Larger arrays of the program are memory and not registers.
const MOST_REGISTERS: i64 = 256;

/// A loop that moves further in one iteration visits blocks.
const FARTHEST: i64 = 4;

/// Longer subscripts are not rewritten.
const MOST_TERMS: usize = 64;

/// Comparisons of places that the judgement makes at most, so that no source makes it long. Programs that people write
/// need some thousands.
const BUDGET: usize = 400_000;

/// The role of a loop at a write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// The loop runs over these dimensions of an output, one bit for each.
    Out(u32),
    /// The loop runs over the terms of one result. It moves along these dimensions of arguments.
    Sum(BTreeSet<(usize, usize)>),
    /// The loop multiplies or divides its variable, as over the levels of a butterfly.
    Level,
    /// The loop moves along no array: it repeats.
    Repeat,
}

/// The memory that a value passes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Memory {
    Scalar(usize),
    Array(usize),
}

impl Memory {
    pub fn of(place: &Place) -> Self {
        match place {
            Place::Scalar(id) => Memory::Scalar(*id),
            Place::Element(id, _) => Memory::Array(*id),
        }
    }
}

/// The facts of a program with the relations between its writes.
pub(super) struct Nest<'f> {
    pub facts: &'f Facts,
    pub shapes: &'f Shapes,
    /// The writes whose values contain each memory.
    readers: BTreeMap<Memory, Vec<usize>>,
    known: RefCell<BTreeMap<(usize, Symbol), Option<u32>>>,
    reached: RefCell<BTreeMap<usize, BTreeSet<usize>>>,
    /// The loops over blocks around each write.
    pub blocks: RefCell<BTreeMap<usize, Vec<(LoopId, LoopId)>>>,
    /// All loops over blocks.
    pub over_blocks: OnceCell<BTreeSet<LoopId>>,
    left: Cell<usize>,
}

impl<'f> Nest<'f> {
    pub fn new(facts: &'f Facts, shapes: &'f Shapes) -> Self {
        let mut readers: BTreeMap<Memory, Vec<usize>> = BTreeMap::new();
        for (at, write) in facts.writes.iter().enumerate() {
            let read: BTreeSet<Memory> = write
                .reads
                .iter()
                .chain(&write.accs)
                .map(Memory::of)
                .collect();
            for memory in read {
                let of = readers.entry(memory).or_default();
                if of.len() < MOST_READERS {
                    of.push(at);
                }
            }
        }
        Nest {
            facts,
            shapes,
            readers,
            known: RefCell::default(),
            reached: RefCell::default(),
            blocks: RefCell::default(),
            over_blocks: OnceCell::new(),
            left: Cell::new(BUDGET),
        }
    }

    /// Takes work from the budget. False if nothing is left.
    pub fn spend(&self, work: usize) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(work));
        left > work
    }

    /// The dimensions along which a loop moves a place; none if the budget is used up.
    pub fn movement(&self, place: &Place, symbol: Symbol) -> Movement {
        let terms = match place {
            Place::Element(_, index) => index.iter().map(Poly::terms).sum(),
            Place::Scalar(_) => 0,
        };
        if self.spend(1 + terms / 4) {
            self.shapes.movement(self.facts, place, symbol)
        } else {
            Movement::default()
        }
    }

    /// The dimensions along which a loop moves a place. A loop that shifts the range of another one, and the other one's
    /// elements back, moves nothing.
    fn movement_within(&self, stack: &[LoopId], place: &Place, symbol: Symbol) -> Movement {
        let moved = self.movement(place, symbol);
        let Place::Element(_, index) = place else {
            return moved;
        };
        let shifts = |id: &LoopId| {
            let round = &self.facts.loops[*id];
            round.start.contains(symbol) && index.iter().any(|p| p.contains(round.symbol))
        };
        if moved.is_none() || !stack.iter().any(shifts) {
            return moved;
        }
        let Some(first) = self.counted_from_starts(place, stack) else {
            return moved;
        };
        let net = self.movement(&first, symbol);
        if net.along.iter().any(|(_, steps)| *steps == 0) {
            return moved;
        }
        let stays = |(dim, _): &(usize, i64)| net.along(*dim).is_some();
        Movement {
            along: moved.along.into_iter().filter(stays).collect(),
        }
    }

    /// The place with each loop's variable counted from the loop's start, so that a loop over blocks moves what the loop
    /// within its blocks moves.
    pub fn counted_from_starts(&self, place: &Place, stack: &[LoopId]) -> Option<Place> {
        let Place::Element(array, index) = place else {
            return None;
        };
        let shifted = index.iter().map(|p| {
            stack.iter().rev().try_fold(p.clone(), |p, id| {
                let round = &self.facts.loops[*id];
                (self.spend(1 + p.terms()) && p.terms() <= MOST_TERMS)
                    .then(|| p.shifted(round.symbol, &round.start))?
            })
        });
        let index = shifted.collect::<Option<Vec<_>>>()?;
        Some(Place::Element(*array, index))
    }

    pub fn write(&self, at: usize) -> &'f Write {
        &self.facts.writes[at]
    }

    /// The writes whose values contain the memory of `place`, except those of that memory itself.
    pub fn readers(&self, place: &Place) -> impl Iterator<Item = usize> + '_ {
        let memory = Memory::of(place);
        let all = self.readers.get(&memory).map_or(&[][..], Vec::as_slice);
        all.iter()
            .copied()
            .filter(move |at| Memory::of(&self.facts.writes[*at].target) != memory)
    }

    /// True for an element of an output, or of memory of the program that is too large for registers.
    pub fn is_memory(&self, place: &Place) -> bool {
        let Place::Element(id, _) = place else {
            return false;
        };
        let array = &self.facts.arrays[*id];
        match array.origin {
            Origin::Input(_) => false,
            Origin::Output(_) => true,
            Origin::Local => array.elements().is_none_or(|e| e > MOST_REGISTERS),
        }
    }

    /// The role of a loop around a write; none if the value is not known to reach an output.
    pub fn role(&self, at: usize, id: LoopId) -> Option<Role> {
        let round = &self.facts.loops[id];
        let dims = self.out_dims(at, round.symbol, 0)?;
        if round.geometric {
            return Some(Role::Level);
        }
        let forward = self.taken_back(at, round.symbol);
        if dims != 0 && forward.is_none() {
            return Some(Role::Out(self.own_dims(at, round.symbol, dims)));
        }
        let mut moved = BTreeSet::new();
        let (mut moves, mut shifts) = (false, false);
        for read in &self.write(at).reads {
            let Place::Element(array, _) = read else {
                continue;
            };
            let mut movement = self.movement_within(&self.write(at).stack, read, round.symbol);
            if let Some(forward) = forward {
                let ahead = self.movement(read, forward);
                let back = |(dim, steps): &(usize, i64)| {
                    ahead
                        .along(*dim)
                        .is_some_and(|n| n.signum() == -steps.signum())
                };
                movement.along.retain(|step| !back(step));
            }
            moves |= !movement.is_none();
            shifts |= !self.movement(read, round.symbol).is_none();
            if let Some(argument) = self.facts.arrays[*array].origin.argument() {
                moved.extend(movement.dims().map(|dim| (argument, dim)));
            }
        }
        let bounds = |id: &LoopId| {
            let inner = &self.facts.loops[*id];
            let ends = inner.limit.as_ref();
            let ends = ends.is_some_and(|l| l.contains(round.symbol));
            (inner.start.contains(round.symbol), ends)
        };
        let stack = &self.write(at).stack;
        // A loop over parts of a dimension gives the loop within each part both of its bounds. Bounds that move by one
        // element, or that the subscripts take back, are those of a skewed loop.
        let skews = |id: &LoopId| {
            let factor = self.facts.loops[*id].start.factor_of(round.symbol);
            let elements = factor.and_then(|f| f.as_constant()).zip(round.step);
            elements.is_some_and(|(f, step)| f.saturating_mul(step).saturating_abs() <= 1)
        };
        if !moves
            && !shifts
            && let Some(part) = stack
                .iter()
                .find(|id| bounds(id) == (true, true) && !skews(id))
            && let Some(dims @ 1..) = self.out_dims(at, self.facts.loops[*part].symbol, 0)
        {
            return Some(Role::Out(dims));
        }
        // The number of a sweep gives the loops over the elements their bounds in a skewed nest.
        moves |= forward.is_none() && stack.iter().any(|id| bounds(id) != (false, false));
        Some(if moves {
            Role::Sum(moved)
        } else {
            Role::Repeat
        })
    }

    /// The loop whose elements the loop of `symbol` takes back, as `i` for `t` in `[i - t]`: `t` counts the sweeps of a
    /// skewed nest.
    fn taken_back(&self, at: usize, symbol: Symbol) -> Option<Symbol> {
        let write = self.write(at);
        if !self.facts.is_output(&write.target) {
            return None;
        }
        let along = |symbol: Symbol| match self.movement(&write.target, symbol).along[..] {
            [(dim, steps)] => Some((dim, steps)),
            _ => None,
        };
        let (dim, _) = along(symbol).filter(|(_, steps)| *steps < 0)?;
        let ahead = |id: &&LoopId| {
            let round = &self.facts.loops[**id];
            let step = round.step.map_or(1, i64::saturating_abs);
            round.symbol != symbol
                && along(round.symbol).is_some_and(|(other, steps)| {
                    other == dim && (1..=FARTHEST).contains(&steps.saturating_mul(step))
                })
        };
        let found = write.stack.iter().find(ahead)?;
        Some(self.facts.loops[*found].symbol)
    }

    /// Of several dimensions, those that no other loop moves along; all of them if there is no such dimension. In a
    /// skewed nest the loop over rows also shifts the columns, which have a loop of their own.
    fn own_dims(&self, at: usize, symbol: Symbol, dims: u32) -> u32 {
        if dims.count_ones() < 2 {
            return dims;
        }
        let symbols = self
            .write(at)
            .stack
            .iter()
            .map(|id| self.facts.loops[*id].symbol);
        let others = symbols
            .filter(|other| *other != symbol)
            .filter_map(|other| self.out_dims(at, other, 0))
            .fold(0, |all, dims| all | dims);
        match dims & !others {
            0 => dims,
            own => own,
        }
    }

    /// The dimensions of the output along which the loop of `symbol` moves the element that the write ends in, one bit
    /// for each. None if the value is not known to reach an output.
    fn out_dims(&self, at: usize, symbol: Symbol, depth: u32) -> Option<u32> {
        if depth > DEEPEST || !self.spend(1 + self.write(at).reads.len() / 4) {
            return None;
        }
        let key = (at, symbol);
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        // A value that comes back to this write on its way brings nothing new.
        self.known.borrow_mut().insert(key, None);
        let found = self.out_dims_of(at, symbol, depth);
        self.known.borrow_mut().insert(key, found);
        found
    }

    fn out_dims_of(&self, at: usize, symbol: Symbol, depth: u32) -> Option<u32> {
        let write = self.write(at);
        match (&write.target, self.facts.origin(&write.target)) {
            (target, Origin::Output(_)) => {
                let movement = self.movement_within(&write.stack, target, symbol);
                Some(movement.dims().fold(0, |mask, dim| mask | 1 << dim.min(31)))
            }
            (Place::Element(_, index), _) => {
                let moved = index.iter().position(|p| p.contains(symbol));
                match moved {
                    Some(dim) => self.dims_behind_array(at, symbol, dim, depth),
                    None => self.dims_behind(at, symbol, depth),
                }
            }
            (Place::Scalar(_), _) => self.dims_behind(at, symbol, depth),
        }
    }

    /// The dimensions for a loop that does not choose the element of the program's memory.
    fn dims_behind(&self, at: usize, symbol: Symbol, depth: u32) -> Option<u32> {
        let target = &self.write(at).target;
        let mut found = None;
        for reader in self.readers(target) {
            let runs = |id: &LoopId| self.facts.loops[*id].symbol == symbol;
            // The loop has ended before the value is read: it ran over the terms of one result.
            let dims = if self.write(reader).stack.iter().any(runs) {
                self.out_dims(reader, symbol, depth + 1)
            } else if self.reaches(reader, depth + 1) {
                Some(0)
            } else {
                None
            };
            // A value that is stored twice, as in a symmetric result, has the roles of both stores.
            if let Some(dims) = dims {
                found = Some(found.unwrap_or(0) | dims);
            }
        }
        found
    }

    /// The dimensions for a loop that chooses the element of the program's memory by its subscript `dim`.
    fn dims_behind_array(&self, at: usize, symbol: Symbol, dim: usize, depth: u32) -> Option<u32> {
        let Place::Element(array, index) = &self.write(at).target else {
            return None;
        };
        let factor = index[dim].factor_of(symbol);
        let mut found = None;
        for reader in self.readers(&self.write(at).target) {
            let write = self.write(reader);
            let read = write.reads.iter().chain(&write.accs);
            let indices = read.filter_map(|place| match place {
                Place::Element(other, index) if other == array => index.get(dim),
                _ => None,
            });
            let mut chosen = BTreeSet::new();
            for poly in indices {
                chosen.extend(self.loops_like(write, poly, factor.as_ref()));
            }
            for symbol in chosen {
                if let Some(dims) = self.out_dims(reader, symbol, depth + 1) {
                    found = Some(found.unwrap_or(0) | dims);
                }
            }
        }
        found
    }

    /// The loops around a write that move a subscript by `factor`; those that move it otherwise if no loop does so.
    fn loops_like(&self, write: &Write, poly: &Poly, factor: Option<&Poly>) -> Vec<Symbol> {
        let symbols = write.stack.iter().map(|id| self.facts.loops[*id].symbol);
        let moving: Vec<Symbol> = symbols.filter(|s| poly.contains(*s)).collect();
        let alike = |s: &Symbol| poly.factor_of(*s).as_ref() == factor;
        let same: Vec<Symbol> = moving.iter().copied().filter(alike).collect();
        let constant = |p: Option<&Poly>| p.is_some_and(|p| p.as_constant().is_some());
        let similar = |s: &Symbol| constant(poly.factor_of(*s).as_ref()) == constant(factor);
        match same.is_empty() {
            true => moving.into_iter().filter(similar).collect(),
            false => same,
        }
    }

    /// The outputs that the value of a write reaches, by their positions among the arguments.
    pub fn outputs(&self, at: usize) -> BTreeSet<usize> {
        self.outputs_within(at, 0)
    }

    fn outputs_within(&self, at: usize, depth: u32) -> BTreeSet<usize> {
        if let Some(known) = self.reached.borrow().get(&at) {
            return known.clone();
        }
        let target = &self.write(at).target;
        if let Origin::Output(argument) = self.facts.origin(target) {
            return [argument].into();
        }
        if depth > DEEPEST || !self.spend(1) {
            return BTreeSet::new();
        }
        // A value that comes back to this write on its way brings nothing new.
        self.reached.borrow_mut().insert(at, BTreeSet::new());
        let readers = self.readers(target);
        let found: BTreeSet<usize> = readers
            .flat_map(|reader| self.outputs_within(reader, depth + 1))
            .collect();
        self.reached.borrow_mut().insert(at, found.clone());
        found
    }

    /// True if the value of a write reaches an output.
    fn reaches(&self, at: usize, depth: u32) -> bool {
        let target = &self.write(at).target;
        if self.facts.is_output(target) {
            return true;
        }
        depth <= DEEPEST
            && self
                .readers(target)
                .take(8)
                .any(|reader| self.reaches(reader, depth + 3))
    }

    /// True if the loop is part of a tile at this write, and not a loop over data.
    pub fn is_tile(&self, at: usize, id: LoopId) -> bool {
        self.facts.loops[id].is_short() && !self.spans_dimension(at, id)
    }

    /// True if no other loop moves along a dimension of an argument that this loop moves along. A short loop over the
    /// whole of a small dimension is a loop over data.
    fn spans_dimension(&self, at: usize, id: LoopId) -> bool {
        let write = self.write(at);
        // A loop that begins where another loop stands runs over a part of that loop's dimension.
        let start = &self.facts.loops[id].start;
        if start.symbols().any(|s| self.facts.is_loop(s)) {
            return false;
        }
        let places = write.reads.iter().chain(std::iter::once(&write.target));
        let of_arguments = places.filter(|p| self.facts.origin(p).argument().is_some());
        of_arguments.into_iter().any(|place| {
            let movements: Vec<_> = write
                .stack
                .iter()
                .map(|other| {
                    let symbol = self.facts.loops[*other].symbol;
                    (*other, self.movement(place, symbol))
                })
                .collect();
            let unsure = |(_, m): &(LoopId, Movement)| m.along.iter().any(|(_, steps)| *steps == 0);
            if movements.iter().any(unsure) {
                return false;
            }
            let own = movements.iter().find(|(other, _)| *other == id);
            let alone = |dim: usize| {
                movements
                    .iter()
                    .all(|(other, m)| *other == id || m.along(dim).is_none())
            };
            own.is_some_and(|(_, movement)| movement.dims().any(alone))
        })
    }
}
