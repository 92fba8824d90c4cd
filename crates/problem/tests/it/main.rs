//! The tests of this crate from outside, in one program: it is linked once.

mod arguments;
mod broken;
mod definitions;
mod shipped_workloads;
mod targets;
mod workloads;
