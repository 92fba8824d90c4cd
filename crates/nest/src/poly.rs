//! Polynomials over integer variables: subscripts as C spells them, `i * n + j`.

use std::collections::BTreeMap;

use crate::affine::{Affine, Var};

/// Longer sums than this are not analysed.
const MOST_TERMS: usize = 64;

/// Σ coefficient · product of variables.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Poly(BTreeMap<Vec<Var>, i64>);

impl Poly {
    /// A number.
    pub fn constant(value: i64) -> Self {
        let mut terms = BTreeMap::new();
        if value != 0 {
            terms.insert(Vec::new(), value);
        }
        Self(terms)
    }

    /// A variable.
    pub fn var(var: Var) -> Self {
        Self(BTreeMap::from([(vec![var], 1)]))
    }

    /// The polynomial of an affine expression.
    pub fn of(affine: &Affine) -> Self {
        let terms = affine
            .terms()
            .map(|(var, factor)| Self::var(var).scaled(factor));
        terms.fold(Self::constant(affine.constant), |sum, term| sum.plus(&term))
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.0.clone();
        for (product, factor) in &other.0 {
            let entry = sum.entry(product.clone()).or_insert(0);
            *entry = entry.saturating_add(*factor);
        }
        sum.retain(|_, factor| *factor != 0);
        Self(sum)
    }

    /// The polynomial times a number.
    #[must_use]
    pub fn scaled(&self, by: i64) -> Self {
        self.times(&Self::constant(by)).unwrap_or_default()
    }

    /// The difference of both.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.plus(&other.scaled(-1))
    }

    /// The product of both; none if it is too long.
    pub fn times(&self, other: &Self) -> Option<Self> {
        let mut product: BTreeMap<Vec<Var>, i64> = BTreeMap::new();
        if self.0.len() * other.0.len() > MOST_TERMS {
            return None;
        }
        for (a, x) in &self.0 {
            for (b, y) in &other.0 {
                let mut vars = [a.as_slice(), b.as_slice()].concat();
                vars.sort_unstable();
                let entry = product.entry(vars).or_insert(0);
                *entry = entry.saturating_add(x.saturating_mul(*y));
            }
        }
        product.retain(|_, factor| *factor != 0);
        Some(Self(product))
    }

    /// The affine expression that it is; none if a term has two variables or more.
    pub fn as_affine(&self) -> Option<Affine> {
        let mut sum = Affine::default();
        for (product, factor) in &self.0 {
            sum = match product.as_slice() {
                [] => sum.offset(*factor),
                [var] => sum.plus_times(*factor, &Affine::var(*var)),
                _ => return None,
            };
        }
        Some(sum)
    }

    /// The number that it is, if no variable occurs.
    pub fn as_constant(&self) -> Option<i64> {
        self.as_affine()
            .filter(Affine::is_constant)
            .map(|a| a.constant)
    }

    /// The polynomial with every variable replaced where `value` gives one; none if the result is too long.
    pub fn replaced(&self, value: &impl Fn(Var) -> Option<Poly>) -> Option<Self> {
        let mut sum = Self::default();
        for (product, factor) in &self.0 {
            let mut term = Self::constant(*factor);
            for var in product {
                term = term.times(&value(*var).unwrap_or_else(|| Self::var(*var)))?;
            }
            sum = sum.plus(&term);
        }
        Some(sum)
    }

    /// Quotient and remainder of a division by `stride`, a product of extents: no term of the remainder has the leading product of the
    /// stride as a factor.
    pub fn divided(&self, stride: &Self) -> Option<(Self, Self)> {
        let leading = stride.0.iter().max_by_key(|(product, _)| product.len());
        let (leading, factor) = leading?;
        if leading.is_empty() {
            // A stride of 1; others than 1 would need a remainder of numbers.
            return (*factor == 1 && stride.0.len() == 1).then(|| (self.clone(), Self::default()));
        }
        let (mut quotient, mut rest) = (Self::default(), self.clone());
        for _ in 0..MOST_TERMS {
            let next = rest.0.iter().find_map(|(product, c)| {
                let left = without(product, leading)?;
                (c % factor == 0).then(|| (left, c / factor))
            });
            let Some((vars, c)) = next else {
                return Some((quotient, rest));
            };
            let term = Self(BTreeMap::from([(vars, c)]));
            quotient = quotient.plus(&term);
            rest = rest.minus(&term.times(stride)?);
        }
        None
    }

    /// The products of variables.
    pub fn products(&self) -> impl Iterator<Item = &[Var]> {
        self.0.keys().map(Vec::as_slice)
    }

    /// Products of variables with their factors.
    pub fn terms(&self) -> impl Iterator<Item = (&[Var], i64)> {
        self.0
            .iter()
            .map(|(product, factor)| (product.as_slice(), *factor))
    }

    /// The value where `of` gives that of each variable.
    pub fn value(&self, of: &impl Fn(Var) -> i64) -> i64 {
        let terms = self
            .terms()
            .map(|(vars, factor)| factor * vars.iter().map(|v| of(*v)).product::<i64>());
        terms.sum()
    }
}

/// The factors of `product` besides those of `divisor`; none if it lacks one of them.
fn without(product: &[Var], divisor: &[Var]) -> Option<Vec<Var>> {
    let mut rest = product.to_vec();
    for var in divisor {
        let at = rest.iter().position(|v| v == var)?;
        rest.remove(at);
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn subscripts_fall_into_rows_and_columns() {
        let (i, j, n) = (Poly::var(0), Poly::var(1), Poly::var(2));
        let wide = n.plus(&Poly::constant(1));
        let index = i.times(&wide).map(|p| p.plus(&j)).expect("short");
        let (row, column) = index.divided(&wide).expect("a division");
        assert_eq!((row, column), (i, j));
    }

    proptest! {
        #[test]
        fn quotient_and_remainder_give_the_dividend(
            factors in proptest::collection::vec((proptest::collection::vec(0u32..4, 0..3), -5i64..5), 0..5),
            more in 0i64..3,
            at in proptest::collection::vec(-7i64..7, 4),
        ) {
            let dividend = factors.iter().fold(Poly::default(), |sum, (vars, c)| {
                let term = vars.iter().fold(Poly::constant(*c), |p, v| p.times(&Poly::var(*v)).expect("short"));
                sum.plus(&term)
            });
            let stride = Poly::var(3).plus(&Poly::constant(more));
            if let Some((quotient, rest)) = dividend.divided(&stride) {
                let of = |var: Var| at[var as usize];
                prop_assert_eq!(quotient.value(&of) * stride.value(&of) + rest.value(&of), dividend.value(&of));
                prop_assert!(rest.products().all(|p| !p.contains(&3)));
            }
        }
    }
}
