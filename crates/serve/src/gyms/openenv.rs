//! OpenEnv's environment: an episode is a problem, a step is a program.
//!
//! Its HTTP routes name the episode in each request, by the id that the answer to `/reset` has; on a socket the connection is
//! the session. A step without a reward, because the machine failed, is no step. Its clients know a seed and no problems, so the
//! seed draws a problem for a client that names none.

use std::future::{Ready, ready};
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use flopsmith_problem::Language;
use hyper::StatusCode;
use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::episode::Key;
use crate::auth::Holder;
use crate::http::{App, holder_of, json as response_of, parse};
use crate::refusal::{Kind, Mistake, Refusal};
use crate::service::Service;
use crate::wire::{Outcome, Purpose};

mod session;

pub use session::{begin, state_of, take};

/// The body of `POST /reset`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// The name of the problem; when left out, `seed` draws one of those that have the workload and the language.
    #[serde(default)]
    problem: Option<String>,
    /// The workload at which programs are timed; all of the problem when left out.
    #[serde(default)]
    workload: Option<String>,
    /// The standard of the measurements.
    #[serde(default)]
    purpose: Purpose,
    /// The language of the programs; that of the problem when left out.
    #[serde(default)]
    #[schemars(schema_with = "crate::wire::language_schema")]
    language: Option<Language>,
    /// The number of programs after which the episode is done: 1 when left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    max_steps: Option<u32>,
    /// The id of the episode; a random one when left out. One with the same id ends.
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    episode_id: Option<String>,
    /// Draws the problem if none is named, and has no effect otherwise; a random number when left out.
    #[serde(default)]
    seed: Option<u64>,
}

/// A program. It has either `answer` or `source`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// A model's answer. The program is its last complete fenced block in the language.
    #[serde(default)]
    answer: Option<String>,
    /// The program.
    #[serde(default)]
    source: Option<String>,
    /// The client's notes, which have no effect.
    #[serde(default, rename = "metadata", skip_serializing)]
    _metadata: Option<Value>,
}

/// The body of `POST /step`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepRequest {
    /// The program.
    action: Action,
    /// The id of the episode, as the answer to `/reset` has it.
    #[serde(default)]
    episode_id: Option<String>,
    /// Answer with an error after so many seconds. The evaluation goes on, and the same step may be sent again.
    #[serde(default)]
    timeout_s: Option<f64>,
    /// A name of this request. The same request again has the same answer, and is no other step.
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    request_id: Option<String>,
}

/// The answer to `POST /reset` and `POST /step`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Reply<O> {
    /// The task, or the result of the program.
    observation: O,
    /// The reward of the program by the service's `[reward]` table; null at the beginning.
    reward: Option<f64>,
    /// True if the episode takes no more programs.
    done: bool,
}

/// The beginning of an episode.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Beginning {
    /// The id of the episode.
    episode_id: String,
    /// The problem.
    problem: String,
    /// The prompt about the task for a model.
    prompt: String,
    /// The function, or of a module the class, that a program defines.
    entry: String,
    /// Its prototype in C, or the head of the class.
    prototype: String,
    /// The number of programs after which the episode is done.
    max_steps: u32,
}

impl Reply<Beginning> {
    /// The id of the episode.
    pub fn id(&self) -> &str {
        &self.observation.episode_id
    }
}

/// The result of a program.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Seen {
    /// The id of the episode.
    episode_id: String,
    /// Number of programs so far.
    step_count: u32,
    /// The kind of its outcome.
    outcome: Outcome,
    /// The fault of the program; null if it was measured.
    reason: Option<String>,
    /// Whether the program is right.
    correct: Option<bool>,
    /// The plain reference's time divided by the program's; of a module that of its fastest baseline.
    ratio: Option<f64>,
    /// The ends of the 95 % interval of `ratio`.
    interval: Option<[f64; 2]>,
    /// Speed, 10⁹ operations a second.
    gflops: Option<f64>,
    /// The fault in words, or the compiler's warnings.
    diagnostics: String,
    /// The best reward of the episode.
    best_reward: Option<f64>,
}

/// The state of an episode.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EpisodeState {
    /// The id of the episode.
    episode_id: String,
    /// Number of programs so far.
    step_count: u32,
    /// The problem.
    problem: String,
    /// The standard of the measurements.
    purpose: Purpose,
    /// The number of programs after which the episode is done.
    max_steps: u32,
    /// True if the episode takes no more programs.
    done: bool,
    /// The best reward of the episode.
    best_reward: Option<f64>,
}

/// The JSON schemas of the environment.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Schemas {
    /// Of actions.
    action: Value,
    /// Of observations after a step.
    observation: Value,
    /// Of states.
    state: Value,
}

/// The client of a session.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    /// The token that it sent.
    pub holder: Holder,
    /// Its socket, if it has one.
    pub socket: Option<u64>,
}

impl Client {
    /// The key of its episode with this id.
    pub fn key(self, id: String) -> Key {
        Key {
            holder: self.holder,
            socket: self.socket,
            id,
        }
    }
}

fn mistake(pointer: &str, detail: impl Into<String>) -> Refusal {
    Refusal::invalid(vec![Mistake {
        pointer: pointer.to_owned(),
        detail: detail.into(),
    }])
}

fn client_of(request: &Request) -> Client {
    Client {
        holder: holder_of(request),
        socket: None,
    }
}

/// Begins an episode.
pub async fn reset(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let client = client_of(&request);
    let body = app.body(request).await?;
    let reply = begin(&app, client, parse(&body)?).await?;
    Ok(response_of(StatusCode::OK, &reply))
}

/// Takes a step.
pub async fn step(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let client = client_of(&request);
    let body = app.body(request).await?;
    let read = |body: &[u8], _: &Service| parse::<StepRequest>(body);
    let step = app.submit(body, read).await?;
    let id = step.episode_id.ok_or_else(|| {
        let detail = "send the `episode_id` of the observation that /reset answered with";
        mistake("/episode_id", detail)
    })?;
    let limit = match step.timeout_s.map(Duration::try_from_secs_f64) {
        None => None,
        Some(Ok(limit)) if !limit.is_zero() => Some(limit),
        Some(_) => {
            return Err(mistake(
                "/timeout_s",
                "the time is a positive number of seconds",
            ));
        }
    };
    let key = client.key(id);
    let reply = take(&app, &key, step.action, step.request_id, limit).await?;
    Ok(response_of(StatusCode::OK, &reply))
}

/// The part of a request for a state that is in its URL.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfEpisode {
    episode_id: String,
}

/// Shows an episode.
pub fn state(
    State(app): State<App>,
    query: Result<Query<OfEpisode>, QueryRejection>,
    request: Request,
) -> Ready<Result<Response, Refusal>> {
    ready(shown(&app, query, client_of(&request)))
}

fn shown(
    app: &App,
    query: Result<Query<OfEpisode>, QueryRejection>,
    client: Client,
) -> Result<Response, Refusal> {
    let Query(of) = query.map_err(|_| {
        let detail =
            "write `?episode_id=ID` with the id of the observation that /reset answered with";
        Refusal::new(Kind::Malformed, detail)
    })?;
    let state = state_of(&app.gyms, &client.key(of.episode_id))?;
    Ok(response_of(StatusCode::OK, &state))
}

/// A schema always has a JSON form.
fn value_of(schema: Schema) -> Value {
    serde_json::to_value(schema).unwrap_or_default()
}

/// The JSON schemas of the environment.
pub fn schemas() -> Schemas {
    Schemas {
        action: value_of(schema_for!(Action)),
        observation: value_of(schema_for!(Seen)),
        state: value_of(schema_for!(EpisodeState)),
    }
}

/// Describes actions, observations and states.
pub fn schema() -> Ready<Response> {
    ready(response_of(StatusCode::OK, &schemas()))
}

/// Tells whether the service works.
pub fn health(State(app): State<App>) -> Ready<Result<Response, Refusal>> {
    ready(match app.service.stopping().is_cancelled() {
        true => Err(Refusal::stopping()),
        false => Ok(response_of(StatusCode::OK, &json!({ "status": "healthy" }))),
    })
}
