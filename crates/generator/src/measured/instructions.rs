//! Examples for supervised fine-tuning.
//!
//! Two kinds (Nichols et al., 2024): the problem, answered with one of its five fastest programs; and the problem with
//! one of its slowest third, answered with one of its five fastest. The first kind has one example for each fast
//! program. The second has one for each slow program, with a randomly drawn fast one. These numbers are our own choice.

use flopsmith_problem::prompt;
use rand::SeedableRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Program, Timed, groups, shown_in};

/// Share of the timed programs that serve as the program to improve.
pub(crate) const SLOWEST: f64 = 0.33;

/// Kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A program.
    Solve,
    /// A faster program than the one in the prompt.
    Improve,
}

/// An example: one line of a file of examples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instruction {
    /// The prompt.
    pub prompt: String,
    /// The answer to train on.
    pub answer: String,
    /// Kind of the request; files of other tools may leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
}

/// Examples of both kinds, at most `most` of each kind and prompt. The slow programs are those of `shown` for the same
/// prompt, then those of the slowest third. With a `fence`, programs are written in a code block of that language, as
/// chat models write them.
pub fn instructions<'a>(
    programs: impl IntoIterator<Item = &'a Program>,
    shown: &[&'a Program],
    most: usize,
    fence: Option<&str>,
    seed: u64,
) -> Vec<Instruction> {
    let mut all = Vec::new();
    for (stream, group) in groups(programs).iter().enumerate() {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream as u64);
        let fast = ranked(group.fastest(), &group.fast);
        let mut slowest = ranked(group.slowest(SLOWEST), &group.slow);
        slowest.shuffle(&mut random);
        let shown = shown_in(group, shown).map(|program| Ranked {
            program,
            seconds: program.runtime_s,
        });
        let slow: Vec<Ranked<'_>> = shown.chain(slowest).collect();
        let answer = |program: &Program| prompt::answer(&program.source, fence);
        all.extend(fast.iter().take(most).map(|fast| Instruction {
            prompt: group.prompt.to_owned(),
            answer: answer(fast.program),
            kind: Some(Kind::Solve),
        }));
        for slow in slow.into_iter().take(most) {
            // In a small group a program can be both fast and slow.
            let better: Vec<&Program> = fast
                .iter()
                .filter(|fast| fast.is_faster(&slow))
                .map(|fast| fast.program)
                .collect();
            if let Some(program) = better.choose(&mut random) {
                all.push(Instruction {
                    prompt: prompt::improve(group.prompt, &slow.program.source, fence),
                    answer: answer(program),
                    kind: Some(Kind::Improve),
                });
            }
        }
    }
    all
}

/// A program with its time, if it was timed.
struct Ranked<'a> {
    program: &'a Program,
    seconds: Option<f64>,
}

impl Ranked<'_> {
    /// Untimed programs are compared with untimed ones only.
    fn is_faster(&self, slow: &Ranked<'_>) -> bool {
        match (self.seconds, slow.seconds) {
            (Some(own), Some(other)) => own < other,
            (None, None) => true,
            _ => false,
        }
    }
}

fn ranked<'a>(timed: &[Timed<'a>], written: &[&'a Program]) -> Vec<Ranked<'a>> {
    let timed = timed.iter().map(|t| Ranked {
        program: t.program,
        seconds: Some(t.seconds),
    });
    let written = written.iter().map(|program| Ranked {
        program,
        seconds: None,
    });
    timed.chain(written).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Rank;
    use crate::measured::tests::{timed, written, wrong};

    fn of_kind(made: &[Instruction], kind: Kind) -> Vec<&Instruction> {
        made.iter().filter(|i| i.kind == Some(kind)).collect()
    }

    #[test]
    fn fast_programs_answer_the_problem_alone_and_with_a_slow_one() {
        let mut programs = timed("a", "solve a\n", 30);
        programs.push(wrong(&programs[0], 1));
        let made = instructions(&programs, &[], 100, None, 3);
        let fast: Vec<&String> = programs[..5].iter().map(|p| &p.source).collect();
        assert!(made.iter().all(|i| fast.contains(&&i.answer)));
        let solve = of_kind(&made, Kind::Solve);
        assert_eq!(solve.len(), 5);
        assert!(solve.iter().all(|i| i.prompt == "solve a\n"));
        let improve = of_kind(&made, Kind::Improve);
        assert_eq!(improve.len(), 10);
        for slow in &programs[20..30] {
            let shown = improve.iter().filter(|i| i.prompt.contains(&slow.source));
            assert_eq!(shown.count(), 1, "{}", slow.source);
        }
        assert_eq!(instructions(&programs, &[], 2, None, 3).len(), 4);
    }

    #[test]
    fn a_shown_program_is_improved_by_faster_ones_only() {
        let programs = timed("a", "p\n", 10);
        let shown = |seconds: f64| Program {
            source: "plain".into(),
            runtime_s: Some(seconds),
            ..programs[0].clone()
        };
        let improved = |seconds: f64| {
            let shown = shown(seconds);
            let made = instructions(&programs, &[&shown], 1, None, 3);
            let mut improve = of_kind(&made, Kind::Improve).into_iter();
            improve.any(|i| i.prompt.contains("plain"))
        };
        assert!(improved(1.0));
        assert!(!improved(1e-9));
        // It answers nothing.
        let slow = shown(1.0);
        let made = instructions(&programs, &[&slow], 100, None, 3);
        assert!(made.iter().all(|i| i.answer != "plain"));
    }

    #[test]
    fn instructions_keep_the_written_source_of_ranked_programs() {
        let programs = [written("s", Rank::Slow), written("s", Rank::Fast)];
        let made = instructions(&programs, &[], 10, Some("c"), 3);
        assert_eq!(made.len(), 2);
        assert!(made.iter().all(|i| i.answer == "```c\nFast s\n```\n"));
        assert!(made[1].prompt.contains("```c\nSlow s\n```"));
    }

    #[test]
    fn a_program_is_never_improved_by_itself() {
        for count in 1..8 {
            for made in instructions(&timed("a", "p\n", count), &[], 10, None, 3) {
                assert!(!made.prompt.contains(&made.answer), "{count}: {made:?}");
            }
        }
    }
}
