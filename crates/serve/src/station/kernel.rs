//! The stages of a kernel.

use flopsmith_evaluate::{Evaluated, Evaluator, cores_to_watch};
use flopsmith_machine::attest::Attestation;
use flopsmith_measure::{Chains, Timer, Verifier};
use flopsmith_protocol::{Failure, Verdict};
use flopsmith_run::idle_wait;
use flopsmith_run::local::unix_ms;

use super::bench::{Bench, IdleWait, Measured};
use super::shared_roofs::SharedRoofs;
use crate::program::Program;
use crate::reference::Grade;
use crate::wire::Purpose;

/// The stages of a kernel.
pub struct KernelBench {
    /// Without sanitizers.
    plain: Evaluator,
    /// With sanitizers.
    sanitizing: Evaluator,
    verifier: Verifier,
    timer: Timer,
    /// The disturbance while the timer measured its reference.
    reference_busy: Option<String>,
}

impl KernelBench {
    /// Runs the reference, and measures the baseline, and the roofs unless they are known.
    ///
    /// # Errors
    /// The failure of this machine or of the problem.
    pub fn open(
        plain: Evaluator,
        threads: u32,
        roofs: &mut SharedRoofs,
        idle: &IdleWait<'_>,
    ) -> Result<Self, Failure> {
        let sanitizing = plain.clone().with_sanitizers(threads);
        let verifier = plain.verifier(threads)?;
        let cores = cores_to_watch(threads);
        let reference_busy = idle.wait(|| idle_wait::used(&cores))?;
        let now = unix_ms();
        let timer = plain.timer_with_roofs(threads, roofs.known(now))?;
        roofs.keep(timer.attestation(), reference_busy.is_some(), now);
        Ok(Self {
            plain,
            sanitizing,
            verifier,
            timer,
            reference_busy,
        })
    }
}

impl Bench for KernelBench {
    fn places(&self) -> usize {
        1
    }

    /// A quick reference is that of the timer's start, which certifications replace. The peak is that of the start, too.
    fn renews(&self, grade: Grade, again: bool) -> bool {
        grade == Grade::Refined && !again
    }

    fn attestation(&self) -> &Attestation {
        self.timer.attestation()
    }

    fn measure(
        &mut self,
        grade: Grade,
        _: &mut SharedRoofs,
        idle: &IdleWait<'_>,
    ) -> Result<Measured, Failure> {
        // The timer has measured it for `Grade::Quick`.
        if grade == Grade::Refined {
            let timer = &mut self.timer;
            self.reference_busy = idle.wait(|| idle_wait::look(timer))?;
            self.timer.refine_reference()?;
        }
        Ok(Measured {
            chains: self.timer.chains(),
            gflops: self.timer.reference_gflops(),
            of_each: self.timer.reference_gflops_of_each(),
            peak_gflops: self.timer.peak_gflops(),
            busy: self.reference_busy.clone(),
        })
    }

    fn refer_to(&mut self, chains: &Chains) {
        self.timer.go_on_with(chains);
    }

    fn evaluate(
        &mut self,
        program: &Program,
        sanitize: bool,
        of_reference: Option<&str>,
        idle: &IdleWait<'_>,
    ) -> Result<Evaluated, Failure> {
        let certifies = program.purpose == Purpose::Certify;
        let evaluator = match sanitize || certifies {
            true => &self.sanitizing,
            false => &self.plain,
        };
        let standard = flopsmith_measure::Purpose::from(program.purpose);
        let (language, source) = (program.language, &program.source);
        let prepared = evaluator.prepare(language, source, &mut self.verifier, standard.into());
        let mut busy = None;
        if prepared.can_be_timed() {
            let timer = &mut self.timer;
            // A look at the cores takes a sixth of a second. The quarantine costs nothing while the machine is quiet.
            let own = match certifies {
                true => idle.wait(|| idle_wait::look(timer))?,
                false => idle.wait(|| idle_wait::drifted(timer))?,
            };
            busy = idle_wait::resting_on(of_reference, own);
        }
        let mut done = prepared.time(&mut self.timer, standard, None);
        done.busy = busy.filter(|_| matches!(done.verdict, Verdict::Measured { .. }));
        Ok(done)
    }
}
