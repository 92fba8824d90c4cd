//! The protocol over HTTP: a message a request to `POST /mcp`.
//!
//! A response is one JSON object, or a stream of events if the client asked for notifications of progress. There are no
//! sessions. A client that closes the connection gives its call up.

use std::convert::Infallible;
use std::pin::Pin;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures::Stream;
use hyper::StatusCode;
use hyper::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN};
use serde_json::Value;
use tokio::sync::mpsc;

use super::calls::Progress;
use super::message::{self, Call, Failure, MODERN, Message, Step, code};
use crate::auth::is_loopback;
use crate::http::{App, holder_of, json};
use crate::refusal::{Kind, Refusal};

/// The header of the revision of the protocol.
const VERSION: &str = "mcp-protocol-version";
/// The header of the method.
const METHOD: &str = "mcp-method";
/// The header of the tool.
const NAME: &str = "mcp-name";
/// The header that asks proxies to pass events on at once.
const UNBUFFERED: &str = "x-accel-buffering";
/// Number of notifications that wait until they are sent.
const MOST_UNSENT: usize = 16;

/// Answers a message.
pub async fn post(State(mut app): State<App>, request: Request) -> Result<Response, Refusal> {
    app.tools = app.tools.of(holder_of(&request));
    let headers = request.headers().clone();
    check_origin(&headers)?;
    let body = app.body(request).await?;
    let message = match Message::read(&body) {
        Ok(message) => message,
        Err(failure) => return Ok(answer(&failure.response())),
    };
    if let Err(failure) = check_headers(&headers, &message) {
        let failure = match &message {
            Message::Request { id, .. } => failure.of(id),
            Message::Notification { .. } | Message::Response => failure,
        };
        return Ok(answer(&failure.response()));
    }
    let needs_answer = matches!(message, Message::Request { .. });
    match message.step() {
        Step::Answer(response) => Ok(answer(&response)),
        Step::Call(call) => Ok(perform(app, call, &headers).await),
        Step::Cancel(_) | Step::Nothing if needs_answer => Ok(answer(&Value::Null)),
        Step::Cancel(_) | Step::Nothing => {
            let mut accepted = Response::new(Body::empty());
            *accepted.status_mut() = StatusCode::ACCEPTED;
            Ok(accepted)
        }
    }
}

/// Refuses requests of pages in browsers, unless they come from this service's own host or from loopback.
///
/// # Errors
/// The refusal.
pub fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(origin) = headers.get(ORIGIN) else {
        return Ok(());
    };
    let origin = origin.to_str().unwrap_or_default();
    let host = origin.split_once("://").map_or("", |(_, host)| host);
    let own = headers.get(HOST).and_then(|host| host.to_str().ok());
    if is_loopback(host) || own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
        return Ok(());
    }
    Err(Refusal::new(
        Kind::WrongHost,
        "pages of other hosts may not call this; leave the header `Origin` out, or call from the service's own host",
    ))
}

/// The headers repeat parts of the message, so that proxies need not read it. They must not contradict it.
fn check_headers(headers: &HeaderMap, message: &Message) -> Result<(), Failure> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let told = header(VERSION);
    let Some(version) = message.version() else {
        return match told {
            Some(MODERN) => Err(mismatch(
                "the header MCP-Protocol-Version names a revision whose requests name it in `_meta`, too",
            )),
            Some(other) if !message::LEGACY.contains(&other) && other != "2025-03-26" => {
                Err(message::unsupported(other))
            }
            _ => Ok(()),
        };
    };
    if told != Some(version) {
        let why = "the header MCP-Protocol-Version has to repeat the revision in `_meta`";
        return Err(mismatch(why));
    }
    if header(METHOD) != Some(message.method()) {
        return Err(mismatch("the header Mcp-Method has to repeat the method"));
    }
    if message.method() == "tools/call" && header(NAME) != message.param("name") {
        let why = "the header Mcp-Name has to repeat the name of the tool";
        return Err(mismatch(why));
    }
    Ok(())
}

fn mismatch(why: &str) -> Failure {
    Failure::new(code::HEADERS, why)
}

/// A response of one message.
fn answer(message: &Value) -> Response {
    let status = match message["error"]["code"].as_i64() {
        Some(code::NO_METHOD) => StatusCode::NOT_FOUND,
        Some(code::INTERNAL) => StatusCode::INTERNAL_SERVER_ERROR,
        Some(_) => StatusCode::BAD_REQUEST,
        None => StatusCode::OK,
    };
    json(status, message)
}

async fn perform(app: App, call: Call, headers: &HeaderMap) -> Response {
    let gone = app.service.stopping().clone();
    let tools = app.tools.clone();
    let token = call
        .progress_token
        .clone()
        .filter(|_| accepts_events(headers));
    let Some(token) = token else {
        return answer(&tools.call(call, None, &gone).await);
    };
    let (send, progress) = mpsc::channel(MOST_UNSENT);
    let tell = move |message| {
        // The client loses a notification if it does not keep up.
        let _ = send.try_send(message);
    };
    let tell = Progress {
        token,
        send: Box::new(tell),
    };
    let call = async move { tools.call(call, Some(tell), &gone).await };
    let events = Events {
        progress,
        call: Box::pin(call),
        has_ended: false,
    };
    let mut response = Response::new(Body::from_stream(events.stream()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(UNBUFFERED, HeaderValue::from_static("no"));
    response
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let mut kinds = values.flat_map(|value| value.split(','));
    kinds.any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("text/event-stream")
    })
}

/// The events of a call: notifications of its progress, and its response. The end of this value gives the call up.
struct Events {
    progress: mpsc::Receiver<Value>,
    call: Pin<Box<dyn Future<Output = Value> + Send>>,
    has_ended: bool,
}

impl Events {
    async fn next(&mut self) -> Option<Value> {
        if self.has_ended {
            return None;
        }
        tokio::select! {
            biased;
            Some(message) = self.progress.recv() => Some(message),
            response = &mut self.call => {
                self.has_ended = true;
                Some(response)
            }
        }
    }

    fn stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        futures::stream::unfold(self, |mut events| async move {
            let message = events.next().await?;
            // JSON has no line ends, so an event has one line of data.
            let event = format!("event: message\ndata: {message}\n\n");
            Some((Ok(Bytes::from(event)), events))
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let all = all.iter();
        all.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_page_of_another_host_is_refused() {
        for (all, expected) in [
            (&[][..], true),
            (&[("origin", "http://localhost:3000")][..], true),
            (&[("origin", "http://[::1]:80")][..], true),
            (&[("origin", "https://evil.example")][..], false),
            (&[("origin", "null")][..], false),
            (
                &[
                    ("origin", "https://tools.example"),
                    ("host", "tools.example"),
                ][..],
                true,
            ),
            (
                &[
                    ("origin", "https://evil.example"),
                    ("host", "tools.example"),
                ][..],
                false,
            ),
        ] {
            assert_eq!(check_origin(&headers(all)).is_ok(), expected, "{all:?}");
        }
    }

    #[test]
    fn headers_repeat_what_the_message_says() {
        let message = |version: Option<&str>| {
            let mut params = json!({ "name": "problems" });
            if let Some(version) = version {
                params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": version });
            }
            let message =
                json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
            Message::read(message.to_string().as_bytes()).unwrap()
        };
        let code_of = |all: &[(&'static str, &'static str)], version| {
            let checked = check_headers(&headers(all), &message(version));
            checked.map_err(|failure| failure.response()["error"]["code"].clone())
        };
        let whole = [
            (VERSION, MODERN),
            (METHOD, "tools/call"),
            (NAME, "problems"),
        ];
        assert_eq!(code_of(&whole, Some(MODERN)), Ok(()));
        let wrong = Err(json!(code::HEADERS));
        assert_eq!(code_of(&whole[..2], Some(MODERN)), wrong);
        assert_eq!(code_of(&whole[1..], Some(MODERN)), wrong);
        assert_eq!(code_of(&[whole[0], whole[2]], Some(MODERN)), wrong);
        let other = [whole[0], whole[1], (NAME, "evaluate")];
        assert_eq!(code_of(&other, Some(MODERN)), wrong);
        assert_eq!(code_of(&whole, None), wrong);
        assert_eq!(code_of(&[], None), Ok(()));
        assert_eq!(code_of(&[(VERSION, "2025-03-26")], None), Ok(()));
        assert_eq!(code_of(&[(VERSION, "2025-06-18")], None), Ok(()));
        let unknown = code_of(&[(VERSION, "1999-01-01")], None);
        assert_eq!(unknown, Err(json!(code::VERSION)));
    }
}
