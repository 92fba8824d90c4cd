//! What this machine can do at best: multiply-adds and memory traffic.
//!
//! Both are the best of many short blocks, so that a busy neighbour does not
//! lower the roof under which candidates are judged.
#![expect(
    unsafe_code,
    reason = "calls functions compiled for processor features that were checked"
)]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::pinning;

/// The roof of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// Double-precision operations a second, 10⁹/s; a multiply-add counts two.
    pub gflops: f64,
    /// Bytes read from memory that no cache holds, 10⁹/s.
    pub bandwidth_gb_s: f64,
    /// Bits of the vectors that reached the peak.
    pub vector_bits: u32,
    /// Threads that ran at once.
    pub threads: u32,
}

impl Peak {
    /// Seconds no program can stay under that does `flops` operations.
    pub fn fastest_seconds(&self, flops: f64) -> f64 {
        flops / (self.gflops * 1e9)
    }
}

/// Measures the peak with one thread on each of `cores` (or `threads` unpinned ones when there are fewer cores named),
/// for about `budget`.
pub fn measure(cores: &[usize], threads: u32, budget: Duration) -> Peak {
    let threads = threads.max(1);
    let kernel = FlopKernel::best();
    let compute = best_rate(cores, threads, budget.mul_f64(0.7), || kernel.block());
    let bytes = 48 << 20;
    let bandwidth = {
        let share = bytes / threads as usize / 8;
        best_rate_with(
            cores,
            threads,
            budget.mul_f64(0.3),
            move || vec![1u64; share],
            |data| {
                let mut sums = [0u64; 16];
                for chunk in data.chunks_exact(16) {
                    for (sum, x) in sums.iter_mut().zip(chunk) {
                        *sum = sum.wrapping_add(*x);
                    }
                }
                std::hint::black_box(sums);
                data.len() as f64 * 8.0
            },
        )
    };
    Peak {
        gflops: compute / 1e9,
        bandwidth_gb_s: bandwidth / 1e9,
        vector_bits: kernel.vector_bits(),
        threads,
    }
}

fn best_rate(
    cores: &[usize],
    threads: u32,
    budget: Duration,
    block: impl Fn() -> f64 + Sync,
) -> f64 {
    best_rate_with(cores, threads, budget, || (), |()| block())
}

/// The best sum of all threads' rates over blocks that start together.
fn best_rate_with<S>(
    cores: &[usize],
    threads: u32,
    budget: Duration,
    state: impl Fn() -> S + Sync,
    block: impl Fn(&mut S) -> f64 + Sync,
) -> f64 {
    let barrier = Barrier::new(threads as usize);
    let stop = AtomicBool::new(false);
    let deadline = Instant::now() + budget;
    let per_thread: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads as usize)
            .map(|n| {
                let (barrier, stop, state, block) = (&barrier, &stop, &state, &block);
                let core = cores.get(n).copied();
                scope.spawn(move || {
                    if let Some(core) = core {
                        // Unpinned is still a measurement, only a noisier one.
                        let _ = pinning::pin_this_thread(&[core]);
                    }
                    let mut own = state();
                    let mut rates = Vec::new();
                    loop {
                        barrier.wait();
                        let start = Instant::now();
                        let work = block(&mut own);
                        rates.push(work / start.elapsed().as_secs_f64());
                        if Instant::now() >= deadline && rates.len() >= 5 {
                            stop.store(true, Ordering::Relaxed);
                        }
                        // Behind this barrier every thread sees the same answer.
                        barrier.wait();
                        if stop.load(Ordering::Relaxed) {
                            return rates;
                        }
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|w| w.join().unwrap_or_default())
            .collect()
    });
    let count = per_thread.iter().map(Vec::len).min().unwrap_or(0);
    (0..count)
        .map(|round| per_thread.iter().map(|rates| rates[round]).sum())
        .fold(0.0, f64::max)
}

/// The widest multiply-add the processor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlopKernel {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Whatever the compiler makes of separate multiplications and additions.
    Plain,
}

/// Multiply-adds on each accumulator in one block; a block lasts some 50 to 200 microseconds.
const STEPS: usize = 20_000;

impl FlopKernel {
    fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                return FlopKernel::Avx512;
            }
            if std::arch::is_x86_feature_detected!("avx2")
                && std::arch::is_x86_feature_detected!("fma")
            {
                return FlopKernel::Avx2;
            }
        }
        FlopKernel::Plain
    }

    fn vector_bits(self) -> u32 {
        match self {
            #[cfg(target_arch = "x86_64")]
            FlopKernel::Avx512 => 512,
            #[cfg(target_arch = "x86_64")]
            FlopKernel::Avx2 => 256,
            FlopKernel::Plain => 128,
        }
    }

    /// Runs one block; the operations it did.
    fn block(self) -> f64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `best` saw the feature.
            FlopKernel::Avx512 => unsafe { x86::avx512() },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `best` saw the features.
            FlopKernel::Avx2 => unsafe { x86::avx2() },
            FlopKernel::Plain => plain(),
        }
    }
}

fn plain() -> f64 {
    const LANES: usize = 16;
    let (a, b) = (std::hint::black_box(0.999_999), std::hint::black_box(1e-6));
    let mut x = [1.0f64; LANES];
    for _ in 0..STEPS {
        for v in &mut x {
            *v = *v * a + b;
        }
    }
    std::hint::black_box(x);
    (STEPS * LANES * 2) as f64
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::STEPS;
    use std::arch::x86_64::{_mm256_fmadd_pd, _mm256_set1_pd, _mm512_fmadd_pd, _mm512_set1_pd};

    // Two units times a latency of four or five cycles need at least ten chains.
    const CHAINS: usize = 12;

    #[target_feature(enable = "avx2,fma")]
    pub fn avx2() -> f64 {
        let a = _mm256_set1_pd(std::hint::black_box(0.999_999));
        let b = _mm256_set1_pd(std::hint::black_box(1e-6));
        let mut x = [b; CHAINS];
        for _ in 0..STEPS {
            for v in &mut x {
                *v = _mm256_fmadd_pd(*v, a, b);
            }
        }
        std::hint::black_box(x);
        (STEPS * CHAINS * 4 * 2) as f64
    }

    #[target_feature(enable = "avx512f")]
    pub fn avx512() -> f64 {
        let a = _mm512_set1_pd(std::hint::black_box(0.999_999));
        let b = _mm512_set1_pd(std::hint::black_box(1e-6));
        let mut x = [b; CHAINS];
        for _ in 0..STEPS {
            for v in &mut x {
                *v = _mm512_fmadd_pd(*v, a, b);
            }
        }
        std::hint::black_box(x);
        (STEPS * CHAINS * 8 * 2) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let kernel = FlopKernel::best();
        if kernel == FlopKernel::Plain {
            // There is nothing to compare on this processor.
            return;
        }
        let wide = best_rate(&[], 1, Duration::from_millis(60), || kernel.block());
        let narrow = best_rate(&[], 1, Duration::from_millis(60), || {
            FlopKernel::Plain.block()
        });
        assert!(wide > 1.3 * narrow, "{wide} against {narrow}");
    }
}
