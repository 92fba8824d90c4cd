//! Calls the reference with fewer repetitions than a workload has.
//!
//! An iteration may come to rest long before its last step. A program may then stop early, and it is right for all
//! inputs. Integers on which the shape of no array depends count such steps.

use std::collections::BTreeSet;

use flopsmith_problem::{ArgKind, Finding, Formula, Params, Problem};
use flopsmith_protocol::Failure;
use rand_chacha::ChaCha8Rng;

use super::cases::Case;
use super::{CPU_LIMIT, Verifier};
use crate::supervise::{Placing, plan, specify};

/// If a larger share of the results stays right with fewer repetitions, a program may leave out the others.
const STILL: f64 = 0.5;

impl Verifier {
    /// Looks for parameters of a workload whose smaller values give the same results.
    pub(super) fn repetitions(
        &self,
        size: &Params,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<Finding>, Failure> {
        let Some(case) = self.cases_at(size).first().copied() else {
            return Ok(Vec::new());
        };
        let mut findings = Vec::new();
        for (name, smaller) in smaller(&self.problem, size) {
            for value in smaller {
                let share = self.right_with(case, &name, value, rng)?;
                if share > STILL {
                    findings.push(Finding::Warning(format!(
                        "{:.0} % of the results stay right if `{name}` is {value} instead of {}: a program may stop early; lower `{name}`, or enlarge the arrays",
                        100.0 * share, size[&name]
                    )));
                    break;
                }
            }
        }
        Ok(findings)
    }

    /// The share of a case's results that stay right if a parameter has this value; 0 if the reference fails with it.
    fn right_with(
        &self,
        case: &Case,
        name: &str,
        value: i64,
        rng: &mut ChaCha8Rng,
    ) -> Result<f64, Failure> {
        let mut params = case.params.clone();
        params.insert(name.to_owned(), value);
        let Ok(other) = specify(&self.problem, &params) else {
            return Ok(0.0);
        };
        self.arena.reset();
        let entry = &self.problem.entry.name;
        let mut process = self.start(&self.reference, entry, &self.arena, Some(CPU_LIMIT))?;
        let placement = self.lay_out(case, &self.arena, Placing::Between, &mut process, rng)?;
        let called = case.specification.clone().with_integers_of(&other);
        process.plan(&plan(&called, &placement))?;
        let share = match process.call(case.limit) {
            Ok(_) => Some(case.right_share(&self.arena, &placement)),
            Err(Failure::Candidate { .. }) => None,
            Err(other) => return Err(other),
        };
        self.arena.restore(&placement);
        match share {
            Some(share) => process.exit().map(|()| share),
            // The process has ended already.
            None => Ok(0.0),
        }
    }
}

/// Parameters of integer arguments that are in the shape of no array, with smaller values that are legal: about half of
/// the value, and the next smaller one.
fn smaller(problem: &Problem, size: &Params) -> Vec<(String, Vec<i64>)> {
    let (mut integers, mut shapes) = (BTreeSet::new(), BTreeSet::new());
    for argument in &problem.entry.args {
        match &argument.kind {
            ArgKind::Int { value } => integers.extend(value.params()),
            ArgKind::Array { shape, .. } => shapes.extend(shape.iter().flat_map(Formula::params)),
            ArgKind::Scalar { .. } => {}
        }
    }
    let values = |name: &String| {
        let value = *size.get(name)?;
        let hidden = problem.verify.hidden.iter().find(|h| h.param == *name);
        let least = hidden.map_or(1, |hidden| hidden.min);
        let below = |most: i64| {
            let mut values = (least..=most).rev();
            values.find(|value| hidden.is_none_or(|hidden| hidden.fits(*value)))
        };
        let mut values: Vec<i64> = [value / 2, value - 1]
            .into_iter()
            .filter_map(below)
            .collect();
        values.dedup();
        Some((name.clone(), values))
    };
    integers.difference(&shapes).filter_map(values).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::shipped;

    use super::*;

    fn problem(name: &str) -> Problem {
        Problem::load(&shipped::problem(name)).unwrap()
    }

    fn one(name: &str, values: &[i64]) -> Vec<(String, Vec<i64>)> {
        vec![(name.to_owned(), values.to_vec())]
    }

    #[test]
    fn parameters_in_no_shape_get_smaller_values() {
        let at_first = |name: &str| {
            let problem = problem(name);
            smaller(&problem, &problem.timed)
        };
        assert_eq!(at_first("stencil2d"), one("sweeps", &[4, 7]));
        assert_eq!(at_first("polybench_jacobi_2d"), one("tsteps", &[20, 39]));
        assert!(at_first("dgemm").is_empty());
        // One of its inputs has an element for each step.
        assert!(at_first("polybench_fdtd_2d").is_empty());
    }

    #[test]
    fn smaller_values_are_legal() {
        let mut problem = problem("stencil2d");
        let at = |problem: &Problem, sweeps: i64| {
            let mut size = problem.timed.clone();
            size.insert("sweeps".into(), sweeps);
            smaller(problem, &size)
        };
        assert_eq!(at(&problem, 2), one("sweeps", &[1]));
        assert_eq!(at(&problem, 1), one("sweeps", &[]));
        let hidden = problem.verify.hidden.iter_mut();
        for hidden in hidden.filter(|hidden| hidden.param == "sweeps") {
            (hidden.multiple_of, hidden.min) = (3, 6);
        }
        assert_eq!(at(&problem, 24), one("sweeps", &[12, 21]));
        assert_eq!(at(&problem, 9), one("sweeps", &[6]));
        problem.verify.hidden.clear();
        assert_eq!(at(&problem, 9), one("sweeps", &[4, 8]));
    }
}
