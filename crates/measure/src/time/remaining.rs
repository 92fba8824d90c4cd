//! The checks that are left when a measurement ends.

use flopsmith_protocol::Failure;

use super::check::Check;

/// Calls of the baseline for checks.
pub trait Calls<'a> {
    /// The checks.
    fn check(&mut self) -> &mut Check<'a>;

    /// Calls the baseline with the inputs of this seed.
    fn call_baseline(&mut self, seed: u64) -> Result<(), Failure>;
}

/// Compares all results of the candidate that have not been compared yet. The candidate maps the buffers of these calls as
/// well: by other inputs it could lead the baseline to its own wrong results.
pub fn settle_all<'a>(calls: &mut impl Calls<'a>) -> Result<(), Failure> {
    while let Some(seed) = calls.check().due() {
        calls.call_baseline(seed)?;
        let check = calls.check();
        check.inputs_of_baseline(seed)?;
        check.settle()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use flopsmith_problem::Problem;
    use flopsmith_protocol::CandidateFault;
    use flopsmith_test_support::shipped;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::supervise::{Arena, Placing, specify};
    use crate::time::baseline_oracle::Results;
    use crate::time::check::tests::fill;
    use crate::time::tolerance::Tolerances;

    /// A baseline that computes what the candidate had computed.
    struct Agreeing<'a> {
        check: Check<'a>,
        results: Results<'a>,
        /// An array that is changed during a call.
        changed: Option<usize>,
        calls: u32,
    }

    fn flip(results: Results, array: usize) {
        let (offset, _) = results.placement.arrays[array];
        let flip = |x: &mut [u8]| x[0] ^= 1;
        results.arena.mapping().with_slice(offset, 1, flip);
    }

    impl<'a> Calls<'a> for Agreeing<'a> {
        fn check(&mut self) -> &mut Check<'a> {
            &mut self.check
        }

        fn call_baseline(&mut self, seed: u64) -> Result<(), Failure> {
            fill(self.results, seed);
            self.calls += 1;
            if let Some(array) = self.changed {
                flip(self.results, array);
            }
            Ok(())
        }
    }

    #[test]
    fn changed_inputs_are_seen_in_the_last_calls_of_the_baseline_whatever_it_computes() {
        let problem = Problem::load(&shipped::at("histogram")).expect("the shipped problem");
        let specification = specify(&problem, &problem.timed).expect("sound");
        let arena = Arena::timed(&specification.arrays).expect("there is memory");
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let placement = arena
            .place(&specification.arrays, Placing::Fixed, &mut rng)
            .expect("there is room");
        let results = Results {
            arena: &arena,
            placement: &placement,
            specification: &specification,
        };
        let tolerances = Tolerances::exact(specification.written());
        let kept = specification.kept();
        assert!(!kept.is_empty());
        for changed in kept.into_iter().map(Some).chain([None]) {
            let mut check = Check::new(results, None, &tolerances);
            for seed in [7, 8] {
                check.draw(&mut rng);
                fill(results, seed);
                check.snap();
                check.probe(seed).expect("its results can be read");
            }
            let mut baseline = Agreeing {
                check,
                results,
                changed,
                calls: 0,
            };
            let settled = settle_all(&mut baseline);
            let Some(array) = changed else {
                settled.expect("nothing was changed");
                assert_eq!((baseline.calls, baseline.check.due()), (2, None));
                continue;
            };
            let is_seen = matches!(
                settled,
                Err(Failure::Candidate {
                    fault: CandidateFault::InputModified,
                    ..
                })
            );
            assert!(is_seen, "argument {array}: {settled:?}");
            flip(results, array);
        }
    }
}
