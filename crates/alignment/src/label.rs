//! The labels of programs: each is compiled, verified and timed in the jail.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use anyhow::Result;
use flopsmith_evaluate::Evaluator;
use flopsmith_generator::measured::Program;
use flopsmith_measure::{Purpose, Timer, Verifier};
use flopsmith_problem::Problem;
use flopsmith_problem::prompt::Style;
use flopsmith_protocol::{ProblemId, Technique, TechniqueSet, Verdict};
use flopsmith_run::console::usage;
use flopsmith_run::evaluator;
use flopsmith_run::farm::{self, Farm};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::to_measure::Work;

/// A program to measure.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Given {
    /// The problem.
    pub problem: String,
    /// The prompt that it answers.
    pub prompt: String,
    /// The program.
    pub source: String,
    /// Its origin.
    pub origin: String,
}

/// The `runtime_s` of a program's line: `Some(None)` if the program is wrong, `None` if the verdict says nothing about
/// the program.
pub fn runtime_s(verdict: &Verdict) -> Option<Option<f64>> {
    match verdict {
        Verdict::Measured { measurement } => measurement.known_seconds_per_call().map(Some),
        Verdict::Rejected { .. } => Some(None),
        Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => None,
    }
}

/// The techniques that programs may use where nothing else is said: all of the problem's but OpenMP, since programs are
/// timed on one core.
pub fn permitted(problem: &Problem) -> TechniqueSet {
    problem.techniques.without(Technique::Openmp)
}

/// The one prompt for all programs of a problem.
///
/// # Errors
/// Wrong usage: in the style of nests, a reference that is no affine loop nest.
pub fn prompt(problem: &Problem, permitted: TechniqueSet, style: Style) -> Result<String> {
    flopsmith_nest::prompt::render(problem, permitted, None, style)
        .map_err(|e| usage(e.to_string()))
}

/// The bench on which the programs of one problem are measured.
pub struct Bench {
    evaluator: Evaluator,
    verifier: Verifier,
    timer: Timer,
    workloads: Vec<String>,
    permitted: Option<TechniqueSet>,
    /// The times of the programs so far: a program may answer several prompts.
    known: HashMap<String, Option<f64>>,
}

impl Bench {
    /// Opens the bench of a problem, which measures the machine for some seconds. `workloads` are the names that were
    /// chosen of the problem's, and go into the lines. A program that uses techniques outside of `permitted` is not
    /// correct; without `permitted` techniques do not matter.
    ///
    /// # Errors
    /// This machine lacks what the measurement needs.
    pub fn open(
        problem: Arc<Problem>,
        workloads: &[String],
        compiler: &str,
        allow_weaker_jail: bool,
        permitted: Option<TechniqueSet>,
    ) -> Result<Self> {
        let evaluator = evaluator::open(problem, compiler, allow_weaker_jail)?;
        let (verifier, timer) = (evaluator.verifier(1)?, evaluator.timer(1)?);
        Ok(Self {
            evaluator,
            verifier,
            timer,
            workloads: workloads.to_vec(),
            permitted,
            known: HashMap::new(),
        })
    }

    /// The line of a program; none if this machine failed to measure it.
    pub fn measure(&mut self, given: Given) -> Option<Program> {
        let known = self.known.get(&given.source).copied();
        let runtime_s = match known {
            Some(runtime_s) => runtime_s,
            None => {
                let runtime_s = self.runtime_s(&given.source)?;
                self.known.insert(given.source.clone(), runtime_s);
                runtime_s
            }
        };
        let given = Given {
            problem: self.evaluator.problem.id.to_string(),
            ..given
        };
        Some(line(given, &self.workloads, runtime_s))
    }

    fn runtime_s(&mut self, source: &str) -> Option<Option<f64>> {
        let done = self.evaluator.evaluate(
            self.evaluator.problem.language,
            source,
            &mut self.verifier,
            &mut self.timer,
            Purpose::Screen,
        );
        let used = done.techniques.unwrap_or_default();
        let is_permitted = self.permitted.is_none_or(|p| used.is_subset(p));
        match &done.verdict {
            Verdict::Measured { .. } if !is_permitted => Some(None),
            verdict => runtime_s(verdict),
        }
    }
}

/// Measures programs on the workers of a cluster, and hands over the line of each in their order; none for one that no worker
/// could measure. `workloads` go into the lines. False if a stop was requested.
///
/// # Errors
/// The bus fails, no worker processes the programs, or `each` fails.
pub fn on_farm(
    farm: &mut Farm,
    work: Vec<Work>,
    workloads: &[String],
    stopped: &CancellationToken,
    mut each: impl FnMut(Option<Program>) -> Result<()>,
) -> Result<bool> {
    // A program may answer several prompts.
    let mut numbers: HashMap<(ProblemId, String), usize> = HashMap::new();
    let mut programs = Vec::new();
    let mut lines = VecDeque::new();
    for Work {
        problem,
        permitted,
        programs: given,
    } in work
    {
        for given in given {
            let key = (problem.id.clone(), given.source.clone());
            let number = *numbers.entry(key).or_insert_with(|| {
                programs.push(farm::Program {
                    problem: problem.id.clone(),
                    permitted: permitted.unwrap_or(TechniqueSet::all()),
                    full: false,
                    language: None,
                    source: given.source.clone(),
                });
                programs.len() - 1
            });
            lines.push_back((number, given));
        }
    }
    let mut known: Vec<Option<Option<Option<f64>>>> = vec![None; programs.len()];
    farm.evaluate(&programs, stopped, |number, outcome, _| {
        known[number] = Some(runtime_s(&outcome.verdict));
        while let Some((number, _)) = lines.front()
            && let Some(measured) = known[*number]
            && let Some((_, given)) = lines.pop_front()
        {
            each(measured.map(|runtime_s| line(given, workloads, runtime_s)))?;
        }
        Ok(())
    })
}

/// The line of a measured program.
fn line(given: Given, workloads: &[String], runtime_s: Option<f64>) -> Program {
    Program {
        problem: given.problem,
        workloads: workloads.to_vec(),
        prompt: given.prompt,
        source: given.source,
        correct: runtime_s.is_some(),
        runtime_s,
        origin: given.origin,
        rank: None,
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::{Measured, unknown, wrong};

    use super::*;

    #[test]
    fn an_unconverged_time_is_labelled_by_its_upper_end() {
        let seconds = Measured::at(40.0).measurement().seconds_per_call;
        let of = |measured: Measured| runtime_s(&measured.verdict());
        assert_eq!(of(Measured::at(40.0)), Some(Some(seconds)));
        let unsure = of(Measured::at(40.0).se(0.5).unconverged()).flatten();
        assert!(unsure.is_some_and(|s| 2.0 * seconds < s && s < 3.0 * seconds));
        assert_eq!(of(Measured::at(40.0).se(f64::NAN).unconverged()), None);
        assert_eq!(
            (runtime_s(&wrong()), runtime_s(&unknown())),
            (Some(None), None)
        );
    }
}
