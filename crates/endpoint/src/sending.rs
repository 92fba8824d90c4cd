//! Sends single requests.

use bytes::Bytes;
use chrono::Utc;
use flopsmith_config::Endpoint;
use flopsmith_config::endpoint::{Timeouts, seconds};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Response, StatusCode, Url, redirect};
use tokio::time::{Instant, timeout, timeout_at};

use crate::address::{COMPLETIONS, address, is_loopback, route};
use crate::backoff;
use crate::error::Error;
use crate::failure::{self, Failure};
use crate::journal::Reason;
use crate::key::Key;
use crate::reading::{self, Beginning, Body};
use crate::wire::{self, Answered};

/// The routes that write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// The next turn of a conversation.
    Chat,
    /// The continuation of a text or of token ids.
    Completions,
}

/// Sends requests to one server.
pub(crate) struct Sender {
    http: reqwest::Client,
    /// The base URL.
    url: String,
    address: Url,
    completions: Url,
    key: Option<Key>,
    timeouts: Timeouts,
    stream: bool,
}

impl Sender {
    /// A sender with this key.
    ///
    /// # Errors
    /// The URL cannot be used.
    pub(crate) fn new(endpoint: &Endpoint, key: Option<Key>) -> Result<Self, Error> {
        let address = address(&endpoint.url)?;
        // The TLS client panics if the process has no default crypto provider. An earlier choice stays.
        let _chosen = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(seconds(endpoint.timeouts.connect_seconds));
        if is_loopback(&address) {
            http = http.no_proxy();
        }
        Ok(Self {
            http: http.build().map_err(Error::Http)?,
            completions: route(&endpoint.url, COMPLETIONS)?,
            url: endpoint.url.clone(),
            address,
            key,
            timeouts: endpoint.timeouts.clone(),
            stream: endpoint.stream,
        })
    }

    /// True if the key would go through the network unencrypted.
    pub(crate) fn shows_key(&self) -> bool {
        self.key.is_some() && self.address.scheme() == "http" && !is_loopback(&self.address)
    }

    /// Words of a server without the key, which servers repeat.
    pub(crate) fn without_key(&self, words: &str) -> String {
        match &self.key {
            Some(key) => key.hidden(words),
            None => words.to_owned(),
        }
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn send(&self, to: Route, body: Bytes) -> Result<Answered, Failure> {
        let timeouts = &self.timeouts;
        let address = match to {
            Route::Chat => &self.address,
            Route::Completions => &self.completions,
        };
        let mut request = self
            .http
            .post(address.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(body);
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.header());
        }
        // Without a stream nothing comes before the whole answer is written, and the limit on that ends the wait.
        let first = match self.stream {
            true => seconds(timeouts.first_byte_seconds),
            false => seconds(timeouts.whole_seconds * 2.0),
        };
        let begins = Instant::now() + first;
        let late = || {
            let words = format!("no byte of an answer after {} s", first.as_secs_f64());
            Failure::costly(Reason::FirstByte, words)
        };
        let response = match timeout_at(begins, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => {
                return Err(Failure::free(Reason::Connection, reading::chain(error)));
            }
            Ok(Err(error)) => return Err(Failure::costly(Reason::Cut, reading::chain(error))),
            Err(_) => return Err(late()),
        };
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let idle = seconds(timeouts.idle_seconds);
        Body::new(response, begins, idle).read(late).await
    }

    /// Connects by a request for no content, without the key. Fails only where there is no connection.
    pub(crate) async fn touch(&self) -> Result<(), Failure> {
        match self.http.head(self.address.clone()).send().await {
            Err(error) if error.is_connect() => {
                Err(Failure::free(Reason::Connection, reading::chain(error)))
            }
            _ => Ok(()),
        }
    }

    /// Calls a route that no model answers: by POST with a body, or by GET. Gives the beginning of what the server says.
    pub(crate) async fn call(&self, path: &str, body: Option<Bytes>) -> Result<String, Failure> {
        let refused = |error: Error| Failure::free(Reason::Refused, error.to_string());
        let address = route(&self.url, path).map_err(refused)?;
        let mut request = match body {
            Some(body) => self
                .http
                .post(address)
                .header(CONTENT_TYPE, "application/json")
                .body(body),
            None => self.http.get(address),
        };
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.header());
        }
        let response = request.send().await.map_err(|error| {
            let reason = match error.is_connect() {
                true => Reason::Connection,
                false => Reason::Cut,
            };
            Failure::free(reason, reading::chain(error))
        })?;
        match response.status().is_success() {
            true => Ok(reading::beginning(response).await.text),
            false => Err(self.refused(response).await),
        }
    }

    /// The failure that an error of the server tells.
    async fn refused(&self, response: Response) -> Failure {
        let status = response.status();
        let asked = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| backoff::retry_after(value, Utc::now()));
        let idle = seconds(self.timeouts.idle_seconds);
        let said = timeout(idle, reading::beginning(response)).await;
        let Beginning { text, is_whole } = said.unwrap_or_default();
        let error: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        let said = error.as_ref().map_or(text, wire::message);
        let mut words = format!("the server answers {}: {said}", status.as_u16());
        if status.is_redirection() {
            words = format!(
                "the server answers {}, a redirection; name its new address as the URL",
                status.as_u16()
            );
        }
        Failure {
            asked,
            may_cost: failure::may_have_worked(status, error.as_ref(), is_whole),
            of_key: status == StatusCode::UNAUTHORIZED,
            ..Failure::free(failure::reason(status), words)
        }
    }
}
