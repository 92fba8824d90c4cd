//! Verifies the fast kernel that timed calls are interleaved with, and not only at the size where it is timed.

use flopsmith_compile::toolchain::Toolchain;
use flopsmith_problem::{ErrorBound, Finding};
use flopsmith_protocol::{Failure, InfrastructureCause};

use super::{Thoroughness, Verifier, compile_own};

impl Verifier {
    /// Verifies the problem's baseline like a candidate that is to be certified: against the reference, at hidden sizes
    /// as well as at the timed one. None if the reference itself is the baseline.
    ///
    /// # Errors
    /// An infrastructure failure of this machine. A baseline that does not compile, or is wrong, is a finding.
    pub fn baseline(
        &mut self,
        toolchain: &Toolchain,
        seed: u64,
    ) -> Result<Option<Finding>, Failure> {
        let Some(source) = self.problem.baseline_source.clone() else {
            return Ok(None);
        };
        let problem = self.problem.clone();
        let built = compile_own(&self.sandbox, toolchain, &problem, &source, "baseline.c");
        let found = match built {
            Ok(object) => self.verify_to(&object, seed, Thoroughness::Full),
            Err(Failure::Infrastructure {
                cause: InfrastructureCause::Baseline,
                detail,
            }) => return Ok(Some(Finding::Error(detail))),
            Err(other) => return Err(other),
        };
        match found {
            Ok(report) => Ok(Some(Finding::Good(format!(
                "the baseline agrees with the reference on {} inputs; its largest error is {:.3} of the bound",
                report.cases, report.worst_error_share
            )))),
            Err(Failure::Candidate { fault, detail }) => {
                let or_bound = match self.problem.bound {
                    ErrorBound::Exact => "",
                    ErrorBound::Gemm { .. } => ", or `bound.c` is too small",
                    ErrorBound::Scaled { .. } => {
                        ", or the bound is wrong (magnitude.c, `bound.operations`, or `bound.c` is too small)"
                    }
                };
                Ok(Some(Finding::Error(format!(
                    "baseline.c and reference.c do not agree: one of them is wrong{or_bound} ({fault}: {detail})"
                ))))
            }
            Err(other) => Err(other),
        }
    }
}
