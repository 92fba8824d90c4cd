//! Integer expressions in subscripts and loop bounds, as polynomials.

use std::collections::BTreeMap;

/// A variable of a polynomial: a loop's variable, a parameter, or an unknown value.
pub(super) type Symbol = u32;

/// Largest number of terms; the walk does not analyse longer expressions.
const MOST_TERMS: usize = 24;

/// A sum of products of symbols with integer coefficients.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Poly(BTreeMap<Vec<Symbol>, i64>);

impl Poly {
    pub fn constant(value: i64) -> Self {
        Poly(if value == 0 {
            BTreeMap::new()
        } else {
            [(Vec::new(), value)].into()
        })
    }

    pub fn symbol(symbol: Symbol) -> Self {
        Poly([(vec![symbol], 1)].into())
    }

    /// The value, if the polynomial contains no symbol.
    pub fn as_constant(&self) -> Option<i64> {
        match self.0.len() {
            0 => Some(0),
            1 => self.0.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&self, other: &Poly) -> Poly {
        let mut sum = self.0.clone();
        for (factors, coefficient) in &other.0 {
            let entry = sum.entry(factors.clone()).or_insert(0);
            *entry = entry.wrapping_add(*coefficient);
            if *entry == 0 {
                sum.remove(factors);
            }
        }
        Self::truncated(sum)
    }

    pub fn negated(&self) -> Poly {
        Poly(
            self.0
                .iter()
                .map(|(f, c)| (f.clone(), c.wrapping_neg()))
                .collect(),
        )
    }

    /// The quotient by a number that divides every coefficient.
    pub fn divided(&self, by: i64) -> Option<Poly> {
        let divide = |(factors, c): (&Vec<Symbol>, &i64)| {
            let quotient = c.checked_div(by)?;
            (c.checked_rem(by) == Some(0)).then(|| (factors.clone(), quotient))
        };
        self.0.iter().map(divide).collect::<Option<_>>().map(Poly)
    }

    pub fn minus(&self, other: &Poly) -> Poly {
        self.add(&other.negated())
    }

    pub fn times(&self, other: &Poly) -> Poly {
        let mut product: BTreeMap<Vec<Symbol>, i64> = BTreeMap::new();
        for (a, x) in &self.0 {
            for (b, y) in &other.0 {
                let mut factors = [a.as_slice(), b.as_slice()].concat();
                factors.sort_unstable();
                let entry = product.entry(factors).or_insert(0);
                *entry = entry.wrapping_add(x.wrapping_mul(*y));
            }
        }
        product.retain(|_, coefficient| *coefficient != 0);
        Self::truncated(product)
    }

    /// Number of terms in the sum.
    pub fn terms(&self) -> usize {
        self.0.len()
    }

    /// The polynomial with other symbols.
    pub fn renamed(&self, by: &BTreeMap<Symbol, Symbol>) -> Poly {
        let mut renamed = Poly::default();
        for (factors, coefficient) in &self.0 {
            let mut factors: Vec<Symbol> = factors
                .iter()
                .map(|f| by.get(f).copied().unwrap_or(*f))
                .collect();
            factors.sort_unstable();
            renamed = renamed.add(&Poly([(factors, *coefficient)].into()));
        }
        renamed
    }

    /// The polynomial with `symbol + by` in the place of `symbol`; none if `symbol` has a power.
    pub fn shifted(&self, symbol: Symbol, by: &Poly) -> Option<Poly> {
        Some(self.add(&self.factor_of(symbol)?.times(by)))
    }

    pub fn contains(&self, symbol: Symbol) -> bool {
        self.0.keys().any(|factors| factors.contains(&symbol))
    }

    pub fn symbols(&self) -> impl Iterator<Item = Symbol> {
        self.0.keys().flatten().copied()
    }

    /// For each term that contains `symbol`, the product of the other factors.
    pub fn cofactors(&self, symbol: Symbol) -> impl Iterator<Item = Vec<Symbol>> {
        self.0.keys().filter_map(move |factors| {
            let at = factors.iter().position(|f| *f == symbol)?;
            let mut rest = factors.clone();
            rest.remove(at);
            Some(rest)
        })
    }

    /// The coefficient of the term `symbol` · `cofactor`.
    pub fn coefficient(&self, symbol: Symbol, cofactor: &[Symbol]) -> i64 {
        let mut factors = cofactor.to_vec();
        factors.push(symbol);
        factors.sort_unstable();
        self.0.get(&factors).copied().unwrap_or(0)
    }

    /// The polynomial that `symbol` is multiplied by; none if a term contains the symbol more than once.
    pub fn factor_of(&self, symbol: Symbol) -> Option<Poly> {
        let mut factor = BTreeMap::new();
        for (factors, coefficient) in &self.0 {
            let Some(at) = factors.iter().position(|f| *f == symbol) else {
                continue;
            };
            let mut rest = factors.clone();
            rest.remove(at);
            if rest.contains(&symbol) {
                return None;
            }
            factor.insert(rest, *coefficient);
        }
        Some(Poly(factor))
    }

    /// The value for given values of the symbols; none if a symbol has no value or the result does not fit.
    pub fn value(&self, of: impl Fn(Symbol) -> Option<i64>) -> Option<i64> {
        self.0
            .iter()
            .try_fold(0_i64, |sum, (factors, coefficient)| {
                let product = factors
                    .iter()
                    .try_fold(*coefficient, |product, f| product.checked_mul(of(*f)?))?;
                sum.checked_add(product)
            })
    }

    /// `self / other` as numerator and denominator, if that is a number other than zero.
    pub fn ratio(&self, other: &Poly) -> Option<(i64, i64)> {
        let (factors, denominator) = other.0.iter().next()?;
        let numerator = self.0.get(factors)?;
        let same = |(factors, mine): (&Vec<Symbol>, &i64)| {
            other.0.get(factors).is_some_and(|theirs| {
                let sides = (
                    mine.checked_mul(*denominator),
                    theirs.checked_mul(*numerator),
                );
                sides.0.is_some() && sides.0 == sides.1
            })
        };
        let alike = self.0.len() == other.0.len() && self.0.iter().all(same);
        alike.then_some((*numerator, *denominator))
    }

    /// Drops terms beyond the limit, so that products in a hostile source cannot exhaust memory.
    fn truncated(mut sum: BTreeMap<Vec<Symbol>, i64>) -> Poly {
        while sum.len() > MOST_TERMS {
            sum.pop_last();
        }
        sum.retain(|factors, _| factors.len() <= 8);
        Poly(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(poly: &Poly, at: &[i64; 3]) -> i64 {
        poly.0
            .iter()
            .map(|(factors, c)| {
                factors
                    .iter()
                    .fold(*c, |product, f| product.wrapping_mul(at[*f as usize]))
            })
            .fold(0, i64::wrapping_add)
    }

    fn polys() -> impl Strategy<Value = Poly> {
        proptest::collection::vec((proptest::collection::vec(0u32..3, 0..2), -9i64..9), 0..4)
            .prop_map(|terms| {
                terms
                    .into_iter()
                    .fold(Poly::default(), |sum, (factors, c)| {
                        let term = factors
                            .iter()
                            .fold(Poly::constant(c), |p, f| p.times(&Poly::symbol(*f)));
                        sum.add(&term)
                    })
            })
    }

    proptest! {
        #[test]
        fn arithmetic_agrees_with_numbers(a in polys(), b in polys(), at: [i16; 3]) {
            let at = at.map(i64::from);
            prop_assert_eq!(value(&a.add(&b), &at), value(&a, &at).wrapping_add(value(&b, &at)));
            prop_assert_eq!(value(&a.times(&b), &at), value(&a, &at).wrapping_mul(value(&b, &at)));
            prop_assert_eq!(a.minus(&a).as_constant(), Some(0));
        }
    }

    #[test]
    fn ratios_compare_distances_with_steps() {
        let (i, n) = (Poly::symbol(0), Poly::symbol(1));
        let row = n.times(&Poly::constant(4));
        assert_eq!(n.ratio(&row), Some((1, 4)));
        assert_eq!(row.ratio(&n), Some((4, 1)));
        assert_eq!(i.ratio(&n), None);
        assert_eq!(n.add(&Poly::constant(1)).ratio(&n), None);
        assert_eq!(Poly::default().ratio(&n), None);
        let index = i.times(&n).add(&i).add(&n);
        assert_eq!(index.factor_of(0), Some(n.add(&Poly::constant(1))));
        assert_eq!(i.times(&i).factor_of(0), None);
        assert_eq!(index.value(|s| [Some(3), Some(10)][s as usize]), Some(43));
        assert_eq!(index.value(|_| None), None);
        assert_eq!(row.divided(2), Some(n.times(&Poly::constant(2))));
        assert_eq!(row.divided(3), None);
        assert_eq!(row.divided(0), None);
    }

    #[test]
    fn cofactors_show_the_stride() {
        let (i, n, k) = (Poly::symbol(0), Poly::symbol(1), Poly::symbol(2));
        let index = i.add(&Poly::constant(1)).times(&n).add(&k);
        assert_eq!(index.cofactors(0).collect::<Vec<_>>(), [vec![1]]);
        assert_eq!(index.cofactors(2).collect::<Vec<_>>(), [Vec::<u32>::new()]);
        assert!(index.contains(1) && !index.contains(7));
    }
}
