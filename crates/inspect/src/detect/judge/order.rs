//! Loop order, compared with that of the reference.

use std::collections::BTreeSet;

use flopsmith_protocol::Technique;

use super::super::Detected;
use super::super::facts::{LoopId, Origin, Place};
use super::blocks;
use super::roles::{Nest, Role};

/// The order of the loops of a program: which role is outside of which other.
#[derive(Debug, Default)]
pub(in super::super) struct Order {
    pairs: BTreeSet<(Role, Role)>,
    /// True if the program has loops of one sum only, so that every loop over terms runs over the terms of that sum.
    single: bool,
}

impl Order {
    pub(super) fn of(nest: &Nest<'_>) -> Self {
        let mut pairs = BTreeSet::new();
        let mut sums: BTreeSet<Role> = BTreeSet::new();
        for write in work(nest) {
            let roles = sequence(nest, write);
            sums.extend(roles.iter().filter(|r| matches!(r, Role::Sum(_))).cloned());
            for (at, outer) in roles.iter().enumerate() {
                let inner = roles[at + 1..].iter();
                pairs.extend(inner.map(|inner| (outer.clone(), inner.clone())));
            }
        }
        let overlap = |a: &Role, b: &Role| match (a, b) {
            (Role::Sum(a), Role::Sum(b)) => !a.is_disjoint(b),
            _ => false,
        };
        let single = sums.iter().all(|a| sums.iter().all(|b| overlap(a, b)));
        Order { pairs, single }
    }

    /// True if the program repeats its work, as in the sweeps of a stencil.
    pub(super) fn repeats(&self) -> bool {
        let is = |role: &Role| matches!(role, Role::Repeat);
        self.pairs.iter().any(|(a, b)| is(a) || is(b))
    }

    /// True if the reference runs two loops in this order.
    fn has(&self, outer: &Role, inner: &Role) -> bool {
        self.pairs
            .iter()
            .any(|(a, b)| self.alike(a, outer) && self.alike(b, inner))
    }

    fn alike(&self, known: &Role, other: &Role) -> bool {
        match (known, other) {
            (Role::Sum(known), Role::Sum(other)) => {
                self.single || other.is_empty() || !known.is_disjoint(other)
            }
            (known, other) => known == other,
        }
    }
}

pub(super) fn note(nest: &Nest<'_>, reference: &Order, found: &mut Detected) {
    for write in work(nest) {
        let roles = sequence(nest, write);
        for (at, outer) in roles.iter().enumerate() {
            let turned = |inner: &&Role| {
                !reference.alike(outer, inner)
                    && !reference.alike(inner, outer)
                    && reference.has(inner, outer)
                    && !reference.has(outer, inner)
            };
            let Some(inner) = roles[at + 1..].iter().find(turned) else {
                continue;
            };
            let write = nest.write(write);
            let line = write
                .stack
                .first()
                .map_or(write.line, |id| nest.facts.loops[*id].line);
            found.note(
                Technique::LoopReorder,
                line,
                format!(
                    "the loop over {} runs outside of the loop over {}, and in the reference inside of it",
                    words(outer),
                    words(inner)
                ),
            );
            return;
        }
    }
}

fn words(role: &Role) -> String {
    match role {
        Role::Out(dims) => format!(
            "dimension {} of the result",
            dims.trailing_zeros().saturating_add(1)
        ),
        Role::Sum(_) => "the terms of a result".to_owned(),
        Role::Level => "levels".to_owned(),
        Role::Repeat => "repetitions".to_owned(),
    }
}

/// The writes that do the problem's work: those in the deepest loops over data, and all products of two arguments.
pub(super) fn work(nest: &Nest<'_>) -> Vec<usize> {
    let facts = nest.facts;
    let works = |at: &usize| {
        let write = nest.write(*at);
        let kept = match write.target {
            Place::Scalar(_) => write.updates,
            Place::Element(..) => !write.sources.is_empty() || write.carries,
        };
        let moved = write.copies && facts.origin(&write.target) == Origin::Local;
        // The loop over the rest behind an unrolled loop may have nothing to do.
        let empty = |id: &LoopId| facts.loops[*id].extent.is_some_and(|e| e <= 0);
        let runs = !write.stack.is_empty() && !write.stack.iter().any(empty);
        kept && !moved && runs
    };
    let all: Vec<usize> = (0..facts.writes.len()).filter(works).collect();
    let depth = |at: usize| {
        let outer = blocks::outer_loops(nest, at);
        let stack = nest.write(at).stack.iter();
        let data = stack.filter(|id| !nest.is_tile(at, **id) && !outer.contains(id));
        data.count()
    };
    let depths: Vec<usize> = all.iter().map(|at| depth(*at)).collect();
    let deepest = depths.iter().copied().max().unwrap_or(0);
    let factors = |at: usize| nest.write(at).sources.len();
    let updates = all.iter().filter(|at| nest.write(**at).updates);
    let most = updates.map(|at| factors(*at)).max().unwrap_or(0).min(2);
    let chosen = |(at, depth): (usize, usize)| {
        let product = nest.write(at).updates && factors(at) >= most.max(2);
        (product || depth == deepest).then_some(at)
    };
    all.iter().copied().zip(depths).filter_map(chosen).collect()
}

/// The roles of the loops over data around a write, outermost first. Each role occurs once. Loops over blocks are left
/// out, because the loops within the blocks have the same roles.
fn sequence(nest: &Nest<'_>, at: usize) -> Vec<Role> {
    let outer = blocks::outer_loops(nest, at);
    let mut roles: Vec<Role> = Vec::new();
    for id in &nest.write(at).stack {
        if nest.is_tile(at, *id) || outer.contains(id) {
            continue;
        }
        if let Some(role) = nest.role(at, *id)
            && !roles.contains(&role)
        {
            roles.push(role);
        }
    }
    roles
}
