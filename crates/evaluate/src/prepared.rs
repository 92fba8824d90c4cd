//! A program that was compiled and verified, and its result.

use flopsmith_compile::Built;
use flopsmith_measure::{Checked, Purpose, Timed, Timer};
use flopsmith_protocol::{Failure, InfrastructureCause, TechniqueSet, Verdict, VerifiedSizes};

use crate::draws::Draws;

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
pub enum Prepared {
    /// There is no object.
    Refused(Failure),
    /// There is an object.
    Built {
        /// The object, and the compile stage's findings about it.
        built: Built,
        /// The same program in other code layouts.
        other_layouts: OtherLayouts,
        /// The sanitizers that checked the program and found nothing, if they checked it.
        checked: Option<Checked>,
        /// The sizes at which the program was verified, if it was verified in full.
        sizes: Option<VerifiedSizes>,
        /// Why the program may not be timed.
        failed: Option<Failure>,
    },
}

/// The objects of a program in other code layouts, which a certification times.
pub struct OtherLayouts {
    /// The objects, each of them verified; none if the look at the program did not include them.
    pub(crate) verified: Option<Vec<Vec<u8>>>,
    /// Seeds of the measurements.
    pub(crate) draws: Draws,
}

impl OtherLayouts {
    /// The objects to certify.
    fn to_certify(&self) -> Result<&[Vec<u8>], Failure> {
        self.verified.as_deref().ok_or_else(|| {
            Failure::infrastructure(
                InfrastructureCause::Harness,
                "this program cannot be certified: it was not verified in other code layouts",
            )
        })
    }
}

/// A timer, or in tests a record of the requests to one.
trait Clock {
    /// [`Timer::measure`].
    fn measure(
        &mut self,
        object: &[u8],
        purpose: Purpose,
        seed: u64,
        best_gflops: Option<f64>,
    ) -> Result<Timed, Failure>;

    /// [`Timer::certify`].
    fn certify(&mut self, layouts: &[Vec<u8>], seed: u64) -> Result<Timed, Failure>;
}

impl Clock for Timer {
    fn measure(
        &mut self,
        object: &[u8],
        purpose: Purpose,
        seed: u64,
        best_gflops: Option<f64>,
    ) -> Result<Timed, Failure> {
        Timer::measure(self, object, purpose, seed, best_gflops)
    }

    fn certify(&mut self, layouts: &[Vec<u8>], seed: u64) -> Result<Timed, Failure> {
        Timer::certify(self, layouts, seed)
    }
}

impl Prepared {
    /// Times the program, unless it was refused or failed. A screening ends early for a program that is clearly slower
    /// than `best_gflops`, see [`Timer::measure`]. A certification of a program that was not verified in other code layouts
    /// ([`Look::Certified`](crate::Look::Certified)) fails.
    pub fn time(&self, timer: &mut Timer, purpose: Purpose, best_gflops: Option<f64>) -> Evaluated {
        let timed = self.timed(timer, purpose, best_gflops);
        match timed {
            Ok(timed) => {
                let mut measurement = timed.measurement;
                measurement.sizes = self.sizes();
                self.evaluated(Verdict::Measured { measurement }, timed.raw)
            }
            Err(failure) => self.failed(failure),
        }
    }

    fn timed(
        &self,
        clock: &mut impl Clock,
        purpose: Purpose,
        best_gflops: Option<f64>,
    ) -> Result<Timed, Failure> {
        match self {
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
            } => {
                let seed = other_layouts.draws.random();
                match purpose {
                    Purpose::Certify => clock.certify(other_layouts.to_certify()?, seed),
                    Purpose::Screen | Purpose::Rank => {
                        clock.measure(&built.object, purpose, seed, best_gflops)
                    }
                }
            }
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

#[cfg(test)]
mod tests {
    use flopsmith_protocol::{CandidateFault, UnknownCause};

    use super::*;

    /// Notes what it has to time, and gives no number.
    #[derive(Default)]
    struct Asked(Vec<String>);

    impl Asked {
        fn note(&mut self, what: String) -> Result<Timed, Failure> {
            self.0.push(what);
            Err(Failure::unknown(UnknownCause::NoSamples, "no number"))
        }
    }

    impl Clock for Asked {
        fn measure(
            &mut self,
            object: &[u8],
            purpose: Purpose,
            _: u64,
            _: Option<f64>,
        ) -> Result<Timed, Failure> {
            self.note(format!("{purpose:?} {object:?}"))
        }

        fn certify(&mut self, layouts: &[Vec<u8>], _: u64) -> Result<Timed, Failure> {
            self.note(format!("certify {layouts:?}"))
        }
    }

    fn prepared(verified: Option<Vec<Vec<u8>>>, failed: Option<Failure>) -> Prepared {
        Prepared::Built {
            built: Built {
                object: vec![0],
                techniques: TechniqueSet::default(),
                vector_bits: None,
                diagnostics: String::new(),
                seconds: 0.0,
            },
            other_layouts: OtherLayouts {
                verified,
                draws: Draws::seeded(1),
            },
            checked: None,
            sizes: None,
            failed,
        }
    }

    #[test]
    fn a_program_is_certified_in_verified_layouts_only() {
        let mut asked = Asked::default();
        let unverified = prepared(None, None);
        let ended = unverified.timed(&mut asked, Purpose::Certify, None);
        let refusal = Failure::infrastructure(
            InfrastructureCause::Harness,
            "this program cannot be certified: it was not verified in other code layouts",
        );
        assert_eq!(ended, Err(refusal));
        assert!(asked.0.is_empty(), "{:?}", asked.0);

        let wrong = Failure::candidate(CandidateFault::WrongResult, "wrong");
        let failed = prepared(Some(vec![vec![1]]), Some(wrong.clone()));
        let ended = failed.timed(&mut asked, Purpose::Certify, None);
        assert_eq!(ended, Err(wrong));
        assert!(asked.0.is_empty(), "{:?}", asked.0);

        let verified = prepared(Some(vec![vec![1], vec![2]]), None);
        for (program, purpose) in [
            (&unverified, Purpose::Screen),
            (&unverified, Purpose::Rank),
            (&verified, Purpose::Rank),
            (&verified, Purpose::Certify),
        ] {
            assert!(program.timed(&mut asked, purpose, None).is_err());
        }
        assert_eq!(
            asked.0,
            ["Screen [0]", "Rank [0]", "Rank [0]", "certify [[1], [2]]"]
        );
    }
}
