//! How full the work queues are, for whoever asks this node.

use std::time::Duration;

use async_trait::async_trait;
use flopsmith_bus::stream;
use tokio_util::sync::CancellationToken;

use super::Role;
use crate::error::Error;
use crate::host::Host;
use crate::node::unix_ms;
use crate::supervisor::words;

/// How often the queues are looked at: a few questions to the server each time, whatever is in them.
const INTERVAL: Duration = Duration::from_secs(2);

/// Looks at the queues now and then and notes what it finds among the node's metrics.
pub struct Queues {
    host: Host,
    /// Was a failure told already?
    told: bool,
}

impl Queues {
    /// A look-out at `host`.
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
                    // What is shown then is what was seen last. A server that is away is said elsewhere.
                    if let Err(error) = self.look().await {
                        let error = words(&error);
                        // Said once: a key without the right to look never gets it.
                        match std::mem::replace(&mut self.told, true) {
                            false => tracing::warn!(error, "the queues could not be looked at; may this key list them?"),
                            true => tracing::debug!(error, "the queues could not be looked at"),
                        }
                    }
                }
            }
        }
    }
}
