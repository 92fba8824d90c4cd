//! Fill levels of the work queues, for this node's metrics.

use std::time::Duration;

use async_trait::async_trait;
use flopsmith_bus::stream;
use tokio_util::sync::CancellationToken;

use super::Role;
use crate::error::Error;
use crate::host::Host;
use crate::node::unix_ms;
use crate::supervisor::words;

/// Interval between two looks at the queues. A look takes a few requests to the server, however full the queues are.
const INTERVAL: Duration = Duration::from_secs(2);

/// Reads the state of the queues at intervals and notes it in the node's metrics.
pub struct Queues {
    host: Host,
    /// True if a failure was logged already.
    told: bool,
}

impl Queues {
    /// An observer of the queues at `host`.
    pub fn new(host: Host) -> Self {
        Self { host, told: false }
    }

    async fn look(&self) -> Result<(), Error> {
        let bus = &self.host.bus;
        let queues = bus.queues().await?;
        let stored = bus.stored().await?;
        let dead = stored.iter().find(|s| s.name == stream::DEAD);
        let dead = dead.map_or(0, |s| s.messages);
        self.host.metrics.queues(&queues, dead, unix_ms());
        Ok(())
    }
}

#[async_trait]
impl Role for Queues {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let mut clock = tokio::time::interval(INTERVAL);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                _ = clock.tick() => {
                    // The metrics keep the last state. A server that is away is reported by other code.
                    if let Err(error) = self.look().await {
                        let error = words(&error);
                        // A warning is logged once: a key without the right to list the queues never gets that right.
                        match std::mem::replace(&mut self.told, true) {
                            false => tracing::warn!(error, "the queues cannot be read; check that this key may list them"),
                            true => tracing::debug!(error, "the queues cannot be read"),
                        }
                    }
                }
            }
        }
    }
}
