//! The tests of this crate from outside, in one program, which is linked once.

mod archive;
mod identity;
mod laws;
mod made;
mod mix;
mod sqd;
mod stages;
