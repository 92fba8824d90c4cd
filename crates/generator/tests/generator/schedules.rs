//! Every program of the space computes the product, accesses nothing outside, and is held out of the corpus as
//! required.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Command;

use flopsmith_generator::corpus::{self, CorpusConfig};
use flopsmith_generator::schedule::{
    Axis, Block, Body, Index, Order, Outer, Pack, Schedule, Search, Share, Space,
};
use flopsmith_protocol::{Technique, TechniqueSet};
use flopsmith_test_support::sample::Part;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Compiles many programs into one executable that checks each against the plain loops at several sizes.
fn wrong_programs(schedules: &[Schedule], flags: &[&str]) -> Vec<usize> {
    let dir = tempfile::tempdir().unwrap();
    let mut names = String::new();
    let mut sources = Vec::new();
    for (i, schedule) in schedules.iter().enumerate() {
        let path = dir.path().join(format!("p{i}.c"));
        std::fs::write(
            &path,
            schedule
                .render()
                .replace("void dgemm(", &format!("void f{i}(")),
        )
        .unwrap();
        sources.push(path);
        write!(names, "X({i})").unwrap();
    }
    let driver = format!(
        r#"
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
typedef void kernel(int, const double *, const double *, double *);
#define X(i) kernel f##i;
{names}
#undef X
#define X(i) f##i,
static kernel *const all[] = {{ {names} }};
int main(void) {{
    static const int sizes[] = {{64, 128, 192}};
    for (int t = 0; t < 3; t++) {{
        int n = sizes[t], m = n * n;
        double *A = aligned_alloc(64, m * 8), *B = aligned_alloc(64, m * 8), *C = aligned_alloc(64, m * 8), *R = calloc(m, 8);
        for (int i = 0; i < m; i++) A[i] = drand48() - .5, B[i] = drand48() - .5;
        for (int i = 0; i < n; i++) for (int k = 0; k < n; k++) for (int j = 0; j < n; j++) R[i*n+j] += A[i*n+k] * B[k*n+j];
        for (int p = 0; p < {count}; p++) {{
            for (int i = 0; i < m; i++) C[i] = NAN;
            all[p](n, A, B, C);
            for (int i = 0; i < m; i++) if (!(fabs(C[i] - R[i]) < 1e-11)) {{ printf("%d\n", p); break; }}
        }}
        free(A); free(B); free(C); free(R);
    }}
}}
"#,
        count = schedules.len()
    );
    let main = dir.path().join("main.c");
    std::fs::write(&main, driver).unwrap();
    let exe = dir.path().join("all");
    let build = Command::new("gcc")
        .args(["-w", "-march=native", "-fopenmp"])
        .args(flags)
        .arg("-o")
        .arg(&exe)
        .arg(&main)
        .args(&sources)
        .arg("-lm")
        .output()
        .unwrap();
    assert!(
        build.status.success(),
        "{}",
        String::from_utf8_lossy(&build.stderr)
    );
    let run = Command::new(&exe)
        .env("OMP_NUM_THREADS", "2")
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    String::from_utf8(run.stdout)
        .unwrap()
        .lines()
        .map(|l| l.parse().unwrap())
        .collect()
}

fn some(count: usize, seed: u64) -> Vec<Schedule> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let space = Space::dgemm();
    let mut found = vec![Schedule::PLAIN];
    // Each shape at least once, then at random.
    for order in Order::ALL {
        found.push(Schedule {
            body: Body::Stream(order),
            unroll: 2,
            prefetch: 4,
            ..Schedule::PLAIN
        });
    }
    for (rows, columns) in [(3, 3), (5, 2), (6, 1), (8, 4)] {
        for outer in [Outer::Row, Outer::Column] {
            found.push(Schedule {
                vector: 32,
                body: Body::Tile {
                    rows,
                    columns,
                    outer,
                    pack: Pack::Panel,
                },
                ..Schedule::PLAIN
            });
        }
    }
    for (axis, size) in [(Axis::I, 32), (Axis::J, 32), (Axis::K, 64)] {
        let block = Some(Block { axis, size });
        let body = |outer, pack| Body::Tile {
            rows: 4,
            columns: 2,
            outer,
            pack,
        };
        for (outer, pack) in [
            (Outer::Row, Pack::Whole),
            (Outer::Row, Pack::Panel),
            (Outer::Column, Pack::Panel),
        ] {
            let tiled = Schedule {
                vector: 32,
                block,
                body: body(outer, pack),
                openmp: true,
                ..Schedule::PLAIN
            };
            found.extend(tiled.is_valid().then_some(tiled));
        }
        for order in Order::ALL {
            let stream = Schedule {
                block,
                body: Body::Stream(order),
                ..Schedule::PLAIN
            };
            found.extend(stream.is_valid().then_some(stream));
        }
    }
    while found.len() < count {
        found.push(space.sample(&mut rng, TechniqueSet::all()));
    }
    assert!(found.iter().all(Schedule::is_valid));
    found
}

#[test]
fn programs_of_the_space_are_correct() {
    let schedules = some(70, 1);
    let wrong: Vec<_> = wrong_programs(&schedules, &["-O2"])
        .into_iter()
        .map(|i| schedules[i].render())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every nest, vector, block and sharing of the space, each with some unrolling and prefetching.
fn nests() -> Vec<Schedule> {
    let space = Space::dgemm();
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let mut nests: Vec<Schedule> = space
        .all()
        .filter(|s| s.unroll == 1 && s.prefetch == 0)
        .collect();
    for nest in &mut nests {
        nest.unroll = [1, 2, 4, 8][rng.random_range(0..4)];
        nest.prefetch = [0, 2, 8][rng.random_range(0..3)];
    }
    nests
}

fn are_correct(nests: &[Schedule]) {
    for batch in nests.chunks(100) {
        let wrong: Vec<_> = wrong_programs(batch, &["-O1"])
            .into_iter()
            .map(|i| batch[i].render())
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// All nests take minutes (`make nests`). Each commit tries one in this many, and other commits try others.
const SAMPLED: usize = 40;

#[test]
fn a_sample_of_the_nests_of_the_space_is_correct() {
    let sampled: Vec<Schedule> = Part::of_commit(SAMPLED).of(nests()).collect();
    assert!(sampled.len() > 90, "{} nests", sampled.len());
    are_correct(&sampled);
}

#[test]
fn programs_of_the_space_stay_in_their_buffers() {
    let schedules = some(40, 2);
    let wrong = wrong_programs(
        &schedules,
        &[
            "-O1",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover",
        ],
    );
    assert!(wrong.is_empty());
}

#[test]
fn the_corpus_keeps_the_strongest_combinations_back_and_shows_each_technique() {
    let config = CorpusConfig {
        examples: 3000,
        ..CorpusConfig::default()
    };
    let examples = corpus::build(&Space::dgemm(), 7, &config);
    assert_eq!(examples.len(), 3000);
    let mut seen = TechniqueSet::EMPTY;
    for e in &examples {
        let both = e.techniques.contains(Technique::Simd)
            && e.techniques.contains(Technique::RegisterBlocking);
        assert!(!both, "{}", e.program);
        assert!(
            !(e.prompt.contains("simd") && e.prompt.contains("register_blocking")),
            "{}",
            e.prompt
        );
        seen = seen.union(e.techniques);
        for t in e.techniques.iter() {
            assert!(
                e.prompt.contains(t.name()),
                "a prompt permits what its program uses: {}",
                e.prompt
            );
        }
        assert!(e.program.len() < 900, "{}", e.program);
    }
    assert_eq!(seen, config.techniques);
    assert!(corpus::distinct(&examples).len() > 500);
    assert_eq!(
        examples,
        corpus::build(&Space::dgemm(), 7, &config),
        "the same seed gives the same corpus"
    );
}

/// Shown programs change nothing else of a corpus, so its other prompts are those of a corpus without them.
#[test]
fn some_prompts_show_a_program_with_fewer_techniques_to_improve() {
    let space = Space::dgemm();
    let index = Index::new(&space);
    let of = |improve_share| {
        let config = CorpusConfig {
            examples: 400,
            improve_share,
            ..CorpusConfig::default()
        };
        corpus::build(&space, 7, &config)
    };
    let (none, some) = (of(0.0), of(0.25));
    assert_eq!(none.len(), some.len());
    let mut count = 0;
    for (plain, example) in none.iter().zip(&some) {
        assert_eq!(plain.program, example.program);
        assert_eq!(plain.techniques, example.techniques);
        let shown = example.prompt.strip_prefix(&plain.prompt).unwrap();
        if shown.is_empty() {
            continue;
        }
        let slow = shown.strip_prefix("// slow:\n").unwrap();
        let slow = slow.strip_suffix("// fast:\n").unwrap();
        let schedule = index.schedule(slow).unwrap();
        assert!(CorpusConfig::default().shows_program(&schedule));
        let used = schedule.techniques();
        assert!(used.is_subset(plain.techniques) && used != plain.techniques);
        count += 1;
    }
    assert!((50..150).contains(&count), "{count}");
}

/// The property behind composition: vectors and tile sizes change lines above the function, and none below.
#[test]
fn vectors_and_tiles_change_only_the_lines_at_the_top() {
    let below = |s: Schedule| s.render().split_once("void dgemm").unwrap().1.to_owned();
    let with = |vector, rows, columns, outer, pack, block, unroll| Schedule {
        vector,
        body: Body::Tile {
            rows,
            columns,
            outer,
            pack,
        },
        block,
        unroll,
        ..Schedule::PLAIN
    };
    for outer in [Outer::Row, Outer::Column] {
        for pack in Pack::ALL {
            for block in [
                None,
                Some(Block {
                    axis: Axis::K,
                    size: 64,
                }),
            ] {
                for unroll in [1, 4] {
                    let plain = below(with(0, 1, 1, outer, pack, block, unroll));
                    for (vector, rows, columns) in [(32, 1, 1), (0, 4, 2), (32, 4, 2), (64, 2, 1)] {
                        assert_eq!(
                            plain,
                            below(with(vector, rows, columns, outer, pack, block, unroll))
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_search_within_few_permitted_techniques_repeats_itself_only_when_nothing_is_left() {
    let space = Space::dgemm();
    let permitted = TechniqueSet::EMPTY.with(Technique::Unroll);
    let there: BTreeSet<Schedule> = space
        .all()
        .filter(|s| s.techniques().is_subset(permitted))
        .collect();
    let mut search = Search::new(space, 5);
    let mut seen = BTreeSet::new();
    for _ in 0..10 {
        for s in search.propose(2, permitted, Share::ALL) {
            search.report(
                &s,
                if s.unroll == 8 {
                    None
                } else {
                    Some(f64::from(s.unroll))
                },
            );
            seen.insert(s);
        }
    }
    assert_eq!(seen, there);
}

proptest! {
    #[test]
    fn draws_keep_to_what_is_permitted(bits in 0u32..256, seed: u64) {
        let permitted: TechniqueSet = Technique::ALL.into_iter().filter(|t| bits >> (*t as u32) & 1 == 1).collect();
        let space = Space::dgemm();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let a = space.sample(&mut rng, permitted);
        let b = space.mutate(&a, &mut rng, permitted);
        let c = space.crossover(&a, &b, &mut rng, permitted);
        for s in [a, b, c] {
            prop_assert!(s.is_valid() && s.techniques().is_subset(permitted), "{:?}", s);
        }
        if let Some(exact) = space.sample_exact(&mut rng, permitted) {
            prop_assert_eq!(exact.techniques(), permitted);
        }
    }
}

#[test]
fn every_program_leads_back_to_its_schedule() {
    let space = Space::dgemm();
    let index = Index::new(&space);
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let all = TechniqueSet::all();
    for _ in 0..500 {
        let a = space.sample(&mut rng, all);
        let b = space.mutate(&a, &mut rng, all);
        let c = space.crossover(&a, &b, &mut rng, all);
        for s in [a, b, c] {
            assert_eq!(index.schedule(&s.render()), Some(s));
        }
    }
    for other in ["", "void dgemm(void);", &Schedule::PLAIN.render()[1..]] {
        assert_eq!(index.schedule(other), None);
    }
}

#[test]
fn a_search_that_was_told_the_same_goes_on_alike() {
    let permitted = TechniqueSet::all();
    let speed = |s: &Schedule| Some(f64::from(s.vector + s.unroll));
    let mut first = Search::new(Space::dgemm(), 1);
    let mut reports = Vec::new();
    for seed in 0..6 {
        first.reseed(seed);
        for s in first.propose(8, permitted, Share::ALL) {
            first.report(&s, speed(&s));
            reports.push(s);
        }
    }
    let mut second = Search::new(Space::dgemm(), 2);
    // In another order, like that of a log.
    for s in reports.iter().rev() {
        second.report(s, speed(s));
    }
    first.reseed(6);
    second.reseed(6);
    let next = second.propose(8, permitted, Share::ALL);
    assert_eq!(next, first.propose(8, permitted, Share::ALL));
    assert!(next.iter().all(|s| !reports.contains(s)));
}

/// On a smooth landscape the search must find the top with far fewer trials than points.
#[test]
fn the_search_climbs() {
    let space = Space::dgemm();
    let permitted = TechniqueSet::all().without(Technique::Openmp);
    let speed = |s: &Schedule| {
        let tile = match s.body {
            Body::Tile {
                rows,
                columns,
                outer,
                pack,
            } => {
                10.0 - f64::from(rows.abs_diff(4)) - 2.0 * f64::from(columns.abs_diff(2))
                    + if pack == Pack::Panel && outer == Outer::Column {
                        5.0
                    } else {
                        0.0
                    }
            }
            Body::Stream(_) => 1.0,
        };
        tile + f64::from(u8::from(s.vector == 32)) * 10.0 + f64::from(u8::from(s.unroll == 4)) * 3.0
            - f64::from(u8::from(s.prefetch > 0))
    };
    let top = space
        .all()
        .filter(|s| !s.openmp)
        .map(|s| speed(&s))
        .fold(0.0, f64::max);
    let mut search = Search::new(space, 3);
    let mut best = 0.0f64;
    for _ in 0..40 {
        for s in search.propose(16, permitted, Share::ALL) {
            best = best.max(speed(&s));
            search.report(&s, Some(speed(&s)));
        }
    }
    assert!(best >= top, "{best} of {top}");
}

/// A landscape like a real one: a tile is fast if its sums fit the registers and hide the latency, and vectors that the
/// machine lacks run as two halves. A search of half a minute tries some hundred programs, and has to come near the top
/// with them.
#[test]
fn a_short_search_comes_near_the_top() {
    // The techniques of the shipped problem for one thread.
    let permitted = "loop_reorder+unroll+cache_blocking+register_blocking+packing+simd+prefetch";
    let permitted: TechniqueSet = permitted.parse().unwrap();
    for (width, registers) in [(16u32, 32u32), (32, 16), (64, 32)] {
        let speed = |s: &Schedule| {
            let Body::Tile {
                rows,
                columns,
                outer,
                pack,
            } = s.body
            else {
                return 3.0;
            };
            // Of the widths that this machine has.
            let parts = s.vector.div_ceil(width).max(1);
            let lanes = f64::from(s.lanes().min(width / 8));
            let sums = rows * columns * parts;
            let fits = if sums + 2 <= registers { 1.0 } else { 0.4 };
            let hidden = f64::from(sums.min(8)) / 8.0;
            let loads = (f64::from(rows * columns) / f64::from(rows + columns)).min(1.0);
            let packed = match (pack, outer) {
                (Pack::No, _) => 0.8,
                (Pack::Panel, Outer::Row) => 0.9,
                _ => 1.0,
            };
            let rest = if s.block.is_some() { 0.9 } else { 1.0 };
            lanes
                * fits
                * hidden
                * loads
                * packed
                * rest
                * (1.0 + 0.02 * f64::from(s.unroll.min(4)))
        };
        let space = Space::dgemm();
        let top = space.all().map(|s| speed(&s)).fold(0.0, f64::max);
        for seed in 0..8 {
            let mut search = Search::new(space.clone(), seed);
            let mut best = 0.0f64;
            for _ in 0..6 {
                for s in search.propose(16, permitted, Share::ALL) {
                    best = best.max(speed(&s));
                    search.report(&s, Some(speed(&s)));
                }
            }
            assert!(
                best >= 0.9 * top,
                "{best} of {top}, {width} bytes, seed {seed}"
            );
        }
    }
}
