//! The roles. Each file is one; the folder of the same name holds what is large enough for a file of its own.

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

    /// Is it told to stop only after all other roles of the node have drained? For who works on what they leave behind.
    fn leaves_last(&self) -> bool {
        false
    }
}
