//! Affine expressions over integer variables, and systems of affine constraints.
//!
//! Systems are decided by Fourier–Motzkin elimination (Schrijver, "Theory of Linear and Integer Programming", 1986, section 12.2) with
//! rounding of constants towards the integers. The answers err on one side: [`System::is_empty`] may miss that a system without integer
//! solutions is empty, and never calls a system empty that has one.

use std::collections::{BTreeMap, BTreeSet};

/// A variable: a parameter, an iterator, or a coordinate of a schedule.
pub type Var = u32;

/// Most constraints that an elimination may produce. Beyond it the system counts as not empty.
const MOST_CONSTRAINTS: usize = 1200;

/// Σ coefficient · variable + constant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Affine {
    /// In ascending order of their variables, and none with 0. Expressions are short and made by the million.
    terms: Vec<(Var, i64)>,
    /// The constant.
    pub constant: i64,
}

impl Affine {
    /// A constant.
    pub fn constant(constant: i64) -> Self {
        Self {
            terms: Vec::new(),
            constant,
        }
    }

    /// A variable.
    pub fn var(var: Var) -> Self {
        Self {
            terms: vec![(var, 1)],
            constant: 0,
        }
    }

    /// The coefficient of `var`, 0 if it does not occur.
    pub fn of(&self, var: Var) -> i64 {
        let mut terms = self.terms();
        terms
            .find(|(own, _)| *own == var)
            .map_or(0, |(_, coefficient)| coefficient)
    }

    /// The variables with their coefficients, none of which is 0.
    pub fn terms(&self) -> impl Iterator<Item = (Var, i64)> + '_ {
        self.terms.iter().copied()
    }

    /// True if no variable occurs.
    pub fn is_constant(&self) -> bool {
        self.terms.is_empty()
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.plus_times(1, other)
    }

    /// The difference of both.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.plus_times(-1, other)
    }

    /// `self + factor · other`.
    #[must_use]
    pub fn plus_times(&self, factor: i64, other: &Self) -> Self {
        Self::combined(1, self, factor, other)
    }

    /// `a · left + b · right`.
    fn combined(a: i64, left: &Self, b: i64, right: &Self) -> Self {
        let mut terms = Vec::with_capacity(left.terms.len() + right.terms.len());
        let mut add = |var, coefficient| {
            if coefficient != 0 {
                terms.push((var, coefficient));
            }
        };
        let mut lefts = left.terms().peekable();
        for (var, coefficient) in right.terms() {
            while let Some((before, own)) = lefts.next_if(|(own, _)| *own < var) {
                add(before, a.saturating_mul(own));
            }
            let own = lefts.next_if(|(own, _)| *own == var);
            let own = own.map_or(0, |(_, own)| a.saturating_mul(own));
            add(var, own.saturating_add(b.saturating_mul(coefficient)));
        }
        for (var, own) in lefts {
            add(var, a.saturating_mul(own));
        }
        let constant = a.saturating_mul(left.constant);
        Self {
            terms,
            constant: constant.saturating_add(b.saturating_mul(right.constant)),
        }
    }

    /// The expression without the term of `var`.
    fn leaving_out(mut self, var: Var) -> Self {
        self.terms.retain(|(own, _)| *own != var);
        self
    }

    /// The greatest common divisor of the coefficients; 0 if there are none.
    fn divisor(&self) -> i64 {
        self.terms().fold(0, |g, (_, c)| gcd(g, c.abs()))
    }

    /// `factor` times the expression.
    #[must_use]
    pub fn times(&self, factor: i64) -> Self {
        Self::default().plus_times(factor, self)
    }

    /// The expression plus a number.
    #[must_use]
    pub fn offset(&self, by: i64) -> Self {
        Self {
            terms: self.terms.clone(),
            constant: self.constant.saturating_add(by),
        }
    }

    /// The expression with `value` in the place of `var`.
    #[must_use]
    pub fn with(&self, var: Var, value: &Self) -> Self {
        let factor = self.of(var);
        if factor == 0 {
            return self.clone();
        }
        self.clone().leaving_out(var).plus_times(factor, value)
    }

    /// The expression with every variable replaced where `value` gives one.
    #[must_use]
    pub fn replaced(&self, value: &impl Fn(Var) -> Option<Affine>) -> Self {
        let mut sum = Self::constant(self.constant);
        for (var, coefficient) in self.terms() {
            let value = value(var).unwrap_or_else(|| Self::var(var));
            sum = sum.plus_times(coefficient, &value);
        }
        sum
    }

    /// The value where `of` gives that of each variable.
    pub fn value(&self, of: &impl Fn(Var) -> i64) -> i64 {
        let products = self.terms().map(|(var, coefficient)| coefficient * of(var));
        products.sum::<i64>() + self.constant
    }

    /// Divides by the greatest common divisor of the coefficients and rounds the constant down: as good for integers where the
    /// expression is at least 0.
    fn tightened(mut self) -> Self {
        let divisor = self.divisor();
        if divisor > 1 {
            for (_, coefficient) in &mut self.terms {
                *coefficient /= divisor;
            }
            self.constant = self.constant.div_euclid(divisor);
        }
        self
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// One side of the range of a variable: `value / divisor`, rounded towards the inside of the range.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bound {
    /// The dividend.
    pub value: Affine,
    /// The divisor, at least 1.
    pub divisor: i64,
}

/// The range of a variable: it is at least every lower bound and at most every upper bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Range {
    /// Lower bounds, rounded up.
    pub lower: Vec<Bound>,
    /// Upper bounds, rounded down. They belong to the range.
    pub upper: Vec<Bound>,
}

/// A conjunction of constraints: expressions that are at least 0, and expressions that are 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct System {
    at_least_zero: Vec<Affine>,
    zero: Vec<Affine>,
}

impl System {
    /// Without constraints.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `expression >= 0`.
    pub fn at_least_zero(&mut self, expression: Affine) {
        self.at_least_zero.push(expression);
    }

    /// Adds `a <= b`.
    pub fn at_most(&mut self, a: &Affine, b: &Affine) {
        self.at_least_zero.push(b.minus(a));
    }

    /// Adds `a < b`.
    pub fn less(&mut self, a: &Affine, b: &Affine) {
        self.at_least_zero.push(b.minus(a).offset(-1));
    }

    /// Adds `a == b`.
    pub fn equal(&mut self, a: &Affine, b: &Affine) {
        self.zero.push(a.minus(b));
    }

    /// Adds all constraints of `other`.
    pub fn and(&mut self, other: &System) {
        self.at_least_zero
            .extend(other.at_least_zero.iter().cloned());
        self.zero.extend(other.zero.iter().cloned());
    }

    /// The constraints as expressions that are at least 0; an equation gives two.
    pub fn inequalities(&self) -> Vec<Affine> {
        let pairs = self.zero.iter().flat_map(|e| [e.clone(), e.times(-1)]);
        self.at_least_zero.iter().cloned().chain(pairs).collect()
    }

    /// The system with every variable replaced where `value` gives one.
    #[must_use]
    pub fn replaced(&self, value: &impl Fn(Var) -> Option<Affine>) -> Self {
        let replaced = |all: &[Affine]| all.iter().map(|e| e.replaced(value)).collect();
        Self {
            at_least_zero: replaced(&self.at_least_zero),
            zero: replaced(&self.zero),
        }
    }

    /// The variables that occur.
    pub fn vars(&self) -> BTreeSet<Var> {
        let all = self.at_least_zero.iter().chain(&self.zero);
        all.flat_map(|e| e.terms().map(|(var, _)| var)).collect()
    }

    /// True if every constraint holds where `of` gives the value of each variable.
    #[cfg(test)]
    fn holds(&self, of: &impl Fn(Var) -> i64) -> bool {
        self.at_least_zero.iter().all(|e| e.value(of) >= 0)
            && self.zero.iter().all(|e| e.value(of) == 0)
    }

    /// True only if there is no solution in integers.
    pub fn is_empty(&self) -> bool {
        self.clone().has_no_solution()
    }

    fn has_no_solution(self) -> bool {
        let Some(mut system) = self.simplified() else {
            return true;
        };
        loop {
            // The variable whose elimination adds the fewest constraints.
            let costs = system.costs().into_iter();
            let Some((next, _)) = costs.min_by_key(|(_, cost)| *cost) else {
                return false;
            };
            match system.without(next) {
                Eliminated::Empty => return true,
                Eliminated::TooLarge => return false,
                Eliminated::System(rest) => system = rest,
            }
        }
    }

    /// True only if `expression >= 0` holds for all solutions in integers.
    pub fn implies(&self, expression: &Affine) -> bool {
        let mut negated = self.clone();
        negated.at_least_zero(expression.times(-1).offset(-1));
        negated.has_no_solution()
    }

    /// The projection along `vars`: what the constraints say about all other variables. None if that takes too many constraints.
    pub fn projected(&self, vars: impl IntoIterator<Item = Var>) -> Option<System> {
        let mut left: BTreeSet<Var> = vars.into_iter().collect();
        let Some(mut system) = self.clone().simplified() else {
            return Some(Self::never());
        };
        while let Some(next) = left.iter().copied().min_by_key(|var| system.cost(*var)) {
            left.remove(&next);
            match system.without(next) {
                Eliminated::Empty => return Some(Self::never()),
                Eliminated::TooLarge => return None,
                Eliminated::System(rest) => system = rest,
            }
        }
        Some(system)
    }

    /// A system without a solution.
    fn never() -> Self {
        Self {
            at_least_zero: vec![Affine::constant(-1)],
            zero: Vec::new(),
        }
    }

    /// The range of `var` by the constraints in which it occurs.
    pub fn range(&self, var: Var) -> Range {
        let mut range = Range::default();
        for expression in self.inequalities() {
            let coefficient = expression.of(var);
            let rest = expression.leaving_out(var);
            if coefficient > 0 {
                // coefficient · var + rest >= 0
                range.lower.push(Bound {
                    value: rest.times(-1),
                    divisor: coefficient,
                });
            } else if coefficient < 0 {
                range.upper.push(Bound {
                    value: rest,
                    divisor: -coefficient,
                });
            }
        }
        for side in [&mut range.lower, &mut range.upper] {
            side.sort();
            side.dedup();
        }
        range
    }

    /// Without the constraints that the others and `context` imply.
    #[must_use]
    pub fn irredundant(&self, context: &System) -> System {
        let mut kept: Vec<Affine> = self.inequalities();
        kept.sort();
        kept.dedup();
        let mut n = 0;
        while n < kept.len() {
            let mut others = context.clone();
            let rest = kept.iter().enumerate().filter(|(m, _)| *m != n);
            others.at_least_zero.extend(rest.map(|(_, e)| e.clone()));
            if others.implies(&kept[n]) {
                kept.remove(n);
            } else {
                n += 1;
            }
        }
        System {
            at_least_zero: kept,
            zero: Vec::new(),
        }
    }

    /// Tightens and removes duplicates; none if a constraint can hold nowhere.
    fn simplified(self) -> Option<System> {
        let mut at_least_zero = Vec::with_capacity(self.at_least_zero.len());
        for expression in self.at_least_zero {
            let expression = expression.tightened();
            if !expression.is_constant() {
                at_least_zero.push(expression);
            } else if expression.constant < 0 {
                return None;
            }
        }
        // Of several with the same terms, the first has the least constant and implies the others.
        at_least_zero.sort_unstable();
        at_least_zero.dedup_by(|next, first| next.terms == first.terms);
        let mut zero = Vec::with_capacity(self.zero.len());
        for mut expression in self.zero {
            let divisor = expression.divisor();
            if divisor == 0 {
                if expression.constant != 0 {
                    return None;
                }
                continue;
            }
            if expression.constant % divisor != 0 {
                return None;
            }
            for (_, coefficient) in &mut expression.terms {
                *coefficient /= divisor;
            }
            expression.constant /= divisor;
            if !zero.contains(&expression) {
                zero.push(expression);
            }
        }
        Some(System {
            at_least_zero,
            zero,
        })
    }

    /// The [`cost`](Self::cost) of each variable that occurs, in ascending order of the variables.
    fn costs(&self) -> BTreeMap<Var, usize> {
        let mut counts: BTreeMap<Var, (usize, usize)> = BTreeMap::new();
        for (var, coefficient) in self
            .at_least_zero
            .iter()
            .chain(&self.zero)
            .flat_map(Affine::terms)
        {
            let (lower, upper) = counts.entry(var).or_default();
            *lower += usize::from(coefficient > 0);
            *upper += usize::from(coefficient < 0);
        }
        let mut costs: BTreeMap<Var, usize> = counts
            .into_iter()
            .map(|(var, (lower, upper))| (var, 1 + lower * upper))
            .collect();
        for (var, coefficient) in self.zero.iter().flat_map(Affine::terms) {
            if coefficient.abs() == 1 {
                costs.insert(var, 0);
            }
        }
        costs
    }

    /// Estimates how many constraints the elimination of `var` leaves in its place.
    fn cost(&self, var: Var) -> usize {
        if self.zero.iter().any(|e| e.of(var).abs() == 1) {
            return 0;
        }
        let (mut lower, mut upper) = (0usize, 0usize);
        for expression in self.at_least_zero.iter().chain(&self.zero) {
            lower += usize::from(expression.of(var) > 0);
            upper += usize::from(expression.of(var) < 0);
        }
        1 + lower * upper
    }

    /// Eliminates `var`.
    fn without(mut self, var: Var) -> Eliminated {
        // An equation with a unit coefficient gives the value of the variable.
        let unit = self.zero.iter().position(|e| e.of(var).abs() == 1);
        if let Some(at) = unit {
            let equation = self.zero.remove(at);
            let sign = equation.of(var);
            let value = equation.leaving_out(var).times(-sign);
            for expression in self.at_least_zero.iter_mut().chain(&mut self.zero) {
                if expression.of(var) != 0 {
                    *expression = expression.with(var, &value);
                }
            }
            return self
                .simplified()
                .map_or(Eliminated::Empty, Eliminated::System);
        }
        let mut rest = System::default();
        let (mut lower, mut upper) = (Vec::new(), Vec::new());
        let mut sort = |expression: Affine| match expression.of(var) {
            0 => rest.at_least_zero.push(expression),
            c if c > 0 => lower.push(expression),
            _ => upper.push(expression),
        };
        for expression in self.at_least_zero {
            sort(expression);
        }
        let mut kept = Vec::new();
        for expression in self.zero {
            if expression.of(var) == 0 {
                kept.push(expression);
            } else {
                sort(expression.times(-1));
                sort(expression);
            }
        }
        rest.zero = kept;
        if lower.len() * upper.len() + rest.at_least_zero.len() > MOST_CONSTRAINTS {
            return Eliminated::TooLarge;
        }
        for low in &lower {
            for high in &upper {
                let (a, b) = (low.of(var), -high.of(var));
                let divisor = gcd(a, b);
                let combined = Affine::combined(b / divisor, low, a / divisor, high);
                rest.at_least_zero.push(combined);
            }
        }
        rest.simplified()
            .map_or(Eliminated::Empty, Eliminated::System)
    }
}

enum Eliminated {
    Empty,
    TooLarge,
    System(System),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expressions() -> impl Strategy<Value = Affine> {
        (proptest::collection::vec(-3i64..=3, 3), -6i64..=6).prop_map(|(factors, constant)| {
            let terms = factors.iter().enumerate();
            terms.fold(Affine::constant(constant), |sum, (var, factor)| {
                sum.plus_times(*factor, &Affine::var(var as Var))
            })
        })
    }

    fn systems() -> impl Strategy<Value = System> {
        let several = || proptest::collection::vec(expressions(), 0..5);
        (several(), proptest::collection::vec(expressions(), 0..2)).prop_map(
            |(at_least_zero, zero)| System {
                at_least_zero,
                zero,
            },
        )
    }

    /// Every point of a small box.
    fn points() -> impl Iterator<Item = [i64; 3]> {
        let range = -6i64..=6;
        range.clone().flat_map(move |x| {
            let range = range.clone();
            range
                .clone()
                .flat_map(move |y| range.clone().map(move |z| [x, y, z]))
        })
    }

    proptest! {
        #[test]
        fn a_system_with_a_solution_is_never_called_empty(system in systems()) {
            let solved = points().any(|p| system.holds(&|var| p[var as usize]));
            prop_assert!(!(solved && system.is_empty()), "{system:?}");
        }

        #[test]
        fn sums_have_the_values_of_their_parts(a in expressions(), factor in -3i64..=3, b in expressions(), at in [-6i64..=6, -6i64..=6, -6i64..=6]) {
            let of = |var: Var| at[var as usize];
            let sum = a.plus_times(factor, &b);
            prop_assert_eq!(sum.value(&of), a.value(&of) + factor * b.value(&of));
            prop_assert!(sum.terms().all(|(_, coefficient)| coefficient != 0), "{:?}", sum);
            prop_assert!(sum.terms().is_sorted_by(|a, b| a.0 < b.0), "{:?}", sum);
        }

        #[test]
        fn a_projection_keeps_every_solution(system in systems(), var in 0u32..3) {
            if let Some(projected) = system.projected([var]) {
                prop_assert!(!projected.vars().contains(&var));
                for point in points().filter(|p| system.holds(&|v| p[v as usize])) {
                    prop_assert!(projected.holds(&|v| point[v as usize]));
                }
            }
        }

        #[test]
        fn irredundant_constraints_have_the_same_solutions(system in systems()) {
            let fewer = system.irredundant(&System::new());
            for point in points() {
                let of = |var: Var| point[var as usize];
                prop_assert_eq!(system.holds(&of), fewer.holds(&of));
            }
        }

        #[test]
        fn a_range_has_the_values_that_satisfy_the_constraints(system in systems(), at in (-6i64..=6, -6i64..=6)) {
            let range = system.range(0);
            let fixed = |x: i64| [x, at.0, at.1];
            for x in -6..=6 {
                let of = |var: Var| fixed(x)[var as usize];
                let within = range.lower.iter().all(|b| x * b.divisor >= b.value.value(&of))
                    && range.upper.iter().all(|b| x * b.divisor <= b.value.value(&of));
                let others = system.inequalities().into_iter().filter(|e| e.of(0) == 0);
                let rest = others.into_iter().all(|e| e.value(&of) >= 0);
                prop_assert_eq!(within && rest, system.holds(&of));
            }
        }
    }

    #[test]
    fn integers_between_two_neighbours_do_not_exist() {
        let (i, j) = (Affine::var(0), Affine::var(1));
        let mut system = System::new();
        system.less(&i, &j);
        system.less(&j, &i.offset(1));
        assert!(system.is_empty());
        let mut even = System::new();
        even.equal(&i.times(2), &Affine::constant(3));
        assert!(even.is_empty());
    }
}
