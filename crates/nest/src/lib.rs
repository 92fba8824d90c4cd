//! Affine loop nests: read from C, transformed, and written as C.
//!
//! [`read`] turns the plain reference of a problem into a [`program::Program`]: statements whose iterations are the integer points of
//! polyhedra, with affine subscripts. [`schedule`] gives them another order: loops interchanged, tiled, skewed, fused or split, with
//! register tiles, vectors, packed operands and threads. [`generate`] writes that order as C. [`space`] draws and changes schedules.
//! [`random`] makes problems of random nests. [`prompt`] states a nest as prompts do, and [`corpus`] makes prompts with programs for a
//! model to learn from, without the nests that [`canonical`] tells to be held-out ones.
//!
//! Invariants:
//! - a schedule that [`generate`] accepts keeps the order of every two iterations that access the same element, one of them writing;
//!   updates of one kind (sums, products, extremes) may change places;
//! - this crate is pure: it runs no compiler and measures nothing, and randomness comes from the caller, as a generator or as a seed.

mod affine;
pub mod canonical;
pub mod corpus;
mod dependence;
mod extents;
pub mod generate;
pub mod labels;
mod leaf;
mod poly;
mod program;
pub mod prompt;
pub mod random;
pub mod read;
mod renamed;
pub mod schedule;
pub mod search;
pub mod space;
mod spelling;

/// A shipped problem, for tests.
#[cfg(test)]
fn shipped(name: &str) -> flopsmith_problem::Problem {
    let folder = flopsmith_test_support::shipped::at(name);
    flopsmith_problem::Problem::load(&folder).expect("a shipped problem is sound")
}
