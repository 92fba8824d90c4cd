//! The roofs that measurements are held against.

use std::time::Duration;

use flopsmith_protocol::InfrastructureCause;

use super::{Caches, Timer};
use crate::Failure;
use crate::peak::{self, Peak};
use crate::roofline::{self, MEMORY, Place, Roof, Roofs};

/// Above this share of the measured peak a result is an error of the measurement.
const PLAUSIBLE: f64 = 1.02;
/// The same for what memory permits. It is measured for a moment and by one way of reading; and of data that are just
/// larger than the buffer it is measured through, four times the last cache, a quarter may be in that cache.
const PLAUSIBLE_FROM_MEMORY: f64 = 1.5;
/// Time spent on measuring the peak.
const PEAK_BUDGET: Duration = Duration::from_millis(250);
/// Time spent on every other roof; there are about a dozen.
const ROOF_BUDGET: Duration = Duration::from_millis(10);

/// Measures all roofs of these cores.
pub fn measure(cores: &[usize], threads: u32) -> (Peak, Roofs) {
    peak::measure_all(cores, threads, PEAK_BUDGET, ROOF_BUDGET)
}

/// What calls do that are held against memory.
#[derive(Debug, Clone, Copy)]
struct Calls {
    /// Operations of each.
    flops: f64,
    /// Bytes that each must move.
    moved_bytes: f64,
    /// Those of them that it must read; what it writes may stay in a cache.
    read_bytes: f64,
    /// Do they find nothing in a cache?
    cold: bool,
    /// Threads of each.
    threads: u32,
}

/// What memory permits calls whose data must come from there, 10⁹ operations a second. None where they need not, or nobody
/// knows.
fn from_memory(calls: &Calls, peak_gflops: f64, gb_s: f64, measured: &Roofs) -> Option<f64> {
    let roof = Roof {
        peak_gflops,
        threads: calls.threads,
        measured,
    };
    let far = calls.cold || {
        let placed = roofline::place(calls.flops, calls.moved_bytes, 0.0, roof)?;
        let mut read = measured.bandwidth.iter();
        let read = read.find(|b| b.level == MEMORY && b.threads == calls.threads)?;
        // Caches that were not measured hold no more than a quarter of that buffer.
        let beyond = measured.beyond_caches(calls.threads);
        !placed.may_exceed() && beyond && calls.moved_bytes >= read.buffer_bytes as f64
    };
    let slope = calls.flops / calls.read_bytes * gb_s;
    (far && slope.is_finite() && slope > 0.0).then_some(slope)
}

impl Timer {
    /// Measured floating-point peak at this thread count, 10⁹ operations a second.
    pub fn peak_gflops(&self) -> f64 {
        self.roof()
    }

    /// Where a program of this problem lies under the roofs that does `gflops` · 10⁹ operations a second, see
    /// [`roofline::place`]. Single precision is read as fast as double, byte for byte, and computed twice as fast.
    pub fn place(&self, gflops: f64) -> Option<Place> {
        let roof = Roof {
            peak_gflops: self.roof(),
            threads: self.threads,
            measured: &self.attestation.roofs,
        };
        let bytes = self.problem.moved_bytes(&self.problem.timed);
        roofline::place(self.work_flops, bytes, gflops, roof)
    }

    /// The peak for elements of this problem's size: vectors hold twice as many floats as doubles.
    pub(super) fn roof(&self) -> f64 {
        self.peak.gflops * self.problem.lanes()
    }

    /// What memory permits this problem's programs, as far as their data must come from there.
    fn memory_roof(&self) -> Option<f64> {
        let moved_bytes = self.problem.moved_bytes(&self.problem.timed);
        let outputs = self.specification.arrays.iter().filter(|a| a.output);
        let written: usize = outputs.map(|a| a.bytes()).sum();
        let calls = Calls {
            flops: self.work_flops,
            moved_bytes,
            read_bytes: moved_bytes - written as f64,
            cold: self.caches == Caches::Cold,
            threads: self.threads,
        };
        let gb_s = self.peak.bandwidth_gb_s;
        from_memory(&calls, self.roof(), gb_s, &self.attestation.roofs)
    }

    /// Is it more than this machine can do?
    pub(super) fn exceeds(&self, gflops: f64) -> bool {
        gflops > self.roof() * PLAUSIBLE || self.exceeds_memory(gflops).is_some()
    }

    fn exceeds_memory(&self, gflops: f64) -> Option<f64> {
        self.memory_roof()
            .filter(|roof| gflops > roof * PLAUSIBLE_FROM_MEMORY)
    }

    /// Refuses what is faster than this machine can be.
    pub(super) fn plausible(&mut self, gflops: f64) -> Result<f64, Failure> {
        if self.exceeds(gflops) {
            // The roof itself may have been measured in a bad moment.
            let again = peak::measure(&self.cores.kernel, self.threads, PEAK_BUDGET * 2);
            self.peak.gflops = self.peak.gflops.max(again.gflops);
            self.peak.bandwidth_gb_s = self.peak.bandwidth_gb_s.max(again.bandwidth_gb_s);
        }
        if gflops > self.roof() * PLAUSIBLE {
            // Nobody is rewarded for it and nobody blamed: it is tried again and then left out.
            return Err(Failure::infrastructure(
                InfrastructureCause::Implausible,
                format!(
                    "{gflops:.2} GFLOPS are more than this machine's measured peak of {:.2}",
                    self.roof()
                ),
            ));
        }
        if let Some(roof) = self.exceeds_memory(gflops) {
            return Err(Failure::infrastructure(
                InfrastructureCause::Implausible,
                format!(
                    "{gflops:.2} GFLOPS are more than the {roof:.2} that this machine's measured memory bandwidth of {:.1} GB/s permits",
                    self.peak.bandwidth_gb_s
                ),
            ));
        }
        Ok(gflops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roofline::Bandwidth;

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
        // Some or all of it may come from a cache, or nobody says how much it is.
        for mib in [1.0, 31.0, 40.0, 127.0, f64::NAN, -1.0, 0.0] {
            assert_eq!(permitted(mib, false), None, "{mib} MiB");
        }
        assert_eq!(permitted(f64::NAN, true), None);
    }

    #[test]
    fn what_is_only_written_need_not_reach_memory() {
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
