//! Corpora for supervised fine-tuning: prompts that state a nest, and programs that compute it in legal random orders.
//!
//! The nests are random ones and those of some named problems, most of them with other names. Of each nest there are several
//! programs under prompts of their own. No nest occurs whose [`canonical`] form is that of a held-out problem, and no program
//! uses a held-out set of techniques: the strongest programs are left for a learner to find. Prompts may permit such a set
//! all the same, since a model that was never permitted every technique uses the full permission less well.
//!
//! Some prompts show a program to improve, as those of runs do with an elite. It uses some of the techniques of the answer,
//! not all of them.
//!
//! Each nest follows from the seed and its number alone, so nests may be made in any order and at the same time.

use std::collections::BTreeMap;

use flopsmith_problem::{Problem, prompt};
use flopsmith_protocol::{ProblemId, TechniqueSet};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::canonical::canonical;
use crate::generate::{Fact, Space};
use crate::labels::techniques;
use crate::program::Program;
use crate::prompt::{Unstated, about, program_of, stated};
use crate::random;
use crate::renamed::renamed;
use crate::space::draw;
use crate::spelling::tight;

/// Schedules that are drawn for one program at most. Many break a dependence or give a program that may not be shown.
const DRAWS: usize = 24;

/// Parts the draws of shown programs from all others, so a corpus has the same nests, permissions and answers whatever its
/// share of prompts that show one.
const SHOWN: u64 = 0x9e37_79b9_7f4a_7c15;

/// An example of a corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The prompt, which states the nest and perhaps shows a program to improve.
    pub prompt: String,
    /// The program, in the spelling of the prompt.
    pub program: String,
    /// Techniques that the program uses.
    pub techniques: TechniqueSet,
}

/// Settings of a corpus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Number of examples.
    pub examples: usize,
    /// Programs of each nest. Default 2.
    #[serde(default = "two")]
    pub programs: u32,
    /// Problems whose nests never occur, whatever their names, sizes and precision.
    pub hold_out: Vec<String>,
    /// Problems whose nests occur besides the random ones. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Share of the nests that are those of `problems`; each of them as often as the others. Default 0.1.
    #[serde(default = "tenth")]
    pub problem_share: f64,
    /// Share of the nests whose names are replaced by drawn ones. Default 0.8.
    #[serde(default = "four_fifths")]
    pub renamed: f64,
    /// Techniques that occur.
    pub techniques: TechniqueSet,
    /// Technique sets that no program uses. Their supersets do not occur either. Default: none.
    #[serde(default)]
    pub hold_out_techniques: Vec<TechniqueSet>,
    /// Largest register tile, rows times columns. Default 4.
    #[serde(default = "four")]
    pub largest_tile: u32,
    /// Longest program, bytes.
    pub largest_bytes: usize,
    /// Share of prompts that permit exactly what the program uses; the others permit more. Default 0.6.
    #[serde(default = "three_fifths")]
    pub exact_prompts: f64,
    /// Share of the prompts that show a program to improve, which uses some of the techniques of the answer. Answers without
    /// a technique have none to improve. Both programs together have `largest_bytes` at most; a prompt whose draws give no
    /// such program shows none. Default 0.1.
    #[serde(default = "tenth")]
    pub improve_share: f64,
}

fn two() -> u32 {
    2
}

fn four() -> u32 {
    4
}

fn tenth() -> f64 {
    0.1
}

fn three_fifths() -> f64 {
    0.6
}

fn four_fifths() -> f64 {
    0.8
}

/// Why a corpus cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A named problem has no nest.
    #[error(transparent)]
    Unstated(#[from] Unstated),
    /// A problem is shown and held out.
    #[error(
        "`problems` names {shown}, and its nest is that of {held_out}, which `hold_out` names; leave one of them out"
    )]
    Shown {
        /// The problem that is shown.
        shown: ProblemId,
        /// The held-out problem with the same nest.
        held_out: ProblemId,
    },
    /// A setting is out of its range.
    #[error("`{setting}` must be {range}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its range.
        range: &'static str,
    },
}

impl Config {
    /// Checks the ranges of all settings.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        let shares = [
            ("problem_share", self.problem_share),
            ("renamed", self.renamed),
            ("exact_prompts", self.exact_prompts),
            ("improve_share", self.improve_share),
        ];
        let wrong = |setting, range| Err(Error::Setting { setting, range });
        for (setting, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                return wrong(setting, "between 0 and 1");
            }
        }
        if self.programs == 0 {
            return wrong("programs", "at least 1");
        }
        if self.largest_tile == 0 {
            return wrong("largest_tile", "at least 1");
        }
        if self.examples == 0 {
            return wrong("examples", "at least 1");
        }
        Ok(())
    }

    /// True if a program that uses these techniques in leaves of these kinds may be shown for a nest for which `pool` makes
    /// sense.
    fn shows(&self, used: TechniqueSet, pool: TechniqueSet, facts: &[Fact]) -> bool {
        let held_out = |set: &TechniqueSet| set.is_subset(used);
        used.is_subset(pool)
            && !self.hold_out_techniques.iter().any(held_out)
            && facts
                .iter()
                .all(|f| f.rows * f.columns <= self.largest_tile)
    }
}

/// A source of examples.
#[derive(Debug, Clone)]
pub struct Corpus {
    config: Config,
    seed: u64,
    problems: Vec<Problem>,
    /// The forms of held-out nests.
    held_out: BTreeMap<String, ProblemId>,
}

impl Corpus {
    /// A corpus with the problems that `config.problems` names, and without those that `config.hold_out` names.
    ///
    /// # Errors
    /// A problem without a nest, one that is shown and held out, or a setting out of its range.
    pub fn new(
        config: Config,
        seed: u64,
        problems: Vec<Problem>,
        held_out: &[Problem],
    ) -> Result<Self, Error> {
        config.check()?;
        let form = |problem: &Problem| Ok::<_, Error>(canonical(&program_of(problem)?));
        let mut forms = BTreeMap::new();
        for problem in held_out {
            forms.insert(form(problem)?, problem.id.clone());
        }
        for problem in &problems {
            if let Some(held_out) = forms.get(&form(problem)?) {
                return Err(Error::Shown {
                    shown: problem.id.clone(),
                    held_out: held_out.clone(),
                });
            }
        }
        Ok(Self {
            config,
            seed,
            problems,
            held_out: forms,
        })
    }

    /// The examples of a nest by its number: `None` of a nest that is held out, and no example of one whose drawn programs may
    /// not be shown.
    pub fn of_nest(&self, number: u64) -> Option<Vec<Example>> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(number);
        let (problem, program) = self.nest(&mut rng)?;
        let Ok(stated) = stated(&program) else {
            return Some(Vec::new());
        };
        let space = Space::new(program).listing(problem.techniques);
        let pool = self.config.techniques.intersection(problem.techniques);
        let mut examples: Vec<Example> = Vec::new();
        let fits = |text: &str, _: TechniqueSet| text.len() <= self.config.largest_bytes;
        for _ in 0..self.config.programs {
            let Some((program, used)) = self.program(&space, pool, fits, &mut rng) else {
                continue;
            };
            let permitted = self.permitted(used, pool, &mut rng);
            let example = Example {
                prompt: about(&stated, permitted),
                program,
                techniques: used,
            };
            if !examples.contains(&example) {
                examples.push(example);
            }
        }
        self.show(&mut examples, &space, number);
        Some(examples)
    }

    /// Lets some of a nest's prompts show a program to improve.
    fn show(&self, examples: &mut [Example], space: &Space, number: u64) {
        if self.config.improve_share <= 0.0 {
            return;
        }
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed ^ SHOWN);
        rng.set_stream(number);
        for example in examples {
            let used = example.techniques;
            if !rng.random_bool(self.config.improve_share) || used.is_empty() {
                continue;
            }
            let room = self
                .config
                .largest_bytes
                .saturating_sub(example.program.len());
            let fits = |text: &str, fewer: TechniqueSet| text.len() <= room && fewer != used;
            if let Some((slow, _)) = self.program(space, used, fits, &mut rng) {
                example.prompt = prompt::improve(&example.prompt, &slow, None);
            }
        }
    }

    /// A nest with its problem; none if it is held out.
    fn nest(&self, rng: &mut ChaCha8Rng) -> Option<(Problem, Program)> {
        let named = !self.problems.is_empty() && rng.random_bool(self.config.problem_share);
        let problem = match named {
            true => self.problems[rng.random_range(0..self.problems.len())].clone(),
            false => Problem::from_files(random::problem(rng.random()).ok()?).ok()?,
        };
        let problem = match rng.random_bool(self.config.renamed) {
            true => renamed(&problem, rng),
            false => problem,
        };
        let program = program_of(&problem).ok()?;
        let is_held_out = self.held_out.contains_key(&canonical(&program));
        (!is_held_out).then_some((problem, program))
    }

    /// A program that uses techniques of `pool` only and that `fits`, and the techniques that it uses.
    fn program(
        &self,
        space: &Space,
        pool: TechniqueSet,
        fits: impl Fn(&str, TechniqueSet) -> bool,
        rng: &mut ChaCha8Rng,
    ) -> Option<(String, TechniqueSet)> {
        (0..DRAWS).find_map(|_| {
            let may = some_of(pool, rng);
            let rendered = space.render(&draw(space, may, rng)).ok()?;
            let used = techniques(space, &rendered);
            let text = tight(&rendered.text);
            let may_be = fits(&text, used) && self.config.shows(used, pool, &rendered.facts);
            may_be.then_some((text, used))
        })
    }

    /// The techniques that the prompt for a program permits: those of the program and perhaps more.
    fn permitted(
        &self,
        used: TechniqueSet,
        pool: TechniqueSet,
        rng: &mut ChaCha8Rng,
    ) -> TechniqueSet {
        if rng.random_bool(self.config.exact_prompts) {
            return used;
        }
        let share = if rng.random_bool(0.3) { 1.0 } else { 0.3 };
        with_each(used, pool, share, rng)
    }
}

/// A set to draw a program from: nothing, everything, or each technique in one of two draws. So programs of all strengths
/// occur.
fn some_of(pool: TechniqueSet, rng: &mut ChaCha8Rng) -> TechniqueSet {
    match rng.random_range(0..8) {
        0 => TechniqueSet::EMPTY,
        1 => pool,
        _ => with_each(TechniqueSet::EMPTY, pool, 0.5, rng),
    }
}

/// The set with each technique of `pool` by chance.
fn with_each(
    set: TechniqueSet,
    pool: TechniqueSet,
    share: f64,
    rng: &mut ChaCha8Rng,
) -> TechniqueSet {
    let more = pool.iter().filter(|_| rng.random_bool(share));
    more.fold(set, TechniqueSet::with)
}

#[cfg(test)]
mod tests;
