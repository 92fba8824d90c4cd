//! The peak rates of this machine: multiply-adds, whole numbers in bytes, and memory traffic.
//!
//! Each rate is the best of many short blocks, so other processes on the machine do not lower the roof that programs
//! are compared with.

mod bytes;
mod flops;
mod memory;
mod rate;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::attest;
use crate::roofline::{Bandwidth, Ceiling, MEMORY, Roofs};
use bytes::ByteKernel;
use flops::FlopKernel;
use memory::Level;
use rate::Crew;

/// Least number of blocks of multiply-adds, and of passes over a cache.
const ROUNDS: usize = 5;
/// Least number of passes over the buffer that exceeds all caches; each pass is long.
const PASSES: usize = 3;

/// The roof of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// Double-precision operations a second, 10⁹/s; a multiply-add counts as two.
    pub gflops: f64,
    /// Bandwidth of reading data from memory that no cache holds, 10⁹ bytes/s.
    pub bandwidth_gb_s: f64,
    /// Width of the vectors that reached the peak, bits.
    pub vector_bits: u32,
    /// Number of threads that ran at once.
    pub threads: u32,
}

/// Measures the peak with one thread on each of `cores`, for about `budget`. If `cores` names fewer cores than
/// `threads`, the remaining threads are unpinned.
pub fn measure(cores: &[usize], threads: u32, budget: Duration) -> Peak {
    let threads = threads.max(1);
    let kernel = FlopKernel::widest();
    Peak {
        gflops: compute(cores, threads, budget.mul_f64(0.7), kernel),
        bandwidth_gb_s: bandwidth(
            cores,
            threads,
            budget.mul_f64(0.3),
            &Level::memory(&caches(cores), threads),
        ),
        vector_bits: kernel.vector_bits(),
        threads,
    }
}

/// Measures the peak rate of whole numbers with these threads, for about `budget`: 10⁹ additions and minima of bytes a
/// second.
pub fn measure_integers(cores: &[usize], threads: u32, budget: Duration) -> Ceiling {
    let threads = threads.max(1);
    let kernel = ByteKernel::widest();
    let crew = Crew {
        cores,
        threads,
        budget,
        rounds: ROUNDS,
    };
    Ceiling {
        vector_bits: kernel.vector_bits(),
        threads,
        gflops: crew.best_rate(|| (), |()| kernel.block()) / 1e9,
    }
}

/// Measures the bandwidths of reading from memory and from the caches before it with these threads, for about `each` a level.
pub fn measure_bandwidths(cores: &[usize], threads: u32, each: Duration) -> Vec<Bandwidth> {
    let threads = threads.max(1);
    let levels = levels(&caches(cores), threads).into_iter();
    levels
        .map(|level| {
            let gb_s = bandwidth(cores, threads, each, &level);
            read_at(level, threads, gb_s)
        })
        .collect()
}

/// Measures the peak as [`measure`] does. Then measures every further roof for about `each`: narrower vectors, the
/// caches, and, where `threads` exceeds 1, all of these with one thread. The peak is the highest of the ceilings with
/// all threads.
pub fn measure_all(
    cores: &[usize],
    threads: u32,
    budget: Duration,
    each: Duration,
) -> (Peak, Roofs) {
    let mut peak = measure(cores, threads, budget);
    let caches = caches(cores);
    let mut roofs = Roofs::default();
    let mut counts = vec![1, peak.threads];
    counts.dedup();
    for threads in counts {
        for kernel in FlopKernel::all() {
            let vector_bits = kernel.vector_bits();
            let known = (threads, vector_bits) == (peak.threads, peak.vector_bits);
            roofs.compute.push(Ceiling {
                vector_bits,
                threads,
                gflops: if known {
                    peak.gflops
                } else {
                    compute(cores, threads, each, kernel)
                },
            });
        }
        roofs.integer.push(measure_integers(cores, threads, each));
        for level in levels(&caches, threads) {
            let known = level.name == MEMORY && threads == peak.threads;
            let gb_s = match known {
                true => peak.bandwidth_gb_s,
                false => bandwidth(cores, threads, each, &level),
            };
            roofs.bandwidth.push(read_at(level, threads, gb_s));
        }
    }
    // Wide vectors may lower the clock, so a narrower width may have the highest rate.
    if let Some(highest) = roofs.fastest(peak.threads)
        && highest.gflops > peak.gflops
    {
        peak.gflops = highest.gflops;
        peak.vector_bits = highest.vector_bits;
    }
    (peak, roofs)
}

/// The data caches of the first core, level → bytes.
fn caches(cores: &[usize]) -> BTreeMap<String, u64> {
    attest::data_caches(cores.first().copied().unwrap_or(0))
}

/// The levels behind the first cache, with memory last.
fn levels(caches: &BTreeMap<String, u64>, threads: u32) -> Vec<Level> {
    let mut levels = Level::caches(caches, threads);
    levels.push(Level::memory(caches, threads));
    levels
}

/// The bandwidth of a level that these threads read at `gb_s` · 10⁹ bytes a second.
fn read_at(level: Level, threads: u32, gb_s: f64) -> Bandwidth {
    Bandwidth {
        gb_s,
        threads,
        buffer_bytes: level.bytes_each * u64::from(threads),
        level: level.name,
        holds_bytes: level.holds_bytes,
    }
}

/// Measures a floating-point ceiling, in 10⁹ operations a second.
fn compute(cores: &[usize], threads: u32, budget: Duration, kernel: FlopKernel) -> f64 {
    let crew = Crew {
        cores,
        threads,
        budget,
        rounds: ROUNDS,
    };
    crew.best_rate(|| (), |()| kernel.block()) / 1e9
}

/// Measures a read bandwidth, in 10⁹ bytes a second.
fn bandwidth(cores: &[usize], threads: u32, budget: Duration, level: &Level) -> f64 {
    let crew = Crew {
        cores,
        threads,
        budget,
        rounds: match level.holds_bytes {
            Some(_) => ROUNDS,
            None => PASSES,
        },
    };
    level.rate(&crew) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roofline::SCALAR_BITS;

    #[test]
    fn the_peak_is_plausible_and_repeats() {
        let one = measure(&[], 1, Duration::from_millis(120));
        let two = measure(&[], 1, Duration::from_millis(120));
        assert!(one.gflops > 0.5 && one.gflops < 1000.0, "{one:?}");
        assert!(one.bandwidth_gb_s > 0.1, "{one:?}");
        let ratio = one.gflops / two.gflops;
        assert!((0.5..2.0).contains(&ratio), "{one:?} and {two:?}");
    }

    #[test]
    fn wide_vectors_beat_plain_code() {
        let kernel = FlopKernel::widest();
        if kernel == FlopKernel::Plain {
            // This processor has no wide vectors to compare with.
            return;
        }
        let of = |kernel| compute(&[], 1, Duration::from_millis(60), kernel);
        let (wide, narrow) = (of(kernel), of(FlopKernel::Plain));
        assert!(wide > 1.3 * narrow, "{wide} against {narrow}");
    }

    /// Vectors of the same width hold eight times as many bytes as doubles, and a multiply-add counts two operations.
    #[test]
    fn bytes_are_a_higher_roof_than_floats() {
        let bytes = measure_integers(&[], 1, Duration::from_millis(60));
        let floats = compute(&[], 1, Duration::from_millis(60), FlopKernel::widest());
        // With two units for floats and one for bytes, the expected ratio is 2; the factor 2 is left as a margin for
        // other activity on the machine.
        assert!(bytes.gflops > floats, "{bytes:?} against {floats}");
        assert!(bytes.gflops < 5000.0, "{bytes:?}");
    }

    #[test]
    fn the_roofs_of_this_machine_are_plausible() {
        let each = Duration::from_millis(30);
        let (peak, roofs) = measure_all(&[], 1, Duration::from_millis(120), each);
        assert_eq!(roofs.threads(), [1]);
        assert_eq!(roofs.compute.len(), FlopKernel::all().len());
        let highest = roofs.fastest(1).map(|c| (c.vector_bits, c.gflops));
        assert_eq!(highest, Some((peak.vector_bits, peak.gflops)));
        let scalar = roofs.compute.iter().find(|c| c.vector_bits == SCALAR_BITS);
        for ceiling in &roofs.compute {
            assert!(
                ceiling.gflops > 0.1 && ceiling.gflops < 1000.0,
                "{ceiling:?}"
            );
            // A wider vector needs as many instructions and holds more elements; a factor of 2 is left as a margin for
            // other activity on the machine.
            if let Some(scalar) = scalar {
                assert!(ceiling.gflops > 0.5 * scalar.gflops, "{roofs:?}");
            }
        }
        for bandwidth in &roofs.bandwidth {
            let plausible = bandwidth.gb_s > 0.0 && bandwidth.gb_s < 1000.0;
            assert!(plausible, "{bandwidth:?}");
        }
        assert_eq!(roofs.memory_gb_s(1), Some(peak.bandwidth_gb_s));
        let shape = |all: &[Bandwidth]| -> Vec<(String, u64)> {
            all.iter()
                .map(|b| (b.level.clone(), b.buffer_bytes))
                .collect()
        };
        let alone = measure_bandwidths(&[], 1, each);
        assert_eq!(shape(&alone), shape(&roofs.bandwidth));
        assert!(alone.iter().all(|b| b.gb_s > 0.0), "{alone:?}");
    }

    #[test]
    fn two_threads_have_roofs_of_their_own_beside_those_of_one() {
        let each = Duration::from_millis(2);
        let (peak, roofs) = measure_all(&[], 2, Duration::from_millis(20), each);
        assert_eq!(roofs.threads(), [1, 2]);
        assert_eq!(roofs.compute.len(), 2 * FlopKernel::all().len());
        for threads in [1, 2] {
            assert!(roofs.memory_gb_s(threads).is_some(), "{roofs:?}");
        }
        assert_eq!(peak.threads, 2);
        let integer: Vec<u32> = roofs.integer.iter().map(|c| c.threads).collect();
        assert_eq!(integer, [1, 2]);
    }
}
