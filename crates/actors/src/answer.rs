//! The interface of a generator to a source of programs.

use async_trait::async_trait;
use flopsmith_problem::Problem;
use flopsmith_protocol::{ArtifactRef, PolicyVersion, ProblemId, RawAnswer, Task};

use crate::error::Error;

/// A sample, token by token.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// Prompt token ids.
    pub prompt: Vec<u32>,
    /// Sampled token ids.
    pub tokens: Vec<u32>,
    /// Their log-probabilities under the sampling distribution.
    pub logprobs: Vec<f32>,
    /// True if the sample ended by itself.
    pub finished: bool,
}

/// One answer to a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The program; empty when none was found in the answer.
    pub source: String,
    /// The answer as it was written, where no program was found in it.
    pub raw: Option<RawAnswer>,
    /// The tokens, where a language model wrote it.
    pub sampled: Option<Sampled>,
}

/// The problem of a task.
///
/// # Errors
/// [`Error::Generator`] if the run does not have it.
pub fn problem_of<'a>(problems: &[&'a Problem], task: &Task) -> Result<&'a Problem, Error> {
    let mut problems = problems.iter().copied();
    let found = problems.find(|problem| problem.id == task.problem);
    found.ok_or_else(|| {
        Error::Generator(format!(
            "task {} is for problem {}, which the run does not have",
            task.id, task.problem
        ))
    })
}

/// A source of programs: a policy, or the schedule space.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// The policy version in use; none where there is no policy.
    fn version(&self) -> Option<PolicyVersion>;

    /// Takes new weights.
    async fn update(&mut self, version: PolicyVersion, weights: &ArtifactRef) -> Result<(), Error>;

    /// Sets how many cores answers may take from now on.
    fn set_cores(&mut self, _cores: u32) {}

    /// `group_size` answers to each task, in the order of the tasks. `problems` has the problem of each task.
    async fn answer(
        &mut self,
        problems: &[&Problem],
        tasks: &[Task],
    ) -> Result<Vec<Vec<Answer>>, Error>;

    /// Takes the speed of a program of the run; sources that search learn from it. After a restart the generator
    /// reports every outcome of the run again before the first task.
    fn outcome_seen(&mut self, _problem: &ProblemId, _source: &str, _gflops: Option<f64>) {}
}
