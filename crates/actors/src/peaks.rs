//! The peaks by which a run rewards speed. Pure.

use std::collections::BTreeMap;

use flopsmith_protocol::{MachineClass, MachineFacts, Outcome, ProblemId};

/// The floating-point peaks of a machine class, GFLOPS, as the first of its nodes published them. A run with one problem
/// has one peak; in a run over many each problem has its own, since its elements may be doubles, floats or integers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Peaks {
    common: Option<f64>,
    of_problems: BTreeMap<ProblemId, f64>,
}

impl From<Option<f64>> for Peaks {
    fn from(common: Option<f64>) -> Self {
        Self {
            common,
            of_problems: BTreeMap::new(),
        }
    }
}

impl Peaks {
    /// The peaks that these facts, the earliest first, state for a class.
    pub fn of(facts: impl Iterator<Item = MachineFacts>, class: &MachineClass) -> Self {
        let mut peaks = Self::default();
        let told = facts.filter(|facts| facts.machine_class == *class && facts.peak_gflops > 0.0);
        for facts in told {
            match facts.problem {
                Some(problem) => {
                    let peak = facts.peak_gflops;
                    peaks.of_problems.entry(problem).or_insert(peak);
                }
                None => peaks.common = peaks.common.or(Some(facts.peak_gflops)),
            }
        }
        peaks
    }

    /// The peak for a problem's programs; none if no node has published it.
    pub fn get(&self, problem: &ProblemId) -> Option<f64> {
        self.of_problems.get(problem).copied().or(self.common)
    }

    /// True if the peaks for all measured programs among these are known. A node publishes a peak before it measures.
    pub fn cover<'a>(&self, outcomes: impl Iterator<Item = &'a Outcome>) -> bool {
        let mut measured = outcomes.filter(|outcome| outcome.verdict.measurement().is_some());
        measured.all(|outcome| self.get(&outcome.candidate.problem).is_some())
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::{
        ATTESTED, candidate, machine, machine_class, measured, outcome, problem_id, wrong,
    };

    use super::*;

    #[test]
    fn the_first_peak_of_the_class_counts_for_each_problem() {
        let other = ProblemId::new("other").expect("an id");
        let facts = |problem: Option<&ProblemId>, peak_gflops| MachineFacts {
            problem: problem.cloned(),
            peak_gflops,
            ..machine(ATTESTED)
        };
        let class = machine_class();
        let foreign = MachineFacts {
            machine_class: MachineClass::new("foreign").expect("a class"),
            ..facts(Some(&other), 7.0)
        };
        let told = [
            foreign,
            facts(Some(&other), 0.0),
            facts(Some(&other), 100.0),
            facts(Some(&other), 90.0),
        ];
        let peaks = Peaks::of(told.into_iter(), &class);
        assert_eq!(peaks.get(&other), Some(100.0));
        assert_eq!(peaks.get(&problem_id()), None);
        let first = candidate(1, 0, 0);
        assert!(peaks.cover([outcome(first.clone(), wrong())].iter()));
        assert!(!peaks.cover([outcome(first, measured(9.0))].iter()));
        let one = Peaks::of([facts(None, 50.0), facts(None, 60.0)].into_iter(), &class);
        assert_eq!(one, Peaks::from(Some(50.0)));
        assert_eq!(one.get(&other), Some(50.0));
    }
}
