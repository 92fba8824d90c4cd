//! The routes, and the checks that every request passes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use flopsmith_protocol::Digest;
use futures::Stream;
use hyper::StatusCode;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::against::Comparison;
use crate::auth::{Holder, Token};
use crate::describe;
use crate::gyms::{self, kernelgym};
use crate::intake::{Bodies, Unadmitted, Unread, admit, has_text_path};
use crate::job::Job;
use crate::journal::{Idempotency, JobId};
use crate::mcp::{self, Tools};
use crate::openapi;
use crate::refusal::{Kind, Refusal};
use crate::service::{First, Service};
use crate::trainers;
use crate::wire::{self, DryRun};

/// The header of the job of a request.
const JOB: &str = "flopsmith-job";
/// The header of the number of evaluations before the next one of the job.
const POSITION: &str = "flopsmith-queue-position";
/// The header of the seconds until the job is expected to be done.
const EXPECTED_WAIT: &str = "flopsmith-expected-wait";
/// The header that makes two requests the same one.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Length of the longest idempotency key, bytes.
const LONGEST_KEY: usize = 255;

/// The longest wait of one request for a job, seconds.
const LONGEST_WAIT: f64 = 300.0;

/// The state that all routes share.
#[derive(Clone)]
pub struct App {
    /// The jobs.
    pub service: Arc<Service>,
    /// The tokens that requests need one of; without any, only requests to loopback are answered.
    pub token: Option<Arc<Token>>,
    /// Reads bodies.
    pub bodies: Bodies,
    /// The tools of the Model Context Protocol, with the budgets of its clients.
    pub tools: Tools,
    /// The episodes and tasks of other tools' environments.
    pub gyms: Arc<gyms::Shared>,
}

/// The routes of a service.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/v1/evaluate", post(evaluate))
        .route("/v1/jobs", post(begin_job))
        .route("/v1/jobs/{id}", get(show_job).delete(withdraw_job))
        .route("/v1/problems", get(describe::problems))
        .route("/v1/problems/{name}", get(describe::problem))
        .route(
            "/v1/health",
            get(|State(app): State<App>| ready(describe::health(&app))),
        )
        .route(
            "/v1/openapi.json",
            get(|| ready(json(StatusCode::OK, &openapi::document()))),
        )
        .route("/v1/openrlhf", post(trainers::openrlhf))
        .route("/v1/slime", post(trainers::slime))
        .route("/mcp", post(mcp::http::post))
        .route(
            "/metrics",
            get(|State(app): State<App>| ready(describe::metrics(&app))),
        )
        .merge(gyms::routes())
        .fallback(|request: Request| ready(no_route(&request)))
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

/// Checks a request before its route sees it, and completes the response.
async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let admitted = match app.admits(&request) {
        Ok(holder) => {
            request.extensions_mut().insert(holder);
            Ok(())
        }
        Err(refusal) if request.uri().path() == kernelgym::ROUTE => {
            Err(kernelgym::with_code(refusal))
        }
        Err(refusal) => Err(refusal.into_response()),
    };
    let responses = &app.service.metrics.responses;
    responses
        .answer(request, admitted, next, wrong_method)
        .await
}

fn wrong_method(method: &str) -> Refusal {
    let detail = format!(
        "{method} has no meaning here; the header `Allow` of this response names the methods that have one"
    );
    Refusal::new(Kind::WrongMethod, detail)
}

fn no_route(request: &Request) -> Refusal {
    let detail = format!(
        "there is no {}; GET /v1/openapi.json describes all routes",
        request.uri().path()
    );
    Refusal::new(Kind::NotFound, detail)
}

impl App {
    fn admits(&self, request: &Request) -> Result<Holder, Refusal> {
        if !has_text_path(request) {
            return Err(no_route(request));
        }
        // Probes have no token, and the answer to them is no secret.
        let is_probe = ["/v1/health", "/health"].contains(&request.uri().path());
        if self.token.is_some() && is_probe {
            return Ok(Holder::default());
        }
        admit(request.headers(), self.token.as_deref()).map_err(|unadmitted| match unadmitted {
            Unadmitted::Host => Refusal::new(
                Kind::WrongHost,
                "without a token the service answers requests to localhost only; call it by 127.0.0.1, or start it with --token-file",
            ),
            Unadmitted::Token => Refusal::new(
                Kind::Unauthorized,
                "send the header `Authorization: Bearer TOKEN` with the token of the service",
            ),
        })
    }

    /// The JSON body of a request, within the limits of length and time.
    pub async fn body(&self, request: Request) -> Result<Bytes, Refusal> {
        let body = self.bodies.read(request).await;
        body.map_err(|unread| match unread {
            Unread::MediaType => Refusal::new(
                Kind::WrongMediaType,
                "send JSON with the header `Content-Type: application/json`",
            ),
            Unread::TooLarge => Refusal::new(
                Kind::TooLarge,
                format!(
                    "the body may have {} bytes; send fewer candidates at once, or start the service with a larger --max-body",
                    self.bodies.most
                ),
            ),
            Unread::Broken(error) => {
                Refusal::new(Kind::Malformed, format!("the body cannot be read: {error}"))
            }
            Unread::TooSlow => {
                let seconds = self.bodies.time.as_secs();
                Refusal::new(
                    Kind::TooSlow,
                    format!("the body did not arrive within {seconds} s"),
                )
            }
            Unread::Crowded => Refusal::new(
                Kind::Unavailable,
                "other requests take up the memory for bodies; send fewer candidates at once, or try again later",
            )
            .retry_after(1),
        })
    }

    /// Submits a body to the service, away from the threads that answer.
    pub async fn submit<T: Send + 'static>(
        &self,
        body: Bytes,
        submit: impl FnOnce(&[u8], &Service) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let service = Arc::clone(&self.service);
        let submitted = tokio::task::spawn_blocking(move || submit(&body, &service));
        submitted.await.unwrap_or_else(|_| Err(panicked()))
    }

    /// A client's job by the text of its id, after `with` was done to it, away from the threads that answer. The refusal of the job of
    /// another client is that of an id without a job.
    async fn job(
        &self,
        id: String,
        holder: Holder,
        with: impl FnOnce(&Service, &Arc<Job>) + Send + 'static,
    ) -> Result<Arc<Job>, Refusal> {
        let service = Arc::clone(&self.service);
        let found = tokio::task::spawn_blocking(move || {
            let Some(id) = JobId::parse(&id) else {
                return Ok(None);
            };
            let job = service.job_of(&id, holder)?;
            if let Some(job) = &job {
                with(&service, job);
            }
            Ok::<_, io::Error>(job)
        });
        let found = found.await.map_err(|_| panicked())?;
        found.map_err(|e| Refusal::storage(&e))?.ok_or_else(|| {
            Refusal::new(
                Kind::NotFound,
                "there is no such job; finished jobs are removed after the time of --keep-jobs",
            )
        })
    }

    /// Waits until a job is done.
    ///
    /// # Errors
    /// The service is stopping.
    pub async fn finished(&self, job: &Job) -> Result<(), Refusal> {
        let mut told = job.listen();
        let stopping = self.service.stopping();
        while !job.is_done() {
            tokio::select! {
                changed = told.changed() => if changed.is_err() { break },
                () = stopping.cancelled() => {
                    return Err(Refusal::stopping().of_job(job.id.as_str()));
                }
            }
        }
        Ok(())
    }
}

/// The client of a request that passed the checks.
pub fn holder_of(request: &Request) -> Holder {
    let holder = request.extensions().get::<Holder>();
    holder.copied().unwrap_or_default()
}

/// The refusal of a request whose handling panicked; the log has the message.
fn panicked() -> Refusal {
    Refusal::new(
        Kind::Storage,
        "the request could not be handled; the log of the service says why",
    )
}

/// Reads a JSON body.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|e| {
        Refusal::new(
            Kind::Malformed,
            format!("the body cannot be read: {e}; GET /v1/openapi.json describes it"),
        )
    })
}

/// Reads the body of `/v1/evaluate` or `/v1/jobs`. A refusal says where a candidate's field belongs that stands beside `candidates`.
fn parse_request(bytes: &[u8]) -> Result<wire::Request, Refusal> {
    let refused = match parse(bytes) {
        Ok(request) => return Ok(request),
        Err(refused) => refused,
    };
    let given: HashMap<String, IgnoredAny> = serde_json::from_slice(bytes).unwrap_or_default();
    let fields = ["problem", "source", "answer", "language", "workloads", "id"];
    let Some(misplaced) = fields.into_iter().find(|field| given.contains_key(*field)) else {
        return Err(refused);
    };
    Err(Refusal::new(
        Kind::Malformed,
        format!(
            "`{misplaced}` belongs into each candidate: {{\"candidates\": [{{\"problem\": \"dgemm\", \"source\": \"…\"}}]}}; \
             GET /v1/openapi.json describes the body"
        ),
    ))
}

/// A response of one JSON value.
pub fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    // The values of the interface have string keys, so they always have a JSON form.
    let text = serde_json::to_string(value).unwrap_or_default();
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The idempotency key of a request with this body, if it has one. Holders do not share keys: the job of a key is its
/// holder's.
fn idempotency(
    headers: &HeaderMap,
    holder: Holder,
    body: &[u8],
) -> Result<Option<Idempotency>, Refusal> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else {
        return Ok(None);
    };
    if key.is_empty() || key.len() > LONGEST_KEY {
        let detail = format!("an Idempotency-Key has 1 to {LONGEST_KEY} bytes");
        return Err(Refusal::new(Kind::Malformed, detail));
    }
    let key = [holder.as_bytes(), key.as_bytes()].concat();
    Ok(Some(Idempotency {
        key: Digest::of(&key),
        body: Digest::of(body),
    }))
}

/// The form of the answers to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A JSON object a line, as they come.
    Lines,
    /// One JSON array, once all are there.
    Array,
}

impl Form {
    /// The form that a client accepts; lines if it accepts both.
    fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let mut accepted = headers.get_all(ACCEPT).iter().peekable();
        if accepted.peek().is_none() {
            return Ok(Self::Lines);
        }
        let values = accepted.filter_map(|value| value.to_str().ok());
        let kinds: Vec<String> = values
            .flat_map(|value| value.split(','))
            .filter_map(|kind| kind.split(';').next())
            .map(|kind| kind.trim().to_ascii_lowercase())
            .collect();
        let accepts = |kind: &str| kinds.iter().any(|k| k == kind);
        if accepts("application/x-ndjson") {
            Ok(Self::Lines)
        } else if accepts("application/json") {
            Ok(Self::Array)
        } else if accepts("*/*") || accepts("application/*") {
            Ok(Self::Lines)
        } else {
            Err(Refusal::new(
                Kind::NotAcceptable,
                "the answers are `application/x-ndjson` or `application/json`; accept one of these",
            ))
        }
    }
}

/// The order that a request began.
enum Begun {
    Job(Arc<Job>),
    /// It is a dry run.
    Nothing(DryRun),
}

/// Makes a job of a request, unless it is a dry run. A program that its candidates are compared with is measured first.
async fn begun(app: &App, request: Request) -> Result<Begun, Refusal> {
    let (headers, holder) = (request.headers().clone(), holder_of(&request));
    let body = app.body(request).await?;
    let idempotency = idempotency(&headers, holder, &body)?;
    let key = idempotency.clone();
    let begin = move |body: &[u8], service: &Service| {
        let request = parse_request(body)?;
        service.begin(request, key.as_ref(), holder)
    };
    let (measuring, request) = match app.submit(body, begin).await? {
        First::Foretold(foretold) => return Ok(Begun::Nothing(foretold)),
        First::Job(job) => return Ok(Begun::Job(job)),
        First::Measuring(job, request) => (job, request),
    };
    // The request has no job yet, so a client that is told to come again names none.
    let measured = app.finished(&measuring).await;
    measured.map_err(|_| Refusal::stopping())?;
    let answer = measuring.answers().pop().ok_or_else(panicked)?;
    let comparison = Comparison::with(&answer)?;
    let submit = move |_: &[u8], service: &Service| {
        let idempotency = idempotency.as_ref();
        service.submit_comparing(request, comparison, idempotency, holder)
    };
    let (job, _) = app.submit(Bytes::new(), submit).await?;
    Ok(Begun::Job(job))
}

async fn evaluate(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let form = Form::of(request.headers())?;
    let job = match begun(&app, request).await? {
        Begun::Job(job) => job,
        Begun::Nothing(foretold) => return Ok(json(StatusCode::OK, &foretold)),
    };
    let place = place_of(&app.service, &job);
    let mut response = match form {
        Form::Lines => {
            let lines = lines(Arc::clone(&job), app.service.stopping().clone());
            let mut response = Response::new(Body::from_stream(lines));
            let kind = HeaderValue::from_static("application/x-ndjson");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        Form::Array => {
            app.finished(&job).await?;
            let answers = job.answers_from(0);
            let answers: Vec<&wire::Answer> = answers.iter().map(Arc::as_ref).collect();
            json(StatusCode::OK, &answers)
        }
    };
    response.headers_mut().extend(place);
    Ok(response)
}

/// The headers that say where a job is.
fn place_of(service: &Service, job: &Job) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let id = job.id.as_str();
    // An id has hexadecimal digits only.
    for (name, text) in [
        (JOB, id.to_owned()),
        (LOCATION.as_str(), format!("/v1/jobs/{id}")),
    ] {
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(name, value);
        }
    }
    if let Some(wait) = service.wait_of(job) {
        headers.insert(POSITION, HeaderValue::from(wait.position));
        let seconds = wait.seconds.ceil().clamp(0.0, 1e9) as u64;
        headers.insert(EXPECTED_WAIT, HeaderValue::from(seconds));
    }
    headers
}

/// The answers of a job as JSON lines in the order of the candidates, as they come.
fn lines(
    job: Arc<Job>,
    stopping: CancellationToken,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let told = job.listen();
    let cursor = Cursor {
        job,
        told,
        stopping,
        next: 0,
        ended: false,
    };
    futures::stream::unfold(cursor, |mut cursor| async move {
        let piece = cursor.piece().await?;
        Some((Ok(piece), cursor))
    })
}

/// The place in a stream of answers.
struct Cursor {
    job: Arc<Job>,
    told: watch::Receiver<usize>,
    stopping: CancellationToken,
    /// The first candidate whose answer was not sent.
    next: usize,
    ended: bool,
}

impl Cursor {
    /// The next lines; none after the last one. If the service stops, the last line is a refusal.
    async fn piece(&mut self) -> Option<Bytes> {
        loop {
            if self.ended || self.next == self.job.total() {
                return None;
            }
            let answers = self.job.answers_from(self.next);
            if !answers.is_empty() {
                let mut text = String::new();
                for answer in &answers {
                    // The fields of an answer have names, so it always has a JSON form.
                    text.push_str(&serde_json::to_string(answer.as_ref()).unwrap_or_default());
                    text.push('\n');
                }
                self.next += answers.len();
                return Some(text.into());
            }
            tokio::select! {
                changed = self.told.changed() => if changed.is_err() { return None },
                () = self.stopping.cancelled() => {
                    self.ended = true;
                    let refusal = Refusal::stopping().of_job(self.job.id.as_str());
                    return Some(format!("{}\n", refusal.line()).into());
                }
            }
        }
    }
}

async fn begin_job(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    Ok(match begun(&app, request).await? {
        Begun::Job(job) => state_of(&app.service, &job),
        Begun::Nothing(foretold) => json(StatusCode::OK, &foretold),
    })
}

/// The state of a job: 200 if it is done, else 202.
fn state_of(service: &Service, job: &Job) -> Response {
    let state = service.state_of(job);
    let status = match state.done == state.total {
        true => StatusCode::OK,
        false => StatusCode::ACCEPTED,
    };
    let mut response = json(status, &state);
    response.headers_mut().extend(place_of(service, job));
    response
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Waiting {
    /// Seconds to wait until the job is done.
    #[serde(default)]
    wait: f64,
}

async fn show_job(
    State(app): State<App>,
    Path(id): Path<String>,
    query: Result<Query<Waiting>, QueryRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let wait = match query {
        Ok(Query(Waiting { wait })) if wait.is_finite() && wait >= 0.0 => wait.min(LONGEST_WAIT),
        _ => {
            return Err(Refusal::new(
                Kind::Malformed,
                "write `?wait=SECONDS` with a number that is not negative, or nothing",
            ));
        }
    };
    let holder = holder_of(&request);
    let job = app.job(id, holder, |_, _| ()).await?;
    // The state so far is the answer when the time is over, and when the service stops.
    let limit = Duration::from_secs_f64(wait);
    if let Ok(Err(stopping)) = timeout(limit, app.finished(&job)).await {
        tracing::debug!(job = job.id.as_str(), ?stopping, "a wait for a job ends");
    }
    Ok(state_of(&app.service, &job))
}

async fn withdraw_job(
    State(app): State<App>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let holder = holder_of(&request);
    let withdraw = |service: &Service, job: &Arc<Job>| {
        service.withdraw(job);
    };
    let job = app.job(id, holder, withdraw).await?;
    Ok(state_of(&app.service, &job))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(accept: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_client_chooses_the_form_of_the_answers() {
        let cases: [(&[&'static str], Result<Form, Kind>); 8] = [
            (&[], Ok(Form::Lines)),
            (&["*/*"], Ok(Form::Lines)),
            (&["application/json"], Ok(Form::Array)),
            (&["application/json, */*;q=0.5"], Ok(Form::Array)),
            (&["Application/X-NDJSON"], Ok(Form::Lines)),
            (
                &["application/json", "application/x-ndjson"],
                Ok(Form::Lines),
            ),
            (&["text/html, application/json;q=0.9"], Ok(Form::Array)),
            (&["text/html"], Err(Kind::NotAcceptable)),
        ];
        for (accept, form) in cases {
            let found = Form::of(&headers(accept)).map_err(|refusal| refusal.kind);
            assert_eq!(found, form, "{accept:?}");
        }
    }
}
