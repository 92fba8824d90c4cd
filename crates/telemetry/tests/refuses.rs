//! Wrong options give one clear error each, and nothing is set up.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_telemetry::{Error, Options, init};

#[test]
fn wrong_options_are_named() {
    let error = init(Options {
        log_level: "flopsmith=loud".to_owned(),
        ..Options::default()
    })
    .unwrap_err();
    assert!(error.to_string().contains("`flopsmith=loud`"), "{error}");

    let folder = tempfile::tempdir().unwrap();
    let log_file = Some(folder.path().join("no/such/folder/run.log"));
    let error = init(Options {
        log_file,
        ..Options::default()
    })
    .unwrap_err();
    assert!(matches!(error, Error::LogFile { .. }), "{error}");

    let otlp_endpoint = Some("http://not a url".to_owned());
    let error = init(Options {
        otlp_endpoint,
        ..Options::default()
    })
    .unwrap_err();
    assert!(matches!(error, Error::Exporter { .. }), "{error}");
}

/// A missing collector shows later.
#[test]
fn a_collector_may_be_reached_over_https() {
    let otlp_endpoint = Some("https://127.0.0.1:1".to_owned());
    let started = init(Options {
        otlp_endpoint,
        ..Options::default()
    });
    assert!(started.is_ok(), "{:?}", started.err());
}
