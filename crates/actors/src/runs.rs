//! The runs that a node works for.
//!
//! A benchmark node takes work of every run from the queues of its machine class. Each run has its own problem,
//! compiler and flags, so each role looks these up by the run that a message names.

use std::sync::Arc;

use async_trait::async_trait;
use flopsmith_protocol::RunId;

use crate::stage_failure::StageFailure;

/// Finds the stage context that a role needs for the programs of a run; `D` is the role's own type of stage context.
#[async_trait]
pub trait Runs<D: Send + Sync + 'static>: Send + Sync + 'static {
    /// The stage context for `run`. The first call may take a while: problems are fetched, references measured.
    ///
    /// # Errors
    /// If this node cannot work for the run; the run's programs are then tried on another node.
    async fn of(&self, run: &RunId) -> Result<Arc<D>, StageFailure>;
}

/// A node that works for one run only.
pub struct Only<D> {
    run: RunId,
    stage_context: Arc<D>,
}

impl<D> Only<D> {
    /// A node that has the stage context of `run`.
    pub fn new(run: RunId, stage_context: D) -> Self {
        Self {
            run,
            stage_context: Arc::new(stage_context),
        }
    }
}

#[async_trait]
impl<D: Send + Sync + 'static> Runs<D> for Only<D> {
    async fn of(&self, run: &RunId) -> Result<Arc<D>, StageFailure> {
        if *run == self.run {
            return Ok(Arc::clone(&self.stage_context));
        }
        Err(StageFailure::elsewhere(format!(
            "this node works for run {} only, and the program is one of {run}",
            self.run
        )))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_node_of_one_run_has_nothing_for_another() {
        let run = |name: &str| RunId::new(name).unwrap();
        let only = Only::new(run("a"), 7);
        assert_eq!(*only.of(&run("a")).await.unwrap(), 7);
        let stage_failure = only.of(&run("b")).await.unwrap_err();
        assert!(
            format!("{stage_failure:?}").contains("one of b"),
            "{stage_failure:?}"
        );
        assert!(
            stage_failure.try_again(100, 3),
            "it is not for this node to decide"
        );
    }
}
