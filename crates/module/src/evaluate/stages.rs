//! The stages that crate `evaluate` puts together.

use flopsmith_measure::time::Limits;

use super::{Evaluator, unprepared};
use crate::baseline::Baseline;
use crate::error::Error;
use crate::outcome::{NOT_VERIFIED, Outcome, TO_BE_TIMED, Verdict};
use crate::package::Package;
use crate::verify::Bench;
use crate::worker::Stop;

/// The work of one workload, and the time of the fastest baseline.
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
            None => self.run_verification(package, &mut outcome.largest_error),
        };
        self.settle(end, &mut outcome)?;
        Ok(outcome)
    }

    /// Times a compiled candidate within these limits, and verifies it before and after. One in CUDA C++ is not timed, and has
    /// the verdict [`Verdict::Compiled`].
    ///
    /// # Errors
    /// Only for failures that the candidate cannot cause.
    pub fn time(&mut self, package: &Package, limits: Limits) -> Result<Outcome, Error> {
        if let Some(outcome) = package.only_compiled() {
            return Ok(outcome);
        }
        let mut outcome = package.unjudged();
        self.prepare_benches()?;
        self.prepare_compiled()?;
        let end = self.run(package, limits, &mut outcome.largest_error);
        self.settle(end, &mut outcome)?;
        Ok(outcome)
    }

    /// Number of calls that a verification makes at least.
    pub fn calls(&self) -> usize {
        let kinds = self.problem.distributions.len();
        let dense = kinds * (1 + usize::from(self.problem.gradients.any()));
        let forms = |bench: &Bench| bench.loaded.layout.forms.len().min(1);
        let benches = self.benches.iter();
        benches.map(|bench| dense + forms(bench)).sum()
    }

    /// Prepares all baselines, and counts and times the work of each workload.
    ///
    /// # Errors
    /// If a trusted process fails.
    pub fn efforts(&mut self) -> Result<Vec<Effort>, Error> {
        self.prepare_benches()?;
        self.prepare_compiled()?;
        let eager = self.problem.baselines.contains(&Baseline::Eager);
        let rng = &mut self.rng;
        let mut efforts = Vec::new();
        for bench in &mut self.benches {
            let state = bench.fresh(rng, "plain", true)?;
            let operations = bench.eager.operations()?;
            for (_, compiled) in &mut bench.compiled {
                compiled.arena.write(0, &state)?;
                compiled.set_parameters()?;
            }
            let mut least = f64::INFINITY;
            for _ in 0..CALLS {
                let compiled = bench.compiled.iter_mut().map(|(_, process)| process);
                let eager = eager.then_some(&mut bench.eager);
                for side in eager.into_iter().chain(compiled) {
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
        largest_error: &mut Option<f64>,
    ) -> Result<Verdict, Stop> {
        *largest_error = Some(self.load_verified(package)?);
        self.worker.as_mut().ok_or_else(unprepared)?.end()?;
        Ok(Verdict::Verified {
            detail: TO_BE_TIMED,
            kernels: Vec::new(),
        })
    }
}

impl Package {
    /// The outcome of a package before anything was evaluated.
    pub(crate) fn unjudged(&self) -> Outcome {
        Outcome {
            techniques: Some(self.techniques),
            compile_seconds: self.compile_seconds,
            ..Outcome::unevaluated()
        }
    }

    /// The outcome of CUDA C++, for which there is nothing to do but compiling. A stored package has no figures of kernels.
    fn only_compiled(&self) -> Option<Outcome> {
        self.in_cuda.then(|| Outcome {
            verdict: Verdict::Compiled {
                detail: NOT_VERIFIED,
                kernels: self.kernels.clone(),
            },
            ..self.unjudged()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::gpu::{Architecture, CompiledKernel, Figures};

    #[test]
    fn cuda_has_no_outcome_but_that_it_was_compiled() {
        let kernels = vec![CompiledKernel {
            kernel: "rows".into(),
            symbol: None,
            architecture: Architecture::DEFAULT[0],
            constants: BTreeMap::new(),
            figures: Figures::default(),
        }];
        let package = Package {
            techniques: "fusion".parse().expect("a set"),
            source: "class ModelNew: pass".into(),
            extensions: Vec::new(),
            triton: None,
            in_cuda: true,
            kernels: kernels.clone(),
            compile_seconds: 1.5,
        };
        let outcome = package.only_compiled().expect("an outcome");
        let expected = Verdict::Compiled {
            detail: NOT_VERIFIED,
            kernels,
        };
        assert_eq!(outcome.verdict, expected);
        assert_eq!(outcome.techniques, Some(package.techniques));
        assert_eq!(
            (outcome.compile_seconds, outcome.largest_error),
            (1.5, None)
        );
        let stored = Package::from_bytes(&package.to_bytes().expect("bytes")).expect("a package");
        assert_eq!((stored.kernels, stored.compile_seconds), (Vec::new(), 0.0));
        let in_cpp = Package {
            in_cuda: false,
            ..package
        };
        assert_eq!(in_cpp.only_compiled(), None);
    }
}
