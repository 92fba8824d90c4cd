//! Lines of a text log name their trace, if they have one.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_telemetry::{Options, extract, init, inject};

#[test]
fn a_line_within_a_span_names_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run.log");
    // No collector has to receive the spans.
    let guard = init(Options {
        log_level: "info".to_owned(),
        json: false,
        log_file: Some(log.clone()),
        otlp_endpoint: Some("http://127.0.0.1:9".to_owned()),
        service_name: "flopsmith-test".to_owned(),
    })
    .unwrap();
    tracing::warn!("nowhere");
    let span = tracing::info_span!(target: "flopsmith_test", "task", id = "r-s1-g0");
    let headers = span.in_scope(|| {
        tracing::warn!("somewhere");
        inject()
    });
    drop(span);
    let place = extract(headers.iter().map(|(k, v)| (k.as_str(), v.as_str())));
    let text = std::fs::read_to_string(&log).unwrap();
    let line = |word| text.lines().find(|line| line.contains(word)).unwrap();
    let ids = format!(
        " trace_id={} span_id={}",
        place.trace_id().unwrap(),
        place.span_id().unwrap()
    );
    assert!(line("somewhere").ends_with(&ids), "{text}");
    assert!(line("nowhere").ends_with("nowhere"), "{text}");
    // The log names the spans that could not be sent; this test ignores these lines.
    drop(guard);
}
