//! The reward calls of other trainers, in their own formats.
//!
//! A trainer asks for one reward and waits. If the machine could not evaluate a program, the answer is 503: these trainers
//! then ask again. A number in its place would be a reward that no program earned. They send no idempotency key, so the digest
//! of a request stands for one ([`crate::repeats`]).

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use flopsmith_problem::Language;
use flopsmith_protocol::Digest;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::http::{App, holder_of, json, parse};
use crate::job::Job;
use crate::prompts::answer_of;
use crate::refusal::{Kind, MOST_MISTAKES, Mistake, Refusal};
use crate::service::Service;
use crate::wire::{self, Against, Answer, Candidate, Purpose, is_not_timed};

/// The part of a trainer's request that is in its URL.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The problem; without it the label of a sample names the problem.
    pub problem: Option<String>,
    /// The workload at which programs are timed; all of the problem without it.
    pub workload: Option<String>,
    /// The standard of the measurements, if the URL states one.
    pub purpose: Option<Purpose>,
    /// The language of the programs; that of the problem without it.
    pub language: Option<Language>,
}

/// The body of OpenRLHF's remote reward call.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct OpenRlhf {
    /// Each prompt with its answer behind it.
    query: Vec<String>,
    /// The prompts.
    prompts: Vec<String>,
    /// The labels of the data set: the names of problems, if the URL names none.
    #[serde(default)]
    labels: Option<Vec<Value>>,
}

/// The answer to OpenRLHF's remote reward call.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OpenRlhfRewards {
    /// The rewards.
    rewards: Vec<f64>,
    /// 1 for a program that is right, else 0, for dynamic filtering.
    scores: Vec<f64>,
    /// Numbers for the log.
    extra_logs: ExtraLogs,
}

/// Numbers for OpenRLHF's log, one for each sample.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExtraLogs {
    /// 1 for a program that is right, else 0.
    correct: Vec<f64>,
    /// The plain reference's time divided by the program's; 0 for a program that is not right.
    ratio: Vec<f64>,
}

/// The body of slime's remote reward call.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Slime {
    /// The model's answer.
    response: String,
    /// The label of the data set: the name of the problem, if the URL names none.
    #[serde(default)]
    label: Value,
}

impl Task {
    /// Reads the query of a URL.
    ///
    /// # Errors
    /// A refusal that names the parameters.
    pub fn of(query: Result<Query<Task>, QueryRejection>) -> Result<Self, Refusal> {
        let Query(task) = query.map_err(|e| {
            let detail = format!(
                "{e}; the URL may have problem=NAME, workload=NAME, purpose=screen|rank|certify and language=c|c++|fortran|fortran77|python"
            );
            Refusal::new(Kind::Malformed, detail)
        })?;
        Ok(task)
    }

    /// The candidate that a model's answer is.
    fn candidate(&self, answer: String, label: Option<&Value>) -> Result<Candidate, String> {
        let label = label.and_then(Value::as_str).map(str::trim);
        let problem = self.problem.as_deref().or(label.filter(|l| !l.is_empty()));
        let problem = problem.ok_or(
            "no problem is named; write ?problem=NAME into the URL, or the name into the label",
        )?;
        Ok(Candidate {
            problem: problem.to_owned(),
            workloads: self.workload.iter().cloned().collect(),
            answer: Some(answer),
            language: self.language,
            ..Candidate::default()
        })
    }
}

impl OpenRlhf {
    fn request(self, task: &Task) -> Result<wire::Request, Refusal> {
        let labels = self.labels.unwrap_or_default();
        let count = self.query.len();
        if self.prompts.len() != count || !(labels.is_empty() || labels.len() == count) {
            let detail = format!(
                "there are {count} queries, {} prompts and {} labels; send as many of each",
                self.prompts.len(),
                labels.len()
            );
            return Err(Refusal::invalid(vec![Mistake {
                pointer: "/query".into(),
                detail,
            }]));
        }
        let (mut candidates, mut mistakes) = (Vec::with_capacity(count), Vec::new());
        for (index, (query, prompt)) in self.query.iter().zip(&self.prompts).enumerate() {
            let answer = answer_of(query, prompt).map_err(|why| ("query", why));
            let candidate = answer.and_then(|answer| {
                let candidate = task.candidate(answer.to_owned(), labels.get(index));
                candidate.map_err(|why| ("labels", why))
            });
            match candidate {
                Ok(candidate) => candidates.push(candidate),
                Err((field, detail)) if mistakes.len() < MOST_MISTAKES => mistakes.push(Mistake {
                    pointer: format!("/{field}/{index}"),
                    detail,
                }),
                Err(_) => {}
            }
        }
        if !mistakes.is_empty() {
            return Err(Refusal::invalid(mistakes));
        }
        Ok(wire::Request {
            candidates,
            purpose: task.purpose.unwrap_or_default(),
            against: Against::default(),
            dry_run: false,
        })
    }
}

impl Slime {
    fn request(self, task: &Task) -> Result<wire::Request, Refusal> {
        let candidate = task.candidate(self.response, Some(&self.label));
        let candidate = candidate.map_err(|detail| {
            Refusal::invalid(vec![Mistake {
                pointer: "/label".into(),
                detail,
            }])
        })?;
        Ok(wire::Request {
            candidates: vec![candidate],
            purpose: task.purpose.unwrap_or_default(),
            against: Against::default(),
            dry_run: false,
        })
    }
}

/// OpenRLHF's remote reward call.
pub async fn openrlhf(
    State(app): State<App>,
    query: Result<Query<Task>, QueryRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let task = Task::of(query)?;
    let read = move |body: &[u8]| parse::<OpenRlhf>(body)?.request(&task);
    let answers = answers(&app, request, read).await?;
    let of = |number: fn(&Answer) -> f64| answers.iter().map(number).collect::<Vec<f64>>();
    let correct = of(|answer| f64::from(u8::from(answer.correct == Some(true))));
    let rewards = OpenRlhfRewards {
        rewards: of(|answer| answer.reward.unwrap_or_default()),
        scores: correct.clone(),
        extra_logs: ExtraLogs {
            correct,
            ratio: of(|answer| answer.ratio.unwrap_or_default()),
        },
    };
    Ok(json(StatusCode::OK, &rewards))
}

/// slime's remote reward call.
pub async fn slime(
    State(app): State<App>,
    query: Result<Query<Task>, QueryRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let task = Task::of(query)?;
    let read = move |body: &[u8]| parse::<Slime>(body)?.request(&task);
    let answers = answers(&app, request, read).await?;
    let reward = answers.first().and_then(|answer| answer.reward);
    Ok(json(StatusCode::OK, &reward))
}

/// The answers to all candidates of a request, each with a reward.
///
/// # Errors
/// A refusal if a candidate has no reward.
async fn answers(
    app: &App,
    request: Request,
    read: impl FnOnce(&[u8]) -> Result<wire::Request, Refusal> + Send + 'static,
) -> Result<Vec<Answer>, Refusal> {
    let (url, holder) = (request.uri().to_string(), holder_of(&request));
    let body = app.body(request).await?;
    let asked = Digest::of(format!("{url} {}", Digest::of(&body)).as_bytes());
    let submit =
        move |body: &[u8], service: &Service| service.submit_once(read(body)?, asked, holder);
    let job = app.submit(body, submit).await?;
    app.finished(&job).await?;
    rewarded(&job)
}

/// The answers of a job that is done, each with a reward.
///
/// # Errors
/// A refusal if a candidate has no reward.
pub fn rewarded(job: &Job) -> Result<Vec<Answer>, Refusal> {
    let answers = job.answers();
    let failed = answers.iter().find(|answer| answer.reward.is_none());
    if let Some(failed) = failed {
        let reason = failed.reason.as_deref().unwrap_or("unknown");
        let advice = match is_not_timed(failed) {
            true => "it has no reward here, and asking again does not help",
            false => "ask again",
        };
        let detail = format!(
            "candidate {} was not evaluated ({reason}): {}; {advice}",
            failed.index, failed.diagnostics
        );
        let refusal = Refusal::new(Kind::Infrastructure, detail).of_job(job.id.as_str());
        return Err(match is_not_timed(failed) {
            true => refusal,
            false => refusal.retry_after(5),
        });
    }
    Ok(answers)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> OpenRlhf {
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn the_answer_is_what_comes_behind_the_prompt() {
        let prompt = "<|im_start|>user\nImprove ```c\nint slow;\n```<|im_end|>\n";
        let query = format!("<s>{prompt}```c\nint fast;\n```<|im_end|>");
        let body = json!({ "query": [query], "prompts": [prompt], "labels": ["dgemm"] });
        let request = read(body).request(&Task::default()).unwrap();
        let [candidate] = request.candidates.as_slice() else {
            unreachable!("{request:?}")
        };
        assert_eq!(candidate.problem, "dgemm");
        assert_eq!(
            candidate.answer.as_deref(),
            Some("```c\nint fast;\n```<|im_end|>")
        );
        // Each sample without an answer is named.
        let body = json!({ "query": ["another", query, ""], "prompts": [prompt, prompt, prompt], "labels": ["dgemm", "", "dgemm"] });
        let refusal = read(body).request(&Task::default()).unwrap_err();
        assert_eq!(refusal.kind, Kind::Invalid);
        let errors = refusal.details().errors;
        let pointers: Vec<&str> = errors.iter().map(|e| e.pointer.as_str()).collect();
        assert_eq!(pointers, ["/query/0", "/labels/1", "/query/2"]);
    }

    #[test]
    fn the_problem_is_that_of_the_url_or_else_of_the_label() {
        let of = |task: &Task, labels: Value| {
            let body = json!({ "query": ["ab"], "prompts": ["a"], "labels": labels });
            let request = read(body).request(task);
            request.map(|request| request.candidates[0].problem.clone())
        };
        let named = Task {
            problem: Some("dgemm".into()),
            ..Task::default()
        };
        assert_eq!(of(&named, json!(["lu"])).unwrap(), "dgemm");
        assert_eq!(of(&named, json!(null)).unwrap(), "dgemm");
        assert_eq!(of(&Task::default(), json!(["lu"])).unwrap(), "lu");
        for labels in [json!(null), json!([null]), json!([""]), json!([7])] {
            let refusal = of(&Task::default(), labels).unwrap_err();
            assert_eq!(refusal.kind, Kind::Invalid);
        }
        let body = json!({ "query": ["ab", "ab"], "prompts": ["a"] });
        assert!(read(body).request(&named).is_err());
    }

    #[test]
    fn a_request_of_slime_has_one_answer() {
        let body = json!({ "prompt": [{ "role": "user", "content": "x" }], "response": "y", "label": "lu" });
        let slime: Slime = serde_json::from_value(body).unwrap();
        let request = slime.request(&Task::default()).unwrap();
        assert_eq!(request.candidates.len(), 1);
        assert_eq!(request.candidates[0].problem, "lu");
    }
}
