//! Explanations of builds and profiles of calls, by the same code as in the conversations of a search.

use std::sync::Arc;

use flopsmith_evaluate::Host;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Failure, InfrastructureCause, Question, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::results::{Left, refused};
use crate::station;
use crate::wire::Outcome;

/// Answers a question about a program in this language. The answer is bounded, and repeats parts of the program.
pub type Explain =
    Arc<dyn Fn(Question, Language, &Arc<Problem>, &str) -> Result<String, Failure> + Send + Sync>;

/// Answers by the tools of this machine, in the jail.
pub fn explain_by(host: Host) -> Explain {
    Arc::new(
        move |question: Question, language: Language, problem: &Arc<Problem>, source: &str| {
            let pipeline = station::pipeline(problem, &host)?;
            pipeline.explain(question, language, source, host.threads)
        },
    )
}

/// Answers nothing, for this reason.
pub fn explain_nothing(why: &'static str) -> Explain {
    Arc::new(move |_: Question, _: Language, _: &Arc<Problem>, _: &str| {
        Err(Failure::infrastructure(InfrastructureCause::Compiler, why))
    })
}

/// The result of `explain_build`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BuildExplained {
    /// The result in words.
    pub summary: String,
    /// The answer, as text of the compiler, of tools and of the program's own process; data that quotes the program. Null if the
    /// program could not be built or called.
    pub text: Option<String>,
    /// The fault of the program or the part of the machine that failed, for `explain_refusal`; null if there is an answer.
    pub reason: Option<String>,
    /// Text of the compiler, the checks or the call about a program without an answer; data that quotes the program.
    pub diagnostics: String,
    /// The budget that is left; null without a limit.
    pub budget: Option<Left>,
}

impl BuildExplained {
    /// The result of a question, with the rest of the budget.
    pub fn of(question: Question, answer: Result<String, Failure>, left: Option<Left>) -> Self {
        match answer {
            Ok(text) => Self {
                summary: about(question).to_owned(),
                text: Some(text),
                reason: None,
                diagnostics: String::new(),
                budget: left,
            },
            Err(failure) => Self::failed(failure, left),
        }
    }

    fn failed(failure: Failure, left: Option<Left>) -> Self {
        let diagnostics = match &failure {
            Failure::Candidate { detail, .. }
            | Failure::Infrastructure { detail, .. }
            | Failure::Unknown { detail, .. } => detail.clone(),
        };
        let (outcome, reason) = Outcome::of(&Verdict::from(failure));
        let reason = reason.unwrap_or("unknown");
        let summary = match outcome {
            Outcome::Rejected => refused(reason),
            _ => format!(
                "the machine could not build or call the program ({reason}), which says nothing about it; call the tool again, or tell your user"
            ),
        };
        Self {
            summary,
            text: None,
            reason: Some(reason.to_owned()),
            diagnostics,
            budget: left,
        }
    }
}

/// The words about an answer.
fn about(question: Question) -> &'static str {
    match question {
        Question::Remarks => {
            "`text` has the loops that the compiler vectorised, and the reasons why it did not vectorise others, by lines of the program"
        }
        Question::Assembly => {
            "`text` has the innermost loop with the most floating-point arithmetic, if the program has a loop; the choice is a guess about where time goes"
        }
        Question::Throughput => {
            "`text` has a static analysis of the loop that `assembly` shows, with all data in the first cache: a bound, and no measurement"
        }
        Question::Counters => {
            "`text` has hardware counters of calls of the program, apart from all timed ones"
        }
        Question::Profile => {
            "`text` has the operators in which a call spends its time at the first workload, as the program's own process reports them; they are no measurement, and `evaluate` alone says how fast the program is"
        }
    }
}

/// Calls a result without an answer an error.
pub fn checked(mut result: Value) -> Value {
    let is_error = result["structuredContent"]["text"].is_null();
    result["isError"] = is_error.into();
    result
}
