//! A request as it is understood: from a body to prompts, draws and the form of the answer.

use flopsmith_policy::chat::Message;
use flopsmith_protocol::Sampling;
use serde_json::{Value, json};

use crate::chance;
use crate::fields::Fields;
use crate::refusal::Refusal;
use crate::served::Served;

/// Largest number of answers to one request, over all its prompts.
const MOST_CHOICES: usize = 1024;
/// Largest number of answers to one prompt.
const MOST_OF_A_PROMPT: i64 = 128;
/// Largest number of alternatives at each place.
const MOST_ALTERNATIVES: i64 = 20;
/// Largest number of stop strings, and of the bytes of each.
const MOST_STOPS: usize = 16;
const LONGEST_STOP: usize = 1024;
/// Tokens of a completion that names no limit.
const USUAL_TOKENS: usize = 16;

/// The two routes that write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `/v1/completions`: the answer continues a text.
    Completions,
    /// `/v1/chat/completions`: the answer is the next turn of a conversation.
    Chat,
}

/// One prompt of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its token ids; at least one.
    pub ids: Vec<u32>,
    /// Its text, if the request gives it as text.
    pub text: Option<String>,
    /// Largest number of tokens of an answer.
    pub most: u32,
}

/// How the answer is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// The route.
    pub route: Route,
    /// Piece by piece.
    pub stream: bool,
    /// With the counts of tokens at the end of a stream.
    pub usage: bool,
    /// With the prompt before each answer.
    pub echo: bool,
    /// With log-probabilities, and this number of alternatives at each place.
    pub alternatives: Option<usize>,
    /// With the token ids of prompts and answers.
    pub token_ids: bool,
    /// Tokens are written `token_id:ID`.
    pub as_ids: bool,
}

/// A request that can be answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The number of the model.
    pub model: usize,
    /// Its name.
    pub name: String,
    /// Its prompts; at least one.
    pub prompts: Vec<Prompt>,
    /// Number of answers to each prompt.
    pub choices: usize,
    /// Temperature and cuts. The limit is that of each prompt.
    pub sampling: Sampling,
    /// The smallest share of the likeliest token's probability; 0 keeps all.
    pub min_p: f32,
    /// Seed of the first answer to each prompt; the next answer has the next seed.
    pub seed: u64,
    /// Texts that end an answer.
    pub stops: Vec<String>,
    /// An answer goes on after an end token, to its limit.
    pub ignore_eos: bool,
    /// How the answer is sent.
    pub form: Form,
}

impl Ask {
    /// Reads a body.
    ///
    /// # Errors
    /// The first mistake in it.
    pub fn read(body: &[u8], route: Route, served: &Served) -> Result<Self, Refusal> {
        let mut fields = Fields::of(body)?;
        let (model, name) = model(&mut fields, served)?;
        let most = limit(&mut fields, route)?;
        let found = match route {
            Route::Completions => completions(&mut fields, served)?,
            Route::Chat => vec![chat(&mut fields, served)?],
        };
        let field = prompt_field(route);
        let mut prompts = Vec::with_capacity(found.len());
        for (ids, text) in found {
            let most = fitting(field, ids.len(), most, route, served)?;
            prompts.push(Prompt { ids, text, most });
        }
        let choices = fields.whole("n", 1..=MOST_OF_A_PROMPT)?.unwrap_or(1);
        let choices = usize::try_from(choices).unwrap_or(1);
        if choices * prompts.len() > MOST_CHOICES {
            return Err(Refusal::invalid(
                "n",
                format!("a request may ask for {MOST_CHOICES} answers over all its prompts"),
            ));
        }
        fields.only("best_of", &[json!(choices)])?;
        let sampling = sampling(&mut fields)?;
        let min_p = fields.number("min_p", 0.0..=1.0)?.unwrap_or_default();
        let seed = fields.seed()?.unwrap_or_else(chance::number);
        let stops = stops(&mut fields)?;
        let ignore_eos = fields.flag("ignore_eos")?;
        let form = form(&mut fields, route)?;
        unknown(fields)?;
        Ok(Ask {
            model,
            name,
            prompts,
            choices,
            sampling,
            min_p,
            seed,
            stops,
            ignore_eos,
            form,
        })
    }
}

fn prompt_field(route: Route) -> &'static str {
    match route {
        Route::Completions => "prompt",
        Route::Chat => "messages",
    }
}

fn model(fields: &mut Fields, served: &Served) -> Result<(usize, String), Refusal> {
    let Some(name) = fields.text("model")? else {
        let names = served.names.list().join(", ");
        let message = format!("name the model: `model` may be {names}");
        return Err(Refusal::invalid("model", message));
    };
    match served.names.number(&name) {
        Some(number) => Ok((number, name)),
        None => Err(Refusal::no_model(&name, &served.names.list())),
    }
}

/// The limit that the request names for its answers.
fn limit(fields: &mut Fields, route: Route) -> Result<Option<u32>, Refusal> {
    let least = match route {
        // With the prompt's own log-probabilities, a completion without a token makes sense.
        Route::Completions => 0,
        Route::Chat => 1,
    };
    let range = least..=i64::from(u32::MAX);
    let older = fields.whole("max_tokens", range.clone())?;
    let newer = fields.whole("max_completion_tokens", range)?;
    if older.is_some() && newer.is_some() && older != newer {
        return Err(Refusal::invalid(
            "max_completion_tokens",
            "`max_tokens` and `max_completion_tokens` are two names of one limit; send one of them",
        ));
    }
    Ok(newer.or(older).and_then(|most| u32::try_from(most).ok()))
}

/// The limit of the answers to a prompt of this length.
fn fitting(
    param: &str,
    length: usize,
    most: Option<u32>,
    route: Route,
    served: &Served,
) -> Result<u32, Refusal> {
    let longest = served.longest;
    if length == 0 {
        let message = "the prompt has no token; write at least one character";
        return Err(Refusal::invalid(param, message));
    }
    let left = longest.saturating_sub(length);
    let wanted = match (most, route) {
        (Some(most), _) => usize::try_from(most).unwrap_or(usize::MAX),
        // At least one, so that a prompt that leaves no room is refused.
        (None, Route::Completions) => left.clamp(1, USUAL_TOKENS),
        (None, Route::Chat) => left.max(1),
    };
    if length > longest || wanted > left {
        let message = format!(
            "a prompt of {length} tokens and an answer of up to {wanted} have more than the {longest} tokens that fit; shorten the prompt or lower `max_tokens`"
        );
        return Err(Refusal::too_long(param, message));
    }
    Ok(u32::try_from(wanted).unwrap_or(u32::MAX))
}

type Found = (Vec<u32>, Option<String>);

/// The prompts of a completion: a text, token ids, or a list of either.
fn completions(fields: &mut Fields, served: &Served) -> Result<Vec<Found>, Refusal> {
    let wrong = || {
        let message = "`prompt` has to be a text, a list of texts, a list of token ids, or a list of lists of token ids";
        Refusal::invalid("prompt", message)
    };
    let encode = |text: String| -> Result<Found, Refusal> {
        let ids = served.tokenizer.encode_prompt(&text);
        let ids = ids.map_err(|error| Refusal::invalid("prompt", error.to_string()))?;
        Ok((ids, Some(text)))
    };
    let all = match fields.take("prompt") {
        Some(Value::String(text)) => vec![encode(text)?],
        Some(Value::Array(items)) if items.iter().all(Value::is_number) => {
            vec![(ids(&items, served)?, None)]
        }
        Some(Value::Array(items)) => {
            if items.len() > MOST_CHOICES {
                let message = format!("a request may have {MOST_CHOICES} prompts");
                return Err(Refusal::invalid("prompt", message));
            }
            let each = items.into_iter().map(|item| match item {
                Value::String(text) => encode(text),
                Value::Array(items) => ids(&items, served).map(|ids| (ids, None)),
                _ => Err(wrong()),
            });
            each.collect::<Result<Vec<Found>, Refusal>>()?
        }
        _ => return Err(wrong()),
    };
    Ok(all)
}

fn ids(items: &[Value], served: &Served) -> Result<Vec<u32>, Refusal> {
    let id = |item: &Value| {
        let id = item.as_u64().and_then(|id| u32::try_from(id).ok());
        id.filter(|id| *id < served.vocabulary).ok_or_else(|| {
            let message = format!(
                "{item} is no token id; ids are whole numbers from 0 to {}",
                served.vocabulary.saturating_sub(1)
            );
            Refusal::invalid("prompt", message)
        })
    };
    items.iter().map(id).collect()
}

/// The prompt of a conversation, by the chat template.
fn chat(fields: &mut Fields, served: &Served) -> Result<Found, Refusal> {
    let messages = match fields.take("messages") {
        Some(Value::Array(messages)) if !messages.is_empty() => messages,
        _ => {
            let message = "`messages` has to be a list of at least one message";
            return Err(Refusal::invalid("messages", message));
        }
    };
    let each = messages.into_iter().enumerate();
    let messages: Vec<Message> = each
        .map(|(n, message)| turn(&format!("messages[{n}]"), message))
        .collect::<Result<_, _>>()?;
    let ids = served.tokenizer.encode_messages(&messages, true);
    let ids = ids.map_err(|error| {
        let of_service = matches!(error, flopsmith_policy::Error::ChatTemplate(_));
        let failure = format!("{:#}", anyhow::Error::new(error));
        if of_service {
            tracing::error!(failure, "a chat gets no answer");
            return Refusal::failed(failure);
        }
        // The template may refuse an order of roles, and says so in its own words.
        Refusal::invalid("messages", failure)
    })?;
    Ok((ids, None))
}

/// One message.
fn turn(at: &str, message: Value) -> Result<Message, Refusal> {
    let Value::Object(message) = message else {
        return Err(Refusal::invalid(at, "a message has to be an object"));
    };
    let mut fields = Fields::within(message);
    let role = match fields.take("role") {
        Some(Value::String(role)) => role,
        _ => String::new(),
    };
    let role = match role.as_str() {
        "system" | "user" | "assistant" => role,
        // The newer name of the same role, which templates do not know.
        "developer" => "system".to_owned(),
        _ => {
            return Err(Refusal::invalid(
                &format!("{at}.role"),
                "`role` has to be system, developer, user or assistant; this service has no tools",
            ));
        }
    };
    let param = format!("{at}.content");
    let content = match fields.take("content") {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => joined(&param, &parts)?,
        _ => {
            let message = "`content` has to be a text, or a list of parts of type text";
            return Err(Refusal::invalid(&param, message));
        }
    };
    fields.ignore(&["name", "refusal", "annotations", "audio"]);
    fields.only("tool_calls", &[json!([])])?;
    fields.end(&format!("{at}."))?;
    Ok(Message { role, content })
}

fn joined(param: &str, parts: &[Value]) -> Result<String, Refusal> {
    let text = |part: &Value| match (part["type"].as_str(), part["text"].as_str()) {
        (Some("text"), Some(text)) => Ok(text.to_owned()),
        _ => Err(Refusal::invalid(
            param,
            "this model reads text only: a part has the type `text` and a field `text`",
        )),
    };
    parts.iter().map(text).collect()
}

fn sampling(fields: &mut Fields) -> Result<Sampling, Refusal> {
    let temperature = fields.number("temperature", 0.0..=100.0)?.unwrap_or(1.0);
    let top_p = fields.number("top_p", 0.0..=1.0)?.unwrap_or(1.0);
    if top_p <= 0.0 {
        let message = "`top_p` has to be above 0; 1 keeps all tokens";
        return Err(Refusal::invalid("top_p", message));
    }
    let top_k = fields.whole("top_k", -1..=i64::from(u32::MAX))?;
    Ok(Sampling {
        temperature,
        top_p,
        // −1 keeps all tokens, as 0 does.
        top_k: top_k.and_then(|k| u32::try_from(k).ok()).unwrap_or(0),
        max_tokens: 0,
    })
}

fn stops(fields: &mut Fields) -> Result<Vec<String>, Refusal> {
    let wrong = || {
        let message = format!(
            "`stop` has to be a text, or a list of at most {MOST_STOPS} texts, each of 1 to {LONGEST_STOP} bytes"
        );
        Refusal::invalid("stop", message)
    };
    let stops = match fields.take("stop") {
        None => return Ok(Vec::new()),
        Some(Value::String(stop)) => vec![stop],
        Some(Value::Array(stops)) if stops.len() <= MOST_STOPS => {
            let text = |stop: Value| match stop {
                Value::String(stop) => Ok(stop),
                _ => Err(wrong()),
            };
            let texts = stops.into_iter().map(text);
            texts.collect::<Result<Vec<String>, Refusal>>()?
        }
        Some(_) => return Err(wrong()),
    };
    let fits = |stop: &String| (1..=LONGEST_STOP).contains(&stop.len());
    match stops.iter().all(fits) {
        true => Ok(stops),
        false => Err(wrong()),
    }
}

fn form(fields: &mut Fields, route: Route) -> Result<Form, Refusal> {
    let stream = fields.flag("stream")?;
    let usage = match fields.take("stream_options") {
        None => false,
        Some(Value::Object(options)) if stream => {
            let mut options = Fields::within(options);
            let usage = options.flag("include_usage")?;
            options.ignore(&["include_obfuscation"]);
            options.only("continuous_usage_stats", &[json!(false)])?;
            options.end("stream_options.")?;
            usage
        }
        Some(_) => {
            let message = "`stream_options` is an object, and needs `stream`: true";
            return Err(Refusal::invalid("stream_options", message));
        }
    };
    let (echo, alternatives) = match route {
        Route::Completions => {
            let alternatives = fields.whole("logprobs", 0..=MOST_ALTERNATIVES)?;
            (fields.flag("echo")?, alternatives)
        }
        Route::Chat => {
            fields.only("echo", &[json!(false)])?;
            let wanted = fields.flag("logprobs")?;
            let top = fields.whole("top_logprobs", 0..=MOST_ALTERNATIVES)?;
            if top.is_some_and(|top| top > 0) && !wanted {
                let message = "`top_logprobs` needs `logprobs`: true";
                return Err(Refusal::invalid("top_logprobs", message));
            }
            (false, wanted.then(|| top.unwrap_or(0)))
        }
    };
    Ok(Form {
        route,
        stream,
        usage,
        echo,
        alternatives: alternatives.and_then(|n| usize::try_from(n).ok()),
        token_ids: fields.flag("return_token_ids")?,
        as_ids: fields.flag("return_tokens_as_token_ids")?,
    })
}

/// Reads the fields that change nothing, and refuses all others.
fn unknown(mut fields: Fields) -> Result<(), Refusal> {
    fields.ignore(&[
        "user",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "parallel_tool_calls",
        "request_id",
        "priority",
    ]);
    let none = [json!([]), json!({})];
    for name in ["logit_bias", "tools", "functions", "stop_token_ids"] {
        fields.only(name, &none)?;
    }
    for name in ["presence_penalty", "frequency_penalty", "min_tokens"] {
        fields.only(name, &[json!(0)])?;
    }
    for name in ["use_beam_search", "include_stop_str_in_output"] {
        fields.only(name, &[json!(false)])?;
    }
    for name in ["skip_special_tokens", "spaces_between_special_tokens"] {
        fields.only(name, &[json!(true)])?;
    }
    for name in ["add_special_tokens", "add_generation_prompt"] {
        fields.only(name, &[json!(true)])?;
    }
    fields.only("repetition_penalty", &[json!(1)])?;
    fields.only("tool_choice", &[json!("none"), json!("auto")])?;
    fields.only("response_format", &[json!({ "type": "text" })])?;
    fields.only("modalities", &[json!(["text"])])?;
    fields.only("suffix", &[json!("")])?;
    fields.end("")
}
