//! Loop order, compared with that of the reference.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_protocol::Technique;

use super::super::Detected;
use super::super::facts::{LoopId, Origin, Place};
use super::blocks;
use super::roles::{Nest, Role};

/// The order of the loops of a program.
#[derive(Debug, Default)]
pub(in super::super) struct Order {
    /// For each output, the order of the loops around the work for it.
    parts: BTreeMap<usize, Part>,
}

/// The order of the loops around the work for one output: which role is outside of which other.
#[derive(Debug, Default)]
struct Part {
    pairs: BTreeSet<(Role, Role)>,
    sums: BTreeSet<Role>,
    /// True if all sums share terms, so that every loop over terms runs over the terms of one sum.
    single: bool,
}

impl Order {
    pub(super) fn of(nest: &Nest<'_>) -> Self {
        let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
        for write in work(nest) {
            let roles = sequence(nest, write);
            for output in nest.outputs(write) {
                parts.entry(output).or_default().add(&roles);
            }
        }
        for part in parts.values_mut() {
            part.single = part.has_single_sum();
        }
        Order { parts }
    }

    /// True if the program repeats its work, as in the sweeps of a stencil.
    pub(super) fn repeats(&self) -> bool {
        let is = |role: &Role| matches!(role, Role::Repeat);
        let mut pairs = self.parts.values().flat_map(|part| &part.pairs);
        pairs.any(|(a, b)| is(a) || is(b))
    }
}

impl Part {
    fn add(&mut self, roles: &[Role]) {
        let sums = roles.iter().filter(|r| matches!(r, Role::Sum(_)));
        self.sums.extend(sums.cloned());
        for (at, outer) in roles.iter().enumerate() {
            let inner = roles[at + 1..].iter();
            self.pairs
                .extend(inner.map(|inner| (outer.clone(), inner.clone())));
        }
    }

    fn has_single_sum(&self) -> bool {
        let overlap = |a: &Role, b: &Role| match (a, b) {
            (Role::Sum(a), Role::Sum(b)) => !a.is_disjoint(b),
            _ => false,
        };
        let shared = |a: &Role| self.sums.iter().all(|b| overlap(a, b));
        self.sums.iter().all(shared)
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

    /// True if the reference runs the two loops in the other order only.
    fn turns(&self, outer: &Role, inner: &Role) -> bool {
        !self.alike(outer, inner)
            && !self.alike(inner, outer)
            && self.has(inner, outer)
            && !self.has(outer, inner)
    }
}

pub(super) fn note(nest: &Nest<'_>, reference: &Order, found: &mut Detected) {
    for write in work(nest) {
        let roles = sequence(nest, write);
        let outputs = nest.outputs(write);
        let mut parts = outputs
            .iter()
            .filter_map(|output| reference.parts.get(output));
        let Some((outer, inner)) = parts.find_map(|part| turned(&roles, part)) else {
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

/// Two loops, the outer one first, that the reference runs in the other order.
fn turned<'r>(roles: &'r [Role], part: &Part) -> Option<(&'r Role, &'r Role)> {
    roles.iter().enumerate().find_map(|(at, outer)| {
        let mut inner = roles[at + 1..].iter();
        Some((outer, inner.find(|inner| part.turns(outer, inner))?))
    })
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
        let outer = blocks::outer_loops(nest);
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
    let outer = blocks::outer_loops(nest);
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
