//! The tests of this crate from outside, in one program, which is linked once.

mod broken;
mod known;
mod wire;
mod workload;
