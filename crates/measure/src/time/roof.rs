//! The roofs that measurements are compared with.

use std::time::Duration;

use flopsmith_machine::peak::{self, Peak};
use flopsmith_machine::roofline::{self, MEMORY, Place, Roof, Roofs};
use flopsmith_problem::Arithmetic;
use flopsmith_protocol::{Failure, InfrastructureCause};

use super::Caches;
use super::workload::WorkloadTimer;

/// Above this share of the measured peak a result is an error of the measurement.
const PLAUSIBLE: f64 = 1.02;
/// The same for the roof of memory. It is measured for a moment and by one way of reading; and if the data are just
/// larger than the buffer of that measurement, which is four times the last cache, a quarter of them may be in that
/// cache.
const PLAUSIBLE_FROM_MEMORY: f64 = 1.5;
/// The same for integers: some instructions do more operations at once than an addition of bytes (sums of differences,
/// products of pairs), on fewer units.
const PLAUSIBLE_INTEGERS: f64 = 1.5;
/// The same for the bytes that calls without caches read, all of which come from memory.
const PLAUSIBLE_COLD: f64 = 1.35;
/// The same for all bytes that these calls move: written lines must be fetched first or go to memory, except where the
/// processor sees that whole lines are written and skips the fetch.
const PLAUSIBLE_COLD_MOVED: f64 = 1.9;
/// Time spent on measuring the peak.
pub(super) const PEAK_BUDGET: Duration = Duration::from_millis(250);
/// Time spent on every other roof; there are about a dozen.
pub(super) const ROOF_BUDGET: Duration = Duration::from_millis(10);

/// Measures all roofs of these cores.
pub fn measure(cores: &[usize], threads: u32) -> (Peak, Roofs) {
    peak::measure_all(cores, threads, PEAK_BUDGET, ROOF_BUDGET)
}

/// The highest speeds of the machine's cores. They grow if a measurement finds the machine faster than it seemed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ceilings {
    pub peak: Peak,
    /// Best speed with integers when they were measured again, 10⁹ operations a second; 0 before that.
    pub integer_gops: f64,
}

impl Ceilings {
    /// Takes over what is higher in other ceilings of the same cores.
    pub fn raise(&mut self, other: &Self) {
        self.peak.gflops = self.peak.gflops.max(other.peak.gflops);
        let bandwidth = &mut self.peak.bandwidth_gb_s;
        *bandwidth = bandwidth.max(other.peak.bandwidth_gb_s);
        self.integer_gops = self.integer_gops.max(other.integer_gops);
    }
}

/// The calls that are compared with the memory roof.
#[derive(Debug, Clone, Copy)]
struct Calls {
    /// Operations of each call.
    flops: f64,
    /// Bytes that each call must move.
    moved_bytes: f64,
    /// The part of these bytes that the call must read; written bytes may stay in a cache.
    read_bytes: f64,
    /// True if the calls find nothing in a cache.
    cold: bool,
    /// Threads of each call.
    threads: u32,
}

/// True if calls that move this many bytes cannot find most of them in a cache.
pub(super) fn exceeds_caches(moved_bytes: f64, threads: u32, measured: &Roofs) -> bool {
    let mut levels = measured.bandwidth.iter();
    let memory = levels.find(|b| b.level == MEMORY && b.threads == threads);
    // Caches that were not measured hold at most a quarter of that buffer.
    memory.is_some_and(|memory| moved_bytes >= memory.buffer_bytes as f64)
        && measured.beyond_caches(threads)
}

/// The memory roof of calls whose data must come from memory, 10⁹ operations a second. None if the data may come from a
/// cache, or if the roof is unknown.
fn from_memory(calls: &Calls, peak_gflops: f64, gb_s: f64, measured: &Roofs) -> Option<f64> {
    let roof = Roof {
        peak_gflops,
        threads: calls.threads,
        measured,
    };
    let far = calls.cold || {
        let placed = roofline::place(calls.flops, calls.moved_bytes, 0.0, roof)?;
        !placed.may_exceed() && exceeds_caches(calls.moved_bytes, calls.threads, measured)
    };
    let slope = calls.flops / calls.read_bytes * gb_s;
    (far && slope.is_finite() && slope > 0.0).then_some(slope)
}

/// The compute roof of a problem's arithmetic, 10⁹ operations a second: vectors hold twice as many floats as doubles, and
/// `halves` times as many operations with floats of two bytes take the time of one with doubles. For integers it is the
/// rate of byte additions, as programs may pack their numbers so.
fn compute(arithmetic: Arithmetic, peak_gflops: f64, integer_gops: f64, halves: f64) -> f64 {
    match arithmetic {
        Arithmetic::Double => peak_gflops,
        Arithmetic::Single => 2.0 * peak_gflops,
        Arithmetic::Half => halves * peak_gflops,
        Arithmetic::Integer => integer_gops,
    }
}

/// Operations with floats of two bytes in the time of one with doubles, at most, by this machine's instructions: programs
/// compute in single precision where it has none for them. Those of matrix tiles (AMX) do not count: a process must ask the
/// kernel for their registers, and the jail forbids that.
fn halves() -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        let has = std::arch::is_x86_feature_detected!("avx512fp16")
            || std::arch::is_x86_feature_detected!("avx512bf16");
        if has { 4.0 } else { 2.0 }
    }
    #[cfg(target_arch = "aarch64")]
    {
        // Products of small matrices of bfloat16 (BFMMLA) do twice the work of other vectors of two bytes.
        if std::arch::is_aarch64_feature_detected!("bf16") {
            8.0
        } else if std::arch::is_aarch64_feature_detected!("fp16") {
            4.0
        } else {
            2.0
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        2.0
    }
}

/// The highest plausible speed of calls without caches, by the memory roof, 10⁹ operations a second; none if that is
/// unknown.
fn plausible_cold(calls: &Calls, peak_gflops: f64, gb_s: f64, measured: &Roofs) -> Option<f64> {
    let cold = Calls {
        cold: true,
        ..*calls
    };
    let moved = Calls {
        read_bytes: cold.moved_bytes,
        ..cold
    };
    let of = |calls: &Calls, plausible: f64| {
        from_memory(calls, peak_gflops, gb_s, measured).map(|roof| roof * plausible)
    };
    let (read, moved) = (of(&cold, PLAUSIBLE_COLD), of(&moved, PLAUSIBLE_COLD_MOVED));
    [read, moved].into_iter().flatten().min_by(f64::total_cmp)
}

impl WorkloadTimer {
    /// The place under the roofs of a program of this problem that does `gflops` · 10⁹ operations a second, see
    /// [`roofline::place`]. Shorter floats are read as fast as doubles, byte for byte, and computed faster.
    pub fn place(&self, gflops: f64) -> Option<Place> {
        let roof = Roof {
            peak_gflops: self.roof(),
            threads: self.equipment.threads,
            measured: &self.equipment.attestation.roofs,
        };
        let bytes = self.problem.moved_bytes(&self.problem.timed);
        roofline::place(self.work_flops, bytes, gflops, roof)
    }

    /// The peak for the type of numbers that this problem computes with.
    pub(super) fn roof(&self) -> f64 {
        let attested = self
            .equipment
            .attestation
            .roofs
            .fastest_integers(self.equipment.threads);
        let attested = attested.map_or(0.0, |ceiling| ceiling.gflops);
        let integer_gops = self.ceilings.integer_gops.max(attested);
        compute(
            self.problem.arithmetic(),
            self.ceilings.peak.gflops,
            integer_gops,
            halves(),
        )
    }

    /// A result above this many times the roof is an error of the measurement.
    fn slack(&self) -> f64 {
        match self.problem.arithmetic() {
            Arithmetic::Integer => PLAUSIBLE_INTEGERS,
            Arithmetic::Double | Arithmetic::Single | Arithmetic::Half => PLAUSIBLE,
        }
    }

    /// The timed calls, for the comparison with the memory roof.
    fn calls(&self) -> Calls {
        let moved_bytes = self.problem.moved_bytes(&self.problem.timed);
        let arrays = self.specification.arrays.iter();
        let outputs = arrays.filter(|array| array.role.is_written());
        let written: usize = outputs.map(|a| a.bytes()).sum();
        Calls {
            flops: self.work_flops,
            moved_bytes,
            read_bytes: moved_bytes - written as f64,
            cold: self.caches == Caches::Cold,
            threads: self.equipment.threads,
        }
    }

    /// True if `gflops` is more than this machine can do.
    pub(super) fn exceeds(&self, gflops: f64) -> bool {
        gflops > self.roof() * self.slack() || self.exceeds_memory(gflops).is_some()
    }

    /// The memory roof of this problem's programs if `gflops` lies implausibly far above it; none if their data may
    /// come from a cache.
    fn exceeds_memory(&self, gflops: f64) -> Option<f64> {
        let (gb_s, roofs) = (
            self.ceilings.peak.bandwidth_gb_s,
            &self.equipment.attestation.roofs,
        );
        from_memory(&self.calls(), self.roof(), gb_s, roofs)
            .filter(|roof| gflops > roof * PLAUSIBLE_FROM_MEMORY)
    }

    /// The highest plausible speed of calls without caches, if `gflops` exceeds it.
    fn exceeds_cold(&self, gflops: f64) -> Option<f64> {
        let (gb_s, roofs) = (
            self.ceilings.peak.bandwidth_gb_s,
            &self.equipment.attestation.roofs,
        );
        plausible_cold(&self.calls(), self.roof(), gb_s, roofs).filter(|most| gflops > *most)
    }

    /// Measures the roofs again, since the first measurement may have fallen into a bad moment.
    fn raise_roofs(&mut self) {
        let (cores, threads) = (&self.equipment.cores.kernel, self.equipment.threads);
        let peak = peak::measure(cores, threads, PEAK_BUDGET * 2);
        let integer_gops = match self.problem.arithmetic() {
            Arithmetic::Integer => peak::measure_integers(cores, threads, PEAK_BUDGET).gflops,
            Arithmetic::Double | Arithmetic::Single | Arithmetic::Half => 0.0,
        };
        self.ceilings.raise(&Ceilings { peak, integer_gops });
    }

    /// Refuses results that are faster than this machine can be.
    pub(super) fn plausible(&mut self, gflops: f64) -> Result<(), Failure> {
        if self.exceeds(gflops) {
            self.raise_roofs();
        }
        if gflops > self.roof() * self.slack() {
            // The program gets neither reward nor blame: it is tried again and then left out.
            return Err(implausible(format!(
                "{gflops:.2} GFLOPS are more than this machine's measured peak of {:.2}",
                self.roof()
            )));
        }
        if let Some(roof) = self.exceeds_memory(gflops) {
            return Err(implausible(format!(
                "{gflops:.2} GFLOPS are more than the {roof:.2} that this machine's measured memory bandwidth of {:.1} GB/s permits",
                self.ceilings.peak.bandwidth_gb_s
            )));
        }
        Ok(())
    }

    /// Refuses calls without caches, of `seconds` each, that were faster than memory permits.
    pub(super) fn plausible_without_caches(&mut self, seconds: f64) -> Result<(), Failure> {
        let gflops = self.work_flops / seconds / 1e9;
        if self.exceeds_cold(gflops).is_some() {
            self.raise_roofs();
        }
        match self.exceeds_cold(gflops) {
            None => Ok(()),
            Some(most) => Err(implausible(format!(
                "{gflops:.2} GFLOPS with cold caches are more than the {most:.2} that this machine's measured memory bandwidth of {:.1} GB/s permits",
                self.ceilings.peak.bandwidth_gb_s
            ))),
        }
    }
}

fn implausible(detail: String) -> Failure {
    Failure::infrastructure(InfrastructureCause::Implausible, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_machine::roofline::Bandwidth;
    use flopsmith_test_support::shipped;

    /// A last cache of 32 MiB, and 20 GB/s from memory, measured through 128 MiB.
    fn roofs() -> Roofs {
        let level = |level: &str, gb_s: f64, mib: u64, holds_bytes: Option<u64>| Bandwidth {
            level: level.into(),
            threads: 1,
            gb_s,
            buffer_bytes: mib << 20,
            holds_bytes,
        };
        Roofs {
            compute: Vec::new(),
            integer: Vec::new(),
            bandwidth: vec![
                level("L3", 50.0, 16, Some(32 << 20)),
                level(MEMORY, 20.0, 128, None),
            ],
        }
    }

    fn permitted(mib: f64, cold: bool) -> Option<f64> {
        let bytes = mib * f64::from(1 << 20);
        let calls = Calls {
            flops: bytes / 8.0,
            moved_bytes: bytes,
            read_bytes: bytes,
            cold,
            threads: 1,
        };
        from_memory(&calls, 80.0, 20.0, &roofs())
    }

    #[test]
    fn memory_limits_calls_that_find_nothing_in_a_cache() {
        // An operation for each eight bytes, of which 20 · 10⁹ come in a second.
        for (mib, cold) in [(1.0, true), (500.0, true), (128.0, false), (500.0, false)] {
            let roof = permitted(mib, cold);
            assert!(
                roof.is_some_and(|roof| (roof - 2.5).abs() < 1e-9),
                "{mib} MiB, {cold}: {roof:?}"
            );
        }
        // Some or all of the data may come from a cache, or their amount is unknown.
        for mib in [1.0, 31.0, 40.0, 127.0, f64::NAN, -1.0, 0.0] {
            assert_eq!(permitted(mib, false), None, "{mib} MiB");
        }
        assert_eq!(permitted(f64::NAN, true), None);
    }

    /// Integers need not have the full width of their type.
    #[test]
    fn the_roof_fits_the_numbers_that_are_computed_with() {
        for (arithmetic, roof) in [
            (Arithmetic::Double, 40.0),
            (Arithmetic::Single, 80.0),
            (Arithmetic::Half, 160.0),
            (Arithmetic::Integer, 300.0),
        ] {
            assert_eq!(compute(arithmetic, 40.0, 300.0, 4.0), roof);
        }
        // Where no instruction computes with two bytes, programs compute with four.
        assert!(halves() >= compute(Arithmetic::Single, 1.0, 0.0, 0.0));
        let of = |name: &str| {
            let problem = flopsmith_problem::Problem::load(&shipped::at(name));
            problem.expect("it is shipped").arithmetic()
        };
        for name in ["floyd_warshall", "histogram", "sort64", "prefix_sum"] {
            assert_eq!(of(name), Arithmetic::Integer, "{name}");
        }
        for (name, arithmetic) in [
            ("dgemm", Arithmetic::Double),
            // Integer operations show the place of the doubles.
            ("spmv", Arithmetic::Double),
            ("sgemm", Arithmetic::Single),
            ("conv2d", Arithmetic::Single),
        ] {
            assert_eq!(of(name), arithmetic, "{name}");
        }
    }

    #[test]
    fn calls_without_caches_are_held_against_memory_even_where_warm_ones_are_not() {
        // Small enough for a cache, so that only cold calls have to come from memory.
        let calls = |read_bytes| Calls {
            flops: 1e6,
            moved_bytes: 2e6,
            read_bytes,
            cold: false,
            threads: 1,
        };
        let most = |read_bytes| plausible_cold(&calls(read_bytes), 80.0, 20.0, &roofs());
        // All data are read: half an operation for each byte, of which 20 · 10⁹ come in a second.
        assert!(most(2e6).is_some_and(|most| (most - 13.5).abs() < 1e-9));
        // Half of the data are written; the bytes read alone would permit 27.
        assert!(most(1e6).is_some_and(|most| (most - 19.0).abs() < 1e-9));
        // Nothing is read, but the written bytes must go to memory.
        assert!(most(0.0).is_some_and(|most| (most - 19.0).abs() < 1e-9));
        let warm = from_memory(&calls(2e6), 80.0, 20.0, &roofs());
        assert_eq!(warm, None);
    }

    #[test]
    fn writes_need_not_reach_memory() {
        let calls = Calls {
            flops: 1e9,
            moved_bytes: 2e9,
            read_bytes: 1e9,
            cold: true,
            threads: 1,
        };
        let roof = |calls: &Calls| from_memory(calls, 80.0, 20.0, &roofs());
        assert_eq!(roof(&calls), Some(20.0));
        let writes = Calls {
            read_bytes: 0.0,
            ..calls
        };
        assert_eq!(roof(&writes), None);
        let others = Calls {
            cold: false,
            threads: 3,
            ..calls
        };
        assert_eq!(roof(&others), None, "nobody measured three threads");
    }
}
