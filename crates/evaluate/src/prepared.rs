//! A program that was compiled and verified, and its result.

use std::sync::Arc;

use flopsmith_compile::{Built, Compiler};
use flopsmith_measure::{Checked, PADDINGS, Purpose, Timed, Timer, Verifier};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Failure, TechniqueSet, Verdict, VerifiedSizes};

use crate::draws::Draws;
use crate::layouts;

/// The result of evaluating a program.
pub struct Evaluated {
    /// Its verdict.
    pub verdict: Verdict,
    /// Its techniques, once it was compiled.
    pub techniques: Option<TechniqueSet>,
    /// Width of the widest vector register in its object, bits.
    pub vector_bits: Option<u32>,
    /// Compiler warnings.
    pub diagnostics: String,
    /// The sanitizers that checked the program and found nothing, if they checked it.
    pub checked: Option<Checked>,
    /// Raw samples.
    pub raw: Vec<u8>,
    /// Why the machine was not quiet, if the program was timed nevertheless. The caller that waits for a quiet machine
    /// sets it.
    pub busy: Option<String>,
}

/// A program that can be timed, or that cannot.
#[expect(
    clippy::large_enum_variant,
    reason = "there are few at a time, and most are built"
)]
pub enum Prepared {
    /// There is no object.
    Refused(Failure),
    /// There is an object.
    Built {
        /// The object, and the compile stage's findings about it.
        built: Built,
        /// Builds the program once more with another layout.
        other_layouts: OtherLayouts,
        /// The sanitizers that checked the program and found nothing, if they checked it.
        checked: Option<Checked>,
        /// The sizes at which the program was verified, if it was verified in full.
        sizes: Option<VerifiedSizes>,
        /// Why the program may not be timed.
        failed: Option<Failure>,
    },
}

/// Builds a program once more with other code layouts.
pub struct OtherLayouts {
    pub(crate) compiler: Arc<Compiler>,
    pub(crate) problem: Arc<Problem>,
    pub(crate) language: Language,
    pub(crate) source: String,
    /// The objects with these layouts, once they were verified.
    pub(crate) verified: Option<Vec<Vec<u8>>>,
    pub(crate) draws: Draws,
}

impl OtherLayouts {
    fn certify(&self, timer: &mut Timer) -> Result<Timed, Failure> {
        if let Some(layouts) = &self.verified {
            return timer.certify(layouts, self.draws.random());
        }
        // Only our own programs are certified without verified layouts.
        let layouts =
            self.compiler
                .layouts(self.language, &self.problem, &self.source, &PADDINGS)?;
        timer.certify(&layouts, self.draws.random())
    }
}

impl Prepared {
    /// Builds the program with other code layouts and verifies each of these objects. A candidate must pass this before
    /// it is certified.
    pub fn verify_other_layouts(&mut self, verifier: &mut Verifier) {
        let Prepared::Built {
            other_layouts,
            failed,
            ..
        } = self
        else {
            return;
        };
        if failed.is_some() {
            return;
        }
        let (compiler, problem) = (&other_layouts.compiler, &other_layouts.problem);
        let draws = &other_layouts.draws;
        let (language, source) = (other_layouts.language, other_layouts.source.as_str());
        match layouts::verified(compiler, language, problem, source, verifier, draws) {
            Ok(objects) => other_layouts.verified = Some(objects),
            Err(failure) => *failed = Some(failure),
        }
    }

    /// Times the program, unless it was refused or failed. A screening ends early for a program that is clearly slower
    /// than `best_gflops`, see [`Timer::measure`].
    pub fn time(&self, timer: &mut Timer, purpose: Purpose, best_gflops: Option<f64>) -> Evaluated {
        let timed = match self {
            Prepared::Refused(failure)
            | Prepared::Built {
                failed: Some(failure),
                ..
            } => Err(failure.clone()),
            Prepared::Built {
                built,
                other_layouts,
                failed: None,
                ..
            } => match purpose {
                Purpose::Certify => other_layouts.certify(timer),
                _ => {
                    let seed = other_layouts.draws.random();
                    timer.measure(&built.object, purpose, seed, best_gflops)
                }
            },
        };
        match timed {
            Ok(timed) => {
                let mut measurement = timed.measurement;
                measurement.sizes = self.sizes();
                self.evaluated(Verdict::Measured { measurement }, timed.raw)
            }
            Err(failure) => self.failed(failure),
        }
    }

    /// The result of a program that failed so.
    pub fn failed(&self, failure: Failure) -> Evaluated {
        self.evaluated(failure.into(), Vec::new())
    }

    fn evaluated(&self, verdict: Verdict, raw: Vec<u8>) -> Evaluated {
        let built = self.built();
        Evaluated {
            verdict,
            techniques: built.map(|b| b.techniques),
            vector_bits: built.and_then(|b| b.vector_bits),
            diagnostics: built.map(|b| b.diagnostics.clone()).unwrap_or_default(),
            checked: self.checked().cloned(),
            raw,
            busy: None,
        }
    }

    fn built(&self) -> Option<&Built> {
        match self {
            Prepared::Refused(_) => None,
            Prepared::Built { built, .. } => Some(built),
        }
    }

    /// True if the program may be timed.
    pub fn can_be_timed(&self) -> bool {
        self.failure().is_none()
    }

    /// Why the program may not be timed.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Prepared::Refused(failure) => Some(failure),
            Prepared::Built { failed, .. } => failed.as_ref(),
        }
    }

    /// The sanitizers that checked the program and found nothing, if they checked it.
    pub fn checked(&self) -> Option<&Checked> {
        match self {
            Prepared::Refused(_) => None,
            Prepared::Built { checked, .. } => checked.as_ref(),
        }
    }

    /// The sizes at which the program was verified, if it was verified in full.
    fn sizes(&self) -> Option<VerifiedSizes> {
        match self {
            Prepared::Refused(_) => None,
            Prepared::Built { sizes, .. } => *sizes,
        }
    }

    /// The techniques, once the program was compiled.
    pub fn techniques(&self) -> Option<TechniqueSet> {
        self.built().map(|built| built.techniques)
    }

    /// The shared object, once there is one.
    pub fn object(&self) -> Option<&[u8]> {
        self.built().map(|built| built.object.as_slice())
    }
}
