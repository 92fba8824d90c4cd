//! Fission: statements that the reference runs in one loop run in several loops over the same range.
//!
//! Statements of a program and of the reference have no common names. Two statements are taken for the same one if they
//! do the work for the same single output, or if their values go to the same outputs and come from the same arguments.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_protocol::Technique;

use super::super::Detected;
use super::super::facts::{LoopId, Place, Write};
use super::blocks;
use super::roles::{Memory, Nest, Role};

/// Larger programs are judged by their first statements.
const MOST_STATEMENTS: usize = 96;

/// A name of a statement that the reference and programs share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    /// The work for one output, by its position among the arguments.
    Output(usize),
    /// The outputs that the value reaches, and the arguments that it comes from.
    Flow(BTreeSet<usize>, BTreeSet<usize>),
}

impl Name {
    /// True if the names tell two statements apart.
    fn differs(&self, other: &Name) -> bool {
        match (self, other) {
            (Name::Output(a), Name::Output(b)) => a != b,
            (Name::Flow(..), Name::Flow(..)) => self != other,
            _ => false,
        }
    }
}

/// Two statements with the roles of a loop at both, or of a loop at each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    pub names: (Name, Name),
    roles: (Role, Role),
}

impl Pair {
    /// The names of two statements that tell them apart, with roles.
    pub fn all(names: &[Name], others: &[Name], roles: &(Role, Role)) -> Vec<Self> {
        let both = names
            .iter()
            .flat_map(|a| others.iter().map(move |b| (a, b)));
        let apart = both.filter(|(a, b)| a.differs(b));
        let pairs = apart.map(|(a, b)| Pair {
            names: (a.clone(), b.clone()),
            roles: roles.clone(),
        });
        pairs.collect()
    }
}

/// The statements of the reference that share loops.
#[derive(Debug, Default)]
pub(in super::super) struct Together {
    pairs: BTreeSet<Pair>,
}

impl Together {
    pub(super) fn of(nest: &Nest<'_>) -> Self {
        let all = statements(nest);
        let mut pairs = BTreeSet::new();
        for (number, (first, names)) in all.iter().enumerate() {
            for (second, others) in &all[number + 1..] {
                if finishes(nest, *first, *second) || !nest.spend(1) {
                    continue;
                }
                for id in common(nest, *first, *second) {
                    let Some(roles) = roles(nest, (*first, id), (*second, id)) else {
                        continue;
                    };
                    pairs.extend(Pair::all(names, others, &roles));
                }
            }
        }
        Self { pairs }
    }
}

pub(super) fn note(nest: &Nest<'_>, reference: &Together, found: &mut Detected) {
    if reference.pairs.is_empty() {
        return;
    }
    let named = by_name(statements(nest));
    for pair in &reference.pairs {
        let (Some(firsts), Some(seconds)) = (named.get(&pair.names.0), named.get(&pair.names.1))
        else {
            continue;
        };
        let Some((first, second)) = split(nest, pair, firsts, seconds) else {
            continue;
        };
        let [first, second] = [first, second].map(|id| nest.facts.loops[id].line);
        found.note(
            Technique::Fission,
            first.max(second),
            format!(
                "the reference runs statements of this loop and of the loop in line {} in one loop",
                first.min(second)
            ),
        );
        return;
    }
}

/// The two loops that a loop of the reference was split into; none if some statements of the two names still share one,
/// as in the rest of an unrolled loop.
fn split(
    nest: &Nest<'_>,
    pair: &Pair,
    firsts: &[usize],
    seconds: &[usize],
) -> Option<(LoopId, LoopId)> {
    let mut found = None;
    for first in firsts {
        for second in seconds {
            if first == second || !nest.spend(1) {
                return None;
            }
            let shares = |id: &LoopId| is_like(nest, pair, (*first, *id), (*second, *id));
            if common(nest, *first, *second).iter().any(shares) {
                return None;
            }
            found = found.or_else(|| apart(nest, pair, *first, *second));
        }
    }
    // Without a budget no loop is known to be shared.
    found.filter(|_| nest.spend(1))
}

/// Loops over the same range, one around each of two statements and not around the other, that both have the roles of one
/// loop of the reference.
fn apart(nest: &Nest<'_>, pair: &Pair, first: usize, second: usize) -> Option<(LoopId, LoopId)> {
    let (firsts, seconds) = own(nest, first, second);
    let mut pairs = firsts
        .iter()
        .flat_map(|a| seconds.iter().map(move |b| (*a, *b)));
    pairs.find(|(a, b)| {
        has_same_range(nest, (first, *a), (second, *b))
            && is_like(nest, pair, (first, *a), (second, *b))
    })
}

/// The loops over data around each of two statements and not around the other one.
pub(super) fn own(nest: &Nest<'_>, first: usize, second: usize) -> (Vec<LoopId>, Vec<LoopId>) {
    let shared = shared(nest, first, second);
    let of = |at: usize| -> Vec<LoopId> {
        let loops = nest.write(at).stack[shared..].iter().copied();
        loops.filter(|id| over_data(nest, at, *id)).collect()
    };
    (of(first), of(second))
}

/// True if two loops, or the loops over their blocks, run over ranges of the same length.
fn has_same_range(nest: &Nest<'_>, a: (usize, LoopId), b: (usize, LoopId)) -> bool {
    // Loops that count from 0 and from 1 run over the same range. A bound that is not known is compared with its like.
    let length = |id: LoopId| {
        let round = &nest.facts.loops[id];
        round.limit.as_ref().map(|limit| limit.minus(&round.start))
    };
    let equal = |a: LoopId, b: LoopId| {
        let (first, second) = (&nest.facts.loops[a], &nest.facts.loops[b]);
        let known = first.limit.is_some() || first.start == second.start;
        known && length(a) == length(b) && first.geometric == second.geometric
    };
    let over = |(at, inner): (usize, LoopId)| {
        let pairs = blocks::pairs(nest, at).into_iter();
        pairs
            .filter(|(_, within)| *within == inner)
            .map(|(outer, _)| outer)
            .collect::<Vec<_>>()
    };
    equal(a.1, b.1) || {
        let others = over(b);
        over(a)
            .iter()
            .any(|outer| others.iter().any(|other| equal(*outer, *other)))
    }
}

/// True if loops at two statements have the roles of a loop of the reference.
pub(super) fn is_like(
    nest: &Nest<'_>,
    pair: &Pair,
    first: (usize, LoopId),
    second: (usize, LoopId),
) -> bool {
    let alike = |known: &Role, other: &Role| match (known, other) {
        (Role::Sum(a), Role::Sum(b)) => a.is_empty() || b.is_empty() || !a.is_disjoint(b),
        (known, other) => known == other,
    };
    roles(nest, first, second)
        .is_some_and(|(a, b)| alike(&pair.roles.0, &a) && alike(&pair.roles.1, &b))
}

/// The roles of loops, each at one of two statements; none for loops that run over neither results nor terms.
pub(super) fn roles(
    nest: &Nest<'_>,
    first: (usize, LoopId),
    second: (usize, LoopId),
) -> Option<(Role, Role)> {
    let role = |(at, id): (usize, LoopId)| {
        let role = nest.role(at, id)?;
        matches!(role, Role::Out(_) | Role::Sum(_)).then_some(role)
    };
    Some((role(first)?, role(second)?))
}

/// The number of loops around both of two statements.
fn shared(nest: &Nest<'_>, first: usize, second: usize) -> usize {
    let (first, second) = (&nest.write(first).stack, &nest.write(second).stack);
    first.iter().zip(second).take_while(|(a, b)| a == b).count()
}

/// The loops over data around both of two statements.
pub(super) fn common(nest: &Nest<'_>, first: usize, second: usize) -> Vec<LoopId> {
    let loops = &nest.write(first).stack[..shared(nest, first, second)];
    let over_data = |id: &LoopId| over_data(nest, first, *id) && over_data(nest, second, *id);
    loops.iter().copied().filter(over_data).collect()
}

fn over_data(nest: &Nest<'_>, at: usize, id: LoopId) -> bool {
    !nest.is_tile(at, id) && !blocks::outer_loops(nest).contains(&id)
}

/// The statements that compute, with their names.
pub(super) fn statements(nest: &Nest<'_>) -> Vec<(usize, Vec<Name>)> {
    let all = (0..nest.facts.writes.len()).filter(|at| computes(nest, nest.write(*at)));
    let named = all.take(MOST_STATEMENTS).filter_map(|at| {
        let outputs = nest.outputs(at);
        let only = outputs.first().copied().filter(|_| outputs.len() == 1);
        let mut names: Vec<Name> = only.map(Name::Output).into_iter().collect();
        if outputs.is_empty() {
            return None;
        }
        names.push(Name::Flow(outputs, nest.write(at).sources.clone()));
        Some((at, names))
    });
    named.collect()
}

/// The statements that have each name.
pub(super) fn by_name(statements: Vec<(usize, Vec<Name>)>) -> BTreeMap<Name, Vec<usize>> {
    let mut named: BTreeMap<Name, Vec<usize>> = BTreeMap::new();
    for (at, names) in statements {
        for name in names {
            named.entry(name).or_default().push(at);
        }
    }
    named
}

/// True if a statement computes from elements of other arrays, or from several sums. A start value, a copy, and the store of
/// a finished sum belong to another statement.
fn computes(nest: &Nest<'_>, write: &Write) -> bool {
    let operand = |place: &Place| match place {
        Place::Element(id, _) => {
            let array = &nest.facts.arrays[*id];
            let own = matches!(&write.target, Place::Element(target, _) if target == id);
            let holds = !array.sources.is_empty() && !array.accumulates;
            !own && (array.origin.argument().is_some() || holds)
        }
        Place::Scalar(_) => false,
    };
    let takes_sums = || {
        let others = write.accs.iter().filter(|sum| write.reads.contains(sum));
        let memories: BTreeSet<Memory> = others.map(Memory::of).collect();
        write.updates && memories.len() > 1
    };
    let runs = !write.copies && !write.block && !write.stack.is_empty();
    runs && (write.reads.iter().any(operand) || takes_sums())
}

/// True if one of two statements takes the sum of the other one: both are steps to one result.
fn finishes(nest: &Nest<'_>, first: usize, second: usize) -> bool {
    let same = |a: &Place, b: &Place| match (a, b) {
        (Place::Element(a, _), Place::Element(b, _)) => a == b,
        (a, b) => a == b,
    };
    let takes = |sum: &Write, other: &Write| {
        let mut places = other.reads.iter().chain(&other.accs);
        sum.updates
            && (same(&sum.target, &other.target) || places.any(|place| same(&sum.target, place)))
    };
    let (first, second) = (nest.write(first), nest.write(second));
    takes(first, second) || takes(second, first)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_problem::{Language, Problem};
    use flopsmith_protocol::{Technique, TechniqueSet};

    use crate::detect::detect;
    use crate::scan::UserText;

    fn is_split(problem: &str, prototype: &str, body: &str) -> bool {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        let mut problem = Problem::load(&root.join(problem)).unwrap();
        let text = format!("{prototype} {{\n{body}\n}}\n");
        let user = UserText {
            lines: (1..).take(text.lines().count() + 1).collect(),
            text,
        };
        let found = |problem: &Problem| {
            let found = detect(&user, &[], problem, Language::C).unwrap();
            found.techniques().contains(Technique::Fission)
        };
        // A problem that does not list the technique has no programs with it.
        assert!(!found(&problem));
        problem.techniques = TechniqueSet::all();
        found(&problem)
    }

    fn in_bicg(body: &str) -> bool {
        is_split(
            "polybench/polybench_bicg",
            "void polybench_bicg(int m, int n, const double *A, const double *p, const double *r, double *s, double *q)",
            &format!("for (int j = 0; j < m; j++) s[j] = 0;\n{body}"),
        )
    }

    #[test]
    fn sums_of_two_results_in_loops_of_their_own_are_split() {
        assert!(in_bicg(
            "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) s[j] += r[i] * A[i * m + j];\n\
             for (int i = 0; i < n; i++) { q[i] = 0; for (int j = 0; j < m; j++) q[i] += A[i * m + j] * p[j]; }"
        ));
        // Only the inner loop is split.
        assert!(in_bicg(
            "for (int i = 0; i < n; i++) {\n\
             for (int j = 0; j < m; j++) s[j] += r[i] * A[i * m + j];\n\
             double sum = 0;\nfor (int j = 0; j < m; j++) sum += A[i * m + j] * p[j];\nq[i] = sum;\n}"
        ));
    }

    #[test]
    fn statements_that_still_share_a_loop_are_not_split() {
        let both = "s[j] += r[i] * A[i * m + j]; q[i] += A[i * m + j] * p[j];";
        assert!(!in_bicg(&format!(
            "for (int i = 0; i < n; i++) {{ q[i] = 0; for (int j = 0; j < m; j++) {{ {both} }} }}"
        )));
        // A start value is no statement of its own.
        assert!(!in_bicg(&format!(
            "for (int i = 0; i < n; i++) q[i] = 0;\nfor (int i = 0; i < n; i++) for (int j = 0; j < m; j++) {{ {both} }}"
        )));
        // The rest of an unrolled loop has both statements again.
        assert!(!in_bicg(&format!(
            "for (int i = 0; i < n; i++) {{ q[i] = 0; int j = 0;\n\
             for (; j + 1 < m; j += 2) {{ {both} s[j + 1] += r[i] * A[i * m + j + 1]; q[i] += A[i * m + j + 1] * p[j + 1]; }}\n\
             for (; j < m; j++) {{ {both} }} }}"
        )));
    }

    #[test]
    fn loops_that_the_reference_has_apart_are_not_split() {
        let mvt = "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) x1[i] += A[i * n + j] * y1[j];\n\
                   for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) x2[i] += A[j * n + i] * y2[j];";
        assert!(!is_split(
            "polybench/polybench_mvt",
            "void polybench_mvt(int n, double *x1, double *x2, const double *y1, const double *y2, const double *A)",
            mvt
        ));
        let atax = "double *sum = malloc(sizeof *sum * m);\n\
                    for (int j = 0; j < n; j++) y[j] = 0;\n\
                    for (int i = 0; i < m; i++) { sum[i] = 0; for (int j = 0; j < n; j++) sum[i] += A[i * n + j] * x[j]; }\n\
                    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) y[j] += A[i * n + j] * sum[i];";
        assert!(!is_split(
            "polybench/polybench_atax",
            "void polybench_atax(int m, int n, const double *A, const double *x, double *y)",
            atax
        ));
    }
}
