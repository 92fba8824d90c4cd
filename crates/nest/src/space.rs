//! Draws and changes schedules.

use flopsmith_protocol::{Technique, TechniqueSet};
use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};

use crate::affine::Var;
use crate::generate::{Fact, Members, Rendered, Space, fills};
use crate::program::Statement;
use crate::schedule::{Group, Grouping, Leaf, Schedule, Skew, Style};

/// Schedules that are drawn before a program is said to have one order only: a nest that has to be skewed before its loops may
/// change places meets such an order once in a hundred draws.
const DRAWS: usize = 1000;
/// Sizes of tiles.
const TILES: [u32; 7] = [8, 16, 32, 64, 96, 128, 256];
/// Sizes of outer tiles.
const OUTER: [u32; 9] = [64, 96, 128, 192, 256, 384, 512, 768, 1024];
/// Smaller tiles belong to the registers rather than to a first cache, and have no outer tiles around them.
const LEAST_WITHIN: u32 = 32;
/// Share of the tiled groups that have outer tiles, where the data exceed the caches.
const OUTER_SHARE: f64 = 0.4;
/// Share of the neighbours that differ by their outer tiles, where the data exceed the caches.
const OUTER_CHANGED: f64 = 0.15;
/// Rows of register tiles.
const ROWS: [u32; 6] = [2, 3, 4, 6, 8, 12];
/// Vectors in a row of a register tile.
const COLUMNS: [u32; 4] = [1, 2, 3, 4];
/// Bytes of vectors.
const VECTORS: [u32; 3] = [16, 32, 64];

/// Draws a schedule within the permitted techniques. It may break a dependence, which [`Space::render`] finds.
pub fn draw(space: &Space, permitted: TechniqueSet, rng: &mut impl Rng) -> Schedule {
    let grouping = match rng.random_bool(0.7) {
        true => Grouping::Apart,
        false => Grouping::AsRead,
    };
    let groups = space.groups(grouping);
    Schedule {
        grouping,
        groups: groups
            .iter()
            .map(|members| group(space, members, permitted, rng))
            .collect(),
    }
}

/// True if dependences seem to forbid every other order of the iterations, and to share them between lanes, tiles or threads. What
/// is left is to unroll loops, to cut them into blocks in their order, and to prefetch.
pub fn has_one_order(space: &Space, rng: &mut impl Rng) -> bool {
    let Ok(plain) = space.render(&space.plain()) else {
        return false;
    };
    let order = order_of(&plain);
    let shares =
        |fact: &Fact| fact.style == Style::Simd || fact.lanes > 1 || fact.rows * fact.columns > 1;
    let is_other = |rendered: &Rendered| {
        order_of(rendered) != order
            || rendered.facts.iter().any(shares)
            || rendered.text.contains("omp parallel")
    };
    !is_regrouped(space, &plain)
        && !(0..DRAWS).any(|_| {
            let schedule = draw(space, TechniqueSet::all(), rng);
            space.render(&schedule).is_ok_and(|r| is_other(&r))
        })
}

/// The loops around each statement. Blocks of a loop right around it change no order.
fn order_of(rendered: &Rendered) -> Vec<(usize, Vec<Var>)> {
    let walks = rendered.walks.iter().map(|walk| {
        let mut loops: Vec<Var> = walk.rounds.iter().map(|(var, _)| *var).collect();
        loops.dedup();
        (walk.statement, loops)
    });
    walks.collect()
}

/// True if statements may share other loops than in the plain program.
fn is_regrouped(space: &Space, plain: &Rendered) -> bool {
    let several = space.program.statements.len() > 1;
    several
        && [Grouping::Apart, Grouping::AsRead]
            .into_iter()
            .any(|grouping| {
                let schedule = space.plain_in(grouping);
                let deepest = schedule.groups.iter().map(|group| group.order.len()).max();
                (0..=deepest.unwrap_or(0)).any(|fused| {
                    let mut other = schedule.clone();
                    other
                        .groups
                        .iter_mut()
                        .for_each(|group| group.fused = fused);
                    space.render(&other).is_ok_and(|r| r.text != plain.text)
                })
            })
}

/// Draws the order of a group.
pub fn group(
    space: &Space,
    members: &Members,
    permitted: TechniqueSet,
    rng: &mut impl Rng,
) -> Group {
    let may = |technique| permitted.contains(technique);
    let dimensions = members.dimensions;
    let mut order: Vec<usize> = (0..dimensions).collect();
    if may(Technique::LoopReorder) && rng.random_bool(0.7) {
        order.shuffle(rng);
    }
    let mut tiles = vec![0; dimensions];
    if may(Technique::CacheBlocking) && rng.random_bool(0.4) {
        for tile in &mut tiles {
            if rng.random_bool(0.6) {
                *tile = any(rng, &TILES);
            }
        }
    }
    let outer = match tiles.iter().any(|tile| *tile > 0) && space.large().is_some() {
        true if rng.random_bool(OUTER_SHARE) => outer(space, members, &tiles, rng),
        _ => Vec::new(),
    };
    let fills = fills(&space.program, members)
        .iter()
        .map(|known| rng.random_range(0..known.len()))
        .collect();
    let skew =
        (dimensions > 1 && members.statements.len() < 4 && rng.random_bool(0.1)).then(|| {
            let dimension = rng.random_range(1..dimensions);
            Skew {
                dimension,
                by: 0,
                factor: rng.random_range(1..=2),
                shift: rng.random_range(0..=1),
            }
        });
    Group {
        order,
        tiles,
        outer,
        skew,
        fills,
        fused: match rng.random_bool(0.3) {
            true => rng.random_range(0..=dimensions),
            false => 0,
        },
        openmp: may(Technique::Openmp) && rng.random_bool(0.4),
        leaf: leaf(space, members, permitted, rng),
    }
}

/// Draws the outer tiles around `tiles`: larger than these, and smaller than the range of their loop at the timed size.
fn outer(space: &Space, members: &Members, tiles: &[u32], rng: &mut impl Rng) -> Vec<u32> {
    let deepest = space.deepest(members);
    let mut outer = vec![0; tiles.len()];
    for (dimension, (drawn, tile)) in outer.iter_mut().zip(tiles).enumerate() {
        let range = space
            .large()
            .zip(deepest)
            .and_then(|(extents, number)| extents.count(number, dimension));
        let fits = |size: &u32| *size > *tile && range.is_none_or(|range| u64::from(*size) < range);
        let open: Vec<u32> = OUTER.into_iter().filter(fits).collect();
        if *tile >= LEAST_WITHIN && !open.is_empty() && rng.random_bool(0.7) {
            *drawn = any(rng, &open);
        }
    }
    shown(outer)
}

/// Sizes of outer tiles as a group has them: nothing for no outer tile.
fn shown(outer: Vec<u32>) -> Vec<u32> {
    match outer.iter().any(|size| *size > 0) {
        true => outer,
        false => Vec::new(),
    }
}

/// Leaves out the outer tiles that do not fit the tiles of a group.
fn fitted(group: &mut Group) {
    let pairs = group.outer.iter_mut().zip(&group.tiles);
    for (outer, tile) in pairs {
        if *tile < LEAST_WITHIN || *outer <= *tile {
            *outer = 0;
        }
    }
    group.outer = shown(std::mem::take(&mut group.outer));
}

fn leaf(space: &Space, members: &Members, permitted: TechniqueSet, rng: &mut impl Rng) -> Leaf {
    let may = |technique| permitted.contains(technique);
    let dimensions = members.dimensions.max(1);
    let unroll = match may(Technique::Unroll) {
        true => any(rng, &[1, 1, 2, 4]),
        false => 1,
    };
    let prefetch = match may(Technique::Prefetch) && rng.random_bool(0.15) {
        true => any(rng, &[4, 8, 16]),
        false => 0,
    };
    let mut leaf = Leaf {
        unroll,
        prefetch,
        ..Leaf::PLAIN
    };
    if !may(Technique::Simd) {
        return leaf;
    }
    leaf.style = any(
        rng,
        &[
            Style::Plain,
            Style::Simd,
            Style::Tile,
            Style::Tile,
            Style::Tile,
        ],
    );
    if leaf.style != Style::Tile {
        return leaf;
    }
    leaf.vector = any(rng, &VECTORS);
    let along = promising(space, members);
    leaf.along = along.choose(rng).copied().unwrap_or(dimensions - 1);
    if may(Technique::RegisterBlocking) {
        let other = rng.random_range(0..dimensions);
        leaf.rows = (other != leaf.along && rng.random_bool(0.8)).then(|| (other, any(rng, &ROWS)));
        let column = rng.random_range(0..dimensions);
        leaf.columns = (column, any(rng, &COLUMNS));
    }
    leaf.pack = may(Technique::Packing) && rng.random_bool(0.4);
    leaf
}

/// The dimensions along which vectors may lie: those in which an access moves to the next element.
fn promising(space: &Space, members: &Members) -> Vec<usize> {
    let mut found = Vec::new();
    for (rank, number) in members.statements.iter().enumerate() {
        let statement: &Statement = &space.program.statements[*number];
        let dimensions = members.dimensions_of(rank);
        for (iterator, dimension) in statement.iterators.iter().zip(dimensions) {
            let next = statement
                .reads()
                .into_iter()
                .chain([&statement.target])
                .any(|a| a.subscripts.last().is_some_and(|s| s.of(*iterator) == 1));
            if next && !found.contains(dimension) {
                found.push(*dimension);
            }
        }
    }
    found
}

/// A schedule that differs from `schedule` in one choice of one group.
pub fn neighbour(
    space: &Space,
    schedule: &Schedule,
    permitted: TechniqueSet,
    rng: &mut impl Rng,
) -> Schedule {
    let members = space.groups(schedule.grouping);
    if schedule.groups.is_empty() || rng.random_bool(0.05) {
        return draw(space, permitted, rng);
    }
    let mut changed = schedule.clone();
    // Groups with more iterations deserve more attention.
    let weights: Vec<usize> = members
        .iter()
        .map(|m| 1 + m.dimensions * m.dimensions)
        .collect();
    let mut left = rng.random_range(0..weights.iter().sum::<usize>());
    let at = weights
        .iter()
        .position(|weight| {
            let here = left < *weight;
            left = left.saturating_sub(*weight);
            here
        })
        .unwrap_or(0);
    let tiled = changed.groups[at].tiles.iter().any(|tile| *tile > 0);
    let twice = tiled && space.large().is_some() && permitted.contains(Technique::CacheBlocking);
    if twice && rng.random_bool(OUTER_CHANGED) {
        let old = &mut changed.groups[at];
        old.outer = outer(space, &members[at], &old.tiles, rng);
        return changed;
    }
    let fresh = group(space, &members[at], permitted, rng);
    let old = &mut changed.groups[at];
    match rng.random_range(0..10) {
        0 => old.order = fresh.order,
        1 => {
            old.tiles = fresh.tiles;
            old.outer = fresh.outer;
        }
        2 => {
            if let Some(n) = (0..old.tiles.len()).collect::<Vec<_>>().choose(rng) {
                old.tiles[*n] = fresh.tiles[*n];
            }
            fitted(old);
        }
        3 => old.skew = fresh.skew,
        4 => old.fills = fresh.fills,
        5 => old.fused = fresh.fused,
        6 => old.leaf = fresh.leaf,
        7 => old.leaf.rows = fresh.leaf.rows,
        8 => {
            old.leaf.columns = fresh.leaf.columns;
            old.leaf.unroll = fresh.leaf.unroll;
            old.leaf.pack = fresh.leaf.pack;
        }
        _ => *old = fresh,
    }
    changed
}

fn any<T: Copy>(rng: &mut impl Rng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())]
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::read::{read, read_source};
    use crate::shipped;

    /// The space of a matrix product that is timed with this many rows.
    fn product(rows: i64) -> Space {
        let problem = shipped("dgemm").timed_at([("n".to_owned(), rows)].into());
        Space::new(read(&problem).expect("it is affine")).timed_as(&problem)
    }

    /// Schedules of a walk through the space.
    fn walk(space: &Space, permitted: TechniqueSet, seed: u64) -> Vec<Schedule> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut all = vec![draw(space, permitted, &mut rng)];
        for _ in 0..400 {
            let next = neighbour(space, &all[all.len() - 1], permitted, &mut rng);
            all.push(next);
        }
        all
    }

    fn tiled_twice(schedule: &Schedule) -> bool {
        schedule.groups.iter().any(|group| !group.outer.is_empty())
    }

    #[test]
    fn data_that_fit_a_cache_change_no_draw() {
        // 192 rows have 0.8 MiB, and 256 rows have 1.5 MiB.
        let problem = shipped("dgemm");
        let untimed = Space::new(read(&problem).expect("it is affine"));
        let permitted = TechniqueSet::all();
        for seed in 0..4 {
            let schedules = walk(&untimed, permitted, seed);
            assert!(!schedules.iter().any(tiled_twice));
            assert_eq!(walk(&product(192), permitted, seed), schedules);
        }
        assert!(walk(&product(256), permitted, 0).iter().any(tiled_twice));
    }

    #[test]
    fn larger_data_draw_outer_tiles_that_hold_tiles_and_stay_within_their_loops() {
        let space = product(700);
        let schedules = walk(&space, TechniqueSet::all(), 5);
        let twice = schedules.iter().filter(|s| tiled_twice(s)).count();
        assert!((20..300).contains(&twice), "{twice} of {}", schedules.len());
        let mut ragged = 0;
        for schedule in &schedules {
            for group in &schedule.groups {
                for (outer, tile) in group.outer.iter().zip(&group.tiles) {
                    assert!(*outer == 0 || outer > tile && *tile >= 32, "{group:?}");
                    assert!(*outer < 700, "{group:?}");
                    ragged += usize::from(*outer > 0 && outer % tile > 0);
                }
            }
        }
        for schedule in schedules.iter().filter(|s| tiled_twice(s)).take(40) {
            let misfit = matches!(
                space.render(schedule),
                Err(crate::generate::Error::Misfit(_))
            );
            assert!(!misfit, "{schedule:?}");
        }
        assert!(ragged > 0, "every outer tile is a multiple of its tile");
        let unblocked = TechniqueSet::all().without(Technique::CacheBlocking);
        assert!(!walk(&space, unblocked, 5).iter().any(tiled_twice));
    }

    #[test]
    fn a_recurrence_has_one_order_and_other_nests_have_more() {
        let has_one_order = |program| {
            let mut rng = ChaCha8Rng::seed_from_u64(0);
            super::has_one_order(&Space::new(program), &mut rng)
        };
        let of = |body: &str| {
            let source = format!("void prefix_sum(int n, const int *in, int *out) {{ {body} }}");
            let program = read_source(&shipped("prefix_sum"), &source).expect(body);
            has_one_order(program)
        };
        assert!(of(
            "for (int i = 1; i < n; i++) out[i] = 3 * out[i - 1] + in[i];"
        ));
        assert!(!of("for (int i = 0; i < n; i++) out[i] = 3 * in[i];"));
        for name in ["dgemm", "lu", "stencil2d"] {
            let program = read(&shipped(name)).expect(name);
            assert!(!has_one_order(program), "{name}");
        }
    }
}
