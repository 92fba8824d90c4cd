//! Questions about programs, and the requests of answers that have no program.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::Digest;
use crate::technique::TechniqueSet;

/// A question about a program, for people and models that improve it. No verdict depends on the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// The loops that the compiler vectorised, and the reasons why it did not vectorise others.
    Remarks,
    /// The assembly of the hot loop.
    Assembly,
    /// The throughput of the hot loop by a model of the processor.
    Throughput,
    /// The hardware counters of its calls.
    Counters,
    /// The operators in which a call spends its time.
    Profile,
}

impl Question {
    /// All questions.
    pub const ALL: [Self; 5] = [
        Self::Remarks,
        Self::Assembly,
        Self::Throughput,
        Self::Counters,
        Self::Profile,
    ];

    /// True if the program runs for the answer, so nothing may be timed meanwhile.
    pub fn runs(self) -> bool {
        matches!(self, Self::Counters | Self::Profile)
    }

    /// True if only a program that was measured has an answer. A profile is taken in the jail in which programs are verified, and
    /// programs that only a GPU can time have one, too.
    pub fn is_of_measured(self) -> bool {
        self == Self::Counters
    }

    /// True if it is about the program that was evaluated last where it names none, and not about the one that is shown.
    pub fn is_about_last(self) -> bool {
        self == Self::Profile
    }
}

/// The request of an answer that has no program. The next prompt of its conversation shows the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// To show earlier programs.
    Find {
        /// The techniques that they have.
        techniques: TechniqueSet,
        /// A text in them; may be empty.
        text: String,
    },
    /// To show a document.
    Read {
        /// Its name.
        document: String,
    },
}

impl Request {
    /// Digest of its line.
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_string().as_bytes())
    }
}

impl fmt::Display for Request {
    /// The line of an answer that makes the request.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Find { techniques, text } => {
                f.write_str("FIND")?;
                if !techniques.is_empty() {
                    write!(f, " {techniques}")?;
                }
                if !text.is_empty() {
                    write!(f, " {text}")?;
                }
                Ok(())
            }
            Self::Read { document } => write!(f, "READ {document}"),
        }
    }
}

/// The requests that the answers to a task may make.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// The techniques by which earlier programs are found; none where there are no earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finds: Option<TechniqueSet>,
    /// The names of the documents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<String>,
}

impl Requests {
    /// True if no answer may make a request.
    pub fn is_empty(&self) -> bool {
        self.finds.is_none() && self.documents.is_empty()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_told_by_its_line() {
        let find = |techniques: &str, text: &str| Request::Find {
            techniques: techniques.parse().unwrap(),
            text: text.to_owned(),
        };
        let read = Request::Read {
            document: "gemm.md".to_owned(),
        };
        for (request, line) in [
            (find("simd+unroll", "fma ("), "FIND unroll+simd fma ("),
            (find("simd", ""), "FIND simd"),
            (find("none", "fma"), "FIND fma"),
            (read, "READ gemm.md"),
        ] {
            assert_eq!(request.to_string(), line);
            assert_eq!(request.digest(), Digest::of(line.as_bytes()));
        }
    }

    #[test]
    fn questions_say_which_program_they_are_about_and_which_they_run() {
        let those = |is: fn(Question) -> bool| -> Vec<Question> {
            Question::ALL.into_iter().filter(|q| is(*q)).collect()
        };
        let run = [Question::Counters, Question::Profile];
        assert_eq!(those(Question::runs), run);
        assert_eq!(those(Question::is_about_last), [Question::Profile]);
        assert_eq!(those(Question::is_of_measured), [Question::Counters]);
    }
}
