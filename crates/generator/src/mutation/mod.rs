//! Mutations of a user's own program: small changes of its text that keep its idea.
//!
//! A mutation changes a number that acts as the size of a tile, of a step, of an array or of a vector to a number near it; it puts a
//! hint to the compiler in front of a loop or takes one off; it removes a prefetch; or it exchanges two loops of which one is
//! directly in the other. Comments and texts stay as they are. Programs in Fortran have mutations of numbers alone, and modules in
//! Python none. Nothing here knows whether a mutant is right: it is a candidate as any other.
//!
//! Exploration samples of a policy mutate number tokens of a model's vocabulary, and the policy writes the rest
//! (`actors::source::policy`). They share no code with this module, which changes a text and keeps the rest of it.

mod lex;
mod loops;
mod numbers;

use std::ops::Range;

use flopsmith_problem::Language;
use flopsmith_protocol::TechniqueSet;
use rand::Rng;

use lex::Tokens;
use loops::{Hint, Order};
use numbers::Size;

/// Odds of numbers, of hints and prefetches, and of the order of loops.
const ODDS: [u32; 3] = [7, 2, 1];
/// Share of the mutants with two changes.
const TWO: f64 = 0.25;
/// Share of the changes of a number that change all equal numbers of the same use with it: a tile size that is written as a number
/// stands in several heads.
const ALIKE: f64 = 0.5;

/// A replacement of some bytes of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The first byte.
    pub start: usize,
    /// The byte behind the last one; equal to `start` for an insertion.
    pub end: usize,
    /// The text in their place.
    pub text: String,
}

impl Edit {
    fn of(range: Range<usize>, text: String) -> Self {
        Self {
            start: range.start,
            end: range.end,
            text,
        }
    }

    /// True if the two edits have no byte and no edge in common.
    fn is_apart(&self, other: &Self) -> bool {
        self.end < other.start || other.end < self.start
    }
}

/// A mutant of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// Its text.
    pub text: String,
    /// The edits that made it, in the order of the source. They do not overlap.
    pub edits: Vec<Edit>,
}

/// A program with the places that mutations can change.
#[derive(Debug, Clone)]
pub struct Mutable<'a> {
    source: &'a str,
    sizes: Vec<Size>,
    hints: Vec<Hint>,
    orders: Vec<Order>,
}

impl<'a> Mutable<'a> {
    /// Looks for the places that can be changed within the permitted techniques.
    pub fn of(source: &'a str, language: Language, permitted: TechniqueSet) -> Self {
        let tokens = Tokens::of(source, language);
        let (sizes, hints, orders) = match language {
            Language::C | Language::Cxx => (
                numbers::of_c(&tokens),
                loops::hints(&tokens, permitted),
                loops::orders(&tokens, permitted),
            ),
            Language::Fortran | Language::Fortran77 => {
                (numbers::of_fortran(&tokens), Vec::new(), Vec::new())
            }
            Language::Python => Default::default(),
        };
        Self {
            source,
            sizes,
            hints,
            orders,
        }
    }

    /// True if there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty() && self.hints.is_empty() && self.orders.is_empty()
    }

    /// A program with one or two changes; none if there is nothing to change.
    pub fn mutant(&self, rng: &mut impl Rng) -> Option<Mutant> {
        let mut edits = self.change(rng)?;
        if rng.random_bool(TWO)
            && let Some(more) = self.change(rng)
            && more
                .iter()
                .all(|one| edits.iter().all(|other| one.is_apart(other)))
        {
            edits.extend(more);
        }
        edits.sort_by_key(|edit| edit.start);
        let mut text = String::with_capacity(self.source.len() + 64);
        let mut at = 0;
        for edit in &edits {
            text.push_str(&self.source[at..edit.start]);
            text.push_str(&edit.text);
            at = edit.end;
        }
        text.push_str(&self.source[at..]);
        (text != self.source).then_some(Mutant { text, edits })
    }

    /// One change.
    fn change(&self, rng: &mut impl Rng) -> Option<Vec<Edit>> {
        let counts = [self.sizes.len(), self.hints.len(), self.orders.len()];
        let odds = [0, 1, 2].map(|kind: usize| ODDS[kind] * u32::from(counts[kind] > 0));
        let all: u32 = odds.iter().sum();
        if all == 0 {
            return None;
        }
        let drawn = rng.random_range(0..all);
        if drawn < odds[0] {
            return self.number(rng);
        }
        if drawn < odds[0] + odds[1] {
            let hint = &self.hints[rng.random_range(0..counts[1])];
            return Some(vec![hint.edit(self.source, rng)]);
        }
        let order = &self.orders[rng.random_range(0..counts[2])];
        Some(order.edits(self.source))
    }

    /// A change of a number, or of all numbers that are equal to it and used alike.
    fn number(&self, rng: &mut impl Rng) -> Option<Vec<Edit>> {
        let chosen = self.sizes.get(rng.random_range(0..self.sizes.len()))?;
        let other = chosen.neighbour(rng)?.to_string();
        let all = rng.random_bool(ALIKE);
        let is_changed = |size: &&Size| {
            size.start == chosen.start
                || (all && size.value == chosen.value && size.role == chosen.role)
        };
        let changed = self.sizes.iter().filter(is_changed);
        let edits = changed.map(|size| Edit::of(size.start..size.end, other.clone()));
        Some(edits.collect())
    }
}

#[cfg(test)]
mod tests;
