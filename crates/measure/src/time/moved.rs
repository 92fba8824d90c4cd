//! The roof of calls of which no more is known than the bytes that each must move.
//!
//! Programs for a module of PyTorch need not do the operations of its operators, so no rate of arithmetic bounds them. They
//! must move some bytes in each call, and the bandwidths of caches and memory bound that.

use flopsmith_machine::peak;
use flopsmith_machine::roofline::{MEMORY, Roofs};

use super::roof::{PEAK_BUDGET, ROOF_BUDGET, exceeds_caches};

/// Above this many times the bandwidth a result is an error of the measurement. A quarter of the bytes may be in a nearer
/// cache, stores that bypass the caches may be faster than loads, and bandwidths are measured for a moment and by loads.
const PLAUSIBLE_MOVED: f64 = 2.0;
/// Calls are held against the bandwidth of a cache if they move at least this many times the bytes of the buffer by which it
/// was measured. That buffer is at least twice as large as the cache before, so at most a quarter of the bytes fit there.
const BEYOND_NEARER: f64 = 2.0;

/// The bandwidths of caches and memory that some cores have together.
#[derive(Debug, Clone)]
pub struct MemoryRoof {
    cores: Vec<usize>,
    threads: u32,
    measured: Roofs,
}

impl MemoryRoof {
    /// Measures the bandwidths with a thread on each of `cores`, or with one thread on any core if there are none.
    pub fn measure(cores: &[usize]) -> Self {
        let threads = u32::try_from(cores.len().max(1)).unwrap_or(u32::MAX);
        Self {
            cores: cores.to_vec(),
            threads,
            measured: Roofs {
                bandwidth: peak::measure_bandwidths(cores, threads, ROOF_BUDGET),
                ..Roofs::default()
            },
        }
    }

    /// Why calls that must move `bytes` bytes cannot take `seconds` each; none if they can. Before it gives a reason it measures
    /// the bandwidths again, since the first measurement may have fallen into a bad moment.
    pub fn why_implausible(&mut self, bytes: u64, seconds: f64) -> Option<String> {
        let gb_s = bytes as f64 / seconds / 1e9;
        let exceeds = |roof: f64| gb_s > roof * PLAUSIBLE_MOVED;
        if limit(bytes, self.threads, &self.measured).is_some_and(exceeds) {
            self.raise();
        }
        let roof = limit(bytes, self.threads, &self.measured).filter(|roof| exceeds(*roof))?;
        Some(format!(
            "a call of {:.3} µs that writes {:.3} MB moves {gb_s:.1} GB/s, more than twice the {roof:.1} GB/s that this machine's caches and memory were measured to move for so many bytes",
            1e6 * seconds,
            bytes as f64 / 1e6
        ))
    }

    /// Measures all bandwidths once more, for longer.
    fn raise(&mut self) {
        let again = peak::measure_bandwidths(&self.cores, self.threads, PEAK_BUDGET);
        for (known, again) in self.measured.bandwidth.iter_mut().zip(again) {
            known.gb_s = known.gb_s.max(again.gb_s);
        }
    }
}

/// The lowest bandwidth of the levels that most of a call's bytes must come from or go to, 10⁹ bytes/s. None if they may lie
/// in nearer caches.
fn limit(bytes: u64, threads: u32, measured: &Roofs) -> Option<f64> {
    let bytes = bytes as f64;
    let levels = measured.bandwidth.iter();
    let of_threads = levels.filter(|level| level.threads == threads && level.gb_s > 0.0);
    let binding = of_threads.filter(|level| match level.level == MEMORY {
        true => exceeds_caches(bytes, threads, measured),
        false => bytes >= BEYOND_NEARER * level.buffer_bytes as f64,
    });
    binding.map(|level| level.gb_s).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use flopsmith_machine::roofline::Bandwidth;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Caches of 2 MiB and 32 MiB for each of `threads` threads, and memory behind them.
    fn roofs(threads: u32) -> Roofs {
        let level = |level: &str, gb_s: f64, mib: u64, holds_bytes: Option<u64>| Bandwidth {
            level: level.into(),
            threads,
            gb_s,
            buffer_bytes: mib * MIB,
            holds_bytes,
        };
        Roofs {
            bandwidth: vec![
                level("L2", 100.0, u64::from(threads), Some(2 * MIB)),
                level("L3", 50.0, 8, Some(32 * MIB)),
                level(MEMORY, 20.0, 128, None),
            ],
            ..Roofs::default()
        }
    }

    #[test]
    fn more_bytes_are_held_against_farther_levels() {
        let known = roofs(1);
        for (mib, expected) in [
            (0, None),
            (1, None),
            (2, Some(100.0)),
            (15, Some(100.0)),
            (16, Some(50.0)),
            (127, Some(50.0)),
            (128, Some(20.0)),
            (4096, Some(20.0)),
        ] {
            assert_eq!(limit(mib * MIB, 1, &known), expected, "{mib} MiB");
        }
        // Two threads have two of the nearer caches.
        assert_eq!(limit(3 * MIB, 2, &roofs(2)), None);
        assert_eq!(limit(4 * MIB, 2, &roofs(2)), Some(100.0));
        assert_eq!(limit(4096 * MIB, 3, &known), None, "nobody measured three");
        assert_eq!(limit(4096 * MIB, 1, &Roofs::default()), None);
    }

    #[test]
    fn only_calls_that_no_machine_can_make_are_implausible() {
        let mut roof = MemoryRoof::measure(&[]);
        let gib = 1 << 30;
        let why = roof.why_implausible(gib, 1e-6);
        assert!(why.is_some_and(|why| why.contains("GB/s")), "{roof:?}");
        assert!(roof.why_implausible(gib, 0.0).is_some(), "{roof:?}");
        for seconds in [100.0, f64::NAN] {
            assert_eq!(roof.why_implausible(gib, seconds), None, "{roof:?}");
        }
        // Results that a register holds say nothing.
        assert_eq!(roof.why_implausible(8, 1e-9), None, "{roof:?}");
    }

    #[test]
    fn a_roof_that_was_measured_in_a_bad_moment_is_measured_again() {
        let mut roof = MemoryRoof::measure(&[]);
        for level in &mut roof.measured.bandwidth {
            level.gb_s = 1e-3;
        }
        // A tenth of what the slowest memory does.
        assert_eq!(roof.why_implausible(1 << 30, 10.0), None, "{roof:?}");
        let raised = roof.measured.bandwidth.iter().all(|b| b.gb_s > 0.01);
        assert!(raised, "{roof:?}");
    }
}
