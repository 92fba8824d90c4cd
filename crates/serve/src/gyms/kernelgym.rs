//! KernelGYM's evaluation server: a program in, its speed beside the reference out.
//!
//! KernelGYM makes a reward of every task that is not `completed`, so a failure of the machine is no task: it is 503 with an
//! `error_code`, and its client asks again.

use std::future::{Ready, ready};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use flopsmith_problem::Language;
use flopsmith_protocol::{CandidateFault, FaultClass};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{answer_of, begin};
use crate::http::{App, holder_of, json as response_of, parse};
use crate::job::Job;
use crate::refusal::{Kind, Mistake, Refusal};
use crate::service::Service;
use crate::trainers::Task;
use crate::wire::{Answer, Candidate, Outcome, Purpose};

/// The route that evaluates a task.
pub const ROUTE: &str = "/evaluate";

/// The field of a candidate that KernelGYM's clients have to correct by another name.
const NAMES: [(&str, &str); 1] = [("/language", "/backend")];

/// Length of the longest id of a task, bytes.
const LONGEST_ID: usize = 100;

/// The body of `POST /evaluate`. Other fields of KernelGYM's have no effect: the problem states its entry, and the purpose
/// the number of calls.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Evaluation {
    /// The client's name of this task.
    #[schemars(length(min = 1, max = 100))]
    task_id: String,
    /// The name of the problem, alone or behind `problem:` in a line of its own, if the URL names none.
    #[serde(default)]
    reference_code: Option<String>,
    /// The program.
    kernel_code: String,
    /// The language of the program; that of the problem when left out.
    #[serde(default)]
    backend: Option<String>,
}

/// The result of a task.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Evaluated {
    /// The task.
    task_id: String,
    /// `completed`.
    status: &'static str,
    /// Whether the program was built.
    compiled: bool,
    /// Whether the program is right.
    correctness: bool,
    /// Whether the program did not do its work in a timed call.
    decoy_kernel: bool,
    /// Time of a call of the plain reference, milliseconds.
    reference_runtime: Option<f64>,
    /// Time of a call of the program, milliseconds.
    kernel_runtime: Option<f64>,
    /// The reference's time divided by the program's.
    speedup: Option<f64>,
    /// The rung of the fault.
    error_code: Option<&'static str>,
    /// The fault in words.
    error_message: Option<String>,
    /// The answer as other routes give it, without the measurement.
    metadata: Metadata,
}

/// More about a result.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Metadata {
    /// The kind of the outcome.
    outcome: Outcome,
    /// The fault of the program.
    reason: Option<String>,
    /// The reward by the service's `[reward]` table.
    reward: Option<f64>,
    /// The ends of the 95 % interval of `speedup`.
    interval: Option<[f64; 2]>,
    /// The measurement of the reference. Numbers with the same one are comparable.
    reference: Option<String>,
}

/// The state of a task.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct TaskStatus {
    /// The task.
    task_id: String,
    /// `pending`, `processing` or `completed`.
    status: &'static str,
    /// Number of evaluations before this one.
    queue_position: Option<usize>,
}

impl Evaluation {
    /// The candidate of the task.
    fn candidate(self, task: &Task) -> Result<Candidate, Mistake> {
        let mistake = |pointer: &str, detail: &str| Mistake {
            pointer: pointer.to_owned(),
            detail: detail.to_owned(),
        };
        if self.task_id.is_empty() || self.task_id.len() > LONGEST_ID {
            return Err(mistake("/task_id", "a task_id has 1 to 100 bytes"));
        }
        let reference = self.reference_code.as_deref();
        let problem = task.problem.as_deref().or(reference.and_then(problem_in));
        let problem = problem.ok_or_else(|| {
            mistake(
                "/reference_code",
                "no problem is named; send its name as reference_code, or in a line `# problem: NAME` of it",
            )
        })?;
        let backend = self.backend.as_deref().filter(|name| !name.is_empty());
        let language = match backend {
            Some(name) => Some(language_of(name).ok_or_else(|| {
                mistake(
                    "/backend",
                    "this service evaluates `c`, `c++`, `fortran` and `fortran77`, and for modules of PyTorch `python`, `triton` and `cuda`; leave `backend` out for the language of the problem",
                )
            })?),
            None => task.language,
        };
        Ok(Candidate {
            problem: problem.to_owned(),
            workloads: task.workload.iter().cloned().collect(),
            source: Some(self.kernel_code),
            language,
            ..Candidate::default()
        })
    }
}

/// The problem that a reference names. Clients look for their entry point in the reference, so the name may have a line of
/// its own.
fn problem_in(reference: &str) -> Option<&str> {
    let marks = ['#', '/', '*', '!', ' ', '\t'];
    let mut lines = reference.lines();
    let marked = lines.find_map(|line| line.trim_start_matches(marks).strip_prefix("problem:"));
    let name = marked.unwrap_or(reference).trim();
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    is_name.then_some(name)
}

/// The language of a backend. KernelGYM's own ones are kinds of kernels in a file of Python.
fn language_of(backend: &str) -> Option<Language> {
    let name = backend.to_ascii_lowercase();
    match name.as_str() {
        "triton" | "cuda" | "torch" | "pytorch" => Some(Language::Python),
        other => serde_json::from_value(json!(other)).ok(),
    }
}

impl Evaluated {
    fn of(task_id: String, answer: Answer) -> Self {
        let fault = answer.reason.as_deref().and_then(|reason| {
            let mut all = CandidateFault::ALL.iter().copied();
            all.find(|fault| fault.name() == reason)
        });
        let seconds = answer.measurement.as_ref().map(|m| m.seconds_per_call);
        let kernel_runtime = seconds.map(|seconds| seconds * 1e3);
        let ratio = answer.ratio;
        Self {
            task_id,
            status: "completed",
            compiled: fault.is_none_or(CandidateFault::built),
            correctness: answer.correct == Some(true),
            decoy_kernel: fault == Some(CandidateFault::SkippedWork),
            reference_runtime: kernel_runtime.zip(ratio).map(|(time, ratio)| time * ratio),
            kernel_runtime,
            speedup: ratio,
            error_code: fault.map(code_of),
            error_message: fault.map(|_| answer.diagnostics),
            metadata: Metadata {
                outcome: answer.outcome,
                reason: answer.reason,
                reward: answer.reward,
                interval: answer.interval.map(|ends| [ends.low, ends.high]),
                reference: answer.reference.map(|reference| reference.id),
            },
        }
    }
}

/// KernelGYM's code of a fault.
fn code_of(fault: CandidateFault) -> &'static str {
    match fault.class() {
        FaultClass::Violation => "VALIDATION_ERROR",
        FaultClass::Compile => "COMPILATION_ERROR",
        FaultClass::Timeout => "TIMEOUT_ERROR",
        FaultClass::Runtime => "RUNTIME_ERROR",
        FaultClass::Wrong => "CORRECTNESS_ERROR",
    }
}

/// KernelGYM's code of a refusal. Its clients ask again after 429, so a quota is no mistake in the request.
fn code_of_refusal(kind: Kind) -> &'static str {
    match kind {
        Kind::Quota => "RESOURCE_ERROR",
        kind if kind.status().is_client_error() => "VALIDATION_ERROR",
        _ => "SYSTEM_ERROR",
    }
}

/// A refusal with KernelGYM's code.
pub fn with_code(refusal: Refusal) -> Response {
    let code = code_of_refusal(refusal.kind);
    let mut details = serde_json::to_value(refusal.details()).unwrap_or_default();
    if let Value::Object(details) = &mut details {
        details.insert("error_code".into(), json!(code));
    }
    let mut response = refusal.into_response();
    *response.body_mut() = Body::from(details.to_string());
    response
}

/// Evaluates a program, and waits for the result.
pub async fn evaluate(
    State(app): State<App>,
    query: Result<Query<Task>, QueryRejection>,
    request: Request,
) -> Response {
    let answered = answered(&app, query, request).await;
    answered.unwrap_or_else(with_code)
}

async fn answered(
    app: &App,
    query: Result<Query<Task>, QueryRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let task = Task::of(query)?;
    let holder = holder_of(&request);
    let body = app.body(request).await?;
    let read = move |body: &[u8], _: &Service| -> Result<_, Refusal> {
        let asked: Evaluation = parse(body)?;
        let id = asked.task_id.clone();
        let candidate = asked.candidate(&task);
        let candidate = candidate.map_err(|mistake| Refusal::invalid(vec![mistake]))?;
        Ok((id, candidate, task.purpose.unwrap_or_default()))
    };
    let (id, candidate, purpose): (String, Candidate, Purpose) = app.submit(body, read).await?;
    let job = begin(app, holder, candidate, purpose).await;
    let job = job.map_err(|refusal| refusal.renaming(&NAMES))?;
    app.gyms.tasks().note(holder, &id, Arc::clone(&job));
    app.finished(&job).await?;
    let evaluated = Evaluated::of(id, answer_of(&job)?);
    Ok(response_of(StatusCode::OK, &evaluated))
}

/// The job of a task that this client began.
fn job_of(app: &App, request: &Request, id: &str) -> Result<Arc<Job>, Refusal> {
    let found = app.gyms.tasks().find(holder_of(request), id);
    found.ok_or_else(|| {
        let detail = "there is no such task of this client; POST /evaluate begins one";
        Refusal::new(Kind::NotFound, detail)
    })
}

/// The state of a task.
pub fn status(
    State(app): State<App>,
    Path(id): Path<String>,
    request: Request,
) -> Ready<Result<Response, Refusal>> {
    ready(status_of(&app, &request, id))
}

fn status_of(app: &App, request: &Request, id: String) -> Result<Response, Refusal> {
    let job = job_of(app, request, &id)?;
    let (status, queue_position) = if job.is_done() {
        answer_of(&job)?;
        ("completed", None)
    } else {
        match app.service.wait_of(&job).map(|wait| wait.position) {
            Some(position) if position > 0 => ("pending", Some(position)),
            _ => ("processing", Some(0)),
        }
    };
    let status = TaskStatus {
        task_id: id,
        status,
        queue_position,
    };
    Ok(response_of(StatusCode::OK, &status))
}

/// The result of a task that is done.
pub fn results(
    State(app): State<App>,
    Path(id): Path<String>,
    request: Request,
) -> Ready<Result<Response, Refusal>> {
    ready(result_of(&app, &request, id))
}

fn result_of(app: &App, request: &Request, id: String) -> Result<Response, Refusal> {
    let job = job_of(app, request, &id)?;
    if !job.is_done() {
        let detail = "the task is not done; ask for its status until it is completed";
        return Err(Refusal::new(Kind::Unavailable, detail).retry_after(1));
    }
    let evaluated = Evaluated::of(id, answer_of(&job)?);
    Ok(response_of(StatusCode::OK, &evaluated))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::KINDS;

    #[test]
    fn a_reference_names_its_problem_alone_or_in_a_line() {
        assert_eq!(problem_in(" dgemm\n"), Some("dgemm"));
        let text = "import torch\n#  problem: dot \nclass Model: pass\n";
        assert_eq!(problem_in(text), Some("dot"));
        assert_eq!(problem_in("/* problem: lu"), Some("lu"));
        for none in [
            "",
            "  ",
            "class Model: pass",
            "# problem: two words",
            "# problem:",
        ] {
            assert_eq!(problem_in(none), None, "{none:?}");
        }
    }

    #[test]
    fn backends_are_languages() {
        assert_eq!(language_of("C"), Some(Language::C));
        assert_eq!(language_of("cpp"), Some(Language::Cxx));
        assert_eq!(language_of("fortran"), Some(Language::Fortran));
        for own in ["triton", "CUDA", "pytorch", "python"] {
            assert_eq!(language_of(own), Some(Language::Python), "{own}");
        }
        assert_eq!(language_of("tilelang"), None);
    }

    #[test]
    fn every_fault_has_a_code() {
        for fault in CandidateFault::ALL.iter().copied() {
            let code = code_of(fault);
            assert!(code.ends_with("_ERROR"), "{fault}: {code}");
            assert!(fault.built() || code != "CORRECTNESS_ERROR", "{fault}");
        }
    }

    #[test]
    fn a_refusal_has_the_code_of_the_side_at_fault() {
        for (kind, status, _) in KINDS {
            let expected = match status.as_u16() {
                429 => "RESOURCE_ERROR",
                400..=499 => "VALIDATION_ERROR",
                _ => "SYSTEM_ERROR",
            };
            assert_eq!(code_of_refusal(kind), expected, "{kind:?}");
        }
    }
}
