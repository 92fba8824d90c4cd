//! The dimensions of arguments: which dimension of an array a loop moves along.
//!
//! A subscript is a polynomial, and its factor of a loop's symbol is the distance that one iteration moves. The distance
//! is compared with the strides of the argument's shape. Both are evaluated at two sets of sizes, so no algebra on the
//! formulas of shapes is needed, and equal values at both mean equal formulas.

use std::collections::BTreeSet;

use flopsmith_problem::{ArgKind, Formula, Params, Problem, Role};

use super::facts::{ArrayId, Facts, Meaning, Place};
use super::poly::{Poly, Symbol};

/// Number of sets of sizes.
const SETS: usize = 2;

/// Primes for the parameters of each set. They are so far apart that no small multiple of one is near another.
const SIZES: [[i64; 6]; SETS] = [
    [1009, 2741, 7919, 641, 4111, 1867],
    [1511, 4507, 853, 3307, 2281, 5903],
];

/// Larger multiples of a stride are no movement that a program would write.
const MOST_STEPS: i64 = 4096;

/// The movement of a place in one iteration of a loop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Movement {
    /// Dimensions with the number of elements along each; 0 for an unknown number.
    pub along: Vec<(usize, i64)>,
}

impl Movement {
    /// The number of elements along a dimension.
    pub fn along(&self, dim: usize) -> Option<i64> {
        self.along.iter().find(|(d, _)| *d == dim).map(|(_, n)| *n)
    }

    pub fn is_none(&self) -> bool {
        self.along.is_empty()
    }

    pub fn dims(&self) -> impl Iterator<Item = usize> + '_ {
        self.along.iter().map(|(dim, _)| *dim)
    }
}

#[derive(Debug, Clone, Copy)]
struct Stride {
    at: [i64; SETS],
    /// The stride at the timed size.
    timed: i64,
}

/// The shapes of the entry's arguments.
#[derive(Debug)]
pub(super) struct Shapes {
    /// For each argument, its values if it is an integer.
    values: Vec<Option<[i64; SETS]>>,
    /// For each argument, the strides of its dimensions, outermost first; empty unless it is an array.
    strides: Vec<Vec<Stride>>,
    /// The argument whose shape flat arrays of the program are taken to have.
    lender: Option<usize>,
}

impl Shapes {
    pub fn of(problem: &Problem) -> Self {
        let sets = SIZES.map(|primes| -> Params {
            let names = problem.timed.keys().cloned();
            names.zip(primes.into_iter().cycle()).collect()
        });
        let mut shapes = Shapes {
            values: Vec::new(),
            strides: Vec::new(),
            lender: None,
        };
        for (position, arg) in problem.entry.args.iter().enumerate() {
            let mut value = None;
            let mut strides = Vec::new();
            if let ArgKind::Int { value: formula } = &arg.kind {
                let [a, b] = [whole(formula, &sets[0]), whole(formula, &sets[1])];
                value = a.zip(b).map(|(a, b)| [a, b]);
            }
            if let ArgKind::Array { role, shape, .. } = &arg.kind {
                strides = strides_of(shape, &sets, &problem.timed);
                let better = |other: usize| strides.len() > shapes.strides[other].len();
                if *role != Role::Input && shapes.lender.is_none_or(better) {
                    shapes.lender = Some(position);
                }
            }
            shapes.values.push(value);
            shapes.strides.push(strides);
        }
        shapes
    }

    /// Number of dimensions of an argument.
    pub fn rank(&self, argument: usize) -> usize {
        self.strides.get(argument).map_or(0, Vec::len)
    }

    /// The dimensions along which the loop of `symbol` moves a place.
    pub fn movement(&self, facts: &Facts, place: &Place, symbol: Symbol) -> Movement {
        let Place::Element(array, index) = place else {
            return Movement::default();
        };
        self.movement_of(facts, *array, index, symbol)
    }

    fn movement_of(
        &self,
        facts: &Facts,
        array: ArrayId,
        index: &[Poly],
        symbol: Symbol,
    ) -> Movement {
        let origin = facts.arrays[array].origin;
        if let [flat] = index {
            let Some(factor) = flat.factor_of(symbol) else {
                return Movement {
                    along: vec![(0, 0)],
                };
            };
            if factor.is_zero() {
                return Movement::default();
            }
            let shape = origin.argument().or(self.lender);
            let strides = shape
                .and_then(|at| self.strides.get(at))
                .map_or(&[][..], Vec::as_slice);
            return Movement {
                along: match factor.as_constant() {
                    Some(distance) => self.split_number(facts, strides, distance, flat),
                    None => self.split_formula(facts, strides, &factor),
                },
            };
        }
        let moved = index.iter().enumerate().filter_map(|(dim, poly)| {
            let factor = poly.factor_of(symbol);
            match factor {
                Some(factor) if factor.is_zero() => None,
                Some(factor) => Some((dim, factor.as_constant().unwrap_or(0))),
                None => Some((dim, 0)),
            }
        });
        Movement {
            along: moved.collect(),
        }
    }

    /// The dimension of a distance that is a number.
    fn split_number(
        &self,
        facts: &Facts,
        strides: &[Stride],
        distance: i64,
        flat: &Poly,
    ) -> Vec<(usize, i64)> {
        // A program for one size may write a stride as a number.
        for (dim, stride) in strides.iter().enumerate() {
            let fixed = stride.at[0] == stride.at[1] && stride.at[0] == stride.timed;
            let least = if fixed { 2 } else { 16 };
            if stride.timed >= least
                && distance % stride.timed == 0
                && (fixed || !self.has_formula(facts, strides, dim, flat))
            {
                return vec![(dim, distance / stride.timed)];
            }
        }
        vec![(strides.len().saturating_sub(1), distance)]
    }

    /// True if a subscript has the stride of a dimension as a formula of arguments.
    fn has_formula(&self, facts: &Facts, strides: &[Stride], dim: usize, flat: &Poly) -> bool {
        let loops: BTreeSet<Symbol> = flat.symbols().filter(|s| facts.is_loop(*s)).collect();
        loops.into_iter().any(|symbol| {
            let factor = flat.factor_of(symbol);
            let formula = factor.filter(|f| f.as_constant().is_none());
            formula.is_some_and(|f| {
                let along = self.split_formula(facts, strides, &f);
                along.iter().any(|(d, steps)| *d == dim && *steps != 0)
            })
        })
    }

    /// Splits a distance in elements, a formula of arguments, into distances along dimensions.
    fn split_formula(&self, facts: &Facts, strides: &[Stride], factor: &Poly) -> Vec<(usize, i64)> {
        let at = |set: usize| {
            factor.value(|symbol| match facts.meanings[symbol as usize] {
                Meaning::Argument(position) => self.values.get(position)?.map(|v| v[set]),
                Meaning::Loop | Meaning::Unknown => None,
            })
        };
        // An unknown distance is a long one.
        let unknown = vec![(0, 0)];
        let (Some(mut first), Some(mut second)) = (at(0), at(1)) else {
            return unknown;
        };
        let mut along = Vec::new();
        for (dim, stride) in strides.iter().enumerate() {
            let steps = nearest(first, stride.at[0]);
            if steps != nearest(second, stride.at[1]) || steps.abs() > MOST_STEPS {
                continue;
            }
            if steps != 0 {
                along.push((dim, steps));
                first -= steps * stride.at[0];
                second -= steps * stride.at[1];
            }
        }
        if first == 0 && second == 0 && !along.is_empty() {
            along
        } else {
            unknown
        }
    }
}

/// The multiple of `stride` that is nearest to `distance`.
fn nearest(distance: i64, stride: i64) -> i64 {
    if stride == 0 {
        return 0;
    }
    let half = stride.abs() / 2;
    distance.saturating_add(half * distance.signum()) / stride
}

fn whole(formula: &Formula, params: &Params) -> Option<i64> {
    let value = formula.value(params).ok()?;
    let fits = value.fract() == 0.0 && value.abs() < 1e15;
    // The range was checked in the line above.
    fits.then_some(value as i64)
}

fn strides_of(shape: &[Formula], sets: &[Params; SETS], timed: &Params) -> Vec<Stride> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut next = Some(Stride {
        at: [1; SETS],
        timed: 1,
    });
    for extent in shape.iter().rev() {
        let Some(stride) = next else {
            // An extent without a value hides the strides of the dimensions outside of it.
            return Vec::new();
        };
        strides.push(stride);
        let times = |by: Option<i64>, stride: i64| by?.checked_mul(stride);
        next = times(whole(extent, &sets[0]), stride.at[0])
            .zip(times(whole(extent, &sets[1]), stride.at[1]))
            .zip(times(whole(extent, timed), stride.timed))
            .map(|((a, b), timed)| Stride { at: [a, b], timed });
    }
    strides.reverse();
    strides
}
