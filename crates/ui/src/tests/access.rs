//! Tokens, addresses, and the end of the window.

use std::io::Read;

use flopsmith_test_support::client::{broken_requests, drip, large_bodies};

use super::*;

const SECRET: &str = "0123456789abcdef";
/// No token of a window.
const OTHER: &str = "fedcba9876543210";
/// The secret as a password, with an empty name.
const PASSWORD: &str = "OjAxMjM0NTY3ODlhYmNkZWY=";

#[test]
fn a_window_with_a_token_shows_nothing_without_it() {
    let place = runs();
    let window = Window::open(place.path(), Some(SECRET));
    for path in ["/", "/ui.css", "/runs/r", "/runs/r/events", "/nothing"] {
        let reply = window.get(path);
        assert_eq!(reply.status, 401, "{path}");
        assert!(
            reply.head.contains("www-authenticate: basic"),
            "{}",
            reply.head
        );
    }
    let bearer = format!("Host: example.org\r\nAuthorization: Bearer {SECRET}\r\n");
    assert_eq!(window.ask("/runs/r", &bearer).status, 200);
    let basic = format!("Authorization: Basic {PASSWORD}\r\n");
    assert_eq!(window.ask("/ui.js", &basic).status, 200);
    drop(window);
    let window = Window::open(place.path(), None);
    assert_eq!(window.ask("/", "Host: example.org\r\n").status, 403);
    assert_eq!(window.get("/ui.css").status, 200);
}

#[test]
fn no_log_and_no_page_has_a_token() {
    let place = runs();
    let log = Log::default();
    let options = Options {
        token: Some(SECRET),
        log: Some(log.clone()),
        ..Options::default()
    };
    let window = Window::with(place.path(), options);
    let mut pages = String::new();
    for (given, status) in [
        (format!("Bearer {SECRET}"), 200),
        (format!("Basic {PASSWORD}"), 200),
        (format!("Bearer {OTHER}"), 401),
        (format!("Basic {OTHER}"), 401),
    ] {
        let headers = format!("Host: localhost\r\nAuthorization: {given}\r\n");
        for path in ["/", "/runs/r", "/runs/r/programs/1"] {
            let reply = window.ask(path, &headers);
            assert_eq!(reply.status, status, "{path}: {given}");
            pages += &reply.body;
        }
    }
    // Connections that fail are logged, whatever they sent.
    pages += &broken_requests(window.address, "/runs/r", SECRET);
    drop(window);
    let logged = log.text();
    assert!(logged.contains("a connection failed"), "{logged}");
    for secret in [SECRET, OTHER, PASSWORD] {
        assert!(!logged.contains(secret), "{logged}");
        assert!(!pages.contains(secret), "{pages}");
    }
}

#[test]
fn slow_clients_and_large_bodies_are_not_waited_for() {
    let place = runs();
    let options = Options {
        patience: Duration::from_millis(300),
        ..Options::default()
    };
    let window = Window::with(place.path(), options);
    // One client sends nothing, and one its header byte by byte.
    let mut idle = connect(window.address);
    let text = drip(window.address, "GET / HTTP/1.1\r\nHost: ", b'x');
    assert!(!text.contains(" 200 "), "{text}");
    assert_eq!(idle.read(&mut [0; 16]).unwrap(), 0);
    // No page reads a body, so its length and pace do not matter.
    for (head, status) in [
        ("GET /runs/r", 200),
        ("POST /runs/r", 405),
        ("POST /nothing", 404),
    ] {
        for reply in large_bodies(window.address, head, 1000) {
            assert_eq!(reply.status, status, "{head}: {}", reply.body);
        }
    }
    let head = "GET /icon.svg HTTP/1.0\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n";
    let text = drip(window.address, head, b' ');
    assert!(text.contains(" 200 "), "{text}");
    assert_eq!(window.get("/").status, 200);
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let plan = Plan {
        runs: "runs".into(),
        cache: None,
        listen: "0.0.0.0:0".parse().unwrap(),
        token: None,
        nats: None,
    };
    let error = execute(plan).unwrap_err();
    assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
    assert!(error.to_string().contains("--token-file"), "{error:#}");
}

#[test]
fn quotas_of_tokens_are_refused() {
    let plan = Plan {
        runs: "runs".into(),
        cache: None,
        // Nobody can listen there.
        listen: "192.0.2.1:0".parse().unwrap(),
        token: Some(Token::new("0123456789abcdef 5/day").unwrap()),
        nats: None,
    };
    let error = execute(plan).unwrap_err();
    assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
    assert!(error.to_string().contains("quotas"), "{error:#}");
}

#[test]
fn events_end_with_the_window() {
    let place = runs();
    let window = Window::open(place.path(), None);
    let mut events = window.send("/runs/r/events", "Host: localhost\r\n");
    let mut begin = Vec::new();
    while !String::from_utf8_lossy(&begin).contains("retry:") {
        let mut bytes = [0; 256];
        let read = events.read(&mut bytes).unwrap();
        assert!(read > 0);
        begin.extend_from_slice(&bytes[..read]);
    }
    assert!(String::from_utf8_lossy(&begin).contains("text/event-stream"));
    window.stopping.cancel();
    let mut rest = Vec::new();
    events.read_to_end(&mut rest).unwrap();
    assert!(!String::from_utf8_lossy(&rest).contains("data:"));
}
