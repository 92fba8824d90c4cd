//! The runs that a node works for.
//!
//! A benchmark node takes whatever is in the queues of its machine class, of whichever run. What a run's programs are held
//! against (its problem, compiler and flags) is the run's own, so each role asks for it by the run that a message names.

use std::sync::Arc;

use async_trait::async_trait;
use flopsmith_protocol::RunId;

use crate::stage_failure::StageFailure;

/// Finds what a role needs for the programs of a run, of which `D` is the role's own kind.
#[async_trait]
pub trait Runs<D: Send + Sync + 'static>: Send + Sync + 'static {
    /// What is needed for `run`. The first time that may take a while: problems are fetched, references measured.
    ///
    /// # Errors
    /// Where this node cannot work for the run; its programs are tried elsewhere then.
    async fn of(&self, run: &RunId) -> Result<Arc<D>, StageFailure>;
}

/// A node that works for one run only.
pub struct Only<D> {
    run: RunId,
    stage_context: Arc<D>,
}

impl<D> Only<D> {
    /// A node that has what `run` needs.
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
