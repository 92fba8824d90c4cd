//! From programs back to schedules.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Schedule, Space};

/// Maps each program of a space to its schedule, independently of the program's author.
#[derive(Debug, Clone)]
pub struct Index {
    by_hash: HashMap<u64, Schedule>,
}

impl Index {
    /// Renders every program of `space`: some tenths of a second and a few megabytes for matrix multiplication.
    pub fn new(space: &Space) -> Self {
        Self {
            by_hash: space.all().map(|s| (hash(&s.render()), s)).collect(),
        }
    }

    /// The schedule that renders to exactly `program`, if the space has one.
    pub fn schedule(&self, program: &str) -> Option<Schedule> {
        let schedule = *self.by_hash.get(&hash(program))?;
        (schedule.render() == program).then_some(schedule)
    }
}

/// Keys are hashes: the texts would take ten times the memory.
fn hash(program: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    program.hash(&mut hasher);
    hasher.finish()
}
