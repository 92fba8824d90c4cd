//! Programs of the schedule space of loop nests: the techniques that the space claims for them are found in their text.
//!
//! `FLOPSMITH_NESTS=folder` writes the programs that differ to a folder, with schedule and findings behind them, and `FLOPSMITH_NEST_PROGRAMS` sets their number for each problem.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flopsmith_nest::generate::{Rendered, Space};
use flopsmith_nest::schedule::Schedule;
use flopsmith_nest::{labels, read, space};
use flopsmith_problem::Language;
use flopsmith_protocol::{Technique, TechniqueSet};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Program, detected};

/// Programs of each problem.
const PROGRAMS: usize = 24;

/// Draws for one program at most: many schedules break a dependence.
const DRAWS: usize = 40;

/// Claims and findings of one technique.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    both: usize,
    claimed: usize,
    found: usize,
}

impl Counts {
    /// Of all programs for which one of the two has the technique, the share for which both have it.
    fn agreement(self) -> f64 {
        let all = self.both + self.claimed + self.found;
        match all {
            0 => 1.0,
            all => self.both as f64 / all as f64,
        }
    }
}

/// The least agreement of claims and findings. It may only rise: 0.98 is the aim for each technique.
fn least(technique: Technique) -> f64 {
    match technique {
        Technique::LoopReorder => 0.9,
        Technique::RegisterBlocking => 0.95,
        // Of statements that have no names of their own, detection says nothing.
        Technique::Fission => 0.8,
        _ => 0.98,
    }
}

/// Different programs of a space, from many schedules, of at most `largest` bytes.
fn programs(space: &Space, wanted: usize, largest: usize) -> Vec<(Schedule, Rendered)> {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut all = vec![(space.plain(), space.render(&space.plain()).unwrap())];
    for _ in 0..wanted * DRAWS {
        if all.len() >= wanted {
            break;
        }
        let schedule = if rng.random_bool(0.5) {
            space::draw(space, TechniqueSet::all(), &mut rng)
        } else {
            let at = rng.random_range(0..all.len());
            space::neighbour(space, &all[at].0, TechniqueSet::all(), &mut rng)
        };
        if let Ok(rendered) = space.render(&schedule)
            && rendered.text.len() <= largest
            && all.iter().all(|(_, known)| known.text != rendered.text)
        {
            all.push((schedule, rendered));
        }
    }
    all
}

#[test]
fn techniques_of_emitted_loop_nests_are_found_in_their_text() {
    let wanted = std::env::var("FLOPSMITH_NEST_PROGRAMS").ok();
    let wanted = wanted.and_then(|n| n.parse().ok()).unwrap_or(PROGRAMS);
    let folder = std::env::var_os("FLOPSMITH_NESTS").map(PathBuf::from);
    let mut counts: BTreeMap<Technique, Counts> = BTreeMap::new();
    let mut wrong: BTreeMap<(Technique, bool), Vec<String>> = BTreeMap::new();
    let (mut nests, mut tried) = (0, 0);
    for (name, problem) in super::PROBLEMS.iter() {
        let Ok(read) = read::read(problem) else {
            continue;
        };
        nests += 1;
        let space = Space::new(read).listing(problem.techniques);
        for (number, (schedule, rendered)) in programs(&space, wanted, problem.max_source_bytes)
            .into_iter()
            .enumerate()
        {
            let program = Program {
                name: format!("{name}_{number}"),
                kind: "nest".into(),
                problem: name.clone(),
                language: Language::C,
                labels: labels::techniques(&space, &rendered),
                source: rendered.text,
            };
            let seen = detected(&program).seen;
            let found: TechniqueSet = seen.iter().map(|s| s.technique).collect();
            tried += 1;
            let claimed = Technique::GENERAL.into_iter();
            for technique in claimed.chain([Technique::Fission]) {
                let of = counts.entry(technique).or_default();
                match (
                    program.labels.contains(technique),
                    found.contains(technique),
                ) {
                    (true, true) => of.both += 1,
                    (false, false) => {}
                    (claimed, _) => {
                        let count = if claimed {
                            &mut of.claimed
                        } else {
                            &mut of.found
                        };
                        *count += 1;
                        let of = wrong.entry((technique, claimed)).or_default();
                        of.push(program.name.clone());
                        if let Some(folder) = &folder {
                            let what = if claimed { "claimed" } else { "found" };
                            std::fs::create_dir_all(folder).unwrap();
                            let file =
                                folder.join(format!("{technique}_{what}_{}.c", program.name));
                            let text =
                                format!("{}\n/* {schedule:?}\n{seen:#?} */\n", program.source);
                            std::fs::write(file, text).unwrap();
                        }
                    }
                }
            }
        }
    }
    let mut table = format!("{tried} programs of {nests} loop nests\n");
    for (technique, of) in &counts {
        table.push_str(&format!("{technique}: {:.3} {of:?}\n", of.agreement()));
    }
    for ((technique, claimed), names) in &wrong {
        let what = if *claimed {
            "claimed only"
        } else {
            "found only"
        };
        table.push_str(&format!("{technique} {what}: {}\n", names.join(" ")));
    }
    println!("{table}");
    assert!(nests >= 38, "{nests}");
    let is_low = |technique: &Technique, of: &Counts| of.agreement() < least(*technique);
    let low: Vec<_> = counts.iter().filter(|(t, of)| is_low(t, of)).collect();
    assert!(low.is_empty(), "{low:?}\n{table}");
}

/// Tiles of two levels are one technique. The inner tiles fill the outer ones, or the last is cut off.
#[test]
fn tiles_of_two_levels_are_blocks_for_a_cache_and_nothing_else() {
    let problem = &super::PROBLEMS["transpose"];
    let space = Space::new(read::read(problem).unwrap());
    let blocking = TechniqueSet::EMPTY.with(Technique::CacheBlocking);
    for (tiles, outer) in [
        ([32, 32], [64, 128]),
        ([32, 64], [80, 96]),
        ([64, 32], [0, 96]),
        ([0, 32], [0, 64]),
    ] {
        let mut schedule = space.plain();
        schedule.groups[0].tiles = tiles.to_vec();
        schedule.groups[0].outer = outer.to_vec();
        let rendered = space.render(&schedule).unwrap();
        assert_eq!(labels::techniques(&space, &rendered), blocking);
        let program = Program {
            name: "transpose_tiled_twice".into(),
            kind: "nest".into(),
            problem: "transpose".into(),
            language: Language::C,
            labels: blocking,
            source: rendered.text,
        };
        let seen = detected(&program).seen;
        let found: Vec<Technique> = seen.iter().map(|s| s.technique).collect();
        assert_eq!(found, [Technique::CacheBlocking], "{}", program.source);
    }
}
