//! Questions about a program that no verdict depends on: [`unexplained`](crate::unexplained) says for which problems they have an
//! answer.

use flopsmith_compile::Question as BuildQuestion;
use flopsmith_protocol::Question;

/// The same question to the compile stage; none if it is about calls.
pub(crate) fn of_build(question: Question) -> Option<BuildQuestion> {
    match question {
        Question::Remarks => Some(BuildQuestion::Remarks),
        Question::Assembly => Some(BuildQuestion::Assembly),
        Question::Throughput => Some(BuildQuestion::Throughput),
        Question::Counters | Question::Profile => None,
    }
}

/// A sentence on the tool that this machine lacks for an answer; none if it has all, or if the answer says so itself.
pub fn lacks(question: Question) -> Option<&'static str> {
    of_build(question)?.lacks()
}
