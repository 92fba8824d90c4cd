//! The runs that a node works for.
//!
//! A benchmark node takes work of every run from the queues of its machine class. Each run has its own problems,
//! compiler and flags, so each role looks these up by the run and the problem that a message names.

use std::sync::Arc;

use async_trait::async_trait;
use flopsmith_protocol::{CandidateRef, ProblemId, RunId};

use crate::stage_failure::StageFailure;

/// Finds the stage context that a role needs for the programs of a run and problem; `D` is the role's own type of stage context.
#[async_trait]
pub trait Runs<D: Send + Sync + 'static>: Send + Sync + 'static {
    /// The stage context for programs like this one. The first call may take a while: problems are fetched, references measured.
    ///
    /// # Errors
    /// If this node cannot work for the run; the run's programs are then tried on another node.
    async fn of(&self, candidate: &CandidateRef) -> Result<Arc<D>, StageFailure>;
}

/// A node that works for one problem of one run only.
pub struct Only<D> {
    run: RunId,
    problem: ProblemId,
    stage_context: Arc<D>,
}

impl<D> Only<D> {
    /// A node that has the stage context of this problem of `run`.
    pub fn new(run: RunId, problem: ProblemId, stage_context: D) -> Self {
        Self {
            run,
            problem,
            stage_context: Arc::new(stage_context),
        }
    }
}

#[async_trait]
impl<D: Send + Sync + 'static> Runs<D> for Only<D> {
    async fn of(&self, candidate: &CandidateRef) -> Result<Arc<D>, StageFailure> {
        if candidate.run == self.run && candidate.problem == self.problem {
            return Ok(Arc::clone(&self.stage_context));
        }
        Err(StageFailure::other_node(format!(
            "this node works for problem {} of run {} only; the program is for problem {} of run {}",
            self.problem, self.run, candidate.problem, candidate.run
        )))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_node_of_one_run_and_problem_has_nothing_for_another() {
        let ours = flopsmith_test_support::candidate(1, 0, 0);
        let only = Only::new(ours.run.clone(), ours.problem.clone(), 7);
        assert_eq!(*only.of(&ours).await.unwrap(), 7);
        let others = [
            CandidateRef {
                run: RunId::new("other").unwrap(),
                ..ours.clone()
            },
            CandidateRef {
                problem: ProblemId::new("other").unwrap(),
                ..ours.clone()
            },
        ];
        for other in others {
            let stage_failure = only.of(&other).await.unwrap_err();
            assert!(
                format!("{stage_failure:?}").contains("other"),
                "{stage_failure:?}"
            );
            assert!(
                stage_failure.try_again(100, 3),
                "it is not for this node to decide"
            );
        }
    }
}
