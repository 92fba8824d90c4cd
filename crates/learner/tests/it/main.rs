//! The tests of this crate from outside, in one program, which is linked once.

mod adamw;
mod adapters;
mod batch;
mod learner;
mod loss;
mod memory;
mod pairs;
mod parity;
mod ppo;
mod preferences;
mod restored;
mod sft;
mod tiny;
