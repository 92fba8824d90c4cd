//! Measured programs and the training data made from them: examples for supervised fine-tuning, pairs for reward models
//! and alignment, prompts for reinforcement.
//!
//! The files are JSON lines, one [`Program`] each, from any source: the outcomes of a run, timed programs of the
//! schedule space, submissions to contests, programs that a language model wrote as fast and slow. [`split`]
//! distributes them to the stages of training. No stage is trained or evaluated on programs that another stage has
//! memorised. [`instructions`], [`pairs`] and [`exercises`] make the input of each stage.
//!
//! Proportions and ranks are those of Nichols et al., 2024; a comment at each other choice says that the source leaves
//! it open.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub mod exercises;
pub mod instructions;
pub mod pairs;
pub mod split;

/// Number of fastest programs of a prompt that count as fast.
const FASTEST: usize = 5;

/// Origin of plain programs, such as the references of problems. Each part may show such a program as the slow one of its
/// prompt, whichever part is trained or evaluated, and no part has it as an answer.
pub const REFERENCE: &str = "reference";

/// A line that lacks a field, or contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A text is missing.
    #[error("`{0}` is empty")]
    Empty(&'static str),
    /// The time is no positive finite number.
    #[error("`runtime_s` is {0}: it must be a positive number of seconds, or null")]
    Runtime(String),
    /// The time of a wrong program has no meaning.
    #[error("an incorrect program has a `runtime_s`: leave the field out, or set it to null")]
    WrongAndTimed,
    /// A correct program has neither time nor rank, and cannot be ordered.
    #[error(
        "a correct program has neither a `runtime_s` nor a `rank`: time the program, or set `\"rank\": \"fast\"` or `\"slow\"` if it cannot be timed"
    )]
    Unranked,
    /// A program has both a time and a rank, or is wrong and has a rank.
    #[error("a timed or incorrect program has a `rank`: leave the field out")]
    Ranked,
}

/// The claim of an author about the speed of a program that never ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rank {
    /// The better one.
    Fast,
    /// The worse one.
    Slow,
}

/// A program with its measurement: one line of a file of measured programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Problem that it solves, e.g. `dgemm`.
    pub problem: String,
    /// Names of the problem's workloads over which `runtime_s` is the geometric mean; empty for all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// Prompt that it answers. A program is compared with others of the same problem, workloads and prompt.
    pub prompt: String,
    /// The program.
    pub source: String,
    /// Seconds of one call or of one run, in the same way for all programs of a prompt; null for a program that was not
    /// timed.
    #[serde(default)]
    pub runtime_s: Option<f64>,
    /// True if it is right.
    pub correct: bool,
    /// Origin of the program, e.g. `contest`, `synthetic`, `schedule_space` or a run. Each origin is split by itself.
    pub origin: String,
    /// Its author's claim about its speed, if it never ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<Rank>,
}

impl Program {
    /// Checks that the line is complete and consistent.
    pub fn check(&self) -> Result<(), Error> {
        let texts = [
            ("problem", &self.problem),
            ("prompt", &self.prompt),
            ("source", &self.source),
            ("origin", &self.origin),
        ];
        for (name, text) in texts {
            if text.trim().is_empty() {
                return Err(Error::Empty(name));
            }
        }
        match (self.correct, self.runtime_s, self.rank) {
            (_, Some(seconds), _) if !(seconds > 0.0 && seconds.is_finite()) => {
                Err(Error::Runtime(seconds.to_string()))
            }
            (false, Some(_), _) => Err(Error::WrongAndTimed),
            (true, None, None) => Err(Error::Unranked),
            (false, _, Some(_)) | (_, Some(_), Some(_)) => Err(Error::Ranked),
            _ => Ok(()),
        }
    }
}

/// The programs of one problem, with the same workloads, and of one prompt, each source once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group<'a> {
    pub problem: &'a str,
    pub workloads: &'a [String],
    pub prompt: &'a str,
    /// Correct and timed, fastest first.
    pub timed: Vec<Timed<'a>>,
    /// Wrong.
    pub wrong: Vec<&'a Program>,
    /// Never run, and ranked fast.
    pub fast: Vec<&'a Program>,
    /// Never run, and ranked slow.
    pub slow: Vec<&'a Program>,
}

/// A program that was timed, perhaps several times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Timed<'a> {
    pub program: &'a Program,
    /// Median of the program's times.
    pub seconds: f64,
}

impl<'a> Group<'a> {
    /// The programs that count as fast.
    pub fn fastest(&self) -> &[Timed<'a>] {
        &self.timed[..self.timed.len().min(FASTEST)]
    }

    /// The slowest share of the timed programs, at least one if there are two; programs as fast as the fastest are left
    /// out.
    pub fn slowest(&self, share: f64) -> &[Timed<'a>] {
        let count = ((self.timed.len() as f64 * share).round() as usize).max(1);
        let first = self.timed.len().saturating_sub(count);
        let slowest = &self.timed[first..];
        let fastest = self.timed.first().map_or(0.0, |t| t.seconds);
        let distinct = slowest.iter().position(|t| t.seconds > fastest);
        &slowest[distinct.unwrap_or(slowest.len())..]
    }

    /// Median time of the correct programs, seconds.
    pub fn median_s(&self) -> Option<f64> {
        let times: Vec<f64> = self.timed.iter().map(|t| t.seconds).collect();
        median(times)
    }
}

/// Programs by problem, workloads and prompt, in the order of these texts. A source that was timed several times gets the median
/// of its times. A source that was wrong once counts as wrong.
pub(crate) fn groups<'a>(programs: impl IntoIterator<Item = &'a Program>) -> Vec<Group<'a>> {
    type Key<'k> = (&'k str, &'k [String], &'k str);
    let mut by_prompt: BTreeMap<Key<'a>, BTreeMap<&str, Vec<&Program>>> = BTreeMap::new();
    for program in programs {
        by_prompt
            .entry((&program.problem, &program.workloads, &program.prompt))
            .or_default()
            .entry(&program.source)
            .or_default()
            .push(program);
    }
    by_prompt
        .into_iter()
        .map(|((problem, workloads, prompt), sources)| {
            let mut group = Group {
                problem,
                workloads,
                prompt,
                timed: Vec::new(),
                wrong: Vec::new(),
                fast: Vec::new(),
                slow: Vec::new(),
            };
            for programs in sources.into_values() {
                let first = programs[0];
                let times = programs.iter().filter_map(|p| p.runtime_s).collect();
                if programs.iter().any(|p| !p.correct) {
                    group.wrong.push(first);
                } else if let Some(seconds) = median(times) {
                    group.timed.push(Timed {
                        program: first,
                        seconds,
                    });
                } else if programs.iter().any(|p| p.rank == Some(Rank::Slow)) {
                    group.slow.push(first);
                } else {
                    group.fast.push(first);
                }
            }
            group.timed.sort_by(|a, b| {
                a.seconds
                    .total_cmp(&b.seconds)
                    .then_with(|| a.program.source.cmp(&b.program.source))
            });
            group
        })
        .collect()
}

/// The programs of `shown` for the problem, workloads and prompt of a group.
pub(crate) fn shown_in<'g, 'a>(
    group: &'g Group<'_>,
    shown: &'g [&'a Program],
) -> impl Iterator<Item = &'a Program> + 'g {
    let of = move |program: &&&Program| {
        program.problem == group.problem
            && program.workloads == group.workloads
            && program.prompt == group.prompt
    };
    shown.iter().filter(of).copied()
}

/// The median of the times; for an even number of times, the mean of the two middle ones.
fn median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    match times.len() {
        0 => None,
        n if n.is_multiple_of(2) => Some(0.5 * (times[middle - 1] + times[middle])),
        _ => Some(times[middle]),
    }
}

/// Programs for the tests of this module.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `count` programs of a prompt, number `i` taking `i + 1` milliseconds.
    pub(crate) fn timed(problem: &str, prompt: &str, count: usize) -> Vec<Program> {
        (0..count)
            .map(|i| Program {
                problem: problem.into(),
                workloads: Vec::new(),
                prompt: prompt.into(),
                source: format!("{problem} {prompt} {i}"),
                runtime_s: Some((i + 1) as f64 * 1e-3),
                correct: true,
                origin: "contest".into(),
                rank: None,
            })
            .collect()
    }

    pub(crate) fn wrong(of: &Program, number: usize) -> Program {
        Program {
            source: format!("wrong {number} of {}", of.source),
            runtime_s: None,
            correct: false,
            ..of.clone()
        }
    }

    pub(crate) fn written(problem: &str, rank: Rank) -> Program {
        Program {
            problem: problem.into(),
            workloads: Vec::new(),
            prompt: format!("solve {problem}"),
            source: format!("{rank:?} {problem}"),
            runtime_s: None,
            correct: true,
            origin: "synthetic".into(),
            rank: Some(rank),
        }
    }

    #[test]
    fn lines_that_contradict_themselves_are_refused() {
        let good = timed("a", "p", 1).remove(0);
        assert_eq!(good.check(), Ok(()));
        assert_eq!(wrong(&good, 1).check(), Ok(()));
        assert_eq!(written("a", Rank::Slow).check(), Ok(()));
        let with = |change: &dyn Fn(&mut Program)| {
            let mut program = good.clone();
            change(&mut program);
            program.check()
        };
        assert_eq!(
            with(&|p| p.source = " \n".into()),
            Err(Error::Empty("source"))
        );
        assert_eq!(
            with(&|p| p.runtime_s = Some(-1.0)),
            Err(Error::Runtime("-1".into()))
        );
        assert_eq!(with(&|p| p.correct = false), Err(Error::WrongAndTimed));
        assert_eq!(with(&|p| p.runtime_s = None), Err(Error::Unranked));
        assert_eq!(with(&|p| p.rank = Some(Rank::Fast)), Err(Error::Ranked));
    }

    #[test]
    fn a_source_counts_once_with_its_median_and_not_at_all_once_it_was_wrong() {
        let mut programs = timed("a", "p", 3);
        for runtime_s in [9e-3, 5e-3] {
            programs.push(Program {
                runtime_s: Some(runtime_s),
                ..programs[0].clone()
            });
        }
        programs.push(Program {
            runtime_s: None,
            correct: false,
            ..programs[1].clone()
        });
        let groups = groups(&programs);
        assert_eq!(groups.len(), 1);
        let times: Vec<f64> = groups[0].timed.iter().map(|t| t.seconds).collect();
        assert_eq!(times, [3e-3, 5e-3]);
        assert_eq!(groups[0].wrong.len(), 1);
        assert_eq!(groups[0].median_s(), Some(4e-3));
    }

    #[test]
    fn the_slowest_never_are_as_fast_as_the_fastest() {
        let mut programs = timed("a", "p", 4);
        for program in &mut programs[..3] {
            program.runtime_s = Some(1e-3);
        }
        let even = groups(&programs);
        assert_eq!(even[0].slowest(0.5).len(), 1);
        let one = timed("a", "p", 1);
        assert!(groups(&one)[0].slowest(0.5).is_empty());
        let two = timed("a", "p", 2);
        assert_eq!(groups(&two)[0].slowest(0.33).len(), 1);
    }
}
