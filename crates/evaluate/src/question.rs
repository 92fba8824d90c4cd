//! Questions about a program that no verdict depends on.

use flopsmith_compile::Question as BuildQuestion;

/// A question about a program, for people and models that improve it. [`unexplained`](crate::unexplained) says for which
/// problems it has an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// The loops that the compiler vectorised, and the reasons why it did not vectorise others.
    Remarks,
    /// The assembly of the hot loop.
    Assembly,
    /// The throughput of the hot loop by `llvm-mca`.
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

    /// The same question to the compile stage; none if it is about calls.
    pub(crate) fn of_build(self) -> Option<BuildQuestion> {
        match self {
            Self::Remarks => Some(BuildQuestion::Remarks),
            Self::Assembly => Some(BuildQuestion::Assembly),
            Self::Throughput => Some(BuildQuestion::Throughput),
            Self::Counters | Self::Profile => None,
        }
    }

    /// A sentence on the tool that this machine lacks for an answer; none if it has all, or if the answer says so itself.
    pub fn lacks(self) -> Option<&'static str> {
        self.of_build()?.lacks()
    }
}
