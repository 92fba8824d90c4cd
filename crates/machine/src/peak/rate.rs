//! The best rate of several threads that start together.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::pinning;

/// The threads of a measurement, their cores and their time budget.
#[derive(Debug, Clone, Copy)]
pub struct Crew<'a> {
    /// A core for each thread; threads beyond these stay unpinned.
    pub cores: &'a [usize],
    /// Threads.
    pub threads: u32,
    /// Approximate duration of the measurement, including its preparation.
    pub budget: Duration,
    /// Least number of blocks.
    pub rounds: usize,
}

impl Crew<'_> {
    /// The best sum of all threads' rates over blocks that start together, in units of `block`'s result per second.
    /// Each thread makes and uses a separate state, so its memory lies near its core.
    pub fn best_rate<S>(
        &self,
        state: impl Fn() -> S + Sync,
        block: impl Fn(&mut S) -> f64 + Sync,
    ) -> f64 {
        let threads = self.threads.max(1) as usize;
        let barrier = Barrier::new(threads);
        let stop = AtomicBool::new(false);
        let deadline = Instant::now() + self.budget;
        let per_thread: Vec<Vec<f64>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|n| {
                    let (barrier, stop, state, block) = (&barrier, &stop, &state, &block);
                    let core = self.cores.get(n).copied();
                    let enough = self.rounds;
                    scope.spawn(move || {
                        if let Some(core) = core {
                            // A failure is acceptable: an unpinned thread only adds noise.
                            let _ = pinning::pin_this_thread(&[core]);
                        }
                        let mut own = state();
                        let mut rates = Vec::new();
                        loop {
                            barrier.wait();
                            let start = Instant::now();
                            let work = block(&mut own);
                            rates.push(work / start.elapsed().as_secs_f64());
                            if Instant::now() >= deadline && rates.len() >= enough {
                                stop.store(true, Ordering::Relaxed);
                            }
                            // After this barrier, every thread reads the same value of `stop`.
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
}
