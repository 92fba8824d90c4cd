//! Corpora for supervised fine-tuning: prompts with programs of the schedule space.
//!
//! Some technique combinations are held out for the learner to find: no program uses a held-out set of techniques
//! ([`CorpusConfig::hold_out`]) or a tile larger than [`CorpusConfig::largest_tile`], nor, with
//! [`CorpusConfig::dividing_tiles`], a tile that does not divide every size. [`CorpusConfig::hold_out_prompts`] decides
//! whether prompts may permit a held-out set. By default, as in `flopsmith dataset schedules`, no prompt does: such
//! prompts would be answered with slower programs and teach the model to avoid the very combination that is to be
//! found. The starter's recipe permits held-out sets in prompts all the same: a model that was never permitted every
//! technique uses the full permission less well.
//!
//! With [`CorpusConfig::improve_share`] some prompts show a program to improve, as those of runs do with an elite.

use std::collections::BTreeSet;

use flopsmith_problem::prompt;
use flopsmith_protocol::{Technique, TechniqueSet};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::schedule::{Body, Schedule, Space};

/// Schedules that are drawn for one program at most.
const DRAWS: usize = 64;

/// Parts the draws of shown programs from all others, so a corpus has the same permissions and answers whatever its share of
/// prompts that show one.
const SHOWN: u64 = 0x9e37_79b9_7f4a_7c15;

/// An example of the corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// The compact prompt, which perhaps shows a program to improve.
    pub prompt: String,
    /// The program.
    pub program: String,
    /// Techniques that the program uses.
    pub techniques: TechniqueSet,
}

/// Settings of a corpus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CorpusConfig {
    /// Number of examples; programs may repeat under other prompts.
    pub examples: usize,
    /// Techniques that occur.
    pub techniques: TechniqueSet,
    /// Technique sets that never occur in a program. Their supersets never occur either.
    pub hold_out: Vec<TechniqueSet>,
    /// If true, these sets are held out of the prompts as well. Default true. A model that was never permitted
    /// everything uses such a permission less well, so the starter's recipe sets false.
    pub hold_out_prompts: bool,
    /// If true, only tiles that divide every size occur: programs are shorter, and have one part less that a model can
    /// forget.
    pub dividing_tiles: bool,
    /// Largest tile of the output, rows times columns: gcc turns large tiles of doubles into vectors by itself, and the
    /// strongest programs shall stay out of the corpus.
    pub largest_tile: u32,
    /// Share of prompts that permit exactly what the program uses; the others permit more.
    pub exact_prompts: f64,
    /// Share of the prompts that show a program to improve, which uses some of the techniques of the answer. Answers without
    /// a technique have none to improve. Default 0: prompts are those that the shipped starter has read.
    pub improve_share: f64,
    /// Frequency of a technique relative to a program without it. A technique that is not named has weight 1.
    pub weights: Vec<(Technique, f64)>,
}

impl Default for CorpusConfig {
    fn default() -> Self {
        Self {
            examples: 20_000,
            techniques: TechniqueSet::general(),
            hold_out: vec![
                TechniqueSet::EMPTY
                    .with(Technique::Simd)
                    .with(Technique::RegisterBlocking),
            ],
            hold_out_prompts: true,
            dividing_tiles: true,
            largest_tile: 8,
            exact_prompts: 0.6,
            improve_share: 0.0,
            // Threads pay on some machines only.
            weights: vec![(Technique::Openmp, 0.25)],
        }
    }
}

impl CorpusConfig {
    /// True if programs with exactly `set` may be shown, and with `hold_out_prompts` prompts that permit it.
    pub fn shows(&self, set: TechniqueSet) -> bool {
        set.is_subset(self.techniques) && !self.hold_out.iter().any(|held| held.is_subset(set))
    }

    /// True if this program may be shown.
    pub fn shows_program(&self, schedule: &Schedule) -> bool {
        let tile = match schedule.body {
            Body::Tile { rows, columns, .. } => rows * columns,
            Body::Stream(_) => 1,
        };
        let fits = tile <= self.largest_tile && (schedule.divides() || !self.dividing_tiles);
        fits && self.shows(schedule.techniques())
    }

    fn weight(&self, technique: Technique) -> f64 {
        self.weights
            .iter()
            .find(|(t, _)| *t == technique)
            .map_or(1.0, |(_, w)| *w)
    }
}

/// Makes a corpus. The same arguments give the same corpus.
///
/// The corpus is shorter than `config.examples` if draws find no program that may be shown for any technique set.
pub fn build(space: &Space, seed: u64, config: &CorpusConfig) -> Vec<Example> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut sets: Vec<(TechniqueSet, f64)> = (0..=config.techniques.len())
        .flat_map(|size| config.techniques.subsets_of_size(size))
        .filter(|set| config.shows(*set))
        .map(|set| (set, set.iter().map(|t| config.weight(t)).product()))
        .collect();
    let mut examples = Vec::with_capacity(config.examples);
    while examples.len() < config.examples {
        let Ok(&(set, _)) = sets.choose_weighted(&mut rng, |s| s.1) else {
            break;
        };
        let drawn = (0..DRAWS).find_map(|_| {
            space
                .sample_exact(&mut rng, set)
                .filter(|s| config.shows_program(s))
        });
        let Some(schedule) = drawn else {
            sets.retain(|s| s.0 != set);
            continue;
        };
        let permitted = permitted(&mut rng, set, config);
        examples.push(Example {
            prompt: prompt::compact("dgemm", permitted),
            program: schedule.render(),
            techniques: set,
        });
    }
    show(space, seed, config, &mut examples);
    examples
}

/// Lets some prompts show a program to improve.
fn show(space: &Space, seed: u64, config: &CorpusConfig, examples: &mut [Example]) {
    if config.improve_share <= 0.0 {
        return;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ SHOWN);
    for example in examples {
        let used = example.techniques;
        if !rng.random_bool(config.improve_share) || used.is_empty() {
            continue;
        }
        let drawn = (0..DRAWS).find_map(|_| {
            let fewer: TechniqueSet = used.iter().filter(|_| rng.random_bool(0.5)).collect();
            if fewer == used {
                return None;
            }
            space
                .sample_exact(&mut rng, fewer)
                .filter(|s| config.shows_program(s))
        });
        if let Some(slow) = drawn {
            example.prompt = prompt::improve(&example.prompt, &slow.render(), None);
        }
    }
}

/// The techniques that the prompt for a program permits: those of the program and perhaps more; with `hold_out_prompts`
/// no held-out set.
fn permitted(rng: &mut impl Rng, used: TechniqueSet, config: &CorpusConfig) -> TechniqueSet {
    if rng.random_bool(config.exact_prompts) {
        return used;
    }
    let share = if rng.random_bool(0.3) { 1.0 } else { 0.3 };
    let mut more: Vec<Technique> = config.techniques.difference(used).iter().collect();
    // If two techniques exclude each other, the random order decides which is permitted.
    let mut permitted = used;
    while !more.is_empty() {
        let next = more.swap_remove(rng.random_range(0..more.len()));
        if rng.random_bool(share * config.weight(next).min(1.0))
            && (!config.hold_out_prompts || config.shows(permitted.with(next)))
        {
            permitted = permitted.with(next);
        }
    }
    permitted
}

/// Every schedule a corpus of this configuration may show.
pub fn shown<'a>(
    space: &'a Space,
    config: &'a CorpusConfig,
) -> impl Iterator<Item = Schedule> + 'a {
    space.all().filter(|s| config.shows_program(s))
}

/// The distinct programs of a corpus.
pub fn distinct(examples: &[Example]) -> BTreeSet<&str> {
    examples.iter().map(|e| e.program.as_str()).collect()
}
