//! The tests of this crate from outside, in one program, which is linked once.

mod bench_page;
mod evaluation_page;
mod page;
mod well_formed;
