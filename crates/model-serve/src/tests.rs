//! The service over real connections, with a small model of random weights, against the model's own sampler.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::net::{SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::thread::JoinHandle;

use flopsmith_policy::{
    Config, Device, Extras, Kind, Model, Request, Sample, Tokenizer, sample, train_bpe,
};
use flopsmith_protocol::Sampling;
use flopsmith_test_support::Log;
use flopsmith_test_support::client::{self, Reply, wait_until};
use serde_json::{Value, json};

use super::engine::{Piece, Pieces};
use super::*;

mod bounds;
mod loading;
mod tokens;

/// Everything that a test waits for comes long before this.
const LIMIT: Duration = Duration::from_secs(60);
const SECRET: &str = "0123456789abcdef";

const TEMPLATE: &str =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>";

fn trained() -> Tokenizer {
    let texts: Vec<String> = (0..40)
        .map(|i| format!("for (int i = {i}; i < n; i += {i}) C[i] = 0.5 * {i};\n"))
        .collect();
    train_bpe(&texts, 300, &["<|end|>"]).unwrap()
}

/// A tokenizer with a chat template. Only a tokenizer that is not `endless` has an end token that the model knows.
fn tokenizer(endless: bool, template: &str) -> Tokenizer {
    let folder = tempfile::tempdir().unwrap();
    trained().save(folder.path()).unwrap();
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    if endless {
        let path = folder.path().join("generation_config.json");
        std::fs::write(path, r#"{"eos_token_id": 999999}"#).unwrap();
    }
    Tokenizer::load(folder.path()).unwrap()
}

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| tokenizer(false, TEMPLATE));

fn model() -> Model {
    let mut config = Config::new(300, 32, 48, 2, 4, 2);
    config.initializer_range = 0.3;
    config.max_position_embeddings = 200_000;
    Model::random(config, 7, Device::Cpu, Kind::Float).unwrap()
}

/// How a server of a test differs from others.
struct Options {
    token: Option<&'static str>,
    /// Answers end at their limits only.
    endless: bool,
    template: &'static str,
    longest: usize,
    rows: usize,
    most_waiting: usize,
    most_body: usize,
    patience: Duration,
    grace: Duration,
    adapters: Vec<Named>,
    adapter_folder: Option<std::path::PathBuf>,
    /// Takes the log of the thread that answers.
    log: Option<Log>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            endless: false,
            template: TEMPLATE,
            longest: 400,
            rows: 64,
            most_waiting: 1000,
            most_body: 1 << 20,
            patience: LIMIT,
            grace: LIMIT,
            adapters: Vec::new(),
            adapter_folder: None,
            log: None,
        }
    }
}

struct Server {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    stopping: CancellationToken,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Server {
    fn start(options: Options) -> Self {
        let ended = CancellationToken::new();
        let metrics = Arc::new(Metrics::default());
        let (endless, template) = (options.endless, options.template);
        let models = Models {
            load: Box::new(move || Ok((model(), tokenizer(endless, template)))),
            name: "tiny".into(),
            adapters: options.adapters,
            longest: Some(options.longest),
            rows: options.rows,
            cache_bytes: None,
        };
        let counters = Arc::clone(&metrics);
        let started = Engine::start(models, options.most_waiting, counters, &ended);
        let (engine, served) = started.unwrap();
        let stopping = CancellationToken::new();
        let app = App {
            engine: Arc::new(engine),
            served: Arc::new(served),
            since: 1,
            metrics: Arc::clone(&metrics),
            token: options
                .token
                .map(|token| Arc::new(Token::new(token).unwrap())),
            adapter_folder: options
                .adapter_folder
                .map(|folder| crate::adapters::folder(&folder).unwrap()),
            bodies: Bodies::within(options.most_body, options.patience, 1 << 28),
            stopping: stopping.clone(),
        };
        let limits = Limits {
            header: options.patience,
            grace: options.grace,
            ..Limits::default()
        };
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            // A log is that of one thread.
            let mut builder = match &options.log {
                Some(_) => tokio::runtime::Builder::new_current_thread(),
                None => tokio::runtime::Builder::new_multi_thread(),
            };
            let _log = options.log.map(tracing::subscriber::set_default);
            let runtime = builder.worker_threads(2).enable_all().build().unwrap();
            let answered = runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                answer(listener, app, limits, ended).await
            });
            runtime.shutdown_timeout(Duration::from_secs(5));
            answered
        });
        Self {
            address,
            metrics,
            stopping,
            thread: Some(thread),
        }
    }

    fn send(&self, head: &str, headers: &[&str], body: &str) -> TcpStream {
        client::send(self.address, head, headers, body)
    }

    fn ask(&self, head: &str, headers: &[&str], body: &str) -> Reply {
        Reply::read(self.send(head, headers, body))
    }

    fn get(&self, path: &str) -> Reply {
        self.ask(&format!("GET {path}"), &[], "")
    }

    fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask(&format!("POST {path}"), &[], &body.to_string())
    }

    /// The answer to a request that succeeds.
    fn answer(&self, path: &str, body: &Value) -> Value {
        let reply = self.post(path, body);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    /// Stops as a signal would.
    fn stop(&mut self) {
        self.stopping.cancel();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

trait Parts {
    /// The data of the events before `[DONE]`.
    fn events(&self) -> Vec<Value>;
    /// The error of a refusal with this status.
    fn refused(&self, status: u16) -> Value;
}

impl Parts for Reply {
    fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{self:?}");
        assert!(
            self.head.contains("content-type: text/event-stream"),
            "{self:?}"
        );
        let mut events: Vec<&str> = self
            .body
            .split_terminator("\n\n")
            .map(|event| event.strip_prefix("data: ").unwrap())
            .collect();
        assert_eq!(events.pop(), Some("[DONE]"));
        let events = events.into_iter().map(serde_json::from_str);
        events.collect::<Result<_, _>>().unwrap()
    }

    fn refused(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        let error = self.json()["error"].clone();
        assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()));
        assert!(error["type"].is_string());
        let fields = error.as_object().unwrap();
        assert!(fields.contains_key("param") && fields.contains_key("code"));
        error
    }
}

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";

fn greedy(max_tokens: u32) -> Sampling {
    Sampling {
        temperature: 0.0,
        top_p: 1.0,
        top_k: 0,
        max_tokens,
    }
}

fn request(prompt: &[u32], seed: u64, sampling: Sampling) -> Request {
    Request {
        prompt: prompt.to_vec(),
        seed,
        sampling,
        detour: None,
        extras: Extras::default(),
    }
}

/// The sampler's own answer.
fn sampled(model: &Model, request: &Request) -> Sample {
    let eos = TOKENIZER.eos();
    let mut answers = sample(model, std::slice::from_ref(request), eos, |_| {}).unwrap();
    answers.remove(0)
}

#[test]
fn an_answer_is_that_of_the_sampler() {
    let server = Server::start(Options::default());
    let text = "for (int i = 3; i < n;";
    let ids = TOKENIZER.encode_prompt(text).unwrap();
    let own = sampled(&model(), &request(&ids, 0, greedy(40)));
    let said = TOKENIZER.decode(&own.tokens).unwrap();
    for prompt in [json!(text), json!(ids), json!([ids]), json!([text])] {
        let body = json!({
            "model": "tiny", "prompt": prompt, "temperature": 0, "max_tokens": 40, "return_token_ids": true,
        });
        let answer = server.answer(COMPLETIONS, &body);
        assert_eq!(answer["object"], "text_completion");
        assert_eq!(answer["model"], "tiny");
        let choice = &answer["choices"][0];
        assert_eq!(choice["text"], json!(said));
        assert_eq!(choice["token_ids"], json!(own.tokens));
        assert_eq!(choice["prompt_token_ids"], json!(ids));
        let reason = if own.finished { "stop" } else { "length" };
        assert_eq!(choice["finish_reason"], reason);
        assert_eq!(choice["logprobs"], Value::Null);
        let (prompt, written) = (ids.len(), own.tokens.len());
        let usage = json!({
            "prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written,
        });
        assert_eq!(answer["usage"], usage);
    }
}

#[test]
fn seeds_and_cuts_are_those_of_the_sampler() {
    let server = Server::start(Options::default());
    let model = model();
    let ids = vec![40, 41, 42];
    let body = json!({
        "model": "tiny", "prompt": [ids, [50, 51]], "temperature": 0.9, "top_p": 0.9, "top_k": 50, "seed": 5, "n": 3,
        "max_tokens": 30, "return_token_ids": true,
    });
    let answer = server.answer(COMPLETIONS, &body);
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 6);
    for (n, choice) in choices.iter().enumerate() {
        let sampling = Sampling {
            temperature: 0.9,
            top_p: 0.9,
            top_k: 50,
            max_tokens: 30,
        };
        let prompt: &[u32] = if n < 3 { &ids } else { &[50, 51] };
        let own = sampled(&model, &request(prompt, 5 + n as u64 % 3, sampling));
        assert_eq!(choice["index"], json!(n));
        assert_eq!(choice["token_ids"], json!(own.tokens), "choice {n}");
    }
    assert_ne!(choices[0]["token_ids"], choices[1]["token_ids"]);
    assert_eq!(answer["usage"]["prompt_tokens"], 5);
    // Without a seed two answers differ.
    let open =
        json!({ "model": "tiny", "prompt": ids, "max_tokens": 30, "return_token_ids": true });
    let [one, other] = [(); 2].map(|()| server.answer(COMPLETIONS, &open));
    assert_ne!(
        one["choices"][0]["token_ids"],
        other["choices"][0]["token_ids"]
    );
    assert_ne!(one["id"], other["id"]);
}

#[test]
fn a_chat_goes_through_the_template() {
    let server = Server::start(Options::default());
    let prompt = "<system>Be brief.\n<user>one two\n<assistant>";
    let ids = TOKENIZER.encode(prompt).unwrap();
    let own = sampled(&model(), &request(&ids, 0, greedy(20)));
    let parts = json!([{ "type": "text", "text": "one " }, { "type": "text", "text": "two" }]);
    for (role, limit) in [
        ("system", "max_tokens"),
        ("developer", "max_completion_tokens"),
    ] {
        let body = json!({
            "model": "tiny", "temperature": 0, limit: 20, "return_token_ids": true,
            "messages": [{ "role": role, "content": "Be brief." }, { "role": "user", "content": parts }],
        });
        let answer = server.answer(CHAT, &body);
        assert_eq!(answer["object"], "chat.completion");
        assert_eq!(answer["prompt_token_ids"], json!(ids));
        let choice = &answer["choices"][0];
        let said = TOKENIZER.decode(&own.tokens).unwrap();
        assert_eq!(choice["message"]["role"], "assistant");
        assert_eq!(choice["message"]["content"], json!(said));
        assert_eq!(choice["token_ids"], json!(own.tokens));
        assert_eq!(answer["usage"]["prompt_tokens"], json!(ids.len()));
    }
}

#[test]
fn the_pieces_of_a_stream_join_to_the_whole() {
    let server = Server::start(Options::default());
    let draws = json!({
        "model": "tiny", "temperature": 0.8, "seed": 3, "n": 2, "max_tokens": 40, "return_token_ids": true,
    });
    let mut completion = draws.clone();
    completion["prompt"] = json!("for (int");
    completion["echo"] = json!(true);
    let mut chat = draws;
    chat["messages"] = json!([{ "role": "user", "content": "for (int" }]);
    for (path, mut body) in [(COMPLETIONS, completion), (CHAT, chat)] {
        let whole = server.answer(path, &body);
        body["stream"] = json!(true);
        body["stream_options"] = json!({ "include_usage": true });
        let mut events = server.post(path, &body).events();
        let last = events.pop().unwrap();
        assert_eq!(last["choices"], json!([]));
        assert_eq!(last["usage"], whole["usage"]);
        for index in 0..2 {
            let (mut text, mut ids, mut reason) = (String::new(), Vec::new(), Value::Null);
            let mut prompts = Vec::new();
            for event in &events {
                assert_eq!(event["id"], last["id"]);
                assert_eq!(event["usage"], Value::Null);
                let choice = &event["choices"][0];
                if choice["index"] != json!(index) {
                    continue;
                }
                assert_eq!(reason, Value::Null, "nothing follows the reason");
                let piece = choice["text"].as_str();
                text += piece.or(choice["delta"]["content"].as_str()).unwrap();
                ids.extend_from_slice(choice["token_ids"].as_array().unwrap());
                reason = choice["finish_reason"].clone();
                let prompt = [&choice["prompt_token_ids"], &event["prompt_token_ids"]];
                prompts.extend(prompt.into_iter().filter(|ids| !ids.is_null()).cloned());
            }
            let of = &whole["choices"][index];
            let said = [&of["text"], &of["message"]["content"]];
            assert!(said.contains(&&json!(text)), "{text:?}: {of}");
            assert_eq!(json!(ids), of["token_ids"]);
            assert_eq!(reason, of["finish_reason"]);
            let prompt = [&of["prompt_token_ids"], &whole["prompt_token_ids"]];
            let prompt = prompt.into_iter().find(|ids| !ids.is_null());
            assert_eq!(prompts, [prompt.unwrap().clone()]);
        }
    }
}

#[test]
fn who_else_is_answered_changes_nothing() {
    let server = Server::start(Options {
        rows: 3,
        ..Options::default()
    });
    let model = model();
    let asked = |n: u32| {
        let prompt: Vec<u32> = (0..1 + 9 * (n % 4))
            .map(|i| 30 + (7 * n + i) % 200)
            .collect();
        (prompt, 5 + 11 * (n % 5))
    };
    std::thread::scope(|scope| {
        let waits: Vec<_> = (0..12)
            .map(|n| {
                let server = &server;
                scope.spawn(move || {
                    let (prompt, most) = asked(n);
                    let body = json!({
                        "model": "tiny", "prompt": prompt, "max_tokens": most, "temperature": 0, "return_token_ids": true,
                    });
                    server.answer(COMPLETIONS, &body)["choices"][0]["token_ids"].clone()
                })
            })
            .collect();
        for (n, wait) in (0..).zip(waits) {
            let (prompt, most) = asked(n);
            let own = sampled(&model, &request(&prompt, 0, greedy(most)));
            assert_eq!(wait.join().unwrap(), json!(own.tokens), "request {n}");
        }
    });
}

#[test]
fn an_answer_ends_before_a_stop_string() {
    let server = Server::start(Options::default());
    let ids = vec![40, 41, 42];
    let model = model();
    let sampling = Sampling {
        temperature: 1.0,
        ..greedy(60)
    };
    // An answer with a passage from its middle that consists of whole characters.
    let found = (0..100).find_map(|seed| {
        let own = sampled(&model, &request(&ids, seed, sampling.clone()));
        let said = TOKENIZER.decode(&own.tokens).unwrap();
        let chars: Vec<char> = said.chars().collect();
        let mut passages = chars.windows(3).skip(10);
        let passage = passages.find(|window| !window.contains(&'\u{fffd}'))?;
        let stop: String = passage.iter().collect();
        Some((seed, own, said, stop))
    });
    let (seed, own, said, stop) = found.unwrap();
    let mut body = json!({
        "model": "tiny", "prompt": ids, "max_tokens": 60, "seed": seed, "stop": ["\u{1}\u{2}", stop],
    });
    let whole = server.answer(COMPLETIONS, &body);
    let choice = &whole["choices"][0];
    assert_eq!(choice["text"], json!(said[..said.find(&stop).unwrap()]));
    assert_eq!(choice["finish_reason"], "stop");
    let written = whole["usage"]["completion_tokens"].as_u64().unwrap();
    assert!(written <= own.tokens.len() as u64);
    body["stream"] = json!(true);
    let events = server.post(COMPLETIONS, &body).events();
    let pieces: String = events
        .iter()
        .map(|event| event["choices"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(json!(pieces), choice["text"]);
}

/// The model with an adapter that changes it by this much. A fresh adapter changes nothing, so all its numbers are set.
fn adapted_by(much: f64) -> Model {
    let mut adapted = model();
    adapted
        .adapt(flopsmith_policy::LoraConfig::default(), 3)
        .unwrap();
    let numbers = adapted.trained().flat().shallow_clone();
    let drawn = numbers.f_sin().and_then(|t| t.f_mul_scalar(0.3)).unwrap();
    numbers
        .shallow_clone()
        .f_copy_(&drawn.f_add_scalar(much).unwrap())
        .unwrap();
    adapted
}

#[test]
fn a_request_chooses_an_adapter_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let adapted = adapted_by(0.05);
    let adapter = adapted.adapter().unwrap();
    adapter.save(folder.path(), "tiny").unwrap();
    let server = Server::start(Options {
        adapters: vec![Named {
            name: "tuned".into(),
            folder: folder.path().to_owned(),
        }],
        ..Options::default()
    });
    let ids = vec![40, 41, 42];
    let own = [&model(), &adapted].map(|model| sampled(model, &request(&ids, 0, greedy(30))));
    assert_ne!(own[0].tokens, own[1].tokens);
    for (name, own) in ["tiny", "tuned"].into_iter().zip(&own) {
        let body = json!({
            "model": name, "prompt": ids, "max_tokens": 30, "temperature": 0, "return_token_ids": true,
        });
        let answer = server.answer(COMPLETIONS, &body);
        assert_eq!(answer["model"], name);
        assert_eq!(
            answer["choices"][0]["token_ids"],
            json!(own.tokens),
            "{name}"
        );
    }
    let listed = server.get("/v1/models").json();
    assert_eq!(listed["data"][0]["id"], "tiny");
    assert_eq!(listed["data"][1]["id"], "tuned");
    assert_eq!(listed["data"][1]["parent"], "tiny");
    assert_eq!(server.get("/v1/models/tuned").json()["id"], "tuned");
    server.get("/v1/models/other").refused(404);
}

/// Not a number is no probability.
#[test]
fn a_model_that_fails_ends_its_answers_alone() {
    let folder = tempfile::tempdir().unwrap();
    let broken = adapted_by(f64::NAN);
    let adapter = broken.adapter().unwrap();
    adapter.save(folder.path(), "tiny").unwrap();
    let server = Server::start(Options {
        adapters: vec![Named {
            name: "broken".into(),
            folder: folder.path().to_owned(),
        }],
        ..Options::default()
    });
    let body = |name: &str, stream: bool| {
        json!({
            "model": name, "prompt": [40, 41, 42], "max_tokens": 5, "temperature": 1, "stream": stream,
        })
    };
    for _ in 0..2 {
        let refused = server
            .post(COMPLETIONS, &body("broken", false))
            .refused(500);
        assert_eq!(refused["type"], "server_error");
        let events = server.post(COMPLETIONS, &body("broken", true)).events();
        let last = events.last().unwrap();
        assert_eq!(last["error"]["type"], "server_error", "{events:?}");
        let answer = server.answer(COMPLETIONS, &body("tiny", false));
        assert!(
            answer["choices"][0]["finish_reason"].is_string(),
            "{answer}"
        );
    }
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn only_a_stream_has_a_piece_for_each_token() {
    let models = Models {
        load: Box::new(|| Ok((model(), tokenizer(true, TEMPLATE)))),
        name: "tiny".into(),
        adapters: Vec::new(),
        longest: Some(400),
        rows: 64,
        cache_bytes: None,
    };
    let ended = CancellationToken::new();
    let (engine, _) = Engine::start(models, 1000, Arc::new(Metrics::default()), &ended).unwrap();
    let own = sampled(&model(), &request(&[40, 41], 0, greedy(20)));
    for (sent, of_a_piece) in [(Pieces::Token, 1), (Pieces::Whole, 20)] {
        let asked = vec![(0, request(&[40, 41], 0, greedy(20)))];
        let mut pieces = engine.write(0, sent, asked).unwrap();
        let mut written = Vec::new();
        while let Some(piece) = pieces.blocking_recv() {
            let tokens = match piece {
                Piece::Tokens { choice: 0, tokens } => tokens,
                Piece::Tokens { .. } | Piece::Failed(_) => Vec::new(),
            };
            assert_eq!(tokens.len(), of_a_piece);
            written.extend(tokens);
        }
        let ids: Vec<u32> = written.iter().map(|token| token.id).collect();
        assert_eq!(ids[..own.tokens.len()], own.tokens);
        let ends = written.iter().filter(|token| token.end.is_some());
        assert_eq!((written.len(), ends.count()), (20, 1));
    }
}
