//! The routes of NeMo Gym's resources servers: a finished rollout in, the same with its reward out.
//!
//! A program needs no state before its verification, so a session has none. If the machine could not evaluate a program, the
//! answer is an HTTP error: NeMo Gym would take any number for a reward.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use flopsmith_problem::Language;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::evaluated;
use crate::http::{App, holder_of, json as response_of, parse};
use crate::refusal::{Mistake, Refusal};
use crate::service::Service;
use crate::trainers::Task;
use crate::wire::{Candidate, Purpose};

/// The body of `POST /verify`. The answer repeats it whole.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Verify {
    /// The response of the model, as OpenAI's Responses have it. The program is in the text of its last message.
    response: Value,
    /// The task. Fields that the URL states have no effect here.
    #[serde(flatten)]
    stated: Stated,
    /// The same in a field of its own, for what neither the URL nor the row states.
    #[serde(default)]
    verifier_metadata: Option<Stated>,
}

/// The fields of a row of the data set that state its task.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct Stated {
    /// The name of the problem.
    #[serde(default)]
    problem: Option<String>,
    /// The workload at which the program is timed; all of the problem when left out.
    #[serde(default)]
    workload: Option<String>,
    /// The standard of the measurement.
    #[serde(default)]
    purpose: Option<Purpose>,
    /// The language of the program; that of the problem when left out.
    #[serde(default)]
    #[schemars(schema_with = "crate::wire::language_schema")]
    language: Option<Language>,
}

impl Stated {
    /// This, and the fields of `other` where this states nothing.
    fn or(self, other: Self) -> Self {
        Self {
            problem: self.problem.or(other.problem),
            workload: self.workload.or(other.workload),
            purpose: self.purpose.or(other.purpose),
            language: self.language.or(other.language),
        }
    }
}

impl Verify {
    fn candidate(self, url: &Task) -> Result<(Candidate, Purpose), Refusal> {
        let of_url = Stated {
            problem: url.problem.clone(),
            workload: url.workload.clone(),
            purpose: url.purpose,
            language: url.language,
        };
        let metadata = self.verifier_metadata.unwrap_or_default();
        let stated = of_url.or(self.stated).or(metadata);
        let problem = stated.problem.ok_or_else(|| {
            Refusal::invalid(vec![Mistake {
                pointer: "/problem".into(),
                detail: "no problem is named; give each row of the data set the field `problem`, or `problem` in its `verifier_metadata`".into(),
            }])
        })?;
        let candidate = Candidate {
            problem,
            workloads: stated.workload.into_iter().collect(),
            answer: Some(text_of(&self.response)),
            language: stated.language,
            ..Candidate::default()
        };
        Ok((candidate, stated.purpose.unwrap_or_default()))
    }
}

/// The text of the last message of a response; empty if the model wrote none.
fn text_of(response: &Value) -> String {
    let output = response["output"].as_array().into_iter().flatten();
    let mut messages = output.filter(|item| item["type"] == "message");
    let Some(message) = messages.next_back() else {
        return String::new();
    };
    let parts = message["content"].as_array().into_iter().flatten();
    let texts = parts.filter(|part| part["type"] == "output_text");
    texts.filter_map(|part| part["text"].as_str()).collect()
}

/// Begins a session, which has no state.
pub async fn seed_session(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let body = app.body(request).await?;
    let read = |body: &[u8], _: &Service| parse::<Map<String, Value>>(body);
    app.submit(body, read).await?;
    Ok(response_of(StatusCode::OK, &json!({})))
}

/// Evaluates the program of a rollout. The answer is the request with its reward.
pub async fn verify(
    State(app): State<App>,
    query: Result<Query<Task>, QueryRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let (task, holder) = (Task::of(query)?, holder_of(&request));
    let body = app.body(request).await?;
    let read = move |body: &[u8], _: &Service| -> Result<_, Refusal> {
        let (candidate, purpose) = parse::<Verify>(body)?.candidate(&task)?;
        let echo: Map<String, Value> = parse(body)?;
        Ok((echo, candidate, purpose))
    };
    let (mut echo, candidate, purpose): (Map<String, Value>, Candidate, Purpose) =
        app.submit(body, read).await?;
    let answer = evaluated(&app, holder, candidate, purpose).await?;
    // NeMo Gym makes means of the numbers beside the reward.
    let correct = u8::from(answer.correct == Some(true));
    echo.insert("reward".into(), json!(answer.reward));
    echo.insert("correct".into(), json!(correct));
    echo.insert("ratio".into(), json!(answer.ratio.unwrap_or_default()));
    echo.insert("outcome".into(), json!(answer.outcome));
    echo.insert("reason".into(), json!(answer.reason));
    echo.insert("diagnostics".into(), json!(answer.diagnostics));
    Ok(response_of(StatusCode::OK, &echo))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_the_text_of_the_last_message() {
        let text = |text: &str| json!({ "type": "output_text", "text": text });
        let message = |parts: &[Value]| json!({ "type": "message", "content": parts });
        let refusal = json!({ "type": "refusal", "refusal": "no" });
        let output = json!([
            message(&[text("first")]),
            { "type": "reasoning", "content": [text("thought")] },
            message(&[text("la"), refusal, text("st")]),
            { "type": "function_call", "arguments": "{}" },
        ]);
        assert_eq!(text_of(&json!({ "output": output })), "last");
        for none in [
            json!(null),
            json!({}),
            json!({ "output": [] }),
            json!({ "output": "x" }),
        ] {
            assert_eq!(text_of(&none), "");
        }
    }

    #[test]
    fn the_task_is_that_of_the_url_or_else_of_the_row() {
        let candidate = |row: Value, url: &Task| {
            let mut body = json!({ "responses_create_params": { "input": "x" }, "response": {} });
            let fields = row.as_object().unwrap().clone();
            body.as_object_mut().unwrap().extend(fields);
            let verify: Verify = serde_json::from_value(body).unwrap();
            verify.candidate(url)
        };
        let row = json!({ "verifier_metadata": { "problem": "lu", "purpose": "screen" }, "problem": "dot", "language": "c++" });
        let (found, purpose) = candidate(row.clone(), &Task::default()).unwrap();
        assert_eq!((found.problem.as_str(), purpose), ("dot", Purpose::Screen));
        assert_eq!(found.language, Some(Language::Cxx));
        let url = Task {
            problem: Some("dgemm".into()),
            ..Task::default()
        };
        let (found, purpose) = candidate(row.clone(), &url).unwrap();
        assert_eq!(
            (found.problem.as_str(), purpose),
            ("dgemm", Purpose::Screen)
        );
        // The URL wins in every field.
        let url = Task {
            problem: None,
            workload: Some("n=512".into()),
            purpose: Some(Purpose::Certify),
            language: Some(Language::Fortran),
        };
        let (found, purpose) = candidate(row, &url).unwrap();
        assert_eq!((found.problem.as_str(), purpose), ("dot", Purpose::Certify));
        assert_eq!(found.workloads, ["n=512"]);
        assert_eq!(found.language, Some(Language::Fortran));
        let refusal = candidate(json!({ "id": 7 }), &Task::default()).unwrap_err();
        assert_eq!(refusal.details().errors[0].pointer, "/problem");
    }
}
