//! The roles of a node, one in each file. A folder with the role's name holds its larger parts. [`steady`] is no role
//! but a stage that the timer calls in campaigns of faults. One more role is outside of this folder: `Hosting` in
//! `run/src/worker/hosted.rs` runs archive, generator and learner of all runs that leave them to nodes.

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::error::Error;

pub mod archive;
pub mod compiler;
pub mod follower;
pub mod generator;
#[cfg(feature = "torch")]
pub mod learner;
pub mod queues;
pub mod recorded_evaluator;
pub mod recorder;
pub mod steady;
pub mod timer;
pub mod verifier;

/// One role: runs until it is told to stop and has drained, or fails.
#[async_trait]
pub trait Role: Send + 'static {
    /// Works until `stop` is cancelled; then stops pulling, finishes or hands back what it holds, and returns.
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error>;

    /// True if the role is told to stop only after all other roles of the node have drained, because it works on their
    /// last messages.
    fn leaves_last(&self) -> bool {
        false
    }
}
