//! The arguments of the tools.

use flopsmith_problem::Language;
use flopsmith_protocol::Question;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::wire::Purpose;

/// The most programs of one comparison.
pub const MOST_COMPARED: usize = 16;

/// Arguments of `evaluate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evaluate {
    /// The name of the problem, as `problems` lists it.
    pub problem: String,
    /// The program.
    #[serde(default)]
    pub source: Option<String>,
    /// Instead of `source`: a text with the program in its last complete fenced block.
    #[serde(default)]
    pub answer: Option<String>,
    /// The language; that of the problem when left out.
    #[serde(default)]
    #[schemars(schema_with = "crate::wire::language_schema")]
    pub language: Option<Language>,
    /// Names of the workloads at which the program is timed; all of the problem when left out.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// The standard of the measurement.
    #[serde(default)]
    pub purpose: Purpose,
}

/// A program of a comparison.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Entrant {
    /// A name of yours, which the result repeats; the number of the program from 0 when left out.
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub name: Option<String>,
    /// The program.
    #[serde(default)]
    pub source: Option<String>,
    /// Instead of `source`: a text with the program in its last complete fenced block.
    #[serde(default)]
    pub answer: Option<String>,
    /// The language; that of the problem when left out.
    #[serde(default)]
    #[schemars(schema_with = "crate::wire::language_schema")]
    pub language: Option<Language>,
}

/// Arguments of `compare`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// The name of the problem, as `problems` lists it.
    pub problem: String,
    /// The programs. The others are compared with the first one.
    #[schemars(length(min = 2, max = 16))]
    pub programs: Vec<Entrant>,
    /// Names of the workloads at which the programs are timed; all of the problem when left out.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// The standard of the measurements.
    #[serde(default)]
    pub purpose: Purpose,
}

/// Arguments of `explain_refusal`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainRefusal {
    /// The `reason` of a result, e.g. `wrong_result`.
    pub reason: String,
    /// The name of the problem, for the list of what its programs may use.
    #[serde(default)]
    pub problem: Option<String>,
}

/// Arguments of `problem`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OfProblem {
    /// The name of the problem, as `problems` lists it.
    pub problem: String,
}

/// Arguments of `problems`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Problems {
    /// List the problems of this collection only, e.g. `polybench`.
    #[serde(default)]
    pub suite: Option<String>,
}

/// Arguments of `best_programs`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BestPrograms {
    /// The name of the problem, as `problems` lists it.
    pub problem: String,
    /// Names of the workloads at which the programs were timed; all of the problem when left out.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// Show at most this many programs.
    #[serde(default = "a_few")]
    #[schemars(range(min = 1, max = 16))]
    pub most: u32,
}

fn a_few() -> u32 {
    3
}

/// Arguments of `roofline`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Roofline {
    /// The name of the problem, as `problems` lists it.
    pub problem: String,
    /// Names of the workloads; all of the problem when left out.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// A speed to place under the roof, 10⁹ operations a second.
    #[serde(default)]
    pub gflops: Option<f64>,
}

/// Arguments of `explain_build`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainBuild {
    /// The name of the problem, as `problems` lists it.
    pub problem: String,
    /// The program.
    pub source: String,
    /// The language; that of the problem when left out.
    #[serde(default)]
    #[schemars(schema_with = "crate::wire::language_schema")]
    pub language: Option<Language>,
    /// The question.
    pub what: Explanation,
}

/// Questions about a program: of a kernel about its build, of a module about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Explanation {
    /// The loops that the compiler vectorised, and the reasons why it did not vectorise others.
    Remarks,
    /// The hot loop in assembly.
    Assembly,
    /// The throughput of the hot loop by `llvm-mca`.
    Throughput,
    /// The operators in which a call of a module spends its time, by PyTorch's profiler.
    Profile,
}

impl From<Explanation> for Question {
    fn from(what: Explanation) -> Self {
        match what {
            Explanation::Remarks => Self::Remarks,
            Explanation::Assembly => Self::Assembly,
            Explanation::Throughput => Self::Throughput,
            Explanation::Profile => Self::Profile,
        }
    }
}

/// Reads the arguments of a tool.
///
/// # Errors
/// A sentence on the mistake.
pub fn arguments<T: for<'de> Deserialize<'de>>(given: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(given))
        .map_err(|e| format!("the arguments are wrong: {e}; the tool's inputSchema describes them"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrong_argument_is_named() {
        let given = json!({ "problem": "dgemm", "sorce": "x" });
        let Value::Object(given) = given else {
            unreachable!("an object")
        };
        let error = arguments::<Evaluate>(given).unwrap_err();
        assert!(error.contains("`sorce`"), "{error}");
    }
}
