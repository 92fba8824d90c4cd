//! The stages of a module of PyTorch.

use flopsmith_evaluate::{Evaluated, ModuleEvaluator, ModuleMachine};
use flopsmith_machine::attest::Attestation;
use flopsmith_measure::Chains;
use flopsmith_protocol::{Failure, InfrastructureCause, Verdict};
use flopsmith_run::idle_wait;
use flopsmith_run::local::unix_ms;

use super::bench::{Bench, IdleWait, Measured};
use super::shared_roofs::SharedRoofs;
use crate::program::Program;
use crate::reference::Grade;
use crate::wire::Purpose;

/// A module keeps processes with PyTorch: two for each workload, and one for candidates.
const PLACES: usize = 4;

/// The stages of a module. Its reference is the fastest of its baselines, beside which each program is timed.
pub struct ModuleBench {
    evaluator: ModuleEvaluator,
    machine: ModuleMachine,
    /// The disturbance while the baselines were measured.
    reference_busy: Option<String>,
    /// True until the measurement of the opening was asked for, or is not needed.
    fresh: bool,
}

impl ModuleBench {
    /// Prepares and times the baselines, which takes some tens of seconds for each workload, and measures the roofs unless
    /// they are known.
    ///
    /// # Errors
    /// The failure of this machine or of the problem.
    pub fn open(
        evaluator: ModuleEvaluator,
        roofs: &mut SharedRoofs,
        idle: &IdleWait<'_>,
    ) -> Result<Self, Failure> {
        let (machine, reference_busy) = attested(&evaluator, roofs, idle)?;
        Ok(Self {
            evaluator,
            machine,
            reference_busy,
            fresh: true,
        })
    }
}

/// The machine with the times of the baselines, and the disturbance while they were measured.
fn attested(
    evaluator: &ModuleEvaluator,
    roofs: &mut SharedRoofs,
    idle: &IdleWait<'_>,
) -> Result<(ModuleMachine, Option<String>), Failure> {
    let watched = evaluator.watched();
    let busy = idle.wait(|| idle_wait::used(&watched))?;
    let now = unix_ms();
    let machine = evaluator.attest_with_roofs(roofs.known(now))?;
    roofs.keep(&machine.attestation, busy.is_some(), now);
    Ok((machine, busy))
}

impl Bench for ModuleBench {
    fn places(&self) -> usize {
        PLACES
    }

    /// The prepared baselines are timed once more, which takes little time.
    fn renews(&self, _: Grade, _: bool) -> bool {
        true
    }

    fn attestation(&self) -> &Attestation {
        &self.machine.attestation
    }

    fn measure(
        &mut self,
        _: Grade,
        roofs: &mut SharedRoofs,
        idle: &IdleWait<'_>,
    ) -> Result<Measured, Failure> {
        if !std::mem::take(&mut self.fresh) {
            (self.machine, self.reference_busy) = attested(&self.evaluator, roofs, idle)?;
        }
        let machine = &self.machine;
        let chains = machine.chains().ok_or_else(|| {
            Failure::infrastructure(
                InfrastructureCause::Baseline,
                "the module has no workload whose baselines were timed",
            )
        })?;
        Ok(Measured {
            chains,
            gflops: machine.reference_gflops,
            of_each: machine.reference_gflops_of_each(),
            peak_gflops: machine.peak_gflops,
            busy: self.reference_busy.clone(),
        })
    }

    /// Ratios come from the baselines that a program is timed beside.
    fn refer_to(&mut self, _: &Chains) {
        self.fresh = false;
    }

    fn evaluate(
        &mut self,
        program: &Program,
        _sanitize: bool,
        of_reference: Option<&str>,
        idle: &IdleWait<'_>,
    ) -> Result<Evaluated, Failure> {
        let watched = self.evaluator.watched();
        let own = match program.purpose {
            Purpose::Certify => idle.wait(|| idle_wait::used(&watched))?,
            Purpose::Screen | Purpose::Rank => self.evaluator.look(),
        };
        let limits = flopsmith_measure::Purpose::from(program.purpose).limits();
        let permitted = program.problem.techniques;
        let source = &program.source;
        let mut done = self
            .evaluator
            .evaluate(&self.machine, source, permitted, limits);
        let busy = idle_wait::resting_on(of_reference, own);
        done.busy = busy.filter(|_| matches!(done.verdict, Verdict::Measured { .. }));
        Ok(done)
    }
}
