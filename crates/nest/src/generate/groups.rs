//! Groups of statements: which statements share loops, and the coordinates of each in the group's dimensions.

use std::collections::BTreeMap;

use super::{Error, Space};
use crate::affine::{Affine, System, Var};
use crate::dependence::{Dependence, Renamed};
use crate::program::{Program, Statement};
use crate::schedule::{Group, Grouping, Leaf};

/// Statements that share loops.
#[derive(Debug, Clone, PartialEq)]
pub struct Members {
    /// Their numbers in the order of the reference.
    pub statements: Vec<usize>,
    /// Number of iterators of the deepest of them.
    pub dimensions: usize,
    /// The iterators of the deepest one.
    pub main: Vec<Var>,
    /// For each statement, the dimension of each of its iterators.
    dimension_of: Vec<Vec<usize>>,
}

impl Members {
    /// The dimension of each iterator of the statement with this rank among the members.
    pub fn dimensions_of(&self, rank: usize) -> &[usize] {
        &self.dimension_of[rank]
    }

    fn rank(&self, number: usize) -> Option<usize> {
        self.statements.iter().position(|n| *n == number)
    }
}

/// The groups of a program in the order in which they run.
pub fn members(program: &Program, dependences: &[Dependence], grouping: Grouping) -> Vec<Members> {
    let all: Vec<usize> = (0..program.statements.len()).collect();
    let sets = match grouping {
        Grouping::Apart => {
            let edges: Vec<(usize, usize)> = dependences.iter().map(|d| (d.from, d.to)).collect();
            circles(&all, &edges)
        }
        Grouping::AsRead => {
            let mut sets: Vec<Vec<usize>> = Vec::new();
            for number in all {
                let outermost = |n: usize| program.statements[n].iterators.first().copied();
                let joins = sets.last().and_then(|set| set.last()).is_some_and(|last| {
                    outermost(*last).is_some() && outermost(*last) == outermost(number)
                });
                match (joins, sets.last_mut()) {
                    (true, Some(set)) => set.push(number),
                    _ => sets.push(vec![number]),
                }
            }
            sets
        }
    };
    sets.into_iter().map(|set| group(program, set)).collect()
}

fn group(program: &Program, statements: Vec<usize>) -> Members {
    let depth = |n: usize| program.statements[n].iterators.len();
    let dimensions = statements.iter().map(|n| depth(*n)).max().unwrap_or(0);
    let deepest = statements.iter().find(|n| depth(**n) == dimensions);
    let main = deepest
        .map(|n| program.statements[*n].iterators.clone())
        .unwrap_or_default();
    let dimension_of = statements
        .iter()
        .map(|n| aligned(&program.statements[*n].iterators, &main))
        .collect();
    Members {
        statements,
        dimensions,
        main,
        dimension_of,
    }
}

/// The dimensions of iterators: those of loops shared with the deepest statement, and for the others the next ones that are left.
fn aligned(iterators: &[Var], main: &[Var]) -> Vec<usize> {
    let shared: Vec<Option<usize>> = iterators
        .iter()
        .map(|v| main.iter().position(|m| m == v))
        .collect();
    let mut left = (0..main.len()).filter(|d| !shared.contains(&Some(*d)));
    shared
        .iter()
        .map(|known| known.or_else(|| left.next()).unwrap_or(0))
        .collect()
}

/// Sets of statements that depend on each other in a circle, in an order in which no set depends on a later one. Of several orders it is
/// the one nearest to that of the reference.
pub fn circles(statements: &[usize], edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let count = statements.len();
    let at = |number: usize| statements.iter().position(|n| *n == number);
    let mut reaches = vec![vec![false; count]; count];
    for (from, to) in edges {
        if let (Some(a), Some(b)) = (at(*from), at(*to)) {
            reaches[a][b] = true;
        }
    }
    for via in 0..count {
        for from in 0..count {
            if reaches[from][via] {
                let further = reaches[via].clone();
                for (reached, more) in reaches[from].iter_mut().zip(further) {
                    *reached |= more;
                }
            }
        }
    }
    let mut sets: Vec<Vec<usize>> = Vec::new();
    let mut done = vec![false; count];
    while let Some(next) = (0..count).find(|a| {
        // No statement outside of its circle that is not done comes before it.
        !done[*a] && (0..count).all(|b| done[b] || !reaches[b][*a] || reaches[*a][b])
    }) {
        let circle: Vec<usize> = (0..count)
            .filter(|b| *b == next || reaches[next][*b] && reaches[*b][next])
            .collect();
        for b in &circle {
            done[*b] = true;
        }
        sets.push(circle.iter().map(|b| statements[*b]).collect());
    }
    sets
}

/// The places that a statement may have in dimensions that it lacks: for each such pair of statement and dimension, in the order of
/// [`Group::fills`]. The first is none.
pub fn fills(program: &Program, members: &Members) -> Vec<Vec<Option<Affine>>> {
    let mut all = Vec::new();
    for (rank, number) in members.statements.iter().enumerate() {
        for dimension in lacking(members, rank) {
            let statement = &program.statements[*number];
            all.push(fills_of(program, members, rank, statement, dimension));
        }
    }
    all
}

fn lacking(members: &Members, rank: usize) -> Vec<usize> {
    let has = &members.dimension_of[rank];
    (0..members.dimensions)
        .filter(|d| !has.contains(d))
        .collect()
}

fn fills_of(
    program: &Program,
    members: &Members,
    rank: usize,
    statement: &Statement,
    dimension: usize,
) -> Vec<Option<Affine>> {
    let mut found: Vec<Option<Affine>> = vec![None];
    for (other_rank, other) in members.statements.iter().enumerate() {
        let dimensions = &members.dimension_of[other_rank];
        let Some(at) = dimensions.iter().position(|d| *d == dimension) else {
            continue;
        };
        let other = &program.statements[*other];
        let var = other.iterators[at];
        // Iterators of the other statement in the same dimensions.
        let translated = |v: Var| -> Option<Affine> {
            let n = other.iterators.iter().position(|o| *o == v)?;
            let mine = members.dimension_of[rank]
                .iter()
                .position(|d| *d == dimensions[n])?;
            Some(Affine::var(statement.iterators[mine]))
        };
        let range = program.domain(other).range(var);
        let sides = [(range.upper, 1), (range.lower, -1)];
        for (bounds, beyond) in sides {
            for bound in bounds.into_iter().filter(|b| b.divisor == 1) {
                let value = bound.value.replaced(&translated).offset(beyond);
                let known = value
                    .terms()
                    .all(|(v, _)| program.is_parameter(v) || statement.iterators.contains(&v));
                if known && !found.contains(&Some(value.clone())) {
                    found.push(Some(value));
                }
            }
        }
    }
    found
}

/// A statement in coordinates.
pub struct Coordinates {
    pub statement: Statement,
    pub domain: System,
    pub has: Vec<bool>,
}

/// The iterators of a statement by the coordinates `points`.
fn inverse(
    members: &Members,
    group: &Group,
    statement: &Statement,
    rank: usize,
    points: &[Var],
) -> BTreeMap<Var, Affine> {
    let dimensions = &members.dimension_of[rank];
    let pairs = statement.iterators.iter().zip(dimensions);
    pairs
        .map(|(iterator, dimension)| {
            let mut value = Affine::var(points[*dimension]);
            if let Some(skew) = group.skew.as_ref().filter(|s| s.dimension == *dimension) {
                if dimensions.contains(&skew.by) {
                    value = value.plus_times(-skew.factor, &Affine::var(points[skew.by]));
                }
                value = value.offset(-skew.shift * rank as i64);
            }
            (*iterator, value)
        })
        .collect()
}

/// Places a statement in the coordinates of its group.
pub fn place(
    space: &Space,
    members: &Members,
    group: &Group,
    number: usize,
    rank: usize,
    points: &[Var],
    next_fill: &mut usize,
) -> Result<Coordinates, Error> {
    let program = &space.program;
    let statement = program
        .statements
        .get(number)
        .ok_or(Error::Misfit("a statement is missing"))?;
    let sound = group.skew.as_ref().is_none_or(|s| {
        s.by != s.dimension && s.by < members.dimensions && s.dimension < members.dimensions
    });
    if !sound {
        return Err(Error::Misfit("a skew of other dimensions"));
    }
    let inverse = inverse(members, group, statement, rank, points);
    let value = |var: Var| inverse.get(&var).cloned();
    let mut has: Vec<bool> = (0..members.dimensions)
        .map(|d| members.dimension_of[rank].contains(&d))
        .collect();
    let mut domain = statement.domain.replaced(&value);
    domain.and(&program.context);
    for dimension in lacking(members, rank) {
        let chosen = group.fills.get(*next_fill).copied().unwrap_or(0);
        *next_fill += 1;
        if chosen == 0 {
            continue;
        }
        let known = fills_of(program, members, rank, statement, dimension);
        let Some(Some(fill)) = known.get(chosen) else {
            return Err(Error::Misfit("a place that does not exist"));
        };
        domain.equal(&Affine::var(points[dimension]), &fill.replaced(&value));
        has[dimension] = true;
    }
    Ok(Coordinates {
        statement: statement.replaced(&value),
        domain,
        has,
    })
}

/// The size of the outer tiles in each dimension of a group; 0 for none.
///
/// # Errors
/// Sizes for other dimensions, and an outer tile that is no larger than its tiles.
pub fn outer(group: &Group) -> Result<Vec<u32>, Error> {
    if group.outer.is_empty() {
        return Ok(vec![0; group.tiles.len()]);
    }
    if group.outer.len() != group.tiles.len() {
        return Err(Error::Misfit("other dimensions"));
    }
    let mut pairs = group.outer.iter().zip(&group.tiles);
    if !pairs.all(|(outer, tile)| *outer == 0 || (*tile > 0 && outer > tile)) {
        return Err(Error::Misfit(
            "an outer tile that is no larger than its tiles",
        ));
    }
    Ok(group.outer.clone())
}

/// A dependence in coordinates, without the domains of its statements.
pub fn pairs(
    space: &Space,
    members: &Members,
    group: &Group,
    dependence: &Dependence,
    points: &[Var],
) -> Result<System, Error> {
    let misfit = Error::Misfit("a statement is missing");
    let statements = &space.program.statements;
    let of = |number: usize| -> Option<BTreeMap<Var, Affine>> {
        let rank = members.rank(number)?;
        Some(inverse(
            members,
            group,
            statements.get(number)?,
            rank,
            points,
        ))
    };
    let (Some(first), Some(second)) = (of(dependence.from), of(dependence.to)) else {
        return Err(misfit);
    };
    let renamed = Renamed::of(&statements[dependence.to]);
    let coordinates = Renamed::of_vars(points);
    // The second iteration's iterators have other names; their values get other names as well.
    let second: BTreeMap<Var, Affine> = second
        .iter()
        .map(|(var, value)| (renamed.var(*var), coordinates.affine(value)))
        .collect();
    Ok(dependence
        .pairs
        .replaced(&|var| second.get(&var).or_else(|| first.get(&var)).cloned()))
}

/// The order of the reference.
pub fn plain(program: &Program, members: &Members) -> Group {
    let lacking: usize = (0..members.statements.len())
        .map(|r| lacking(members, r).len())
        .sum();
    let _ = program;
    Group {
        order: (0..members.dimensions).collect(),
        tiles: vec![0; members.dimensions],
        outer: Vec::new(),
        skew: None,
        fills: vec![0; lacking],
        fused: 0,
        openmp: false,
        leaf: Leaf::PLAIN,
    }
}
