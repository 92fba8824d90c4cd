//! How many roundings lie on the way to an element, how its values grow, and what follows for bound and inputs.

use std::collections::BTreeMap;

use flopsmith_problem::Role;

use super::model::{Nest, Term, Update};

/// The largest size of an integer input.
const LARGEST_INTEGER: f64 = 8.0;

/// The facts about a value that are known without running anything.
///
/// Errors are counted in roundings of the same value with absolute numbers and with sums in the place of differences, which is what
/// `magnitude.c` computes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Accuracy {
    /// Roundings that every term meets.
    pub fixed: u32,
    /// Sums that add up on the way: by the sizes of their loops, how many. Errors of n roundings in a sum add up to some of √n.
    pub sums: BTreeMap<Vec<usize>, u32>,
    /// The number of inputs that are multiplied.
    pub degree: u32,
    /// The largest size of the value, for integers.
    pub largest: f64,
}

impl Accuracy {
    fn input() -> Self {
        Self {
            degree: 1,
            largest: LARGEST_INTEGER,
            ..Self::default()
        }
    }

    fn number(text: &str) -> Self {
        Self {
            largest: text.parse().unwrap_or(f64::INFINITY),
            ..Self::default()
        }
    }

    fn rounded(mut self, times: u32) -> Self {
        self.fixed += times;
        self
    }

    /// The sum or the difference of both.
    fn plus(self, other: Self) -> Self {
        let largest = self.largest + other.largest;
        let most = self.or(other);
        Self { largest, ..most }.rounded(1)
    }

    /// The product of both: relative errors add up.
    fn times(mut self, other: Self) -> Self {
        for (sizes, count) in other.sums {
            *self.sums.entry(sizes).or_insert(0) += count;
        }
        Self {
            fixed: self.fixed + other.fixed + 1,
            sums: self.sums,
            degree: self.degree + other.degree,
            largest: self.largest * other.largest,
        }
    }

    /// The facts that hold for either of both.
    pub fn or(mut self, other: Self) -> Self {
        for (sizes, count) in other.sums {
            let known = self.sums.entry(sizes).or_insert(0);
            *known = count.max(*known);
        }
        Self {
            fixed: self.fixed.max(other.fixed),
            sums: self.sums,
            degree: self.degree.max(other.degree),
            largest: self.largest.max(other.largest),
        }
    }
}

/// That of a value; `known` has those of the arrays that earlier statements wrote.
fn of(term: &Term, known: &BTreeMap<usize, Accuracy>) -> Accuracy {
    match term {
        Term::Number(text) => Accuracy::number(text),
        Term::Scalar(_) => Accuracy::default(),
        Term::Read(access) => {
            let written = known.get(&access.array);
            written.cloned().unwrap_or_else(Accuracy::input)
        }
        Term::Plus(a, b) | Term::Minus(a, b) => of(a, known).plus(of(b, known)),
        Term::Times(a, b) => of(a, known).times(of(b, known)),
    }
}

/// The facts that hold for every element of every result.
pub(super) fn of_results(nest: &Nest) -> Accuracy {
    let mut known: BTreeMap<usize, Accuracy> = BTreeMap::new();
    for statement in &nest.statements {
        let mut value = of(&statement.value, &known);
        let summed = statement.summed();
        if !summed.is_empty() {
            let terms: i64 = summed.iter().map(|n| nest.sizes[*n].most).product();
            value.largest *= terms as f64;
            *value.sums.entry(summed).or_insert(0) += 1;
        }
        if statement.whole.is_some() {
            value = value.rounded(1);
        }
        value = match statement.update {
            Update::Set => value,
            Update::Add => value.plus(Accuracy::input()),
            Update::Scale(_) => value.plus(Accuracy::input().rounded(1)),
        };
        known.insert(statement.target.array, value);
    }
    known.into_values().fold(Accuracy::default(), Accuracy::or)
}

/// The most inputs that may be multiplied, so that products of scaled inputs stay within the range of the type: 10^7 to the 4th in
/// single precision, 10^60 to the 4th in double.
const MOST_FACTORS: u32 = 4;
/// Results with fewer elements may be guessed.
const FEWEST_ELEMENTS: i64 = 16;

/// True if the values of the nest stay within the range of their type and its results cannot be guessed.
pub(super) fn is_moderate(nest: &Nest) -> bool {
    let results = of_results(nest);
    let fits = nest.floats() || results.largest < f64::from(i32::MAX);
    let mut written = nest.arrays.iter().filter(|a| a.role != Role::Input);
    let many = written.all(|array| {
        let count = |value: fn(&super::model::Size) -> i64| nest.elements(array, value);
        count(|s| s.even).min(count(|s| s.odd)) >= FEWEST_ELEMENTS
    });
    results.degree <= MOST_FACTORS && fits && many
}
