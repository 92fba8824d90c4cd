//! Questions about programs in words of prompts and answers.

use flopsmith_protocol::Question;

/// Begins the line of an answer that asks it.
pub(crate) fn word(question: Question) -> &'static str {
    match question {
        Question::Remarks => "REMARKS",
        Question::Assembly => "ASSEMBLY",
        Question::Throughput => "THROUGHPUT",
        Question::Counters => "COUNTERS",
        Question::Profile => "PROFILE",
    }
}

/// The answer in words of a prompt.
pub(crate) fn shows(question: Question) -> &'static str {
    match question {
        Question::Remarks => "the compiler's remarks about vectors",
        Question::Assembly => "the assembly of the hot loop",
        Question::Throughput => "a static analysis of that loop",
        Question::Counters => {
            "hardware counters (cycles, instructions, misses of caches and branches) of calls of a program that was measured"
        }
        Question::Profile => "the operators in which a call spends its time",
    }
}

/// The title of its answer.
pub(crate) fn title(question: Question) -> &'static str {
    match question {
        Question::Remarks => "The compiler's remarks about vectors",
        Question::Assembly => "The assembly of the hot loop",
        Question::Throughput => "A static analysis of the hot loop",
        Question::Counters => "The hardware counters of its calls",
        Question::Profile => "The operators of a call",
    }
}
