//! Adapters that a server takes while it runs, by the routes of vLLM.

use bytes::Bytes;
use flopsmith_config::endpoint::seconds;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::Client;
use crate::backoff;
use crate::error::Error;
use crate::failure::Failure;
use crate::journal::Reason;
use crate::repetition::Repetition;

#[derive(Debug, Serialize)]
struct Load<'a> {
    lora_name: &'a str,
    lora_path: &'a str,
    load_inplace: bool,
}

#[derive(Debug, Deserialize)]
struct Models {
    data: Vec<Named>,
}

#[derive(Debug, Deserialize)]
struct Named {
    id: String,
}

impl Client {
    /// Makes the server load the adapter in `path`, a folder as the server sees it, under `name`. An adapter that the server
    /// has under this name already counts as loaded, so a name must stand for one content.
    ///
    /// # Errors
    /// The server refuses or fails at it, again and again, and says why.
    pub async fn load_adapter(&self, name: &str, path: &str) -> Result<(), Error> {
        let load = Load {
            lora_name: name,
            lora_path: path,
            // A server that has this name reads the same content again.
            load_inplace: true,
        };
        let body = serde_json::to_vec(&load).map_err(Error::Body)?;
        let loaded = self
            .call("load_lora_adapter", Some(Bytes::from(body)))
            .await;
        let Err(error) = loaded else {
            return Ok(());
        };
        // A server without `load_inplace` refuses a name that it has.
        match error.reason() {
            Some(Reason::Refused) if self.has_model(name).await => Ok(()),
            _ => Err(error),
        }
    }

    /// Makes the server forget an adapter.
    ///
    /// # Errors
    /// As [`Client::load_adapter`].
    pub async fn unload_adapter(&self, name: &str) -> Result<(), Error> {
        let body = serde_json::to_vec(&json!({ "lora_name": name })).map_err(Error::Body)?;
        self.call("unload_lora_adapter", Some(Bytes::from(body)))
            .await
            .map(drop)
    }

    /// The names of the models and adapters that the server has.
    ///
    /// # Errors
    /// As [`Client::load_adapter`], and an answer that is no list of models.
    pub async fn models(&self) -> Result<Vec<String>, Error> {
        let said = self.call("models", None).await?;
        match serde_json::from_str::<Models>(&said) {
            Ok(models) => Ok(models.data.into_iter().map(|named| named.id).collect()),
            Err(error) => Err(Error::Failed {
                reason: Reason::Malformed,
                words: format!("the server's list of models cannot be read: {error}"),
                attempts: 1,
            }),
        }
    }

    async fn has_model(&self, name: &str) -> bool {
        let models = self.models().await.unwrap_or_default();
        models.iter().any(|known| known == name)
    }

    /// Calls a route that costs nothing, until the server does it or refuses it.
    async fn call(&self, path: &str, body: Option<Bytes>) -> Result<String, Error> {
        let retries = &self.endpoint.retries;
        let whole = seconds(self.endpoint.timeouts.whole_seconds);
        let mut attempt = 0;
        loop {
            attempt += 1;
            let late = || {
                let words = format!("no answer after {} s", whole.as_secs_f64());
                Err(Failure::free(Reason::Whole, words))
            };
            let ended = timeout(whole, self.sender.call(path, body.clone())).await;
            let failure = match ended.unwrap_or_else(|_| late()) {
                Ok(said) => return Ok(said),
                Err(failure) => failure,
            };
            let words = self.shown(&failure.words);
            let wait = backoff::wait(retries, attempt, failure.asked, rand::random());
            let wait = wait.filter(|_| failure.reason.is_passing() && attempt <= retries.most);
            let Some(wait) = wait else {
                return Err(Error::Failed {
                    reason: failure.reason,
                    words,
                    attempts: attempt,
                });
            };
            if self.left().is_some_and(|left| wait >= left) {
                return Err(Error::Budget("time"));
            }
            self.tell(&Repetition {
                problem: path.to_owned(),
                number: 0,
                attempt,
                reason: failure.reason,
                words,
                wait,
                left: retries.most + 1 - attempt,
            });
            sleep(wait).await;
        }
    }
}
