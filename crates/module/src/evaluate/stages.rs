//! Verifying and timing one by one, for callers to whom these are different jobs.

use flopsmith_measure::time::Limits;

use super::{Evaluator, unprepared};
use crate::error::Error;
use crate::outcome::{NOT_VERIFIED, Outcome, TO_BE_TIMED, Verdict};
use crate::package::Package;
use crate::verify::Patience;
use crate::worker::{SLOW, Stop};

/// The work of one workload, and the time of the faster baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Effort {
    /// Name of the workload.
    pub workload: String,
    /// Useful operations of a call.
    pub operations: f64,
    /// Seconds of a call of the fastest baseline.
    pub baseline_seconds: f64,
}

/// Calls of each baseline that its time is taken from.
const CALLS: usize = 7;

impl Evaluator {
    /// Verifies a candidate at every workload. One in C++ has the verdict [`Verdict::Verified`] with the detail
    /// [`TO_BE_TIMED`] if it is right; kernels of Triton are compiled besides, and have
    /// [`NOT_TIMED`](crate::NOT_TIMED). One in CUDA C++ has the verdict [`Verdict::Compiled`], because nothing of it can run.
    ///
    /// # Errors
    /// Only for failures that the candidate cannot cause.
    pub fn verify(&mut self, package: &Package) -> Result<Outcome, Error> {
        if let Some(outcome) = package.only_compiled() {
            return Ok(outcome);
        }
        let mut outcome = package.unjudged();
        self.prepare_benches()?;
        let end = match &package.triton {
            Some(triton) => {
                self.environment.needs_triton()?;
                self.run_triton(triton, &mut outcome)
            }
            None => self.run_verification(package, &mut outcome),
        };
        self.settle(end, &mut outcome)?;
        Ok(outcome)
    }

    /// Times a candidate that was verified, within these limits. It is verified again before and after. One in CUDA C++ is not
    /// timed, and has the verdict [`Verdict::Compiled`].
    ///
    /// # Errors
    /// Only for failures that the candidate cannot cause.
    pub fn time(&mut self, package: &Package, limits: Limits) -> Result<Outcome, Error> {
        if let Some(outcome) = package.only_compiled() {
            return Ok(outcome);
        }
        let mut outcome = package.unjudged();
        self.options.limits = limits;
        self.prepare_benches()?;
        self.prepare_inductor()?;
        let end = self.run(
            &package.source,
            &package.extensions,
            &mut outcome.largest_error,
        );
        self.settle(end, &mut outcome)?;
        Ok(outcome)
    }

    /// Number of calls that a verification makes at least.
    pub fn calls(&self) -> usize {
        self.benches.len() * self.problem.distributions.len()
    }

    /// Prepares all baselines, and counts and times the work of each workload.
    ///
    /// # Errors
    /// If a trusted process fails.
    pub fn efforts(&mut self) -> Result<Vec<Effort>, Error> {
        self.prepare_benches()?;
        self.prepare_inductor()?;
        let rng = &mut self.rng;
        let mut efforts = Vec::new();
        for bench in &mut self.benches {
            let state = bench.fresh(rng, "plain", true)?;
            let operations = bench.eager.operations()?;
            if let Some(inductor) = &mut bench.inductor {
                inductor.arena.write(0, &state)?;
                inductor.set_parameters()?;
            }
            let mut least = f64::INFINITY;
            for _ in 0..CALLS {
                let sides = std::iter::once(&mut bench.eager).chain(&mut bench.inductor);
                for side in sides {
                    least = least.min(side.call()?.as_secs_f64());
                }
            }
            efforts.push(Effort {
                workload: bench.workload.name.clone(),
                operations,
                baseline_seconds: least,
            });
        }
        Ok(efforts)
    }

    fn run_verification(
        &mut self,
        package: &Package,
        outcome: &mut Outcome,
    ) -> Result<Verdict, Stop> {
        let load = self.write_candidate(&package.source, &package.extensions)?;
        let patience = Patience::compiled();
        if !package.extensions.is_empty() {
            self.knock_out(&load, false, patience)?;
        }
        self.fork_worker(false)?;
        let worker = self.worker.as_mut().ok_or_else(unprepared)?;
        worker.ask(&load, SLOW)?;
        outcome.largest_error = Some(self.verify_all(1, patience)?);
        let worker = self.worker.as_mut().ok_or_else(unprepared)?;
        worker.end()?;
        Ok(Verdict::Verified {
            detail: TO_BE_TIMED,
            kernels: Vec::new(),
        })
    }
}

impl Package {
    /// The outcome of a package before anything was evaluated.
    fn unjudged(&self) -> Outcome {
        Outcome {
            techniques: Some(self.techniques),
            ..Outcome::unevaluated()
        }
    }

    /// The outcome of CUDA C++, for which there is nothing to do but compiling. The figures of its kernels stayed there.
    fn only_compiled(&self) -> Option<Outcome> {
        self.in_cuda.then(|| Outcome {
            verdict: Verdict::Compiled {
                detail: NOT_VERIFIED,
                kernels: Vec::new(),
            },
            ..self.unjudged()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuda_has_no_outcome_but_that_it_was_compiled() {
        let package = Package {
            techniques: "fusion".parse().expect("a set"),
            source: "class ModelNew: pass".into(),
            extensions: Vec::new(),
            triton: None,
            in_cuda: true,
        };
        let outcome = package.only_compiled().expect("an outcome");
        let expected = Verdict::Compiled {
            detail: NOT_VERIFIED,
            kernels: Vec::new(),
        };
        assert_eq!(outcome.verdict, expected);
        assert_eq!(outcome.techniques, Some(package.techniques));
        assert_eq!(outcome.largest_error, None);
        let in_cpp = Package {
            in_cuda: false,
            ..package
        };
        assert_eq!(in_cpp.only_compiled(), None);
    }
}
