//! Derives techniques from the facts of a walk.
//!
//! Each technique has a definition that holds for any loop nest (`docs/decisions/0079-techniques-of-any-loop-nest.md`).
//! The judgement compares the loops around writes, their movement along the dimensions of arguments, and the loops of
//! the problem's reference.

mod blocks;
mod order;
mod packing;
mod partial_sums;
mod registers;
mod roles;
mod skewing;
mod unroll;

use super::Detected;
use super::facts::Facts;
use super::shapes::Shapes;
use roles::Nest;

pub(super) use order::Order;

/// Notes all techniques of the loop nest. `order` is the order of the loops of the reference.
pub(super) fn judge(facts: &Facts, shapes: &Shapes, order: &Order, found: &mut Detected) {
    let nest = Nest::new(facts, shapes);
    blocks::note(&nest, found);
    order::note(&nest, order, found);
    packing::note(&nest, found);
    registers::note(&nest, found);
    unroll::note(&nest, found);
    partial_sums::note(&nest, found);
    skewing::note(&nest, order, found);
}

/// The order of the loops of a program.
pub(super) fn order_of(facts: &Facts, shapes: &Shapes) -> Order {
    Order::of(&Nest::new(facts, shapes))
}
