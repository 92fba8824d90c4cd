use flopsmith_protocol::TechniqueSet;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::read::{read, read_source};
use crate::shipped;

/// The lines of a program that begin loops.
fn loops(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| line.starts_with("for ")).collect()
}

/// One loop with a tile of 8 and this outer tile.
fn one_loop(outer: &[u32]) -> Result<Rendered, Error> {
    let source = "void prefix_sum(int n, const int *in, int *out) {
        for (int i = 0; i < n; i++) out[i] = 3 * in[i];
    }";
    let program = read_source(&shipped("prefix_sum"), source).expect("it is affine");
    let space = Space::new(program);
    let mut schedule = space.plain();
    schedule.groups[0].tiles = vec![8];
    schedule.groups[0].outer = outer.to_vec();
    space.render(&schedule)
}

#[test]
fn tiles_within_outer_tiles_end_where_those_end() {
    let text = |outer: &[u32]| one_loop(outer).expect("every order is legal").text;
    let one_level = [
        "for (long i_tile = 0; i_tile <= floored(n - 1, 8); i_tile++) {",
        "for (long i = 8 * i_tile; i <= least(n - 1, 8 * i_tile + 7); i++) {",
    ];
    let none: [&[u32]; 2] = [&[], &[0]];
    for none in none {
        assert_eq!(loops(&text(none)), one_level);
    }
    // Two tiles fill an outer one. Only the end of the array cuts a tile off.
    assert_eq!(
        loops(&text(&[16])),
        [
            "for (long i_outer = 0; i_outer <= floored(n - 1, 16); i_outer++) {",
            "for (long i_tile = 0; i_tile <= least(1, floored(-16 * i_outer + n - 1, 8)); i_tile++) {",
            "for (long i = 16 * i_outer + 8 * i_tile; i <= least(n - 1, 16 * i_outer + 8 * i_tile + 7); i++) {",
        ]
    );
    // The third tile has half of its elements: the outer one ends there.
    assert_eq!(
        loops(&text(&[20])),
        [
            "for (long i_outer = 0; i_outer <= floored(n - 1, 20); i_outer++) {",
            "for (long i_tile = 0; i_tile <= least(2, floored(-20 * i_outer + n - 1, 8)); i_tile++) {",
            "for (long i = 20 * i_outer + 8 * i_tile; i <= least(least(n - 1, 20 * i_outer + 19), 20 * i_outer + 8 * i_tile + 7); i++) {",
        ]
    );
}

#[test]
fn an_outer_tile_is_larger_than_its_tile_and_has_one() {
    let wrong: [&[u32]; 3] = [&[8], &[4], &[16, 16]];
    for outer in wrong {
        let refused = one_loop(outer);
        assert!(matches!(refused, Err(Error::Misfit(_))), "{outer:?}");
    }
    let program = read(&shipped("transpose")).expect("it is affine");
    let space = Space::new(program);
    let mut schedule = space.plain();
    schedule.groups[0].tiles = vec![8, 0];
    schedule.groups[0].outer = vec![0, 16];
    let refused = space.render(&schedule);
    assert!(matches!(refused, Err(Error::Misfit(_))), "{refused:?}");
}

/// A band of loops may be tiled at two levels if and only if it may be tiled at one, with tiles of either size.
#[test]
fn tiles_of_two_levels_are_legal_where_tiles_of_one_level_are() {
    let (mut legal, mut refused) = (0, 0);
    for name in ["dgemm", "transpose", "floyd_warshall"] {
        let space = Space::new(read(&shipped(name)).expect("it is affine"));
        for grouping in [Grouping::Apart, Grouping::AsRead] {
            let plain = space.plain_in(grouping);
            let deepest = plain.groups.iter().map(|g| g.order.len()).max();
            // Each set of dimensions.
            let bands = 1u32 << deepest.unwrap_or(0);
            for band in 1..bands {
                let sizes = |group: &Group, size: u32| -> Vec<u32> {
                    let each = (0..group.order.len()).map(|d| ((band >> d) & 1) * size);
                    each.collect()
                };
                let is_legal = |tile: u32, outer: Option<u32>| {
                    let mut schedule = plain.clone();
                    for group in &mut schedule.groups {
                        group.tiles = sizes(group, tile);
                        group.outer = outer.map_or_else(Vec::new, |outer| sizes(group, outer));
                    }
                    space.render(&schedule).is_ok()
                };
                let one_level = is_legal(8, None) && is_legal(32, None);
                let two_levels = is_legal(8, Some(32));
                assert_eq!(two_levels, one_level, "{name}: {grouping:?} {band:b}");
                match two_levels {
                    true => legal += 1,
                    false => refused += 1,
                }
            }
        }
    }
    assert!(legal >= 8 && refused >= 1, "{legal} {refused}");
}

#[test]
fn a_local_array_does_not_hide_a_function_of_the_program() {
    let source = "void prefix_sum(int n, const int *in, int *out) {
        for (int i = 0; i < n; i++) {
            int most = in[i];
            for (int j = 1; j < n; j++)
                if (in[j] > most)
                    most = in[j];
            for (int j = 1; j < n; j++)
                out[j] = out[j] + most;
        }
    }";
    let program = read_source(&shipped("prefix_sum"), source).expect("it is affine");
    let space = Space::new(program);
    let mut schedule = space.plain();
    schedule.groups[0].tiles = vec![0, 8];
    let text = space.render(&schedule).expect("the order stays").text;
    assert!(text.contains("most("), "{text}");
    assert!(!text.contains("most["), "{text}");
}

/// Two arguments of this problem are called like the values of register tiles: `x1` and `x2`.
#[test]
fn values_of_a_tile_do_not_hide_arguments() {
    let problem = shipped("polybench/polybench_mvt");
    let space = Space::new(read(&problem).expect("it is affine"));
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut rendered = 0;
    for _ in 0..300 {
        let schedule = crate::space::draw(&space, TechniqueSet::all(), &mut rng);
        let Ok(program) = space.render(&schedule) else {
            continue;
        };
        rendered += 1;
        for name in [" x1 = ", " x2 = "] {
            assert!(!program.text.contains(name), "{}", program.text);
        }
    }
    assert!(rendered >= 30, "{rendered}");
}
