//! The trace of a real run at a collector: from each task to its outcomes, and from the gradient step to its samples.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::Value;

use crate::one_core::on_one_core;
use crate::quick;

/// A collector, and the spans that it got. It hands over a body before it answers, so that all spans are there once the
/// sender has ended.
fn collector() -> (String, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, bodies) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let sender = sender.clone();
            std::thread::spawn(move || serve(stream.unwrap(), &sender));
        }
    });
    (endpoint, bodies)
}

fn serve(stream: TcpStream, bodies: &mpsc::Sender<Vec<u8>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request).unwrap_or(0) == 0 {
            return;
        }
        let mut length: usize = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            let Some((name, value)) = header.split_once(':') else {
                break;
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0u8; length];
        reader.read_exact(&mut body).unwrap();
        if request.starts_with("POST /v1/traces ") {
            bodies.send(body).unwrap();
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        reader.get_mut().write_all(answer).unwrap();
    }
}

/// Every span by trace and span id.
struct Spans(HashMap<(Vec<u8>, Vec<u8>), Span>);

impl Spans {
    fn read(bodies: impl Iterator<Item = Vec<u8>>) -> Self {
        let requests = bodies.map(|b| ExportTraceServiceRequest::decode(&b[..]).unwrap());
        let spans = requests
            .flat_map(|request| request.resource_spans)
            .flat_map(|resource| resource.scope_spans)
            .flat_map(|scope| scope.spans);
        Self(
            spans
                .map(|s| ((s.trace_id.clone(), s.span_id.clone()), s))
                .collect(),
        )
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Span> {
        self.0.values().filter(move |s| s.name == name)
    }

    fn get(&self, trace: &[u8], span: &[u8]) -> Option<&Span> {
        self.0.get(&(trace.to_vec(), span.to_vec()))
    }

    /// Names from the root of the span's trace down to the span.
    fn lineage<'a>(&'a self, mut span: &'a Span) -> Vec<&'a str> {
        let mut names = vec![span.name.as_str()];
        while !span.parent_span_id.is_empty() {
            let parent = self.get(&span.trace_id, &span.parent_span_id);
            span = parent.expect("every parent was sent");
            names.insert(0, span.name.as_str());
        }
        names
    }
}

fn attribute<'a>(span: &'a Span, key: &str) -> Option<&'a str> {
    let found = span.attributes.iter().find(|a| a.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Attribute::StringValue(text) => Some(text.as_str()),
        _ => None,
    }
}

/// Outcomes of the run, without second measurements.
fn outcomes(runs: &Path) -> Vec<Value> {
    let folder = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap();
    let text = std::fs::read_to_string(folder.path().join("outcomes.jsonl")).unwrap();
    let all = text
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap());
    all.filter(|outcome| !id(outcome).contains("-m")).collect()
}

fn id(outcome: &Value) -> &str {
    outcome["candidate"]["id"].as_str().unwrap()
}

#[test]
fn one_trace_from_task_to_outcome_and_links_from_the_gradient_step() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let (endpoint, bodies) = collector();
    let mut command = Command::new(env!("CARGO_BIN_EXE_flopsmith"));
    command
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .stdin(Stdio::null())
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env_remove("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        .env_remove("FLOPSMITH_OTLP_ENDPOINT")
        .env("FLOPSMITH_WAIT", "0")
        // The collector is on this machine, so no proxy may be used.
        .env("NO_PROXY", "127.0.0.1")
        .args(["train", "examples/dgemm.toml", "--format", "json", "--runs"])
        .arg(&runs);
    for set in [
        "tasks=1",
        "group_size=2",
        "evaluate_tasks=1",
        "max_steps=1",
        &format!("generator.model={}", quick::starter().display()),
    ] {
        command.args(["--set", set]);
    }
    command.args(quick::SETTINGS.iter().flat_map(|set| ["--set", set]));
    quick::on(&mut command);
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let spans = Spans::read(bodies.try_iter());
    let outcomes = outcomes(&runs);
    assert_eq!(outcomes.len(), 6, "two before, two in the step, two after");

    for outcome in &outcomes {
        let noted = spans
            .named("archive")
            .find(|s| attribute(s, "candidate") == Some(id(outcome)))
            .expect("the archive notes each outcome");
        let lineage = spans.lineage(noted);
        assert_eq!(lineage[..3], ["task", "generate", "compile"], "{outcome}");
        let verdict = &outcome["verdict"];
        if verdict["type"] == "measured" {
            assert_eq!(attribute(noted, "verdict"), Some("measured"));
            if verdict["measurement"]["reused"] == false {
                assert_eq!(lineage[3..], ["verify", "time", "archive"], "{outcome}");
            }
        }
    }

    let steps: Vec<&Span> = spans.named("train").collect();
    assert_eq!(steps.len(), 1, "one gradient step");
    assert!(steps[0].parent_span_id.is_empty());
    let linked: BTreeSet<&str> = steps[0]
        .links
        .iter()
        .map(|link| {
            let decided = spans.get(&link.trace_id, &link.span_id).unwrap();
            assert_eq!(spans.lineage(decided)[..2], ["task", "generate"]);
            attribute(decided, "candidate").unwrap()
        })
        .collect();
    let trained = outcomes
        .iter()
        .filter(|o| o["candidate"]["purpose"] == "train");
    assert_eq!(linked, trained.map(id).collect::<BTreeSet<&str>>());
    assert_eq!(linked.len(), 2);
}
