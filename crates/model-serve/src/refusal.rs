//! Errors in the form of OpenAI's interface.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::{Value, json};

/// The fault is in the request.
const OF_REQUEST: &str = "invalid_request_error";
/// The fault is in the service.
const OF_SERVICE: &str = "server_error";

/// A request that gets no answer, or no whole one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<String>,
    message: String,
}

impl Refusal {
    fn new(status: StatusCode, code: Option<&'static str>, message: impl Into<String>) -> Self {
        Self {
            status,
            kind: match status.is_server_error() {
                true => OF_SERVICE,
                false => OF_REQUEST,
            },
            code,
            param: None,
            message: message.into(),
        }
    }

    fn of(mut self, param: &str) -> Self {
        self.param = Some(param.to_owned());
        self
    }

    /// The body is no JSON object.
    pub fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, None, message)
    }

    /// A field has a value that makes no sense, or that this service does not know.
    pub fn invalid(param: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, None, message).of(param)
    }

    /// Prompt and answer do not fit.
    pub fn too_long(param: &str, message: impl Into<String>) -> Self {
        let code = Some("context_length_exceeded");
        Self::new(StatusCode::BAD_REQUEST, code, message).of(param)
    }

    /// No model has this name.
    pub fn no_model(name: &str, served: &[String]) -> Self {
        let message = format!(
            "there is no model `{name}` here; `model` may be {}",
            served.join(", ")
        );
        let code = Some("model_not_found");
        Self::new(StatusCode::NOT_FOUND, code, message).of("model")
    }

    /// The adapter left while the request waited behind its change.
    pub fn unloaded() -> Self {
        let message = "the adapter was unloaded or replaced before the answer began; `GET /v1/models` lists those that are there";
        let code = Some("model_not_found");
        Self::new(StatusCode::NOT_FOUND, code, message).of("model")
    }

    /// The service takes no adapters while it runs.
    pub fn takes_no_adapters() -> Self {
        let message =
            "this service takes no adapters while it runs; start it with --adapter-folder FOLDER";
        Self::new(StatusCode::FORBIDDEN, None, message)
    }

    /// The token is missing or wrong.
    pub fn unauthorized() -> Self {
        let message = "send the header `Authorization: Bearer TOKEN` with the token of the service (in OpenAI's clients, `api_key`)";
        let code = Some("invalid_api_key");
        Self::new(StatusCode::UNAUTHORIZED, code, message)
    }

    /// The request names a host that is not loopback.
    pub fn wrong_host() -> Self {
        let message = "without a token the service answers requests to localhost only; call it by 127.0.0.1, or start it with --token-file";
        Self::new(StatusCode::FORBIDDEN, None, message)
    }

    /// There is no such path.
    pub fn no_route(path: &str) -> Self {
        let message = format!(
            "there is no {path}; use /v1/completions, /v1/chat/completions, /v1/models, /health or /metrics"
        );
        Self::new(StatusCode::NOT_FOUND, None, message)
    }

    /// The path does not have this method.
    pub fn wrong_method(method: &str) -> Self {
        let message = format!(
            "{method} has no meaning here; the header `Allow` of this response names the methods that have one"
        );
        Self::new(StatusCode::METHOD_NOT_ALLOWED, None, message)
    }

    /// The body did not come in time.
    pub fn too_slow(seconds: u64) -> Self {
        let message = format!("the body did not arrive within {seconds} s");
        Self::new(StatusCode::REQUEST_TIMEOUT, None, message)
    }

    /// The body is too long.
    pub fn too_large(most: usize) -> Self {
        let message =
            format!("the body may have {most} bytes; start the service with a larger --max-body");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, None, message)
    }

    /// The body is not JSON by its header.
    pub fn wrong_media_type() -> Self {
        let message = "send JSON with the header `Content-Type: application/json`";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, message)
    }

    /// Other requests take up the memory for bodies.
    pub fn crowded() -> Self {
        let message = "other requests take up the memory for bodies; try again later";
        let code = Some("overloaded");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    /// Too many answers wait.
    pub fn overloaded() -> Self {
        let message = "too many answers wait; try again later";
        let code = Some("overloaded");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    /// The service stops.
    pub fn stopping() -> Self {
        let message = "the service is stopping";
        let code = Some("stopping");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    /// The model failed at the answer, or the chat template at the messages.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, None, message)
    }

    /// The body of the response.
    pub fn body(&self) -> Value {
        json!({ "error": {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        } })
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
