//! The stages of the evaluation of modules, as the roles of a run take them.

use flopsmith_compile::Built;
use flopsmith_evaluate::{ModuleEvaluator, ModuleMachine};
use flopsmith_measure::{Limits, Purpose, Report, Thoroughness, Timed};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Failure, InfrastructureCause, TechniqueSet};

use crate::role::{compiler, timer, verifier};

impl compiler::Stage for ModuleEvaluator {
    fn compile(
        &self,
        _language: Language,
        _problem: &Problem,
        source: &str,
        permitted: TechniqueSet,
    ) -> Result<Built, Failure> {
        ModuleEvaluator::compile(self, source, permitted)
    }
}

impl verifier::Stage for ModuleEvaluator {
    /// Each verification of a module is a full one, and draws its own inputs.
    fn verify(
        &mut self,
        object: &[u8],
        _rng_seed: u64,
        _thoroughness: Thoroughness,
    ) -> Result<Report, Failure> {
        ModuleEvaluator::verify(self, object)
    }
}

impl timer::Layouts for ModuleEvaluator {
    /// A module has one layout: an interpreter calls its functions.
    fn layouts(
        &self,
        _language: Language,
        problem: &Problem,
        source: &str,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let built = ModuleEvaluator::compile(self, source, problem.techniques)?;
        Ok(vec![built.object])
    }
}

/// Times modules on an attested machine.
pub struct ModuleTimer {
    /// The stages.
    pub evaluator: ModuleEvaluator,
    /// The machine.
    pub machine: ModuleMachine,
}

impl timer::Stage for ModuleTimer {
    fn measure(
        &mut self,
        object: &[u8],
        purpose: Purpose,
        _seed: u64,
        _best_gflops_known: Option<f64>,
    ) -> Result<Timed, Failure> {
        let limits = match purpose {
            Purpose::Rank => Limits::SECOND_LOOK,
            Purpose::Screen | Purpose::Certify => purpose.limits(),
        };
        self.evaluator.measure(&self.machine, object, limits)
    }

    fn certify(&mut self, layouts: &[Vec<u8>], _seed: u64) -> Result<Timed, Failure> {
        let Some(object) = layouts.first() else {
            return Err(Failure::infrastructure(
                InfrastructureCause::Harness,
                "a module was to be certified, and nothing was built",
            ));
        };
        let limits = Purpose::Certify.limits();
        self.evaluator.measure(&self.machine, object, limits)
    }

    fn look(&mut self) -> Option<String> {
        self.evaluator.look()
    }
}
