//! Ctrl-C and SIGTERM.
//!
//! A process that has once asked tokio for a signal has lost the signal's default action for the rest of its life. So a
//! task has to listen all the time: one watch for the whole of a run, from before its first measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

pub use tokio_util::sync::CancellationToken;

use crate::console::say;
use crate::exit::INTERRUPTED;

/// Listens until it is dropped. The first signal requests an orderly stop, the second ends the process.
pub struct Watch {
    asked: CancellationToken,
    hushed: Arc<AtomicBool>,
    /// Dropping the runtime ends the listening task.
    _runtime: Runtime,
}

impl Watch {
    /// Starts to listen, with the message for a process that measures or learns.
    pub fn start() -> Result<Self> {
        Self::saying("stopping after the current measurement (press Ctrl-C again to stop at once)…")
    }

    /// Starts to listen; the first signal prints `words`.
    pub fn saying(words: &'static str) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("signals")
            .enable_all()
            .build()
            .context("cannot listen for signals")?;
        let (mut interrupt, mut terminate) = {
            let _inside = runtime.enter();
            (
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
            )
        };
        let asked = CancellationToken::new();
        let told = asked.clone();
        let hushed = Arc::new(AtomicBool::new(false));
        let quiet = Arc::clone(&hushed);
        #[expect(
            clippy::disallowed_methods,
            reason = "the second signal is meant to leave everything as it is"
        )]
        runtime.spawn(async move {
            loop {
                tokio::select! {
                    Some(()) = interrupt.recv() => {}
                    Some(()) = terminate.recv() => {}
                    else => return,
                }
                if told.is_cancelled() {
                    std::process::exit(i32::from(INTERRUPTED));
                }
                // Read before `cancel`: a task that reacts to the signal may reset the flag.
                let quiet = quiet.load(Ordering::SeqCst);
                told.cancel();
                if !quiet {
                    say(words);
                }
            }
        });
        Ok(Self {
            asked,
            hushed,
            _runtime: runtime,
        })
    }

    /// The token that the first signal cancels.
    pub fn asked(&self) -> &CancellationToken {
        &self.asked
    }

    /// With `true`, the caller reports the first signal itself: a live view is cleared before the report.
    pub fn hush(&self, hushed: bool) {
        self.hushed.store(hushed, Ordering::SeqCst);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_heard_after_the_runtime_that_listened_is_gone() {
        let before = Builder::new_current_thread().enable_all().build().unwrap();
        before.block_on(async {
            let _ = signal(SignalKind::terminate()).unwrap();
        });
        drop(before);
        let watch = Watch::start().unwrap();
        let done = std::process::Command::new("kill")
            .args(["-TERM", &std::process::id().to_string()])
            .status();
        assert!(done.unwrap().success());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !watch.asked().is_cancelled() {
            assert!(std::time::Instant::now() < deadline, "nobody heard it");
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
    }
}
