//! The service over real connections, with a judge that follows a script instead of measuring.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause, Question, UnknownCause};
use flopsmith_reward::Reward;
use flopsmith_test_support::client::{self, Reply, wait_until};
use flopsmith_test_support::{Log, infrastructure, measured, wrong};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::program::{Judged, Program};
use crate::wire::ReferenceSpeeds;

mod against;
mod agents;
mod crowds;
mod gyms;
mod hostile;
mod modules;
mod quotas;
mod sockets;
mod storage;

/// Everything that a test waits for comes long before this.
const LIMIT: Duration = Duration::from_secs(30);
const TOKEN: &str = "0123456789abcdef";
/// The header of the seconds until a job is expected to be done.
const EXPECTED_WAIT: &str = "flopsmith-expected-wait";

/// Decides by the text of a program before its comment: `right N` makes N GFLOPS, `jail` meets a broken jail, `broken` does not compile
/// and is quoted, `gpu` needs a GPU, all others are wrong.
struct Script {
    seen: Arc<Mutex<Vec<String>>>,
    /// If there is one, each evaluation waits for a message.
    gate: Option<Receiver<()>>,
}

impl Judge for Script {
    fn judge(&mut self, program: &Program) -> Judged {
        if let Some(gate) = &self.gate
            && gate.recv_timeout(LIMIT).is_err()
        {
            let cause = InfrastructureCause::Shutdown;
            return Judged::failed(Failure::infrastructure(cause, "the test ended"));
        }
        self.seen.lock().unwrap().push(program.source.clone());
        let words = before_comment(&program.source);
        let verdict = match words.strip_prefix("right ").map(str::parse) {
            Some(Ok(gflops)) => measured(gflops),
            Some(Err(_)) => panic!("no number in {words}"),
            None if words == "jail" => infrastructure(InfrastructureCause::Jail),
            None if words == "gpu" => {
                let why = "verified, not timed: needs a GPU";
                Failure::unknown(UnknownCause::NotTimed, why).into()
            }
            None if words == "broken" => {
                let quoted = program.source.as_str();
                Failure::candidate(CandidateFault::CompileError, quoted).into()
            }
            None => wrong(),
        };
        Judged {
            verdict,
            reference: Some(ReferenceSpeeds {
                id: "r".into(),
                gflops: 1.0,
                peak_gflops: 80.0,
                measured_unix_ms: 1,
                log_se: 0.004,
                converged: words != "right 2",
                machine_busy: (words == "right 3").then(|| "core 1 is used".to_owned()),
            }),
            circumstances: Some(Circumstances::of_machine("here")),
            ..Judged::failed(Failure::candidate(CandidateFault::Format, ""))
        }
    }
}

fn before_comment(source: &str) -> &str {
    source.split("//").next().unwrap_or_default().trim()
}

/// Explains each program, after noting it as seen; a program `broken` does not compile, and `jail` meets a broken jail.
fn explain(seen: &Arc<Mutex<Vec<String>>>) -> Explain {
    let seen = Arc::clone(seen);
    Arc::new(
        move |question: Question, _: Language, _: &Arc<Problem>, source: &str| {
            seen.lock().unwrap().push(format!("{question:?} {source}"));
            match before_comment(source) {
                "broken" => Err(Failure::candidate(CandidateFault::CompileError, source)),
                "jail" => Err(Failure::infrastructure(InfrastructureCause::Jail, source)),
                _ => Ok(format!("{question:?} of {source}")),
            }
        },
    )
}

/// How a server of a test differs from others.
struct Options {
    token: Option<&'static str>,
    gate: Option<Receiver<()>>,
    most_body: usize,
    most_waiting: usize,
    patience: Duration,
    /// The budget of agents.
    limits: Limits,
    /// The machine that the service believes to be on; programs are measured `here`.
    machine: &'static str,
    /// The limits on sessions.
    gyms: crate::gyms::Limits,
    /// Takes the log of the threads that answer.
    log: Option<Log>,
    /// Why no program for a module can be evaluated.
    missing: Option<&'static str>,
    /// Free bytes that the folder's file system must have for a job to begin.
    least_free: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            gate: None,
            most_body: 1 << 20,
            most_waiting: 1000,
            patience: LIMIT,
            limits: Limits::default(),
            machine: "here",
            gyms: crate::gyms::Limits::default(),
            log: None,
            missing: None,
            least_free: 0,
        }
    }
}

struct Server {
    address: SocketAddr,
    service: Arc<Service>,
    seen: Arc<Mutex<Vec<String>>>,
    /// Ends when the connections have ended.
    connections: Option<std::thread::JoinHandle<()>>,
    worker: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    fn start(folder: &Path, options: Options) -> Self {
        listen::allow_connections();
        let stopping = CancellationToken::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        let service = Service::open(
            Journal::open(folder)
                .unwrap()
                .with_least_free(options.least_free),
            Arc::new(Cache::open(folder).unwrap()),
            Catalog::new(vec![root.clone(), root.join("polybench")]),
            Box::new(move |_| Some(Circumstances::of_machine(options.machine))),
            Reward::default(),
            options.most_waiting,
            stopping,
        );
        let missing = move |problem: &Problem| {
            let needed = options.missing.filter(|_| !problem.states_work());
            needed.map(str::to_owned)
        };
        let service = service.unwrap().with_tools(Box::new(missing));
        let service = Arc::new(service);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let judge = Script {
            seen: Arc::clone(&seen),
            gate: options.gate,
        };
        let worker = super::start(&service, Box::new(judge), CancellationToken::new()).unwrap();
        let app = App {
            service: Arc::clone(&service),
            token: options
                .token
                .map(|token| Arc::new(Token::new(token).unwrap())),
            bodies: Bodies::within(options.most_body, options.patience, 1 << 28),
            tools: Tools::new(Arc::clone(&service), options.limits, explain(&seen)),
            gyms: Arc::new(crate::gyms::Shared::new(options.gyms)),
        };
        let (bound, address) = channel();
        let served = Arc::clone(&service);
        let connections = std::thread::spawn(move || {
            // A log is that of one thread.
            let mut builder = match &options.log {
                Some(_) => tokio::runtime::Builder::new_current_thread(),
                None => tokio::runtime::Builder::new_multi_thread(),
            };
            let _log = options.log.map(tracing::subscriber::set_default);
            let runtime = builder.worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
                bound.send(listener.local_addr().unwrap()).unwrap();
                let limits = listen::Limits {
                    header: options.patience,
                    write: options.patience,
                    ..listen::Limits::default()
                };
                let stopping = served.stopping().clone();
                let connected = move || served.metrics.connected();
                let gyms = Arc::clone(&app.gyms);
                listen::serve(listener, http::router(app), stopping, limits, connected).await;
                gyms.ended().await;
            });
        });
        Self {
            address: address.recv_timeout(LIMIT).unwrap(),
            service,
            seen,
            connections: Some(connections),
            worker: Some(worker),
        }
    }

    fn connect(&self) -> TcpStream {
        client::connect(self.address)
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

    /// Stops as a signal would.
    fn stop(&mut self) {
        self.service.stopping().cancel();
        self.service.wake();
        let threads = [self.worker.take(), self.connections.take()];
        for thread in threads.into_iter().flatten() {
            thread.join().unwrap();
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

trait Details {
    fn lines(&self) -> Vec<Value>;
    fn header(&self, name: &str) -> Option<&str>;
    /// The kind of its problem details.
    fn refused(&self, status: u16) -> String;
}

impl Details for Reply {
    fn lines(&self) -> Vec<Value> {
        let lines = self.body.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let line = format!("\r\n{name}: ");
        let rest = &self.head[self.head.find(&line)? + line.len()..];
        rest.lines().next()
    }

    fn refused(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        let details = self.json();
        assert_eq!(details["status"], status);
        let kind = details["type"].as_str().unwrap();
        kind.strip_prefix("urn:flopsmith:error:")
            .unwrap()
            .to_owned()
    }
}

/// A request with these programs for dgemm.
fn programs(sources: &[&str]) -> Value {
    let candidate = |source: &&str| json!({ "id": format!("of {source}"), "problem": "dgemm", "source": source });
    let candidates: Vec<Value> = sources.iter().map(candidate).collect();
    json!({ "candidates": candidates, "purpose": "screen" })
}

fn gate() -> (Sender<()>, Options) {
    let (open, gate) = channel();
    let options = Options {
        gate: Some(gate),
        ..Options::default()
    };
    (open, options)
}

fn column(answers: &[Value], name: &str) -> Vec<Value> {
    answers.iter().map(|answer| answer[name].clone()).collect()
}

#[test]
fn answers_come_in_the_order_of_the_candidates_and_equal_programs_are_evaluated_once() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let body = programs(&["right 40", "wrong", "right 40", "jail"]);
    let reply = server.post("/v1/evaluate", &body);
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    let answers = reply.lines();
    assert_eq!(column(&answers, "index"), [0, 1, 2, 3]);
    assert_eq!(
        column(&answers, "id"),
        ["of right 40", "of wrong", "of right 40", "of jail"]
    );
    let rewards = [json!(0.5), json!(-0.1), json!(0.5), json!(null)];
    assert_eq!(column(&answers, "reward"), rewards);
    let outcomes = ["measured", "rejected", "measured", "infrastructure"];
    assert_eq!(column(&answers, "outcome"), outcomes);
    assert_eq!(answers[1]["reason"], "wrong_result");
    assert_eq!(answers[3]["reason"], "jail");
    assert_eq!(*server.seen.lock().unwrap(), ["right 40", "wrong", "jail"]);

    let array = server.ask(
        "POST /v1/evaluate",
        &["Accept: application/json"],
        &body.to_string(),
    );
    assert_eq!(array.header("content-type"), Some("application/json"));
    assert_eq!(array.json().as_array().unwrap().len(), 4);
    let job = array.header("location").unwrap().to_owned();
    let state = server.get(&job).json();
    assert_eq!(state["status"], "done");
    assert_eq!(state["results"], array.json());
}

#[test]
fn an_answer_is_sent_as_soon_as_it_is_there() {
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let server = Server::start(place.path(), options);
    let body = programs(&["right 1", "right 2"]).to_string();
    let mut stream = server.send("POST /v1/evaluate", &[], &body);
    open.send(()).unwrap();
    let mut text = String::new();
    while !text.contains("\"of right 1\"") || !text.ends_with('\n') {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "{text}");
        text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    assert!(!text.contains("\"of right 2\""), "{text}");
    open.send(()).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("\"of right 2\""), "{rest}");
}

#[test]
fn a_job_is_asked_for_until_it_is_done() {
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let server = Server::start(place.path(), options);
    let first = server.post("/v1/jobs", &programs(&["right 1"]));
    assert_eq!(first.status, 202, "{first:?}");
    let second = server.post("/v1/jobs", &programs(&["right 2", "right 3"]));
    let state = second.json();
    assert_eq!(state["status"], "queued");
    assert_eq!((&state["total"], &state["done"]), (&json!(2), &json!(0)));
    // One evaluation comes before those of this job.
    assert_eq!(state["position"], 1);
    assert_eq!(second.header("flopsmith-queue-position"), Some("1"));
    let expected = state["expected_wait_seconds"].as_f64().unwrap();
    assert!(expected > 1.0, "{state}");
    // The header has whole seconds, and was written a moment later.
    let told: f64 = second.header(EXPECTED_WAIT).unwrap().parse().unwrap();
    assert!((2.0..=expected.ceil()).contains(&told), "{second:?}");
    let job = second.header("location").unwrap().to_owned();
    assert_eq!(job, format!("/v1/jobs/{}", state["id"].as_str().unwrap()));
    assert_eq!(server.get(&job).status, 202);
    for _ in 0..3 {
        open.send(()).unwrap();
    }
    let done = server.get(&format!("{job}?wait=25"));
    assert_eq!(done.status, 200, "{done:?}");
    let state = done.json();
    assert_eq!(state["status"], "done");
    assert_eq!(state["position"], Value::Null);
    assert_eq!(done.header(EXPECTED_WAIT), None);
    let results = state["results"].as_array().unwrap();
    assert_eq!(column(results, "gflops"), [2.0, 3.0]);

    assert_eq!(server.get("/v1/jobs/0123").refused(404), "not-found");
    let unknown = format!("/v1/jobs/{}", "0".repeat(32));
    assert_eq!(server.get(&unknown).refused(404), "not-found");
    for wrong in ["soon", "-1", "NaN", "inf"] {
        let reply = server.get(&format!("{job}?wait={wrong}"));
        assert_eq!(reply.refused(400), "malformed", "{wrong}");
    }
}

#[test]
fn a_key_makes_two_requests_one() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let post = |key: &str, source: &str| {
        let body = programs(&[source]).to_string();
        let key = format!("Idempotency-Key: {key}");
        server.ask("POST /v1/jobs", &[key.as_str()], &body)
    };
    let first = post("a", "jail").json()["id"].clone();
    assert_eq!(post("a", "jail").json()["id"], first);
    assert_ne!(post("b", "jail").json()["id"], first);
    let refused = post("a", "right 1");
    assert_eq!(refused.refused(409), "key-reused");
    assert_eq!(refused.json()["job"], first);
    assert_eq!(post("", "jail").refused(400), "malformed");
    assert_eq!(post(&"k".repeat(256), "jail").refused(400), "malformed");
    // Both routes share the keys.
    let body = programs(&["jail"]).to_string();
    let reply = server.ask("POST /v1/evaluate", &["Idempotency-Key: a"], &body);
    assert_eq!(Some(reply.header("flopsmith-job").unwrap()), first.as_str());
}

#[test]
fn requests_with_one_key_at_the_same_time_are_one_job() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let body = programs(&["jail"]).to_string();
    let jobs: BTreeSet<String> = std::thread::scope(|scope| {
        let ask = || server.ask("POST /v1/jobs", &["Idempotency-Key: one"], &body);
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
        let replies = threads.into_iter().map(|thread| thread.join().unwrap());
        replies
            .map(|reply| reply.json()["id"].to_string())
            .collect()
    });
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    let job = jobs.first().unwrap().trim_matches('"');
    let done = server.get(&format!("/v1/jobs/{job}?wait=25")).json();
    assert_eq!(done["status"], "done", "{done}");
    assert_eq!(server.seen.lock().unwrap().len(), 1);
}

#[test]
fn a_service_with_a_token_answers_nobody_else() {
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        token: Some(TOKEN),
        ..Options::default()
    };
    let server = Server::start(place.path(), options);
    for path in [
        "/v1/problems",
        "/metrics",
        "/v1/openapi.json",
        "/v1/jobs/x",
        "/no/such/path",
    ] {
        let reply = server.get(path);
        assert_eq!(reply.refused(401), "unauthorized", "{path}");
        assert_eq!(reply.header("www-authenticate"), Some("bearer"));
    }
    let body = programs(&["right 1"]).to_string();
    for header in [
        "Authorization: Bearer 0123456789abcdeg",
        "Authorization: 0123456789abcdef",
    ] {
        let reply = server.ask("POST /v1/evaluate", &[header], &body);
        assert_eq!(reply.refused(401), "unauthorized");
    }
    assert!(server.seen.lock().unwrap().is_empty());
    assert_eq!(server.get("/v1/health").status, 200);
    let header = format!("Authorization: Bearer {TOKEN}");
    let reply = server.ask("POST /v1/evaluate", &[&header], &body);
    assert_eq!(reply.status, 200, "{reply:?}");
    let metrics = server.ask("GET /metrics", &[&header], "").body;
    assert!(metrics.contains("status=\"401\""), "{metrics}");
    assert!(!metrics.contains(TOKEN), "{metrics}");
}

#[test]
fn a_page_in_a_browser_gets_nothing() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    // Its own host name may lead to loopback.
    let mut stream = server.connect();
    stream
        .write_all(b"GET /v1/problems HTTP/1.0\r\nHost: attacker.example\r\n\r\n")
        .unwrap();
    assert_eq!(Reply::read(stream).refused(403), "wrong-host");
    // Browsers send such bodies to other hosts without asking these first.
    let body = programs(&["right 1"]).to_string();
    let mut stream = server.connect();
    let request = format!(
        "POST /v1/evaluate HTTP/1.0\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    assert_eq!(Reply::read(stream).refused(415), "wrong-media-type");
    assert!(server.seen.lock().unwrap().is_empty());
}

#[test]
fn a_slow_client_is_not_waited_for() {
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        patience: Duration::from_millis(300),
        ..Options::default()
    };
    let server = Server::start(place.path(), options);
    // The three wait at the same time: for a body that never ends, for a header, and for a request.
    let mut body = server.connect();
    body.write_all(b"POST /v1/evaluate HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{")
        .unwrap();
    let mut header = server.connect();
    header
        .write_all(b"GET /v1/health HTTP/1.1\r\nHost:")
        .unwrap();
    let mut idle = server.connect();
    assert_eq!(Reply::read(body).refused(408), "too-slow");
    let mut text = String::new();
    header.read_to_string(&mut text).unwrap();
    assert!(!text.contains(" 200 "), "{text}");
    assert_eq!(idle.read(&mut [0; 16]).unwrap(), 0);
    assert_eq!(server.get("/v1/health").status, 200);
}

#[test]
fn a_mistake_is_shown_with_its_place() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    for body in [
        "",
        "{",
        "[]",
        "{\"candidates\":1}",
        "{\"candidates\":[],\"budget\":1}",
    ] {
        let reply = server.ask("POST /v1/evaluate", &[], body);
        assert_eq!(reply.refused(400), "malformed", "{body}");
    }
    for (field, value) in [("problem", json!("dgemm")), ("workloads", json!(["n=256"]))] {
        let mut body = programs(&["jail"]);
        body[field] = value;
        let reply = server.post("/v1/evaluate", &body);
        assert_eq!(reply.refused(400), "malformed", "{field}");
        let detail = reply.json()["detail"].to_string();
        let told = format!("`{field}` belongs into each candidate");
        assert!(detail.contains(&told), "{detail}");
    }
    let wrong = |candidates: Value, pointers: &[&str]| {
        let reply = server.post("/v1/evaluate", &json!({ "candidates": candidates }));
        assert_eq!(reply.refused(422), "invalid", "{reply:?}");
        let details = reply.json();
        let errors = details["errors"].as_array().unwrap();
        assert_eq!(column(errors, "pointer"), pointers, "{reply:?}");
        details["errors"][0]["detail"].as_str().unwrap().to_owned()
    };
    wrong(json!([]), &["/candidates"]);
    let many = vec![json!({ "problem": "dgemm", "source": "x" }); wire::MOST_CANDIDATES + 1];
    wrong(json!(many), &["/candidates"]);
    let right = json!({ "problem": "dgemm", "source": "right 1" });
    let unknown = json!({ "problem": "dgem", "source": "x" });
    let said = wrong(json!([right, unknown]), &["/candidates/1/problem"]);
    assert!(said.contains("did you mean `dgemm`"), "{said}");
    let path = json!({ "problem": "../problems/dgemm", "source": "x" });
    wrong(json!([path]), &["/candidates/0/problem"]);
    let size = json!({ "problem": "dgemm", "source": "x", "workloads": ["n=7"] });
    wrong(json!([size]), &["/candidates/0/workloads"]);
    let both = json!({ "problem": "dgemm", "source": "x", "answer": "y" });
    let none = json!({ "problem": "dgemm" });
    wrong(
        json!([both, none]),
        &["/candidates/0/source", "/candidates/1/source"],
    );
    let long = json!({ "problem": "dgemm", "source": "x", "id": "i".repeat(201) });
    wrong(json!([long]), &["/candidates/0/id"]);
    assert!(
        server.seen.lock().unwrap().is_empty(),
        "no part of a wrong request is evaluated"
    );
    let html = server.ask("POST /v1/evaluate", &["Accept: text/html"], "{}");
    assert_eq!(html.refused(406), "not-acceptable");
    assert_eq!(server.get("/v1").refused(404), "not-found");
    let reply = server.get("/v1/evaluate");
    assert_eq!(reply.refused(405), "wrong-method");
    assert_eq!(reply.header("allow"), Some("post"));
}

#[test]
fn a_dry_run_says_what_would_be_done_and_evaluates_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let options = Options {
        most_waiting: 4,
        ..options
    };
    let server = Server::start(place.path(), options);
    let held = server.post("/v1/jobs", &programs(&["right 1"])).json();
    wait_until(|| server.service.waiting() == (1, true));
    let dry = |sources: &[&str]| {
        let mut body = programs(sources);
        body["dry_run"] = json!(true);
        body
    };
    for path in ["/v1/evaluate", "/v1/jobs"] {
        let reply = server.post(path, &dry(&["right 2", "right 2", "wrong"]));
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.header("flopsmith-job"), None);
        let foretold = reply.json();
        let wait = foretold["expected_wait_seconds"].as_f64().unwrap();
        assert!((2.0..=3.0).contains(&wait), "{foretold}");
        let expected = json!({
            "problems": ["dgemm"], "purpose": "screen", "candidates": 3, "evaluations": 2,
            "position": 1, "expected_wait_seconds": wait,
        });
        assert_eq!(foretold, expected);
    }
    // It is refused as the request itself, and leaves its key to that.
    let many = server.post("/v1/evaluate", &dry(&["right 2"; 4]));
    assert_eq!(many.refused(503), "unavailable");
    let unknown = json!({ "candidates": [{ "problem": "dgem", "source": "x" }], "dry_run": true });
    let unknown = server.post("/v1/evaluate", &unknown);
    assert_eq!(unknown.refused(422), "invalid");
    let key = ["Idempotency-Key: k"];
    let first = server.ask("POST /v1/jobs", &key, &dry(&["wrong"]).to_string());
    assert_eq!(first.status, 200, "{first:?}");
    let second = server.ask("POST /v1/jobs", &key, &programs(&["right 3"]).to_string());
    assert_eq!(second.status, 202, "{second:?}");
    for _ in 0..2 {
        open.send(()).unwrap();
    }
    for id in [&held["id"], &second.json()["id"]] {
        let path = format!("/v1/jobs/{}?wait=25", id.as_str().unwrap());
        assert_eq!(server.get(&path).status, 200);
    }
    assert_eq!(*server.seen.lock().unwrap(), ["right 1", "right 3"]);
}

#[test]
fn a_program_is_found_in_an_answer() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let answer = |text: &str| json!({ "problem": "dgemm", "answer": text });
    let body =
        json!({ "candidates": [answer("Sure.\n```c\nright 8\n```\n"), answer("No program.")] });
    let answers = server.post("/v1/evaluate", &body).lines();
    assert_eq!(column(&answers, "id"), ["0", "1"]);
    assert_eq!(column(&answers, "reason"), [json!(null), json!("format")]);
    assert_eq!(column(&answers, "reward"), [0.1, -1.0]);
    assert_eq!(*server.seen.lock().unwrap(), ["right 8\n"]);
}

#[test]
fn a_restart_goes_on_where_the_service_stopped() {
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let mut server = Server::start(place.path(), options);
    let key = "Idempotency-Key: one";
    let body = programs(&["right 1", "right 2", "wrong"]).to_string();
    let mut stream = server.send("POST /v1/evaluate", &[key], &body);
    open.send(()).unwrap();
    let mut text = String::new();
    while !text.contains("\"of right 1\"") {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    // The second evaluation fails because the service stops; that is no result.
    server.service.stopping().cancel();
    drop(open);
    server.stop();
    stream.read_to_string(&mut text).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "urn:flopsmith:error:unavailable");
    let job = last["job"].as_str().unwrap().to_owned();
    drop(server);

    let server = Server::start(place.path(), Options::default());
    let state = server.get(&format!("/v1/jobs/{job}?wait=25")).json();
    assert_eq!(state["status"], "done", "{state}");
    let results = state["results"].as_array().unwrap();
    assert_eq!(
        column(results, "gflops"),
        [json!(1.0), json!(2.0), json!(null)]
    );
    assert_eq!(*server.seen.lock().unwrap(), ["right 2", "wrong"]);
    // The client's second try leads to the same job.
    let again = server.ask("POST /v1/evaluate", &[key], &body);
    assert_eq!(again.header("flopsmith-job"), Some(job.as_str()));
    assert_eq!(again.lines(), *results);
    // And so it does after one more restart, from the folder alone.
    drop(server);
    let server = Server::start(place.path(), Options::default());
    assert_eq!(server.service.unfinished(), 0);
    let again = server.ask("POST /v1/evaluate", &[key], &body);
    assert_eq!(again.lines(), *results);
    assert!(server.seen.lock().unwrap().is_empty());
}

#[test]
fn a_full_queue_takes_no_more() {
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let options = Options {
        most_waiting: 2,
        ..options
    };
    let server = Server::start(place.path(), options);
    assert_eq!(
        server
            .post("/v1/jobs", &programs(&["right 1", "right 2"]))
            .status,
        202
    );
    let full = server.post("/v1/jobs", &programs(&["right 3"]));
    assert_eq!(full.refused(503), "unavailable");
    assert!(full.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    let health = server.get("/v1/health").json();
    assert_eq!(
        (&health["waiting"], &health["unfinished_jobs"]),
        (&json!(2), &json!(1))
    );
    drop(open);
}

#[test]
fn trainers_get_rewards_in_their_own_formats() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let query = |source: &str| format!("prompt\n```c\n{source}\n```<|im_end|>");
    let body = json!({ "query": [query("right 40")], "prompts": ["prompt"], "labels": ["dgemm"] });
    let rewards = server.post("/v1/openrlhf?purpose=screen", &body).json();
    let expected = json!({
        "rewards": [0.5], "scores": [1.0], "extra_logs": { "correct": [1.0], "ratio": [40.0] },
    });
    assert_eq!(rewards, expected);
    let body = json!({ "query": [query("jail")], "prompts": ["prompt"], "labels": [null] });
    let failed = server.post("/v1/openrlhf?problem=dgemm", &body);
    assert_eq!(failed.refused(503), "infrastructure");
    assert_eq!(failed.header("retry-after"), Some("5"));
    let task = "/v1/slime?problem=dgemm&workload=n%3D256&purpose=rank&language=c";
    let slime = |source: &str| {
        let body = json!({ "prompt": "p", "response": query(source), "label": null });
        server.post(task, &body)
    };
    assert_eq!(slime("right 8").body, "0.1");
    assert_eq!(slime("wrong").body, "-0.1");
    assert_eq!(slime("jail").refused(503), "infrastructure");
    let body = json!({ "prompt": "p", "response": "r" });
    assert_eq!(server.post("/v1/slime", &body).refused(422), "invalid");
    assert_eq!(
        server.post("/v1/slime?purpose=fast", &body).refused(400),
        "malformed"
    );
}

#[test]
fn a_trainer_that_asks_again_gets_the_job_that_it_has() {
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let server = Server::start(place.path(), options);
    let body = |source: &str| {
        let query = format!("prompt\n```c\n{source}\n```");
        json!({ "query": [query], "prompts": ["prompt"], "labels": ["dgemm"] }).to_string()
    };
    let ask = |source: &str| server.send("POST /v1/openrlhf", &[], &body(source));
    let first = ask("right 40");
    wait_until(|| server.service.waiting() == (1, true));
    let again = ask("right 40");
    open.send(()).unwrap();
    for reply in [first, again].map(Reply::read) {
        assert_eq!(reply.json()["rewards"], json!([0.5]));
    }
    // This call comes when the evaluation has ended, and begins no other one.
    let third = Reply::read(ask("right 40"));
    assert_eq!(third.json()["rewards"], json!([0.5]));
    assert_eq!(*server.seen.lock().unwrap(), ["right 40\n"]);
    // A failure is no answer: the next call evaluates the program again.
    for _ in 0..2 {
        open.send(()).unwrap();
        assert_eq!(Reply::read(ask("jail")).refused(503), "infrastructure");
    }
    assert_eq!(server.seen.lock().unwrap().len(), 3);
    // The same program to another standard is another question.
    open.send(()).unwrap();
    let url = "POST /v1/openrlhf?purpose=screen";
    let other = server.send(url, &[], &body("right 40"));
    assert_eq!(Reply::read(other).status, 200);
    assert_eq!(server.seen.lock().unwrap().len(), 4);
}

#[test]
fn every_route_of_the_document_is_there() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let document = server.get("/v1/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    for (path, operations) in paths {
        let path = path
            .replace("{name}", "dgemm")
            .replace("{id}", &"0".repeat(32));
        for method in operations.as_object().unwrap().keys() {
            let reply = server.ask(&format!("{} {path}", method.to_uppercase()), &[], "{}");
            assert_ne!(reply.status, 405, "{method} {path}");
            assert!(
                reply.header("flopsmith-version").is_some(),
                "{method} {path}"
            );
            let of_jobs = ["/v1/jobs/", "/status/", "/results/"];
            let is_job = of_jobs.iter().any(|start| path.starts_with(start));
            assert_eq!(reply.status == 404, is_job, "{method} {path}: {reply:?}");
        }
    }
    let problems = server.get("/v1/problems").json();
    let names = column(problems.as_array().unwrap(), "problem");
    assert!(names.contains(&json!("dgemm")), "{names:?}");
    let problem = server.get("/v1/problems/dgemm").json();
    assert_eq!(problem["entry"], "dgemm");
    assert!(
        problem["prompt"].as_str().unwrap().contains("void dgemm("),
        "{problem}"
    );
    assert_eq!(server.get("/v1/problems/dgem").refused(404), "not-found");
    let health = server.get("/v1/health").json();
    assert_eq!(
        (&health["status"], &health["evaluating"]),
        (&json!("ok"), &json!(false))
    );
    let metrics = server.get("/metrics");
    assert!(
        metrics
            .header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text")
    );
    let route = "flopsmith_serve_responses_total{route=\"/v1/problems/{name}\",status=\"404\"} 1";
    assert!(metrics.body.contains(route), "{}", metrics.body);
}

#[test]
fn threads_that_answer_stay_off_the_timed_cores_where_there_are_others() {
    let timed = cores_to_watch(1);
    let answering = cores_to_answer_on(1);
    let allowed = pinning::allowed_cores().len();
    assert_eq!(answering.is_empty(), allowed == 1, "{answering:?}");
    assert!(answering.iter().all(|core| !timed.kernel.contains(core)));
}

#[test]
fn an_address_beyond_this_machine_needs_a_token() {
    let place = tempfile::tempdir().unwrap();
    let plan = Plan {
        listen: "0.0.0.0:0".parse().unwrap(),
        token: None,
        most_body: 1,
        basis: Basis {
            folder: place.path().join("folder"),
            settings: Settings {
                compiler: "gcc".into(),
                threads: 1,
                sanitize: false,
                wait: Duration::ZERO,
                refresh: Duration::ZERO,
            },
            farm: None,
            reward: Reward::default(),
            allow_weaker_jail: false,
            most_waiting: 1,
            keep: Duration::ZERO,
            limits: Limits::default(),
        },
    };
    let error = execute(plan).unwrap_err();
    assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
    assert!(error.to_string().contains("--token-file"), "{error:#}");
    assert!(!place.path().join("folder").exists());
}
