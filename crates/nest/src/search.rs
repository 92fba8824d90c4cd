//! The search over the schedules of one program: the space of [`flopsmith_search`] whose points are schedules.
//!
//! Before anything is measured, the weights of the features are the rules by which register tiles are chosen by hand (Goto and van de
//! Geijn, 2008; Low et al., 2016): enough sums to hide the latency of a multiply-add, few enough for the registers, vectors as wide as
//! possible. Where the data exceed the caches, a tile should fit the cache of its level (Wolf and Lam, 1991).

use flopsmith_protocol::TechniqueSet;
use flopsmith_search::Written;
use rand::Rng;

use crate::extents::{FIRST_CACHE, SECOND_CACHE};
use crate::generate::{Fact, Space};
use crate::labels::techniques;
use crate::schedule::{Schedule, Style};
use crate::space::{draw, has_one_order, neighbour};

/// Number of features of a program.
const FEATURES: usize = 26;

/// Begins the comment that names a program's schedule.
const MARK: &str = "\n/* schedule: ";
/// Ends it.
const MARK_END: &str = " */\n";

/// The program with its schedule in a comment, so that the schedule can be told from the program.
pub fn marked(text: &str, schedule: &Schedule) -> String {
    let words = serde_json::to_string(schedule).unwrap_or_default();
    format!("{text}{MARK}{words}{MARK_END}")
}

/// Program and schedule of a marked program.
pub fn unmarked(source: &str) -> Option<(&str, Schedule)> {
    let (text, rest) = source.rsplit_once(MARK)?;
    let words = rest.strip_suffix(MARK_END)?;
    Some((text, serde_json::from_str(words).ok()?))
}

/// A program that the search proposes.
pub type Proposal = flopsmith_search::Proposal<Schedule>;

/// A search over the schedules of a program.
pub type Search = flopsmith_search::Search<Schedules>;

/// A search over the schedules of a program whose text is at most `largest` bytes long.
pub fn search(space: Space, largest: usize) -> Search {
    Search::new(Schedules { space, largest })
}

/// The schedules of a program whose text is not too long.
#[derive(Debug, Clone)]
pub struct Schedules {
    space: Space,
    largest: usize,
}

impl Schedules {
    /// See [`has_one_order`].
    pub fn has_one_order(&self, rng: &mut impl Rng) -> bool {
        has_one_order(&self.space, rng)
    }
}

impl flopsmith_search::Space for Schedules {
    type Point = Schedule;

    fn first(&self) -> Schedule {
        self.space.plain()
    }

    fn draw(&self, permitted: TechniqueSet, rng: &mut impl Rng) -> Schedule {
        draw(&self.space, permitted, rng)
    }

    fn neighbour(
        &self,
        schedule: &Schedule,
        permitted: TechniqueSet,
        rng: &mut impl Rng,
    ) -> Schedule {
        neighbour(&self.space, schedule, permitted, rng)
    }

    fn write(&self, schedule: &Schedule) -> Option<Written> {
        let rendered = self.space.render(schedule).ok()?;
        (rendered.text.len() <= self.largest).then(|| Written {
            techniques: techniques(&self.space, &rendered),
            features: features(&self.space, schedule, &rendered.facts).to_vec(),
            text: rendered.text,
        })
    }

    fn prior(&self) -> Vec<f64> {
        prior().to_vec()
    }
}

/// Rules of thumb as weights of the features.
fn prior() -> [f64; FEATURES] {
    let mut weights = [0.0; FEATURES];
    let rules = [
        // A constant, plain loops, `omp simd`, register tiles.
        (1, -0.5),
        (3, 0.5),
        // Vectors of 16, 32 and 64 bytes.
        (4, -0.3),
        (5, 0.2),
        (6, 0.3),
        // Sums in flight, spilled registers, loads for each multiply-add.
        (7, 0.8),
        (8, -1.0),
        (9, -0.8),
        // Elements that are gathered one by one.
        (10, -0.8),
        // Tiles that exceed the first cache, and the second one.
        (23, -0.2),
        (24, -0.4),
    ];
    for (at, weight) in rules {
        weights[at] = weight;
    }
    weights
}

/// Features of a program: means over its leaves, of which deeper ones count more.
fn features(space: &Space, schedule: &Schedule, facts: &[Fact]) -> [f64; FEATURES] {
    let mut sum = [0.0; FEATURES];
    let mut total = 0.0;
    for fact in facts {
        // A loop more means about ten times the work or more.
        let weight = 8f64.powi(fact.depth as i32);
        total += weight;
        for (cell, value) in sum.iter_mut().zip(of_leaf(fact)) {
            *cell += weight * value;
        }
    }
    if total > 0.0 {
        sum.iter_mut().for_each(|cell| *cell /= total);
    }
    let groups = schedule.groups.len().max(1) as f64;
    let share = |holds: &dyn Fn(&crate::schedule::Group) -> bool| {
        schedule.groups.iter().filter(|g| holds(g)).count() as f64 / groups
    };
    sum[0] = 1.0;
    sum[16] = share(&|g| g.tiles.iter().any(|t| *t > 0));
    sum[17] = share(&|g| g.tiles.iter().filter(|t| **t > 0).count() > 1);
    sum[18] = share(&|g| g.fused > 0);
    sum[19] = share(&|g| g.skew.is_some());
    sum[20] = share(&|g| g.openmp);
    sum[21] = share(&|g| !g.order.is_sorted());
    sum[22..].copy_from_slice(&of_tiles(space, schedule));
    sum
}

/// Features of the tiles, as means over the groups: outer tiles; by how much the data of a tile exceed a first cache, and those of an
/// outer tile a second one; by how much these fall below the second cache. Amounts are logarithms of base 1024. All are 0 for programs
/// whose data fit the caches.
fn of_tiles(space: &Space, schedule: &Schedule) -> [f64; 4] {
    let mut sum = [0.0; 4];
    let Some(extents) = space.large() else {
        return sum;
    };
    let members = space.groups(schedule.grouping);
    for (members, group) in members.iter().zip(&schedule.groups) {
        let bytes = |tiles: &[u32]| {
            let number = space.deepest(members)?;
            extents.tile_bytes(&space.program, number, tiles)
        };
        let outer = match group.outer.is_empty() {
            true => &group.tiles,
            false => &group.outer,
        };
        let (Some(tile), Some(outer)) = (bytes(&group.tiles), bytes(outer)) else {
            continue;
        };
        let beyond = |bytes: f64, cache: u64| (bytes / cache as f64).log2() / 10.0;
        sum[0] += f64::from(u8::from(!group.outer.is_empty()));
        sum[1] += beyond(tile, FIRST_CACHE).max(0.0);
        sum[2] += beyond(outer, SECOND_CACHE).max(0.0);
        sum[3] += (-beyond(outer, SECOND_CACHE)).max(0.0);
    }
    let groups = schedule.groups.len().max(1) as f64;
    sum.map(|value| value / groups)
}

/// Features of a leaf, at their places among all.
fn of_leaf(fact: &Fact) -> [f64; FEATURES] {
    let mut all = [0.0; FEATURES];
    let flag = |holds: bool| if holds { 1.0 } else { 0.0 };
    let (rows, columns) = (f64::from(fact.rows), f64::from(fact.columns));
    let sums = rows * columns;
    let registers = if fact.bytes == 64 { 32.0 } else { 16.0 };
    let tile = fact.style == Style::Tile;
    all[1] = flag(fact.style == Style::Plain);
    all[2] = flag(fact.style == Style::Simd);
    all[3] = flag(tile);
    all[4] = flag(fact.bytes == 16);
    all[5] = flag(fact.bytes == 32);
    all[6] = flag(fact.bytes == 64);
    all[7] = flag(tile) * (sums / 8.0).min(1.0);
    all[8] = flag(sums + rows.min(columns) + 1.0 > registers);
    all[9] = flag(tile) * (rows + columns) / (2.0 * sums);
    all[10] = flag(fact.far > fact.packed);
    all[11] = f64::from(fact.far.saturating_sub(fact.packed)).ln_1p();
    all[12] = flag(fact.packed > 0);
    all[13] = flag(fact.across);
    all[14] = f64::from(fact.unroll).log2();
    all[15] = flag(fact.prefetch > 0);
    all
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn search_of(name: &str) -> Search {
        let problem = crate::shipped(name);
        let program = crate::read::read(&problem).expect("it is affine");
        super::search(Space::new(program), 16_384)
    }

    #[test]
    fn nothing_is_proposed_twice_and_the_best_is_found_among_neighbours() {
        let mut search = search_of("dgemm");
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        // A landscape with its peak at 6 rows of 2 wide vectors.
        let speed = |p: &Proposal| {
            let leaf = &p.point.groups.last().expect("a group").leaf;
            let rows = leaf.rows.map_or(1, |r| r.1);
            let tile = leaf.style == Style::Tile;
            let wide = f64::from(leaf.vector) / 64.0;
            f64::from(u8::from(tile)) * (rows * leaf.columns.1.min(2)).min(12) as f64 * wide + 1.0
        };
        let mut seen = std::collections::HashSet::new();
        for _ in 0..30 {
            for proposal in search.propose(8, TechniqueSet::all(), &|_, _| true, &mut rng) {
                assert!(seen.insert(proposal.text.clone()), "it was proposed before");
                let speed = speed(&proposal);
                search.report(&proposal.text, Some(speed));
            }
        }
        let best = search.best().expect("something was measured").1;
        assert!(best > 9.0, "{best}");
    }

    #[test]
    fn proposals_stay_within_the_permitted_techniques() {
        let mut search = search_of("dsyrk");
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let permitted: TechniqueSet = "unroll+simd".parse().expect("techniques");
        let all = search.propose(12, permitted, &|_, _| true, &mut rng);
        assert!(all.len() > 3, "{}", all.len());
        for proposal in all {
            assert!(proposal.techniques.is_subset(permitted), "{proposal:?}");
        }
    }

    #[test]
    fn tiles_have_features_only_where_data_exceed_the_caches() {
        let problem = crate::shipped("transpose");
        let space = |rows: i64| {
            let size = [("m".to_owned(), rows), ("n".to_owned(), rows)];
            let problem = problem.timed_at(size.into());
            let program = crate::read::read(&problem).expect("it is affine");
            Space::new(program).timed_as(&problem)
        };
        let of = |rows: i64, tiles: [u32; 2], outer: &[u32]| {
            let space = space(rows);
            let mut schedule = space.plain();
            schedule.groups[0].tiles = tiles.to_vec();
            schedule.groups[0].outer = outer.to_vec();
            of_tiles(&space, &schedule)
        };
        assert_eq!(of(256, [64, 64], &[]), [0.0; 4]);
        // Two blocks of doubles: of 1024 and of 64 rows, that is 2⁴ times a second cache, and twice a first cache and 2⁻⁴ times a
        // second one.
        assert_eq!(of(1024, [0, 0], &[]), [0.0, 0.9, 0.4, 0.0]);
        assert_eq!(of(1024, [64, 64], &[]), [0.0, 0.1, 0.0, 0.4]);
        assert_eq!(of(1024, [64, 64], &[256, 256]), [1.0, 0.1, 0.0, 0.0]);
        // A loop without an outer tile runs to its end in each outer tile.
        assert_eq!(of(1024, [64, 64], &[256, 0]), [1.0, 0.1, 0.2, 0.0]);
    }

    #[test]
    fn a_marked_program_tells_its_schedule() {
        let mut search = search_of("lu");
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for proposal in search.propose(5, TechniqueSet::all(), &|_, _| true, &mut rng) {
            let source = marked(&proposal.text, &proposal.point);
            let (text, schedule) = unmarked(&source).expect("it is marked");
            assert_eq!((text, &schedule), (proposal.text.as_str(), &proposal.point));
            assert!(search.register(text, &schedule));
        }
        assert_eq!(unmarked("int x;"), None);
    }
}
