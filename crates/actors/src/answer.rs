//! The interface of a generator to a source of programs.

use async_trait::async_trait;
use flopsmith_problem::Problem;
use flopsmith_protocol::{
    ArtifactRef, CandidateId, Measurement, Outcome, PolicyVersion, ProblemId, RawAnswer, Request,
    Task,
};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

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
    /// The answer as it was written, where no program was found in it, and no request.
    pub raw: Option<RawAnswer>,
    /// The request that it makes in place of writing a program.
    pub request: Option<Request>,
    /// The tokens, where a language model wrote it.
    pub sampled: Option<Sampled>,
    /// The program of the run that the source made it of, where that is known.
    pub parent: Option<CandidateId>,
}

impl Answer {
    /// A program that no language model wrote, and the one that it was made of, if any.
    pub fn of_program(source: String, parent: Option<CandidateId>) -> Self {
        Self {
            source,
            raw: None,
            request: None,
            sampled: None,
            parent,
        }
    }
}

/// The end of one answer to one of several tasks.
#[derive(Debug, PartialEq)]
pub struct Ended {
    /// Place of the task.
    pub task: usize,
    /// Number of the sample.
    pub sample: u32,
    /// The answer, or the reason for which there is none: a failure of the infrastructure.
    pub answer: Result<Answer, String>,
}

/// Takes answers as they end.
pub struct Answers(UnboundedSender<Ended>);

impl Answers {
    /// A place for answers, and the way out of it.
    pub fn new() -> (Self, UnboundedReceiver<Ended>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Takes the answer for a sample of the task at this place.
    pub fn take(&self, task: usize, sample: u32, answer: Result<Answer, String>) {
        // Nobody waits for the answers of a role that stops.
        let _ = self.0.send(Ended {
            task,
            sample,
            answer,
        });
    }

    /// Takes all answers to all tasks, in the order of the tasks.
    pub fn take_all(&self, groups: impl IntoIterator<Item = Vec<Answer>>) {
        for (task, group) in groups.into_iter().enumerate() {
            for (sample, answer) in (0u32..).zip(group) {
                self.take(task, sample, Ok(answer));
            }
        }
    }
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

/// A source of programs: a policy, the schedule space, an endpoint, or an agent.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// The policy version in use; none where there is no policy.
    fn version(&self) -> Option<PolicyVersion> {
        None
    }

    /// Finds out, before anything is asked of the source, whether it can answer.
    async fn begin(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Takes new weights, where there is a policy.
    async fn update(&mut self, _: PolicyVersion, _: &ArtifactRef) -> Result<(), Error> {
        Ok(())
    }

    /// Sets how many cores answers may take from now on.
    fn set_cores(&mut self, _cores: u32) {}

    /// True if answers take cores or a GPU of this node. Other answers take long, and end early if the node stops.
    fn computes(&self) -> bool {
        true
    }

    /// Gives `answers` as many answers to each task as its `group_size`, each as it ends. `problems` has the problem of
    /// each task.
    async fn answer_each(
        &mut self,
        problems: &[&Problem],
        tasks: &[Task],
        answers: &Answers,
    ) -> Result<(), Error>;

    /// All answers to each task, in the order of the tasks.
    ///
    /// # Errors
    /// As [`Self::answer_each`], and answers that are missing.
    async fn answer(
        &mut self,
        problems: &[&Problem],
        tasks: &[Task],
    ) -> Result<Vec<Vec<Answer>>, Error> {
        let (answers, mut ended) = Answers::new();
        self.answer_each(problems, tasks, &answers).await?;
        drop(answers);
        let mut groups: Vec<Vec<(u32, Answer)>> = tasks.iter().map(|_| Vec::new()).collect();
        while let Some(end) = ended.recv().await {
            let answer = end.answer.map_err(Error::Generator)?;
            if let Some(group) = groups.get_mut(end.task) {
                group.push((end.sample, answer));
            }
        }
        let sorted = groups.into_iter().map(|mut group| {
            group.sort_by_key(|(sample, _)| *sample);
            group.into_iter().map(|(_, answer)| answer).collect()
        });
        Ok(sorted.collect())
    }

    /// Takes an outcome that the run had before the generator began, whatever its verdict. No other outcome of its sample
    /// counts.
    fn decided_before(&mut self, _outcome: &Outcome) {}

    /// Takes the known speed of a program of the run; sources that search learn from it. After a restart the generator
    /// reports every outcome of the run again before the first task.
    fn outcome_seen(&mut self, _problem: &ProblemId, _source: &str, _gflops: Option<f64>) {}

    /// Takes an outcome that says something about a program of the run, in the order of the log, for sources that need more than
    /// its speed. A search keeps the highest speeds, so an unconverged one counts by its lower end.
    fn outcome_reported(&mut self, outcome: &Outcome) {
        let measured = outcome.verdict.measurement();
        let gflops = measured.map(Measurement::known_gflops);
        self.outcome_seen(&outcome.candidate.problem, &outcome.source, gflops);
    }
}

/// The detail for an answer without a program. Nothing else is left of the answer, so the detail includes the text
/// where it was kept.
pub fn without_program(answer: Option<&RawAnswer>) -> String {
    let nothing = "no program was found in the answer";
    let Some(answer) = answer else {
        return nothing.to_owned();
    };
    let end = match answer.finished {
        true => "",
        false => "cut off at the length limit, ",
    };
    let said = format!("{nothing} ({end}{} bytes)", answer.bytes);
    match answer.text.trim() {
        "" => said,
        text => format!("{said}:\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_program_is_told_as_far_as_it_was_kept() {
        let nothing = "no program was found in the answer";
        assert_eq!(without_program(None), nothing);
        let whole = RawAnswer::of("I am sorry.\n", true);
        assert_eq!(
            without_program(Some(&whole)),
            format!("{nothing} (12 bytes):\nI am sorry.")
        );
        let cut = RawAnswer::of("```c\nint", false).without_text();
        assert_eq!(
            without_program(Some(&cut)),
            format!("{nothing} (cut off at the length limit, 8 bytes)")
        );
    }
}
