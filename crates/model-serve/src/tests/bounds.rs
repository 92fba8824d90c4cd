//! Refusals, limits, clients that go away, and the end of the service.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use super::*;

/// A request that would take many minutes.
fn endless() -> Value {
    json!({ "model": "tiny", "prompt": [40, 41], "max_tokens": 190_000, "stream": true })
}

fn endless_options() -> Options {
    Options {
        endless: true,
        longest: 200_000,
        rows: 1,
        ..Options::default()
    }
}

/// Waits until the first token of a stream came.
fn begun(server: &Server) -> TcpStream {
    let mut stream = server.send(&format!("POST {COMPLETIONS}"), &[], &endless().to_string());
    let mut text = String::new();
    while !text.contains("data: ") {
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    stream
}

#[test]
fn a_mistake_is_refused_in_openais_form() {
    let server = Server::start(Options::default());
    let completion = |field: &str, value: Value| {
        let mut body = json!({ "model": "tiny", "prompt": "a", "max_tokens": 3 });
        body[field] = value;
        body
    };
    let user = json!({ "role": "user", "content": "a" });
    let chat = |field: &str, value: Value| {
        let mut body = json!({ "model": "tiny", "messages": [user], "max_tokens": 3 });
        body[field] = value;
        body
    };
    let cases = [
        (COMPLETIONS, completion("prompt", json!(null)), "prompt"),
        (COMPLETIONS, completion("prompt", json!("")), "prompt"),
        (COMPLETIONS, completion("prompt", json!([])), "prompt"),
        (COMPLETIONS, completion("prompt", json!([300])), "prompt"),
        (COMPLETIONS, completion("prompt", json!([-1])), "prompt"),
        (COMPLETIONS, completion("prompt", json!([1.5])), "prompt"),
        (COMPLETIONS, completion("prompt", json!([["a"]])), "prompt"),
        (COMPLETIONS, completion("prompt", json!({})), "prompt"),
        (COMPLETIONS, completion("max_tokens", json!(400)), "prompt"),
        (
            COMPLETIONS,
            completion("max_tokens", json!(-1)),
            "max_tokens",
        ),
        (
            COMPLETIONS,
            completion("max_tokens", json!("3")),
            "max_tokens",
        ),
        (
            COMPLETIONS,
            completion("max_completion_tokens", json!(4)),
            "max_completion_tokens",
        ),
        (
            COMPLETIONS,
            completion("temperature", json!(-0.1)),
            "temperature",
        ),
        (
            COMPLETIONS,
            completion("temperature", json!("hot")),
            "temperature",
        ),
        (COMPLETIONS, completion("top_p", json!(0)), "top_p"),
        (COMPLETIONS, completion("top_p", json!(1.1)), "top_p"),
        (COMPLETIONS, completion("top_k", json!(-2)), "top_k"),
        (COMPLETIONS, completion("min_p", json!(2)), "min_p"),
        (COMPLETIONS, completion("seed", json!(0.5)), "seed"),
        (COMPLETIONS, completion("n", json!(0)), "n"),
        (COMPLETIONS, completion("n", json!(129)), "n"),
        (COMPLETIONS, completion("best_of", json!(2)), "best_of"),
        (COMPLETIONS, completion("stop", json!("")), "stop"),
        (COMPLETIONS, completion("stop", json!([1])), "stop"),
        (
            COMPLETIONS,
            completion("stop", json!(vec!["a"; 17])),
            "stop",
        ),
        (COMPLETIONS, completion("logprobs", json!(true)), "logprobs"),
        (COMPLETIONS, completion("logprobs", json!(21)), "logprobs"),
        (COMPLETIONS, completion("stream", json!("yes")), "stream"),
        (
            COMPLETIONS,
            completion("stream_options", json!({})),
            "stream_options",
        ),
        (COMPLETIONS, completion("suffix", json!("b")), "suffix"),
        (
            COMPLETIONS,
            completion("presence_penalty", json!(0.5)),
            "presence_penalty",
        ),
        (
            COMPLETIONS,
            completion("logit_bias", json!({ "5": 1 })),
            "logit_bias",
        ),
        (
            COMPLETIONS,
            completion("messages", json!([user])),
            "messages",
        ),
        (
            COMPLETIONS,
            completion("temprature", json!(1)),
            "temprature",
        ),
        (COMPLETIONS, completion("model", json!(null)), "model"),
        (CHAT, chat("messages", json!([])), "messages"),
        (CHAT, chat("messages", json!("a")), "messages"),
        (CHAT, chat("messages", json!(["a"])), "messages[0]"),
        (
            CHAT,
            chat(
                "messages",
                json!([user, { "role": "tool", "content": "a" }]),
            ),
            "messages[1].role",
        ),
        (
            CHAT,
            chat("messages", json!([{ "role": "user" }])),
            "messages[0].content",
        ),
        (
            CHAT,
            chat(
                "messages",
                json!([{ "role": "user", "content": [{ "type": "image_url" }] }]),
            ),
            "messages[0].content",
        ),
        (CHAT, chat("max_tokens", json!(0)), "max_tokens"),
        (CHAT, chat("top_logprobs", json!(2)), "top_logprobs"),
        (CHAT, chat("logprobs", json!(1)), "logprobs"),
        (CHAT, chat("echo", json!(true)), "echo"),
        (
            CHAT,
            chat("tools", json!([{ "type": "function" }])),
            "tools",
        ),
        (
            CHAT,
            chat("response_format", json!({ "type": "json_object" })),
            "response_format",
        ),
    ];
    for (path, body, param) in cases {
        let error = server.post(path, &body).refused(400);
        assert_eq!(error["type"], "invalid_request_error", "{body}");
        assert_eq!(error["param"], param, "{body}: {error}");
    }
    let too_long = server.post(COMPLETIONS, &completion("max_tokens", json!(400)));
    assert_eq!(too_long.refused(400)["code"], "context_length_exceeded");
    let unknown = server.post(COMPLETIONS, &completion("model", json!("other")));
    assert_eq!(unknown.refused(404)["code"], "model_not_found");
    for body in ["", "[]", "{", "\u{0}"] {
        server
            .ask(&format!("POST {COMPLETIONS}"), &[], body)
            .refused(400);
    }
    server.get(COMPLETIONS).refused(405);
    server.get("/v1/other").refused(404);
    server.get("/v1/models/%FF").refused(404);
}

#[test]
fn neutral_values_of_unknown_fields_are_taken() {
    let server = Server::start(Options::default());
    let body = json!({
        "model": "tiny", "prompt": "a", "max_tokens": 2, "presence_penalty": 0.0, "frequency_penalty": 0, "logit_bias": {},
        "best_of": 1, "suffix": null, "user": "me", "repetition_penalty": 1.0, "ignore_eos": false, "top_k": -1, "stop": null,
    });
    server.answer(COMPLETIONS, &body);
    let body = json!({
        "model": "tiny", "messages": [{ "role": "user", "content": "a", "name": "me" }], "tools": [], "tool_choice": "none",
        "response_format": { "type": "text" }, "store": false, "metadata": {}, "logprobs": false, "top_logprobs": 0,
        "max_completion_tokens": 2,
    });
    server.answer(CHAT, &body);
}

#[test]
fn a_token_is_demanded_from_all_but_probes() {
    let server = Server::start(Options {
        token: Some(SECRET),
        ..Options::default()
    });
    let body = json!({ "model": "tiny", "prompt": "a", "max_tokens": 2 }).to_string();
    let head = format!("POST {COMPLETIONS}");
    for headers in [&[][..], &["Authorization: Bearer 0123456789abcdee"]] {
        let reply = server.ask(&head, headers, &body);
        assert_eq!(reply.refused(401)["code"], "invalid_api_key");
        assert!(reply.head.contains("www-authenticate: bearer"), "{reply:?}");
    }
    let right = format!("Authorization: Bearer {SECRET}");
    assert_eq!(server.ask(&head, &[&right], &body).status, 200);
    for path in ["/v1/models", "/metrics", "/v1/other"] {
        server.get(path).refused(401);
    }
    assert_eq!(server.get("/health").json()["status"], "ok");
}

#[test]
fn without_a_token_other_hosts_are_refused_and_beyond_loopback_there_has_to_be_one() {
    let server = Server::start(Options::default());
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream
        .write_all(b"GET /v1/models HTTP/1.0\r\nHost: example.org\r\n\r\n")
        .unwrap();
    Reply::read(stream).refused(403);
    let plan = Plan {
        listen: SocketAddr::from(([0, 0, 0, 0], 0)),
        token: None,
        most_body: 1024,
        most_waiting: 1,
        grace: LIMIT,
        adapter_folder: None,
        models: Models {
            load: Box::new(|| bail!("the model is not opened")),
            name: "tiny".into(),
            adapters: Vec::new(),
            longest: None,
            rows: 1,
            cache_bytes: None,
        },
    };
    let error = execute(plan).unwrap_err();
    assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
    assert!(error.to_string().contains(TOKEN), "{error:#}");
}

#[test]
fn long_and_slow_bodies_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(Options {
        most_body: 1024,
        patience: Duration::from_millis(300),
        adapter_folder: Some(folder.path().to_owned()),
        ..Options::default()
    });
    let head = format!("POST {COMPLETIONS}");
    server.ask(&head, &[], &"x".repeat(1025)).refused(413);
    let adapters = ["load", "unload"].map(|what| format!("/v1/{what}_lora_adapter"));
    for path in [
        COMPLETIONS,
        CHAT,
        adapters[0].as_str(),
        adapters[1].as_str(),
    ] {
        for reply in client::large_bodies(server.address, &format!("POST {path}"), 1000) {
            reply.refused(413);
        }
    }
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let begin = format!(
        "{head} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    stream.write_all(begin.as_bytes()).unwrap();
    Reply::read(stream).refused(408);
    let begin = format!(
        "{head} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    );
    let text = client::drip(server.address, &begin, b' ');
    assert!(text.contains(" 408 "), "{text}");
    let mut stream = TcpStream::connect(server.address).unwrap();
    let text =
        format!("{head} HTTP/1.0\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{{}}");
    stream.write_all(text.as_bytes()).unwrap();
    Reply::read(stream).refused(415);
}

#[test]
fn a_client_that_sends_no_whole_header_is_not_waited_for() {
    let server = Server::start(Options {
        patience: Duration::from_millis(300),
        ..Options::default()
    });
    // One client sends nothing, and one its header byte by byte.
    let mut idle = client::connect(server.address);
    let text = client::drip(server.address, "GET /health HTTP/1.1\r\nHost: ", b'x');
    assert!(!text.contains(" 200 "), "{text}");
    assert_eq!(idle.read(&mut [0; 16]).unwrap(), 0);
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn no_log_and_no_answer_has_a_token() {
    const OTHER: &str = "fedcba9876543210";
    let log = Log::default();
    let mut server = Server::start(Options {
        token: Some(SECRET),
        log: Some(log.clone()),
        ..Options::default()
    });
    let body = json!({ "model": "tiny", "prompt": "a", "max_tokens": 2 }).to_string();
    let completion = format!("POST {COMPLETIONS}");
    let mut answers = String::new();
    for (token, status) in [(SECRET, 200), (OTHER, 401)] {
        let bearer = format!("Authorization: Bearer {token}");
        for head in [completion.as_str(), "GET /v1/models", "GET /metrics"] {
            let reply = server.ask(head, &[&bearer], &body);
            assert_eq!(reply.status, status, "{head}: {reply:?}");
            answers += &reply.body;
        }
    }
    // Connections that fail are logged, whatever they sent.
    answers += &client::broken_requests(server.address, COMPLETIONS, SECRET);
    server.stop();
    let logged = log.text();
    assert!(logged.contains("a connection failed"), "{logged}");
    for secret in [SECRET, OTHER] {
        assert!(!logged.contains(secret), "{logged}");
        assert!(!answers.contains(secret), "{answers}");
    }
}

#[test]
fn a_client_that_goes_away_frees_its_place() {
    let server = Server::start(endless_options());
    let stream = begun(&server);
    wait_until(|| server.metrics.text().contains("flopsmith_model_running 1"));
    let mut short = endless();
    short["stream"] = json!(false);
    short["max_tokens"] = json!(3);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| server.answer(COMPLETIONS, &short));
        wait_until(|| server.metrics.text().contains("flopsmith_model_waiting 1"));
        // The batch has one place.
        assert!(!second.is_finished());
        drop(stream);
        let answer = second.join().unwrap();
        assert_eq!(answer["usage"]["completion_tokens"], 3);
    });
    // One that waits for a whole answer goes, too.
    let mut whole = endless();
    whole["stream"] = json!(false);
    let head = format!("POST {COMPLETIONS}");
    let stream = server.send(&head, &[], &whole.to_string());
    wait_until(|| server.metrics.count_open() == 1);
    drop(stream);
    wait_until(|| server.metrics.count_open() == 0);
    wait_until(|| server.metrics.text().contains("flopsmith_model_running 0"));
    let text = server.get("/metrics").body;
    assert!(text.contains("flopsmith_model_waiting 0"), "{text}");
    let written = text
        .lines()
        .find_map(|line| line.strip_prefix("flopsmith_model_written_tokens_total "));
    assert!(written.unwrap().parse::<u64>().unwrap() > 3, "{text}");
}

#[test]
fn no_more_answers_wait_than_may() {
    let server = Server::start(Options {
        most_waiting: 0,
        ..endless_options()
    });
    let stream = begun(&server);
    let reply = server.post(COMPLETIONS, &endless());
    assert_eq!(reply.refused(503)["code"], "overloaded");
    assert!(reply.head.contains("retry-after: 1"), "{reply:?}");
    drop(stream);
    wait_until(|| server.metrics.count_open() == 0);
}

/// A request that scores its prompt and writes nothing.
fn scoring() -> Value {
    json!({ "model": "tiny", "prompt": [40, 41, 42], "max_tokens": 0, "echo": true, "logprobs": 0 })
}

#[test]
fn prompts_are_scored_only_while_answers_may_wait_and_their_tokens_count() {
    let server = Server::start(Options {
        most_waiting: 0,
        ..endless_options()
    });
    server.answer(COMPLETIONS, &scoring());
    wait_until(|| server.metrics.count_open() == 0);
    let text = server.metrics.text();
    assert!(
        text.contains("flopsmith_model_prompt_tokens_total 3\n"),
        "{text}"
    );
    let stream = begun(&server);
    let reply = server.post(COMPLETIONS, &scoring());
    assert_eq!(reply.refused(503)["code"], "overloaded");
    drop(stream);
    wait_until(|| server.metrics.count_open() == 0);
}

#[test]
fn an_answer_ends_beside_clients_that_score_without_a_pause() {
    let server = Server::start(endless_options());
    let mut body = endless();
    body["stream"] = json!(false);
    body["max_tokens"] = json!(30);
    let ended = AtomicBool::new(false);
    let scored = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let score = || {
            while !ended.load(Ordering::Relaxed) {
                server.answer(COMPLETIONS, &scoring());
                scored.fetch_add(1, Ordering::Relaxed);
            }
        };
        scope.spawn(score);
        scope.spawn(score);
        wait_until(|| scored.load(Ordering::Relaxed) > 4);
        // The clients end before an assertion fails, as the scope waits for them.
        let reply = server.post(COMPLETIONS, &body);
        ended.store(true, Ordering::Relaxed);
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.json()["usage"]["completion_tokens"], 30);
    });
    wait_until(|| server.metrics.count_open() == 0);
}

#[test]
fn a_stop_lets_answers_end_and_takes_no_more() {
    let mut server = Server::start(Options {
        endless: true,
        longest: 200_000,
        ..Options::default()
    });
    let mut body = endless();
    body["max_tokens"] = json!(300);
    let head = format!("POST {COMPLETIONS}");
    let mut stream = server.send(&head, &[], &body.to_string());
    let mut first = [0; 16];
    stream.read_exact(&mut first).unwrap();
    server.stopping.cancel();
    let address = server.address;
    wait_until(|| TcpStream::connect(address).is_err());
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("data: [DONE]\n\n"), "{rest}");
    assert!(rest.contains("\"finish_reason\":\"length\""), "{rest}");
    server.stop();
}

#[test]
fn a_stop_ends_answers_that_take_too_long() {
    let mut server = Server::start(Options {
        grace: Duration::from_millis(100),
        ..endless_options()
    });
    let mut stream = begun(&server);
    let (told, ended) = channel();
    let reader = std::thread::spawn(move || {
        let mut rest = Vec::new();
        // The connection may be reset.
        let _ = stream.read_to_end(&mut rest);
        told.send(()).unwrap();
    });
    server.stop();
    ended.recv_timeout(LIMIT).unwrap();
    reader.join().unwrap();
}

/// The template writes the message that is tried at the start.
#[test]
fn a_template_that_fails_is_a_fault_of_the_service_and_one_that_refuses_is_none() {
    let server = Server::start(Options {
        template: "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}\
            {% elif m.content == 'b' %}{{ nonesuch() }}{% endif %}{{ m.content }}{% endfor %}",
        ..Options::default()
    });
    let chat = |role: &str, content: &str| {
        let said = json!([{ "role": role, "content": content }]);
        let body = json!({ "model": "tiny", "messages": said, "max_tokens": 3 });
        server.post(CHAT, &body)
    };
    assert_eq!(chat("user", "a").status, 200);
    let refused = chat("system", "a").refused(400);
    assert_eq!(refused["type"], "invalid_request_error");
    assert_eq!(refused["param"], "messages");
    let failed = chat("user", "b").refused(500);
    assert_eq!(failed["type"], "server_error");
    for (error, part) in [(&refused, "no system here"), (&failed, "nonesuch")] {
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
    }
}

#[test]
fn a_template_that_wants_other_messages_does_not_stop_the_start() {
    let server = Server::start(Options {
        template: "{% if messages[0].role != 'system' %}{{ raise_exception('system first') }}{% endif %}go",
        ..Options::default()
    });
    let chat = |role: &str| {
        let said = json!([{ "role": role, "content": "a" }]);
        let body = json!({ "model": "tiny", "messages": said, "max_tokens": 3 });
        server.post(CHAT, &body)
    };
    assert_eq!(chat("system").status, 200);
    assert_eq!(chat("user").refused(400)["param"], "messages");
}

#[test]
fn a_model_that_cannot_be_opened_is_reported() {
    let models = |name: &str, adapters, template: &'static str| Models {
        load: Box::new(move || Ok((model(), tokenizer(false, template)))),
        name: name.into(),
        adapters,
        longest: None,
        rows: 1,
        cache_bytes: None,
    };
    let missing = |name: &str| Named {
        name: name.into(),
        folder: "there/is/none".into(),
    };
    let cases = [
        (models("a b", Vec::new(), TEMPLATE), "cannot name"),
        (
            models("tiny", vec![missing("tiny")], TEMPLATE),
            "two models",
        ),
        (models("tiny", vec![missing("tuned")], TEMPLATE), "tuned"),
        (models("tiny", Vec::new(), "{% for m in"), "syntax error"),
        (models("tiny", Vec::new(), "{{ nonesuch() }}"), "nonesuch"),
    ];
    for (models, part) in cases {
        let metrics = Arc::new(Metrics::default());
        let started = Engine::start(models, 1, metrics, &CancellationToken::new());
        let error = started.err().unwrap();
        assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
        assert!(error.to_string().contains(part), "{error:#}");
    }
}
