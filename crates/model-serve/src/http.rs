//! The routes, and the checks that every request passes.

use std::future::ready;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use flopsmith_policy::{Extras, Request as Wanted, Scored};
use flopsmith_protocol::Sampling;
use flopsmith_serve::Token;
use flopsmith_serve::intake::{Bodies, Unadmitted, Unread, admit, has_text_path};
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::adapters::{self, Loading};
use crate::answer::{Asked, Choice};
use crate::ask::{Ask, Route};
use crate::engine::{Engine, Piece, Pieces};
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::served::{Names, Served};
use crate::stream;

/// The state that all routes share.
#[derive(Clone)]
pub struct App {
    /// The thread with the models.
    pub engine: Arc<Engine>,
    /// The models that it has.
    pub served: Arc<Served>,
    /// When the service started, seconds since 1970.
    pub since: u64,
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// The token that requests need; without one, only requests to loopback are answered.
    pub token: Option<Arc<Token>>,
    /// The folder below which adapters may lie that are loaded at run time; without one, none is.
    pub adapter_folder: Option<Arc<std::path::Path>>,
    /// Reads bodies.
    pub bodies: Bodies,
    /// Cancelled once the service takes no new requests.
    pub stopping: CancellationToken,
}

/// The routes of a service.
pub fn router(app: App) -> Router {
    Router::new()
        .route(
            "/v1/completions",
            post(|State(app): State<App>, request: Request| {
                write(app, request, Route::Completions)
            }),
        )
        .route(
            "/v1/chat/completions",
            post(|State(app): State<App>, request: Request| write(app, request, Route::Chat)),
        )
        .route(
            "/v1/load_lora_adapter",
            post(|State(app): State<App>, request: Request| load_adapter(app, request)),
        )
        .route(
            "/v1/unload_lora_adapter",
            post(|State(app): State<App>, request: Request| unload_adapter(app, request)),
        )
        .route(
            "/v1/models",
            get(|State(app): State<App>| ready(models(&app))),
        )
        .route(
            "/v1/models/{*name}",
            get(|State(app): State<App>, Path(name): Path<String>| ready(model(&app, &name))),
        )
        .route("/health", get(|State(app): State<App>| ready(health(&app))))
        .route(
            "/metrics",
            get(|State(app): State<App>| ready(metrics(&app))),
        )
        .fallback(|request: Request| ready(Refusal::no_route(request.uri().path())))
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

/// Checks a request before its route sees it, and completes the response.
async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let admitted = app.admits(&request);
    let responses = &app.metrics.responses;
    responses
        .answer(request, admitted, next, Refusal::wrong_method)
        .await
}

impl App {
    fn admits(&self, request: &Request) -> Result<(), Refusal> {
        if !has_text_path(request) {
            return Err(Refusal::no_route(request.uri().path()));
        }
        // Probes have no token, and the answer to them is no secret.
        if self.token.is_some() && request.uri().path() == "/health" {
            return Ok(());
        }
        match admit(request.headers(), self.token.as_deref()) {
            Ok(_) => Ok(()),
            Err(Unadmitted::Host) => Err(Refusal::wrong_host()),
            Err(Unadmitted::Token) => Err(Refusal::unauthorized()),
        }
    }

    async fn body(&self, request: Request) -> Result<Bytes, Refusal> {
        let body = self.bodies.read(request).await;
        body.map_err(|unread| match unread {
            Unread::MediaType => Refusal::wrong_media_type(),
            Unread::TooLarge => Refusal::too_large(self.bodies.most),
            Unread::Broken(error) => {
                Refusal::malformed(format!("the body cannot be read: {error}"))
            }
            Unread::TooSlow => Refusal::too_slow(self.bodies.time.as_secs()),
            Unread::Crowded => Refusal::crowded(),
        })
    }

    /// Reads a request, away from the threads that answer: a prompt may have millions of characters.
    async fn read(&self, request: Request, route: Route) -> Result<Ask, Refusal> {
        let body = self.body(request).await?;
        let served = Arc::clone(&self.served);
        let read = tokio::task::spawn_blocking(move || Ask::read(&body, route, &served));
        read.await.unwrap_or_else(|_| Err(unread()))
    }

    /// The scores of the prompts, if the answers show them.
    async fn score(&self, ask: &Ask) -> Result<Vec<Vec<Scored>>, Refusal> {
        let (true, Some(top)) = (ask.form.echo, ask.form.alternatives) else {
            return Ok(Vec::new());
        };
        let prompts = ask.prompts.iter().map(|prompt| prompt.ids.clone());
        self.engine.score(ask.model, prompts.collect(), top).await
    }

    /// Lets the model write what the request asks for; nothing if no answer has a token.
    fn begin(
        &self,
        asked: &Asked,
        choices: &[Choice],
    ) -> Result<Option<UnboundedReceiver<Piece>>, Refusal> {
        let ask = &asked.ask;
        let stops = (!ask.stops.is_empty()).then(|| asked.stops());
        let extras = Extras {
            min_p: ask.min_p,
            stops,
            ignore_eos: ask.ignore_eos,
            raw: ask.form.alternatives.is_some(),
            top: ask.form.alternatives.map_or(0, |top| top as u32),
            ..Extras::default()
        };
        let mut wanted = Vec::new();
        for (n, choice) in choices.iter().enumerate() {
            if choice.is_complete() {
                continue;
            }
            let prompt = &ask.prompts[choice.prompt];
            let request = Wanted {
                prompt: prompt.ids.clone(),
                // The answers to one prompt have seeds in a row, as those of `flopsmith model sample`.
                seed: ask.seed.wrapping_add((n % ask.choices) as u64),
                sampling: Sampling {
                    max_tokens: prompt.most,
                    ..ask.sampling.clone()
                },
                detour: None,
                extras: extras.clone(),
            };
            wanted.push((n, request));
        }
        let pieces = match wanted.is_empty() {
            true => None,
            false => {
                let sent = match ask.form.stream {
                    true => Pieces::Token,
                    false => Pieces::Whole,
                };
                Some(self.engine.write(ask.model, sent, wanted)?)
            }
        };
        let tokens: usize = ask.prompts.iter().map(|prompt| prompt.ids.len()).sum();
        self.metrics.prompted(tokens as u64);
        Ok(pieces)
    }
}

fn unread() -> Refusal {
    Refusal::failed("the request could not be read; the log of the service says why")
}

async fn load_adapter(app: App, request: Request) -> Result<Response, Refusal> {
    let allowed = app.adapter_folder.clone();
    let allowed = allowed.ok_or_else(Refusal::takes_no_adapters)?;
    let body = app.body(request).await?;
    let read = tokio::task::spawn_blocking(move || Loading::read(&body, &allowed));
    let Loading { adapter, replaces } = read.await.unwrap_or_else(|_| Err(unread()))?;
    let said = json!({ "status": "loaded", "lora_name": adapter.name });
    app.engine.load(adapter, replaces).await?;
    Ok(json_response(StatusCode::OK, &said))
}

async fn unload_adapter(app: App, request: Request) -> Result<Response, Refusal> {
    if app.adapter_folder.is_none() {
        return Err(Refusal::takes_no_adapters());
    }
    let body = app.body(request).await?;
    let name = adapters::unloading(&body)?;
    let said = json!({ "status": "unloaded", "lora_name": name });
    app.engine.unload(name).await?;
    Ok(json_response(StatusCode::OK, &said))
}

async fn write(app: App, request: Request, route: Route) -> Result<Response, Refusal> {
    let ask = app.read(request, route).await?;
    if app.stopping.is_cancelled() {
        return Err(Refusal::stopping());
    }
    let scored = app.score(&ask).await?;
    let model = ask.name.clone();
    let tokenizer = Arc::clone(&app.served.tokenizer);
    let asked = Asked::new(ask, scored, tokenizer, model);
    let choices = asked.choices();
    let pieces = app.begin(&asked, &choices)?;
    if asked.ask.form.stream {
        let events = stream::events(asked, choices, pieces);
        let mut response = Response::new(Body::from_stream(events));
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("text/event-stream");
        headers.insert(CONTENT_TYPE, kind);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        return Ok(response);
    }
    let choices = complete(choices, pieces).await?;
    // Texts are made away from the threads that answer: they may be long.
    let whole = tokio::task::spawn_blocking(move || {
        let mut choices = choices;
        asked.whole(&mut choices)
    });
    let whole = whole.await.unwrap_or_else(|_| {
        Err(Refusal::failed(
            "the answer could not be written; the log of the service says why",
        ))
    })?;
    Ok(json_response(StatusCode::OK, &whole))
}

/// Collects the tokens of all choices.
async fn complete(
    mut choices: Vec<Choice>,
    pieces: Option<UnboundedReceiver<Piece>>,
) -> Result<Vec<Choice>, Refusal> {
    let Some(mut pieces) = pieces else {
        return Ok(choices);
    };
    while !choices.iter().all(Choice::is_complete) {
        match pieces.recv().await {
            Some(Piece::Tokens { choice, tokens }) => {
                if let Some(choice) = choices.get_mut(choice) {
                    tokens.into_iter().for_each(|token| choice.add(token));
                }
            }
            Some(Piece::Failed(refusal)) => return Err(refusal),
            None => return Err(Refusal::stopping()),
        }
    }
    Ok(choices)
}

fn described(app: &App, index: usize, name: &str, own: Option<&str>) -> Value {
    json!({
        "id": name,
        "object": "model",
        "created": app.since,
        "owned_by": "flopsmith",
        "root": own,
        "parent": (index != Names::OWN).then_some(own),
        "max_model_len": app.served.longest,
    })
}

fn models(app: &App) -> Response {
    let names = app.served.names.all();
    let own = names.first().map(|(_, name)| name.as_str());
    let all: Vec<Value> = names
        .iter()
        .map(|(index, name)| described(app, *index, name, own))
        .collect();
    json_response(StatusCode::OK, &json!({ "object": "list", "data": all }))
}

fn model(app: &App, name: &str) -> Result<Response, Refusal> {
    let names = app.served.names.list();
    let index = app.served.names.number(name);
    let index = index.ok_or_else(|| Refusal::no_model(name, &names))?;
    let own = names.first().map(String::as_str);
    let described = described(app, index, name, own);
    Ok(json_response(StatusCode::OK, &described))
}

fn health(app: &App) -> Result<Response, Refusal> {
    match app.stopping.is_cancelled() {
        true => Err(Refusal::stopping()),
        false => Ok(json_response(StatusCode::OK, &json!({ "status": "ok" }))),
    }
}

fn metrics(app: &App) -> Response {
    let mut response = Response::new(Body::from(app.metrics.text()));
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
