//! An evolutionary search over the space: the autotuner.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use flopsmith_protocol::TechniqueSet;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::promise::{Choice, Promising};
use super::{Schedule, Space};

/// Number of fastest programs that parents are drawn from.
const PARENTS: usize = 32;

/// Number of programs drawn at random before parents are used.
const FIRST: usize = 24;

/// Share of programs drawn at random later, which keeps every part of the space reachable.
const FRESH: f64 = 0.12;

/// Share of children of two parents, among the programs that have parents.
const CROSSED: f64 = 0.3;

/// The probability of passing over a parent for the next slower one: half of all children come from the first two or
/// three.
const PASS: f64 = 0.75;

/// Share of programs that are drawn from those with the most promising tiles ([`super::promise`]), as long as few of
/// these have been tried within the same permission: a random draw hits a tile that fits the registers once in some
/// hundred programs.
const PROMISING: f64 = 0.75;

/// The same share later.
const STILL_PROMISING: f64 = 0.1;

/// Number of tried programs of the best width below which [`PROMISING`] applies.
const FEW: usize = 24;

/// Number of draws, times the number of shares, for a program that was not tried before and belongs to the own share.
const TRIES: u32 = 40;

/// A proposer's part of the space. Several proposers that work at the same time, without knowing each other's
/// proposals, each keep to a share of their own, and no two of them try the same program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The share's number, from 0.
    pub number: u32,
    /// Number of shares.
    pub of: u32,
}

impl Share {
    /// The only share.
    pub const ALL: Self = Self { number: 0, of: 1 };

    /// True if what `hashed` stands for belongs to the share.
    pub fn has(self, hashed: impl Hash) -> bool {
        if self.of < 2 {
            return true;
        }
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        hashed.hash(&mut hasher);
        // The low bits of an FNV sum are poorly mixed.
        (hasher.finish() >> 32) % u64::from(self.of) == u64::from(self.number % self.of)
    }
}

/// FNV-1a. Shares must be equal on every machine and in every build, which the standard library's hashes do not
/// guarantee.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// A schedule that a search proposes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Child {
    /// The schedule.
    pub schedule: Schedule,
    /// The parents that it varies: none for one that was drawn from the space, two for a crossover.
    pub parents: [Option<Schedule>; 2],
}

impl Child {
    /// A schedule that varies no other.
    fn drawn(schedule: Schedule) -> Self {
        Self {
            schedule,
            parents: [None; 2],
        }
    }
}

/// Proposes programs and learns from their speed. Pure: the same seed and the same reports give the same proposals,
/// independently of the proposals in between.
#[derive(Debug, Clone)]
pub struct Search {
    space: Space,
    rng: ChaCha8Rng,
    speeds: BTreeMap<Schedule, f64>,
    promising: Promising,
}

impl Search {
    /// A search without reports.
    pub fn new(space: Space, seed: u64) -> Self {
        Self {
            promising: Promising::of(&space),
            space,
            rng: ChaCha8Rng::seed_from_u64(seed),
            speeds: BTreeMap::new(),
        }
    }

    /// The space of the search.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Draws from here on follow from `seed`. With a seed for each task, two searches with the same reports continue
    /// alike, independently of their earlier draws.
    pub fn reseed(&mut self, seed: u64) {
        self.rng = ChaCha8Rng::seed_from_u64(seed);
    }

    /// `count` programs to try within `permitted`: different ones without a report, as long as there are any. They come
    /// from the own share as long as it has any.
    pub fn propose(
        &mut self,
        count: usize,
        permitted: TechniqueSet,
        share: Share,
    ) -> Vec<Schedule> {
        let mut best: Vec<(f64, Schedule)> = self
            .speeds
            .iter()
            .filter(|(s, speed)| **speed > 0.0 && s.techniques().is_subset(permitted))
            .map(|(s, speed)| (*speed, *s))
            .collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        best.truncate(PARENTS);
        let best: Vec<Schedule> = best.into_iter().map(|(_, schedule)| schedule).collect();
        let children = self.breed(&best, count, permitted, share);
        children.into_iter().map(|child| child.schedule).collect()
    }

    /// As [`Self::propose`], with children of `parents` instead of the fastest programs. Half of all children come from the first two
    /// or three.
    pub fn breed(
        &mut self,
        parents: &[Schedule],
        count: usize,
        permitted: TechniqueSet,
        share: Share,
    ) -> Vec<Child> {
        let mut choice =
            self.promising
                .within(permitted, |s| self.speeds.get(s).copied(), |s| share.has(s));
        let mut proposed = BTreeSet::new();
        (0..count)
            .map(|_| {
                let mut child = self.draw(parents, &choice, permitted);
                let mut elsewhere = None;
                for _ in 0..TRIES * share.of.max(1) {
                    let schedule = &child.schedule;
                    let tried = self.speeds.contains_key(schedule) || proposed.contains(schedule);
                    if !tried && share.has(schedule) {
                        elsewhere = None;
                        break;
                    }
                    if !tried && elsewhere.is_none() {
                        elsewhere = Some(child);
                    }
                    child = self.draw(parents, &choice, permitted);
                }
                let child = elsewhere.unwrap_or(child);
                choice.remove(&child.schedule);
                proposed.insert(child.schedule);
                child
            })
            .collect()
    }

    fn draw(&mut self, parents: &[Schedule], choice: &Choice, permitted: TechniqueSet) -> Child {
        if let Some(tried) = choice.tried() {
            let few = tried < FEW;
            let share = if few { PROMISING } else { STILL_PROMISING };
            let drawn = self
                .rng
                .random_bool(share)
                .then(|| choice.draw(&mut self.rng));
            if let Some(schedule) = drawn.flatten() {
                return Child::drawn(schedule);
            }
        }
        if self.speeds.len() < FIRST || self.rng.random_bool(FRESH) {
            return Child::drawn(self.space.sample(&mut self.rng, permitted));
        }
        let Some(parent) = self.parent(parents) else {
            return Child::drawn(self.space.sample(&mut self.rng, permitted));
        };
        match self.parent(parents) {
            Some(other) if other != parent && self.rng.random_bool(CROSSED) => Child {
                schedule: self
                    .space
                    .crossover(&parent, &other, &mut self.rng, permitted),
                parents: [Some(parent), Some(other)],
            },
            _ => Child {
                schedule: self.space.mutate(&parent, &mut self.rng, permitted),
                parents: [Some(parent), None],
            },
        }
    }

    /// One of the parents; the probability falls geometrically with the rank.
    fn parent(&mut self, parents: &[Schedule]) -> Option<Schedule> {
        let mut rank = 0;
        while rank + 1 < parents.len() && self.rng.random_bool(PASS) {
            rank += 1;
        }
        parents.get(rank).copied()
    }

    /// Records a program's speed; `None` if the program was refused. The program may come from another source. It is
    /// not proposed again.
    pub fn report(&mut self, schedule: &Schedule, gflops: Option<f64>) {
        let speed = gflops.filter(|g| g.is_finite()).unwrap_or(0.0);
        let known = self.speeds.entry(*schedule).or_insert(speed);
        *known = known.max(speed);
    }
}
