//! Answers to questions about the builds of programs, by the compile stage of this process.

use flopsmith_agent::conversation::Question;
use flopsmith_compile::{Compiler, Question as Asked};
use flopsmith_problem::Problem;
use flopsmith_protocol::Failure;

/// Explains builds: [`flopsmith_compile::Compiler`], or in tests a stage that needs no compiler.
pub trait Explain: Send + Sync + 'static {
    /// The answer to a question about a program of the problem, bounded in length. It repeats parts of the program.
    ///
    /// # Errors
    /// The program cannot be built, or this machine cannot build it.
    fn explain(
        &self,
        question: Question,
        problem: &Problem,
        source: &str,
    ) -> Result<String, Failure>;
}

impl Explain for Compiler {
    fn explain(
        &self,
        question: Question,
        problem: &Problem,
        source: &str,
    ) -> Result<String, Failure> {
        let asked = match question {
            Question::Remarks => Asked::Remarks,
            Question::Assembly => Asked::Assembly,
            Question::Throughput => Asked::Throughput,
        };
        Compiler::explain(self, asked, problem.language, problem, source)
    }
}
