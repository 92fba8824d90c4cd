//! Spans really reach a collector: a listener of the test receives the requests and decodes them.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

/// Answers every request with 200 and hands over path and body.
fn collector() -> (String, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.unwrap());
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                    let path = line.split(' ').nth(1).unwrap().to_owned();
                    let mut length = 0;
                    loop {
                        let mut header = String::new();
                        reader.read_line(&mut header).unwrap();
                        if header.trim().is_empty() {
                            break;
                        }
                        let (name, value) = header.split_once(':').unwrap();
                        if name.eq_ignore_ascii_case("content-length") {
                            length = value.trim().parse().unwrap();
                        }
                        if name.eq_ignore_ascii_case("content-type") {
                            assert_eq!(value.trim(), "application/x-protobuf");
                        }
                    }
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).unwrap();
                    reader
                        .get_mut()
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                        .unwrap();
                    let _ = sender.send((path, body));
                }
            });
        }
    });
    (address, receiver)
}

#[test]
fn spans_are_exported_and_flushed_when_the_guard_goes() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run.log");
    let (endpoint, requests) = collector();
    // Inside a runtime, like in the program.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let guard = flopsmith_telemetry::init(flopsmith_telemetry::Options {
            log_level: "debug".to_owned(),
            json: true,
            log_file: Some(log.clone()),
            otlp_endpoint: Some(format!("{endpoint}/")),
            service_name: "flopsmith-test".to_owned(),
        })
        .unwrap();
        assert!(guard.exports());
        let task = tracing::info_span!(target: "flopsmith_test", "task", id = "r-s1-g0");
        let headers = task.in_scope(|| {
            tracing::info!(target: "flopsmith_test", "a line for the log");
            flopsmith_telemetry::inject()
        });
        assert_eq!(headers.len(), 1);
        drop(task);
        let again = flopsmith_telemetry::init(flopsmith_telemetry::Options::default());
        assert!(matches!(again, Err(flopsmith_telemetry::Error::Twice(_))));
        drop(guard);
    });

    let (path, body) = requests.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(path, "/v1/traces");
    let spans = ExportTraceServiceRequest::decode(&body[..]).unwrap();
    let resource = &spans.resource_spans[0];
    let attributes = &resource.resource.as_ref().unwrap().attributes;
    assert!(attributes.iter().any(|a| a.key == "service.name" && format!("{:?}", a.value).contains("flopsmith-test")));
    let process = std::process::id().to_string();
    assert!(
        attributes
            .iter()
            .any(|a| a.key == "service.instance.id" && format!("{:?}", a.value).contains(&process))
    );
    let sent: Vec<_> = resource.scope_spans.iter().flat_map(|s| &s.spans).collect();
    let names: Vec<_> = sent.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["task"]);
    let hexadecimal =
        |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };

    let text = std::fs::read_to_string(&log).unwrap();
    let own = text
        .lines()
        .filter(|l| l.contains(r#""target":"flopsmith_test""#));
    assert_eq!(own.count(), 1, "a span is no line of the log: {text}");
    let line = text
        .lines()
        .find(|l| l.contains("a line for the log"))
        .unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["span"]["id"], "r-s1-g0");
    assert_eq!(line["trace_id"], hexadecimal(&sent[0].trace_id));
    assert_eq!(line["span_id"], hexadecimal(&sent[0].span_id));
}
