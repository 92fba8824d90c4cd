//! An evolutionary search over the space: the autotuner.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_protocol::TechniqueSet;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Schedule, Space};

/// Parents are drawn from this many of the fastest.
const PARENTS: usize = 32;

/// Programs drawn at random before any of them becomes a parent.
const FIRST: usize = 24;

/// Share of programs drawn at random later, so that no part of the space is given up.
const FRESH: f64 = 0.12;

/// Share of children with two parents among the others.
const CROSSED: f64 = 0.3;

/// The chance to pass over a parent for the next slower one: half of all children come from the first two or three.
const PASS: f64 = 0.75;

/// Proposes programs and learns from their speed. Pure: the same seed and the same reports give the same proposals.
#[derive(Debug, Clone)]
pub struct Search {
    space: Space,
    rng: ChaCha8Rng,
    proposed: BTreeSet<Schedule>,
    speeds: BTreeMap<Schedule, f64>,
}

impl Search {
    /// A search that begins with nothing.
    pub fn new(space: Space, seed: u64) -> Self {
        Self {
            space,
            rng: ChaCha8Rng::seed_from_u64(seed),
            proposed: BTreeSet::new(),
            speeds: BTreeMap::new(),
        }
    }

    /// The space it searches.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// What is drawn from here on comes from `seed`. With a seed for each task,
    /// a search that was given the same reports goes on alike, wherever it had been before.
    pub fn reseed(&mut self, seed: u64) {
        self.rng = ChaCha8Rng::seed_from_u64(seed);
    }

    /// `count` programs to try within `permitted`: new ones as long as there are any.
    pub fn propose(&mut self, count: usize, permitted: TechniqueSet) -> Vec<Schedule> {
        let mut best: Vec<(f64, Schedule)> = self
            .speeds
            .iter()
            .filter(|(s, speed)| **speed > 0.0 && s.techniques().is_subset(permitted))
            .map(|(s, speed)| (*speed, *s))
            .collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        best.truncate(PARENTS);
        (0..count)
            .map(|_| {
                let mut schedule = self.draw(&best, permitted);
                for _ in 0..40 {
                    if !self.proposed.contains(&schedule) {
                        break;
                    }
                    schedule = self.draw(&best, permitted);
                }
                self.proposed.insert(schedule);
                schedule
            })
            .collect()
    }

    fn draw(&mut self, best: &[(f64, Schedule)], permitted: TechniqueSet) -> Schedule {
        if self.speeds.len() < FIRST || self.rng.random_bool(FRESH) {
            return self.space.sample(&mut self.rng, permitted);
        }
        let Some(parent) = self.parent(best) else {
            return self.space.sample(&mut self.rng, permitted);
        };
        match self.parent(best) {
            Some(other) if other != parent && self.rng.random_bool(CROSSED) => self
                .space
                .crossover(&parent, &other, &mut self.rng, permitted),
            _ => self.space.mutate(&parent, &mut self.rng, permitted),
        }
    }

    /// One of the fastest, with a chance that falls geometrically with its rank.
    fn parent(&mut self, best: &[(f64, Schedule)]) -> Option<Schedule> {
        let mut rank = 0;
        while rank + 1 < best.len() && self.rng.random_bool(PASS) {
            rank += 1;
        }
        best.get(rank).map(|(_, schedule)| *schedule)
    }

    /// How a program did; none when it was refused. It need not have been proposed here, and is not proposed any more.
    pub fn report(&mut self, schedule: &Schedule, gflops: Option<f64>) {
        self.proposed.insert(*schedule);
        let speed = gflops.filter(|g| g.is_finite()).unwrap_or(0.0);
        let known = self.speeds.entry(*schedule).or_insert(speed);
        *known = known.max(speed);
    }
}
