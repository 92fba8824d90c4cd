//! Answers to questions about programs, by the stages of this process.

use std::sync::Arc;

use flopsmith_evaluate::{Pipeline, unexplained};
use flopsmith_problem::Problem;
use flopsmith_protocol::{Failure, Question};

/// Explains programs: [`Explainer`], or in tests one that needs no compiler.
pub trait Explain: Send + Sync + 'static {
    /// The reason why a question has no answer for programs of the problem, with the questions that have one; none if it has.
    fn unexplained(&self, question: Question, problem: &Problem) -> Option<&'static str>;

    /// The answer to a question about a program of the problem, bounded in length. It repeats parts of the program, and where
    /// the program [runs](Question::runs) for it, the program's own process may have written it. So it is shown to the model, and
    /// nothing is decided by it. Where the program runs, the caller has all cores of the node, and where the question is [of
    /// measured programs](Question::is_of_measured), it was verified.
    ///
    /// # Errors
    /// The program cannot be built or run, or this machine cannot build or run it.
    fn explain(
        &self,
        question: Question,
        problem: &Arc<Problem>,
        source: &str,
    ) -> Result<String, Failure>;
}

/// Finds the stages of a problem of the run.
pub type Stages = Box<dyn Fn(&Arc<Problem>) -> Result<Pipeline, Failure> + Send + Sync>;

/// The stages of this process, for programs that are timed with so many threads.
pub struct Explainer {
    /// The stages.
    pub stages: Stages,
    /// Number of threads.
    pub threads: u32,
}

impl Explain for Explainer {
    fn unexplained(&self, question: Question, problem: &Problem) -> Option<&'static str> {
        unexplained(problem, question)
    }

    fn explain(
        &self,
        question: Question,
        problem: &Arc<Problem>,
        source: &str,
    ) -> Result<String, Failure> {
        let pipeline = (self.stages)(problem)?;
        pipeline.explain(question, problem.language, source, self.threads)
    }
}
