//! Samples that are trained on: completions with the token ids that were drawn and their log-probabilities.

use std::ops::ControlFlow;

use bytes::Bytes;
use flopsmith_config::Endpoint;
use flopsmith_config::endpoint::Field;
use flopsmith_protocol::Sampling;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::Serialize;

use super::{Client, TEMPLATE_TOKENS, Wanted};
use crate::error::Error;
use crate::ledger::Amount;
use crate::sending::Route;
use crate::wire::Answered;

/// Log-probabilities may exceed 0 by rounding only.
const ROUNDING: f32 = 1e-2;

const ADVICE: &str = "samples that are trained on need the field `return_token_ids` with `logprobs` on /v1/completions, which `flopsmith model serve` and recent versions of vLLM have (--return-tokens-as-token-ids alone is not enough)";

/// A prompt of a draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// A text, which the server's tokenizer reads.
    Text(String),
    /// Token ids.
    Ids(Vec<u32>),
}

/// A request for one sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// The task.
    pub problem: String,
    /// Number of the sample.
    pub number: u32,
    /// The model, as the server names it: that of the endpoint, or an adapter.
    pub model: String,
    /// The prompt.
    pub prompt: Prompt,
    /// Temperature, cuts and the limit on new tokens.
    pub sampling: Sampling,
    /// Strings that end the answer.
    pub stop: Vec<String>,
    /// Seed of its draws.
    pub seed: u64,
}

/// A sample, token by token, as the server drew it.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    /// Token ids of the prompt, if the server says them. Streams of vLLM may lack them.
    pub prompt: Option<Vec<u32>>,
    /// Token ids of the answer, at least one.
    pub tokens: Vec<u32>,
    /// Their log-probabilities, as many.
    pub logprobs: Vec<f32>,
    /// False if the limit on its tokens cut it off.
    pub finished: bool,
    /// Tokens and cost of the request.
    pub amount: Amount,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Sent<'a> {
    Text(&'a str),
    Ids(&'a [u32]),
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    prompt: Sent<'a>,
    max_tokens: u32,
    temperature: f32,
    top_p: f32,
    top_k: i64,
    // A server may have other defaults for these two, from the model's own `generation_config.json`.
    min_p: f32,
    repetition_penalty: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    logprobs: u32,
    return_token_ids: bool,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

fn body(endpoint: &Endpoint, draw: &Draw) -> Result<Vec<u8>, serde_json::Error> {
    let sampling = &draw.sampling;
    serde_json::to_vec(&Body {
        model: &draw.model,
        prompt: match &draw.prompt {
            Prompt::Text(text) => Sent::Text(text),
            Prompt::Ids(ids) => Sent::Ids(ids),
        },
        max_tokens: sampling.max_tokens,
        temperature: sampling.temperature,
        top_p: sampling.top_p,
        // −1 keeps all tokens, for every version of vLLM.
        top_k: match sampling.top_k {
            0 => -1,
            k => i64::from(k),
        },
        min_p: 0.0,
        repetition_penalty: 1.0,
        // Servers read seeds as signed numbers.
        seed: endpoint
            .sends(Field::Seed)
            .then_some(draw.seed & u64::from(u32::MAX)),
        stop: &draw.stop,
        logprobs: 0,
        return_token_ids: true,
        stream: endpoint.stream,
        stream_options: (endpoint.stream && endpoint.sends(Field::StreamOptions)).then_some(
            StreamOptions {
                include_usage: true,
            },
        ),
    })
}

impl Client {
    /// Asks for all samples, as many at a time as the endpoint permits, and hands over each as it ends, until `on` breaks.
    /// A request that is under way then, or when the future is dropped, counts with all that it reserved.
    pub async fn draw_all<F>(&self, draws: Vec<Draw>, mut on: F)
    where
        F: FnMut(Draw, Result<Drawn, Error>) -> ControlFlow<()>,
    {
        let mut waiting = draws.into_iter();
        let mut ending = FuturesUnordered::new();
        loop {
            while ending.len() < self.endpoint.concurrency
                && let Some(draw) = waiting.next()
            {
                ending.push(self.draw_with(draw));
            }
            let Some((draw, drawn)) = ending.next().await else {
                return;
            };
            if on(draw, drawn).is_break() {
                return;
            }
        }
    }

    async fn draw_with(&self, draw: Draw) -> (Draw, Result<Drawn, Error>) {
        let drawn = self.draw(&draw).await;
        (draw, drawn)
    }

    /// Asks for one sample.
    ///
    /// # Errors
    /// As [`Client::ask`], and [`Error::Untrainable`] if the answer lacks tokens or log-probabilities, if their numbers
    /// disagree, or if another model wrote it. Such an answer costs what it costs.
    pub async fn draw(&self, draw: &Draw) -> Result<Drawn, Error> {
        let body = body(&self.endpoint, draw).map_err(Error::Body)?;
        let input = match &draw.prompt {
            Prompt::Text(text) => (text.len() as u64).saturating_add(TEMPLATE_TOKENS),
            Prompt::Ids(ids) => ids.len() as u64,
        };
        let wanted = Wanted {
            problem: &draw.problem,
            number: draw.number,
            route: Route::Completions,
            body: Bytes::from(body),
            most: self.most(input, draw.sampling.max_tokens),
        };
        let (answered, amount) = self.send(&wanted).await?;
        trainable(draw, answered, amount).map_err(|why| Error::Untrainable(self.shown(&why)))
    }
}

/// The sample in an answer, or why the answer cannot be trained on.
fn trainable(draw: &Draw, answered: Answered, amount: Amount) -> Result<Drawn, String> {
    let tokens = answered.tokens;
    if let Some(served) = answered.served.filter(|served| *served != draw.model) {
        return Err(format!(
            "the server says that the model {served} wrote the answer, and {} was asked for",
            draw.model
        ));
    }
    if tokens.several {
        return Err("the server sent several answers to a request for one".to_owned());
    }
    let (Some(ids), Some(logprobs)) = (tokens.ids, tokens.logprobs) else {
        return Err(format!(
            "the answer lacks token ids or log-probabilities: {ADVICE}"
        ));
    };
    if ids.len() != logprobs.len() {
        return Err(format!(
            "the answer has {} token ids and {} log-probabilities",
            ids.len(),
            logprobs.len()
        ));
    }
    let written = ids.len() as u64;
    if let Some(usage) = answered.usage
        && usage.completion_tokens != written
    {
        return Err(format!(
            "the answer has {written} token ids, and the server counts {} tokens",
            usage.completion_tokens
        ));
    }
    if ids.is_empty() || written > u64::from(draw.sampling.max_tokens) {
        return Err(format!(
            "the answer has {written} tokens, and 1 to {} were asked for",
            draw.sampling.max_tokens
        ));
    }
    if let Some(odd) = logprobs
        .iter()
        .find(|logprob| !logprob.is_finite() || **logprob > ROUNDING)
    {
        return Err(format!("{odd} is no log-probability"));
    }
    if let (Prompt::Ids(asked), Some(prompt)) = (&draw.prompt, &tokens.prompt)
        && asked != prompt
    {
        return Err(
            "the server answered another prompt than the one that was asked: the token ids differ"
                .to_owned(),
        );
    }
    Ok(Drawn {
        finished: answered
            .finished
            .unwrap_or(written < u64::from(draw.sampling.max_tokens)),
        prompt: tokens.prompt,
        tokens: ids,
        logprobs,
        amount,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::{Tokens, Usage};

    fn draw() -> Draw {
        Draw {
            problem: "t".into(),
            number: 1,
            model: "run-v3".into(),
            prompt: Prompt::Ids(vec![7, 8]),
            sampling: Sampling {
                temperature: 1.0,
                top_p: 1.0,
                top_k: 0,
                max_tokens: 3,
            },
            stop: Vec::new(),
            seed: (5 << 32) + 9,
        }
    }

    fn answered() -> Answered {
        Answered {
            text: "ab".into(),
            finished: Some(true),
            usage: Some(Usage {
                prompt_tokens: 2,
                completion_tokens: 2,
            }),
            served: Some("run-v3".into()),
            tokens: Tokens {
                prompt: Some(vec![7, 8]),
                ids: Some(vec![1, 2]),
                logprobs: Some(vec![-0.5, -0.25]),
                several: false,
            },
        }
    }

    #[test]
    fn a_request_asks_for_tokens_and_leaves_no_cut_to_the_server() {
        let mut endpoint = Endpoint::new("http://127.0.0.1:1/v1", "m");
        let of = |endpoint: &Endpoint, draw: &Draw| -> Value {
            serde_json::from_slice(&body(endpoint, draw).unwrap()).unwrap()
        };
        let whole = json!({
            "model": "run-v3", "prompt": [7, 8], "max_tokens": 3, "temperature": 1.0, "top_p": 1.0, "top_k": -1,
            "min_p": 0.0, "repetition_penalty": 1.0, "seed": 9, "logprobs": 0, "return_token_ids": true,
            "stream": true, "stream_options": { "include_usage": true },
        });
        assert_eq!(of(&endpoint, &draw()), whole);
        endpoint.stream = false;
        endpoint.omit = vec![Field::Seed];
        let text = Draw {
            prompt: Prompt::Text("int".into()),
            stop: vec!["}".into()],
            ..draw()
        };
        let few = of(&endpoint, &text);
        assert_eq!(
            (&few["prompt"], &few["stop"]),
            (&json!("int"), &json!(["}"]))
        );
        assert_eq!(few.get("seed").or(few.get("stream_options")), None);
    }

    #[test]
    fn an_answer_is_trained_on_only_if_it_is_complete_and_agrees_with_itself() {
        let drawn = trainable(&draw(), answered(), Amount::NOTHING).unwrap();
        assert_eq!((&drawn.tokens[..], drawn.finished), (&[1, 2][..], true));
        let untold = Answered {
            tokens: Tokens {
                prompt: None,
                ..answered().tokens
            },
            served: None,
            usage: None,
            finished: None,
            ..answered()
        };
        assert!(
            trainable(&draw(), untold, Amount::NOTHING)
                .unwrap()
                .finished
        );
        type Break = fn(&mut Answered);
        let cases: [(Break, &str); 10] = [
            (|a| a.tokens.ids = None, "return_token_ids"),
            (|a| a.tokens.logprobs = None, "`logprobs`"),
            (|a| a.tokens.logprobs = Some(vec![-0.5]), "1 log-prob"),
            (|a| a.tokens.ids = Some(vec![1, 2, 3]), "3 token ids"),
            (
                |a| a.tokens.logprobs = Some(vec![-0.5, f32::NAN]),
                "no log-probability",
            ),
            (
                |a| a.tokens.logprobs = Some(vec![-0.5, 0.5]),
                "no log-probability",
            ),
            (|a| a.tokens.prompt = Some(vec![7]), "another prompt"),
            (|a| a.tokens.several = true, "several answers"),
            (|a| a.served = Some("m".into()), "the model m wrote"),
            (
                |a| {
                    a.usage = None;
                    a.tokens.ids = Some(Vec::new());
                    a.tokens.logprobs = Some(Vec::new());
                },
                "1 to 3 were asked for",
            ),
        ];
        for (spoil, part) in cases {
            let mut answer = answered();
            spoil(&mut answer);
            let why = trainable(&draw(), answer, Amount::NOTHING).unwrap_err();
            assert!(why.contains(part), "{part}: {why}");
        }
        let counted = Answered {
            usage: Some(Usage {
                prompt_tokens: 2,
                completion_tokens: 3,
            }),
            ..answered()
        };
        let why = trainable(&draw(), counted, Amount::NOTHING).unwrap_err();
        assert!(why.contains("counts 3 tokens"), "{why}");
    }
}
