//! The tests of this crate from outside, in one program, which is linked once.

mod advantage;
mod metrics;
mod reward;
mod turns;
