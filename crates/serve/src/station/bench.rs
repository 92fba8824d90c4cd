//! The stages of one open problem, whatever its target.

use std::time::Duration;

use flopsmith_evaluate::{Evaluated, Pipeline};
use flopsmith_machine::attest::Attestation;
use flopsmith_measure::Chains;
use flopsmith_protocol::{Failure, InfrastructureCause};
use flopsmith_run::idle_wait::Patience;
use tokio_util::sync::CancellationToken;

use super::Settings;
use super::kernel::KernelBench;
use super::module::ModuleBench;
use super::shared_roofs::SharedRoofs;
use crate::program::Program;
use crate::reference::Grade;

/// How long to wait until the machine is quiet, and the request that ends the wait.
pub struct IdleWait<'a> {
    /// The longest wait.
    pub limit: Duration,
    /// Cancelled once nothing is to be measured any more.
    pub stopped: &'a CancellationToken,
}

impl IdleWait<'_> {
    /// Waits until `look` finds nothing. Returns the disturbance that remains.
    ///
    /// # Errors
    /// The service is stopping.
    pub fn wait(&self, look: impl FnMut() -> Option<String>) -> Result<Option<String>, Failure> {
        let waited = Patience::new(self.limit).wait(look, self.stopped);
        waited.go_on().map_err(|_| {
            Failure::infrastructure(InfrastructureCause::Shutdown, "the service is stopping")
        })
    }
}

/// A measurement of the reference, and the peak.
pub struct Measured {
    /// The ratios of reference and baseline.
    pub chains: Chains,
    /// Speed of the reference, 10⁹ operations a second: over several workloads the geometric mean.
    pub gflops: f64,
    /// The same at each of several workloads; empty where there is one.
    pub of_each: Vec<f64>,
    /// Measured peak of the timed cores, 10⁹ operations a second.
    pub peak_gflops: f64,
    /// Why the machine was not quiet meanwhile.
    pub busy: Option<String>,
}

/// Verifies and times the programs of one problem. Each target has one.
pub trait Bench: Send {
    /// Share of the places for open problems that its processes take.
    fn places(&self) -> usize;

    /// True if it can measure the reference to this grade, `again` if it has done so before; else another bench has to be
    /// opened for that.
    fn renews(&self, grade: Grade, again: bool) -> bool;

    /// The machine that measurements of programs name.
    fn attestation(&self) -> &Attestation;

    /// Measures the reference to this grade. A bench that renews its roofs with it takes those over that are known, or keeps
    /// its own there.
    ///
    /// # Errors
    /// The failure of this machine or of the problem.
    fn measure(
        &mut self,
        grade: Grade,
        roofs: &mut SharedRoofs,
        idle: &IdleWait<'_>,
    ) -> Result<Measured, Failure>;

    /// From now on ratios refer to the reference with these chains.
    fn refer_to(&mut self, chains: &Chains);

    /// Evaluates a program. `of_reference` says why the machine was not quiet while the reference was measured. With
    /// `sanitize`, sanitizers check the program as far as the target has some.
    ///
    /// # Errors
    /// The service is stopping. All that is known of the program is in the result.
    fn evaluate(
        &mut self,
        program: &Program,
        sanitize: bool,
        of_reference: Option<&str>,
        idle: &IdleWait<'_>,
    ) -> Result<Evaluated, Failure>;
}

/// Opens a problem, which measures its reference, and the roofs unless they are known.
///
/// # Errors
/// The failure of this machine or of the problem.
pub fn open(
    pipeline: Pipeline,
    settings: &Settings,
    roofs: &mut SharedRoofs,
    idle: &IdleWait<'_>,
) -> Result<Box<dyn Bench>, Failure> {
    let threads = settings.threads;
    let bench: Box<dyn Bench> = match pipeline {
        Pipeline::Kernel(evaluator) => {
            Box::new(KernelBench::open(*evaluator, threads, roofs, idle)?)
        }
        Pipeline::Module(evaluator) => Box::new(ModuleBench::open(evaluator, roofs, idle)?),
    };
    Ok(bench)
}
