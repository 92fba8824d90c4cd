//! The tests of this crate from outside, in one program, which is linked once.

mod adapters;
mod downloaded;
mod folders;
mod half;
mod live;
mod noise;
mod parity;
mod pass;
mod refill;
mod sampling;
mod templates;
mod text;
mod thread;
mod tokens;
