//! Bodies of requests and answers.

use flopsmith_config::Endpoint;
use flopsmith_config::endpoint::{Field, TokenLimit};
use flopsmith_protocol::Sampling;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::Reason;

/// A request.
#[derive(Debug, Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: [Message<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Debug, Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Debug, Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// The body of a request.
///
/// # Errors
/// None in practice: every number of the settings is finite.
pub fn body(
    endpoint: &Endpoint,
    sampling: &Sampling,
    prompt: &str,
    seed: u64,
) -> Result<Vec<u8>, serde_json::Error> {
    let limit = |name| (endpoint.token_limit == name).then_some(sampling.max_tokens);
    let sends = |field| endpoint.sends(field);
    serde_json::to_vec(&Body {
        model: &endpoint.model,
        messages: [Message {
            role: "user",
            content: prompt,
        }],
        max_tokens: limit(TokenLimit::MaxTokens),
        max_completion_tokens: limit(TokenLimit::MaxCompletionTokens),
        temperature: sends(Field::Temperature).then_some(sampling.temperature),
        top_p: sends(Field::TopP).then_some(sampling.top_p),
        // Servers read seeds as signed numbers.
        seed: sends(Field::Seed).then_some(seed & u64::from(u32::MAX)),
        stream: endpoint.stream,
        stream_options: (endpoint.stream && sends(Field::StreamOptions)).then_some(StreamOptions {
            include_usage: true,
        }),
    })
}

/// The numbers of tokens that a server counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Usage {
    /// Of the prompt.
    pub prompt_tokens: u64,
    /// Of the answer, with its reasoning.
    #[serde(default)]
    pub completion_tokens: u64,
}

/// A whole answer, or a piece of a stream.
#[derive(Debug, Deserialize)]
struct Completion {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    model: Option<String>,
    error: Option<serde_json::Value>,
    // Chats say the prompt's tokens here, completions in their choices.
    prompt_token_ids: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    index: Option<u64>,
    message: Option<Content>,
    delta: Option<Content>,
    text: Option<String>,
    finish_reason: Option<String>,
    // Values, because only answers that are trained on must have them in this form.
    prompt_token_ids: Option<Value>,
    token_ids: Option<Value>,
    logprobs: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Content {
    content: Option<String>,
}

/// The tokens of an answer, as far as a server says them in the form in which vLLM does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tokens {
    /// Of the prompt.
    pub prompt: Option<Vec<u32>>,
    /// Of the answer.
    pub ids: Option<Vec<u32>>,
    /// Log-probabilities of the answer's tokens.
    pub logprobs: Option<Vec<f32>>,
    /// True if there are several answers, so that these are tokens of all of them.
    pub several: bool,
}

impl Tokens {
    fn add(&mut self, choice: &Choice) {
        self.several |= choice.index.is_some_and(|index| index > 0);
        if let Some(ids) = choice.prompt_token_ids.as_ref().and_then(ids_of) {
            self.prompt = Some(ids);
        }
        // Lists that cannot be read are left out: the numbers of ids and log-probabilities then differ.
        if let Some(ids) = choice.token_ids.as_ref().and_then(ids_of) {
            self.ids.get_or_insert_default().extend(ids);
        }
        if let Some(logprobs) = choice.logprobs.as_ref().and_then(logprobs_of) {
            self.logprobs.get_or_insert_default().extend(logprobs);
        }
    }
}

fn ids_of(value: &Value) -> Option<Vec<u32>> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    value.as_array()?.iter().map(id).collect()
}

/// Log-probabilities in the form of completions or in that of chats.
fn logprobs_of(value: &Value) -> Option<Vec<f32>> {
    let number = |value: &Value| value.as_f64().map(|number| number as f32);
    if let Some(all) = value.get("token_logprobs").and_then(Value::as_array) {
        return all.iter().map(number).collect();
    }
    let all = value.get("content").and_then(Value::as_array)?;
    let of_token = |token: &Value| token.get("logprob").and_then(number);
    all.iter().map(of_token).collect()
}

/// An answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The text.
    pub text: String,
    /// False if the limit on its tokens cut it off; none if the server does not say.
    pub finished: Option<bool>,
    /// The numbers of tokens, if the server says them.
    pub usage: Option<Usage>,
    /// The model, as the server names it.
    pub served: Option<String>,
    /// Its tokens.
    pub tokens: Tokens,
}

/// The fault of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The reason.
    pub reason: Reason,
    /// The fault in words.
    pub detail: String,
}

impl Fault {
    fn malformed(detail: impl Into<String>) -> Self {
        Self {
            reason: Reason::Malformed,
            detail: detail.into(),
        }
    }
}

/// An answer from its pieces.
#[derive(Debug, Default)]
pub struct Assembly {
    text: String,
    has_choice: bool,
    finish: Option<String>,
    usage: Option<Usage>,
    served: Option<String>,
    tokens: Tokens,
    ended: bool,
}

impl Assembly {
    /// Adds a piece: the data of an event, or a whole answer.
    ///
    /// # Errors
    /// The piece is no JSON of this format, or tells an error of the server.
    pub fn add(&mut self, data: &str) -> Result<(), Fault> {
        if data.trim() == "[DONE]" {
            self.ended = true;
            return Ok(());
        }
        let piece: Completion =
            serde_json::from_str(data).map_err(|e| Fault::malformed(format!("{e} in {data}")))?;
        if let Some(error) = piece.error {
            return Err(Fault {
                reason: Reason::Server,
                detail: message(&error),
            });
        }
        for choice in piece.choices {
            self.has_choice = true;
            self.tokens.add(&choice);
            if let Some(text) = &choice.text {
                self.text.push_str(text);
            }
            let content = choice.message.or(choice.delta);
            if let Some(text) = content.and_then(|content| content.content) {
                self.text.push_str(&text);
            }
            if choice.finish_reason.is_some() {
                self.finish = choice.finish_reason;
            }
        }
        if let Some(ids) = piece.prompt_token_ids.as_ref().and_then(ids_of) {
            self.tokens.prompt = Some(ids);
        }
        self.usage = piece.usage.or(self.usage);
        if piece.model.is_some() {
            self.served = piece.model;
        }
        Ok(())
    }

    /// True if the stream said that it has ended.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The answer, once there are no more pieces.
    ///
    /// # Errors
    /// A piece is missing.
    pub fn finish(self, of_stream: bool) -> Result<Answered, Fault> {
        if of_stream && !self.ended && self.finish.is_none() {
            return Err(Fault {
                reason: Reason::Cut,
                detail: format!("the stream ended after {} bytes of text", self.text.len()),
            });
        }
        if !self.has_choice {
            return Err(Fault::malformed("it has no `choices`"));
        }
        Ok(Answered {
            text: self.text,
            finished: self.finish.map(|reason| reason != "length"),
            usage: self.usage,
            served: self.served,
            tokens: self.tokens,
        })
    }
}

/// The message of an error: `error.message`, or whatever is there.
pub fn message(error: &serde_json::Value) -> String {
    let error = error.get("error").unwrap_or(error);
    let text = error.get("message").unwrap_or(error);
    text.as_str()
        .map_or_else(|| text.to_string(), str::to_owned)
}

/// True if an error says that the prompt was read before it was refused: by a filter, or because it is too long.
pub fn was_read(error: &serde_json::Value) -> bool {
    const CODES: [&str; 2] = ["content_filter", "context_length_exceeded"];
    let error = error.get("error").unwrap_or(error);
    let named = ["code", "type"].iter().filter_map(|name| error.get(name));
    named
        .filter_map(serde_json::Value::as_str)
        .any(|code| CODES.contains(&code))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    fn sampling() -> Sampling {
        Sampling {
            temperature: 0.2,
            top_p: 0.95,
            top_k: 0,
            max_tokens: 64,
        }
    }

    fn body_of(endpoint: &Endpoint) -> Value {
        let bytes = body(endpoint, &sampling(), "Write.", 7).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn a_request_has_the_fields_that_the_server_takes() {
        let mut endpoint = Endpoint::new("http://127.0.0.1:1/v1", "m");
        let whole = json!({
            "model": "m", "messages": [{"role": "user", "content": "Write."}], "max_tokens": 64,
            "temperature": 0.2, "top_p": 0.95, "seed": 7, "stream": true,
            "stream_options": {"include_usage": true},
        });
        assert_eq!(body_of(&endpoint), whole);
        endpoint.stream = false;
        endpoint.token_limit = TokenLimit::MaxCompletionTokens;
        endpoint.omit = vec![Field::Temperature, Field::TopP, Field::Seed];
        let few = json!({
            "model": "m", "messages": [{"role": "user", "content": "Write."}],
            "max_completion_tokens": 64, "stream": false,
        });
        assert_eq!(body_of(&endpoint), few);
    }

    fn assembled(pieces: &[&str], of_stream: bool) -> Result<Answered, Fault> {
        let mut assembly = Assembly::default();
        for piece in pieces {
            assembly.add(piece)?;
        }
        assembly.finish(of_stream)
    }

    #[test]
    fn a_stream_is_put_together() {
        let answer = assembled(
            &[
                r#"{"model":"m-1","choices":[{"delta":{"role":"assistant","content":null}}]}"#,
                r#"{"choices":[{"delta":{"content":"int "}}],"usage":null}"#,
                r#"{"choices":[{"delta":{"content":"x;"},"finish_reason":"length"}]}"#,
                r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}"#,
                "[DONE]",
            ],
            true,
        );
        let answer = answer.unwrap();
        assert_eq!(answer.text, "int x;");
        assert_eq!(answer.finished, Some(false));
        assert_eq!(answer.served.as_deref(), Some("m-1"));
        let usage = Usage {
            prompt_tokens: 9,
            completion_tokens: 2,
        };
        assert_eq!(answer.usage, Some(usage));
    }

    #[test]
    fn tokens_are_put_together_from_completions_and_chats() {
        let whole = Tokens {
            prompt: Some(vec![7, 8]),
            ids: Some(vec![1, 2]),
            logprobs: Some(vec![-0.5, -0.25]),
            several: false,
        };
        let stream = [
            r#"{"choices":[{"index":0,"text":"","prompt_token_ids":[7,8],"token_ids":[],"logprobs":null}]}"#,
            r#"{"choices":[{"index":0,"text":"a","token_ids":[1],"logprobs":{"token_logprobs":[-0.5]}}]}"#,
            r#"{"choices":[{"index":0,"text":"b","token_ids":[2],"logprobs":{"token_logprobs":[-0.25]},"finish_reason":"stop"}]}"#,
        ];
        let answer = assembled(&stream, true).unwrap();
        assert_eq!((answer.text.as_str(), &answer.tokens), ("ab", &whole));
        let chat = r#"{"prompt_token_ids":[7,8],"choices":[{"index":0,"message":{"content":"ab"},"token_ids":[1,2],"logprobs":{"content":[{"logprob":-0.5},{"logprob":-0.25}]}}]}"#;
        assert_eq!(assembled(&[chat], false).unwrap().tokens, whole);
        // A list of another form is no list, and no fault of an answer whose tokens nobody needs.
        let odd =
            r#"{"choices":[{"text":"ab","token_ids":["1"],"logprobs":{"token_logprobs":[null]}}]}"#;
        let answer = assembled(&[odd], false).unwrap();
        assert_eq!(answer.tokens, Tokens::default());
        let two = r#"{"choices":[{"index":0,"text":"a"},{"index":1,"text":"b"}]}"#;
        assert!(assembled(&[two], false).unwrap().tokens.several);
    }

    #[test]
    fn what_is_no_answer_has_a_reason() {
        let whole = r#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#;
        assert_eq!(assembled(&[whole], false).unwrap().finished, Some(true));
        for (pieces, of_stream, reason) in [
            (
                &[r#"{"choices":[{"delta":{"content":"x"}}]}"#][..],
                true,
                Reason::Cut,
            ),
            (&[], true, Reason::Cut),
            (&["[DONE]"], true, Reason::Malformed),
            (&["<html>"], false, Reason::Malformed),
            (
                &[r#"{"choices":[{"message":{"content":7}}]}"#],
                false,
                Reason::Malformed,
            ),
            (&[r#"{"choices":[]}"#], false, Reason::Malformed),
            (
                &[r#"{"usage":{"prompt_tokens":-1},"choices":[]}"#],
                false,
                Reason::Malformed,
            ),
            (
                &[r#"{"error":{"message":"overloaded"}}"#],
                true,
                Reason::Server,
            ),
        ] {
            let fault = assembled(pieces, of_stream).unwrap_err();
            assert_eq!(fault.reason, reason, "{pieces:?}");
        }
    }

    #[test]
    fn the_message_of_an_error_is_found() {
        for (error, words) in [
            (
                json!({"error": {"message": "no such model"}}),
                "no such model",
            ),
            (json!({"error": "bad"}), "bad"),
            (json!({"message": "late"}), "late"),
            (json!([1]), "[1]"),
        ] {
            assert_eq!(message(&error), words);
        }
    }
}
