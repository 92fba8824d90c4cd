//! The assignment of programs to the stages of training.
//!
//! Supervised fine-tuning gets 40 %. Of the other 60 %, the reward model gets 66 % and reinforcement the rest. Direct
//! performance alignment, which replaces both, gets the whole 60 %. Of each part 5 % are for evaluation only. Each
//! origin is distributed separately in these proportions (Nichols et al., 2024).
//!
//! The unit of distribution is a program, with all prompts that it answers: no stage is then evaluated on a program
//! that another stage has memorised. Programs that were never run are distributed by prompt, since their fast and their
//! slow program have a meaning only together. The unit is our own choice: the source does not name its own.

use std::collections::{BTreeMap, BTreeSet};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::Program;

/// Share for supervised fine-tuning.
const SFT: f64 = 0.40;
/// Share of the rest for the reward model.
const REWARD_MODEL: f64 = 0.66;
/// Share of each part that is for evaluation only.
const EVALUATION: f64 = 0.05;

/// A part of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// For supervised fine-tuning.
    Sft,
    /// For the reward model, and for alignment.
    RewardModel,
    /// For reinforcement, and for alignment.
    Reinforcement,
    /// Held out of all training, because its problem is held out.
    HeldOut,
}

/// The assignment of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Label {
    /// Its part.
    pub part: Part,
    /// True if it is for evaluation only.
    pub evaluation: bool,
}

/// The label of each program, in the order of the programs. The same programs and seed give the same labels, for every
/// order of the programs.
pub fn labels(programs: &[Program], held_out: &BTreeSet<String>, seed: u64) -> Vec<Label> {
    let mut units: BTreeMap<&str, BTreeSet<Unit<'_>>> = BTreeMap::new();
    for program in programs.iter().filter(|p| !held_out.contains(&p.problem)) {
        let unit = Unit::of(program);
        units.entry(&program.origin).or_default().insert(unit);
    }
    let mut labels: BTreeMap<Unit<'_>, Label> = BTreeMap::new();
    for (stream, units) in units.into_values().enumerate() {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream as u64);
        // A program of two origins keeps the label that it got with the first.
        let mut units: Vec<Unit<'_>> = units
            .into_iter()
            .filter(|unit| !labels.contains_key(unit))
            .collect();
        units.shuffle(&mut random);
        labels.extend(deal(units));
    }
    programs
        .iter()
        .map(|program| {
            let label = labels.get(&Unit::of(program)).copied();
            label
                .filter(|_| !held_out.contains(&program.problem))
                .unwrap_or(Label {
                    part: Part::HeldOut,
                    evaluation: true,
                })
        })
        .collect()
}

/// Programs that get the same label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unit<'a> {
    /// A program of a problem.
    Program(&'a str, &'a str),
    /// The programs that were written for a prompt and never run.
    Prompt(&'a str, &'a str),
}

impl<'a> Unit<'a> {
    fn of(program: &'a Program) -> Self {
        match program.rank {
            None => Unit::Program(&program.problem, &program.source),
            Some(_) => Unit::Prompt(&program.problem, &program.prompt),
        }
    }
}

fn deal(units: Vec<Unit<'_>>) -> Vec<(Unit<'_>, Label)> {
    let share = |count: usize, share: f64| (count as f64 * share).round() as usize;
    let sft = share(units.len(), SFT);
    let reward_model = share(units.len() - sft, REWARD_MODEL);
    let (first, rest) = units.split_at(sft);
    let (second, third) = rest.split_at(reward_model);
    let parts = [
        (Part::Sft, first),
        (Part::RewardModel, second),
        (Part::Reinforcement, third),
    ];
    parts
        .into_iter()
        .flat_map(|(part, units)| {
            // Rounded up to give even a small part some programs for evaluation, but never more than half of the part.
            let judged = ((units.len() as f64 * EVALUATION).ceil() as usize).min(units.len() / 2);
            units.iter().enumerate().map(move |(i, unit)| {
                let evaluation = i < judged;
                (*unit, Label { part, evaluation })
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::measured::Rank;
    use crate::measured::tests::{timed, written};

    fn count(programs: &[Program], labels: &[Label], origin: &str, wanted: Label) -> usize {
        let own = programs.iter().zip(labels);
        own.filter(|(p, l)| p.origin == origin && **l == wanted)
            .count()
    }

    fn label(part: Part, evaluation: bool) -> Label {
        Label { part, evaluation }
    }

    #[test]
    fn each_origin_is_dealt_out_in_the_proportions_of_the_source() {
        let mut programs = timed("a", "p", 1000);
        for i in 0..500 {
            programs.push(written(&format!("s{i}"), Rank::Fast));
            programs.push(written(&format!("s{i}"), Rank::Slow));
        }
        let labels = labels(&programs, &BTreeSet::new(), 7);
        // A fast and a slow one make one unit.
        for (origin, size) in [("contest", 1), ("synthetic", 2)] {
            let units = if size == 1 { 1000 } else { 500 };
            let number = |part, evaluation| {
                count(&programs, &labels, origin, label(part, evaluation)) / size
            };
            let sft = units * 2 / 5;
            assert_eq!(number(Part::Sft, true) + number(Part::Sft, false), sft);
            assert_eq!(number(Part::Sft, true), sft / 20);
            let reward_model = number(Part::RewardModel, true) + number(Part::RewardModel, false);
            assert_eq!(reward_model, units * 3 * 66 / 500);
            let rest = number(Part::Reinforcement, true) + number(Part::Reinforcement, false);
            assert_eq!(rest, units - sft - reward_model);
        }
    }

    #[test]
    fn problems_that_are_held_out_are_in_no_part() {
        let programs = [timed("a", "p", 20), timed("b", "p", 20)].concat();
        let labels = labels(&programs, &BTreeSet::from(["b".to_owned()]), 7);
        assert!(labels[20..].iter().all(|l| l.part == Part::HeldOut));
        assert!(labels[..20].iter().all(|l| l.part != Part::HeldOut));
    }

    proptest! {
        #[test]
        fn the_same_program_is_in_one_part_whatever_it_answers_and_whoever_has_it(seed: u64, count in 1usize..60) {
            let mut programs = timed("a", "p", count);
            let again = programs.iter().cloned().map(|p| Program { prompt: "q".into(), ..p });
            let elsewhere = programs.iter().cloned().map(|p| Program { origin: "run".into(), ..p });
            let more: Vec<Program> = again.chain(elsewhere).collect();
            programs.extend(more);
            let labels = labels(&programs, &BTreeSet::new(), seed);
            for i in 0..count {
                prop_assert_eq!(labels[i], labels[count + i]);
                prop_assert_eq!(labels[i], labels[2 * count + i]);
            }
        }

        #[test]
        fn the_order_of_the_lines_changes_nothing(seed: u64, count in 1usize..60) {
            let programs = timed("a", "p", count);
            let back: Vec<Program> = programs.iter().rev().cloned().collect();
            let mut turned = labels(&back, &BTreeSet::new(), seed);
            turned.reverse();
            prop_assert_eq!(labels(&programs, &BTreeSet::new(), seed), turned);
        }
    }
}
