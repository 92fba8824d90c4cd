//! The values that statements compute.

use flopsmith_problem::Role;
use rand::Rng;
use rand::seq::SliceRandom;

use super::super::model::{Access, Extent, Loop, More, Plus, Size, Subscript, Term};
use super::{Draw, pick};

impl<R: Rng> Draw<'_, R> {
    /// A value of elements at the same place.
    pub(super) fn elementwise(&mut self, loops: &[Loop], shares: bool) -> Term {
        let most = if self.several { 2 } else { 3 };
        let count = self.rng.random_range(1..=most);
        let mut terms = Vec::new();
        for read in reads(self.factors(loops, count, shares)) {
            terms.push(match self.chance(0.35) {
                true => self.scaled(read),
                false => read,
            });
        }
        let mut value = folded(terms, |before, term| {
            match pick(self.rng, [(4, '+'), (3, '-'), (3, '*')]) {
                '+' => before.plus(term),
                '-' => before.minus(term),
                _ => before.times(term),
            }
        });
        if value.operations() == 0 {
            value = self.scaled(value);
        }
        value
    }

    /// The value that is summed up.
    pub(super) fn summed(&mut self, loops: &[Loop], sums: usize) -> Term {
        let forms = [(6, "product"), (2, "two"), (2, "distance"), (1, "mixed")];
        let form = pick(self.rng, forms);
        match form {
            "two" if !self.several => {
                let mut all = reads(self.factors(loops, 4, false));
                let others = all.split_off(all.len() / 2);
                folded(all, Term::times).plus(folded(others, Term::times))
            }
            "distance" => {
                let mut pair = reads(self.factors(loops, 2, false));
                let others = pair.split_off(pair.len().min(2));
                let distance = folded(pair, Term::minus);
                let square = distance.clone().times(distance);
                others.into_iter().fold(square, Term::times)
            }
            "mixed" if !self.several => {
                let mut pair = reads(self.factors(loops, 3, false));
                let others = pair.split_off(pair.len().min(2));
                others
                    .into_iter()
                    .fold(folded(pair, Term::plus), Term::times)
            }
            _ => {
                let most = if self.several { 2 } else { 3 };
                let count = pick(self.rng, [(2, 1), (7, 2), (2, most)]);
                let factors = self.factors(loops, count, false);
                if factors.len() == 2 {
                    self.mark_product(loops, sums, &factors);
                }
                folded(reads(factors), Term::times)
            }
        }
    }

    /// Marks a factor of a matrix product whose rows are rows of the result.
    fn mark_product(&mut self, loops: &[Loop], sums: usize, factors: &[Access]) {
        if loops.len() != 3 || sums != 1 || !self.nest.floats() {
            return;
        }
        let fits = |factor: &&Access| {
            let rows = factor.subscripts.first().map(|s| s.over);
            factor.subscripts.len() == 2 && rows != Some(2) && factor.moves(2)
        };
        if let Some(factor) = factors.iter().find(fits) {
            let array = &mut self.nest.arrays[factor.array];
            array.graded = array.role == Role::Input;
        }
    }

    /// A value of neighbours in a new input, whose halo has the neighbours of the first and the last elements.
    pub(super) fn stencil(&mut self, loops: &[Loop]) -> Term {
        let count = loops.len();
        let mut along: Vec<usize> = (0..count).collect();
        along.retain(|_| self.rng.random_bool(0.7));
        if along.is_empty() {
            along.push(count - 1);
        }
        let mut order: Vec<usize> = (0..count).collect();
        if self.chance(0.15) {
            order.shuffle(self.rng);
        }
        let extents = order.iter().map(|l| Extent {
            size: loops[*l].size,
            more: match along.contains(l) {
                true => More::Halo,
                false => More::Nothing,
            },
        });
        let array = self.new_array(Role::Input, extents.collect());
        let point = |moved: Option<(usize, i64)>| {
            let subscripts = order.iter().map(|l| {
                let by = match moved {
                    Some((which, by)) if which == *l => by,
                    _ => 1,
                };
                Subscript {
                    over: *l,
                    plus: match (along.contains(l), by) {
                        (false, _) | (true, 0) => Plus::Nothing,
                        (true, by) => Plus::Number(by),
                    },
                }
            });
            Term::Read(Access {
                array,
                subscripts: subscripts.collect(),
            })
        };
        let mut around = Vec::new();
        for l in &along {
            let (before, behind) = (point(Some((*l, 0))), point(Some((*l, 2))));
            match pick(self.rng, [(8, 0), (1, 1), (1, 2)]) {
                0 => around.extend([before, behind]),
                1 => around.push(before),
                _ => around.push(behind),
            }
        }
        let center = point(None);
        let value = self.combined(center, around);
        if !self.chance(0.3) {
            return value;
        }
        let every: Vec<usize> = (0..count).collect();
        let chained = self.chained(loops, false);
        let other = chained.unwrap_or_else(|| self.access(loops, &every, &[], false));
        match pick(self.rng, [(2, true), (1, false)]) {
            true => value.plus(Term::Read(other)),
            false => Term::Read(other).times(value),
        }
    }

    /// The points of a stencil in one value.
    fn combined(&mut self, center: Term, around: Vec<Term>) -> Term {
        let all = |center: Term, around: Vec<Term>| around.into_iter().chain([center]);
        match pick(self.rng, [(3, 0), (4, 1), (2, 2), (1, 3)]) {
            0 => {
                let weighted: Vec<Term> = all(center, around).map(|p| self.scaled(p)).collect();
                folded(weighted, Term::plus)
            }
            1 => {
                let (inner, outer) = (self.number(), self.number());
                let sum = folded(around, Term::plus);
                inner.times(center).plus(outer.times(sum))
            }
            2 => self.scaled(folded(all(center, around), Term::plus)),
            _ => self.scaled(around.into_iter().fold(center, Term::minus)),
        }
    }

    /// Products with the elements of a window that begins at an element of an input.
    pub(super) fn windowed(&mut self, loops: &mut Vec<Loop>) -> Term {
        let outer = loops.len();
        let known = self.nest.sizes.iter().position(|s| s.window);
        let size = known.unwrap_or_else(|| {
            self.nest.sizes.push(Size::new(self.window, true));
            self.nest.sizes.len() - 1
        });
        loops.push(Loop { size, up_to: None });
        let along = self.rng.random_range(0..outer);
        let extents = (0..outer).map(|l| Extent {
            size: loops[l].size,
            more: match l == along {
                true => More::Window(size),
                false => More::Nothing,
            },
        });
        let array = self.new_array(Role::Input, extents.collect());
        let subscripts = (0..outer).map(|l| Subscript {
            over: l,
            plus: match l == along {
                true => Plus::Loop(outer),
                false => Plus::Nothing,
            },
        });
        let image = Access {
            array,
            subscripts: subscripts.collect(),
        };
        let mut which: Vec<usize> = (0..outer).filter(|l| *l != along).collect();
        which.retain(|_| self.rng.random_bool(0.4));
        which.push(outer);
        let weight = self.access(loops, &which, &[], false);
        Term::Read(weight).times(Term::Read(image))
    }
}

fn reads(all: Vec<Access>) -> Vec<Term> {
    all.into_iter().map(Term::Read).collect()
}

/// The values combined from the left; 1 for none.
fn folded(all: impl IntoIterator<Item = Term>, combine: impl FnMut(Term, Term) -> Term) -> Term {
    let value = all.into_iter().reduce(combine);
    value.unwrap_or(Term::Number("1"))
}
