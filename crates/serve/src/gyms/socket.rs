//! OpenEnv's socket: a connection is a session, and its messages are steps.
//!
//! A client pings while it waits, and gives the session up if nobody answers, so the socket is read during an evaluation,
//! too. Messages are bounded in length; a session without messages ends, and so does one that is too old. The end of the
//! connection ends its episode.

use std::future::{Ready, ready};
use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{SinkExt, StreamExt};
use hyper::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{StatusCode, upgrade};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha1_smol::Sha1;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_websockets::{Limits as FrameLimits, Message, ServerBuilder, WebSocketStream};

use super::openenv::{self, Action, Client, Reset};
use crate::http::{App, holder_of};
use crate::mcp::http::check_origin;
use crate::refusal::{Kind, Refusal};

/// Time that a client has to read an answer, also one to a ping.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time that a client has to close the connection in its turn.
const CLOSING: Duration = Duration::from_secs(2);
/// The text that completes a client's key (RFC 6455).
const COMPLETION: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Makes a socket of a request.
pub fn open(State(app): State<App>, mut request: Request) -> Ready<Result<Response, Refusal>> {
    ready(upgraded(app, &mut request))
}

fn upgraded(app: App, request: &mut Request) -> Result<Response, Refusal> {
    // Browsers let pages open sockets to any host.
    check_origin(request.headers())?;
    let accept = acceptance(request.headers())?;
    let client = Client {
        holder: holder_of(request),
        socket: Some(app.gyms.next_number()),
    };
    let holders = app.token.as_ref().map_or(1, |token| token.count());
    let place = app.gyms.place(client.holder, holders).ok_or_else(|| {
        let detail =
            "as many sockets are open as the service allows this client; close one, or try again later";
        Refusal::new(Kind::Unavailable, detail).retry_after(10)
    })?;
    let connection = upgrade::on(request);
    let sockets = app.gyms.sockets.clone();
    sockets.spawn(async move {
        match timeout(PATIENCE, connection).await {
            Ok(Ok(connection)) => {
                let most = app.bodies.most.min(app.gyms.limits.message);
                let limits = FrameLimits::default().max_payload_len(Some(most));
                let socket = ServerBuilder::new().limits(limits);
                let socket = socket.serve(TokioIo::new(connection));
                Box::pin(serve(socket, app, client)).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "a connection cannot become a socket"),
            Err(_) => tracing::debug!("a connection does not become a socket"),
        }
        drop(place);
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

/// The header that answers the key of a client.
fn acceptance(headers: &HeaderMap) -> Result<HeaderValue, Refusal> {
    let has = |name: HeaderName, word: &str| {
        let values = headers.get_all(name).iter();
        let values = values.filter_map(|value| value.to_str().ok());
        let mut words = values.flat_map(|value| value.split(','));
        words.any(|given| given.trim().eq_ignore_ascii_case(word))
    };
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let key = key.filter(|key| STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16));
    let is_asked = has(UPGRADE, "websocket") && has(CONNECTION, "upgrade");
    let refused = || {
        let detail = "this is a WebSocket of version 13; connect to it with OpenEnv's client, or call /reset and /step";
        Refusal::new(Kind::Malformed, detail)
    };
    let key = key
        .filter(|_| is_asked && has(SEC_WEBSOCKET_VERSION, "13"))
        .ok_or_else(refused)?;
    let mut hash = Sha1::new();
    hash.update(key);
    hash.update(COMPLETION.as_bytes());
    let accept = STANDARD.encode(hash.digest().bytes());
    HeaderValue::from_str(&accept).map_err(|_| refused())
}

/// Serves a session until its client leaves, its time is over or the service stops.
async fn serve<S>(mut socket: WebSocketStream<S>, app: App, client: Client)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let limits = app.gyms.limits;
    let stopping = app.service.stopping().clone();
    let end = Instant::now() + limits.age;
    let mut idle = Instant::now() + limits.idle;
    let mut session = Session {
        client,
        episode: None,
    };
    // A message that came while another one was answered.
    let mut next: Option<Message> = None;
    loop {
        let message = match next.take() {
            Some(message) => message,
            None => tokio::select! {
                read = socket.next() => match read {
                    Some(Ok(message)) => message,
                    Some(Err(error)) => {
                        tracing::debug!(%error, "a socket failed");
                        break;
                    }
                    None => break,
                },
                () = sleep_until(idle.min(end)) => break,
                () = stopping.cancelled() => break,
            },
        };
        if !is_content(&message) {
            match flushed(&mut socket).await {
                true => continue,
                false => break,
            }
        }
        let reply = {
            let mut answer = pin!(session.answer(&app, message.as_text()));
            loop {
                tokio::select! {
                    reply = answer.as_mut() => break reply,
                    read = socket.next(), if next.is_none() => match read {
                        Some(Ok(message)) if is_content(&message) => next = Some(message),
                        Some(Ok(_)) => {
                            if !flushed(&mut socket).await {
                                break None;
                            }
                        }
                        Some(Err(_)) | None => break None,
                    },
                    () = sleep_until(end) => break None,
                }
            }
        };
        let Some(reply) = reply else { break };
        idle = Instant::now() + limits.idle;
        let sent = timeout(PATIENCE, socket.send(Message::text(reply.to_string()))).await;
        if !matches!(sent, Ok(Ok(()))) {
            break;
        }
    }
    session.leave(&app);
    // The client may be gone, or never read.
    let _ = timeout(CLOSING, socket.close()).await;
}

/// Sends the answers to pings, which the library queues without limit when it reads. False if the client does not take them.
async fn flushed<S>(socket: &mut WebSocketStream<S>) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    matches!(timeout(PATIENCE, socket.flush()).await, Ok(Ok(())))
}

/// True for a message of the session, false for those of the connection.
fn is_content(message: &Message) -> bool {
    message.is_text() || message.is_binary()
}

/// A session of a socket.
struct Session {
    client: Client,
    /// The id of its episode.
    episode: Option<String>,
}

impl Session {
    /// The answer to a message; none if the client leaves.
    async fn answer(&mut self, app: &App, text: Option<&str>) -> Option<Value> {
        let message = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let Some(mut message) = message else {
            return Some(error("INVALID_JSON", "the message is no JSON text"));
        };
        let data = message.get_mut("data").map(Value::take);
        let data = data.filter(|data| !data.is_null());
        let data = data.unwrap_or_else(|| json!({}));
        let answered = match message["type"].as_str() {
            Some("reset") => self.reset(app, data).await,
            Some("step") => self.step(app, data).await,
            Some("state") => self.state(app),
            Some("close") => return None,
            _ => {
                let words = "the type of a message is `reset`, `step`, `state` or `close`";
                return Some(error("UNKNOWN_TYPE", words));
            }
        };
        Some(answered.unwrap_or_else(|refusal| {
            let details = refusal.details();
            let mut answer = error(code_of(refusal.kind), &details.detail);
            answer["data"]["errors"] = json!(details.errors);
            answer
        }))
    }

    async fn reset(&mut self, app: &App, data: Value) -> Result<Value, Refusal> {
        let reset: Reset = read(data)?;
        let reply = openenv::begin(app, self.client, reset).await?;
        let id = reply.id().to_owned();
        if self.episode.as_ref() != Some(&id) {
            self.leave(app);
        }
        self.episode = Some(id);
        Ok(message("observation", &reply))
    }

    async fn step(&mut self, app: &App, data: Value) -> Result<Value, Refusal> {
        let action: Action = read(data)?;
        let key = self.client.key(self.id()?);
        let reply = openenv::take(app, &key, action, None, None).await?;
        Ok(message("observation", &reply))
    }

    fn state(&self, app: &App) -> Result<Value, Refusal> {
        let key = self.client.key(self.id()?);
        let state = openenv::state_of(&app.gyms, &key)?;
        Ok(message("state", &state))
    }

    fn id(&self) -> Result<String, Refusal> {
        self.episode.clone().ok_or_else(|| {
            let detail = "this session has no episode; send a message of type `reset` first";
            Refusal::new(Kind::NotFound, detail)
        })
    }

    /// Ends the episode.
    fn leave(&mut self, app: &App) {
        if let Some(id) = self.episode.take() {
            app.gyms.episodes().leave(&self.client.key(id));
        }
    }
}

/// Reads the data of a message.
fn read<T: DeserializeOwned>(data: Value) -> Result<T, Refusal> {
    serde_json::from_value(data).map_err(|e| {
        let detail = format!("the data cannot be read: {e}; GET /schema describes actions");
        Refusal::new(Kind::Malformed, detail)
    })
}

fn message(kind: &str, data: &impl Serialize) -> Value {
    json!({ "type": kind, "data": data })
}

fn error(code: &str, words: &str) -> Value {
    message("error", &json!({ "message": words, "code": code }))
}

/// OpenEnv's code of a refusal.
fn code_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Malformed | Kind::Invalid => "VALIDATION_ERROR",
        Kind::Unavailable | Kind::Quota => "CAPACITY_REACHED",
        Kind::NotFound => "SESSION_ERROR",
        _ => "EXECUTION_ERROR",
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn headers(changed: &str, to: Option<&'static str>) -> HeaderMap {
        let all = [
            ("upgrade", "WebSocket"),
            ("connection", "keep-alive, Upgrade"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            let value = if name == changed { to } else { Some(value) };
            if let Some(value) = value {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
        headers
    }

    #[test]
    fn a_key_is_answered_as_the_standard_has_it() {
        // The example of RFC 6455, section 1.3.
        let accept = acceptance(&headers("", None)).unwrap();
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_request_that_asks_for_no_socket_gets_none() {
        for (name, value) in [
            ("upgrade", None),
            ("upgrade", Some("h2c")),
            ("connection", Some("keep-alive")),
            ("sec-websocket-version", Some("8")),
            ("sec-websocket-key", None),
            ("sec-websocket-key", Some("c2hvcnQ=")),
            ("sec-websocket-key", Some("no base64 at all")),
        ] {
            let refused = acceptance(&headers(name, value)).unwrap_err();
            assert_eq!(refused.kind, Kind::Malformed, "{name}: {value:?}");
        }
    }
}
