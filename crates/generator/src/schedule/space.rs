//! The space: its schedules, and random draws from it.

use flopsmith_protocol::{Technique, TechniqueSet};
use rand::Rng;

use super::{Axis, Block, Body, Order, Outer, Pack, Schedule};

/// A schedule space.
#[derive(Debug, Clone)]
pub struct Space {
    vectors: Vec<u32>,
    rows: Vec<u32>,
    columns: Vec<u32>,
    unrolls: Vec<u32>,
    blocks: Vec<u32>,
    prefetches: Vec<u32>,
}

impl Space {
    /// The space of a problem; `None` if the problem has no space.
    pub fn of(problem: &str) -> Option<Self> {
        (problem == "dgemm").then(Self::dgemm)
    }

    /// The space of matrix multiplication.
    pub fn dgemm() -> Self {
        Self {
            vectors: vec![16, 32, 64],
            rows: vec![1, 2, 3, 4, 5, 6, 8],
            columns: vec![1, 2, 3, 4, 8],
            unrolls: vec![2, 4, 8],
            blocks: vec![32, 64],
            prefetches: vec![2, 4, 8],
        }
    }

    /// The techniques that occur in the space.
    pub fn techniques(&self) -> TechniqueSet {
        TechniqueSet::general()
    }

    /// A program that uses exactly `set`; `None` if there is no such program.
    pub fn sample_exact(&self, rng: &mut impl Rng, set: TechniqueSet) -> Option<Schedule> {
        // Most draws fit at once; for a set without programs every draw fails.
        (0..64)
            .map(|_| self.draw(rng, set))
            .find(|s| s.is_valid() && s.techniques() == set)
    }

    /// A program whose techniques are all in `permitted`.
    pub fn sample(&self, rng: &mut impl Rng, permitted: TechniqueSet) -> Schedule {
        // No schedule has another technique.
        let permitted = permitted.intersection(TechniqueSet::general());
        for _ in 0..64 {
            let wanted: TechniqueSet = permitted.iter().filter(|_| rng.random_bool(0.6)).collect();
            if let Some(schedule) = self.sample_exact(rng, wanted) {
                return schedule;
            }
        }
        Schedule::PLAIN
    }

    fn draw(&self, rng: &mut impl Rng, set: TechniqueSet) -> Schedule {
        let has = |t| set.contains(t);
        let vector = pick(rng, has(Technique::Simd), &self.vectors, 0);
        let unroll = pick(rng, has(Technique::Unroll), &self.unrolls, 1);
        let prefetch = pick(rng, has(Technique::Prefetch), &self.prefetches, 0);
        let block = has(Technique::CacheBlocking).then(|| self.block(rng));
        let blocked = has(Technique::RegisterBlocking);
        let rows = pick(rng, blocked, &self.rows, 1);
        let columns = pick(rng, blocked, &self.columns, 1);
        let reordered = has(Technique::LoopReorder);
        let stream = reordered && !blocked && !has(Technique::Packing) && rng.random_bool(0.5);
        let body = if stream {
            Body::Stream(any(rng, &Order::ALL))
        } else {
            let outer = if reordered { Outer::Column } else { Outer::Row };
            let pack = if has(Technique::Packing) {
                any(rng, &[Pack::Panel, Pack::Whole])
            } else {
                Pack::No
            };
            Body::Tile {
                rows,
                columns,
                outer,
                pack,
            }
        };
        Schedule {
            vector,
            body,
            unroll,
            block,
            prefetch,
            openmp: has(Technique::Openmp),
        }
    }

    fn block(&self, rng: &mut impl Rng) -> Block {
        Block {
            axis: any(rng, &Axis::ALL),
            size: any(rng, &self.blocks),
        }
    }

    /// A variation of `schedule` by one or two edits, with techniques within `permitted`.
    pub fn mutate(
        &self,
        schedule: &Schedule,
        rng: &mut impl Rng,
        permitted: TechniqueSet,
    ) -> Schedule {
        for _ in 0..64 {
            let mut next = *schedule;
            self.edit(&mut next, rng);
            if rng.random_bool(0.35) {
                self.edit(&mut next, rng);
            }
            if next != *schedule && next.is_valid() && next.techniques().is_subset(permitted) {
                return next;
            }
        }
        self.sample(rng, permitted)
    }

    fn edit(&self, schedule: &mut Schedule, rng: &mut impl Rng) {
        let on = rng.random_bool(0.75);
        match (rng.random_range(0..10), &mut schedule.body) {
            (0, _) => schedule.vector = pick(rng, on, &self.vectors, 0),
            (1, _) => schedule.unroll = pick(rng, on, &self.unrolls, 1),
            (2, _) => schedule.block = on.then(|| self.block(rng)),
            (3, _) => schedule.prefetch = pick(rng, on, &self.prefetches, 0),
            (4, _) => schedule.openmp = !schedule.openmp,
            (5, body @ Body::Tile { .. }) => *body = Body::Stream(any(rng, &Order::ALL)),
            (6, Body::Tile { rows, .. }) => *rows = any(rng, &self.rows),
            (7, Body::Tile { columns, .. }) => *columns = any(rng, &self.columns),
            (8, Body::Tile { outer, .. }) => *outer = any(rng, &[Outer::Row, Outer::Column]),
            (_, Body::Tile { pack, .. }) => *pack = any(rng, &Pack::ALL),
            (5..=7, Body::Stream(order)) => *order = any(rng, &Order::ALL),
            (_, body @ Body::Stream(_)) => {
                let outer = any(rng, &[Outer::Row, Outer::Column]);
                *body = Body::Tile {
                    rows: any(rng, &self.rows),
                    columns: any(rng, &self.columns),
                    outer,
                    pack: Pack::No,
                };
            }
        }
    }

    /// A child with each gene from one of two parents, techniques within `permitted`.
    pub fn crossover(
        &self,
        a: &Schedule,
        b: &Schedule,
        rng: &mut impl Rng,
        permitted: TechniqueSet,
    ) -> Schedule {
        for _ in 0..16 {
            let mut gene = || if rng.random_bool(0.5) { a } else { b };
            let child = Schedule {
                vector: gene().vector,
                body: gene().body,
                unroll: gene().unroll,
                block: gene().block,
                prefetch: gene().prefetch,
                openmp: gene().openmp,
            };
            let child = Schedule {
                body: Self::tile_of_both(child.body, a.body, b.body, rng),
                ..child
            };
            if child.is_valid() && child.techniques().is_subset(permitted) {
                return child;
            }
        }
        self.mutate(a, rng, permitted)
    }

    /// Two tiles are mixed number by number; other bodies are inherited whole.
    fn tile_of_both(chosen: Body, a: Body, b: Body, rng: &mut impl Rng) -> Body {
        let (
            Body::Tile {
                rows: r,
                columns: c,
                outer: o,
                pack: p,
            },
            Body::Tile {
                rows: r2,
                columns: c2,
                outer: o2,
                pack: p2,
            },
        ) = (a, b)
        else {
            return chosen;
        };
        Body::Tile {
            rows: any(rng, &[r, r2]),
            columns: any(rng, &[c, c2]),
            outer: any(rng, &[o, o2]),
            pack: any(rng, &[p, p2]),
        }
    }

    /// Every valid schedule.
    pub fn all(&self) -> impl Iterator<Item = Schedule> + '_ {
        let mut blocks = vec![None];
        for axis in Axis::ALL {
            blocks.extend(self.blocks.iter().map(|&size| Some(Block { axis, size })));
        }
        let mut settings = Vec::new();
        for vector in with(0, &self.vectors) {
            for unroll in with(1, &self.unrolls) {
                for prefetch in with(0, &self.prefetches) {
                    for &block in &blocks {
                        for openmp in [false, true] {
                            settings.push(Schedule {
                                vector,
                                unroll,
                                prefetch,
                                block,
                                openmp,
                                ..Schedule::PLAIN
                            });
                        }
                    }
                }
            }
        }
        self.bodies()
            .into_iter()
            .flat_map(move |body| {
                settings
                    .clone()
                    .into_iter()
                    .map(move |s| Schedule { body, ..s })
            })
            .filter(Schedule::is_valid)
    }

    fn bodies(&self) -> Vec<Body> {
        let mut bodies: Vec<Body> = Order::ALL.into_iter().map(Body::Stream).collect();
        for &rows in &self.rows {
            for &columns in &self.columns {
                for outer in [Outer::Row, Outer::Column] {
                    bodies.extend(Pack::ALL.map(|pack| Body::Tile {
                        rows,
                        columns,
                        outer,
                        pack,
                    }));
                }
            }
        }
        bodies
    }
}

/// One of `from`, which is never empty.
fn any<T: Copy>(rng: &mut impl Rng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())]
}

/// One of `from` if `on`, otherwise `off`.
fn pick(rng: &mut impl Rng, on: bool, from: &[u32], off: u32) -> u32 {
    if on { any(rng, from) } else { off }
}

fn with(off: u32, on: &[u32]) -> Vec<u32> {
    std::iter::once(off).chain(on.iter().copied()).collect()
}
