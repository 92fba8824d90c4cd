//! The tests of this crate from outside, in one program, which is linked once.

mod schedules;
mod templates;
