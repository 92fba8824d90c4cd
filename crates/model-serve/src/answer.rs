//! An answer on its way: the choices of a request, and their form as JSON.

use std::sync::Arc;

use flopsmith_policy::{End, Scored, Stops, Tokenizer};
use flopsmith_run::local::unix_ms;
use serde_json::{Map, Value, json};

use crate::ask::{Ask, Form, Prompt, Route};
use crate::chance;
use crate::engine::Token;
use crate::refusal::Refusal;
use crate::text::Growing;

/// Stands for ln 0, which JSON cannot write.
const IMPOSSIBLE: f32 = -9999.0;

/// A token with its log-probability; the first token of a prompt has none.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    token: u32,
    logprob: Option<f32>,
    top: Vec<(u32, f32)>,
}

/// Facts that all choices of a request share.
pub struct Asked {
    /// The request.
    pub ask: Ask,
    /// The scores of each prompt, if they are shown.
    pub scored: Vec<Vec<Scored>>,
    tokenizer: Arc<Tokenizer>,
    id: String,
    created: u64,
    model: String,
}

impl Asked {
    /// A request to the model of this name.
    pub fn new(
        ask: Ask,
        scored: Vec<Vec<Scored>>,
        tokenizer: Arc<Tokenizer>,
        model: String,
    ) -> Self {
        let prefix = match ask.form.route {
            Route::Completions => "cmpl",
            Route::Chat => "chatcmpl",
        };
        Self {
            id: format!(
                "{prefix}-{:016x}{:016x}",
                chance::number(),
                chance::number()
            ),
            created: unix_ms() / 1000,
            ask,
            scored,
            tokenizer,
            model,
        }
    }

    /// The choices, in order.
    pub fn choices(&self) -> Vec<Choice> {
        let stops = (!self.ask.stops.is_empty()).then(|| self.stops());
        let count = self.ask.prompts.len() * self.ask.choices;
        let choice = |index: usize| {
            let prompt = index / self.ask.choices;
            // Without a token to write the answer is complete.
            let is_empty = self.ask.prompts[prompt].most == 0;
            Choice {
                index,
                prompt,
                growing: Growing::new(Arc::clone(&self.tokenizer), stops.clone()),
                marks: Vec::new(),
                offset: 0,
                end: is_empty.then_some(End::Length),
                begun: false,
            }
        };
        (0..count).map(choice).collect()
    }

    /// The stop strings.
    pub fn stops(&self) -> Arc<Stops> {
        Arc::new(Stops::new(
            Arc::clone(&self.tokenizer),
            self.ask.stops.iter().cloned(),
        ))
    }

    fn form(&self) -> &Form {
        &self.ask.form
    }

    fn prompt(&self, choice: &Choice) -> &Prompt {
        &self.ask.prompts[choice.prompt]
    }

    /// The prompt's text, for an answer that shows it.
    fn echo(&self, choice: &Choice) -> Result<String, Refusal> {
        let prompt = self.prompt(choice);
        match (&prompt.text, self.form().echo) {
            (_, false) => Ok(String::new()),
            (Some(text), true) => Ok(text.clone()),
            (None, true) => self
                .tokenizer
                .decode_with_specials(&prompt.ids)
                .map_err(|error| Refusal::failed(error.to_string())),
        }
    }

    /// The marks of the prompt's tokens, for an answer that shows them.
    fn prompt_marks(&self, choice: &Choice) -> Vec<Mark> {
        if !self.form().echo {
            return Vec::new();
        }
        let prompt = self.prompt(choice);
        let scored = self.scored.get(choice.prompt).into_iter().flatten();
        let scored = scored.map(|s| (Some(s.logprob), s.top.clone()));
        let all = std::iter::once((None, Vec::new())).chain(scored);
        let ids = prompt.ids.iter().copied().zip(all);
        ids.map(|(token, (logprob, top))| Mark {
            token,
            logprob,
            top,
        })
        .collect()
    }

    /// The whole answer of complete choices.
    ///
    /// # Errors
    /// If the tokenizer fails.
    pub fn whole(&self, choices: &mut [Choice]) -> Result<Value, Refusal> {
        let usage = self.usage(choices);
        let mut shown = Vec::with_capacity(choices.len());
        for choice in choices {
            let (text, _) = choice.text()?;
            let text = self.echo(choice)? + &text;
            let mut marks = self.prompt_marks(choice);
            marks.append(&mut choice.marks);
            let mut object = Map::new();
            object.insert("index".into(), json!(choice.index));
            match self.form().route {
                Route::Completions => object.insert("text".into(), json!(text)),
                Route::Chat => {
                    let message = json!({ "role": "assistant", "content": text, "refusal": null });
                    object.insert("message".into(), message)
                }
            };
            object.insert("logprobs".into(), self.logprobs(&marks, &mut 0));
            object.insert("finish_reason".into(), reason(choice.end));
            if self.form().token_ids {
                object.insert("token_ids".into(), json!(choice.growing.tokens()));
                if self.form().route == Route::Completions {
                    let ids = json!(self.prompt(choice).ids);
                    object.insert("prompt_token_ids".into(), ids);
                }
            }
            shown.push(Value::Object(object));
        }
        let object = match self.form().route {
            Route::Completions => "text_completion",
            Route::Chat => "chat.completion",
        };
        let mut body = self.head(object);
        body.insert("choices".into(), Value::Array(shown));
        body.insert("usage".into(), usage);
        if self.form().token_ids && self.form().route == Route::Chat {
            let ids = self.ask.prompts.first().map(|prompt| &prompt.ids);
            body.insert("prompt_token_ids".into(), json!(ids));
        }
        Ok(Value::Object(body))
    }

    fn head(&self, object: &str) -> Map<String, Value> {
        let mut head = Map::new();
        head.insert("id".into(), json!(self.id));
        head.insert("object".into(), json!(object));
        head.insert("created".into(), json!(self.created));
        head.insert("model".into(), json!(self.model));
        head
    }

    /// The counts of tokens. A prompt counts once, however many answers it has.
    pub fn usage(&self, choices: &[Choice]) -> Value {
        let prompts: usize = self.ask.prompts.iter().map(|p| p.ids.len()).sum();
        let written: usize = choices.iter().map(|c| c.growing.tokens().len()).sum();
        json!({
            "prompt_tokens": prompts,
            "completion_tokens": written,
            "total_tokens": prompts + written,
        })
    }

    /// The first event of a choice, if it says something before the first token: the role, and the prompt.
    ///
    /// # Errors
    /// If the tokenizer fails.
    pub fn begin(&self, choice: &mut Choice) -> Result<Option<Value>, Refusal> {
        if std::mem::replace(&mut choice.begun, true) {
            return Ok(None);
        }
        let form = self.form();
        let ids = form.token_ids.then(|| json!(self.prompt(choice).ids));
        match form.route {
            Route::Chat => {
                let delta = json!({ "role": "assistant", "content": "" });
                let mut chunk = self.chunk(choice, "delta", delta, Value::Null, None, &[]);
                if let (Some(ids), Value::Object(chunk)) = (ids, &mut chunk) {
                    chunk.insert("prompt_token_ids".into(), ids);
                }
                Ok(Some(chunk))
            }
            Route::Completions if form.echo || form.token_ids => {
                let marks = self.prompt_marks(choice);
                let logprobs = match marks.is_empty() {
                    true => Value::Null,
                    false => self.logprobs(&marks, &mut choice.offset),
                };
                let text = json!(self.echo(choice)?);
                let mut chunk = self.chunk(choice, "text", text, logprobs, None, &[]);
                if let Some(ids) = ids {
                    chunk["choices"][0]["prompt_token_ids"] = ids;
                }
                Ok(Some(chunk))
            }
            Route::Completions => Ok(None),
        }
    }

    /// The event for a new token of a choice; none if nothing of it can be shown yet.
    ///
    /// # Errors
    /// If the tokenizer fails.
    pub fn next(&self, choice: &mut Choice, mut piece: String) -> Result<Option<Value>, Refusal> {
        if choice.end.is_some() {
            let (_, rest) = choice.text()?;
            piece.push_str(&rest);
        }
        let form = self.form();
        let shows_tokens = form.token_ids || form.alternatives.is_some();
        if piece.is_empty() && choice.end.is_none() && !shows_tokens {
            return Ok(None);
        }
        let marks = std::mem::take(&mut choice.marks);
        let ids: Vec<u32> = marks.iter().map(|mark| mark.token).collect();
        let mut offset = choice.offset;
        let logprobs = self.logprobs(&marks, &mut offset);
        choice.offset = offset;
        let (name, content) = match form.route {
            Route::Completions => ("text", json!(piece)),
            Route::Chat => ("delta", json!({ "content": piece })),
        };
        let chunk = self.chunk(choice, name, content, logprobs, choice.end, &ids);
        Ok(Some(chunk))
    }

    fn chunk(
        &self,
        choice: &Choice,
        name: &str,
        content: Value,
        logprobs: Value,
        end: Option<End>,
        ids: &[u32],
    ) -> Value {
        let mut object = Map::new();
        object.insert("index".into(), json!(choice.index));
        object.insert(name.into(), content);
        object.insert("logprobs".into(), logprobs);
        object.insert("finish_reason".into(), reason(end));
        if self.form().token_ids {
            object.insert("token_ids".into(), json!(ids));
        }
        let mut body = self.event();
        body.insert("choices".into(), json!([object]));
        if self.form().usage {
            body.insert("usage".into(), Value::Null);
        }
        Value::Object(body)
    }

    /// The event with the counts of tokens, after all others.
    pub fn last(&self, choices: &[Choice]) -> Option<Value> {
        self.form().usage.then(|| {
            let mut body = self.event();
            body.insert("choices".into(), json!([]));
            body.insert("usage".into(), self.usage(choices));
            Value::Object(body)
        })
    }

    fn event(&self) -> Map<String, Value> {
        self.head(match self.form().route {
            Route::Completions => "text_completion",
            Route::Chat => "chat.completion.chunk",
        })
    }

    /// The log-probabilities of tokens whose texts begin at `offset`, in characters, which then moves behind them. Null
    /// if they are not asked for.
    fn logprobs(&self, marks: &[Mark], offset: &mut usize) -> Value {
        if self.form().alternatives.is_none() {
            return Value::Null;
        }
        match self.form().route {
            Route::Completions => self.older(marks, offset),
            Route::Chat => {
                let of = |token: u32, logprob: Value| {
                    let text = self.plain(token);
                    // The bytes of a part of a character are not known here.
                    let bytes = (!text.contains('\u{fffd}')).then(|| text.as_bytes().to_vec());
                    json!({ "token": self.name(token), "logprob": logprob, "bytes": bytes })
                };
                let content = marks.iter().map(|mark| {
                    let top = mark.top.iter();
                    let top: Vec<Value> = top
                        .map(|(token, logprob)| of(*token, number(Some(*logprob))))
                        .collect();
                    let mut object = of(mark.token, number(mark.logprob));
                    object["top_logprobs"] = Value::Array(top);
                    object
                });
                json!({ "content": content.collect::<Vec<_>>(), "refusal": null })
            }
        }
    }

    /// The form of completions: a list for each property.
    fn older(&self, marks: &[Mark], offset: &mut usize) -> Value {
        let (mut tokens, mut logprobs) = (Vec::new(), Vec::new());
        let (mut tops, mut offsets) = (Vec::new(), Vec::new());
        for mark in marks {
            tokens.push(self.name(mark.token));
            logprobs.push(number(mark.logprob));
            offsets.push(*offset);
            *offset += self.plain(mark.token).chars().count();
            let Some(own) = mark.logprob else {
                tops.push(Value::Null);
                continue;
            };
            let mut top = Map::new();
            // Of two tokens with one text the likelier counts.
            for (token, logprob) in mark.top.iter().chain([&(mark.token, own)]) {
                let entry = top.entry(self.name(*token));
                entry.or_insert_with(|| number(Some(*logprob)));
            }
            tops.push(Value::Object(top));
        }
        json!({
            "tokens": tokens,
            "token_logprobs": logprobs,
            "top_logprobs": tops,
            "text_offset": offsets,
        })
    }

    /// A token as the request wants tokens to be written.
    fn name(&self, token: u32) -> String {
        match self.form().as_ids {
            true => format!("token_id:{token}"),
            false => self.plain(token),
        }
    }

    fn plain(&self, token: u32) -> String {
        let text = self.tokenizer.decode_with_specials(&[token]);
        text.unwrap_or_default()
    }
}

/// One answer of a request.
pub struct Choice {
    index: usize,
    /// The index of its prompt.
    pub prompt: usize,
    growing: Growing,
    /// Tokens that were not sent.
    marks: Vec<Mark>,
    /// Where the text of the next token begins, in characters, of a stream.
    offset: usize,
    end: Option<End>,
    /// The first event was sent.
    begun: bool,
}

impl Choice {
    /// True once the answer is complete.
    pub fn is_complete(&self) -> bool {
        self.end.is_some()
    }

    /// Appends a token of an answer that is sent whole.
    pub fn add(&mut self, token: Token) {
        self.growing.add(token.id);
        self.mark(token);
    }

    fn mark(&mut self, token: Token) {
        self.marks.push(Mark {
            token: token.id,
            logprob: Some(token.logprob),
            top: token.top,
        });
        self.end = token.end;
    }

    /// Appends a token, and gives the piece of text that can be shown.
    ///
    /// # Errors
    /// If the tokenizer fails.
    pub fn push(&mut self, token: Token) -> Result<String, Refusal> {
        let piece = self.growing.push(token.id);
        self.mark(token);
        piece.map_err(|error| Refusal::failed(error.to_string()))
    }

    /// The whole text, and the piece that was not shown.
    fn text(&mut self) -> Result<(String, String), Refusal> {
        let text = self.growing.end();
        text.map_err(|error| Refusal::failed(error.to_string()))
    }
}

fn number(logprob: Option<f32>) -> Value {
    // A probability that rounds to more than 1 has the logarithm 0.
    logprob.map_or(Value::Null, |l| json!(l.clamp(IMPOSSIBLE, 0.0)))
}

fn reason(end: Option<End>) -> Value {
    match end {
        None => Value::Null,
        Some(End::Token | End::Stop) => json!("stop"),
        Some(End::Length | End::Repetition) => json!("length"),
    }
}
