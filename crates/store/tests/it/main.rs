//! The tests of this crate from outside, in one program, which is linked once.

mod artifacts;
mod checkpoints;
mod interrupted;
mod s3;
