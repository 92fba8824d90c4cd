//! The labels of programs: each is compiled, verified and timed in the jail.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_evaluate::Evaluator;
use flopsmith_generator::measured::Program;
use flopsmith_measure::{Purpose, Timer, Verifier};
use flopsmith_problem::Problem;
use flopsmith_problem::prompt::Style;
use flopsmith_protocol::{Technique, TechniqueSet, Verdict};
use flopsmith_run::console::usage;
use flopsmith_run::evaluator;
use serde::{Deserialize, Serialize};

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
        Some(Program {
            problem: self.evaluator.problem.id.to_string(),
            workloads: self.workloads.clone(),
            prompt: given.prompt,
            source: given.source,
            correct: runtime_s.is_some(),
            runtime_s,
            origin: given.origin,
            rank: None,
        })
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
