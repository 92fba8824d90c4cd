//! The best rate of threads that start together.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::pinning;

/// Who works, where, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Crew<'a> {
    /// A core for each thread; threads beyond these stay unpinned.
    pub cores: &'a [usize],
    /// Threads.
    pub threads: u32,
    /// About how long, making ready included.
    pub budget: Duration,
    /// So many blocks are done at least.
    pub rounds: usize,
}

impl Crew<'_> {
    /// The best sum of all threads' rates over blocks that start together: units of what `block` returns, a second.
    /// Each thread works on a state of its own, which it makes itself, so that its memory lies near its core.
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
                            if Instant::now() >= deadline && rates.len() >= enough {
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
}
