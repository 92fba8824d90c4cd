//! The roofs of the timed cores, which all problems of a service share.
//!
//! The bench that is opened first measures them, and later ones take them over until they are as old as `--refresh`. Then the
//! next bench that is opened, or that times the baselines of its module once more, measures them anew; all others keep theirs.
//! Roofs of a busy machine are taken over for [`SOON`] only, as its reference is provisional.

use std::time::Duration;

use flopsmith_machine::attest::Attestation;

use crate::reference::{SOON, later};

/// The roofs that were measured last.
pub struct SharedRoofs {
    refresh: Duration,
    latest: Option<Latest>,
}

/// Measured roofs.
struct Latest {
    attestation: Attestation,
    /// The last time at which they hold, milliseconds since 1970.
    until_unix_ms: u64,
}

impl SharedRoofs {
    /// No roofs yet. `refresh` is the longest time for which any hold.
    pub fn new(refresh: Duration) -> Self {
        Self {
            refresh,
            latest: None,
        }
    }

    /// An attestation with roofs that hold at this time; none if they have to be measured.
    pub fn known(&self, now_unix_ms: u64) -> Option<&Attestation> {
        let latest = self.latest.as_ref()?;
        (now_unix_ms <= latest.until_unix_ms).then_some(&latest.attestation)
    }

    /// Keeps the roofs of a bench that was given the known ones at this time, unless it took those over. `busy` says that the
    /// machine was not quiet.
    pub fn keep(&mut self, attestation: &Attestation, busy: bool, now_unix_ms: u64) {
        let took_over = self.known(now_unix_ms).is_some_and(|known| {
            (known.peak, &known.roofs) == (attestation.peak, &attestation.roofs)
        });
        if took_over {
            return;
        }
        let holds = match busy {
            true => self.refresh.min(SOON),
            false => self.refresh,
        };
        self.latest = Some(Latest {
            attestation: attestation.clone(),
            until_unix_ms: later(now_unix_ms, holds),
        });
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_machine::attest::Circumstances;
    use flopsmith_machine::peak::Peak;
    use flopsmith_machine::roofline::Roofs;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const MINUTE: u64 = 60_000;

    fn attested(compiler: &str, gflops: f64) -> Attestation {
        Attestation::collect(&Circumstances {
            supervisor_core: None,
            kernel_cores: &[0],
            threads: 1,
            buffers_in_huge_pages: false,
            compiler,
            flags: &[],
            linker: "",
            other_compilers: &[],
            hand_shake: "sleep",
            peak: Peak {
                gflops,
                bandwidth_gb_s: 10.0,
                vector_bits: 256,
                threads: 1,
            },
            roofs: &Roofs::default(),
        })
    }

    /// A machine that counts how often its roofs were measured.
    struct Machine {
        roofs: SharedRoofs,
        measured: u32,
        busy: bool,
    }

    impl Machine {
        fn quiet() -> Self {
            Self {
                roofs: SharedRoofs::new(DAY),
                measured: 0,
                busy: false,
            }
        }

        /// Opens a bench, as benches do, and returns the number of measurements so far.
        fn open(&mut self, tools: &str, now: u64) -> u32 {
            let gflops = match self.roofs.known(now) {
                Some(known) => known.peak.gflops,
                None => {
                    self.measured += 1;
                    f64::from(self.measured)
                }
            };
            let attestation = attested(tools, gflops);
            self.roofs.keep(&attestation, self.busy, now);
            self.measured
        }
    }

    #[test]
    fn a_second_problem_measures_no_roof_until_a_day_has_passed() {
        let mut machine = Machine::quiet();
        let day = 24 * 60 * MINUTE;
        assert_eq!(machine.open("gcc", 0), 1);
        // Taking them over does not make them younger.
        assert_eq!(machine.open("gcc", day / 2), 1);
        assert_eq!(machine.open("Python", day), 1);
        assert_eq!(machine.open("gcc", day + 1), 2);
        assert_eq!(machine.open("Python", 2 * day), 2);
    }

    #[test]
    fn roofs_of_a_busy_machine_are_taken_over_for_a_short_time() {
        let mut machine = Machine::quiet();
        machine.busy = true;
        assert_eq!(machine.open("gcc", 0), 1);
        assert_eq!(machine.open("gcc", 5 * MINUTE), 1);
        machine.busy = false;
        assert_eq!(machine.open("gcc", 5 * MINUTE + 1), 2);
        // A bench that is opened meanwhile does not spoil them.
        machine.busy = true;
        assert_eq!(machine.open("gcc", 60 * MINUTE), 2);
        assert_eq!(machine.open("gcc", 120 * MINUTE), 2);
    }

    #[test]
    fn roofs_that_a_bench_could_not_take_over_are_kept() {
        let mut machine = Machine::quiet();
        assert_eq!(machine.open("gcc", 0), 1);
        // The process may use other cores now.
        let other = attested("gcc", 7.0);
        machine.roofs.keep(&other, false, MINUTE);
        let known = machine.roofs.known(24 * 60 * MINUTE + MINUTE);
        assert_eq!(known, Some(&other));
    }
}
