//! Clients that mean harm: every route refuses them, and what it holds for others stays out of their reach.

use std::io::ErrorKind;

use super::*;

const OTHER: &str = "fedcba9876543210";

/// The routes of the document: method in capitals, and path.
fn routes() -> Vec<(String, String)> {
    let document = crate::openapi::document();
    let mut routes = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let path = path
            .replace("{name}", "dgemm")
            .replace("{id}", &"0".repeat(32));
        for method in operations.as_object().unwrap().keys() {
            routes.push((method.to_uppercase(), path.clone()));
        }
    }
    assert!(routes.len() > 20, "{routes:?}");
    routes
}

/// A server with two tokens.
fn shared(place: &Path) -> Server {
    let options = Options {
        token: Some("0123456789abcdef\nfedcba9876543210\n"),
        ..Options::default()
    };
    Server::start(place, options)
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

#[test]
fn no_route_answers_without_a_token() {
    let place = tempfile::tempdir().unwrap();
    let server = shared(place.path());
    let probes = ["/health", "/v1/health"];
    let wrong = bearer("0123456789abcdeg");
    // Two tokens are no third one.
    let both = bearer(&format!("{TOKEN}{OTHER}"));
    for (method, path) in routes() {
        let head = format!("{method} {path}");
        for headers in [&[][..], &[wrong.as_str()], &[both.as_str()]] {
            let reply = server.ask(&head, headers, "{}");
            if probes.contains(&path.as_str()) {
                assert_eq!(reply.status, 200, "{head}");
            } else {
                assert_eq!(reply.refused(401), "unauthorized", "{head}");
            }
            assert!(!reply.body.contains("0123456789abcde"), "{reply:?}");
        }
        for token in [TOKEN, OTHER] {
            let reply = server.ask(&head, &[&bearer(token)], "{}");
            assert_ne!(reply.status, 401, "{head}");
        }
    }
    // A body that nests deeper than its reader goes.
    let nested = "{\"a\":[".repeat(10_000);
    for (_, path) in routes().into_iter().filter(|(method, _)| method == "POST") {
        let head = format!("POST {path}");
        let reply = server.ask(&head, &[&bearer(TOKEN)], &nested);
        assert!(reply.status < 500, "{head}: {reply:?}");
    }
    // A token in the URL is none.
    let reply = server.get(&format!("/v1/problems?token={TOKEN}"));
    assert_eq!(reply.refused(401), "unauthorized");
    assert!(server.seen.lock().unwrap().is_empty());
}

#[test]
fn no_route_takes_a_body_of_a_gigabyte() {
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        most_body: 1000,
        ..Options::default()
    };
    let server = Server::start(place.path(), options);
    let posts = routes().into_iter().filter(|(method, _)| method == "POST");
    for (_, path) in posts {
        let head = format!("POST {path}");
        for reply in client::large_bodies(server.address, &head, 1000) {
            assert_eq!(reply.refused(413), "too-large", "{path}");
        }
    }
    let reply = server.post("/v1/evaluate", &programs(&["right 1"]));
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[test]
fn a_body_that_comes_byte_by_byte_is_not_waited_for() {
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        patience: Duration::from_millis(300),
        ..Options::default()
    };
    let server = Server::start(place.path(), options);
    let head =
        "POST /reset HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n";
    let text = client::drip(server.address, head, b' ');
    assert!(text.contains(" 408 "), "{text}");
}

#[test]
fn a_header_without_end_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let long = "x".repeat(100_000);
    for head in [
        format!("GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX-Long: {long}"),
        format!("GET /{long}"),
    ] {
        let mut stream = server.connect();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        // The service may answer and close before it has all.
        let _ = stream.write_all(head.as_bytes());
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        assert!(text.starts_with("HTTP/1.1 431 "), "{text}");
    }
    assert_eq!(server.get("/v1/health").status, 200);
}

#[test]
fn a_client_that_reads_nothing_is_disconnected() {
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        patience: Duration::from_millis(300),
        ..Options::default()
    };
    let server = Server::start(place.path(), options);
    let mut greedy = server.connect();
    greedy.set_write_timeout(Some(LIMIT)).unwrap();
    let requests = "GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    // Once all buffers are full, only the end of the connection ends a write.
    let error = (0..10_000).find_map(|_| greedy.write_all(requests.as_bytes()).err());
    let kind = error.unwrap().kind();
    let ended = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    assert!(ended.contains(&kind), "{kind:?}");
    assert_eq!(server.get("/v1/health").status, 200);
}

#[test]
fn a_path_that_is_no_text_is_refused_like_an_unknown_one() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    for (method, path) in crate::openapi::document()["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(path, _)| path.contains('{'))
        .flat_map(|(path, operations)| {
            let path = path.replace("{name}", "%FF").replace("{id}", "a%FF");
            let methods: Vec<String> = operations.as_object().unwrap().keys().cloned().collect();
            methods
                .into_iter()
                .map(move |method| (method.to_uppercase(), path.clone()))
        })
    {
        let reply = server.ask(&format!("{method} {path}"), &[], "{}");
        assert_eq!(reply.refused(404), "not-found", "{method} {path}");
    }
}

#[test]
fn a_key_of_another_token_is_another_key() {
    let place = tempfile::tempdir().unwrap();
    let server = shared(place.path());
    let post = |token: &str, source: &str| {
        let headers = [bearer(token), "Idempotency-Key: one".to_owned()];
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let body = programs(&[source]).to_string();
        server.ask("POST /v1/jobs", &headers, &body)
    };
    let mine = post(TOKEN, "right 1").json()["id"].clone();
    // A replayed request is the same job, and no other evaluation.
    assert_eq!(post(TOKEN, "right 1").json()["id"], mine);
    assert_eq!(post(TOKEN, "right 2").refused(409), "key-reused");
    // Neither the job nor its body shows through the key of somebody else.
    for source in ["right 2", "right 1"] {
        let theirs = post(OTHER, source);
        if source == "right 2" {
            assert_ne!(theirs.json()["id"], mine);
        } else {
            assert_eq!(theirs.refused(409), "key-reused");
            assert_ne!(theirs.json()["job"], mine);
        }
    }
}

#[test]
fn a_job_is_that_of_its_token_also_after_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let server = shared(place.path());
    let ask = |server: &Server, token: &str, head: &str| server.ask(head, &[&bearer(token)], "");
    let body = programs(&["right 40"]).to_string();
    let begun = server.ask("POST /v1/jobs", &[&bearer(TOKEN)], &body);
    let job = begun.header("location").unwrap().to_owned();
    let unknown = format!("/v1/jobs/{}", "0".repeat(32));
    let heads = ["GET", "DELETE"].map(|method| format!("{method} {job}"));
    let is_hidden = |server: &Server| {
        for head in &heads {
            let stolen = ask(server, OTHER, head);
            let missing = ask(server, OTHER, &head.replace(&job, &unknown));
            // The refusal does not tell whether there is such a job.
            let stolen = (stolen.refused(404), stolen.body);
            assert_eq!(stolen, (missing.refused(404), missing.body));
        }
    };
    is_hidden(&server);
    let waited = format!("{}?wait=25", heads[0]);
    let done = ask(&server, TOKEN, &waited).json();
    assert_eq!(done["results"][0]["gflops"], 40.0, "{done}");
    drop(server);
    let server = shared(place.path());
    is_hidden(&server);
    assert_eq!(ask(&server, TOKEN, &heads[0]).json(), done);
    // A service without tokens is none of the token's.
    drop(server);
    let server = Server::start(place.path(), Options::default());
    assert_eq!(server.get(&job).refused(404), "not-found");
}

#[test]
fn only_its_token_withdraws_a_job() {
    let place = tempfile::tempdir().unwrap();
    let (open, mut options) = gate();
    options.token = Some("0123456789abcdef\nfedcba9876543210\n");
    let server = Server::start(place.path(), options);
    let begin = |sources: &[&str]| {
        let body = programs(sources).to_string();
        let begun = server.ask("POST /v1/jobs", &[&bearer(TOKEN)], &body);
        begun.header("location").unwrap().to_owned()
    };
    let first = begin(&["right 1"]);
    let second = begin(&["right 2", "right 3"]);
    wait_until(|| server.service.waiting() == (3, true));
    let delete = format!("DELETE {second}");
    let stolen = server.ask(&delete, &[&bearer(OTHER)], "");
    assert_eq!(stolen.refused(404), "not-found");
    assert_eq!(server.service.waiting(), (3, true));
    for _ in 0..2 {
        // The second time there is nothing left to withdraw.
        let withdrawn = server.ask(&delete, &[&bearer(TOKEN)], "");
        assert_eq!(withdrawn.status, 200, "{withdrawn:?}");
        let state = withdrawn.json();
        assert_eq!(state["status"], "done", "{state}");
        let results = state["results"].as_array().unwrap();
        assert_eq!(column(results, "reason"), ["shutdown"; 2]);
        assert_eq!(column(results, "reward"), [json!(null), json!(null)]);
    }
    assert_eq!(server.service.waiting(), (1, true));
    open.send(()).unwrap();
    let waited = format!("GET {first}?wait=25");
    let done = server.ask(&waited, &[&bearer(TOKEN)], "").json();
    assert_eq!(done["status"], "done", "{done}");
    assert_eq!(*server.seen.lock().unwrap(), ["right 1"]);
}

#[test]
fn nobody_answers_in_the_session_of_somebody_else() {
    let place = tempfile::tempdir().unwrap();
    let server = shared(place.path());
    let ask = |token: &str, head: &str, body: &Value| {
        server.ask(head, &[&bearer(token)], &body.to_string())
    };
    let reset = json!({ "problem": "dgemm", "episode_id": "run-1", "max_steps": 3 });
    assert_eq!(ask(TOKEN, "POST /reset", &reset).status, 200);
    let step =
        json!({ "action": { "source": "right 40" }, "episode_id": "run-1", "request_id": "r" });
    let stolen = ask(OTHER, "POST /step", &step);
    let stolen = (stolen.refused(404), stolen.body);
    let unknown = json!({ "action": { "source": "right 40" }, "episode_id": "run-2" });
    let unknown = ask(OTHER, "POST /step", &unknown);
    // The refusal does not tell whether there is such a session.
    assert_eq!(stolen, (unknown.refused(404), unknown.body));
    let state = "GET /state?episode_id=run-1";
    assert_eq!(ask(OTHER, state, &json!({})).refused(404), "not-found");
    assert!(server.seen.lock().unwrap().is_empty());
    // A session of the same name is another session.
    assert_eq!(ask(OTHER, "POST /reset", &reset).status, 200);
    let mine = ask(TOKEN, "POST /step", &step).json();
    assert_eq!(mine["observation"]["step_count"], 1);
    assert_eq!(ask(OTHER, state, &json!({})).json()["step_count"], 0);
    // Nor does a task of KernelGYM show to others.
    let task = json!({ "task_id": "task-1", "reference_code": "dgemm", "kernel_code": "right 40" });
    assert_eq!(ask(TOKEN, "POST /evaluate", &task).status, 200);
    for path in ["status", "results"] {
        let head = format!("GET /{path}/task-1");
        assert_eq!(ask(TOKEN, &head, &json!({})).status, 200);
        assert_eq!(ask(OTHER, &head, &json!({})).refused(404), "not-found");
    }
}

#[test]
fn a_client_has_so_many_sessions_and_no_more() {
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        gyms: crate::gyms::Limits {
            of_holder: 2,
            ..Default::default()
        },
        ..Options::default()
    };
    let server = Server::start(place.path(), options);
    let state = |id: &str| server.get(&format!("/state?episode_id={id}")).status;
    for id in ["a", "b", "c"] {
        let reset = json!({ "problem": "dgemm", "episode_id": id });
        assert_eq!(server.post("/reset", &reset).status, 200);
    }
    assert_eq!(["a", "b", "c"].map(state), [404, 200, 200]);
}

#[test]
fn no_name_is_a_path() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("folder");
    let server = Server::start(&folder, Options::default());
    for path in [
        "/v1/problems/..%2F..%2F..%2Fetc%2Fpasswd",
        "/v1/problems/%2Fetc%2Fpasswd",
        "/v1/problems/%2e%2e",
        "/v1/problems/dgemm%00",
        "/v1/problems/dgemm%2F",
        "/v1/problems/../../etc/passwd",
        "/v1/jobs/..%2F..%2Fkeys",
        "/v1/jobs/%2e%2e",
        "/status/..%2F..%2Fetc%2Fpasswd",
        "/results/..%2F..%2Fetc%2Fpasswd",
        "/state?episode_id=..%2F..%2Fetc%2Fpasswd",
        "//etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
    ] {
        let reply = server.get(path);
        assert_eq!(reply.refused(404), "not-found", "{path}");
        assert!(!reply.body.contains("root:"), "{path}: {reply:?}");
    }
    for name in [
        "../problems/dgemm",
        "/etc/passwd",
        "dgemm/../dgemm",
        "dgemm\0",
        ".",
        "~",
    ] {
        let kernelgym = json!({ "task_id": "t", "reference_code": name, "kernel_code": "right 1" });
        let nemo_gym = json!({ "problem": name, "response": {} });
        let slime = json!({ "prompt": "p", "response": "r", "label": name });
        for (path, body) in [
            (
                "/v1/evaluate",
                json!({ "candidates": [{ "problem": name, "source": "right 1" }] }),
            ),
            ("/v1/slime", slime),
            ("/evaluate", kernelgym),
            ("/verify", nemo_gym),
            ("/reset", json!({ "problem": name })),
        ] {
            let reply = server.post(path, &body);
            assert_eq!(reply.refused(422), "invalid", "{path}: {name:?}");
        }
    }
    assert!(server.seen.lock().unwrap().is_empty());
    // The ids of clients are names in memory, and no file has them.
    let id = "../../outside";
    let reset = json!({ "problem": "dgemm", "episode_id": id });
    assert_eq!(server.post("/reset", &reset).status, 200);
    let task = json!({ "task_id": id, "reference_code": "dgemm", "kernel_code": "right 1" });
    assert_eq!(server.post("/evaluate", &task).status, 200);
    let beside = std::fs::read_dir(place.path()).unwrap();
    assert_eq!(beside.count(), 1);
}

#[test]
fn no_log_and_no_answer_has_a_token() {
    let place = tempfile::tempdir().unwrap();
    let log = Log::default();
    let options = Options {
        token: Some(TOKEN),
        log: Some(log.clone()),
        ..Options::default()
    };
    let mut server = Server::start(place.path(), options);
    let (right, wrong) = (bearer(TOKEN), bearer(OTHER));
    let mut answers = String::new();
    for headers in [&[right.as_str()][..], &[wrong.as_str()], &[]] {
        for head in [
            "POST /v1/evaluate".to_owned(),
            format!("GET /v1/problems/{TOKEN}x"),
            "GET /metrics".to_owned(),
            "GET /v1/openapi.json".to_owned(),
        ] {
            let reply = server.ask(&head, headers, &programs(&["wrong"]).to_string());
            answers.push_str(&reply.body.replace(&format!("{TOKEN}x"), ""));
        }
    }
    // Connections that fail are logged, whatever they sent.
    answers += &client::broken_requests(server.address, "/v1/evaluate", TOKEN);
    server.stop();
    let logged = log.text();
    assert!(logged.contains("a connection failed"), "{logged}");
    for secret in [TOKEN, OTHER] {
        assert!(!logged.contains(secret), "{logged}");
        assert!(!answers.contains(secret), "{answers}");
    }
}
