//! Follower: the archive is elsewhere, and this process follows it.

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

/// How often it looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Learns that a run is over whose archive another node has.
pub struct Follower {
    context: Arc<Context>,
    registry: RunRegistry,
    /// Told when the run is over.
    finished: CancellationToken,
    /// Told when somebody has ended it before its time.
    ended: CancellationToken,
    /// Told the seconds of the run, as they are on this clock.
    elapsed: watch::Sender<f64>,
    before: f64,
    began: Instant,
    /// How often in a row it was not among those that go on.
    missed: u32,
}

/// One miss may be a server that is a moment behind the others.
const MISSES: u32 = 3;

impl Follower {
    /// A follower of the context's run, which has gone on for so many seconds `before`.
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
            // A broker that is away comes back; until then nothing is over.
            if let Err(error) = looked {
                tracing::debug!(error = %crate::supervisor::words(&error), "the run cannot be looked at");
            }
        }
    }
}

impl Follower {
    async fn look(&mut self) -> Result<(), Error> {
        let context = Arc::clone(&self.context);
        // In this order: whoever ends a run in its time says that it is over before it is forgotten.
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
