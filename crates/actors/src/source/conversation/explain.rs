//! Answers to questions about programs, by the stages of this process.

use flopsmith_agent::conversation::Question;
use flopsmith_compile::Question as Asked;
use flopsmith_evaluate::Evaluator;
use flopsmith_problem::Problem;
use flopsmith_protocol::Failure;

/// Explains programs: [`Explainer`], or in tests one that needs no compiler.
pub trait Explain: Send + Sync + 'static {
    /// The answer to a question about a program of the problem, bounded in length. It repeats parts of the program. Where the
    /// program [runs](Question::runs) for it, it was verified, and the caller has all cores of the node.
    ///
    /// # Errors
    /// The program cannot be built or run, or this machine cannot build or run it.
    fn explain(
        &self,
        question: Question,
        problem: &Problem,
        source: &str,
    ) -> Result<String, Failure>;
}

/// The stages of this process, for programs of one problem that are timed with so many threads.
pub struct Explainer {
    /// The stages.
    pub evaluator: Evaluator,
    /// Number of threads.
    pub threads: u32,
}

impl Explain for Explainer {
    fn explain(
        &self,
        question: Question,
        problem: &Problem,
        source: &str,
    ) -> Result<String, Failure> {
        let language = problem.language;
        let asked = match question {
            Question::Remarks => Asked::Remarks,
            Question::Assembly => Asked::Assembly,
            Question::Throughput => Asked::Throughput,
            Question::Counters => return self.evaluator.count(language, source, self.threads),
        };
        self.evaluator
            .compiler
            .explain(asked, language, problem, source)
    }
}
