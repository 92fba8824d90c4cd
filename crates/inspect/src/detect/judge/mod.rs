//! Derives techniques from the facts of a walk.
//!
//! Each technique has a definition that holds for any loop nest (`docs/decisions/0079-techniques-of-any-loop-nest.md`,
//! `docs/decisions/0111-fission-and-recomputation.md`, `docs/decisions/0127-special-techniques.md`). The judgement compares the loops around writes, their movement
//! along the dimensions of arguments, and the loops of the problem's reference.

mod blocks;
mod branches;
mod fission;
mod fusion;
mod layout;
mod order;
mod packing;
mod partial_sums;
mod recomputation;
mod registers;
mod roles;
mod skewing;
mod unroll;

use flopsmith_protocol::{Technique, TechniqueSet};

use super::Detected;
use super::facts::Facts;
use super::shapes::Shapes;
use branches::Branches;
use fission::Together;
use fusion::Apart;
use order::Order;
use recomputation::Kept;
use roles::Nest;

/// The facts of the reference with which programs are compared.
#[derive(Debug, Default)]
pub(super) struct Reference {
    order: Order,
    together: Together,
    apart: Apart,
    branches: Branches,
    kept: Kept,
    listed: TechniqueSet,
}

impl Reference {
    /// The facts of a reference, as far as the techniques that a problem lists need them.
    pub fn of(facts: &Facts, shapes: &Shapes, listed: TechniqueSet) -> Self {
        let nest = Nest::new(facts, shapes);
        let mut reference = Self {
            order: Order::of(&nest),
            listed,
            ..Self::default()
        };
        if listed.contains(Technique::Fission) {
            reference.together = Together::of(&nest);
        }
        if listed.contains(Technique::Recomputation) {
            reference.kept = Kept::of(&nest);
        }
        if listed.contains(Technique::Fusion) {
            reference.apart = Apart::of(&nest);
        }
        if listed.contains(Technique::BranchRemoval) {
            reference.branches = Branches::of(&nest);
        }
        reference
    }
}

/// Notes all techniques of the loop nest.
pub(super) fn judge(facts: &Facts, shapes: &Shapes, reference: &Reference, found: &mut Detected) {
    let nest = Nest::new(facts, shapes);
    blocks::note(&nest, found);
    order::note(&nest, &reference.order, found);
    packing::note(&nest, found);
    registers::note(&nest, found);
    unroll::note(&nest, found);
    partial_sums::note(&nest, found);
    skewing::note(&nest, &reference.order, found);
    fission::note(&nest, &reference.together, found);
    recomputation::note(&nest, &reference.kept, found);
    if reference.listed.contains(Technique::LayoutChange) {
        layout::note(&nest, found);
    }
    fusion::note(&nest, &reference.apart, found);
    branches::note(&nest, &reference.branches, found);
}
