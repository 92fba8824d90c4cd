//! The largest permitted differences between the results of timed calls and the baseline's.
//!
//! If results are not exact, each element has an error bound of its own, which follows from the inputs. The problem's
//! program for this bound is too slow to be called for every timed call. It is therefore called for some seeds
//! beforehand. These seeds are a secret of the supervisor; calls with them come anywhere in a measurement, and their
//! results are compared with the baseline as closely as verified ones. Results of calls with other seeds are compared
//! only as closely as the largest bound of an array permits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flopsmith_compile::toolchain::Toolchain;
use flopsmith_problem::{ErrorBound, Problem};
use flopsmith_protocol::{Failure, InfrastructureCause};
use flopsmith_sandbox::Sandbox;
use rand::Rng;

use super::workload::{WorkloadTimer, own_fault};
use crate::verify::cases::precision;
use crate::verify::{Object, compile_magnitude, oracle};

/// Candidate and baseline may each miss the exact result.
const BOTH_SIDES: f64 = 2.0;
/// Other inputs of the same kind have somewhat larger magnitudes.
const OTHER_INPUTS: f64 = 4.0;

/// A timer learns at least this many seeds when it starts, whatever the time it takes ...
const LEAST: usize = 6;
/// ... and at most this many, ...
const MOST: usize = 64;
/// ... until this time is over ...
const LEARNING: Duration = Duration::from_millis(400);
/// ... and they do not need more memory than this.
const MOST_BYTES: usize = 48 << 20;
/// Fewer seeds are not enough for any measurement.
const FEWEST: usize = 2;
/// Measurements between two renewals. A program could reveal a few bits of its inputs by its speed; renewed seeds keep
/// these bits from adding up.
const RENEW_EVERY: u32 = 16;
/// One in this many seeds is renewed then, the oldest first, in that share of the time.
const RENEWED_ONE_IN: u32 = 4;
/// Longest call of the program that computes magnitudes.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// Largest difference of an output array from the baseline's, for calls whose seed is not known.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Slack {
    /// Number of the array.
    array: usize,
    /// Largest difference in an element; 0 where results are exact.
    most: f64,
}

/// Permitted differences after a call with a certain seed.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    seed: u64,
    /// Largest difference in each element of each output array.
    most: Vec<Vec<f64>>,
}

/// A seed for which the largest difference of each element is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownSeed(usize);

/// Permitted differences of results from the baseline's.
#[derive(Debug, Default)]
pub struct Tolerances {
    /// One for each output array.
    slack: Vec<Slack>,
    /// The oldest first.
    known: Vec<Known>,
    /// Measurements since the start.
    measurements: u32,
}

impl Tolerances {
    /// The tolerances of these output arrays, from those with some seeds, `known`; equality only if there are none.
    fn new(arrays: Vec<usize>, known: Vec<Known>) -> Self {
        let mut tolerances = Self {
            slack: arrays
                .into_iter()
                .map(|array| Slack { array, most: 0.0 })
                .collect(),
            known,
            measurements: 0,
        };
        tolerances.widen();
        tolerances
    }

    /// Equality for each of these output arrays.
    #[cfg(test)]
    pub(super) fn exact(arrays: Vec<usize>) -> Self {
        Self::new(arrays, Vec::new())
    }

    /// Derives the tolerance of any seed from those of the known ones. Timed inputs are all of one kind.
    fn widen(&mut self) {
        for (output, slack) in self.slack.iter_mut().enumerate() {
            let elements = self.known.iter().flat_map(|known| &known.most[output]);
            slack.most = OTHER_INPUTS * elements.copied().fold(0.0, f64::max);
        }
    }

    /// Replaces the oldest seeds with `fresh` ones.
    fn replace(&mut self, fresh: Vec<Known>) {
        let gone = fresh.len().min(self.known.len());
        self.known.drain(..gone);
        self.known.extend(fresh);
        self.widen();
    }

    /// Number of output arrays.
    pub fn outputs(&self) -> usize {
        self.slack.len()
    }

    /// The number of an output array among all arrays.
    pub fn array(&self, output: usize) -> usize {
        self.slack[output].array
    }

    /// The seeds for which calls can be checked closely.
    pub fn seeds(&self) -> Vec<u64> {
        self.known.iter().map(|known| known.seed).collect()
    }

    /// The known seed that equals `seed`, if there is one.
    pub fn find(&self, seed: u64) -> Option<KnownSeed> {
        let mut known = self.known.iter();
        known.position(|known| known.seed == seed).map(KnownSeed)
    }

    /// The largest difference of an element of an output array, after a call with a known seed or another one.
    pub fn most(&self, output: usize, element: usize, seed: Option<KnownSeed>) -> f64 {
        match seed {
            Some(KnownSeed(n)) => self.known[n].most[output][element],
            None => self.slack[output].most,
        }
    }
}

/// The program that computes magnitudes, if the bound of the results is scaled by them.
pub fn program_of_magnitudes(
    sandbox: &Arc<Sandbox>,
    toolchain: &Toolchain,
    problem: &Problem,
) -> Result<Option<Object>, Failure> {
    let ErrorBound::Scaled { .. } = problem.bound else {
        return Ok(None);
    };
    let object = compile_magnitude(sandbox, toolchain, problem)?.ok_or_else(|| {
        Failure::infrastructure(
            InfrastructureCause::Baseline,
            "the problem has a `scaled` bound and no magnitude.c",
        )
    })?;
    Ok(Some(object))
}

impl WorkloadTimer {
    /// Learns the tolerances of some seeds at the start.
    pub(super) fn learn_tolerances(&mut self) -> Result<(), Failure> {
        let arrays = self.specification.written();
        let elements: usize = arrays
            .iter()
            .map(|&n| self.specification.arrays[n].count())
            .sum();
        let most = (MOST_BYTES / (size_of::<f64>() * elements.max(1))).clamp(FEWEST, MOST);
        let known = self.learn(LEAST.min(most), most, LEARNING)?;
        self.tolerances = Tolerances::new(arrays, known);
        Ok(())
    }

    /// Learns some seeds anew, now and then. No candidate's process may exist then.
    pub(super) fn renew_tolerances(&mut self) -> Result<(), Failure> {
        let tolerances = &mut self.tolerances;
        tolerances.measurements = tolerances.measurements.wrapping_add(1);
        let held = tolerances.known.len();
        if held == 0 || !tolerances.measurements.is_multiple_of(RENEW_EVERY) {
            return Ok(());
        }
        let some = held.div_ceil(RENEWED_ONE_IN as usize);
        let fresh = self.learn(1, some, LEARNING / RENEWED_ONE_IN)?;
        self.tolerances.replace(fresh);
        Ok(())
    }

    /// Permitted differences with some new seeds: at least `least` of them, and more while that takes less than `time`.
    /// None if the bounds are not scaled by magnitudes.
    fn learn(&self, least: usize, most: usize, time: Duration) -> Result<Vec<Known>, Failure> {
        let (ErrorBound::Scaled { c, operations }, Some(object)) =
            (&self.problem.bound, &self.equipment.magnitude)
        else {
            return Ok(Vec::new());
        };
        let operations = operations.value(&self.problem.timed).unwrap_or(f64::NAN);
        let started = Instant::now();
        let mut process = self
            .start(&object.bytes, &object.entry, None)
            .map_err(own_fault("magnitude.c"))?;
        process
            .plan(&self.plan_to_fill())
            .map_err(own_fault("magnitude.c"))?;
        let mut known = Vec::with_capacity(most);
        while known.len() < least || (known.len() < most && started.elapsed() < time) {
            let seed = rand::rng().random();
            process.prepare(seed).map_err(own_fault("magnitude.c"))?;
            process.set_scalars(self.specification.registers_of(seed));
            process.call(CALL_LIMIT).map_err(own_fault("magnitude.c"))?;
            known.push(Known {
                seed,
                most: self.permitted(*c, operations)?,
            });
        }
        // The candidate maps the same buffers: they keep none of these inputs.
        self.arena.restore(&self.placement);
        process.exit().map_err(own_fault("magnitude.c"))?;
        Ok(known)
    }

    /// Permitted difference of each element of each output array, whose magnitudes the buffers hold now.
    fn permitted(&self, c: f64, operations: f64) -> Result<Vec<Vec<f64>>, Failure> {
        let of = |array: usize| {
            let precision = precision(self.specification.arrays[array].element);
            let most: Vec<f64> = self
                .results()
                .all(array)
                .into_iter()
                .map(|size| BOTH_SIDES * oracle::scaled_tolerance(c, operations, precision, size))
                .collect();
            // An infinite difference would let every result pass, and a NaN none.
            match most.iter().position(|x| !(x.is_finite() && *x >= 0.0)) {
                None => Ok(most),
                Some(at) => Err(Failure::infrastructure(
                    InfrastructureCause::Baseline,
                    format!(
                        "magnitude.c permits an error of {} in element {at} of {} at the timed size, with {operations} operations",
                        most[at] / BOTH_SIDES,
                        self.specification.argument(array)
                    ),
                )),
            }
        };
        self.specification.written().into_iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(seed: u64, most: &[f64]) -> Known {
        Known {
            seed,
            most: vec![most.to_vec(), vec![0.0]],
        }
    }

    #[test]
    fn a_small_element_has_a_small_tolerance_where_the_seed_is_known() {
        let tolerances = Tolerances::new(
            vec![1, 3],
            vec![known(11, &[1e-4, 1e-9]), known(12, &[1e-8, 3e-4])],
        );
        assert_eq!(tolerances.outputs(), 2);
        assert_eq!([tolerances.array(0), tolerances.array(1)], [1, 3]);
        assert_eq!(tolerances.seeds(), [11, 12]);
        let most = |element, seed| tolerances.most(0, element, tolerances.find(seed));
        assert_eq!([most(0, 11), most(1, 11)], [1e-4, 1e-9]);
        assert_eq!([most(0, 12), most(1, 12)], [1e-8, 3e-4]);
        // Of any other seed only the kind of inputs is known.
        assert!((most(0, 13) - 1.2e-3).abs() < 1e-12);
        assert!((most(1, 13) - 1.2e-3).abs() < 1e-12);
        assert_eq!(tolerances.most(1, 0, None), 0.0);
    }

    #[test]
    fn exact_results_have_no_tolerance() {
        let tolerances = Tolerances::new(vec![2], Vec::new());
        assert_eq!(tolerances.seeds(), Vec::<u64>::new());
        assert_eq!(tolerances.find(1), None);
        assert_eq!(tolerances.most(0, 5, None), 0.0);
    }

    #[test]
    fn the_oldest_seeds_go_first() {
        let first = (0..4).map(|seed| known(seed, &[1.0, 1.0])).collect();
        let mut tolerances = Tolerances::new(vec![0, 1], first);
        tolerances.replace(vec![known(7, &[0.5, 0.5])]);
        assert_eq!(tolerances.seeds(), [1, 2, 3, 7]);
        assert_eq!(tolerances.most(0, 0, tolerances.find(7)), 0.5);
        tolerances.replace((20..24).map(|seed| known(seed, &[0.25, 0.5])).collect());
        assert_eq!(tolerances.seeds(), [20, 21, 22, 23]);
        assert_eq!(tolerances.most(0, 0, None), 2.0);
    }
}
