//! Follower: another node has the archive, and this process follows the run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Role;
use crate::error::Error;
use crate::node::Context;
use crate::registry::RunRegistry;
use crate::role_lease::RoleLease;

/// Interval between two looks at the run.
const PAUSE: Duration = Duration::from_secs(1);

/// Detects the end of a run whose archive another node has.
pub struct Follower {
    context: Arc<Context>,
    registry: RunRegistry,
    /// Cancelled when the run is over.
    finished: CancellationToken,
    /// Cancelled when the run was ended before its time.
    ended: CancellationToken,
    /// Receives the seconds of the run, by this process's clock.
    elapsed: watch::Sender<f64>,
    before: f64,
    began: Instant,
    /// Number of looks in a row that did not find the run in the registry.
    missed: u32,
}

/// A single miss may come from a server that lags behind the others.
const MISSES: u32 = 3;

impl Follower {
    /// A follower of the context's run, which has already lasted `before` seconds.
    pub fn new(
        context: Arc<Context>,
        registry: RunRegistry,
        finished: CancellationToken,
        ended: CancellationToken,
        elapsed: watch::Sender<f64>,
        before: f64,
    ) -> Self {
        Self {
            context,
            registry,
            finished,
            ended,
            elapsed,
            before,
            began: Instant::now(),
            missed: 0,
        }
    }
}

#[async_trait]
impl Role for Follower {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let mut clock = tokio::time::interval(PAUSE);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                _ = clock.tick() => {}
            }
            let seconds = self.before + self.began.elapsed().as_secs_f64();
            self.elapsed.send_replace(seconds);
            let looked = self.look().await;
            // A broker that is away comes back; until then the run is not over.
            if let Err(error) = looked {
                tracing::debug!(error = %crate::supervisor::words(&error), "the run's state cannot be read");
            }
        }
    }
}

impl Follower {
    async fn look(&mut self) -> Result<(), Error> {
        let context = Arc::clone(&self.context);
        // The order matters: a run that ends in its time is marked as over before it leaves the registry.
        let known = self.registry.is_known(&context.run).await?;
        if RoleLease::is_over(&context.host.bus, &context.run, "archive").await? {
            self.finished.cancel();
            return Ok(());
        }
        self.missed = if known { 0 } else { self.missed + 1 };
        if self.missed >= MISSES {
            self.ended.cancel();
        }
        Ok(())
    }
}
