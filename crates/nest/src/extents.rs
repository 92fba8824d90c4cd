//! How large the data, the loops and the tiles of a program are at the sizes at which it is timed.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_problem::{ArgKind, Params, Problem};

use crate::affine::{Affine, Bound, Var};
use crate::program::{Program, Statement, c_type};

/// Bytes of a first data cache. A search may run on another machine than its programs, so these are sizes that most servers have at
/// least.
pub const FIRST_CACHE: u64 = 32 << 10;
/// Bytes of a second data cache of one core.
pub const SECOND_CACHE: u64 = 1 << 20;

/// The extents of a program at one set of parameters: the timed size with the most bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Extents {
    /// Bytes of all array arguments.
    bytes: u64,
    /// For each statement, the number of values that each of its iterators has; none for one that the elimination does not bound.
    counts: Vec<Vec<Option<u64>>>,
}

impl Extents {
    /// The extents of `program`, which was read from `problem`. None if an integer argument has no whole value.
    pub fn of(program: &Program, problem: &Problem) -> Option<Self> {
        let each = problem.params_of_each().into_iter();
        let sized = each.map(|params| (bytes(problem, &params), params));
        let (bytes, params) = sized.max_by_key(|(bytes, _)| *bytes)?;
        let values = values(problem, &params)?;
        let fixed = |var: Var| values.get(var as usize).map(|v| Affine::constant(*v));
        let of_statement = |statement: &Statement| -> Vec<Option<u64>> {
            let each = statement.iterators.iter();
            each.map(|var| count(program, statement, *var, &fixed))
                .collect()
        };
        Some(Self {
            bytes,
            counts: program.statements.iter().map(of_statement).collect(),
        })
    }

    /// True if the data do not fit a second cache.
    pub fn exceed_caches(&self) -> bool {
        self.bytes > SECOND_CACHE
    }

    /// The number of values of an iterator, by its place among those of the statement.
    pub fn count(&self, statement: usize, iterator: usize) -> Option<u64> {
        self.counts.get(statement)?.get(iterator).copied().flatten()
    }

    /// Bytes of the elements that a statement may access in a tile with `sizes` iterations along its iterators; 0 stands for all of an
    /// iterator's values. An array counts once for accesses that differ by constants only, and with the elements between those that
    /// are accessed. None if an iterator has no known number of values.
    pub fn tile_bytes(&self, program: &Program, number: usize, sizes: &[u32]) -> Option<f64> {
        let statement = program.statements.get(number)?;
        let mut steps: BTreeMap<Var, f64> = BTreeMap::new();
        for (at, var) in statement.iterators.iter().enumerate() {
            let all = self.count(number, at)?;
            let within = match sizes.get(at) {
                None | Some(0) => all,
                Some(size) => all.min(u64::from(*size)),
            };
            steps.insert(*var, within.saturating_sub(1) as f64);
        }
        let span = |subscript: &Affine| {
            let each = subscript.terms().map(|(var, factor)| {
                let steps = steps.get(&var).copied().unwrap_or(0.0);
                factor.unsigned_abs() as f64 * steps
            });
            1.0 + each.sum::<f64>()
        };
        let mut seen = BTreeSet::new();
        let mut bytes = 0.0;
        let reads = statement.value.reads().into_iter();
        for access in reads.chain([&statement.target]) {
            let ways = access.subscripts.iter().map(|s| s.offset(-s.constant));
            if seen.insert((access.array, ways.collect::<Vec<Affine>>())) {
                let elements: f64 = access.subscripts.iter().map(span).product();
                bytes += elements * f64::from(program.arrays[access.array].bytes);
            }
        }
        Some(bytes)
    }
}

/// Bytes of all array arguments.
fn bytes(problem: &Problem, params: &Params) -> u64 {
    let each = problem.entry.args.iter().filter_map(|argument| {
        let ArgKind::Array { element, .. } = &argument.kind else {
            return None;
        };
        let (_, _, bytes) = c_type(*element)?;
        let elements = problem.elements(argument, params)? as u64;
        Some(elements.saturating_mul(u64::from(bytes)))
    });
    each.fold(0, u64::saturating_add)
}

/// The values of the parameters of a program, which are the integer arguments in their order.
fn values(problem: &Problem, params: &Params) -> Option<Vec<i64>> {
    let integers = problem.entry.args.iter().filter_map(|a| match &a.kind {
        ArgKind::Int { value } => Some(value),
        ArgKind::Scalar { .. } | ArgKind::Array { .. } => None,
    });
    let each = integers.map(|value| i64::try_from(value.count(params)?).ok());
    each.collect()
}

/// The number of values that an iterator has where `fixed` gives the parameters.
fn count(
    program: &Program,
    statement: &Statement,
    iterator: Var,
    fixed: &impl Fn(Var) -> Option<Affine>,
) -> Option<u64> {
    let domain = program.domain(statement).replaced(fixed);
    let others = statement.iterators.iter().copied();
    let range = domain
        .projected(others.filter(|other| *other != iterator))?
        .range(iterator);
    let number = |bound: &Bound| bound.value.is_constant().then_some(bound.value.constant);
    let low = |bound: &Bound| Some(-(-number(bound)?).div_euclid(bound.divisor));
    let high = |bound: &Bound| Some(number(bound)?.div_euclid(bound.divisor));
    let lows: Option<Vec<i64>> = range.lower.iter().map(low).collect();
    let highs: Option<Vec<i64>> = range.upper.iter().map(high).collect();
    let (first, last) = (lows?.into_iter().max()?, highs?.into_iter().min()?);
    u64::try_from(last.saturating_sub(first).saturating_add(1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::read;
    use crate::shipped;

    fn sized(name: &str, params: &[(&str, i64)]) -> (Program, Extents) {
        let params = params
            .iter()
            .map(|(name, size)| ((*name).to_owned(), *size));
        let problem = shipped(name).timed_at(params.collect());
        let program = read(&problem).expect("it is affine");
        let extents = Extents::of(&program, &problem).expect("its arguments have values");
        (program, extents)
    }

    #[test]
    fn the_largest_timed_size_decides() {
        let problem = shipped("dgemm");
        let program = read(&problem).expect("it is affine");
        let extents = Extents::of(&program, &problem).expect("its arguments have values");
        // Three matrices of 1024 rows; the problem is timed at 256 and 512 rows as well.
        assert_eq!(extents.bytes, 3 * 1024 * 1024 * 8);
        assert!(extents.exceed_caches());
        assert!(!sized("dgemm", &[("n", 192)]).1.exceed_caches());
    }

    #[test]
    fn iterators_have_as_many_values_as_their_bounds_leave() {
        let (program, extents) = sized("transpose", &[("m", 300), ("n", 40)]);
        assert_eq!(program.statements.len(), 1);
        assert_eq!(extents.count(0, 0), Some(300));
        assert_eq!(extents.count(0, 1), Some(40));
        assert_eq!(extents.count(0, 2), None);
        // The inner loops of a factorization run over triangles.
        let (program, extents) = sized("lu", &[("n", 50)]);
        for (number, statement) in program.statements.iter().enumerate() {
            for at in 0..statement.iterators.len() {
                let count = extents.count(number, at);
                assert!(count.is_some_and(|c| (49..=50).contains(&c)), "{count:?}");
            }
        }
    }

    #[test]
    fn a_tile_has_the_bytes_of_its_blocks() {
        let (program, extents) = sized("dgemm", &[("n", 100)]);
        let deepest = program
            .statements
            .iter()
            .position(|s| s.iterators.len() == 3);
        let deepest = deepest.expect("the sum has three loops");
        let bytes = |sizes: &[u32]| extents.tile_bytes(&program, deepest, sizes);
        // Blocks of A, B and C.
        let blocks = |i: f64, j: f64, k: f64| Some(8.0 * (i * k + k * j + i * j));
        assert_eq!(bytes(&[8, 16, 32]), blocks(8.0, 16.0, 32.0));
        // All of a loop, whether it has no tile or one that is larger than its range.
        assert_eq!(bytes(&[0, 16, 0]), blocks(100.0, 16.0, 100.0));
        assert_eq!(bytes(&[128, 16, 256]), blocks(100.0, 16.0, 100.0));
    }
}
